//! Inputs of the target: bytes as a machine, a way to execute on it, and operations of its processors. Every byte
//! string is one.
//!
//! The first byte is the processor, the second how many there are and the way. Each operation is a byte: six bits say
//! which, one whether it is executed at CPL 3, and one on which processor; operands follow as in
//! [`crate::script`].

use std::fmt;

use vpmu::engine::soft::Timing;
use vpmu::program::LAPIC;

use super::agent::{ANSWER_EOI, ANSWER_LVTPC, MOST_RECORDS, Routine};
use crate::reference::registers::Part;
use crate::script::{self, Script};

/// Operations that are executed; those behind are none.
const MOST: usize = 200;
const _: () = assert!(MOST < MOST_RECORDS, "and the end");

const IO_APIC: u32 = 0xFEC0_0000;
/// Registers of the local APIC that operations read and write: identifier to divide configuration.
const APIC: [u32; 24] = [
    0x20, 0x30, 0x80, 0x90, 0xA0, 0xB0, 0xD0, 0xE0, 0xF0, 0x100, 0x170, 0x200, 0x270, 0x280, 0x300,
    0x310, 0x320, 0x330, 0x340, 0x350, 0x360, 0x370, 0x380, 0x3E0,
];
/// Registers of no PMU: time-stamp counter, base of the local APIC, machine check, MTRRs, DebugCtl, PAT, EFER, STAR,
/// HWCR, SYSCFG.
const MSRS: [u32; 16] = [
    0x10,
    0x1B,
    0x00,
    0x01,
    0x179,
    0x17A,
    0x17B,
    0xFE,
    0x2FF,
    0x200,
    0x1D9,
    0x277,
    0xC000_0080,
    0xC000_0081,
    0xC001_0015,
    0xC001_0010,
];
/// Ports: interrupt controllers, timer, keyboard, RTC, serial port, PCI, ACPI.
const PORTS: [u16; 16] = [
    0x20, 0x21, 0xA0, 0xA1, 0x40, 0x43, 0x61, 0x64, 0x70, 0x71, 0x3F8, 0x3FD, 0xCF8, 0xCFC, 0x600,
    0x608,
];

/// How an input is executed, beside being executed in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// One instruction at a time, the reference beside it.
    Stepped,
    /// In pieces, each gone on from a snapshot, behind this many instructions.
    Pieces(u64),
}

/// What a processor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What takes no operands.
    Plain(Routine),
    Read,
    Write,
    ReadCounter,
    Prefer,
    Load,
    Store,
    In(u8),
    Out(u8),
    Repeat(Routine),
    Answer,
    AnswerByWrite,
    Cr4Pce,
}

/// An operation, and the registers that it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub kind: Kind,
    /// At CPL 3.
    pub user: bool,
    /// On which processor.
    pub cpu: usize,
    pub ecx: u32,
    pub value: u64,
}

/// An input.
pub(super) struct Input {
    pub part: Part,
    pub cpus: u8,
    pub way: Way,
    pub timing: Timing,
    pub operations: Vec<Operation>,
}

impl Input {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let (head, rest) = bytes.split_at(bytes.len().min(2));
        let second = head.get(1).copied().unwrap_or(0);
        let part = head.first().copied().unwrap_or(0);
        let mut reader = Script::of(part, rest);
        let cpus = if second & 3 == 3 { 2 } else { 1 };
        let way = match second >> 2 & 3 {
            0 | 1 => Way::Stepped,
            _ => Way::Pieces(1 + u64::from(second >> 3) * 7),
        };
        let timing = match part >> 6 {
            0 | 1 => Timing::Flat,
            2 => Timing::Auto,
            _ => Timing::Model,
        };
        // Most take a few bytes.
        let mut operations = Vec::with_capacity((rest.len() / 2).min(MOST));
        while !reader.is_over() && operations.len() < MOST {
            operations.push(operation(&mut reader, cpus));
        }
        Self { part: reader.part(), cpus, way, timing, operations }
    }
}

/// The next operation.
fn operation(reader: &mut Script<'_>, cpus: u8) -> Operation {
    let byte = reader.byte();
    let (kind, ecx, value) = body(byte & 0x3F, reader);
    // Programming a PMU at CPL 3 is refused, and leaves little to be seen.
    let often_user = matches!(kind, Kind::ReadCounter | Kind::Repeat(_) | Kind::Prefer);
    let user = byte & 0x40 != 0 && (often_user || value & 0x11 == 0x11);
    Operation { kind, user, cpu: usize::from(byte >> 7) % usize::from(cpus), ecx, value }
}

fn body(choice: u8, reader: &mut Script<'_>) -> (Kind, u32, u64) {
    let apic = |offset: u32| LAPIC + offset;
    match choice {
        0..10 => register(reader.select()),
        10..15 => register(reader.preset()),
        15..19 => register(reader.control()),
        19..21 => {
            let (msr, value) = (reader.msr(), reader.number(8));
            register(reader.write(msr, value))
        }
        21..24 => (Kind::Read, reader.msr(), 0),
        24..28 => {
            let byte = reader.byte();
            let index = if byte < 0xF0 { u32::from(byte & 3) } else { reader.number(4) as u32 };
            (Kind::ReadCounter, index, 0)
        }
        // Mostly a few times as long as it is to the overflow of a counter that is set ([`Script::preset`]).
        28..31 => (Kind::Repeat(Routine::Loop), 1 + u32::from(reader.byte() & 0xF), 0),
        31 => (Kind::Repeat(Routine::Loop), 1 + u32::from(reader.byte()), 0),
        32 => (Kind::Repeat(Routine::Imul), 1 + u32::from(reader.byte() & 0x3F), 3),
        33 => (Kind::Repeat(Routine::RepMovsb), u32::from(reader.byte() & 0xF), 0),
        34 => (Kind::Repeat(Routine::RepMovsb), u32::from(reader.byte()) * 4, 0),
        // LVTPC: fixed, NMI, masked, and whatever it is.
        35..39 => {
            let byte = reader.byte();
            let entry = match byte >> 6 {
                0 | 1 => 0x40 + u32::from(byte),
                2 => 0x400,
                _ => reader.number(3) as u32,
            };
            (Kind::Store, apic(0x340), entry.into())
        }
        39 | 40 => (Kind::Store, apic(0xB0), 0),
        // ICR: a vector and a mode, to all, to itself, or to processor 0 or 1.
        41 | 42 => {
            let (vector, shape) = (reader.byte(), u32::from(reader.byte()));
            let mode = [0, 0, 0, 4, 5, 6, 1, 2][(shape & 7) as usize] << 8;
            let command = u32::from(vector | 0x20) | mode | 1 << 14 | (shape >> 3 & 3) << 18;
            (Kind::Store, apic(0x300), command.into())
        }
        43 => (Kind::Store, apic(0x310), u64::from(reader.byte() & 1) << 24),
        44..47 => (Kind::Plain(Routine::Sti), 0, 0),
        47 => (Kind::Plain(Routine::Cli), 0, 0),
        48 => (Kind::Plain(Routine::Hlt), 0, 0),
        49 | 50 => {
            let byte = reader.byte();
            let (flags, entry) = (u32::from(byte & 3), 0x40 + u32::from(byte >> 2));
            (Kind::Answer, flags, entry.into())
        }
        51 => {
            let (_, msr, value) = register(reader.preset());
            (Kind::AnswerByWrite, msr, value)
        }
        52 => (Kind::Cr4Pce, 0, u64::from(reader.byte() & 1) << 8),
        53 => {
            const RAISING: [Routine; 4] =
                [Routine::Ud2, Routine::Int3, Routine::Int, Routine::Divide];
            (Kind::Plain(RAISING[usize::from(reader.byte() & 3)]), 0, 0)
        }
        54 => (Kind::Prefer, 0, u64::from(reader.byte() & 1)),
        55 => (Kind::Load, apic(APIC[usize::from(reader.byte()) % APIC.len()]), 0),
        56 => {
            let offset = APIC[usize::from(reader.byte()) % APIC.len()];
            (Kind::Store, apic(offset), reader.number(4))
        }
        57 => match reader.byte() {
            byte @ 0..0x80 => (Kind::Store, IO_APIC + u32::from(byte & 1) * 0x10, reader.number(3)),
            byte => (Kind::Load, IO_APIC + u32::from(byte & 1) * 0x10, 0),
        },
        58 => (Kind::In(width(reader)), port(reader), 0),
        59 => (Kind::Out(width(reader)), port(reader), reader.number(2)),
        60 => (Kind::Read, MSRS[usize::from(reader.byte()) % MSRS.len()], 0),
        61 => (Kind::Write, MSRS[usize::from(reader.byte()) % MSRS.len()], reader.number(2)),
        // An address where there may be a device.
        62 => match reader.byte() {
            byte @ 0..0x80 => (Kind::Load, 0xE000_0000 | u32::from(byte) << 20, 0),
            _ => (Kind::Read, reader.number(4) as u32, 0),
        },
        _ => (Kind::Plain(Routine::Nop), 0, 0),
    }
}

/// The write that a script of the target `pmu` has.
fn register(operation: script::Operation) -> (Kind, u32, u64) {
    match operation {
        script::Operation::Write { msr, value } => (Kind::Write, msr, value),
        _ => (Kind::Plain(Routine::Nop), 0, 0),
    }
}

fn width(reader: &mut Script<'_>) -> u8 {
    [1, 1, 2, 4][usize::from(reader.byte() & 3)]
}

fn port(reader: &mut Script<'_>) -> u32 {
    let byte = reader.byte();
    match byte {
        0..0xF0 => PORTS[usize::from(byte) % PORTS.len()].into(),
        _ => reader.number(2) as u32,
    }
}

impl Operation {
    /// Who executes it.
    pub(super) fn routine(&self) -> Routine {
        match self.kind {
            Kind::Plain(routine) | Kind::Repeat(routine) => routine,
            Kind::Read => Routine::Rdmsr,
            Kind::Write => Routine::Wrmsr,
            Kind::ReadCounter => Routine::Rdpmc,
            Kind::Prefer => Routine::Spflt,
            Kind::Load => Routine::Load,
            Kind::Store => Routine::Store,
            Kind::In(1) => Routine::In1,
            Kind::In(2) => Routine::In2,
            Kind::In(_) => Routine::In4,
            Kind::Out(1) => Routine::Out1,
            Kind::Out(2) => Routine::Out2,
            Kind::Out(_) => Routine::Out4,
            Kind::Answer => Routine::Answer,
            Kind::AnswerByWrite => Routine::AnswerByWrite,
            Kind::Cr4Pce => Routine::Cr4,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, user, cpu, ecx, value } = *self;
        match kind {
            Kind::Plain(routine) => f.write_str(&routine.name().to_uppercase())?,
            Kind::Read => write!(f, "RDMSR {ecx:X}h")?,
            Kind::Write => write!(f, "WRMSR {ecx:X}h := {value:X}h")?,
            Kind::ReadCounter => write!(f, "RDPMC {ecx:X}h")?,
            Kind::Prefer => write!(f, "SPFLT {value}")?,
            Kind::Load => write!(f, "MOV EAX, [{ecx:X}h]")?,
            Kind::Store => write!(f, "MOV [{ecx:X}h], {value:X}h")?,
            Kind::In(bytes) => write!(f, "IN {ecx:X}h, {bytes} bytes")?,
            Kind::Out(bytes) => write!(f, "OUT {ecx:X}h := {value:X}h, {bytes} bytes")?,
            Kind::Repeat(routine) => {
                write!(f, "{ecx} times {}", routine.name().to_uppercase())?;
            }
            Kind::Answer => {
                f.write_str("from now on interrupts are answered with")?;
                let lvtpc = (ecx & ANSWER_LVTPC != 0).then(|| format!(" LVTPC := {value:X}h"));
                let eoi = (ecx & ANSWER_EOI != 0).then(|| " EOI".to_owned());
                let words: String = lvtpc.into_iter().chain(eoi).collect();
                f.write_str(if words.is_empty() { " nothing" } else { &words })?;
            }
            Kind::AnswerByWrite => {
                write!(f, "from now on interrupts are answered with WRMSR {ecx:X}h := {value:X}h")?;
            }
            Kind::Cr4Pce => write!(f, "CR4.PCE := {}", value >> 8)?,
        }
        f.write_str(if user { " at CPL 3" } else { "" })?;
        f.write_str(if cpu == 0 { "" } else { " on processor 1" })
    }
}
