//! RDMSR and WRMSR of every index around the registers of all parts' PMUs: those of the part answer
//! and keep what is theirs, everything else is #GP (APM volume 3 and SDM Vol. 2, RDMSR and WRMSR),
//! and above CPL 0 everything is.
//!
//! Which bits are kept: SDM Vol. 3, "Control and Event Select Register" (P55C) and "PerfEvtSel0 and
//! PerfEvtSel1 MSRs" (P6), AMD 22007, appendix D (K7), BKDG 10.1 and 10.2 (K8), Intel 327357-001,
//! section 1.4.3 (Knights Corner).

use guest_tests::guest::{EFLAGS_CLEAR, FAULT, FAULT_GP, NO_FAULT};
use guest_tests::part::Registers;
use guest_tests::{Guest, Part, Result, SCRATCH, run};
use iced_x86::code_asm::{dword_ptr, eax, ebp, ecx, edi, edx, esi};

topics!(at_cpl_0, at_cpl_3);

/// First and last register of each part.
const RUNS: [(u32, u32); 5] =
    [(0x11, 0x13), (0x20, 0x2F), (0xC1, 0xC2), (0x186, 0x187), (0xC001_0000, 0xC001_0007)];
/// How far around them.
const AROUND: u32 = 8;

const ONES: u64 = u64::MAX;
/// With EN clear, as P6, K7, K8 and Knights Corner have it.
const PATTERN: u64 = 0x5A5A_5A5A_A5A5_A5A5;

/// What a register does with a write.
#[derive(Clone, Copy)]
enum Kept {
    /// Keeps these bits.
    Bits(u64),
    /// Keeps bits 31:0 and copies bit 31 to 39:32.
    Signed,
    /// #GP; it can be read.
    ReadOnly,
    /// It cannot be read.
    WriteOnly,
}

/// A register: index, what is read first, what it keeps.
type Register = (u32, u64, Kept);

const BITS_40: u64 = 0xFF_FFFF_FFFF;
const BITS_48: u64 = 0xFFFF_FFFF_FFFF;

const P55C: &[Register] = &[
    (0x11, 0, Kept::Bits(0x03FF_03FF)),
    (0x12, 0, Kept::Bits(BITS_40)),
    (0x13, 0, Kept::Bits(BITS_40)),
];
const P6: &[Register] = &[
    (0xC1, 0, Kept::Signed),
    (0xC2, 0, Kept::Signed),
    (0x186, 0, Kept::Bits(0xFFDF_FFFF)),
    (0x187, 0, Kept::Bits(0xFFDF_FFFF)),
];
/// The counters count before they are looked at: all ones in an event select are EN with an event
/// that never occurs, INV and CNT_MASK 255, so that it is less in every cycle, and E, for which that is
/// one edge.
const AMD: &[Register] = &[
    (0xC001_0000, 0, Kept::Bits(0xFFDF_FFFF)),
    (0xC001_0001, 0, Kept::Bits(0xFFDF_FFFF)),
    (0xC001_0002, 0, Kept::Bits(0xFFDF_FFFF)),
    (0xC001_0003, 0, Kept::Bits(0xFFDF_FFFF)),
    (0xC001_0004, 1, Kept::Bits(BITS_48)),
    (0xC001_0005, 1, Kept::Bits(BITS_48)),
    (0xC001_0006, 1, Kept::Bits(BITS_48)),
    (0xC001_0007, 1, Kept::Bits(BITS_48)),
];
const KNC: &[Register] = &[
    (0x20, 0, Kept::Bits(BITS_40)),
    (0x21, 0, Kept::Bits(BITS_40)),
    (0x28, 0, Kept::Bits(0xFFF7_FFFF)),
    (0x29, 0, Kept::Bits(0xFFF7_FFFF)),
    (0x2C, 0, Kept::Bits(1 << 63 | 3)),
    (0x2D, 0, Kept::ReadOnly),
    (0x2E, 0, Kept::WriteOnly),
    // The guest has enabled both counters there.
    (0x2F, 3, Kept::Bits(3)),
];

/// The PMU of a part.
fn pmu(part: &Part) -> &'static [Register] {
    match part.registers {
        Registers::P55c => P55C,
        Registers::P6 => P6,
        Registers::Amd => AMD,
        Registers::Knc => KNC,
    }
}

/// Registers of a part around there that are not its PMU's: machine check 0 and 1, TR12, time-stamp
/// counter, platform identifier, APIC base, power-on configuration, test control.
fn others(part: &Part) -> &'static [u32] {
    match part.registers {
        Registers::P55c => &[0x00, 0x01, 0x0E, 0x10],
        Registers::P6 => &[0x00, 0x01, 0x10, 0x17, 0x1B, 0x2A, 0x33],
        Registers::Amd => &[0x10, 0x1B],
        Registers::Knc => &[0x00, 0x01, 0x10, 0x1B],
    }
}

fn indexes() -> Vec<u32> {
    let around = RUNS.iter().flat_map(|&(first, last)| first - AROUND..=last + AROUND);
    let mut all: Vec<_> = around.chain([0, u32::MAX]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[derive(Clone, Copy)]
enum Access {
    Read,
    Write(u64),
}

/// What the guest leaves of an access: EAX and EDX behind it, and what came of it.
type Record = [u32; 3];
const RECORD: u32 = 12;

fn record(value: u64, came: u64) -> Record {
    [value as u32, (value >> 32) as u32, came as u32]
}

/// Does `access` to the index at ESI, and leaves the record of it at EDI, which goes on.
fn access(g: &mut Guest, access: Access) -> Result {
    let value = if let Access::Write(value) = access { value } else { 0 };
    g.mov(ecx, dword_ptr(esi))?;
    g.mov(eax, value as u32)?;
    g.mov(edx, (value >> 32) as u32)?;
    g.attempt(|g| match access {
        Access::Read => g.rdmsr(),
        Access::Write(_) => g.wrmsr(),
    })?;
    g.mov(dword_ptr(edi), eax)?;
    g.mov(dword_ptr(edi + 4), edx)?;
    g.mov(eax, dword_ptr(FAULT))?;
    g.mov(dword_ptr(edi + 8), eax)?;
    g.add(edi, RECORD as i32)
}

/// Does `accesses` to each of `indexes`.
fn storm(g: &mut Guest, indexes: &[u32], accesses: &[Access]) -> Result {
    let table: Vec<_> = indexes.iter().flat_map(|index| index.to_le_bytes()).collect();
    let first = g.constant(&table);
    g.address(esi, first)?;
    g.mov(ebp, esi)?;
    g.add(ebp, table.len() as i32)?;
    g.mov(edi, RECORDS)?;
    let next = g.here()?;
    accesses.iter().try_for_each(|&one| access(g, one))?;
    g.add(esi, 4)?;
    g.cmp(esi, ebp)?;
    g.jne(next)
}

/// Where the guest leaves the records, and what it finds wrong in them: how many words, and the
/// first of them: offset and content.
const RECORDS: u32 = SCRATCH + 0x1000;
const WRONG: u32 = SCRATCH;
const WRONG_LOG: u32 = SCRATCH + 0x10;
const WRONG_MAX: u32 = 8;

/// Compares the records with what is `expected`.
fn compare(g: &mut Guest, expected: &[Record]) -> Result {
    let bytes: Vec<_> = expected.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
    let right = g.constant(&bytes);
    let mut same = g.create_label();
    let mut full = g.create_label();
    g.address(esi, right)?;
    g.xor(edi, edi)?;
    let next = g.here()?;
    g.mov(eax, dword_ptr(edi + RECORDS))?;
    g.cmp(eax, dword_ptr(esi + edi))?;
    g.je(same)?;
    g.mov(ecx, dword_ptr(WRONG))?;
    g.inc(dword_ptr(WRONG))?;
    g.cmp(ecx, WRONG_MAX as i32)?;
    g.jae(full)?;
    g.mov(dword_ptr(ecx * 8 + WRONG_LOG), edi)?;
    g.mov(dword_ptr(ecx * 8 + (WRONG_LOG + 4)), eax)?;
    g.place(&mut full)?;
    g.place(&mut same)?;
    g.add(edi, 4)?;
    g.cmp(edi, bytes.len() as i32)?;
    g.jne(next)?;
    g.report_word("wrong", WRONG)?;
    (0..WRONG_MAX).try_for_each(|n| g.report_quad(&format!("wrong.{n}"), WRONG_LOG + 8 * n))
}

/// Runs a guest that does `accesses` to each of `indexes`, around it at CPL 0 what `around` does.
fn check(
    part: &'static Part,
    indexes: &[u32],
    accesses: &[Access],
    expected: &[Record],
    around: impl FnOnce(&mut Guest, &dyn Fn(&mut Guest) -> Result) -> Result,
) -> Result {
    assert_eq!(expected.len(), indexes.len() * accesses.len());
    let image = Guest::assemble(part, |g| {
        around(g, &|g| storm(g, indexes, accesses))?;
        compare(g, expected)
    })?;
    let outcome = run(part, &image);
    let wrong = outcome.value("wrong");
    let found: Vec<_> = (0..wrong.min(WRONG_MAX.into()))
        .map(|n| {
            let log = outcome.value(&format!("wrong.{n}"));
            let (offset, got) = (log as u32, (log >> 32) as u32);
            let (at, word) = ((offset / RECORD) as usize, (offset % RECORD / 4) as usize);
            let what = match accesses[at % accesses.len()] {
                Access::Read => "RDMSR".into(),
                Access::Write(value) => format!("WRMSR {value:#x}"),
            };
            let index = indexes[at / accesses.len()];
            let field = ["EAX", "EDX", "fault"][word];
            format!("{index:#x} {what}: {field} {got:#x}, expected {:#x}", expected[at][word])
        })
        .collect();
    assert!(wrong == 0, "{wrong} words are wrong, first of them\n{}", found.join("\n"));
    Ok(())
}

/// Reads, writes nothing, ones and a pattern, reads after each, and leaves nothing behind.
fn at_cpl_0(part: &'static Part) -> Result {
    const ACCESSES: [Access; 8] = [
        Access::Read,
        Access::Write(0),
        Access::Read,
        Access::Write(ONES),
        Access::Read,
        Access::Write(PATTERN),
        Access::Read,
        Access::Write(0),
    ];
    let mut indexes = indexes();
    indexes.retain(|index| !others(part).contains(index));
    let expected: Vec<Record> = indexes
        .iter()
        .flat_map(|&index| {
            let register = pmu(part).iter().find(|register| register.0 == index);
            let mut held = register.map_or(0, |register| register.1);
            ACCESSES.map(|access| {
                let (value, faults) = match (access, register.map(|register| register.2)) {
                    (Access::Read, None | Some(Kept::WriteOnly)) => (0, true),
                    (Access::Read, Some(_)) => (held, false),
                    (Access::Write(value), None | Some(Kept::ReadOnly)) => (value, true),
                    (Access::Write(value), Some(kept)) => {
                        held = match kept {
                            Kept::Bits(bits) => value & bits,
                            Kept::Signed => value as u32 as i32 as u64 & BITS_40,
                            Kept::ReadOnly | Kept::WriteOnly => 0,
                        };
                        (value, false)
                    }
                };
                record(value, if faults { FAULT_GP } else { NO_FAULT })
            })
        })
        .collect();
    check(part, &indexes, &ACCESSES, &expected, |g, storm| storm(g))
}

/// Whether there is such a register or not.
fn at_cpl_3(part: &'static Part) -> Result {
    const ACCESSES: [Access; 2] = [Access::Read, Access::Write(0)];
    let indexes = indexes();
    let expected = vec![record(0, FAULT_GP); indexes.len() * ACCESSES.len()];
    check(part, &indexes, &ACCESSES, &expected, |g, storm| g.at_cpl3(EFLAGS_CLEAR, |g| storm(g)))
}
