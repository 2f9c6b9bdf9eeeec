//! The vector unit of Knights Corner: MVEX instructions, those on mask registers, and counts of bits.

use super::{Access, MemoryOperand, Register, describe::Description};
use crate::{
    insn::{File, Form, Mem, Size},
    operation::{Family, Operation as O},
    vector::{Element, Lanes, Mvex},
};

/// Describes an instruction of this file; false if it is none.
pub(super) fn describe(d: &mut Description<'_>) -> bool {
    if d.insn.op.family() != Family::Vector {
        return false;
    }
    match d.insn.op {
        O::Popcnt | O::Lzcnt | O::Tzcnt => {
            d.read_general(d.insn.src);
            d.write_general(d.insn.dst, d.insn.size);
        }
        O::Tzcnti => {
            d.read_general(d.insn.src);
            d.read_general(d.insn.dst);
            d.write_general(d.insn.dst, d.insn.size);
        }
        O::Kand
        | O::Kandn
        | O::Kandnr
        | O::Kor
        | O::Kxnor
        | O::Kxor
        | O::Kmerge2l1h
        | O::Kmerge2l1l
        | O::Kortest => {
            d.read(Register::Mask(d.insn.dst));
            d.read(Register::Mask(d.insn.src));
            if d.insn.op != O::Kortest {
                d.write(Register::Mask(d.insn.dst));
            }
        }
        O::Knot | O::Kmov | O::Kextract | O::Kconcath | O::Kconcatl => {
            d.read_second();
            if matches!(d.insn.op, O::Kconcath | O::Kconcatl) {
                d.read(Register::Mask(Mvex::of(d.insn).vvvv() & 7));
            }
            match d.insn.files.first() {
                File::General => d.write_general(d.insn.dst, Size::B8),
                _ => d.write(Register::Mask(d.insn.dst)),
            }
        }
        op if gathers(op) => one_line(d),
        op => by_elements(d, op),
    }
    true
}

/// A gather, a scatter or a prefetch of either: it accesses some of the elements and clears their bits.
fn one_line(d: &mut Description<'_>) {
    let insn = d.insn;
    let mvex = Mvex::of(insn);
    d.read_for_address(Register::Zmm(mvex.index()));
    d.read(Register::Mask(mvex.mask()));
    let access = match (insn.form, hints(insn.op)) {
        (Form::RegMem, _) => Access::Read,
        (Form::MemReg, _) => Access::Write,
        _ => Access::Cache,
    };
    if !hints(insn.op) {
        d.write_part(Register::Mask(mvex.mask()));
    }
    if access == Access::Read {
        d.write_part(Register::Zmm(insn.dst));
        d.may_write(Register::Zmm(insn.dst));
    }
    if access == Access::Write {
        d.read(Register::Zmm(insn.src));
    }
    conversion(d);
    d.memory(MemoryOperand {
        access,
        mem: insn.mem,
        bytes: insn.mem_bytes,
        count: elements(insn.op),
        conditional: true,
        repeated: false,
    });
}

/// All that work on each element by itself, and the permutations.
fn by_elements(d: &mut Description<'_>, op: O) {
    let insn = d.insn;
    let mvex = Mvex::of(insn);
    let mask = mvex.mask();
    let masked = mask != 0;
    if masked {
        d.read(Register::Mask(mask));
    }
    if has_second(op) {
        d.read(Register::Zmm(mvex.vvvv()));
    }
    match insn.form {
        Form::RegReg => d.read(Register::Zmm(insn.src)),
        Form::MemReg => d.read(Register::Zmm(insn.src)),
        _ => {}
    }
    if insn.form != Form::RegReg {
        memory(d, op, masked);
    }
    conversion(d);
    if computes(op) {
        d.read(Register::Mxcsr);
        if !mvex.suppresses_exceptions() {
            d.may_write(Register::Mxcsr);
        }
    }
    if insn.form == Form::MemReg {
        return;
    }
    match insn.files.first() {
        // The bits of lanes that are not active become zero.
        File::Mask => d.write(Register::Mask(insn.dst)),
        _ if reads_destination(op) => {
            d.read(Register::Zmm(insn.dst));
            write_lanes(d, masked);
        }
        // The other operand is in the lanes that are not active.
        _ if matches!(op, O::Vblendmps | O::Vblendmpd | O::Vpblendmd | O::Vpblendmq) => {
            write_lanes(d, false);
        }
        _ => write_lanes(d, masked || unpacks(op)),
    }
    match op {
        O::Vaddsetsps | O::Vpaddsetsd => d.write(Register::Mask(mask)),
        O::Vpadcd | O::Vpsbbd | O::Vpsbbrd => {
            d.read(Register::Mask(mvex.vvvv()));
            write_chain(d, masked);
        }
        O::Vpaddsetcd | O::Vpsubsetbd | O::Vpsubrsetbd => write_chain(d, masked),
        _ => {}
    }
}

/// Writes the destination, or the lanes of it that are active.
fn write_lanes(d: &mut Description<'_>, partly: bool) {
    let register = Register::Zmm(d.insn.dst);
    if partly { d.write_part(register) } else { d.write(register) }
}

/// Writes the carries, or those of the lanes that are active.
fn write_chain(d: &mut Description<'_>, partly: bool) {
    let register = Register::Mask(Mvex::of(d.insn).vvvv());
    if partly { d.write_part(register) } else { d.write(register) }
}

/// The memory operand: one, or the elements of a stream, of which the high form names the end of the line.
fn memory(d: &mut Description<'_>, op: O, masked: bool) {
    let insn = d.insn;
    let access = if insn.form == Form::MemReg { Access::Write } else { Access::Read };
    let (disp, count) = match unpacks(op) || packs(op) {
        true if is_high(op) => (insn.mem.disp - 64, elements(op)),
        true => (insn.mem.disp, elements(op)),
        false => (insn.mem.disp, 1),
    };
    d.memory(MemoryOperand {
        access,
        mem: Mem { disp, ..insn.mem },
        bytes: insn.mem_bytes,
        count,
        conditional: masked || count != 1,
        repeated: false,
    });
}

/// What a conversion on the way from or to memory has to do with VXCSR: binary16 has signalling NaNs, and
/// what goes to memory is rounded.
fn conversion(d: &mut Description<'_>) {
    let insn = d.insn;
    let code = Mvex::of(insn).code();
    let converts = insn.op.element() == Element::Float
        && match insn.form {
            Form::RegMem => code == 3,
            Form::MemReg => code >= 3,
            _ => false,
        };
    if converts {
        d.read(Register::Mxcsr);
        d.may_write(Register::Mxcsr);
    }
}

/// How many elements an operation works on.
fn elements(op: O) -> u8 {
    match op.lanes() {
        Lanes::Eight => 8,
        Lanes::Sixteen => 16,
    }
}

fn gathers(op: O) -> bool {
    matches!(
        op,
        O::Vpgatherdd
            | O::Vpgatherdq
            | O::Vgatherdps
            | O::Vgatherdpd
            | O::Vpscatterdd
            | O::Vpscatterdq
            | O::Vscatterdps
            | O::Vscatterdpd
            | O::Vgatherpf0dps
            | O::Vgatherpf1dps
            | O::Vscatterpf0dps
            | O::Vscatterpf1dps
    ) || hints(op)
}

fn hints(op: O) -> bool {
    matches!(
        op,
        O::Vgatherpf0hintdps | O::Vgatherpf0hintdpd | O::Vscatterpf0hintdps | O::Vscatterpf0hintdpd
    )
}

fn unpacks(op: O) -> bool {
    matches!(
        op,
        O::Vloadunpackhd
            | O::Vloadunpackhq
            | O::Vloadunpackhps
            | O::Vloadunpackhpd
            | O::Vloadunpackld
            | O::Vloadunpacklq
            | O::Vloadunpacklps
            | O::Vloadunpacklpd
    )
}

fn packs(op: O) -> bool {
    matches!(
        op,
        O::Vpackstorehd
            | O::Vpackstorehq
            | O::Vpackstorehps
            | O::Vpackstorehpd
            | O::Vpackstoreld
            | O::Vpackstorelq
            | O::Vpackstorelps
            | O::Vpackstorelpd
    )
}

fn is_high(op: O) -> bool {
    matches!(
        op,
        O::Vloadunpackhd
            | O::Vloadunpackhq
            | O::Vloadunpackhps
            | O::Vloadunpackhpd
            | O::Vpackstorehd
            | O::Vpackstorehq
            | O::Vpackstorehps
            | O::Vpackstorehpd
    )
}

/// Whether a ZMM register is the second of three operands.
fn has_second(op: O) -> bool {
    let one = matches!(
        op,
        O::Vmovaps
            | O::Vmovapd
            | O::Vmovdqa32
            | O::Vmovdqa64
            | O::Vmovnraps
            | O::Vmovnrapd
            | O::Vmovnrngoaps
            | O::Vmovnrngoapd
            | O::Vbroadcastss
            | O::Vbroadcastsd
            | O::Vbroadcastf32x4
            | O::Vbroadcastf64x4
            | O::Vpbroadcastd
            | O::Vpbroadcastq
            | O::Vbroadcasti32x4
            | O::Vbroadcasti64x4
            | O::Vgetexpps
            | O::Vgetexppd
            | O::Vgetmantps
            | O::Vgetmantpd
            | O::Vrndfxpntps
            | O::Vrndfxpntpd
            | O::Vcvtfxpntps2dq
            | O::Vcvtfxpntps2udq
            | O::Vcvtfxpntdq2ps
            | O::Vcvtfxpntudq2ps
            | O::Vcvtfxpntpd2dq
            | O::Vcvtfxpntpd2udq
            | O::Vcvtps2pd
            | O::Vcvtpd2ps
            | O::Vcvtdq2pd
            | O::Vcvtudq2pd
            | O::Vrcp23ps
            | O::Vrsqrt23ps
            | O::Vexp223ps
            | O::Vlog2ps
            | O::Vpshufd
            | O::Vpermf32x4
            | O::Vpslld
            | O::Vpsrld
            | O::Vpsrad
            | O::Vpadcd
            | O::Vpaddsetcd
            | O::Vpsbbd
            | O::Vpsbbrd
            | O::Vpsubsetbd
            | O::Vpsubrsetbd
    );
    !(one || unpacks(op) || packs(op))
}

/// Whether the result depends on the destination, masked or not.
fn reads_destination(op: O) -> bool {
    matches!(
        op,
        O::Vfixupnanps
            | O::Vfixupnanpd
            | O::Vpmadd231d
            | O::Vpadcd
            | O::Vpaddsetcd
            | O::Vpsbbd
            | O::Vpsbbrd
            | O::Vpsubsetbd
            | O::Vpsubrsetbd
    ) || op.is_fused() && op != O::Vfmadd233ps
}

/// Whether it computes with floating-point numbers, under the modes of VXCSR.
fn computes(op: O) -> bool {
    matches!(
        op,
        O::Vaddps
            | O::Vaddpd
            | O::Vaddnps
            | O::Vaddnpd
            | O::Vaddsetsps
            | O::Vsubps
            | O::Vsubpd
            | O::Vsubrps
            | O::Vsubrpd
            | O::Vmulps
            | O::Vmulpd
            | O::Vgmaxps
            | O::Vgmaxpd
            | O::Vgminps
            | O::Vgminpd
            | O::Vgmaxabsps
            | O::Vgetexpps
            | O::Vgetexppd
            | O::Vgetmantps
            | O::Vgetmantpd
            | O::Vscaleps
            | O::Vfixupnanps
            | O::Vfixupnanpd
            | O::Vrndfxpntps
            | O::Vrndfxpntpd
            | O::Vcvtfxpntps2dq
            | O::Vcvtfxpntps2udq
            | O::Vcvtfxpntdq2ps
            | O::Vcvtfxpntudq2ps
            | O::Vcvtfxpntpd2dq
            | O::Vcvtfxpntpd2udq
            | O::Vcvtps2pd
            | O::Vcvtpd2ps
            | O::Vrcp23ps
            | O::Vrsqrt23ps
            | O::Vlog2ps
            | O::Vcmpps
            | O::Vcmppd
    ) || op.is_fused()
}
