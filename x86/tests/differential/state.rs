//! What goes into a case, what comes out, and how two outcomes are compared.
//!
//! One page, the same natively and in the guest, holds all of it at fixed addresses below 2 GiB, so
//! that the stub reaches it with absolute operands and without a register.

use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction, Mnemonic, NasmFormatter, OpKind, Register,
};

use crate::{
    Random,
    generate::{Generator, is_string},
    open::Open,
};

/// Linear address of the page with the stub.
pub(crate) const CODE: u64 = 0x1000_0000;
/// Linear address of the page with register images.
pub(crate) const FRAME: u64 = 0x1001_0000;
/// Linear address of the pages that operands point into.
pub(crate) const DATA: u64 = 0x1002_0000;
/// Bytes of them.
pub(crate) const DATA_LEN: usize = 2 * 4096;

/// Offsets in the frame page.
pub(crate) mod frame {
    /// FXSAVE image to load.
    pub(crate) const FX_IN: usize = 0;
    /// FXSAVE image that was stored.
    pub(crate) const FX_OUT: usize = 512;
    /// The caller's FXSAVE image.
    pub(crate) const FX_HOST: usize = 1024;
    /// Sixteen general registers and RFLAGS to load.
    pub(crate) const REGS_IN: usize = 1536;
    /// The same, stored.
    pub(crate) const REGS_OUT: usize = 1536 + 17 * 8;
    /// The caller's RSP.
    pub(crate) const RSP_HOST: usize = 1536 + 34 * 8;
    /// Vector plus one of an exception, else zero.
    pub(crate) const FAULT: usize = 1536 + 35 * 8;
}

/// An instruction with its operands.
pub(crate) struct Case {
    pub(crate) instruction: Instruction,
    pub(crate) bytes: Vec<u8>,
    pub(crate) regs: [u64; 17],
    pub(crate) fx: [u8; 512],
    pub(crate) data: Box<[u8; DATA_LEN]>,
}

/// What came out.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) regs: [u64; 17],
    pub(crate) fx: [u8; 512],
    pub(crate) data: Box<[u8; DATA_LEN]>,
    pub(crate) fault: u8,
}

fn integer(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.below(3),
        1 => random.below(256),
        2 => u64::MAX - random.below(3),
        3 => 1 << random.below(64),
        4 => (1u64 << random.below(64)).wrapping_sub(1),
        5 => random.next() & 0xffff_ffff,
        _ => random.next(),
    }
}

fn single(random: &mut Random) -> u32 {
    let sign = (random.next() as u32) << 31;
    sign | match random.below(10) {
        0 => 0,
        1 => 0x7f80_0000,
        2 => 0x7fc0_0000 | random.next() as u32 & 0x3f_ffff,
        3 => 0x7f80_0001 | random.next() as u32 & 0x3f_ffff,
        4 => random.next() as u32 & 0x7f_ffff,
        5 => (127 + random.below(40) as u32 - 8) << 23 | random.next() as u32 & 0x7f_ff00,
        6 => (1 + random.below(6) as u32) << 23 | random.next() as u32 & 0x7f_ffff,
        7 => (249 + random.below(6) as u32) << 23 | random.next() as u32 & 0x7f_ffff,
        _ => random.next() as u32 & 0x7fff_ffff,
    }
}

fn double(random: &mut Random) -> u64 {
    let sign = random.next() << 63;
    let fraction = random.next() & 0xf_ffff_ffff_ffff;
    sign | match random.below(10) {
        0 => 0,
        1 => 0x7ff << 52,
        2 => 0x7ff8 << 48 | fraction >> 1,
        3 => 0x7ff << 52 | 1 | fraction >> 1,
        4 => fraction,
        5 => (1023 + random.below(70) - 8) << 52 | fraction & !0xffff,
        6 => (1 + random.below(6)) << 52 | fraction,
        7 => (2041 + random.below(6)) << 52 | fraction,
        _ => random.next() & !(1 << 63),
    }
}

fn extended(random: &mut Random) -> [u8; 10] {
    let sign = (random.below(2) as u16) << 15;
    let fraction = random.next() | 1 << 63;
    let (exponent, fraction) = match random.below(12) {
        0 => (0, 0),
        1 => (0x7fff, 1 << 63),
        2 => (0x7fff, fraction | 1 << 62),
        3 => (0x7fff, fraction & !(1 << 62) | 1),
        4 => (0, random.next() >> 1),
        5 => (random.next() as u16 & 0x7fff, random.next()),
        6 => (0x3fff + random.below(70) as u16 - 4, fraction & !0xffff),
        7 => (1 + random.below(66) as u16, fraction),
        8 => (0x7fff - 1 - random.below(66) as u16, fraction),
        9 => (0x3f81 + random.below(256) as u16 - 128, fraction),
        _ => (0x3fff + random.below(64) as u16 - 32, fraction),
    };
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&fraction.to_le_bytes());
    bytes[8..].copy_from_slice(&(sign | exponent).to_le_bytes());
    bytes
}

impl Case {
    /// A random instruction with random operands; `None` if this one cannot be encoded.
    pub(crate) fn random(random: &mut Random, generator: &Generator) -> Option<Self> {
        let (instruction, bytes) = generator.instruction(random)?;
        let mnemonic = instruction.mnemonic();
        let bit_string =
            matches!(mnemonic, Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc);
        let mut regs = [0; 17];
        for reg in &mut regs {
            *reg = integer(random);
            if bit_string {
                *reg = (random.below(8192) as i64 - 4096) as u64;
                if random.below(2) == 0 {
                    // A 16- or 32-bit offset takes its sign from its own top bit.
                    *reg &= 0xfff;
                }
            }
        }
        let aligned = random.below(8) != 0;
        for n in [3, 5, 6, 7] {
            let offset = 3000 + random.below(2000);
            regs[n] = DATA + if aligned { offset & !15 } else { offset };
        }
        regs[4] = DATA + 4096 + random.below(128) * 8;
        regs[9] = random.below(16) * 16;
        if is_string(mnemonic) {
            regs[1] = random.below(20);
        }
        // CF, PF, AF, ZF, SF, OF; DF for string instructions now and then.
        regs[16] = random.next() & 0x8d5 | 0x202;
        if is_string(mnemonic) && random.below(2) == 0 {
            regs[16] |= 0x400;
        }
        let mut data = Box::new([0u8; DATA_LEN]);
        for at in (0..DATA_LEN - 16).step_by(16) {
            match random.below(4) {
                0 => {
                    for lane in 0..4 {
                        let value = single(random).to_le_bytes();
                        data[at + 4 * lane..at + 4 * lane + 4].copy_from_slice(&value);
                    }
                }
                1 => {
                    for lane in 0..2 {
                        let value = double(random).to_le_bytes();
                        data[at + 8 * lane..at + 8 * lane + 8].copy_from_slice(&value);
                    }
                }
                2 => data[at..at + 10].copy_from_slice(&extended(random)),
                _ => {
                    data[at..at + 8].copy_from_slice(&integer(random).to_le_bytes());
                    data[at + 8..at + 16].copy_from_slice(&integer(random).to_le_bytes());
                }
            }
        }
        Some(Self { instruction, bytes, regs, fx: image(random), data })
    }

    /// The one instruction in `bytes`, with these registers and little else.
    pub(crate) fn of(bytes: &[u8], regs: [u64; 17]) -> Self {
        let instruction = Decoder::new(64, bytes, DecoderOptions::AMD).decode();
        let mut random = Random(1);
        Self {
            instruction,
            bytes: bytes.to_vec(),
            regs,
            fx: image(&mut random),
            data: Box::new([0; DATA_LEN]),
        }
    }

    /// Up to ten bytes of an operand: a general register or memory.
    pub(crate) fn operand(&self, n: u32) -> [u8; 10] {
        let i = &self.instruction;
        let gpr = |register: Register| self.regs[register.number()];
        let mut bytes = [0; 10];
        if i.op_kind(n) == OpKind::Register {
            bytes[..8].copy_from_slice(&gpr(i.op_register(n)).to_le_bytes());
        } else {
            let address = i.virtual_address(n, 0, |register, _, _| {
                Some(if register.is_segment_register() { 0 } else { gpr(register) })
            });
            let at = (address.expect("registers have values") - DATA) as usize;
            bytes.copy_from_slice(&self.data[at..at + 10]);
        }
        bytes
    }

    /// Whether the opcode is 0F 0D.
    pub(crate) fn bytes_contain_0f0d(&self) -> bool {
        self.bytes.windows(2).any(|bytes| bytes == [0x0f, 0x0d])
    }

    /// A description of the first difference that is not open.
    pub(crate) fn compare(
        &self,
        expected: &Outcome,
        actual: &Outcome,
        open: Open,
    ) -> Option<String> {
        let mut found = Vec::new();
        let undefined = match open {
            Open::Flags(undefined) => undefined,
            Open::Result if expected.fault == actual.fault => return None,
            Open::Result => 0,
            Open::Existence => return None,
        };
        if expected.fault != actual.fault {
            found.push(format!(
                "exception: host {}, soft {} (vector plus one, 0 none)",
                expected.fault, actual.fault
            ));
        } else if expected.fault == 0 {
            for n in 0..16 {
                if expected.regs[n] != actual.regs[n] {
                    found.push(format!(
                        "r{n}: host {:#x}, soft {:#x}",
                        expected.regs[n], actual.regs[n]
                    ));
                }
            }
            let flags = 0x8d5 & !undefined;
            if (expected.regs[16] ^ actual.regs[16]) & flags != 0 {
                found.push(format!(
                    "flags: host {:#x}, soft {:#x} (undefined {undefined:#x})",
                    expected.regs[16], actual.regs[16]
                ));
            }
            self.compare_fx(expected, actual, &mut found);
            for at in 0..DATA_LEN {
                if expected.data[at] != actual.data[at] {
                    found.push(format!(
                        "data+{at:#x}: host {:02x?}, soft {:02x?}",
                        &expected.data[at..(at + 16).min(DATA_LEN)],
                        &actual.data[at..(at + 16).min(DATA_LEN)]
                    ));
                    break;
                }
            }
        }
        if found.is_empty() {
            return None;
        }
        let mut text = String::new();
        NasmFormatter::new().format(&self.instruction, &mut text);
        Some(format!(
            "  {text} [{:02x?}]\n  regs {:x?}\n  fcw {:02x?} fsw {:02x?} mxcsr {:02x?}\n  {}",
            self.bytes,
            self.regs,
            &self.fx[0..2],
            &self.fx[2..4],
            &self.fx[24..28],
            found.join("\n  ")
        ))
    }

    fn compare_fx(&self, expected: &Outcome, actual: &Outcome, found: &mut Vec<String>) {
        let compares = matches!(
            self.instruction.mnemonic(),
            Mnemonic::Fcom
                | Mnemonic::Fcomp
                | Mnemonic::Fcompp
                | Mnemonic::Fucom
                | Mnemonic::Fucomp
                | Mnemonic::Fucompp
                | Mnemonic::Ficom
                | Mnemonic::Ficomp
                | Mnemonic::Ftst
                | Mnemonic::Fxam
                | Mnemonic::Fprem
                | Mnemonic::Fprem1
        );
        // C0, C2 and C3 are undefined after all that does not compare.
        let status = if compares { 0xffff } else { 0xb8ff };
        let word = |fx: &[u8; 512], at: usize| u16::from_le_bytes([fx[at], fx[at + 1]]);
        for (name, at, mask) in [("fcw", 0, 0xffff), ("fsw", 2, status), ("ftw", 4, 0xff)] {
            let (e, a) = (word(&expected.fx, at) & mask, word(&actual.fx, at) & mask);
            if e != a {
                found.push(format!("{name}: host {e:#x}, soft {a:#x}"));
            }
        }
        if expected.fx[24..28] != actual.fx[24..28] {
            found.push(format!(
                "mxcsr: host {:02x?}, soft {:02x?}",
                &expected.fx[24..28],
                &actual.fx[24..28]
            ));
        }
        for n in 0..8 {
            let at = 32 + 16 * n;
            if expected.fx[at..at + 10] != actual.fx[at..at + 10] {
                found.push(format!(
                    "st{n}: host {:02x?}, soft {:02x?}, before {:02x?}",
                    &expected.fx[at..at + 10],
                    &actual.fx[at..at + 10],
                    &self.fx[at..at + 10]
                ));
            }
        }
        for n in 0..16 {
            let at = 160 + 16 * n;
            if expected.fx[at..at + 16] != actual.fx[at..at + 16] {
                found.push(format!(
                    "xmm{n}: host {:02x?}, soft {:02x?}, before {:02x?}",
                    &expected.fx[at..at + 16],
                    &actual.fx[at..at + 16],
                    &self.fx[at..at + 16]
                ));
            }
        }
    }
}

/// A random FXSAVE image with all exceptions masked.
fn image(random: &mut Random) -> [u8; 512] {
    let mut fx = [0; 512];
    let control = 0x3f | (random.next() as u16 & 0x0f00) | 0x40;
    // Precision control 01 is reserved.
    let control = if control & 0x300 == 0x100 { control | 0x300 } else { control };
    fx[0..2].copy_from_slice(&control.to_le_bytes());
    let status = random.next() as u16 & 0x7f7f;
    fx[2..4].copy_from_slice(&status.to_le_bytes());
    fx[4] = if random.below(4) == 0 { random.next() as u8 } else { 0xff };
    let mxcsr = 0x1f80 | random.next() as u32 & 0xe07f;
    fx[24..28].copy_from_slice(&mxcsr.to_le_bytes());
    for n in 0..8 {
        fx[32 + 16 * n..42 + 16 * n].copy_from_slice(&extended(random));
    }
    for n in 0..16 {
        let at = 160 + 16 * n;
        match random.below(3) {
            0 => {
                for lane in 0..4 {
                    fx[at + 4 * lane..at + 4 * lane + 4]
                        .copy_from_slice(&single(random).to_le_bytes());
                }
            }
            1 => {
                for lane in 0..2 {
                    fx[at + 8 * lane..at + 8 * lane + 8]
                        .copy_from_slice(&double(random).to_le_bytes());
                }
            }
            _ => {
                fx[at..at + 8].copy_from_slice(&integer(random).to_le_bytes());
                fx[at + 8..at + 16].copy_from_slice(&integer(random).to_le_bytes());
            }
        }
    }
    fx
}
