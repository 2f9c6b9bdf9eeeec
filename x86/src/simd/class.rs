//! What an MMX or SSE instruction is counted as, beside its register file.

use iced_x86::{Instruction, Mnemonic as M};

use super::lower::is_mm;
use crate::insn::Class;

/// The further classes of an instruction.
pub(super) fn of(i: &Instruction) -> Class {
    if i.mnemonic() == M::Emms {
        Class::EMMS
    } else if is_mm(i, 0) {
        mmx(i.mnemonic())
    } else {
        sse(i.mnemonic())
    }
}

/// The types of MMX instructions, as Intel's summary has them (SDM volume 1, section 9.4, table of
/// the MMX instruction set): comparisons and minimum and maximum are none of the six types that P6
/// event B3h selects.
fn mmx(mnemonic: M) -> Class {
    match mnemonic {
        M::Paddsb
        | M::Paddsw
        | M::Paddusb
        | M::Paddusw
        | M::Psubsb
        | M::Psubsw
        | M::Psubusb
        | M::Psubusw => Class::MMX_ARITHMETIC.with(Class::MMX_SATURATING),
        M::Paddb
        | M::Paddw
        | M::Paddd
        | M::Paddq
        | M::Psubb
        | M::Psubw
        | M::Psubd
        | M::Psubq
        | M::Pavgb
        | M::Pavgw
        | M::Psadbw => Class::MMX_ARITHMETIC,
        M::Packsswb | M::Packssdw | M::Packuswb => Class::MMX_PACK.with(Class::MMX_SATURATING),
        M::Pmulhw | M::Pmulhuw | M::Pmullw | M::Pmuludq | M::Pmaddwd => Class::MMX_MULTIPLY,
        M::Psllw | M::Pslld | M::Psllq | M::Psrlw | M::Psrld | M::Psrlq | M::Psraw | M::Psrad => {
            Class::MMX_SHIFT
        }
        M::Punpcklbw | M::Punpcklwd | M::Punpckldq | M::Punpckhbw | M::Punpckhwd | M::Punpckhdq => {
            Class::MMX_UNPACK
        }
        M::Pand | M::Pandn | M::Por | M::Pxor => Class::MMX_LOGICAL,
        _ => Class::NONE,
    }
}

/// Arithmetic as the manual understands it (SDM volume 1, section 10.4.1.2 and its like in chapters
/// 11 and 12): no moves, comparisons, logic, shuffles or conversions.
fn sse(mnemonic: M) -> Class {
    match mnemonic {
        M::Addps
        | M::Addpd
        | M::Subps
        | M::Subpd
        | M::Mulps
        | M::Mulpd
        | M::Divps
        | M::Divpd
        | M::Minps
        | M::Minpd
        | M::Maxps
        | M::Maxpd
        | M::Sqrtps
        | M::Sqrtpd
        | M::Rcpps
        | M::Rsqrtps
        | M::Addsubps
        | M::Addsubpd
        | M::Haddps
        | M::Haddpd
        | M::Hsubps
        | M::Hsubpd => Class::SSE_PACKED_ARITHMETIC,
        M::Addss
        | M::Addsd
        | M::Subss
        | M::Subsd
        | M::Mulss
        | M::Mulsd
        | M::Divss
        | M::Divsd
        | M::Minss
        | M::Minsd
        | M::Maxss
        | M::Maxsd
        | M::Sqrtss
        | M::Sqrtsd
        | M::Rcpss
        | M::Rsqrtss => Class::SSE_SCALAR_ARITHMETIC,
        _ => Class::NONE,
    }
}
