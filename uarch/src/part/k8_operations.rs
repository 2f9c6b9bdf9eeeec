//! What K8's decoders make of instructions: the general-purpose and system instructions. The others are in
//! `k8_float_operations.rs`.
//!
//! Decode types and latencies are those of AMD 25112 rev. 3.06, appendix C, table 13 (`OG8`), where it
//! could be read; else those of gcc's `athlon.md` and `x86-tune-costs.h` (`GCC`), which restate it. How
//! many macro-operations a VectorPath instruction makes is in neither: the numbers are estimates (as many
//! as three a cycle in its latency, or fewer). Latencies that are `~` in the manual are estimates too.

use super::{
    amd_operations::{
        ALU_STORES, Address, Alu, CALLS, CALLS_MEMORY, COPIES, LEAVES, LOADS, NOTHING, POPS,
        POPS_ALL, POPS_MEMORY, PUSHES, PUSHES_ALL, PUSHES_MEMORY, RETURNS, STEP, STORES,
    },
    k8_float_operations::{MMX_3DNOW, SSE, SSE_MOVES, X87, X87_SLOW},
};
use crate::pipeline::out_of_order::table::{
    ANY, Decode, MEMORY, REGISTER, Row, SOURCE, Table, Variant, W8, W16, W32, W64,
    behaviour::{
        ALL_QUIET, BRANCH, DIVIDE, DRAINS_STORES, FAR, MULTIPLY, SEGMENT_LOAD, SERIALISES,
        SYNCHRONISES,
    },
};

pub(super) use super::amd_operations::{FADD, FMUL, FSTORE};

/// AMD 25112 rev. 3.06, appendix C.
const OG8: &str = "AMD 25112 appendix C";
/// gcc's description.
const GCC: &str = "gcc athlon.md, x86-tune-costs.h";
/// Nothing.
const NONE: &str = "not sourced";

/// The table of K8.
pub static TABLE: Table = Table {
    rows: &[
        MOVES, ARITHMETIC, PRODUCTS, BITS, STACK, CONTROL, STRINGS, SYSTEM, X87_SLOW, X87,
        MMX_3DNOW, SSE, SSE_MOVES,
    ],
    step: STEP,
};

/// Moves and conversions.
pub(super) const MOVES: &[Row] = &[
    Row::new(&["Mov", "Movzx", "Movsx", "Movsxd"], REGISTER, Alu::<1>::REGISTER, OG8),
    // Of less than 32 bits the rest of the register is merged, or the load extended.
    Row::new(&["Mov"], SOURCE, Alu::<1>::SOURCE, OG8).of_width(W8 | W16),
    Row::new(&["Mov"], SOURCE, LOADS, OG8),
    Row::new(&["Mov", "Movnti"], ANY, STORES, OG8),
    Row::new(&["Movzx", "Movsx", "Movsxd"], MEMORY, Alu::<1>::SOURCE, GCC),
    Row::new(&["Cmovcc", "Bswap"], REGISTER, Alu::<1>::REGISTER, OG8),
    Row::new(&["Cmovcc"], MEMORY, Alu::<1>::SOURCE, OG8),
    Row::new(&["Bswap"], ANY, Alu::<1>::REGISTER, OG8),
    Row::new(&["Setcc"], REGISTER, Alu::<1>::REGISTER, OG8),
    Row::new(&["Setcc"], MEMORY, ALU_STORES, OG8),
    Row::new(&["Cbw", "Cwde", "Cdqe", "Cwd", "Cdq", "Cqo"], ANY, Alu::<1>::REGISTER, GCC),
    Row::new(&["Xchg"], REGISTER, Alu::<2>::TWO, NONE).decoded(Decode::Microcode),
    Row::new(&["Xchg", "Xadd"], MEMORY, Alu::<1>::DESTINATION, NONE).in_all(3).and(SYNCHRONISES),
    Row::new(&["Xadd"], REGISTER, Alu::<2>::TWO, NONE).decoded(Decode::Microcode),
    Row::new(&["Cmpxchg"], REGISTER, Alu::<3>::TWO, NONE).decoded(Decode::Microcode),
    Row::new(&["Cmpxchg"], MEMORY, Alu::<2>::DESTINATION, NONE).in_all(5),
    Row::new(&["Cmpxchg8b", "Cmpxchg16b"], ANY, Alu::<4>::DESTINATION, NONE).in_all(12),
    Row::new(&["Xlatb"], ANY, Alu::<2>::SOURCE, NONE).in_all(2),
    Row::new(&["Lahf", "Salc"], ANY, Alu::<3>::REGISTER, NONE).in_all(3),
    Row::new(&["Sahf", "Clc", "Cmc", "Stc"], ANY, Alu::<1>::REGISTER, NONE),
    Row::new(&["Cld"], ANY, Alu::<1>::REGISTER, NONE),
    Row::new(&["Std"], ANY, Alu::<2>::TWO, NONE),
];

/// Arithmetic and logic.
pub(super) const ARITHMETIC: &[Row] = &[
    Row::new(&["Cmp", "Test"], MEMORY, Alu::<1>::SOURCE, OG8),
    Row::new(&["Add", "Adc", "Sub", "Sbb", "And", "Or", "Xor"], SOURCE, Alu::<1>::SOURCE, OG8),
    Row::new(
        &["Add", "Adc", "Sub", "Sbb", "And", "Or", "Xor", "Inc", "Dec", "Neg", "Not"],
        MEMORY,
        Alu::<1>::DESTINATION,
        OG8,
    ),
    Row::new(
        &[
            "Add", "Adc", "Sub", "Sbb", "And", "Or", "Xor", "Inc", "Dec", "Neg", "Not", "Cmp",
            "Test",
        ],
        REGISTER,
        Alu::<1>::REGISTER,
        OG8,
    ),
    Row::new(&["Div", "Idiv"], REGISTER, Alu::<18>::DIVIDE, GCC)
        .of_width(W8)
        .in_all(31)
        .and(DIVIDE),
    Row::new(&["Div", "Idiv"], REGISTER, Alu::<26>::DIVIDE, GCC)
        .of_width(W16)
        .in_all(46)
        .and(DIVIDE),
    Row::new(&["Div", "Idiv"], REGISTER, Alu::<74>::DIVIDE, GCC)
        .of_width(W64)
        .in_all(60)
        .and(DIVIDE),
    Row::new(&["Div", "Idiv"], REGISTER, Alu::<42>::DIVIDE, GCC).in_all(54).and(DIVIDE),
    Row::new(&["Div", "Idiv"], MEMORY, Alu::<18>::DIVIDE_SOURCE, GCC)
        .of_width(W8)
        .in_all(31)
        .and(DIVIDE),
    Row::new(&["Div", "Idiv"], MEMORY, Alu::<26>::DIVIDE_SOURCE, GCC)
        .of_width(W16)
        .in_all(46)
        .and(DIVIDE),
    Row::new(&["Div", "Idiv"], MEMORY, Alu::<74>::DIVIDE_SOURCE, GCC)
        .of_width(W64)
        .in_all(60)
        .and(DIVIDE),
    Row::new(&["Div", "Idiv"], MEMORY, Alu::<42>::DIVIDE_SOURCE, GCC).in_all(54).and(DIVIDE),
    Row::new(&["Aaa", "Aas"], ANY, Alu::<5>::REGISTER, OG8).in_all(9),
    Row::new(&["Aad"], ANY, Alu::<5>::REGISTER, OG8).in_all(10),
    Row::new(&["Aam"], ANY, Alu::<15>::REGISTER, OG8).in_all(31).and(DIVIDE),
    Row::new(&["Daa", "Das"], ANY, Alu::<7>::REGISTER, NONE).in_all(12),
];

/// LEA and multiplications.
const PRODUCTS: &[Row] = &[
    Row::new(&["Lea"], ANY, Address::<2>::OPERATIONS, OG8).when(Variant::Long),
    Row::new(&["Lea"], ANY, Address::<1>::OPERATIONS, OG8),
    // Two- and three-operand forms; the multiplier belongs to the first lane.
    Row::new(&["Imul"], REGISTER, Alu::<4>::REGISTER, GCC)
        .of_width(W16 | W64)
        .when(Variant::Plain)
        .decoded(Decode::First)
        .and(MULTIPLY),
    Row::new(&["Imul"], REGISTER, Alu::<3>::REGISTER, GCC)
        .when(Variant::Plain)
        .decoded(Decode::First)
        .and(MULTIPLY),
    Row::new(&["Imul"], MEMORY, Alu::<4>::SOURCE, GCC)
        .of_width(W16 | W64)
        .when(Variant::Plain)
        .decoded(Decode::Microcode)
        .and(MULTIPLY),
    Row::new(&["Imul"], MEMORY, Alu::<3>::SOURCE, GCC)
        .when(Variant::Plain)
        .decoded(Decode::Microcode)
        .and(MULTIPLY),
    // With a product of twice the width.
    Row::new(&["Mul", "Imul"], REGISTER, Alu::<3>::REGISTER, NONE)
        .of_width(W8)
        .decoded(Decode::First)
        .and(MULTIPLY),
    Row::new(&["Mul", "Imul"], REGISTER, Alu::<3>::TWO, NONE).of_width(W32).and(MULTIPLY),
    Row::new(&["Mul", "Imul"], REGISTER, Alu::<5>::TWO, NONE).of_width(W64).and(MULTIPLY),
    Row::new(&["Mul", "Imul"], REGISTER, Alu::<4>::TWO, NONE).in_all(3).and(MULTIPLY),
    Row::new(&["Mul", "Imul"], MEMORY, Alu::<5>::TWO_SOURCE, NONE).of_width(W64).and(MULTIPLY),
    Row::new(&["Mul", "Imul"], MEMORY, Alu::<3>::TWO_SOURCE, NONE).and(MULTIPLY),
];

/// Shifts and bits.
pub(super) const BITS: &[Row] = &[
    Row::new(&["Shl", "Shr", "Sar", "Rol", "Ror"], REGISTER, Alu::<1>::REGISTER, OG8),
    Row::new(&["Shl", "Shr", "Sar", "Rol", "Ror"], MEMORY, Alu::<1>::DESTINATION, OG8),
    Row::new(&["Rcl", "Rcr"], REGISTER, Alu::<7>::REGISTER, NONE).when(Variant::Long).in_all(9),
    Row::new(&["Rcl", "Rcr"], REGISTER, Alu::<1>::REGISTER, NONE),
    Row::new(&["Rcl", "Rcr"], MEMORY, Alu::<7>::DESTINATION, NONE).when(Variant::Long).in_all(9),
    Row::new(&["Rcl", "Rcr"], MEMORY, Alu::<1>::DESTINATION, NONE),
    Row::new(&["Shld", "Shrd"], REGISTER, Alu::<3>::REGISTER, NONE).in_all(6),
    Row::new(&["Shld", "Shrd"], MEMORY, Alu::<3>::DESTINATION, NONE).in_all(8),
    Row::new(&["Bt"], REGISTER, Alu::<1>::REGISTER, OG8),
    // The bit string may be elsewhere in memory, by the index in the register.
    Row::new(&["Bt"], MEMORY, Alu::<5>::SOURCE, OG8).when(Variant::Long).in_all(7),
    Row::new(&["Bt"], MEMORY, Alu::<1>::SOURCE, OG8),
    Row::new(&["Bts", "Btr", "Btc"], REGISTER, Alu::<2>::TWO, OG8),
    Row::new(&["Bts", "Btr", "Btc"], MEMORY, Alu::<6>::DESTINATION, OG8)
        .when(Variant::Long)
        .in_all(8),
    Row::new(&["Bts", "Btr", "Btc"], MEMORY, Alu::<2>::DESTINATION, OG8).in_all(5),
    Row::new(&["Bsf"], REGISTER, Alu::<9>::REGISTER, OG8).of_width(W64).in_all(21),
    Row::new(&["Bsf"], REGISTER, Alu::<8>::REGISTER, OG8).in_all(21),
    Row::new(&["Bsf"], MEMORY, Alu::<9>::SOURCE, OG8).of_width(W64).in_all(22),
    Row::new(&["Bsf"], MEMORY, Alu::<8>::SOURCE, OG8).of_width(W32).in_all(22),
    Row::new(&["Bsf"], MEMORY, Alu::<7>::SOURCE, OG8).in_all(22),
    Row::new(&["Bsr"], REGISTER, Alu::<11>::REGISTER, OG8).in_all(28),
    Row::new(&["Bsr"], MEMORY, Alu::<11>::SOURCE, OG8).of_width(W16).in_all(28),
    Row::new(&["Bsr"], MEMORY, Alu::<10>::SOURCE, OG8).in_all(28),
];

/// The stack.
pub(super) const STACK: &[Row] = &[
    Row::new(&["Push"], MEMORY, PUSHES_MEMORY, NONE).and(STACK_OPERATION),
    Row::new(&["Push"], ANY, PUSHES, GCC).and(STACK_OPERATION),
    Row::new(&["Pop"], MEMORY, POPS_MEMORY, NONE).and(STACK_OPERATION),
    Row::new(&["Pop"], ANY, POPS, GCC).and(STACK_OPERATION),
    Row::new(&["Pusha"], ANY, PUSHES_ALL, NONE).in_all(9),
    Row::new(&["Popa"], ANY, POPS_ALL, NONE).in_all(9),
    Row::new(&["Pushf"], ANY, PUSHES, NONE).in_all(5).and(STACK_OPERATION),
    Row::new(&["Popf"], ANY, POPS, NONE).in_all(31).and(STACK_OPERATION),
    Row::new(&["Enter"], ANY, PUSHES, NONE).in_all(12),
    Row::new(&["Leave"], ANY, LEAVES, OG8),
    Row::new(&["PushSegment"], ANY, PUSHES, NONE).in_all(2).and(STACK_OPERATION),
    Row::new(&["PopSegment"], ANY, POPS, NONE).in_all(10).and(SEGMENT_LOAD | STACK_OPERATION),
];

/// Near and far transfers.
pub(super) const CONTROL: &[Row] = &[
    Row::new(&["Jcc"], ANY, Alu::<1>::REGISTER, GCC).and(BRANCH),
    Row::new(&["Jmp"], MEMORY, Alu::<1>::SOURCE, GCC).and(BRANCH),
    Row::new(&["Jmp"], ANY, Alu::<1>::REGISTER, GCC).and(BRANCH),
    Row::new(&["Jcxz"], ANY, Alu::<2>::TWO, NONE).and(BRANCH),
    Row::new(&["Loop", "Loope", "Loopne"], ANY, Alu::<9>::REGISTER, OG8).in_all(7).and(BRANCH),
    Row::new(&["Call"], MEMORY, CALLS_MEMORY, NONE).in_all(4).and(BRANCH | STACK_OPERATION),
    Row::new(&["Call"], ANY, CALLS, GCC).in_all(3).and(BRANCH | STACK_OPERATION),
    Row::new(&["Ret"], ANY, RETURNS, NONE).and(BRANCH | STACK_OPERATION),
    Row::new(&["JmpFar"], MEMORY, Alu::<20>::SOURCE, NONE).in_all(17).and(BRANCH | FAR),
    Row::new(&["JmpFar"], ANY, Alu::<20>::REGISTER, NONE).in_all(17).and(BRANCH | FAR),
    Row::new(&["CallFar", "RetFar"], ANY, COPIES, NONE).in_all(33).and(BRANCH | FAR),
    Row::new(&["Int", "Int1", "Int3", "Into"], ANY, STORES, NONE).in_all(80).and(BRANCH | FAR),
    Row::new(&["Iret"], ANY, POPS_ALL, NONE).in_all(60).and(BRANCH | FAR | SERIALISES),
    Row::new(&["Syscall"], ANY, Alu::<27>::REGISTER, OG8).in_all(40).and(BRANCH | FAR),
    Row::new(&["Sysret"], ANY, Alu::<35>::REGISTER, OG8).in_all(45).and(BRANCH | FAR),
    Row::new(&["Sysenter", "Sysexit"], ANY, Alu::<40>::REGISTER, NONE).in_all(50).and(BRANCH | FAR),
    Row::new(&["Bound"], ANY, Alu::<3>::SOURCE, OG8).in_all(6),
    Row::new(&["Ud", "Invalid", "TooLong"], ANY, NOTHING, NONE),
    // What the processor does to deliver an interrupt or exception: no instruction's name.
    Row::new(&["Delivery"], ANY, PUSHES_ALL, NONE).in_all(80).and(FAR),
];

/// String instructions and ports. The operations of an iteration are estimates.
pub(super) const STRINGS: &[Row] = &[
    Row::new(&["Lods"], ANY, NOTHING, NONE)
        .in_all(4)
        .each(Alu::<1>::SOURCE)
        .when(Variant::Repeated),
    Row::new(&["Lods"], ANY, Alu::<1>::SOURCE, OG8).of_width(W32 | W64).in_all(4),
    Row::new(&["Lods"], ANY, Alu::<2>::SOURCE, OG8).in_all(5),
    Row::new(&["Stos"], ANY, NOTHING, NONE).in_all(4).each(STORES).when(Variant::Repeated),
    Row::new(&["Stos"], ANY, STORES, NONE).in_all(4),
    Row::new(&["Movs"], ANY, NOTHING, NONE).in_all(7).each(COPIES).when(Variant::Repeated),
    Row::new(&["Movs"], ANY, COPIES, NONE).in_all(5),
    Row::new(&["Scas"], ANY, NOTHING, NONE)
        .in_all(5)
        .each(Alu::<2>::TWO_SOURCE)
        .when(Variant::Repeated),
    Row::new(&["Scas"], ANY, Alu::<1>::SOURCE, OG8).in_all(5),
    Row::new(&["Cmps"], ANY, NOTHING, NONE)
        .in_all(5)
        .each(Alu::<2>::TWO_SOURCE)
        .when(Variant::Repeated),
    Row::new(&["Cmps"], ANY, Alu::<2>::TWO_SOURCE, NONE).in_all(7),
    Row::new(&["Ins", "Outs"], ANY, NOTHING, NONE)
        .in_all(20)
        .each(COPIES)
        .and(ALL_QUIET | SYNCHRONISES),
    Row::new(&["In", "Out"], ANY, Alu::<100>::REGISTER, NONE)
        .in_all(20)
        .and(ALL_QUIET | SYNCHRONISES),
];

/// System instructions, fences and hints.
pub(super) const SYSTEM: &[Row] = &[
    Row::new(&["Nop", "HintNop", "Pause"], ANY, NOTHING, OG8),
    Row::new(
        &["Prefetch", "Prefetchw", "Prefetchnta", "Prefetcht0", "Prefetcht1", "Prefetcht2"],
        ANY,
        Address::<1>::OPERATIONS,
        NONE,
    ),
    Row::new(&["Prefetchwt1", "Delay", "Spflt", "Clevict0", "Clevict1"], ANY, NOTHING, NONE),
    Row::new(&["Lfence"], ANY, NOTHING, NONE).in_all(6).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Mfence"], ANY, NOTHING, NONE)
        .in_all(7)
        .and(SERIALISES | DRAINS_STORES | SYNCHRONISES),
    Row::new(&["Sfence"], ANY, NOTHING, NONE).in_all(7).and(DRAINS_STORES | SYNCHRONISES),
    Row::new(&["Clflush"], ANY, STORES, NONE).in_all(9),
    Row::new(&["MovToSegment"], MEMORY, Alu::<7>::SOURCE, OG8).in_all(8).and(SEGMENT_LOAD),
    Row::new(&["MovToSegment"], ANY, Alu::<8>::REGISTER, OG8).in_all(7).and(SEGMENT_LOAD),
    Row::new(&["MovFromSegment"], MEMORY, ALU_STORES, OG8).decoded(Decode::Double),
    Row::new(&["MovFromSegment"], ANY, Alu::<4>::REGISTER, OG8).of_width(W16),
    Row::new(&["MovFromSegment"], ANY, Alu::<3>::REGISTER, OG8),
    Row::new(&["Lds", "Les", "Lfs", "Lgs", "Lss"], ANY, Alu::<8>::SOURCE, NONE)
        .in_all(11)
        .and(SEGMENT_LOAD),
    Row::new(&["Arpl"], MEMORY, Alu::<15>::DESTINATION, OG8).in_all(15),
    Row::new(&["Arpl"], ANY, Alu::<13>::REGISTER, OG8).in_all(12),
    Row::new(&["Verr", "Verw"], MEMORY, Alu::<11>::SOURCE, OG8).in_all(12),
    Row::new(&["Verr", "Verw"], ANY, Alu::<11>::REGISTER, OG8).in_all(12),
    Row::new(&["Lar"], MEMORY, Alu::<20>::SOURCE, NONE).in_all(12),
    Row::new(&["Lar"], ANY, Alu::<20>::REGISTER, NONE).in_all(12),
    Row::new(&["Lsl"], MEMORY, Alu::<20>::SOURCE, OG8).in_all(14),
    Row::new(&["Lsl"], ANY, Alu::<21>::REGISTER, OG8).in_all(14),
    Row::new(&["Lgdt"], ANY, Alu::<34>::SOURCE, OG8).in_all(20).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Lidt"], ANY, Alu::<145>::SOURCE, OG8).in_all(60).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Lldt"], MEMORY, Alu::<34>::SOURCE, OG8).in_all(20).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Lldt"], ANY, Alu::<34>::REGISTER, OG8).in_all(20).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Ltr"], MEMORY, Alu::<40>::SOURCE, NONE).in_all(25).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Ltr"], ANY, Alu::<40>::REGISTER, NONE).in_all(25).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Lmsw"], MEMORY, Alu::<11>::SOURCE, OG8).in_all(10).and(SERIALISES),
    Row::new(&["Lmsw"], ANY, Alu::<11>::REGISTER, OG8).in_all(10).and(SERIALISES),
    Row::new(&["Sgdt", "Sidt"], ANY, STORES, OG8).in_all(30),
    Row::new(&["Sldt", "Str", "Smsw"], MEMORY, STORES, NONE).in_all(4),
    Row::new(&["Sldt", "Str", "Smsw"], ANY, Alu::<5>::REGISTER, NONE).in_all(4),
    Row::new(&["Clts"], ANY, Alu::<10>::REGISTER, NONE).in_all(10).and(SERIALISES),
    Row::new(&["MovToControl"], ANY, Alu::<20>::REGISTER, NONE)
        .in_all(20)
        .and(SERIALISES | SYNCHRONISES),
    Row::new(&["MovFromControl"], ANY, Alu::<6>::REGISTER, NONE).in_all(6),
    Row::new(&["MovToDebug"], ANY, Alu::<35>::REGISTER, NONE)
        .in_all(30)
        .and(SERIALISES | SYNCHRONISES),
    Row::new(&["MovFromDebug"], ANY, Alu::<11>::REGISTER, NONE).in_all(10),
    Row::new(&["Invlpg"], ANY, Alu::<80>::REGISTER, NONE)
        .in_all(50)
        .and(SERIALISES | ALL_QUIET | SYNCHRONISES),
    Row::new(&["Invd", "Wbinvd"], ANY, Alu::<200>::REGISTER, NONE)
        .in_all(60)
        .and(SERIALISES | ALL_QUIET | SYNCHRONISES),
    Row::new(&["Cpuid"], ANY, Alu::<40>::REGISTER, NONE).in_all(60).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Rdtsc"], ANY, Alu::<6>::REGISTER, NONE).in_all(12),
    Row::new(&["Rdpmc"], ANY, Alu::<9>::REGISTER, NONE).in_all(12),
    Row::new(&["Rdmsr"], ANY, Alu::<50>::REGISTER, NONE).in_all(30),
    Row::new(&["Wrmsr"], ANY, Alu::<70>::REGISTER, NONE).in_all(40).and(SERIALISES | SYNCHRONISES),
    Row::new(&["Swapgs"], ANY, Alu::<10>::REGISTER, NONE).in_all(8).and(SERIALISES),
    Row::new(&["Cli"], ANY, Alu::<3>::REGISTER, NONE).in_all(4),
    Row::new(&["Sti"], ANY, Alu::<4>::REGISTER, NONE).in_all(5),
    Row::new(&["Hlt"], ANY, NOTHING, NONE).in_all(10).and(SERIALISES | ALL_QUIET),
    Row::new(&["Rsm"], ANY, POPS_ALL, NONE).in_all(120).and(SERIALISES | FAR | SYNCHRONISES),
];

/// The stack pointer changes by a constant.
const STACK_OPERATION: u16 = crate::pipeline::out_of_order::table::behaviour::STACK;
