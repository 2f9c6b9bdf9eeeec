//! The host's KVM: whether there is one, and what it can do.
//!
//! Everything that the engine asks of the host before the guest runs goes through [`Host`], so that
//! a test can take a capability away and see what is said about it.

use std::ffi::CString;
use std::fmt::Display;
use std::path::Path;

use kvm_bindings::kvm_enable_cap;
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use vmm_sys_util::errno;

use crate::error::{Error, Result};

/// Where KVM is.
pub const DEVICE: &str = "/dev/kvm";
/// `KVM_GET_API_VERSION`: the only one that ever was (KVM API documentation, section 4.1).
const API_VERSION: i32 = 12;

/// Something that a KVM may lack (KVM API documentation, `KVM_CHECK_EXTENSION`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// `KVM_CAP_USER_MEMORY`: guest memory is memory of this process.
    UserMemory,
    /// `KVM_CAP_SET_TSS_ADDR`: room for the real-mode TSS of older processors.
    SetTssAddr,
    /// `KVM_CAP_EXT_CPUID`: CPUID as the personality has it.
    ExtCpuid,
    /// `KVM_CAP_X86_USER_SPACE_MSR`: RDMSR and WRMSR that KVM refuses end in this process.
    UserSpaceMsr,
    /// `KVM_CAP_X86_MSR_FILTER`: which ones KVM refuses.
    MsrFilter,
    /// `KVM_CAP_IMMEDIATE_EXIT`: a processor can be kept from entering the guest.
    ImmediateExit,
    /// `KVM_CAP_SET_GUEST_DEBUG`: breakpoints for the host.
    SetGuestDebug,
    /// `KVM_CAP_VCPU_EVENTS`: pending exceptions and interrupts can be moved.
    VcpuEvents,
    /// `KVM_CAP_DEBUGREGS`: debug registers can be moved.
    DebugRegs,
    /// `KVM_CAP_XSAVE`: x87 and SSE registers can be moved.
    Xsave,
    /// `KVM_CAP_SYNC_REGS`: registers can be moved in the page that is shared.
    SyncRegs,
    /// `KVM_CAP_SREGS2`: page-directory pointers can be moved.
    Sregs2,
    /// `KVM_CAP_READONLY_MEM`: a ROM.
    ReadonlyMem,
    /// `KVM_CAP_IRQCHIP`: interrupt controllers in the kernel.
    Irqchip,
    /// `KVM_CAP_IRQ_ROUTING`: lines lead to the pins that this board has them on.
    IrqRouting,
    /// `KVM_CAP_SIGNAL_MSI`: messages to the kernel's local APICs.
    SignalMsi,
    /// `KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2`: which writes of the guest KVM logs.
    ManualDirtyLogProtect,
    /// `KVM_CAP_MP_STATE`: whether a processor is halted or waits for a start-up IPI.
    MpState,
}

impl Capability {
    /// All that the engine cannot do without, in the order in which they are looked for.
    pub const ALL: [Self; 13] = [
        Self::UserMemory,
        Self::SetTssAddr,
        Self::ExtCpuid,
        Self::UserSpaceMsr,
        Self::MsrFilter,
        Self::ImmediateExit,
        Self::SetGuestDebug,
        Self::VcpuEvents,
        Self::DebugRegs,
        Self::Xsave,
        Self::SyncRegs,
        Self::Sregs2,
        Self::ReadonlyMem,
    ];

    /// What `--irqchip kernel` needs beyond that.
    const FOR_IRQCHIP: [Self; 4] =
        [Self::Irqchip, Self::IrqRouting, Self::SignalMsi, Self::MpState];

    /// Its number, its name, and the first Linux that has it.
    const fn row(self) -> (u32, &'static str, &'static str) {
        use kvm_bindings as kvm;
        match self {
            Self::UserMemory => (kvm::KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY", "2.6.23"),
            Self::SetTssAddr => (kvm::KVM_CAP_SET_TSS_ADDR, "KVM_CAP_SET_TSS_ADDR", "2.6.24"),
            Self::ExtCpuid => (kvm::KVM_CAP_EXT_CPUID, "KVM_CAP_EXT_CPUID", "2.6.25"),
            Self::UserSpaceMsr => {
                (kvm::KVM_CAP_X86_USER_SPACE_MSR, "KVM_CAP_X86_USER_SPACE_MSR", "5.10")
            }
            Self::MsrFilter => (kvm::KVM_CAP_X86_MSR_FILTER, "KVM_CAP_X86_MSR_FILTER", "5.10"),
            Self::ImmediateExit => (kvm::KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT", "4.11"),
            Self::SetGuestDebug => {
                (kvm::KVM_CAP_SET_GUEST_DEBUG, "KVM_CAP_SET_GUEST_DEBUG", "2.6.29")
            }
            Self::VcpuEvents => (kvm::KVM_CAP_VCPU_EVENTS, "KVM_CAP_VCPU_EVENTS", "2.6.33"),
            Self::DebugRegs => (kvm::KVM_CAP_DEBUGREGS, "KVM_CAP_DEBUGREGS", "2.6.35"),
            Self::Xsave => (kvm::KVM_CAP_XSAVE, "KVM_CAP_XSAVE", "2.6.36"),
            Self::SyncRegs => (kvm::KVM_CAP_SYNC_REGS, "KVM_CAP_SYNC_REGS", "4.17"),
            Self::Sregs2 => (kvm::KVM_CAP_SREGS2, "KVM_CAP_SREGS2", "5.14"),
            Self::ReadonlyMem => (kvm::KVM_CAP_READONLY_MEM, "KVM_CAP_READONLY_MEM", "3.7"),
            Self::Irqchip => (kvm::KVM_CAP_IRQCHIP, "KVM_CAP_IRQCHIP", "2.6.20"),
            Self::IrqRouting => (kvm::KVM_CAP_IRQ_ROUTING, "KVM_CAP_IRQ_ROUTING", "2.6.30"),
            Self::SignalMsi => (kvm::KVM_CAP_SIGNAL_MSI, "KVM_CAP_SIGNAL_MSI", "3.5"),
            Self::ManualDirtyLogProtect => {
                let name = "KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2";
                (kvm::KVM_CAP_MANUAL_DIRTY_LOG_PROTECT2, name, "5.0")
            }
            Self::MpState => (kvm::KVM_CAP_MP_STATE, "KVM_CAP_MP_STATE", "2.6.26"),
        }
    }
}

/// What a machine is better off with where its KVM has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Improvement {
    /// `KVM_CAP_PMU_CAPABILITY` with `KVM_PMU_CAP_DISABLE`: KVM has no PMU of its own for the guest.
    /// Where it has one, RDPMC reads its counters and not ours.
    NoPmu,
    /// `KVM_CAP_EXIT_ON_EMULATION_FAILURE`: what KVM cannot emulate at CPL 3 ends here, as at CPL 0,
    /// and not as #UD in the guest.
    ExitOnEmulationFailure,
}

impl Improvement {
    const ALL: [Self; 2] = [Self::NoPmu, Self::ExitOnEmulationFailure];

    /// Its number, and what is to be enabled in it. Both capabilities answer with the arguments that
    /// they take, or with 1 for that argument.
    fn row(self) -> (u32, u32) {
        use kvm_bindings as kvm;
        match self {
            Self::NoPmu => (kvm::KVM_CAP_PMU_CAPABILITY, kvm::KVM_PMU_CAP_DISABLE),
            Self::ExitOnEmulationFailure => (kvm::KVM_CAP_EXIT_ON_EMULATION_FAILURE, 1),
        }
    }
}

/// Of [`Improvement::ALL`], what a KVM that answers `KVM_CHECK_EXTENSION` so is told.
fn improvements(extension: impl Fn(u32) -> i32) -> Vec<kvm_enable_cap> {
    let told = Improvement::ALL.into_iter().map(Improvement::row);
    // An answer below zero is an error.
    let there = told.filter(|&(cap, arg)| u32::try_from(extension(cap)).unwrap_or(0) & arg != 0);
    there
        .map(|(cap, arg)| kvm_enable_cap { cap, args: [arg.into(), 0, 0, 0], ..Default::default() })
        .collect()
}

/// An open KVM that has what the engine needs.
#[derive(Debug)]
pub struct Host {
    kvm: Kvm,
    /// Processors that it creates for one machine; more are refused.
    max_vcpus: usize,
    lacking: Lacking,
}

/// What a test takes away from a host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lacking {
    /// This capability.
    pub capability: Option<Capability>,
    /// The creation of this processor fails.
    pub vcpu: Option<usize>,
}

impl Host {
    /// Opens [`DEVICE`].
    ///
    /// # Errors
    /// If it is not there, may not be opened, or lacks something; the text says what to do.
    pub fn open() -> Result<Self> {
        Self::open_at(Path::new(DEVICE), Lacking::default())
    }

    /// Opens a KVM device elsewhere, or one that lacks something.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_at(path: &Path, lacking: Lacking) -> Result<Self> {
        let name = path.display();
        let c_path = CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(|_| Error::Host(format!("{name} is no file name")))?;
        let kvm = Kvm::new_with_path(c_path).map_err(|e| cannot_open(&name, e))?;
        check(&name, kvm.get_api_version(), |capability| {
            let (number, ..) = capability.row();
            lacking.capability != Some(capability) && kvm.check_extension_raw(number.into()) > 0
        })?;
        let max_vcpus = lacking.vcpu.unwrap_or(kvm.get_max_vcpus());
        Ok(Self { kvm, max_vcpus, lacking })
    }

    /// Whether the interrupt controllers can be in the kernel.
    ///
    /// # Errors
    /// If something is missing for that.
    pub fn check_irqchip(&self) -> Result<()> {
        let missing = Capability::FOR_IRQCHIP.into_iter().find(|&capability| !self.has(capability));
        missing.map_or(Ok(()), |missing| {
            let (_, what, since) = missing.row();
            Err(Error::Host(format!(
                "KVM lacks {what}, which came with Linux {since}: use --irqchip user"
            )))
        })
    }

    /// Whether it has a capability.
    #[must_use]
    pub fn has(&self, capability: Capability) -> bool {
        let (number, ..) = capability.row();
        self.lacking.capability != Some(capability)
            && self.kvm.check_extension_raw(number.into()) > 0
    }

    /// Processors that one machine can have.
    #[must_use]
    pub fn max_vcpus(&self) -> usize {
        self.max_vcpus
    }

    /// The device itself.
    #[must_use]
    pub fn kvm(&self) -> &Kvm {
        &self.kvm
    }

    /// Creates a machine without processors and memory. KVM has no PMU of its own in it and hands
    /// over what it cannot emulate at any privilege level, where it can be told so.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn create_vm(&self) -> Result<VmFd> {
        let refused = |e: errno::Error| {
            Error::Host(format!("KVM refuses to create a machine: {e}")).because(e)
        };
        let vm = self.kvm.create_vm().map_err(refused)?;
        for improvement in improvements(|cap| vm.check_extension_raw(cap.into())) {
            vm.enable_cap(&improvement).map_err(refused)?;
        }
        Ok(vm)
    }

    /// Creates processor `id` of a machine.
    ///
    /// # Errors
    /// If the host refuses.
    pub fn create_vcpu(&self, vm: &VmFd, id: usize) -> Result<VcpuFd> {
        let refused = |why: &dyn Display| {
            Error::Host(format!("KVM refuses to create processor {id}: {why}; try a smaller --smp"))
        };
        if id >= self.max_vcpus {
            return Err(refused(&format_args!("it has {} at most", self.max_vcpus)));
        }
        vm.create_vcpu(id as u64).map_err(|e| refused(&e).because(e))
    }
}

/// Why the device cannot be opened, and what to do.
fn cannot_open(name: &dyn Display, error: errno::Error) -> Error {
    let what_to_do = match error.errno() {
        libc::ENOENT => "load the kvm_intel or kvm_amd module",
        libc::EACCES | libc::EPERM => "ask to be in the group that owns it",
        _ => "see whether the host has KVM at all",
    };
    Error::Host(format!("cannot open {name}: {error}; {what_to_do}, or use --engine soft"))
        .because(error)
}

/// Whether a KVM has what the engine needs.
fn check(name: &dyn Display, version: i32, has: impl Fn(Capability) -> bool) -> Result<()> {
    if version < 0 {
        return Err(Error::Host(format!("{name} is no KVM device; use --engine soft")));
    }
    if version != API_VERSION {
        return Err(Error::Host(format!(
            "{name} has KVM's API version {version} and not {API_VERSION}; use --engine soft"
        )));
    }
    match Capability::ALL.into_iter().find(|&capability| !has(capability)) {
        None => Ok(()),
        Some(missing) => {
            let (_, what, since) = missing.row();
            Err(Error::Host(format!(
                "{name} lacks {what}, which came with Linux {since}; boot a newer kernel, or use \
                 --engine soft"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_line(error: &Error) -> String {
        let text = error.to_string();
        assert!(!text.contains('\n') && text.contains("--engine soft"), "{text}");
        assert_eq!(error.status(), 6);
        text
    }

    #[test]
    fn a_device_that_cannot_be_opened_says_what_to_do() {
        let error = Host::open_at(Path::new("/nonexistent/kvm"), Lacking::default()).unwrap_err();
        let text = one_line(&error);
        assert!(text.starts_with("cannot open /nonexistent/kvm: No such file"), "{text}");
        assert!(text.contains("kvm_amd module"), "{text}");
        let text = one_line(&cannot_open(&DEVICE, errno::Error::new(libc::EACCES)));
        assert!(text.starts_with("cannot open /dev/kvm: Permission denied"), "{text}");
        assert!(text.contains("group"), "{text}");
    }

    /// Any other file answers the request with an error.
    #[test]
    fn another_device_is_no_kvm() {
        let error = Host::open_at(Path::new("/dev/null"), Lacking::default()).unwrap_err();
        assert!(one_line(&error).starts_with("/dev/null is no KVM device"), "{error}");
    }

    #[test]
    fn each_capability_is_needed() {
        assert!(check(&DEVICE, 12, |_| true).is_ok());
        for missing in Capability::ALL {
            let error = check(&DEVICE, 12, |capability| capability != missing).unwrap_err();
            assert!(one_line(&error).contains(missing.row().1), "{error}");
        }
        assert!(one_line(&check(&DEVICE, 11, |_| true).unwrap_err()).contains("version 11"));
    }

    /// Numbers 212 and 204 (`linux/kvm.h`; KVM API documentation, section 8.35, for 212). Bit 0 of
    /// the answer to 212 says that the PMU can be disabled.
    #[test]
    fn a_machine_is_told_what_its_kvm_can_do() {
        let told = |pmu: i32, emulation: i32| -> Vec<_> {
            let extension = |cap| match cap {
                212 => pmu,
                204 => emulation,
                other => panic!("{other} is asked for"),
            };
            improvements(extension).iter().map(|e| (e.cap, e.flags, e.args)).collect()
        };
        let disable_pmu = (212, 0, [1, 0, 0, 0]);
        let exit_on_failure = (204, 0, [1, 0, 0, 0]);
        assert_eq!(told(1, 1), [disable_pmu, exit_on_failure]);
        assert_eq!(told(3, 0), [disable_pmu]);
        assert_eq!(told(0, 1), [exit_on_failure]);
        for nothing in [0, -1] {
            assert_eq!(told(nothing, nothing), []);
        }
        assert_eq!(told(2, 0), [], "another ability of the PMU");
    }

    /// On a real device.
    #[test]
    #[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
    fn what_is_taken_away_is_missed() {
        let open = |lacking| Host::open_at(Path::new(DEVICE), lacking);
        open(Lacking::default()).expect("this test needs /dev/kvm");
        let capability = Some(Capability::MsrFilter);
        let error = open(Lacking { capability, vcpu: None }).unwrap_err();
        assert!(one_line(&error).contains("KVM_CAP_X86_MSR_FILTER"), "{error}");
        let host = open(Lacking { capability: None, vcpu: Some(1) }).unwrap();
        let vm = host.create_vm().unwrap();
        assert!(host.create_vcpu(&vm, 0).is_ok());
        let error = host.create_vcpu(&vm, 1).unwrap_err().to_string();
        assert!(error.starts_with("KVM refuses to create processor 1: "), "{error}");
    }
}
