//! A processor with a vector unit in 64-bit mode, and the memory of the cases.

use x86_cpu::{
    block::Translations,
    bus::{After, Bus, CpuidResult, RdpmcRequest, Refused, Uncounted},
    cpu::Cpu,
    descriptor::{DescriptorTable, Segment},
    features::Features,
    handover::Attempt,
    observe::{Counting, Cx},
    run::Exit,
    timing::Budget,
};

use crate::{
    memory::Memory,
    state::{self, ARENA, Access, Fault, PAGE, PAGES, Registers},
};

const PML4: u64 = 0x1000;
const TABLE: u64 = 0x4000;
const IDT: u64 = 0x5000;
const GDT: u64 = 0x6000;
const TSS: u64 = 0x7000;
const HANDLERS: u64 = 0x8000;
const STACK: u64 = 0xb000;
/// Instructions are executed in these pages.
pub(crate) const CODE: u64 = 0x1_0000;
pub(crate) const CODE_PAGES: u64 = 4;
const RAM: usize = 0x6_0000;
/// A page whose physical address has no memory behind it.
pub(crate) const DEVICE: u64 = 0x5_0000;
const BEYOND: u64 = 0x10_0000;
const CS: u8 = 1;
const FS: u8 = 4;
const GS: u8 = 5;

/// Remembers what SPFLT asked for.
#[derive(Default)]
struct Outside {
    preference: Option<bool>,
}

impl Bus for Outside {
    fn update_counters(&mut self, uncounted: Uncounted<'_>) {
        *uncounted.observed.facts = x86_cpu::observe::Facts::default();
    }
    fn spflt(&mut self, _: u64, enabled: bool) -> After {
        self.preference = Some(enabled);
        After::Leave
    }
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
    fn rdpmc(&mut self, _: RdpmcRequest, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        Err(Refused)
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

pub(crate) struct Machine {
    cpu: Cpu,
    memory: Memory,
    outside: Outside,
    translations: Translations<Counting>,
    task_switched: bool,
}

impl Machine {
    pub(crate) const FEATURES: Features =
        Features { vpu: true, knc: true, long_mode: true, ..Features::I486 };

    pub(crate) fn new() -> Self {
        Self::with(Self::FEATURES)
    }

    /// A machine whose processor has another instruction set.
    pub(crate) fn with(features: Features) -> Self {
        let memory = Memory::new(RAM);
        let mut machine = Self {
            cpu: Cpu::new(features),
            memory,
            outside: Outside::default(),
            translations: Translations::new(),
            task_switched: false,
        };
        machine.tables();
        machine.set_task_switched(false);
        machine
    }

    fn tables(&mut self) {
        for level in 0..3 {
            let at = PML4 + level * PAGE;
            self.write(at, &((at + PAGE) | 3).to_le_bytes());
        }
        for page in 0..RAM as u64 / PAGE {
            let address = page * PAGE;
            let rights = if (ARENA..ARENA + PAGES * PAGE).contains(&address) {
                match state::access(address) {
                    Access::Writable => 3,
                    Access::ReadOnly => 1,
                    Access::Absent => 0,
                }
            } else {
                3
            };
            self.write(TABLE + 8 * page, &(address | rights).to_le_bytes());
        }
        self.write(TABLE + DEVICE / PAGE * 8, &(BEYOND | 3).to_le_bytes());
        // A 64-bit interrupt gate to a handler of its own for each vector, on the first stack of the table.
        for vector in 0..32 {
            let handler = HANDLERS + 16 * vector;
            let gate = handler & 0xffff | 8 << 16 | 1 << 32 | 0x8e << 40;
            self.write(IDT + 16 * vector, &gate.to_le_bytes());
            self.write(handler, &[0xf4]);
        }
        self.write(GDT + 8, &0x00af_9b00_0000_ffff_u64.to_le_bytes());
        self.write(TSS + 36, &STACK.to_le_bytes());
        self.cpu.idtr = DescriptorTable { base: IDT, limit: 0x1ff };
        self.cpu.gdtr = DescriptorTable { base: GDT, limit: 15 };
        self.cpu.tr = Segment { selector: 0x38, base: TSS, limit: 0x67, attributes: 0x8b };
    }

    /// CR0.TS.
    fn set_task_switched(&mut self, set: bool) {
        // PE, NE, WP, PG; PAE; LME, LMA.
        self.cpu.set_control(0x8001_0021 | u64::from(set) << 3, PML4, 0x20, 0x500);
        let code = Segment { selector: 8, base: 0, limit: u32::MAX, attributes: 0xa09b };
        self.cpu.set_segment(CS, code);
        self.task_switched = set;
    }

    pub(crate) fn write(&self, address: u64, bytes: &[u8]) {
        assert!(self.memory.ram.write_bytes(address, bytes));
    }

    pub(crate) fn read(&self, address: u64, bytes: &mut [u8]) {
        assert!(self.memory.ram.read_bytes(address, bytes));
    }

    /// Virtual time.
    pub(crate) fn time(&self) -> u64 {
        self.cpu.time
    }

    /// What SPFLT asked for since this was last called.
    pub(crate) fn take_preference(&mut self) -> Option<bool> {
        self.outside.preference.take()
    }

    pub(crate) fn load(&mut self, r: &Registers) {
        if self.task_switched != r.task_switched {
            self.set_task_switched(r.task_switched);
        }
        for (n, value) in (0..).zip(r.zmm) {
            self.cpu.set_zmm(n, value);
        }
        for (n, value) in (0..).zip(r.k) {
            self.cpu.set_mask(n, value);
        }
        for (n, value) in (0..).zip(r.gpr) {
            self.cpu.set_gpr(n, value);
        }
        for (n, base) in [FS, GS].into_iter().zip(r.bases) {
            self.cpu.set_segment(n, Segment { base, ..Segment::default() });
        }
        self.cpu.set_vxcsr(r.vxcsr);
        self.cpu.set_rflags(r.rflags);
        self.cpu.rip = r.rip;
    }

    pub(crate) fn store(&self) -> Registers {
        Registers {
            zmm: std::array::from_fn(|n| self.cpu.zmm(n as u8)),
            k: std::array::from_fn(|n| self.cpu.mask(n as u8)),
            gpr: std::array::from_fn(|n| self.cpu.gpr(n as u8)),
            bases: [FS, GS].map(|n| self.cpu.segment(n).base),
            vxcsr: self.cpu.vxcsr(),
            rflags: self.cpu.rflags(),
            rip: self.cpu.rip,
            task_switched: self.task_switched,
        }
    }

    /// Executes instructions up to the HLT at an address.
    pub(crate) fn run_to(&mut self, halt: u64) -> Registers {
        let observer = Counting::default();
        let mut cx = Cx { bus: &mut self.outside, ram: &self.memory.ram, observer };
        self.cpu.halted = false;
        let budget = Budget { steps: 1000, ..Budget::until(u64::MAX) };
        let exit = self.cpu.run(&mut cx, &mut self.translations, budget);
        assert_eq!((exit, self.cpu.rip), (Exit::Halt, halt + 1));
        self.cpu.halted = false;
        Registers { rip: halt, ..self.store() }
    }

    /// Executes one instruction. A fault leaves RIP and the flags at the instruction: it is not delivered,
    /// or its frame is looked at.
    pub(crate) fn execute(&mut self, cached: bool) -> (Registers, Option<Fault>) {
        let observer = Counting::default();
        let mut cx = Cx { bus: &mut self.outside, ram: &self.memory.ram, observer };
        if !cached {
            let fault = match self.cpu.attempt(&mut cx, &mut self.translations) {
                Attempt::Done => None,
                Attempt::Faulted(exception) => Some((exception.vector, exception.code)),
                other => panic!("{other:?}"),
            };
            let page = self.cpu.cr2 & !(PAGE - 1);
            let fault = fault.map(|(vector, code)| Fault {
                vector,
                code,
                page: (vector == 14).then_some(page),
            });
            return (self.store(), fault);
        }
        let budget = Budget { steps: 1, ..Budget::until(u64::MAX) };
        self.cpu.run(&mut cx, &mut self.translations, budget);
        let mut r = self.store();
        if !(HANDLERS..HANDLERS + 0x200).contains(&r.rip) {
            return (r, None);
        }
        let vector = ((r.rip - HANDLERS) / 16) as u8;
        let has_code = matches!(vector, 10..=14);
        // Below the stack's top: SS, RSP, RFLAGS, CS, RIP and the code.
        let word = |n: u64| {
            let mut bytes = [0; 8];
            self.read(STACK - 8 * n, &mut bytes);
            u64::from_le_bytes(bytes)
        };
        r.gpr[4] = word(2);
        r.rflags = word(3);
        r.rip = word(5);
        let fault = Fault {
            vector,
            code: has_code.then(|| word(6) as u16),
            page: (vector == 14).then_some(self.cpu.cr2 & !(PAGE - 1)),
        };
        (r, Some(fault))
    }
}
