//! Small guests on this host's KVM whose RDPMC, SPFLT and whatever KVM cannot emulate the software
//! CPU completes. Each guest halts at its end; its registers and memory are compared with what the
//! manual says that the instructions do.

mod emulation;
mod events;
mod frames;
mod guest_debug;
mod idt;

use std::result::Result;

use iced_x86::code_asm::*;
use kvm_ioctls::VmFd;
use x86_cpu::bus::{After, Bus, CpuidResult, RdpmcRequest, Refused, Uncounted};
use x86_cpu::cpu::Cpu;
use x86_cpu::descriptor::{DescriptorTable, Segment};
use x86_cpu::features::Features;
use x86_cpu::timing::Budget;

use super::*;
use crate::boot::memory::RamLayout;
use crate::engine::kvm::run_page::{self, Exit};
use crate::engine::kvm::slots;
use crate::engine::kvm::transfer::tests::{support, vcpu};
use crate::memory::Memory;

const GDT: u64 = 0x1000;
const IDT: u64 = 0x2000;
const TSS: u64 = 0x3000;
const HANDLERS: u64 = 0x4000;
const OTHER_IDT: u64 = 0x6000;
const CODE: u64 = 0x8000;
const USER_CODE: u64 = 0xa000;
const TABLES: u64 = 0x1_0000;
/// How often each vector's handler ran: a word each.
const COUNTS: u64 = 0x1_8000;
const KERNEL_STACK: u64 = 0x2_0000;
const IST_STACK: u64 = 0x2_8000;
const USER_STACK: u64 = 0x3_0000;

const CODE64: u16 = 0x08;
const DATA: u16 = 0x10;
const CODE32: u16 = 0x18;
const USER_CODE32: u16 = 0x20 | 3;
const USER_DATA: u16 = 0x28 | 3;
const USER_CODE64: u16 = 0x30 | 3;
const TASK: u16 = 0x38;

/// What the counters of the test read.
const COUNTER: u64 = 0xab_1234_5678;
const CR4_PCE: u64 = 1 << 8;

/// Counters, and nothing else.
#[derive(Default)]
struct Outside {
    preferences: Vec<bool>,
}

impl Bus for Outside {
    fn mmio_read(&mut self, _: u64, _: u64, _: usize) -> u64 {
        u64::MAX
    }
    fn mmio_write(&mut self, _: u64, _: u64, _: usize, _: u64) {}
    fn io_read(&mut self, _: u64, _: u16, _: usize) -> u32 {
        u32::MAX
    }
    fn io_write(&mut self, _: u64, _: u16, _: usize, _: u32) {}
    fn rdmsr(&mut self, _: u64, _: u32, _: u32, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        Err(Refused)
    }
    fn wrmsr(
        &mut self,
        _: u64,
        _: u64,
        _: u32,
        _: u64,
        _: u32,
        _: Option<Uncounted<'_>>,
    ) -> Result<After, Refused> {
        Err(Refused)
    }
    fn rdpmc(&mut self, r: RdpmcRequest, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        if r.index < 4 && (r.cpl == 0 || r.pce) { Ok(COUNTER) } else { Err(Refused) }
    }
    fn spflt(&mut self, _: u64, enabled: bool) -> After {
        self.preferences.push(enabled);
        After::GoOn
    }
    fn cpuid(&mut self, _: u32, _: u32) -> CpuidResult {
        CpuidResult::default()
    }
    fn tsc(&mut self, time: u64) -> u64 {
        time
    }
    fn cr8(&mut self) -> u8 {
        0
    }
    fn set_cr8(&mut self, _: u64, _: u8) {}
    fn ferr(&mut self) {}
}

struct Guest {
    vcpu: VcpuFd,
    _vm: VmFd,
    memory: Memory,
    cpu: Cpu,
    translations: Translations<Plain>,
    outside: Outside,
    /// Stops at handlers, emulation failures.
    stops: u32,
    failures: u32,
    shutdowns: u32,
    /// KVM could not hold its state.
    left_kvm: bool,
}

fn flat(selector: u16, attributes: u16) -> Segment {
    Segment { selector, base: 0, limit: u32::MAX, attributes }
}

impl Guest {
    fn new() -> Self {
        let (vm, vcpu) = vcpu();
        let mut memory = Memory::new(&RamLayout::new(2 << 20, None).unwrap(), None).unwrap();
        slots::register(&vm, memory.mapping(), None).unwrap();
        let features = Features { knc: true, cx16: true, ..Features::K8 };
        Self {
            vcpu,
            _vm: vm,
            memory,
            cpu: Cpu::new(features),
            translations: Translations::new(),
            outside: Outside::default(),
            stops: 0,
            failures: 0,
            shutdowns: 0,
            left_kvm: false,
        }
    }

    fn write(&self, gpa: u64, bytes: &[u8]) {
        assert!(self.memory.ram().write_bytes(gpa, bytes));
    }

    fn quad(&self, gpa: u64) -> u64 {
        self.memory.ram().read_u64(gpa).unwrap()
    }

    fn count(&self, vector: u8) -> u64 {
        self.quad(COUNTS + 8 * u64::from(vector))
    }

    fn load(&self, address: u64, bits: u32, program: impl FnOnce(&mut CodeAssembler)) {
        let mut assembler = CodeAssembler::new(bits).unwrap();
        program(&mut assembler);
        self.write(address, &assembler.assemble(address).unwrap());
    }

    fn gate(&self, table: u64, vector: u8, bytes: u64, gate: u64) {
        self.write(table + bytes * u64::from(vector), &gate.to_le_bytes());
    }

    /// A gate to the vector's handler.
    fn set_gate(&self, table: u64, vector: u8, kind: u64, ist: u64) {
        let offset = HANDLERS + 64 * u64::from(vector);
        let long = self.cpu.efer() != 0;
        let selector = if long { CODE64 } else { CODE32 };
        let gate = offset & 0xffff | u64::from(selector) << 16 | ist << 32 | kind << 40;
        self.gate(table, vector, if long { 16 } else { 8 }, gate);
    }

    /// Descriptors, tables, and for each vector a handler that counts, skips two bytes and returns.
    fn tables(&mut self, code: Segment) {
        let long = self.cpu.efer() != 0;
        let descriptors: [u64; 9] = [
            0,
            0x00af_9b00_0000_ffff,
            0x00cf_9300_0000_ffff,
            0x00cf_9b00_0000_ffff,
            0x00cf_fb00_0000_ffff,
            0x00cf_f300_0000_ffff,
            0x00af_fb00_0000_ffff,
            0x0000_8b00_3000_0067,
            0,
        ];
        for (n, descriptor) in (0..).zip(descriptors) {
            self.write(GDT + 8 * n, &descriptor.to_le_bytes());
        }
        self.cpu.gdtr = DescriptorTable { base: GDT, limit: 0x4f };
        self.cpu.idtr = DescriptorTable { base: IDT, limit: 0x1ff };
        self.cpu.tr = Segment { selector: TASK, base: TSS, limit: 0x67, attributes: 0x8b };
        self.cpu.ldtr = Segment::default();
        self.cpu.set_segment(seg::CS, code);
        for n in [seg::ES, seg::SS, seg::DS, seg::FS, seg::GS] {
            self.cpu.set_segment(n, flat(DATA, 0xc093));
        }
        self.cpu.set_gpr(4, KERNEL_STACK - 0x100);
        for vector in 0..32 {
            self.set_gate(IDT, vector, 0x8e, 0);
            self.set_handler(vector, if long { 64 } else { 32 });
        }
        self.cpu.rip = CODE;
    }

    fn set_handler(&self, vector: u8, bits: u32) {
        let code = matches!(vector, 8 | 10..=14);
        let skip = if matches!(vector, 2 | 3 | 32..) { 0 } else { 2 };
        let count = (COUNTS + 8 * u64::from(vector)) as u32;
        self.load(HANDLERS + 64 * u64::from(vector), bits, |a| {
            a.inc(dword_ptr(count)).unwrap();
            if bits == 64 {
                a.add(rsp, if code { 8 } else { 0 }).unwrap();
                a.add(qword_ptr(rsp), skip).unwrap();
                a.iretq().unwrap();
            } else {
                a.add(esp, if code { 4 } else { 0 }).unwrap();
                a.add(dword_ptr(esp), skip).unwrap();
                a.iretd().unwrap();
            }
        });
    }

    /// 64-bit mode at privilege 0; the first 2 MiB are mapped for all.
    fn long() -> Self {
        let mut guest = Self::new();
        for (n, entry) in (0..).zip([TABLES + 0x1007, TABLES + 0x2007, 0x87]) {
            guest.write(TABLES + 0x1000 * n, &entry.to_le_bytes());
        }
        guest.cpu.set_control(0x8005_0033, TABLES, 0x620, 0x500);
        guest.tables(flat(CODE64, 0xa09b));
        guest.write(TSS + 4, &KERNEL_STACK.to_le_bytes());
        guest.write(TSS + 36, &IST_STACK.to_le_bytes());
        guest
    }

    /// The same at privilege 3. The program ends with CLI, whose #GP is the last one.
    fn user() -> Self {
        let mut guest = Self::long();
        guest.cpu.set_segment(seg::CS, flat(USER_CODE64, 0xa0fb));
        for n in [seg::ES, seg::SS, seg::DS, seg::FS, seg::GS] {
            guest.cpu.set_segment(n, flat(USER_DATA, 0xc0f3));
        }
        guest.cpu.set_cpl(3);
        guest.cpu.set_gpr(4, USER_STACK);
        guest.cpu.rip = USER_CODE;
        guest.load(HANDLERS + 64 * 13, 64, |a| {
            let mut not_the_last = a.create_label();
            a.inc(dword_ptr(COUNTS as u32 + 8 * 13)).unwrap();
            a.add(rsp, 8).unwrap();
            a.push(rax).unwrap();
            a.mov(rax, qword_ptr(rsp + 8)).unwrap();
            a.cmp(byte_ptr(rax), 0xfa).unwrap();
            a.jne(not_the_last).unwrap();
            a.pop(rax).unwrap();
            a.hlt().unwrap();
            a.set_label(&mut not_the_last).unwrap();
            a.pop(rax).unwrap();
            a.add(qword_ptr(rsp), 2).unwrap();
            a.iretq().unwrap();
        });
        guest
    }

    /// 32-bit protected mode at privilege 0 without paging.
    fn protected() -> Self {
        let mut guest = Self::new();
        guest.cpu.set_control(0x11, 0, 0, 0);
        guest.tables(flat(CODE32, 0xc09b));
        guest
    }

    /// Runs until the guest halts; the software CPU has its state then.
    fn run(&mut self) {
        self.run_with(|_, _| {});
    }

    /// The same; `between` may look at each exit and act on the vCPU.
    fn run_with(&mut self, mut between: impl FnMut(&mut Self, u32)) {
        let support = support();
        let mut state = State::from_kvm(&mut self.vcpu).unwrap();
        state.set_from_cpu(&self.cpu);
        state.to_kvm(&mut self.vcpu).unwrap();
        let mut trap = Trap::new(&mut self.vcpu);
        for exits in 0..1000 {
            between(self, exits);
            trap.arm(&mut self.vcpu, self.memory.ram(), &[]).unwrap();
            let mut shutdown = false;
            let hits = match run_page::enter(&mut self.vcpu).unwrap() {
                Exit::Debug(debug) => Some(debug.dr6),
                Exit::EmulationFailure => None,
                Exit::Shutdown => {
                    shutdown = true;
                    None
                }
                Exit::Io { .. } => continue,
                Exit::Halt => {
                    State::from_kvm(&mut self.vcpu).unwrap().to_cpu(&mut self.cpu);
                    return;
                }
                other => {
                    let text = format!("{other:?}");
                    let regs = self.vcpu.get_regs().unwrap();
                    panic!("{text} at {:#x}, stack {:#x}", regs.rip, regs.rsp);
                }
            };
            let mut state = State::from_kvm(&mut self.vcpu).unwrap();
            if hits.is_none() {
                state.drop_exception();
            }
            state.to_cpu(&mut self.cpu);
            let ram = self.memory.ram();
            let mut context = Cx { bus: &mut self.outside, ram, observer: Plain };
            let (cpu, translations) = (&mut self.cpu, &mut self.translations);
            let attempt = match hits {
                Some(hits) => {
                    self.stops += 1;
                    trap.stopped(hits, &state, cpu, &mut context, translations)
                }
                None if shutdown => {
                    self.shutdowns += 1;
                    shut_down(cpu, &mut context, translations)
                }
                None => {
                    self.failures += 1;
                    execute(cpu, &mut context, translations)
                }
            };
            match attempt {
                Attempt::Done => {}
                Attempt::Halted => return,
                Attempt::Shutdown if shutdown => return,
                other => panic!("{other:?} at {:#x}", self.cpu.rip),
            }
            state.set_from_cpu(&self.cpu);
            if !support.holds(&self.cpu) {
                self.left_kvm = true;
                let exit =
                    self.cpu.run(&mut context, &mut self.translations, Budget::until(u64::MAX));
                assert_eq!(exit, x86_cpu::run::Exit::Halt);
                return;
            }
            state.to_kvm(&mut self.vcpu).unwrap();
        }
        panic!("the guest does not halt: RIP {:#x}", self.cpu.rip);
    }

    /// EDX:EAX.
    fn pair(&self) -> u64 {
        self.cpu.gpr(2) << 32 | self.cpu.gpr(0)
    }
}

/// RDPMC three times, the last of a counter that is not there.
fn three_rdpmc(a: &mut CodeAssembler) {
    a.xor(ecx, ecx).unwrap();
    a.rdpmc().unwrap();
    a.mov(esi, eax).unwrap();
    a.mov(edi, edx).unwrap();
    a.mov(ecx, 3).unwrap();
    a.rdpmc().unwrap();
    a.mov(ecx, 9).unwrap();
    a.rdpmc().unwrap();
}

fn three_rdpmc_are_right(guest: &Guest) {
    assert_eq!((guest.cpu.gpr(6), guest.cpu.gpr(7)), (COUNTER & 0xffff_ffff, COUNTER >> 32));
    assert_eq!(guest.pair(), COUNTER);
}
