//! The second model of the PMUs: slow, and written from the manuals alone.
//!
//! It shares no line with `pmu-model`: registers are rows of bits, nothing is computed ahead, and each rule
//! stands below the sentence that it follows. Unlike the product it does ask which processor it is, because
//! a manual is about one processor. Where manuals are silent, the comment says what decides instead.
//!
//! Sources: P55C: Intel MMX Technology manual, chapter 6, and Intel SDM volume 3, "Performance Monitoring
//! (Pentium Processors)". P6 family: Intel SDM volume 3, "Performance Monitoring (P6 Family Processor)". K7:
//! AMD 22007. K8: AMD 26094, chapter 10. Knights Corner: Intel 327357-001, in Japanese, translated here.

pub mod bits;
pub mod events;
pub mod registers;

pub mod counting;

use self::bits::Bits;
use self::registers::{Kind, Part};

/// What became of an access to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// There is no such register.
    Stranger,
    /// It was done; what was read, or 0.
    Done(u64),
    /// #GP(0).
    Refused,
}

/// Who executes RDPMC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reader {
    /// Current privilege level.
    pub cpl: u8,
    /// CR4.PCE.
    pub pce: bool,
    /// CR0.PE is clear.
    pub real_mode: bool,
    /// The code segment is a 16-bit one.
    pub code_16bit: bool,
}

/// The PMU of one hardware thread.
#[derive(Debug, Clone)]
pub struct Reference {
    part: Part,
    /// What the registers hold, each at its [`Kind::place`].
    registers: [Bits; Kind::PLACES],
    /// By counter and by thread, the own one first: whether the condition held in the last clock that the
    /// counter saw of that thread.
    held: [[bool; 4]; 4],
}

impl Reference {
    /// After power-up. Every register is zero: "Default: 0x00000000" (327357-001, 1.4.3), and so says Intel
    /// SDM volume 3 of the others; AMD's manuals are silent, and their clients expect EN clear.
    pub fn new(part: Part) -> Reference {
        Reference { part, registers: [Bits::ZERO; Kind::PLACES], held: [[false; 4]; 4] }
    }

    /// Which processor it is.
    pub fn part(&self) -> Part {
        self.part
    }

    /// The register of a kind that this processor has.
    fn register(&self, kind: Kind) -> &Bits {
        &self.registers[kind.place()]
    }

    /// The same, to change it.
    fn register_mut(&mut self, kind: Kind) -> &mut Bits {
        &mut self.registers[kind.place()]
    }

    fn kind(&self, msr: u32) -> Option<Kind> {
        self.part.registers().iter().find(|register| register.0 == msr).map(|register| register.1)
    }

    /// RDMSR.
    pub fn read(&self, msr: u32) -> Outcome {
        self.kind(msr).map_or(Outcome::Stranger, |kind| self.read_kind(kind))
    }

    /// RDMSR of each register, in the order of the part's list.
    pub fn read_all(&self) -> impl Iterator<Item = Outcome> + '_ {
        self.part.registers().iter().map(|register| self.read_kind(register.1))
    }

    /// RDMSR of one register.
    fn read_kind(&self, kind: Kind) -> Outcome {
        match kind {
            // 327357-001, 1.4.3.6: "Normal access: WO".
            Kind::Clear => Outcome::Refused,
            _ => Outcome::Done(self.register(kind).word()),
        }
    }

    /// WRMSR. Reserved bits read as zero and are ignored when written: "reserved, RAZ" (26094, 10.2). Where
    /// the manuals are silent, clients decide: OProfile, perfctr and kvm-unit-tests write ones to them.
    pub fn write(&mut self, msr: u32, value: u64) -> Outcome {
        let Some(kind) = self.kind(msr) else { return Outcome::Stranger };
        let part = self.part;
        match kind {
            // Pentium: "ES0 bits 5:0, CC0 bits 8:6, PC0 bit 9, ES1 bits 21:16, CC1 bits 24:22, PC1 bit 25".
            Kind::Cesr => {
                let register = self.register_mut(kind);
                register.take(value, 9, 0);
                register.take(value, 25, 16);
            }
            Kind::Select(_) => {
                let register = self.register_mut(kind);
                // "CNT_MASK 31–24, INV 23, EN 22" (26094, 10.2); the same on the P6, in both registers, and
                // in table 1-5 of 327357-001.
                register.take(value, 31, 22);
                // 327357-001, table 1-5: "21: thread count mode"; elsewhere "21: reserved".
                if part == Part::Knc {
                    register.take(value, 21, 21);
                }
                // "20: INT".
                register.take(value, 20, 20);
                // "19: PC"; 327357-001, table 1-5: "19: reserved".
                if part != Part::Knc {
                    register.take(value, 19, 19);
                }
                // "E 18, OS 17, USR 16, UNIT_MASK 15–8, EVENT_SELECT 7–0".
                register.take(value, 18, 0);
            }
            Kind::Counter(_) => match part {
                // P6: "the lower-order 32 bits of each MSR may be written with any value, and the
                // high-order 8 bits are sign-extended according to the value of bit 31".
                Part::Ppro | Part::Pii | Part::Piii | Part::Pm => {
                    let register = self.register_mut(kind);
                    register.take(value, 31, 0);
                    for number in 32..40 {
                        register.set(number, value >> 31 & 1 == 1);
                    }
                }
                // 26094, 10.1: "63–48 reserved, RAZ; 47–0 counter value, R/W". 22007 draws the same
                // registers.
                Part::K7 | Part::K8 => self.register_mut(kind).take(value, 47, 0),
                // 327357-001, 1.4.3.2: "reads and writes of this register set all 40 bits". The Pentium's
                // counters are "40-bit" too, and nothing is said of a sign.
                Part::P55c | Part::Knc => self.register_mut(kind).take(value, 39, 0),
            },
            // 327357-001, table 1-7: "63 user preference, 62:2 reserved, 1 and 0 SPFLT controls counter".
            Kind::Spflt => {
                let register = self.register_mut(kind);
                register.take(value, 63, 63);
                register.take(value, 1, 0);
            }
            // 327357-001, 1.4.3.5: "Normal access: RO".
            Kind::Status => return Outcome::Refused,
            // 327357-001, table 1-2: "the overflow status of each bit that is set is cleared".
            Kind::Clear => {
                for number in 0..2 {
                    if value >> number & 1 == 1 {
                        self.register_mut(Kind::Status).set(number, false);
                    }
                }
            }
            // 327357-001, table 1-10: "31:2 reserved, 1 and 0: counter is enabled".
            Kind::Control => self.register_mut(kind).take(value, 1, 0),
        }
        self.forget_conditions();
        Outcome::Done(0)
    }

    /// RDPMC; `None` is #GP(0).
    pub fn read_counter(&self, index: u32, reader: Reader) -> Option<u64> {
        // MMX manual, 6.3: "#GP(0) if ECX does not specify a valid counter". AMD64 volume 3 says the same.
        let counter = usize::try_from(index).ok().filter(|&index| index < self.part.counters())?;
        // "#GP(0) if RDPMC is used in CPL <> 0 and CR4.PCE = 0". Real mode has no CPL that could be checked.
        if reader.cpl != 0 && !reader.pce && !reader.real_mode {
            return None;
        }
        let value = self.register(Kind::Counter(counter)).word();
        // MMX manual, 6.3, of the Pentium: "RDPMC will execute in 16 bit code and VM mode but will give a
        // 32-bit result".
        let short = self.part == Part::P55c && reader.code_16bit;
        Some(if short { value & 0xFFFF_FFFF } else { value })
    }

    /// SPFLT. 327357-001, table 1-1: "sets or clears the USER_PREF bit of PERF_SPFLT_CONTROL". Nothing
    /// elsewhere: there is no such instruction.
    pub fn prefer(&mut self, enabled: bool) {
        if self.part == Part::Knc {
            self.register_mut(Kind::Spflt).set(63, enabled);
            self.forget_conditions();
        }
    }

    /// Power-up or RESET. 327357-001, 1.4.4: "a warm reset is the same as a cold reset: all control registers
    /// and counters are reset to zero". INIT is no operation: "INIT does not affect the state of the control
    /// registers and counters of the core PMU", nor of the MSRs of the others (Intel SDM volume 3, table
    /// "Processor States Following Power-up, Reset, or INIT").
    pub fn reset(&mut self) {
        *self = Reference::new(self.part);
    }
}
