//! A processor with some memory, descriptor tables and a handler for every vector.
//!
//! Each handler is one HLT, so a test runs until something has been delivered and then looks at
//! the stack frame.

use iced_x86::code_asm::CodeAssembler;
use x86_cpu::{
    block::{Translated, Translations},
    bus::{After, Bus, CpuidResult, RdpmcRequest, Refused, Uncounted},
    cpu::Cpu,
    descriptor::{DescriptorTable, Segment},
    features::Features,
    handover::Attempt,
    observe::{Counting, Cx, Facts, Observer, Plain},
    run::Exit,
    stop::Exception,
    timing::Budget,
    unwind::Unwound,
};

use crate::memory::Memory;

pub(crate) const GDT: u64 = 0x1000;
pub(crate) const IDT: u64 = 0x2000;
pub(crate) const TSS: u64 = 0x3000;
pub(crate) const HANDLERS: u64 = 0x4000;
pub(crate) const CODE: u64 = 0x8000;
pub(crate) const USER_CODE: u64 = 0xa000;
const SCRATCH: u64 = 0xf000;
const RAM: usize = 2 << 20;
pub(crate) const PML4: u64 = 0x10000;
pub(crate) const DATA: u64 = 0x14000;
pub(crate) const KERNEL_STACK: u64 = 0x2_0000;
pub(crate) const IST1_STACK: u64 = 0x2_8000;
pub(crate) const USER_STACK: u64 = 0x3_0000;

/// Selectors of the descriptors that every machine has.
pub(crate) mod sel {
    pub(crate) const CODE64: u16 = 0x08;
    pub(crate) const DATA: u16 = 0x10;
    pub(crate) const CODE32: u16 = 0x18;
    pub(crate) const USER_CODE32: u16 = 0x20 | 3;
    pub(crate) const USER_DATA: u16 = 0x28 | 3;
    pub(crate) const USER_CODE64: u16 = 0x30 | 3;
    pub(crate) const TSS: u16 = 0x38;
    /// From here on a test has its own.
    pub(crate) const FREE: u16 = 0x48;
}

pub(crate) const RAX: u8 = 0;
pub(crate) const RCX: u8 = 1;
pub(crate) const RDX: u8 = 2;
pub(crate) const RBX: u8 = 3;
pub(crate) const RSP: u8 = 4;
pub(crate) const RSI: u8 = 6;
pub(crate) const RDI: u8 = 7;
pub(crate) const R11: u8 = 11;
pub(crate) const ES: u8 = 0;
pub(crate) const CS: u8 = 1;
pub(crate) const SS: u8 = 2;
pub(crate) const DS: u8 = 3;
pub(crate) const FS: u8 = 4;
pub(crate) const GS: u8 = 5;

pub(crate) const TF: u64 = 1 << 8;
pub(crate) const IF: u64 = 1 << 9;
pub(crate) const NT: u64 = 1 << 14;
pub(crate) const RF: u64 = 1 << 16;
pub(crate) const VM: u64 = 1 << 17;

/// Ports that answer with their number of reads and remember what was written.
#[derive(Default)]
pub(crate) struct Ports {
    pub(crate) reads: u32,
    pub(crate) written: Vec<(u16, usize, u32)>,
    pub(crate) cr8: u8,
    /// User preferences that SPFLT set.
    pub(crate) preferences: Vec<bool>,
    /// Instructions that had retired at each update of the counters.
    pub(crate) counted_at: Vec<u64>,
    /// What is fetched behind the end of RAM.
    pub(crate) code: Vec<u8>,
    /// The facts of all updates of the counters, summed up.
    counted: Facts,
    /// A page that is a device's; MSR 1Bh says where.
    pub(crate) claimed: Option<u64>,
    /// What that device reads as.
    pub(crate) device: Vec<u8>,
    /// What was written to it: offset, size and value.
    pub(crate) stored: Vec<(u64, usize, u64)>,
    /// When it was accessed.
    pub(crate) accessed_at: Vec<u64>,
}

impl Bus for Ports {
    fn update_counters(&mut self, Uncounted { observed, retired, .. }: Uncounted<'_>) {
        let facts = observed.facts;
        add(&mut self.counted, &std::mem::take(facts));
        self.counted_at.push(retired);
    }
    fn spflt(&mut self, _: u64, enabled: bool) -> After {
        self.preferences.push(enabled);
        After::Leave
    }
    fn claims(&self, gpa: u64) -> bool {
        self.claimed == Some(gpa & !0xfff)
    }
    fn mmio_read(&mut self, time: u64, gpa: u64, size: usize) -> u64 {
        if !self.claims(gpa) {
            let at = gpa.wrapping_sub(RAM as u64) as usize;
            return self.code.get(at).map_or(u64::MAX, |&byte| u64::from(byte));
        }
        self.accessed_at.push(time);
        let at = (gpa & 0xfff) as usize;
        let byte = |n| u64::from(self.device.get(at + n).copied().unwrap_or(0));
        (0..size).map(|n| byte(n) << (8 * n)).sum()
    }
    fn mmio_write(&mut self, time: u64, gpa: u64, size: usize, value: u64) {
        if self.claims(gpa) {
            self.accessed_at.push(time);
            self.stored.push((gpa & 0xfff, size, value));
        }
    }
    fn io_read(&mut self, _: u64, _: u16, _: usize) -> u32 {
        self.reads += 1;
        0x1111_1100 + self.reads
    }
    fn io_write(&mut self, _: u64, port: u16, size: usize, value: u32) {
        self.written.push((port, size, value));
    }
    fn rdmsr(
        &mut self,
        _: u64,
        index: u32,
        _: u32,
        uncounted: Option<Uncounted<'_>>,
    ) -> Result<u64, Refused> {
        if let Some(uncounted) = uncounted {
            self.update_counters(uncounted);
        }
        if index == 0x10 { Ok(0x1_0000_0002) } else { Err(Refused) }
    }
    fn wrmsr(
        &mut self,
        _: u64,
        _: u64,
        index: u32,
        value: u64,
        _: u32,
        uncounted: Option<Uncounted<'_>>,
    ) -> Result<After, Refused> {
        if let Some(uncounted) = uncounted {
            self.update_counters(uncounted);
        }
        if index != 0x1b {
            return Err(Refused);
        }
        self.claimed = (value & 0x800 != 0).then_some(value & !0xfff);
        Ok(After::DevicesMoved)
    }
    fn rdpmc(&mut self, r: RdpmcRequest, _: Option<Uncounted<'_>>) -> Result<u64, Refused> {
        if r.index < 4 && (r.cpl == 0 || r.pce) { Ok(0xab_1234_5678) } else { Err(Refused) }
    }
    fn cpuid(&mut self, leaf: u32, subleaf: u32) -> CpuidResult {
        CpuidResult { eax: leaf + 1, ebx: subleaf + 1, ecx: 3, edx: 4 }
    }
    fn tsc(&mut self, time: u64) -> u64 {
        time
    }
    fn cr8(&mut self) -> u8 {
        self.cr8
    }
    fn set_cr8(&mut self, _: u64, value: u8) {
        self.cr8 = value;
    }
    fn ferr(&mut self) {}
}

/// A code, data or system descriptor. `access` is byte 5, `flags` the upper half of byte 6.
pub(crate) fn descriptor(base: u64, limit: u64, access: u64, flags: u64) -> u64 {
    limit & 0xffff
        | (base & 0xff_ffff) << 16
        | access << 40
        | (limit >> 16 & 15) << 48
        | flags << 52
        | (base >> 24 & 0xff) << 56
}

/// A gate. `count` is the parameter count or the IST index.
pub(crate) fn gate(selector: u16, offset: u64, count: u64, access: u64) -> u64 {
    offset & 0xffff
        | u64::from(selector) << 16
        | count << 32
        | access << 40
        | (offset >> 16 & 0xffff) << 48
}

/// A flat segment as the hidden part of a register.
fn flat(selector: u16, attributes: u16) -> Segment {
    Segment { selector, base: 0, limit: u32::MAX, attributes }
}

pub(crate) struct Machine {
    pub(crate) cpu: Cpu,
    pub(crate) memory: Memory,
    pub(crate) ports: Ports,
    pub(crate) facts: Facts,
    translations: Translations<Counting>,
    plain: Translations<Plain>,
    long: bool,
}

impl Machine {
    fn new(long: bool) -> Self {
        let machine = Self {
            cpu: Cpu::new(Features::K8),
            memory: Memory::new(RAM),
            ports: Ports::default(),
            facts: Facts::default(),
            translations: Translations::new(),
            plain: Translations::new(),
            long,
        };
        for vector in 0..256 {
            machine.write(HANDLERS + 16 * vector, &[0xf4]);
        }
        machine
    }

    /// The same with so many bytes for translated code.
    pub(crate) fn with_budget(mut self, bytes: usize) -> Self {
        self.translations = Translations::with_budget(bytes);
        self
    }

    /// Bytes that translated code takes.
    pub(crate) fn translated(&self) -> usize {
        self.translations.cost()
    }

    /// What has been translated under the usual observer and under the other.
    pub(crate) fn translations(&self) -> [Translated; 2] {
        [self.translations.translated(), self.plain.translated()]
    }

    /// How many translated blocks are kept under the usual observer and under the other.
    pub(crate) fn blocks(&self) -> [usize; 2] {
        [self.translations.len(), self.plain.len()]
    }

    /// Real mode as after reset, but for CS, which has base zero.
    pub(crate) fn real() -> Self {
        let mut machine = Self::new(false);
        machine
            .cpu
            .set_segment(CS, Segment { selector: 0, base: 0, limit: 0xffff, attributes: 0x9b });
        machine.cpu.idtr = DescriptorTable { base: 0, limit: 0x3ff };
        for vector in 0..256 {
            machine.write_u32(4 * vector, (HANDLERS + 16 * vector) as u32);
        }
        machine.cpu.set_gpr(RSP, 0x7000);
        machine
    }

    fn tables(&mut self) {
        const G_D: u64 = 0xc;
        const G_L: u64 = 0xa;
        for (selector, access, flags) in [
            (sel::CODE64, 0x9b, G_L),
            (sel::DATA, 0x93, G_D),
            (sel::CODE32, 0x9b, G_D),
            (sel::USER_CODE32, 0xfb, G_D),
            (sel::USER_DATA, 0xf3, G_D),
            (sel::USER_CODE64, 0xfb, G_L),
        ] {
            self.set_descriptor(selector, descriptor(0, 0xf_ffff, access, flags));
        }
        // A busy 32-bit or 64-bit task-state segment.
        self.set_descriptor(sel::TSS, descriptor(TSS, 0x67, 0x8b, 0));
        self.cpu.gdtr = DescriptorTable { base: GDT, limit: 0x1ff };
        self.cpu.tr = Segment { selector: sel::TSS, base: TSS, limit: 0x67, attributes: 0x8b };
        self.cpu.ldtr = Segment::default();
        self.cpu.idtr = DescriptorTable { base: IDT, limit: if self.long { 0xfff } else { 0x7ff } };
        for vector in 0..=255 {
            self.set_gate(vector, 0x8e, 0);
        }
        self.cpu.set_segment(SS, flat(sel::DATA, 0xc093));
        for n in [ES, DS] {
            self.cpu.set_segment(n, flat(sel::DATA, 0xc093));
        }
        for n in [FS, GS] {
            self.cpu.set_segment(n, Segment::default());
        }
        self.cpu.set_gpr(RSP, KERNEL_STACK - 0x100);
        self.cpu.set_rflags(2);
    }

    /// 32-bit protected mode at privilege 0, no paging; SS0:ESP0 is [`KERNEL_STACK`].
    pub(crate) fn protected() -> Self {
        let mut machine = Self::new(false);
        machine.cpu.set_control(0x21, 0, 0, 0);
        machine.tables();
        machine.cpu.set_segment(CS, flat(sel::CODE32, 0xc09b));
        machine.write_u32(TSS + 4, KERNEL_STACK as u32);
        machine.write_u32(TSS + 8, u32::from(sel::DATA));
        machine.write_u32(TSS + 100, 0xffff_0000);
        machine
    }

    /// 64-bit mode at privilege 0; the first two megabytes are mapped for all.
    pub(crate) fn long() -> Self {
        let mut machine = Self::new(true);
        machine.write_u64(PML4, (PML4 + 0x1000) | 7);
        machine.write_u64(PML4 + 0x1000, (PML4 + 0x2000) | 7);
        machine.write_u64(PML4 + 0x2000, 0x87);
        // PE, NE, WP, PG; PAE, OSFXSR; SCE, LME, LMA.
        machine.cpu.set_control(0x8001_0021, PML4, 0x220, 0x501);
        machine.tables();
        machine.cpu.set_segment(CS, flat(sel::CODE64, 0xa09b));
        machine.write_u64(TSS + 4, KERNEL_STACK);
        machine.write_u64(TSS + 36, IST1_STACK);
        machine.write_u32(TSS + 100, 0x68_0000);
        machine
    }

    /// Privilege 3 in the same mode.
    pub(crate) fn at_user(mut self) -> Self {
        let code =
            if self.long { flat(sel::USER_CODE64, 0xa0fb) } else { flat(sel::USER_CODE32, 0xc0fb) };
        self.cpu.set_segment(CS, code);
        for n in [SS, ES, DS] {
            self.cpu.set_segment(n, flat(sel::USER_DATA, 0xc0f3));
        }
        self.cpu.set_cpl(3);
        self.cpu.set_gpr(RSP, USER_STACK);
        self
    }

    pub(crate) fn write(&self, gpa: u64, bytes: &[u8]) {
        assert!(self.memory.ram.write_bytes(gpa, bytes));
    }
    pub(crate) fn write_u16(&self, gpa: u64, value: u16) {
        self.write(gpa, &value.to_le_bytes());
    }
    pub(crate) fn write_u32(&self, gpa: u64, value: u32) {
        self.write(gpa, &value.to_le_bytes());
    }
    pub(crate) fn write_u64(&self, gpa: u64, value: u64) {
        self.write(gpa, &value.to_le_bytes());
    }
    pub(crate) fn read_u16(&self, gpa: u64) -> u16 {
        self.read_u64(gpa) as u16
    }
    pub(crate) fn read_u32(&self, gpa: u64) -> u32 {
        self.read_u64(gpa) as u32
    }
    pub(crate) fn read_u64(&self, gpa: u64) -> u64 {
        let mut bytes = [0; 8];
        assert!(self.memory.ram.read_bytes(gpa, &mut bytes));
        u64::from_le_bytes(bytes)
    }

    pub(crate) fn set_descriptor(&self, selector: u16, raw: u64) {
        self.write_u64(GDT + u64::from(selector & !7), raw);
    }
    pub(crate) fn descriptor(&self, selector: u16) -> u64 {
        self.read_u64(GDT + u64::from(selector & !7))
    }

    /// Sets the gate of a vector to its handler.
    pub(crate) fn set_gate(&self, vector: u8, access: u64, ist: u64) {
        let offset = HANDLERS + 16 * u64::from(vector);
        if self.long {
            let at = IDT + 16 * u64::from(vector);
            self.write_u64(at, gate(sel::CODE64, offset, ist, access));
            self.write_u64(at + 8, 0);
        } else {
            self.write_u64(IDT + 8 * u64::from(vector), gate(sel::CODE32, offset, 0, access));
        }
    }

    /// Writes a program at `address` (which is also its offset in CS) and points RIP there.
    pub(crate) fn load(
        &mut self,
        address: u64,
        bits: u32,
        program: impl FnOnce(&mut CodeAssembler),
    ) {
        let mut assembler = CodeAssembler::new(bits).unwrap();
        program(&mut assembler);
        let code = assembler.assemble(address).unwrap();
        self.write(address, &code);
        self.cpu.rip = address;
    }

    /// Runs until the processor halts or shuts down, and says which.
    pub(crate) fn run(&mut self) -> Exit {
        self.cpu.halted = false;
        for _ in 0..1000 {
            let until = self.cpu.time + 1000;
            let exit = self.run_until(until);
            if matches!(exit, Exit::Halt | Exit::Shutdown) {
                return exit;
            }
        }
        panic!("the guest does not halt: RIP {:x}", self.cpu.rip);
    }

    /// The same under the other observer, from a halt.
    pub(crate) fn run_plain(&mut self) -> Exit {
        self.cpu.halted = false;
        let mut cx = Cx { bus: &mut self.ports, ram: &self.memory.ram, observer: Plain };
        loop {
            let exit = self.cpu.run(&mut cx, &mut self.plain, Budget::until(u64::MAX));
            if matches!(exit, Exit::Halt | Exit::Shutdown) {
                return exit;
            }
        }
    }

    /// Runs for so many cycles at most, as long as nothing has to be looked at.
    pub(crate) fn run_until(&mut self, until: u64) -> Exit {
        self.with(|cpu, cx, translations| cpu.run(cx, translations, Budget::until(until)))
    }

    fn with<T>(
        &mut self,
        action: impl FnOnce(&mut Cpu, &mut Cx<'_, Counting>, &mut Translations<Counting>) -> T,
    ) -> T {
        let mut cx =
            Cx { bus: &mut self.ports, ram: &self.memory.ram, observer: Counting::default() };
        let result = action(&mut self.cpu, &mut cx, &mut self.translations);
        let rest = cx.observer.facts().map(|facts| *facts).unwrap_or_default();
        add(&mut self.facts, &std::mem::take(&mut self.ports.counted));
        add(&mut self.facts, &rest);
        result
    }

    /// Executes whole instructions, one at a time.
    pub(crate) fn step(&mut self, count: u64) {
        let last = self.cpu.time + count;
        while self.cpu.time < last {
            let until = self.cpu.time + 1;
            self.run_until(until);
        }
    }

    /// A hardware interrupt between two instructions.
    pub(crate) fn interrupt(&mut self, vector: u8) {
        self.with(|cpu, cx, _| cpu.interrupt(cx, vector)).unwrap();
    }
    /// A non-maskable interrupt between two instructions.
    pub(crate) fn nmi(&mut self) {
        self.with(|cpu, cx, _| cpu.nmi(cx)).unwrap();
    }

    /// Delivers an exception as if the instruction at RIP had raised it.
    pub(crate) fn exception(&mut self, vector: u8, code: Option<u16>) {
        self.with(|cpu, cx, _| cpu.exception(cx, Exception { vector, code })).unwrap();
    }
    /// Undoes the delivery of an exception.
    pub(crate) fn unwind(&mut self, vector: u8) -> Option<Unwound> {
        self.with(|cpu, cx, _| cpu.unwind(cx, vector))
    }
    /// Executes one instruction unless it faults.
    pub(crate) fn attempt(&mut self) -> Attempt {
        self.with(Cpu::attempt)
    }

    /// Runs to the HLT of a handler and gives its vector.
    pub(crate) fn vector(&mut self) -> u64 {
        assert_eq!(self.run(), Exit::Halt);
        self.handler()
    }

    /// Vector of the handler that has halted.
    pub(crate) fn handler(&self) -> u64 {
        let linear = self.cpu.rip + self.cpu.segment(CS).base;
        assert!((HANDLERS..HANDLERS + 0x1000).contains(&linear), "RIP {linear:x}");
        (linear - HANDLERS) / 16
    }

    /// The `n`th 64-bit word of the stack (32-bit in legacy mode).
    pub(crate) fn stack(&self, n: u64) -> u64 {
        let size = if self.long { 8 } else { 4 };
        let at = self.cpu.segment(SS).base + self.cpu.gpr(RSP) + n * size;
        if self.long { self.read_u64(at) } else { u64::from(self.read_u32(at)) }
    }

    /// What a fragment of privileged code leaves in RAX.
    pub(crate) fn ask(&mut self, program: impl FnOnce(&mut CodeAssembler)) -> u64 {
        let bits = if self.long { 64 } else { 32 };
        self.load(SCRATCH, bits, |a| {
            program(a);
            a.hlt().unwrap();
        });
        assert_eq!(self.run(), Exit::Halt);
        assert_eq!(self.cpu.rip >> 12, SCRATCH >> 12, "the fragment faulted");
        self.cpu.gpr(RAX)
    }
}

fn add(sum: &mut Facts, more: &Facts) {
    sum.branches += more.branches;
    sum.taken += more.taken;
    sum.far += more.far;
    sum.loads += more.loads;
    sum.stores += more.stores;
    sum.misaligned += more.misaligned;
    sum.inner.stores += more.inner.stores;
    sum.inner.misaligned += more.inner.misaligned;
    sum.io_accesses += more.io_accesses;
    sum.mmx.loads += more.mmx.loads;
    sum.mmx.stores += more.mmx.stores;
    sum.mmx.misaligned += more.mmx.misaligned;
    sum.vector_loads += more.vector_loads;
    sum.vector_stores += more.vector_stores;
    sum.vector_elements += more.vector_elements;
    sum.mmx_saturated += more.mmx_saturated;
    sum.float_cases += more.float_cases;
    sum.x87_denormal_operands += more.x87_denormal_operands;
    sum.sse_denormal_operands += more.sse_denormal_operands;
    sum.tiny_results += more.tiny_results;
    sum.mmx_to_fp += more.mmx_to_fp;
    sum.fp_to_mmx += more.fp_to_mmx;
    sum.exceptions += more.exceptions;
    sum.interrupts += more.interrupts;
    for (sum, more) in sum.class.iter_mut().zip(more.class) {
        *sum += more;
    }
    for (sum, more) in sum.seg_loads.iter_mut().zip(more.seg_loads) {
        *sum += more;
    }
    for (sum, more) in sum.debug_matches.iter_mut().zip(more.debug_matches) {
        *sum += more;
    }
}
