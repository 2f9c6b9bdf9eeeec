//! Which handler executes which instruction of the vector unit.

use super::{
    approximate::Approximate,
    carry::Carry,
    compare::{CompareFloat, CompareInteger},
    count,
    exponent::{FixupNan, Parts, Scale},
    fixed::{FixedPoint, Widths},
    float::Arithmetic,
    fused::Fused,
    gather,
    integer::{Integer, MultiplyAdd, ShiftImmediate},
    mask,
    operand::{execute, store},
    permute::{Blend, Move, Permute},
    state::ready,
    stream,
};
use crate::{
    cpu::Cpu,
    insn::{Form, Handler, Insn},
    observe::{Cx, Observer},
    operation::Operation,
    stop::Exec,
};

/// The handler of a lowered instruction of this folder.
pub(crate) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    if insn.op.is_vector_prefetch() {
        return Some(prefetch);
    }
    if insn.op.is_fused() {
        return Some(execute::<O, Fused>);
    }
    mask::handler(insn)
        .or_else(|| count::handler(insn))
        .or_else(|| gather::handler(insn))
        .or_else(|| stream::handler(insn))
        .or_else(|| float(insn))
        .or_else(|| integer(insn))
        .or_else(|| moves(insn))
}

/// A prefetch of a line does not fault for its operand, and no cache is modelled here.
fn prefetch<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    if insn.aux != 0 { ready(cpu) } else { Ok(()) }
}

fn float<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    use Operation as Op;
    Some(match insn.op {
        Op::Vaddps
        | Op::Vaddpd
        | Op::Vaddnps
        | Op::Vaddnpd
        | Op::Vaddsetsps
        | Op::Vsubps
        | Op::Vsubpd
        | Op::Vsubrps
        | Op::Vsubrpd
        | Op::Vmulps
        | Op::Vmulpd
        | Op::Vgmaxps
        | Op::Vgmaxpd
        | Op::Vgminps
        | Op::Vgminpd
        | Op::Vgmaxabsps => execute::<O, Arithmetic>,
        Op::Vgetexpps | Op::Vgetexppd | Op::Vgetmantps | Op::Vgetmantpd => execute::<O, Parts>,
        Op::Vscaleps => execute::<O, Scale>,
        Op::Vfixupnanps | Op::Vfixupnanpd => execute::<O, FixupNan>,
        Op::Vrndfxpntps
        | Op::Vrndfxpntpd
        | Op::Vcvtfxpntps2dq
        | Op::Vcvtfxpntps2udq
        | Op::Vcvtfxpntdq2ps
        | Op::Vcvtfxpntudq2ps
        | Op::Vcvtfxpntpd2dq
        | Op::Vcvtfxpntpd2udq => execute::<O, FixedPoint>,
        Op::Vcvtps2pd | Op::Vcvtpd2ps | Op::Vcvtdq2pd | Op::Vcvtudq2pd => execute::<O, Widths>,
        Op::Vrcp23ps | Op::Vrsqrt23ps | Op::Vexp223ps | Op::Vlog2ps => execute::<O, Approximate>,
        Op::Vcmpps | Op::Vcmppd => execute::<O, CompareFloat>,
        _ => return None,
    })
}

fn integer<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    use Operation as Op;
    Some(match insn.op {
        Op::Vpaddd
        | Op::Vpaddsetsd
        | Op::Vpsubd
        | Op::Vpsubrd
        | Op::Vpmulld
        | Op::Vpmulhd
        | Op::Vpmulhud
        | Op::Vpminsd
        | Op::Vpminud
        | Op::Vpmaxsd
        | Op::Vpmaxud
        | Op::Vpandd
        | Op::Vpandq
        | Op::Vpandnd
        | Op::Vpandnq
        | Op::Vpord
        | Op::Vporq
        | Op::Vpxord
        | Op::Vpxorq
        | Op::Vpsllvd
        | Op::Vpsrlvd
        | Op::Vpsravd => execute::<O, Integer>,
        Op::Vpslld | Op::Vpsrld | Op::Vpsrad => execute::<O, ShiftImmediate>,
        Op::Vpmadd231d | Op::Vpmadd233d => execute::<O, MultiplyAdd>,
        Op::Vpadcd
        | Op::Vpaddsetcd
        | Op::Vpsbbd
        | Op::Vpsbbrd
        | Op::Vpsubsetbd
        | Op::Vpsubrsetbd => execute::<O, Carry>,
        Op::Vpcmpd | Op::Vpcmpud | Op::Vpcmpeqd | Op::Vpcmpgtd | Op::Vpcmpltd | Op::Vptestmd => {
            execute::<O, CompareInteger>
        }
        _ => return None,
    })
}

fn moves<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    use Operation as Op;
    Some(match insn.op {
        Op::Vmovaps
        | Op::Vmovapd
        | Op::Vmovdqa32
        | Op::Vmovdqa64
        | Op::Vmovnraps
        | Op::Vmovnrapd
        | Op::Vmovnrngoaps
        | Op::Vmovnrngoapd
            if insn.form == Form::MemReg =>
        {
            store
        }
        Op::Vmovaps
        | Op::Vmovapd
        | Op::Vmovdqa32
        | Op::Vmovdqa64
        | Op::Vbroadcastss
        | Op::Vbroadcastsd
        | Op::Vbroadcastf32x4
        | Op::Vbroadcastf64x4
        | Op::Vpbroadcastd
        | Op::Vpbroadcastq
        | Op::Vbroadcasti32x4
        | Op::Vbroadcasti64x4 => execute::<O, Move>,
        Op::Vblendmps | Op::Vblendmpd | Op::Vpblendmd | Op::Vpblendmq => execute::<O, Blend>,
        Op::Vpshufd | Op::Vpermd | Op::Vpermf32x4 | Op::Valignd => execute::<O, Permute>,
        _ => return None,
    })
}
