//! What no hardware does, between two runs: for who tests what a guest makes of hardware that lies.
//!
//! On the software engine. What was changed is part of the machine's state from then on.

use pmu_model::MsrAccess;

use crate::machine::Machine;

/// RDMSR (SDM volume 2).
const RDMSR: [u8; 2] = [0x0F, 0x32];

impl Machine {
    /// Has a processor that is right behind RDMSR find another value in EDX and EAX, as in 64-bit mode, where the upper
    /// halves of RDX and RAX are zero; false, and nothing, if it is elsewhere.
    pub fn answer_rdmsr_with(&mut self, vcpu: usize, value: u64) -> bool {
        const RAX: u8 = 0;
        const RDX: u8 = 2;
        let Some(vcpu) = self.vcpus.get_mut(vcpu) else { return false };
        let (mut before, cpu, ram) = ([0; 2], &mut vcpu.cpu, self.memory.ram());
        // It does not cross a page in any kernel: whoever looks for it there misses none.
        let walk = cpu.look_up(ram, cpu.rip.wrapping_sub(RDMSR.len() as u64));
        let is_read = walk.is_some_and(|walk| ram.read_bytes(walk.physical, &mut before));
        if !is_read || before != RDMSR {
            return false;
        }
        cpu.set_gpr(RAX, value & 0xFFFF_FFFF);
        cpu.set_gpr(RDX, value >> 32);
        true
    }

    /// Has a register of a processor's PMU change by itself; false if it has none, or not with this value.
    pub fn change_register(&mut self, vcpu: usize, msr: u32, value: u64) -> bool {
        let Some(vcpu) = self.vcpus.get_mut(vcpu) else { return false };
        vcpu.pmu.write_msr(msr, value) == MsrAccess::Done(())
    }

    /// Sends a processor's local APIC the interrupt of a counter that has not overflowed.
    pub fn send_pmi(&mut self, vcpu: usize) {
        if vcpu < self.vcpus.len() {
            self.board.chipset.irq.pmi(vcpu);
        }
    }

    /// Lets so many instructions pass between overflows and their interrupts from now on, whatever the machine was made
    /// with.
    pub fn set_skid(&mut self, instructions: u64) {
        self.board.skid = instructions;
    }
}
