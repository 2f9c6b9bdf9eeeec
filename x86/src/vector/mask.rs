//! Instructions on mask registers. The destination is the first source of those with two.

use super::mvex::Mvex;
use crate::{
    cpu::Cpu,
    insn::{File, Handler, Insn},
    observe::{Cx, Observer},
    operation::Operation,
    stop::Exec,
};

/// KAND, KANDN, KANDNR, KNOT, KOR, KXNOR, KXOR, KMERGE2L1H, KMERGE2L1L and KMOV between masks.
fn combine<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (d, s) = (cpu.mask(insn.dst), cpu.mask(insn.src));
    let result = match insn.op {
        Operation::Kand => d & s,
        Operation::Kandn => !d & s,
        Operation::Kandnr => d & !s,
        Operation::Knot => !s,
        Operation::Kor => d | s,
        Operation::Kxnor => !(d ^ s),
        Operation::Kxor => d ^ s,
        Operation::Kmerge2l1h => s << 8 | d >> 8,
        Operation::Kmerge2l1l => s << 8 | d & 0xff,
        _ => s,
    };
    cpu.set_mask(insn.dst, result);
    Ok(())
}

/// KMOV from a general register: its low 16 bits.
fn from_general<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let value = cpu.reg::<u16>(insn.src);
    cpu.set_mask(insn.dst, value);
    Ok(())
}

/// KMOV to a general register, with zeros above.
fn to_general<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let value = u32::from(cpu.mask(insn.src));
    cpu.set_reg(insn.dst, value);
    Ok(())
}

/// KCONCATL and KCONCATH: two masks to the low or the high half of a general register, the rest of it zero.
fn concatenate<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let (upper, lower) = (cpu.mask(Mvex::of(insn).vvvv()), cpu.mask(insn.src));
    let both = u64::from(upper) << 16 | u64::from(lower);
    let value = if insn.op == Operation::Kconcath { both << 32 } else { both };
    cpu.set_reg(insn.dst, value);
    Ok(())
}

/// KEXTRACT: 16 of the 64 bits of a general register, counted from the lowest.
fn extract<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let field = Mvex::of(insn).immediate() & 3;
    let value = cpu.reg::<u64>(insn.src) >> (16 * field);
    cpu.set_mask(insn.dst, value as u16);
    Ok(())
}

/// KORTEST: ZF if no bit of either is set, CF if all are; the other flags become zero.
fn test<O: Observer>(cpu: &mut Cpu, _: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let either = cpu.mask(insn.dst) | cpu.mask(insn.src);
    super::set_flags(cpu, either == u16::MAX, either == 0);
    Ok(())
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Operation::Kmov if insn.files.first() == File::General => to_general,
        Operation::Kmov if insn.files.second() == File::General => from_general,
        Operation::Kand
        | Operation::Kandn
        | Operation::Kandnr
        | Operation::Knot
        | Operation::Kor
        | Operation::Kxnor
        | Operation::Kxor
        | Operation::Kmerge2l1h
        | Operation::Kmerge2l1l
        | Operation::Kmov => combine,
        Operation::Kconcath | Operation::Kconcatl => concatenate,
        Operation::Kextract => extract,
        Operation::Kortest => test,
        _ => return None,
    })
}
