//! Tests of the integer instructions, one at a time, with expectations worked out by hand from the
//! AMD64 Architecture Programmer's Manual, volume 3 (APM 3), unless they say otherwise.

mod arithmetic;
mod branches;
mod data;
mod stacks;
mod strings;

use iced_x86::{Decoder, DecoderOptions, IcedError, Instruction, code_asm::CodeAssembler};

use crate::{
    bus::unconnected::Unconnected,
    cpu::Cpu,
    descriptor::{DescriptorTable, Segment},
    features::Features,
    handler::handler,
    insn::{BLOCK_BASE, gpr, seg},
    lower::{End, Lowered, Lowering, lower_one},
    mode::CodeSize,
    observe::{Counting, Cx, Facts, Observer, Plain},
    ram::{Ram, Region},
    stop::Exec,
};

const CF: u64 = 1 << 0;
const PF: u64 = 1 << 2;
const AF: u64 = 1 << 4;
const ZF: u64 = 1 << 6;
const SF: u64 = 1 << 7;
const DF: u64 = 1 << 10;
const OF: u64 = 1 << 11;

/// RAM from address zero: 128 KiB.
const RAM_BYTES: usize = 0x2_0000;
/// Where the instructions under test are.
const CODE: u64 = 0x1000;

/// Makes the instruction under test.
type Assemble = fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// A processor with a little RAM, and the facts that it has reported.
struct Machine {
    cpu: Cpu,
    ram: Ram,
    facts: Facts,
    /// What `ram` points to.
    _memory: Vec<u8>,
}

impl Machine {
    /// Real mode with all bases zero, 32-bit protected mode with flat segments, or 64-bit mode.
    /// Paging is off; all flags are clear.
    fn new(code: CodeSize) -> Self {
        let mut memory = vec![0u8; RAM_BYTES];
        let region = Region { gpa: 0, len: RAM_BYTES as u64, host: memory.as_mut_ptr() };
        #[allow(unsafe_code, reason = "the only way to make a Ram")]
        // SAFETY: the vector lives beside the `Ram`, keeps its buffer, and nothing else accesses it.
        let ram = unsafe { Ram::new(&[region]) };
        let mut cpu = Cpu::new(Features::K8);
        cpu.gdtr = DescriptorTable::default();
        let attributes = |kind: u16, more: u16| Segment {
            selector: 8,
            base: 0,
            limit: if code == CodeSize::Bits16 { 0xffff } else { u32::MAX },
            attributes: kind | Segment::S | Segment::PRESENT | more,
        };
        let (size, protected) = match code {
            CodeSize::Bits16 => (0, 0),
            CodeSize::Bits32 => (Segment::BIG, 1),
            CodeSize::Bits64 => (Segment::LONG, 1),
        };
        for n in 0..6 {
            let segment = match n {
                seg::CS => attributes(11, size),
                _ if code == CodeSize::Bits16 => attributes(3, 0),
                _ => attributes(3, Segment::BIG),
            };
            cpu.set_segment(n, segment);
        }
        let efer = if code == CodeSize::Bits64 { 0x500 } else { 0 };
        cpu.set_control(protected, 0, 0, efer);
        cpu.rip = CODE;
        cpu.set_gpr(gpr::RDX, 0);
        cpu.deadline = u64::MAX;
        cpu.retire_until = u64::MAX;
        Self { cpu, ram, facts: Facts::default(), _memory: memory }
    }

    fn bitness(&self) -> u32 {
        match self.cpu.code_size() {
            CodeSize::Bits16 => 16,
            CodeSize::Bits32 => 32,
            CodeSize::Bits64 => 64,
        }
    }

    fn decode(&self, assemble: Assemble) -> Instruction {
        let mut assembler = CodeAssembler::new(self.bitness()).expect("a known bitness");
        assemble(&mut assembler).expect("a valid instruction");
        let bytes = assembler.assemble(self.cpu.rip).expect("an instruction that can be encoded");
        self.decode_bytes(&bytes)
    }

    fn decode_bytes(&self, bytes: &[u8]) -> Instruction {
        Decoder::with_ip(self.bitness(), bytes, 0, DecoderOptions::AMD).decode()
    }

    fn lower(&self, instruction: &Instruction) -> Lowered {
        lower_one(&Lowering::of(&self.cpu), instruction)
    }

    /// Executes the one instruction that `assemble` makes, at RIP, seeing nothing.
    fn plain(&mut self, assemble: Assemble) -> Exec<()> {
        let instruction = self.decode(assemble);
        self.execute::<Plain>(&instruction)
    }

    /// The same, counting; the sum of the facts is in `facts`.
    fn exec(&mut self, assemble: Assemble) -> Exec<()> {
        let instruction = self.decode(assemble);
        self.execute::<Counting>(&instruction)
    }

    /// Executes the one instruction in `bytes`, counting.
    fn exec_bytes(&mut self, bytes: &[u8]) -> Exec<()> {
        let instruction = self.decode_bytes(bytes);
        self.execute::<Counting>(&instruction)
    }

    fn execute<O: Observer + Default>(&mut self, instruction: &Instruction) -> Exec<()> {
        let lowered = self.lower(instruction);
        self.cpu.regs[usize::from(BLOCK_BASE)] = self.cpu.rip;
        let mut cx =
            Cx { bus: &mut Unconnected::default(), ram: &self.ram, observer: O::default() };
        let result = handler(&lowered.insn)(&mut self.cpu, &mut cx, &lowered.insn);
        let seen = cx.observer.facts().map(|facts| *facts).unwrap_or_default();
        self.facts.branches += seen.branches;
        self.facts.taken += seen.taken;
        self.facts.near_returns += seen.near_returns;
        self.facts.misaligned += seen.misaligned;
        if result.is_ok() && !matches!(lowered.end, End::Branch | End::Far) {
            self.cpu.rip += u64::from(lowered.insn.len);
        }
        result
    }

    fn set(&mut self, r: u8, value: u64) {
        self.cpu.set_gpr(r, value);
    }

    fn get(&self, r: u8) -> u64 {
        self.cpu.gpr(r)
    }

    fn set_flags(&mut self, flags: u64) {
        self.cpu.set_rflags(flags);
    }

    /// The six arithmetic flags.
    fn flags(&self) -> u64 {
        self.cpu.rflags() & (CF | PF | AF | ZF | SF | OF)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        assert!(self.ram.write_bytes(at, bytes));
    }

    fn write_u64(&self, at: u64, value: u64) {
        self.write(at, &value.to_le_bytes());
    }

    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        assert!(self.ram.read_bytes(at, &mut bytes));
        bytes
    }

    fn read_u16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.read(at))
    }

    fn read_u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.read(at))
    }

    fn read_u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.read(at))
    }
}
