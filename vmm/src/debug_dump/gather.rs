//! What a dump says of a processor, from the machine's state.

use x86_cpu::cpu::Cpu;
use x86_cpu::effects;
use x86_cpu::features::Features;
use x86_cpu::history::{self, Raised};
use x86_cpu::insn::{Insn, gpr, seg};
use x86_cpu::operation::Operation;
use x86_cpu::stop::{self, vector};

use super::names::Names;
use super::{
    Activity, Delivery, Exception, GaveUp, Instruction, Place, RefusedMsr, Registers, Stack,
    Undefined, VcpuDump,
};
use crate::config::Config;
use crate::engine::soft::Vcpu;
use crate::machine::Machine;
use crate::msr_owners::owners;
use crate::platform::Isa;
use crate::truth::disassembly;
use crate::truth::functions::MNEMONICS;

/// A kernel that checks the processor and gives up halts no more instructions behind CPUID than this: from
/// Linux's last CPUID to its HLT there are 20.
const SOON: u64 = 256;

/// What a dump is gathered from.
pub(super) struct Gathering<'a> {
    pub(super) machine: &'a Machine,
    pub(super) config: &'a Config,
    pub(super) names: &'a Names,
}

impl Gathering<'_> {
    /// What there is to say of a processor.
    pub(super) fn vcpu(&self, id: usize, vcpu: &Vcpu, shut_down: bool) -> VcpuDump {
        let cpu = &vcpu.cpu;
        let activity = if shut_down {
            Activity::ShutDown
        } else if vcpu.waits_for_startup {
            Activity::WaitingForStartup
        } else if cpu.halted {
            Activity::Halted
        } else {
            Activity::Executing
        };
        let code = u32::from(cpu.code_size().bits());
        let (bytes, len) = cpu.code_bytes(self.machine.memory.ram());
        let bytes = &bytes[..usize::from(len)];
        let exceptions = cpu.history.exceptions();
        VcpuDump {
            id,
            activity,
            at: self.place(cpu.segment(seg::CS).selector, cpu.rip, cpu.linear_rip()),
            instruction: (len != 0).then(|| self.instruction(code as u8, bytes, cpu.rip)),
            cpl: cpu.cpl(),
            mode: cpu.mode_name(),
            interrupts_enabled: cpu.interrupts_enabled(),
            instructions: cpu.retired(),
            stack: self.stack(cpu),
            registers: registers(cpu),
            exceptions: exceptions.map(|raised| self.exception(cpu, raised, shut_down)).collect(),
            gave_up: self.gave_up(vcpu, activity),
        }
    }

    fn place(&self, cs: u16, rip: u64, linear: u64) -> Place {
        Place { cs: cs.into(), rip, symbol: self.names.at(linear) }
    }

    fn instruction(&self, bits: u8, bytes: &[u8], rip: u64) -> Instruction {
        let words = disassembly::words(bits, bytes, rip, self.features().vpu);
        Instruction { bytes: disassembly::bytes(&bytes[..words.len]), text: words.text }
    }

    /// What the guest's processor executes.
    fn features(&self) -> Features {
        self.machine.board.platform.features
    }

    fn stack(&self, cpu: &Cpu) -> Stack {
        let linear = cpu.push_linear(u64::from(cpu.code_size().bits()) / 8);
        let ram = self.machine.memory.ram();
        let physical = cpu.look_up(ram, linear).map(|walk| walk.physical);
        Stack {
            ss: cpu.segment(seg::SS).selector.into(),
            rsp: cpu.gpr(gpr::RSP),
            linear,
            physical,
            is_ram: physical.is_some_and(|physical| ram.read_bytes(physical, &mut [0])),
        }
    }

    fn exception(&self, cpu: &Cpu, raised: &Raised, shut_down: bool) -> Exception {
        let stop::Exception { vector, code } = raised.exception;
        let delivery = match raised.delivery {
            history::Delivery::Delivered => Delivery::Delivered,
            history::Delivery::Unseen => Delivery::Unseen,
            history::Delivery::Raised(second, cr2) => Delivery::Failed {
                vector: second.vector,
                name: mnemonic(second.vector),
                error_code: second.code.map(u64::from),
                // Later the tables may have been others.
                why: shut_down.then(|| why_not_delivered(cpu, vector, second, cr2)).flatten(),
            },
        };
        let msr = raised.msr.map(|msr| RefusedMsr {
            index: msr.index.into(),
            written: msr.written,
            owners: owners(msr.index),
        });
        // Without paging that moves it, and in flat segments, which is where there are symbols.
        let at = raised.at.map(|(cs, rip)| self.place(cs, rip, rip));
        Exception {
            vector,
            name: mnemonic(vector),
            error_code: code.map(u64::from),
            cr2: raised.cr2,
            at,
            cpl: raised.cpl,
            delivery,
            msr,
            undefined: self.undefined(raised),
        }
    }

    /// The instruction of a #UD, and what it needs.
    fn undefined(&self, raised: &Raised) -> Option<Undefined> {
        let bytes = &raised.bytes[..usize::from(raised.bytes_len)];
        let (_, rip) = raised.at?;
        if raised.exception.vector != vector::UD || bytes.is_empty() {
            return None;
        }
        let has = |features: Features| {
            let decoded = Insn::decode(features, effects::Mode::new(raised.code), bytes);
            decoded.is_some_and(|(insn, _)| insn.op != Operation::Invalid)
        };
        let distro = Isa::Distro.apply(self.config.platform).features;
        let words = disassembly::words(raised.code.bits(), bytes, rip, self.features().vpu);
        let lacks = !has(self.features());
        Some(Undefined {
            instruction: Instruction {
                bytes: disassembly::bytes(&bytes[..words.len]),
                text: words.text,
            },
            needs: if lacks { words.features } else { vec![] },
            with_distro: lacks && has(distro),
        })
    }

    /// Whether the processor halted right behind CPUID, and what a kernel can have missed there.
    fn gave_up(&self, vcpu: &Vcpu, activity: Activity) -> Option<GaveUp> {
        let cpu = &vcpu.cpu;
        let cpuid = cpu.history.cpuid?;
        // Of those since CPUID, it and HLT are two.
        let instructions_before = (cpu.retired() - cpuid.retired).checked_sub(2)?;
        let lacks = match self.config.isa {
            Isa::Strict => Isa::Distro.adds(self.config.platform),
            Isa::Distro => vec![],
        };
        let is_kernel = self.config.payload.is_kernel();
        let gave_up = activity == Activity::Halted
            && !cpu.interrupts_enabled()
            && instructions_before <= SOON
            && is_kernel
            && !lacks.is_empty();
        gave_up.then(|| GaveUp { cpuid: cpuid.function.into(), instructions_before, lacks })
    }
}

fn registers(cpu: &Cpu) -> Registers {
    let mut gpr = [0; 16];
    (0..).zip(&mut gpr).for_each(|(n, value)| *value = cpu.gpr(n));
    Registers {
        gpr,
        rflags: cpu.rflags(),
        cr0: cpu.cr0(),
        cr2: cpu.cr2,
        cr3: cpu.cr3(),
        cr4: cpu.cr4(),
        efer: cpu.efer(),
        idtr_base: cpu.idtr.base,
        idtr_limit: cpu.idtr.limit,
        gdtr_base: cpu.gdtr.base,
        gdtr_limit: cpu.gdtr.limit,
    }
}

/// The mnemonic of an exception; that of a vector without one is its number.
fn mnemonic(vector: u8) -> &'static str {
    MNEMONICS.get(usize::from(vector)).copied().filter(|name| !name.is_empty()).unwrap_or("#?")
}

/// What was missing to deliver the exception `first`, on whose way `second` was raised; `None` if that is
/// not certain. AMD64 APM volume 2, "Error Codes": bit 1 of an error code says that the selector index, in
/// bits 15:3, is that of the IDT.
fn why_not_delivered(cpu: &Cpu, first: u8, second: stop::Exception, cr2: u64) -> Option<String> {
    const IDT: u16 = 2;
    let bytes = match cpu.mode_name() {
        "real mode" => 4,
        _ if cpu.efer() & 1 << 10 != 0 => 16,
        _ => 8,
    };
    let (base, limit) = (cpu.idtr.base, cpu.idtr.limit);
    let names_gate = bytes == 4
        || second.code.is_some_and(|code| code & IDT != 0 && code >> 3 == u16::from(first));
    let last = u32::from(first) * bytes + bytes - 1;
    match second.vector {
        vector::GP if names_gate && last > u32::from(limit) => {
            Some(format!("the IDT, base {base:x}h and limit {limit:x}h, has no entry {first}"))
        }
        vector::GP if names_gate && bytes != 4 => {
            Some(format!("entry {first} of the IDT at {base:x}h is no interrupt or trap gate"))
        }
        vector::NP if names_gate => {
            Some(format!("entry {first} of the IDT at {base:x}h is not present"))
        }
        vector::PF if cr2.wrapping_sub(base) <= u64::from(limit) => {
            Some(format!("the IDT is at {base:x}h, where no page is mapped"))
        }
        vector::PF if cpu.cpl() == 0 && cpu.stack_linear().wrapping_sub(cr2) <= 128 => {
            Some(format!("the stack is at {cr2:x}h, where no page can be written"))
        }
        _ => None,
    }
}
