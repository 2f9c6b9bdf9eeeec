//! The events that scripts select, by number: which facts they count. A small set of each processor, typed in
//! from its manual; a script selects no others.

use super::registers::Part;
use crate::fact::Fact;

/// The codes that scripts select. Those for which no rule is below are reserved ones.
pub fn codes(part: Part) -> &'static [u8] {
    match part {
        Part::P55c => &[
            0x16, 0x30, 0x00, 0x01, 0x12, 0x0F, 0x18, 0x27, 0x28, 0x2B, 0x32, 0x10, 0x11, 0x20,
            0x3C, 0x3F,
        ],
        Part::Ppro | Part::Pii | Part::Piii => &[
            0xC0, 0x79, 0xC4, 0xC9, 0xC6, 0xC8, 0x06, 0x2E, 0x6F, 0xC1, 0x12, 0xB0, 0x00, 0x01,
            0x3C, 0xFF,
        ],
        Part::Pm => {
            &[0xC0, 0x79, 0xC4, 0xC9, 0xC6, 0xC8, 0x06, 0x2E, 0x6F, 0xC1, 0x12, 0x00, 0x01, 0xFF]
        }
        Part::K7 => &[0xC0, 0x76, 0xC2, 0xC4, 0xC6, 0xCD, 0xCF, 0x20, 0x00, 0x7D, 0x7E, 0x7F, 0xFF],
        Part::K8 => &[0xC0, 0x76, 0xC2, 0xC4, 0xC6, 0xCB, 0xCD, 0xCF, 0x20, 0xD0, 0x64, 0x79, 0x99],
        Part::Knc => &[0x16, 0x2A, 0x00, 0x01, 0x12, 0x28, 0xCB, 0x05, 0x3F, 0x80],
    }
}

/// Whether this select counts this fact on this counter.
pub fn counts(part: Part, code: u8, mask: u8, counter: usize, fact: Fact) -> bool {
    match part {
        Part::P55c => pentium(code, counter, fact),
        Part::Ppro | Part::Pii | Part::Piii | Part::Pm => p6(part, code, mask, counter, fact),
        Part::K7 | Part::K8 => amd(part, code, mask, fact),
        Part::Knc => knights_corner(code, mask, counter, fact),
    }
}

/// MMX manual, table 6-1: what counts on which counter.
fn pentium(code: u8, counter: usize, fact: Fact) -> bool {
    match (code, counter) {
        // "Data Read".
        (0x00, _) => fact == Fact::Load,
        // "Data Write".
        (0x01, _) => fact == Fact::Store,
        // "Any Segment Register Loaded".
        (0x0F, _) => matches!(fact, Fact::SegLoadEs | Fact::SegLoadCs),
        // "Branches"; Intel SDM volume 3: "hardware interrupts and exceptions" too, as taken branches.
        (0x12, _) => {
            matches!(fact, Fact::BranchRetired | Fact::InterruptTaken | Fact::ExceptionTaken)
        }
        // "Instructions Executed".
        (0x16, _) => fact == Fact::InsnRetired,
        // "Clocks while a bus cycle is in progress (bus utilization)".
        (0x18, _) => fact == Fact::BusBusy,
        // "Hardware Interrupts".
        (0x27, _) => fact == Fact::InterruptTaken,
        // "Data Read or Data Write".
        (0x28, _) => matches!(fact, Fact::Load | Fact::Store),
        // "MMX instructions executed in u-pipe", counter 0: Yes, counter 1: No.
        (0x2B, 0) => fact == Fact::MmxPipeU,
        // "MMX instructions executed in v-pipe", counter 0: No, counter 1: Yes.
        (0x2B, 1) => fact == Fact::MmxPipeV,
        // "Number of Cycles Not in HLT State", counter 0: Yes, counter 1: No.
        (0x30, 0) => fact == Fact::CyclesUnhalted,
        // "Floating Point Stalls", counter 0: Yes, counter 1: No.
        (0x32, 0) => fact == Fact::StallFpu,
        // "Taken Branches", counter 0: No, counter 1: Yes.
        (0x32, 1) => fact == Fact::BranchTaken,
        _ => false,
    }
}

/// MMX manual, table 6-1: the events with DURATION rather than OCCURRENCE. Event 30h of counter 1 is in Intel SDM
/// volume 3 alone, "Data cache TLB miss stall duration".
pub fn is_duration(code: u8, counter: usize) -> bool {
    matches!((code, counter), (0x18 | 0x30, _) | (0x32, 0))
}

/// MMX manual, table 6-2; Intel SDM volume 3, "P6 Family Performance-Monitoring Events".
fn p6(part: Part, code: u8, mask: u8, counter: usize, fact: Fact) -> bool {
    match code {
        // "Number of segment register loads".
        0x06 => matches!(fact, Fact::SegLoadEs | Fact::SegLoadCs),
        // "Number of multiplies. Counter 1 only."
        0x12 => counter == 1 && fact == Fact::ArithMul,
        // Note 1: "UMSK[3] = M (8H) state, UMSK[2] = E (4H) state, UMSK[1] = S (2H) state, and UMSK[0] = I
        // (1H) state ... UMSK = 0H, for the applicable events, will result in nothing being counted".
        0x2E => match fact {
            Fact::L2RequestModified => mask & 8 != 0,
            Fact::L2RequestExclusive => mask & 4 != 0,
            Fact::L2RequestShared => mask & 2 != 0,
            Fact::L2RequestInvalid => mask & 1 != 0,
            _ => false,
        },
        // Note 2: "transactions that are self generated (UMSK[5] = 0) or transactions that result from any
        // processor on the bus (UMSK[5] = 1)".
        0x6F if mask & 0x20 == 0 => fact == Fact::BusMemory,
        0x6F => fact == Fact::BusMemoryAny,
        // "Number of cycles during which the processor is not halted".
        0x79 => fact == Fact::CyclesUnhalted,
        // "MMX_INSTR_EXEC", of the Pentium II alone.
        0xB0 => part == Part::Pii && fact == Fact::InsnRetiredMmx,
        // "Number of instructions retired".
        0xC0 => fact == Fact::InsnRetired,
        // "Number of computational floating-point operations retired. Counter 0 only".
        0xC1 => counter == 0 && fact == Fact::X87Flop,
        // "Number of branch instructions retired".
        0xC4 => fact == Fact::BranchRetired,
        // "Number of processor cycles for which interrupts are disabled".
        0xC6 => fact == Fact::CyclesIntMasked,
        // "Number of hardware interrupts received".
        0xC8 => fact == Fact::InterruptTaken,
        // "Number of taken branches retired".
        0xC9 => fact == Fact::BranchTaken,
        _ => false,
    }
}

/// AMD 26094, 10.2.1, and 22007, table 11. "For events where no UNIT_MASK table is shown, the UNIT_MASK is
/// not applicable"; "all events selected by UNIT_MASK are simultaneously monitored".
fn amd(part: Part, code: u8, mask: u8, fact: Fact) -> bool {
    let delivery = matches!(fact, Fact::InterruptTaken | Fact::ExceptionTaken);
    match code {
        // "The number of segment register loads performed", 01h ES, 02h CS.
        0x20 => match fact {
            Fact::SegLoadEs => mask & 0x01 != 0,
            Fact::SegLoadCs => mask & 0x02 != 0,
            _ => false,
        },
        // "CPU Clocks not Halted".
        0x76 => fact == Fact::CyclesUnhalted,
        // "Retired Instructions": "each exception or interrupt is counted as one instruction".
        0xC0 => fact == Fact::InsnRetired || delivery,
        // "Retired Branch Instructions": exceptions and interrupts are included.
        0xC2 => fact == Fact::BranchRetired || delivery,
        // "Retired Taken Branch Instructions": exceptions and interrupts are included.
        0xC4 => fact == Fact::BranchTaken || delivery,
        // "Retired Far Control Transfers": exceptions and interrupts are included.
        0xC6 => fact == Fact::BranchRetiredFar || delivery,
        // "Retired MMX/FP Instructions", of the K8: 01h x87, 02h MMX and 3DNow!, 04h packed, 08h scalar SSE.
        0xCB if part == Part::K8 => match fact {
            Fact::InsnRetiredX87 => mask & 0x01 != 0,
            Fact::InsnRetiredMmx => mask & 0x02 != 0,
            Fact::InsnRetiredSsePacked => mask & 0x04 != 0,
            Fact::InsnRetiredSseScalar => mask & 0x08 != 0,
            _ => false,
        },
        // "Interrupts-Masked Cycles".
        0xCD => fact == Fact::CyclesIntMasked,
        // "Interrupts Taken".
        0xCF => fact == Fact::InterruptTaken,
        _ => false,
    }
}

/// Intel 327357-001, table 1-6, by unit mask and code. "An illegal encoding causes no exception or error, and
/// the counter does not count".
fn knights_corner(code: u8, mask: u8, counter: usize, fact: Fact) -> bool {
    match (mask, code) {
        // DATA_READ.
        (0x00, 0x00) => fact == Fact::Load,
        // DATA_WRITE.
        (0x00, 0x01) => fact == Fact::Store,
        // BRANCHES.
        (0x00, 0x12) => fact == Fact::BranchRetired,
        // INSTRUCTIONS_EXECUTED.
        (0x00, 0x16) => fact == Fact::InsnRetired,
        // DATA_READ_OR_WRITE.
        (0x00, 0x28) => matches!(fact, Fact::Load | Fact::Store),
        // CPU_CLK_UNHALTED.
        (0x00, 0x2A) => fact == Fact::CyclesUnhalted,
        // L2_READ_MISS. Its ring interface is wired to counter 0 alone: that is what clients' tables have.
        (0x10, 0xCB) => counter == 0 && fact == Fact::L2MissRead,
        // VPU_DATA_READ.
        (0x20, 0x00) => fact == Fact::LoadVpu,
        // VPU_INSTRUCTIONS_EXECUTED.
        (0x20, 0x16) => fact == Fact::VpuOp,
        _ => false,
    }
}

/// Whether Knights Corner knows the event at all. 327357-001, table 1-5: "an illegal encoding causes no
/// exception or error, and the counter does not count": not even clocks in which nothing happens. The same
/// goes for the ring interface on counter 1, which "read 0 on hardware" (LIKWID).
pub fn is_legal(part: Part, code: u8, mask: u8, counter: usize) -> bool {
    part != Part::Knc
        || matches!(
            (mask, code),
            (0x00, 0x00 | 0x01 | 0x12 | 0x16 | 0x28 | 0x2A) | (0x20, 0x00 | 0x01 | 0x05 | 0x16)
        )
        || counter == 0 && (mask, code) == (0x10, 0xCB)
}

/// Whether an event has no thread: those of the ring interface ("FUB: CRI" in table 1-6).
pub fn is_without_thread(part: Part, code: u8, mask: u8) -> bool {
    part == Part::Knc && (mask, code) == (0x10, 0xCB)
}
