//! Timings of general-purpose and system instructions.
//!
//! Pairing is from Agner Fog, "How to optimize for the Pentium family of microprocessors", chapter 10.1,
//! and the clocks of instructions that pair are of chapter 10.2: one, two with a memory operand that is
//! read, three with one that is read and written. Clocks of the others are from 86Box,
//! `codegen_timing_pentium.c`, where no other source is given; "not sourced" marks those that were filled in
//! without a document at hand. Where clocks depend on operands, the least are here.

use super::{
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

pub(super) static ROWS: &[Row] = &[
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
    Row::all(&["Shl", "Shr", "Sar"], alone(4)).with(Count),
    Row::at(Register, &["Shl", "Shr", "Sar"], Timing::integer(1, U)),
    Row::at(Store, &["Shl", "Shr", "Sar"], Timing::integer(3, U)),
    Row::at(Register, &["Rol", "Ror", "Rcl", "Rcr"], Timing::integer(1, U)).with(One),
    Row::at(Store, &["Rol", "Ror", "Rcl", "Rcr"], Timing::integer(3, U)).with(One),
    Row::all(&["Rol", "Ror"], alone(4)).with(Count),
    Row::at(Register, &["Rol", "Ror"], alone(1)),
    Row::at(Store, &["Rol", "Ror"], alone(3)),
    Row::all(&["Rcl", "Rcr"], alone(7)).with(Count),
    Row::at(Register, &["Rcl", "Rcr"], alone(8)),
    Row::at(Store, &["Rcl", "Rcr"], alone(10)),
    // The V pipe: near branches to a place in the instruction. Others have their target in a register or
    // in memory; two clocks.
    Row::all(&["Jcc"], Timing::integer(1, V)),
    Row::at(Register, &["Jmp", "Call"], Timing::integer(1, V)).with(Immediate),
    Row::all(&["Jmp", "Call"], alone(2)),
    // Transfers of control.
    Row::all(&["Ret"], alone(3)).with(Immediate),
    Row::all(&["Ret"], alone(2)),
    Row::all(&["Loop", "Jcxz"], alone(5)),
    Row::all(&["Loope", "Loopne"], alone(7)),
    // Not sourced: far transfers without a change of privilege.
    Row::all(&["JmpFar"], alone(3)),
    Row::all(&["CallFar", "RetFar"], alone(4)),
    Row::all(&["Iret"], alone(8)),
    // What 86Box has is without the delivery; not sourced is that without a change of privilege.
    Row::all(&["Int", "Int1", "Int3"], alone(27)),
    Row::all(&["Into"], alone(4)),
    Row::all(&["Ud"], alone(1)),
    // Arithmetic.
    Row::at(Register, &["Neg", "Not"], alone(1)),
    Row::at(Store, &["Neg", "Not"], alone(3)),
    Row::all(&["Mul", "Imul"], alone(10)).of(32),
    Row::all(&["Mul", "Imul"], alone(11)),
    Row::all(&["Div"], alone(17)).of(8),
    Row::all(&["Div"], alone(25)).of(16),
    Row::all(&["Div"], alone(41)),
    Row::all(&["Idiv"], alone(22)).of(8),
    Row::all(&["Idiv"], alone(30)).of(16),
    Row::all(&["Idiv"], alone(46)),
    Row::all(&["Aaa", "Aas", "Daa", "Das"], alone(3)),
    Row::all(&["Aad"], alone(10)),
    Row::all(&["Aam"], alone(18)),
    Row::all(&["Cbw", "Cwde"], alone(3)),
    Row::all(&["Cwd", "Cdq"], alone(2)),
    // Moves.
    Row::all(&["Movsx", "Movzx"], alone(3)),
    Row::at(Register, &["Xchg"], alone(2)),
    Row::all(&["Xchg"], alone(3)),
    Row::all(&["Bswap"], alone(1)),
    Row::all(&["Xlatb"], alone(4)),
    // PUSH m reads and writes memory.
    Row::all(&["Push"], alone(2)),
    Row::all(&["Pop"], alone(3)),
    Row::all(&["Pusha", "Popa"], alone(5)),
    Row::all(&["Pushf"], alone(3)),
    Row::all(&["Popf"], alone(4)),
    Row::all(&["Enter"], alone(15)),
    Row::all(&["Leave"], alone(3)),
    Row::at(Register, &["Setcc"], alone(1)),
    Row::all(&["Setcc"], alone(2)),
    Row::all(&["Salc"], alone(2)),
    Row::all(&["Lahf", "Sahf"], alone(2)),
    // Bits. BSF and BSR are slower by what they find; not sourced: BT and its kin.
    Row::all(&["Bsf"], alone(6)),
    Row::all(&["Bsr"], alone(7)),
    Row::at(Register, &["Bt"], alone(4)),
    Row::all(&["Bt"], alone(4)).with(Immediate),
    Row::all(&["Bt"], alone(9)),
    Row::at(Register, &["Btc", "Btr", "Bts"], alone(7)),
    Row::all(&["Btc", "Btr", "Bts"], alone(8)).with(Immediate),
    Row::all(&["Btc", "Btr", "Bts"], alone(13)),
    Row::all(&["Shld", "Shrd"], alone(5)).with(Count),
    Row::all(&["Shld", "Shrd"], alone(4)),
    // Not sourced.
    Row::at(Register, &["Cmpxchg"], alone(5)),
    Row::all(&["Cmpxchg"], alone(6)),
    Row::all(&["Cmpxchg8b"], alone(10)),
    Row::at(Register, &["Xadd"], alone(3)),
    Row::all(&["Xadd"], alone(4)),
    Row::all(&["Bound"], alone(8)),
    Row::all(&["Arpl"], alone(7)),
    // Flags.
    Row::all(&["Clc", "Stc", "Cmc", "Cld", "Std"], alone(2)),
    Row::all(&["Cli", "Sti"], alone(7)),
    // Strings; clocks of an iteration are not sourced.
    Row::all(&["Movs"], Timing::repeated(4, 1)),
    Row::all(&["Stos"], Timing::repeated(3, 1)),
    Row::all(&["Lods"], Timing::repeated(2, 3)),
    Row::all(&["Cmps"], Timing::repeated(5, 4)),
    Row::all(&["Scas"], Timing::repeated(4, 4)),
    Row::all(&["Ins"], Timing::repeated(9, 3)),
    Row::all(&["Outs"], Timing::repeated(13, 4)),
    // Ports.
    Row::all(&["In"], alone(7)),
    Row::all(&["Out"], alone(12)),
    // Segment registers. From one a clock; to one three, far pointers four.
    Row::all(&["MovFromSegment", "PushSegment"], alone(1)),
    Row::all(&["MovToSegment", "PopSegment"], alone(3)),
    Row::all(&["Lds", "Les", "Lfs", "Lgs", "Lss"], alone(4)),
    // System instructions: not sourced.
    Row::all(&["MovToControl"], alone(22)),
    Row::all(&["MovFromControl"], alone(4)),
    Row::all(&["MovToDebug", "MovFromDebug"], alone(11)),
    Row::all(&["Clts"], alone(10)),
    Row::all(&["Cpuid"], alone(14)),
    Row::all(&["Hlt"], alone(4)),
    Row::all(&["Invd"], alone(15)),
    Row::all(&["Wbinvd"], alone(2000)),
    Row::all(&["Invlpg"], alone(25)),
    Row::all(&["Lar", "Lsl"], alone(8)),
    Row::all(&["Lgdt", "Lidt"], alone(6)),
    Row::all(&["Lldt"], alone(9)),
    Row::all(&["Ltr"], alone(10)),
    Row::all(&["Lmsw"], alone(8)),
    Row::all(&["Sgdt", "Sidt", "Smsw"], alone(4)),
    Row::all(&["Sldt", "Str"], alone(2)),
    Row::all(&["Verr", "Verw"], alone(7)),
    Row::all(&["Rdmsr", "Rdpmc", "Rdtsc"], alone(20)),
    Row::all(&["Wrmsr"], alone(30)),
    Row::all(&["Rsm"], alone(83)),
];

/// The arithmetic and logical instructions of either pipe.
const ALU: &[&str] = &["Add", "Sub", "And", "Or", "Xor", "Cmp", "Inc", "Dec"];
