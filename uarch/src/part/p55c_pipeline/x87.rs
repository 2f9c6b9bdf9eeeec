//! Timings of x87 instructions: Agner Fog, "How to optimize for the Pentium family of microprocessors",
//! chapter 28.2, which gives the clocks of an instruction and how many of them overlap with integer and
//! with x87 instructions behind it. Where a range is given, its lower end is here, and the rest depends on
//! the operands.

use super::super::in_order_table::{Place, Row};
use crate::pipeline::in_order::{
    Pairing::{Exchange, Never, WithExchange},
    Timing,
};

const fn x87(clocks: u16, integer_overlap: u16, x87_overlap: u16) -> Timing {
    Timing::x87(clocks, integer_overlap, x87_overlap, Never)
}

pub(crate) static ROWS: &[Row] = &[
    // Loads and stores.
    Row::all(&["Fld"], x87(3, 0, 0)).of(80),
    Row::all(&["Fld"], Timing::x87(1, 0, 0, WithExchange)),
    Row::at(Place::Store, &["Fst", "Fstp"], x87(3, 0, 0).operand_early()).of(80),
    Row::at(Place::Store, &["Fst", "Fstp"], x87(2, 0, 0).operand_early()),
    Row::all(&["Fst", "Fstp", "Fstpnce"], x87(1, 0, 0)),
    Row::all(&["Fild"], x87(3, 2, 2)),
    Row::all(&["Fist", "Fistp"], x87(6, 0, 0)),
    Row::all(&["Fldz", "Fld1"], x87(2, 0, 0)),
    Row::all(&["Fldpi", "Fldl2e", "Fldl2t", "Fldlg2", "Fldln2"], x87(5, 2, 2)),
    Row::all(&["Fbld"], x87(48, 0, 0)),
    Row::all(&["Fbstp"], x87(148, 0, 0)),
    // Control.
    Row::all(&["Fnstsw"], x87(6, 0, 0)),
    Row::all(&["Fldcw"], x87(8, 0, 0)),
    Row::all(&["Fnstcw"], x87(2, 0, 0)),
    Row::all(&["Fincstp", "Fdecstp", "Ffree", "Ffreep"], x87(2, 0, 0)),
    Row::all(&["Fnclex"], x87(6, 0, 0)),
    Row::all(&["Fninit"], x87(12, 0, 0)),
    Row::all(&["Fnsave"], x87(124, 0, 0)),
    Row::all(&["Frstor"], x87(70, 0, 0)),
    Row::all(&["Fnstenv"], x87(48, 0, 0)),
    Row::all(&["Fldenv"], x87(32, 0, 0)),
    Row::all(&["Fnop", "Wait"], x87(1, 0, 0)),
    // Without effect since the 387; a clock is not sourced.
    Row::all(&["Fndisi", "Fneni", "Fnsetpm", "Frstpm"], x87(1, 0, 0)),
    // Arithmetic.
    Row::all(
        &["Fadd", "Faddp", "Fsub", "Fsubp", "Fsubr", "Fsubrp"],
        Timing::x87(3, 2, 2, WithExchange),
    ),
    Row::all(&["Fmul", "Fmulp"], Timing::x87(3, 2, 2, WithExchange).multiplying()),
    Row::all(
        &["Fdiv", "Fdivp", "Fdivr", "Fdivrp"],
        Timing::x87(39, 38, 2, WithExchange).shorter(20, 6),
    ),
    Row::all(&["Fabs", "Fchs"], Timing::x87(1, 0, 0, WithExchange)),
    Row::all(
        &["Fcom", "Fcomp", "Fcompp", "Fucom", "Fucomp", "Fucompp"],
        Timing::x87(1, 0, 0, WithExchange),
    ),
    Row::all(&["Ftst"], Timing::x87(1, 0, 0, WithExchange)),
    Row::all(&["Fxch"], Timing::x87(1, 0, 0, Exchange)),
    Row::all(&["Fiadd", "Fisub", "Fisubr"], x87(6, 2, 2)),
    Row::all(&["Fimul"], x87(6, 2, 2).multiplying()),
    Row::all(&["Fidiv", "Fidivr"], x87(42, 38, 2).shorter(20, 6)),
    Row::all(&["Ficom", "Ficomp"], x87(4, 0, 0)),
    Row::all(&["Fxam"], x87(17, 4, 0)),
    Row::all(&["Fprem", "Fprem1"], x87(16, 2, 2)),
    Row::all(&["Frndint"], x87(9, 0, 0)),
    Row::all(&["Fscale"], x87(20, 5, 0)),
    Row::all(&["Fxtract"], x87(12, 0, 0)),
    Row::all(&["Fsqrt"], x87(70, 69, 2)),
    Row::all(&["Fsin", "Fcos"], x87(65, 2, 2)),
    Row::all(&["Fsincos"], x87(89, 2, 2)),
    Row::all(&["F2xm1"], x87(53, 2, 2)),
    Row::all(&["Fyl2x"], x87(103, 2, 2)),
    Row::all(&["Fyl2xp1"], x87(105, 2, 2)),
    Row::all(&["Fptan"], x87(120, 36, 0)),
    Row::all(&["Fpatan"], x87(112, 2, 2)),
];
