//! Timings of general-purpose and system instructions.
//!
//! Pairing is from Agner Fog, "How to optimize for the Pentium family of microprocessors", chapter 10.1,
//! and the clocks of instructions that pair are of chapter 10.2: one, two with a memory operand that is
//! read, three with one that is read and written. Clocks of the others are from 86Box,
//! `codegen_timing_pentium.c`, where no other source is given; "not sourced" marks those that were filled in
//! without a document at hand. Where clocks depend on operands, the least are here.

use super::super::in_order_table::{
    Place::{Load, Register, Store},
    Row,
    Source::{AccumulatorImmediate, Count, Immediate, One},
};
use crate::pipeline::in_order::{
    Pairing::{Never, U, UV, V},
    Timing,
};

/// An instruction that does not pair.
const fn alone(clocks: u16) -> Timing {
    Timing::integer(clocks, Never)
}

/// An instruction that microcode executes, as all do but the simple ones, which are "entirely hardwired"
/// (Intel Pentium Processor User's Manual volume 1, section 3.1.2). Not sourced: others that take a clock
/// are as well.
const fn complex(clocks: u16) -> Timing {
    Timing::microcode(clocks)
}

pub(crate) static ROWS: &[Row] = &[
    // Either pipe.
    Row::all(&["Mov"], Timing::integer(1, UV)),
    Row::at(Register, ALU, Timing::integer(1, UV)),
    Row::at(Load, ALU, Timing::integer(2, UV)),
    Row::at(Store, ALU, Timing::integer(3, UV)),
    Row::at(Register, &["Push", "Pop"], Timing::integer(1, UV)),
    Row::all(&["Lea", "Nop", "Pause"], Timing::integer(1, UV)),
    // TEST pairs with registers, and with an immediate in its accumulator form only.
    Row::at(Register, &["Test"], Timing::integer(1, Never)).with(Immediate),
    Row::at(Register, &["Test"], Timing::integer(1, UV)).with(AccumulatorImmediate),
    Row::at(Register, &["Test"], Timing::integer(1, UV)),
    Row::at(Load, &["Test"], Timing::integer(2, Never)).with(Immediate),
    Row::at(Load, &["Test"], Timing::integer(2, UV)),
    // The U pipe.
    Row::at(Register, &["Adc", "Sbb"], Timing::integer(1, U)),
    Row::at(Load, &["Adc", "Sbb"], Timing::integer(2, U)),
    Row::at(Store, &["Adc", "Sbb"], Timing::integer(3, U)),
    Row::all(&["Shl", "Shr", "Sar"], complex(4)).with(Count),
    Row::at(Register, &["Shl", "Shr", "Sar"], Timing::integer(1, U)),
    Row::at(Store, &["Shl", "Shr", "Sar"], Timing::integer(3, U)),
    Row::at(Register, &["Rol", "Ror", "Rcl", "Rcr"], Timing::integer(1, U)).with(One),
    Row::at(Store, &["Rol", "Ror", "Rcl", "Rcr"], Timing::integer(3, U)).with(One),
    Row::all(&["Rol", "Ror"], complex(4)).with(Count),
    Row::at(Register, &["Rol", "Ror"], alone(1)),
    Row::at(Store, &["Rol", "Ror"], alone(3)),
    Row::all(&["Rcl", "Rcr"], complex(7)).with(Count),
    Row::at(Register, &["Rcl", "Rcr"], complex(8)),
    Row::at(Store, &["Rcl", "Rcr"], complex(10)),
    // The V pipe: near branches to a place in the instruction. Others have their target in a register or
    // in memory; two clocks.
    Row::all(&["Jcc"], Timing::integer(1, V)),
    Row::at(Register, &["Jmp", "Call"], Timing::integer(1, V)).with(Immediate),
    Row::all(&["Jmp", "Call"], alone(2)),
    // Transfers of control.
    Row::all(&["Ret"], complex(3)).with(Immediate),
    Row::all(&["Ret"], complex(2)),
    Row::all(&["Loop", "Jcxz"], complex(5)),
    Row::all(&["Loope", "Loopne"], complex(7)),
    // Not sourced: far transfers without a change of privilege.
    Row::all(&["JmpFar"], complex(3)),
    Row::all(&["CallFar", "RetFar"], complex(4)),
    Row::all(&["Iret"], complex(8)),
    // What 86Box has is without the delivery; not sourced is that without a change of privilege.
    Row::all(&["Int", "Int1", "Int3"], complex(27)),
    Row::all(&["Into"], complex(4)),
    Row::all(&["Ud"], alone(1)),
    // Arithmetic.
    Row::at(Register, &["Neg", "Not"], alone(1)),
    Row::at(Store, &["Neg", "Not"], alone(3)),
    Row::all(&["Mul", "Imul"], complex(10)).of(32),
    Row::all(&["Mul", "Imul"], complex(11)),
    Row::all(&["Div"], complex(17)).of(8),
    Row::all(&["Div"], complex(25)).of(16),
    Row::all(&["Div"], complex(41)),
    Row::all(&["Idiv"], complex(22)).of(8),
    Row::all(&["Idiv"], complex(30)).of(16),
    Row::all(&["Idiv"], complex(46)),
    Row::all(&["Aaa", "Aas", "Daa", "Das"], complex(3)),
    Row::all(&["Aad"], complex(10)),
    Row::all(&["Aam"], complex(18)),
    Row::all(&["Cbw", "Cwde"], complex(3)),
    Row::all(&["Cwd", "Cdq"], complex(2)),
    // Moves.
    Row::all(&["Movsx", "Movzx"], complex(3)),
    Row::at(Register, &["Xchg"], complex(2)),
    Row::all(&["Xchg"], complex(3)),
    Row::all(&["Bswap"], alone(1)),
    Row::all(&["Xlatb"], complex(4)),
    // PUSH m reads and writes memory.
    Row::all(&["Push"], complex(2)),
    Row::all(&["Pop"], complex(3)),
    Row::all(&["Pusha", "Popa"], complex(5)),
    Row::all(&["Pushf"], complex(3)),
    Row::all(&["Popf"], complex(4)),
    Row::all(&["Enter"], complex(15)),
    Row::all(&["Leave"], complex(3)),
    Row::at(Register, &["Setcc"], alone(1)),
    Row::all(&["Setcc"], complex(2)),
    Row::all(&["Salc"], complex(2)),
    Row::all(&["Lahf", "Sahf"], complex(2)),
    // Bits. BSF and BSR are slower by what they find; not sourced: BT and its kin.
    Row::all(&["Bsf"], complex(6)),
    Row::all(&["Bsr"], complex(7)),
    Row::at(Register, &["Bt"], complex(4)),
    Row::all(&["Bt"], complex(4)).with(Immediate),
    Row::all(&["Bt"], complex(9)),
    Row::at(Register, &["Btc", "Btr", "Bts"], complex(7)),
    Row::all(&["Btc", "Btr", "Bts"], complex(8)).with(Immediate),
    Row::all(&["Btc", "Btr", "Bts"], complex(13)),
    Row::all(&["Shld", "Shrd"], complex(5)).with(Count),
    Row::all(&["Shld", "Shrd"], complex(4)),
    // Not sourced.
    Row::at(Register, &["Cmpxchg"], complex(5)),
    Row::all(&["Cmpxchg"], complex(6)),
    Row::all(&["Cmpxchg8b"], complex(10)),
    Row::at(Register, &["Xadd"], complex(3)),
    Row::all(&["Xadd"], complex(4)),
    Row::all(&["Bound"], complex(8)),
    Row::all(&["Arpl"], complex(7)),
    // Flags.
    Row::all(&["Clc", "Stc", "Cmc", "Cld", "Std"], complex(2)),
    Row::all(&["Cli", "Sti"], complex(7)),
    // Strings; clocks of an iteration are not sourced.
    Row::all(&["Movs"], Timing::repeated(4, 1)),
    Row::all(&["Stos"], Timing::repeated(3, 1)),
    Row::all(&["Lods"], Timing::repeated(2, 3)),
    Row::all(&["Cmps"], Timing::repeated(5, 4)),
    Row::all(&["Scas"], Timing::repeated(4, 4)),
    Row::all(&["Ins"], Timing::repeated(9, 3)),
    Row::all(&["Outs"], Timing::repeated(13, 4)),
    // Ports.
    Row::all(&["In"], complex(7)),
    Row::all(&["Out"], complex(12)),
    // Segment registers. From one a clock; to one three, far pointers four.
    Row::all(&["MovFromSegment", "PushSegment"], alone(1)),
    Row::all(&["MovToSegment", "PopSegment"], complex(3)),
    Row::all(&["Lds", "Les", "Lfs", "Lgs", "Lss"], complex(4)),
    // System instructions: not sourced.
    Row::all(&["MovToControl"], complex(22)),
    Row::all(&["MovFromControl"], complex(4)),
    Row::all(&["MovToDebug", "MovFromDebug"], complex(11)),
    Row::all(&["Clts"], complex(10)),
    Row::all(&["Cpuid"], complex(14)),
    Row::all(&["Hlt"], complex(4)),
    Row::all(&["Invd"], complex(15)),
    Row::all(&["Wbinvd"], complex(2000)),
    Row::all(&["Invlpg"], complex(25)),
    Row::all(&["Lar", "Lsl"], complex(8)),
    Row::all(&["Lgdt", "Lidt"], complex(6)),
    Row::all(&["Lldt"], complex(9)),
    Row::all(&["Ltr"], complex(10)),
    Row::all(&["Lmsw"], complex(8)),
    Row::all(&["Sgdt", "Sidt", "Smsw"], complex(4)),
    Row::all(&["Sldt", "Str"], complex(2)),
    Row::all(&["Verr", "Verw"], complex(7)),
    Row::all(&["Rdmsr", "Rdpmc", "Rdtsc"], complex(20)),
    Row::all(&["Wrmsr"], complex(30)),
    Row::all(&["Rsm"], complex(83)),
];

/// The arithmetic and logical instructions of either pipe.
const ALU: &[&str] = &["Add", "Sub", "And", "Or", "Xor", "Cmp", "Inc", "Dec"];
