//! Finds out what this host has that some of the library's tests need, so that they can be reported as
//! ignored where it is missing. The library itself does not look at it, and is the same on every host.
//!
//! * `cfg(host_kvm)`: /dev/kvm can be opened.
//! * `cfg(host_vmx)`, `cfg(host_svm)`: KVM has Intel's or AMD's virtualization beneath. One with neither
//!   (the pagetable kind, module `kvm_pvm`) does not run all that a processor can be in.
//! * `cfg(host_perf)`: a thread can open its clock as a performance counter.
//!
//! That is looked at when the library is built, and again when the file /dev/kvm has changed. A change
//! that cargo does not see, such as a /dev/kvm where there was none, needs `touch vmm/build.rs`.
//!
//! One of the modules with `unsafe`: the standard library has no call that opens a performance counter.

#![allow(unsafe_code)]

use std::ffi::c_ulong;
use std::fs::File;
use std::mem;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_TASK_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use perf_event_open_sys::perf_event_open;

const KVM: &str = "/dev/kvm";
/// Its number, 10, 232 (Linux, `Documentation/admin-guide/devices.txt`).
const KVM_NUMBER: u64 = 10 << 8 | 232;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(host_kvm, host_vmx, host_svm, host_perf)");
    // Cargo takes a file that is missing for one that has changed, and would build the library anew
    // each time.
    if Path::new(KVM).exists() {
        println!("cargo::rerun-if-changed={KVM}");
    }
    if has_kvm() {
        println!("cargo::rustc-cfg=host_kvm");
        if let Some(extension) = virtualization() {
            println!("cargo::rustc-cfg=host_{extension}");
        }
    }
    if has_perf() {
        println!("cargo::rustc-cfg=host_perf");
    }
}

/// Whether /dev/kvm is KVM and can be opened. What it can do is left to the tests.
fn has_kvm() -> bool {
    let device = File::options().read(true).write(true).open(KVM);
    device.and_then(|device| device.metadata()).is_ok_and(|metadata| {
        metadata.file_type().is_char_device() && metadata.rdev() == KVM_NUMBER
    })
}

/// The processor's extension that KVM runs guests with: `vmx` or `svm`, by the names of the flags in
/// `/proc/cpuinfo`.
fn virtualization() -> Option<&'static str> {
    if Path::new("/sys/module/kvm_pvm").exists() {
        return None;
    }
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    ["vmx", "svm"].into_iter().find(|&name| flags.split_whitespace().any(|flag| flag == name))
}

/// Whether this thread can count its time, in the kernel as well, as the tests do.
fn has_perf() -> bool {
    const ANY_CPU: i32 = -1;
    const NO_GROUP: i32 = -1;
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: mem::size_of::<perf_event_attr>() as u32,
        config: PERF_COUNT_SW_TASK_CLOCK.into(),
        ..Default::default()
    };
    attr.set_disabled(1);
    attr.set_exclude_host(1);
    attr.set_exclude_hv(1);
    let flags = c_ulong::from(PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a whole structure of the size that it says; pid 0 is this thread. An event
    // without a ring buffer touches no memory of the process.
    let fd = unsafe { perf_event_open(&raw mut attr, 0, ANY_CPU, NO_GROUP, flags) };
    if fd < 0 {
        return false;
    }
    // SAFETY: the descriptor is new and has no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}
