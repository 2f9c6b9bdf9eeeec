//! Debian's kernels that multiboot starts.

use std::fs;
use std::path::Path;

use crate::guest::{packages, run_other};
use crate::harness::{Verdict, tests};

tests!(gnu_mach_runs_its_bootstrap_task, xen_runs_linux_as_its_first_domain);

/// The exit status of a run that ends at `--max-instructions`.
const INSTRUCTIONS: i32 = 122;
/// The exit status of a guest whose processors are all halted for good.
const HALTED: i32 = 120;

/// A 32-bit program of one page at 8048000h that calls GNU Mach, by the call gate 7, and would run
/// into UD2 after that. System V ABI, figures 4-3 and 5-1.
fn task() -> Vec<u8> {
    const CODE: [u8; 9] = [0x9A, 0, 0, 0, 0, 7, 0, 0x0F, 0x0B];
    let halves = |halves: &[u16]| halves.iter().flat_map(|half| half.to_le_bytes()).collect();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let parts: [Vec<u8>; 5] = [
        b"\x7FELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec(),
        halves(&[2, 3]),                     // an executable, for the 80386
        words(&[1, 0x804_8054, 0x34, 0, 0]), // version, entry, program headers
        halves(&[0x34, 0x20, 1, 0, 0, 0]),   // sizes and numbers
        words(&[1, 0, 0x804_8000, 0x804_8000, 0x54 + 9, 0x1000, 5, 0x1000]), // PT_LOAD, R and X
    ];
    [parts.concat(), CODE.to_vec()].concat()
}

/// GNU Mach is an ELF of 64 bits with a multiboot header. It comes as far as it can: its bootstrap
/// task runs and calls it, and the amd64 kernel of 2022 has UD2 in the place of its system calls'
/// entry. (It is PUSHF, CLD, PUSH RAX, PUSH 0, UD2 there.)
fn gnu_mach_runs_its_bootstrap_task() -> Verdict {
    let packages = packages()?;
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mach-task");
    fs::write(&program, task()).expect("a program");
    let kernel = packages.path("boot/gnumach-1.8-486");
    let module = format!("{} $(task-create) $(task-resume)", program.display());
    let options = [
        ["--cpu", "k8"],
        ["--mem", "64M"],
        ["--max-instructions", "200000000"],
        ["--append", "console=com0"],
        ["--module", &module],
        ["--kernel", kernel.to_str().expect("a path in UTF-8")],
    ];
    let (status, log) = run_other("mach", options.as_flattened(), "");
    let log = String::from_utf8_lossy(&log);
    assert_eq!(status, Some(INSTRUCTIONS), "{log}");
    for wanted in [
        "GNU Mach 1.8+git20221224-486",
        "biosmem: 000000000000100000:000000000004000000, available", // 1 MiB to 64 MiB
        "1 multiboot modules",
        "mach-task: Kernel Invalid opcode trap, eip 0x4101343d",
    ] {
        assert!(log.contains(wanted), "{wanted}\n{log}");
    }
    Ok(())
}

/// Xen, with Debian's Linux as its first domain: a paravirtual one, whose kernel runs at CPL 3 and
/// whose every system call, fault and interrupt is Xen's. That kernel is not made for a first domain
/// and has no console there but the kernel's own messages.
fn xen_runs_linux_as_its_first_domain() -> Verdict {
    let packages = packages()?;
    let root = packages.root(
        "echo domain-$((6*7)) on $(cat /sys/hypervisor/type) >/dev/kmsg\n\
         halt -f",
    );
    let initrd = Path::new(env!("CARGO_TARGET_TMPDIR")).join("domain-initrd");
    fs::write(&initrd, root.bytes().expect("an archive")).expect("an initrd");
    let kernel = packages.path("boot/xen-4.17-amd64");
    let domain = format!("{} earlyprintk=xen,keep", packages.kernel.display());
    let options = [
        ["--cpu", "k8"],
        ["--append", "console=com1 com1=115200,8n1 noreboot"],
        ["--module", &domain],
        ["--module", initrd.to_str().expect("a path in UTF-8")],
        ["--kernel", kernel.to_str().expect("a path in UTF-8")],
    ];
    let (status, log) = run_other("xen", options.as_flattened(), "");
    let log = String::from_utf8_lossy(&log).replace('\r', "");
    assert_eq!(status, Some(HALTED), "{log}");
    for wanted in ["(XEN) Bootloader: vpmu", "domain-42 on xen\n", "(XEN) Hardware Dom0 halted: "] {
        assert!(log.contains(wanted), "{wanted}\n{log}");
    }
    // It finds the registers that override CPUID's features, which it expects of this family.
    assert!(!log.contains("levelling caps"), "{log}");
    Ok(())
}
