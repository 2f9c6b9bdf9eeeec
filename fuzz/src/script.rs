//! Scripts: bytes as a processor and a sequence of operations on its PMU. Every byte string is one.
//!
//! The first byte is the processor. Each operation is a byte that says which (modulo 32, so that what matters
//! comes often) and its operands; bytes beyond the end are zero.

use std::fmt;

use crate::fact::Fact;
use crate::reference::Reader;
use crate::reference::counting::For;
use crate::reference::events;
use crate::reference::registers::{Kind, Part};

/// How often each of up to three different facts happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happened {
    facts: [(Fact, u64); 3],
    len: usize,
}

impl Happened {
    /// The facts.
    pub fn batch(&self) -> &[(Fact, u64)] {
        &self.facts[..self.len]
    }
}

/// A reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// Power-up.
    Cold,
    /// RESET.
    Warm,
    /// INIT.
    Init,
}

/// One operation on a PMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// RDMSR.
    Read {
        /// Its number.
        msr: u32,
    },
    /// WRMSR.
    Write {
        /// Its number.
        msr: u32,
        /// What is written.
        value: u64,
    },
    /// RDPMC.
    ReadCounter {
        /// ECX.
        index: u32,
        /// Who executes it.
        reader: Reader,
    },
    /// One fact happens in this thread, any number of times.
    Fire {
        /// Which.
        fact: Fact,
        /// How often.
        n: u64,
        /// At which privilege level.
        cpl: u8,
    },
    /// Facts happen.
    Happen {
        /// In this thread, 0, or in another one of the core.
        thread: usize,
        /// To which counters they are reported.
        what: For,
        /// Which and how often.
        happened: Happened,
        /// At which privilege level.
        cpl: u8,
    },
    /// SPFLT.
    Prefer(bool),
    /// A reset.
    Reset(Reset),
    /// The state is saved, and restored into another PMU, with which the script goes on.
    Migrate,
}

/// The operations of a script, one after the other.
#[derive(Debug, Clone)]
pub struct Script<'a> {
    part: Part,
    bytes: &'a [u8],
    /// What was last written to CESR: a script selects the event of one counter at a time.
    cesr: u64,
}

impl<'a> Script<'a> {
    /// The script that `bytes` are.
    pub fn new(bytes: &'a [u8]) -> Script<'a> {
        let (&first, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        Self::of(first, bytes)
    }

    /// The same, the first byte by itself.
    pub(crate) fn of(first: u8, bytes: &'a [u8]) -> Script<'a> {
        Script { part: Part::ALL[usize::from(first) % Part::ALL.len()], bytes, cesr: 0 }
    }

    /// The processor.
    pub fn part(&self) -> Part {
        self.part
    }

    /// Whether no byte is left.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        let (&first, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        first
    }

    /// The next bytes, the most significant one first.
    pub(crate) fn number(&mut self, bytes: u32) -> u64 {
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// A register of the processor, or, seldom, the number beside one or any number.
    pub(crate) fn msr(&mut self) -> u32 {
        let registers = self.part.registers();
        let choice = self.byte();
        let msr = registers[usize::from(choice) % registers.len()].0;
        match choice {
            0..0xF0 => msr,
            0xF0..0xF8 => msr.wrapping_add(1),
            0xF8..0xFC => msr.wrapping_sub(1),
            _ => self.number(4) as u32,
        }
    }

    fn counter(&mut self) -> usize {
        usize::from(self.byte()) % self.part.counters()
    }

    /// A code that the reference knows, chosen by `choice`.
    fn code(&self, choice: u64) -> u64 {
        let codes = events::codes(self.part);
        u64::from(codes[choice as usize % codes.len()])
    }

    /// A write of any value, but that an event which it selects is one that the reference knows.
    pub(crate) fn write(&mut self, msr: u32, value: u64) -> Operation {
        let kind = self.part.registers().iter().find(|register| register.0 == msr);
        let value = match kind {
            Some(&(_, Kind::Select(_))) => value & !0xFF | self.code(value & 0xFF),
            Some((_, Kind::Cesr)) => {
                let (first, second) = (self.code(value & 0x3F), self.code(value >> 16 & 0x3F));
                self.cesr = value & !0x3F_003F | second << 16 | first;
                self.cesr
            }
            _ => value,
        };
        Operation::Write { msr, value }
    }

    /// Selects an event on a counter. Most such writes enable it.
    pub(crate) fn select(&mut self) -> Operation {
        let counter = self.counter();
        let (choice, flags) = (u64::from(self.byte()), u64::from(self.byte()));
        if self.part == Part::P55c {
            let half = self.code(choice) | (flags & 0xF) << 6 | (flags & 0x10) << 8;
            let low = 16 * counter;
            self.cesr = self.cesr & !(0xFFFF << low) | half << low;
            return Operation::Write { msr: 0x11, value: self.cesr };
        }
        let (mask, threshold) = (self.mask(), u64::from(self.byte()));
        let cmask = match threshold {
            0..0x80 => 0,
            0x80..0xF0 => threshold & 7,
            _ => threshold,
        };
        let inv = threshold >> 6 & 1;
        // USR, OS, E, PC, INT and bit 21 as they come; EN unless both upper bits are set.
        let en = u64::from(flags >> 6 != 3);
        let value = cmask << 24 | inv << 23 | en << 22 | (flags & 0x3F) << 16 | mask << 8;
        let select = |register: &&(u32, Kind)| register.1 == Kind::Select(counter);
        let msr = self.part.registers().iter().find(select).expect("an event select").0;
        Operation::Write { msr, value: value | self.code(choice) }
    }

    /// A unit mask. Those of Knights Corner say in which unit the event is.
    fn mask(&mut self) -> u64 {
        let byte = self.byte();
        u64::from(match (self.part, byte) {
            (Part::Knc, 0..0xC0) => byte % 3 * 0x10,
            _ => byte,
        })
    }

    /// Sets a counter so that it overflows soon.
    pub(crate) fn preset(&mut self) -> Operation {
        let counter = self.counter();
        let preset = |register: &&(u32, Kind)| register.1 == Kind::Counter(counter);
        let msr = self.part.registers().iter().find(preset).expect("a counter").0;
        let distance = match self.byte() {
            byte @ 0..0x40 => byte,
            byte => byte & 7,
        };
        Operation::Write { msr, value: 0_u64.wrapping_sub(u64::from(distance)) }
    }

    /// A register that is no counter gets a small value, with bit 63 or without.
    pub(crate) fn control(&mut self) -> Operation {
        let (msr, value) = (self.msr(), u64::from(self.byte()));
        let both = if value & 0x10 == 0 { 0 } else { 3 };
        self.write(msr, value & 0x6F | both | value >> 7 << 63)
    }

    fn fact(&mut self) -> Fact {
        let byte = usize::from(self.byte());
        // Half of all are one of the first two, which every processor counts.
        if byte < 0x80 { Fact::ALL[byte % 2] } else { Fact::ALL[byte % Fact::ALL.len()] }
    }

    /// What happens: in one clock, or in many, where each fact may come very often.
    fn happen(&mut self, thread: usize, what: For) -> Operation {
        let shape = self.byte();
        let mut happened = Happened { facts: [(Fact::InsnRetired, 0); 3], len: 0 };
        for _ in 0..shape % 4 {
            let (fact, n) = (self.fact(), self.byte());
            if happened.batch().iter().any(|known| known.0 == fact) {
                continue;
            }
            let n = match what {
                For::Adders => often(n, shape >> 4),
                For::All | For::Comparers if fact.is_level() => u64::from(n & 1),
                For::All | For::Comparers => u64::from(n & 7),
            };
            happened.facts[happened.len] = (fact, n);
            happened.len += 1;
        }
        Operation::Happen { thread, what, happened, cpl: shape >> 2 & 3 }
    }

    fn sibling(&mut self) -> Operation {
        let byte = self.byte();
        let what = [For::All, For::Adders, For::Comparers, For::All][usize::from(byte >> 6)];
        self.happen(1 + usize::from(byte) % 3, what)
    }

    fn read_counter(&mut self) -> Operation {
        let byte = self.byte();
        let flag = |number: u8| byte >> number & 1 == 1;
        let reader = Reader {
            cpl: byte & 3,
            pce: flag(2),
            real_mode: flag(3) && flag(4),
            code_16bit: flag(5),
        };
        let index =
            if flag(6) && flag(7) { self.number(4) as u32 } else { u32::from(byte >> 6) * 2 };
        let index = if flag(1) { index } else { index | u32::from(flag(4)) };
        Operation::ReadCounter { index, reader }
    }

    fn reset(&mut self) -> Operation {
        Operation::Reset(match self.byte() {
            0..0x10 => Reset::Cold,
            0x10..0x20 => Reset::Warm,
            _ => Reset::Init,
        })
    }
}

/// A number of occurrences: mostly few, and with 15 of the 16 `sizes` below 2^20.
fn often(n: u8, size: u8) -> u64 {
    u64::from(n)
        << match size {
            0..12 => 0,
            12..15 => 12,
            _ => 36,
        }
}

impl Iterator for Script<'_> {
    type Item = Operation;

    fn next(&mut self) -> Option<Operation> {
        if self.is_over() {
            return None;
        }
        Some(match self.byte() % 32 {
            0 | 1 => {
                let (msr, value) = (self.msr(), self.number(8));
                self.write(msr, value)
            }
            2 => {
                let (msr, value) = (self.msr(), self.number(4));
                self.write(msr, value)
            }
            3..6 => self.control(),
            6..12 => self.select(),
            12..15 => self.preset(),
            15 => Operation::Read { msr: self.msr() },
            16 | 17 => self.read_counter(),
            18..20 => {
                let (fact, n, shape) = (self.fact(), self.byte(), self.byte());
                Operation::Fire { fact, n: often(n, shape >> 4), cpl: shape & 3 }
            }
            20..22 => self.happen(0, For::Adders),
            22..27 => self.happen(0, For::All),
            27 => self.happen(0, For::Comparers),
            28 => self.sibling(),
            29 => Operation::Prefer(self.byte() & 1 == 1),
            30 => self.reset(),
            _ => Operation::Migrate,
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Operation::Read { msr } => write!(f, "RDMSR {msr:X}h"),
            Operation::Write { msr, value } => write!(f, "WRMSR {msr:X}h := {value:X}h"),
            Operation::ReadCounter { index, reader } => {
                write!(f, "RDPMC {index:X}h at CPL {}", reader.cpl)?;
                for (is, word) in [
                    (reader.pce, ", CR4.PCE"),
                    (reader.real_mode, ", real mode"),
                    (reader.code_16bit, ", 16-bit code"),
                ] {
                    f.write_str(if is { word } else { "" })?;
                }
                Ok(())
            }
            Operation::Fire { fact, n, cpl } => write!(f, "{n} {fact:?} at CPL {cpl}"),
            Operation::Happen { thread, what, happened, cpl } => {
                f.write_str(match what {
                    For::All => "a clock with",
                    For::Adders => "a stretch with",
                    For::Comparers => "a clock to compare with",
                })?;
                for (fact, n) in happened.batch() {
                    write!(f, " {n} {fact:?}")?;
                }
                if happened.batch().is_empty() {
                    f.write_str(" nothing")?;
                }
                write!(f, " at CPL {cpl}")?;
                if thread > 0 { write!(f, " in other thread {thread}") } else { Ok(()) }
            }
            Operation::Prefer(enabled) => write!(f, "SPFLT {}", u8::from(enabled)),
            Operation::Reset(Reset::Cold) => f.write_str("power-up"),
            Operation::Reset(Reset::Warm) => f.write_str("RESET"),
            Operation::Reset(Reset::Init) => f.write_str("INIT"),
            Operation::Migrate => f.write_str("save and restore"),
        }
    }
}
