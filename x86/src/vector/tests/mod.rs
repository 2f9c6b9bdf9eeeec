//! The instructions of this folder, assembled by hand and executed from bytes.
//!
//! Opcodes and prefixes are those of XED's definition of Knights Corner; what instructions have to do is
//! worked out in each test.

mod carries;
mod comparisons;
mod encodings;
mod exceptions;
mod floats;
mod gathers;
mod integers;
mod masks;
mod moves;
mod permutations;
mod streams;

use crate::{
    bus::unconnected::Unconnected,
    cpu::Cpu,
    descriptor::Segment,
    features::Features,
    handler::handler,
    insn::{gpr, seg},
    lower::{Lowering, lower_bytes},
    observe::{Counting, Cx, Observer},
    ram::{Ram, Region},
    stop::Exec,
    vector::Zmm,
};

/// Where memory operands are: RSI points there.
const DATA: u64 = 0x1000;
const RAM_BYTES: usize = 0x4000;
/// A part with the unit and without SSE.
const PART: Features = Features {
    tsc: true,
    cx8: true,
    fxsr: true,
    long_mode: true,
    knc: true,
    vpu: true,
    ..Features::I486
};
const DUE: u32 = 1 << 21;

/// The last operand of an instruction.
#[derive(Clone, Copy)]
enum Rm {
    /// A ZMM register.
    Zmm(u8),
    /// Memory at RSI and a displacement of 32 bits.
    At(i32),
    /// Memory at RSI and the elements of a ZMM register, each times 1 << scale.
    Vsib(u8, u8),
}

/// An MVEX encoding.
#[derive(Clone, Copy)]
struct Mvex {
    /// 1: 0Fh, 2: 0F38h, 3: 0F3Ah.
    map: u8,
    /// 0: none, 1: 66h, 2: F3h, 3: F2h.
    pp: u8,
    w: u8,
    opcode: u8,
    reg: u8,
    vvvv: u8,
    rm: Rm,
    /// E and SSS, aaa.
    e: bool,
    sss: u8,
    mask: u8,
    immediate: Option<u8>,
}

impl Mvex {
    /// An instruction of `reg`, `vvvv` and `rm`, without a mask, swizzle or conversion.
    fn new(map: u8, pp: u8, w: u8, opcode: u8, reg: u8, vvvv: u8, rm: Rm) -> Self {
        Self { map, pp, w, opcode, reg, vvvv, rm, e: false, sss: 0, mask: 0, immediate: None }
    }

    fn masked(self, mask: u8) -> Self {
        Self { mask, ..self }
    }

    fn with(self, sss: u8) -> Self {
        Self { sss, ..self }
    }

    fn with_e(self, sss: u8) -> Self {
        Self { sss, e: true, ..self }
    }

    fn imm(self, immediate: u8) -> Self {
        Self { immediate: Some(immediate), ..self }
    }

    fn bytes(self) -> Vec<u8> {
        let not = |bit: u8| u8::from(bit == 0);
        let (b, x, v2) = match self.rm {
            Rm::Zmm(n) => (n >> 3 & 1, n >> 4 & 1, self.vvvv >> 4 & 1),
            Rm::At(_) => (0, 0, self.vvvv >> 4 & 1),
            Rm::Vsib(n, _) => (0, n >> 3 & 1, n >> 4 & 1),
        };
        let vvvv = if matches!(self.rm, Rm::Vsib(..)) { 0 } else { self.vvvv & 15 };
        let (r, r2) = (self.reg >> 3 & 1, self.reg >> 4 & 1);
        let mut bytes = vec![
            0x62,
            not(r) << 7 | not(x) << 6 | not(b) << 5 | not(r2) << 4 | self.map,
            self.w << 7 | (!vvvv & 15) << 3 | self.pp,
            u8::from(self.e) << 7 | self.sss << 4 | not(v2) << 3 | self.mask,
            self.opcode,
        ];
        let reg = (self.reg & 7) << 3;
        match self.rm {
            Rm::Zmm(n) => bytes.push(0xc0 | reg | n & 7),
            Rm::At(disp) => {
                bytes.push(0x80 | reg | gpr::RSI);
                bytes.extend(disp.to_le_bytes());
            }
            Rm::Vsib(n, scale) => bytes.extend([reg | 4, scale << 6 | (n & 7) << 3 | gpr::RSI]),
        }
        bytes.extend(self.immediate);
        bytes
    }
}

/// A processor in 64-bit mode without paging, 16 KiB of RAM at 0, counting.
struct Machine {
    cpu: Cpu,
    ram: Ram,
    bus: Unconnected,
    /// Lines read and written and elements worked on by the instruction that was executed last.
    counted: (u64, u64, u64),
}

impl Machine {
    #[allow(unsafe_code, reason = "guest memory is made from host memory")]
    fn new() -> Self {
        let host = Box::leak(vec![0u8; RAM_BYTES].into_boxed_slice()).as_mut_ptr();
        // SAFETY: leaked memory of that size, used by nothing else.
        let ram = unsafe { Ram::new(&[Region { gpa: 0, len: RAM_BYTES as u64, host }]) };
        let mut cpu = Cpu::new(PART);
        // Protected mode, long mode active, a 64-bit code segment.
        cpu.set_control(1, 0, 0, 1 << 10);
        cpu.set_segment(
            seg::CS,
            Segment { selector: 8, base: 0, limit: u32::MAX, attributes: 0xa09b },
        );
        cpu.set_gpr(gpr::RSI, DATA);
        Self { cpu, ram, bus: Unconnected::default(), counted: (0, 0, 0) }
    }

    /// Executes one instruction.
    fn run(&mut self, code: &[u8]) -> Exec<()> {
        let (i, insn) = lower_bytes(&Lowering::of(&self.cpu), code).expect("a whole instruction");
        assert_eq!(i.len(), code.len(), "{code:02x?}: {:?}", i.code());
        let observer = Counting::default();
        let mut cx = Cx { bus: &mut self.bus, ram: &self.ram, observer };
        let result = handler(&insn)(&mut self.cpu, &mut cx, &insn);
        let facts = *cx.observer.facts().expect("it counts");
        assert_eq!((facts.loads, facts.stores), (facts.vector_loads, facts.vector_stores));
        self.counted = (facts.vector_loads, facts.vector_stores, facts.vector_elements);
        result
    }

    /// Executes one MVEX instruction, which does not fault.
    fn mvex(&mut self, code: Mvex) {
        let bytes = code.bytes();
        assert_eq!(self.run(&bytes), Ok(()), "{bytes:02x?}");
    }

    fn set(&mut self, n: u8, value: Zmm) {
        self.cpu.vector.zmm[usize::from(n)] = value;
    }

    fn get(&self, n: u8) -> Zmm {
        self.cpu.vector.zmm[usize::from(n)]
    }

    fn set_singles(&mut self, n: u8, value: [f32; 16]) {
        self.set(n, value.map(f32::to_bits));
    }

    fn singles(&self, n: u8) -> [f32; 16] {
        self.get(n).map(f32::from_bits)
    }

    fn set_doubles(&mut self, n: u8, value: [f64; 8]) {
        self.set(n, std::array::from_fn(|at| (value[at / 2].to_bits() >> (32 * (at % 2))) as u32));
    }

    fn doubles(&self, n: u8) -> [f64; 8] {
        let bits = self.get(n).map(u64::from);
        std::array::from_fn(|at| f64::from_bits(bits[2 * at] | bits[2 * at + 1] << 32))
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        assert!(self.ram.write_bytes(at, bytes));
    }

    fn write_words(&self, at: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(at, &bytes);
    }

    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        assert!(self.ram.read_bytes(at, &mut bytes));
        bytes
    }

    fn words<const N: usize>(&self, at: u64) -> [u32; N] {
        std::array::from_fn(|n| u32::from_le_bytes(self.read(at + 4 * n as u64)))
    }
}

/// 0, 1, 2 and so on.
fn counted() -> Zmm {
    std::array::from_fn(|n| n as u32)
}

/// The same number in each of sixteen lanes.
fn all(value: f32) -> [f32; 16] {
    [value; 16]
}
