//! A PMU behind the MSR exits of KVM, with interrupts on overflow: `cargo run -p pmu-model --example embed`.
//!
//! Here is what a VMM does for the PMU; `guest.rs` is the rest of a VMM, and a guest that programs a counter of
//! a Pentium III. It counts by single steps: slow, exact, and possible on any host.

mod guest;

use guest::{Machine, Result, refuse_msrs};
use kvm_ioctls::{Kvm, VcpuExit};
use pmu_model::{MsrAccess, Personality, Pmu, Signal, SignalSet};

fn main() -> Result<()> {
    let kvm = Kvm::new().map_err(|error| format!("cannot open /dev/kvm: {error}"))?;
    let Machine { vm, vcpu, .. } = &mut Machine::new(&kvm)?;
    let pentium_iii = Personality::by_name("p6").ok_or("no such personality")?;
    // RDMSR and WRMSR of the PMU's registers come to us, whatever KVM knows of them.
    refuse_msrs(vm, pentium_iii.registers.iter().map(|register| register.msr))?;
    // What we can tell. An event that needs another signal can be programmed, and counts zero.
    let fires = SignalSet::of(&[Signal::InsnRetired, Signal::CyclesUnhalted]);
    let mut pmu = Pmu::new(pentium_iii, &fires);
    loop {
        // While no counter is enabled the guest runs at full speed.
        guest::single_step(vcpu, pmu.demand().counting)?;
        match vcpu.run()? {
            VcpuExit::X86Rdmsr(exit) => match pmu.read_msr(exit.index) {
                MsrAccess::Done(value) => *exit.data = value,
                MsrAccess::GpFault | MsrAccess::NotOurs => *exit.error = 1,
            },
            VcpuExit::X86Wrmsr(exit) => match pmu.write_msr(exit.index, exit.data) {
                MsrAccess::Done(()) => {}
                MsrAccess::GpFault | MsrAccess::NotOurs => *exit.error = 1,
            },
            VcpuExit::Debug(_) => {
                // One instruction, at CPL 0, and as good as one cycle.
                let cycle = [(Signal::InsnRetired, 1), (Signal::CyclesUnhalted, 1)];
                let pmis = pmu.cycle(&cycle.into_iter().collect(), 0);
                if !pmis.is_empty() {
                    println!("overflow of counter {:?}", pmis.iter().collect::<Vec<_>>());
                    // What LVTPC of the local APIC says: here, an NMI.
                    vcpu.nmi()?;
                }
            }
            VcpuExit::IoOut(_, data) => {
                println!("the guest's handler reads {}", data[0]);
                return Ok(());
            }
            other => return Err(format!("{other:?}").into()),
        }
    }
}
