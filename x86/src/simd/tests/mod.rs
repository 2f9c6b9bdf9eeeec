//! The instructions of this folder, decoded from bytes and executed by their handlers.

mod decoding;
mod exceptions;
#[cfg(target_arch = "x86_64")]
mod host;
#[cfg(target_arch = "x86_64")]
mod host_rows;
mod now3d;
mod state;

use iced_x86::{Decoder, DecoderOptions};

use crate::{
    bus::unconnected::Unconnected,
    cpu::Cpu,
    descriptor::Segment,
    features::Features,
    handler::handler,
    insn::{gpr, seg},
    lower::Lowering,
    observe::{Cx, Plain},
    ram::{Ram, Region},
    stop::Exec,
};

/// Where memory operands are: RSI and RDI point there.
const DATA: u64 = 0x1000;
const RAM_BYTES: usize = 0x4000;

const CR0_PE: u64 = 1;
const CR0_NE: u64 = 1 << 5;
const CR4_OSFXSR: u64 = 1 << 9;
const CR4_OSXMMEXCPT: u64 = 1 << 10;
const EFER_LMA: u64 = 1 << 10;

/// A processor in 64-bit mode without paging, 16 KiB of RAM at 0.
struct Machine {
    cpu: Cpu,
    ram: Ram,
    bus: Unconnected,
}

impl Machine {
    #[allow(unsafe_code, reason = "guest memory is made from host memory")]
    fn new() -> Self {
        let host = Box::leak(vec![0u8; RAM_BYTES].into_boxed_slice()).as_mut_ptr();
        // SAFETY: leaked memory of that size, used by nothing else.
        let ram = unsafe { Ram::new(&[Region { gpa: 0, len: RAM_BYTES as u64, host }]) };
        let mut cpu = Cpu::new(Features::K8);
        cpu.set_control(CR0_PE | CR0_NE, 0, CR4_OSFXSR | CR4_OSXMMEXCPT, EFER_LMA);
        cpu.set_segment(
            seg::CS,
            Segment { selector: 8, base: 0, limit: u32::MAX, attributes: 0xa09b },
        );
        cpu.set_gpr(gpr::RSI, DATA);
        cpu.set_gpr(gpr::RDI, DATA);
        Self { cpu, ram, bus: Unconnected::default() }
    }

    /// Executes one instruction.
    fn run(&mut self, code: &[u8]) -> Exec<()> {
        let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::AMD);
        let i = decoder.decode();
        assert_eq!(i.len(), code.len(), "{i:?}");
        let l = Lowering::of(&self.cpu);
        let lowered = crate::simd::lower(&l, &i, l.insn(&i)).expect("lowered");
        let mut cx = Cx { bus: &mut self.bus, ram: &self.ram, observer: Plain };
        handler(&lowered.insn)(&mut self.cpu, &mut cx, &lowered.insn)
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        assert!(self.ram.write_bytes(at, bytes));
    }

    fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        assert!(self.ram.read_bytes(at, &mut bytes));
        bytes
    }
}

/// A xorshift generator: the tests are the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 20) % limit
    }

    /// 64 bits: noise, small numbers, edges of lanes, singles or doubles of all kinds.
    fn operand(&mut self) -> u64 {
        match self.below(8) {
            0 => self.next(),
            1 => self.below(70),
            2 => {
                const EDGES: [u64; 8] = [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff];
                (0..4).fold(0, |word, n| word | EDGES[self.below(8) as usize] << (16 * n))
            }
            3..=5 => u64::from(self.single()) | u64::from(self.single()) << 32,
            _ => self.double(),
        }
    }

    fn single(&mut self) -> u32 {
        let exponent = match self.below(8) {
            0 => 0,
            1 => 255,
            2 => 1 + self.below(26),
            3 => 254 - self.below(26),
            4 => 150 + self.below(10),
            _ => 120 + self.below(14),
        } as u32;
        let noise = self.next() as u32;
        let fraction = match self.below(4) {
            0 => 0,
            1 => noise & 0x7f_fff0,
            2 => noise & 0x7f_0000,
            _ => noise & 0x7f_ffff,
        };
        noise & 0x8000_0000 | exponent << 23 | fraction
    }

    fn double(&mut self) -> u64 {
        let exponent = match self.below(8) {
            0 => 0,
            1 => 2047,
            2 => 1 + self.below(54),
            3 => 2046 - self.below(54),
            4 => 1023 + 26 + self.below(40),
            5 => 1023 - 150 + self.below(300),
            _ => 1016 + self.below(14),
        };
        let noise = self.next();
        let fraction = match self.below(4) {
            0 => 0,
            1 => noise & 0x000f_ffff_e000_0000,
            2 => noise & 0x000f_f000_0000_0000,
            _ => noise & 0x000f_ffff_ffff_ffff,
        };
        noise & 1 << 63 | exponent << 52 | fraction
    }
}
