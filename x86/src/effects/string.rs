//! String instructions and ports.

use super::{Access, MemoryOperand, Register, describe::Description};
use crate::{
    insn::{Form, Mem, gpr},
    operation::Operation as O,
};

/// Describes an instruction of this file; false if it is none.
pub(super) fn describe(d: &mut Description<'_>) -> bool {
    let insn = d.insn;
    let (source, target) = (Some(insn.mem), Some(destination(d)));
    match insn.op {
        O::Movs => string(d, source, target, Access::Write),
        O::Cmps => string(d, source, target, Access::Read),
        O::Lods => {
            d.write_general(gpr::RAX, insn.size);
            string(d, source, None, Access::Read);
        }
        O::Stos => {
            d.read_general(gpr::RAX);
            string(d, None, target, Access::Write);
        }
        O::Scas => {
            d.read_general(gpr::RAX);
            string(d, None, target, Access::Read);
        }
        O::Ins => {
            d.read_general(gpr::RDX);
            string(d, None, source, Access::Write);
        }
        O::Outs => {
            d.read_general(gpr::RDX);
            string(d, source, None, Access::Read);
        }
        O::In => {
            read_port(d);
            d.write_general(gpr::RAX, insn.size);
        }
        O::Out => {
            read_port(d);
            d.read_general(gpr::RAX);
        }
        _ => return false,
    }
    true
}

/// The port number, in DX or immediate.
fn read_port(d: &mut Description<'_>) {
    if d.insn.form == Form::RegReg {
        d.read_general(gpr::RDX);
    }
}

/// ES:rDI, where `dst` says how ES is addressed.
fn destination(d: &Description<'_>) -> Mem {
    Mem { base: gpr::RDI, seg: d.insn.dst, ..d.insn.mem }
}

/// A string instruction that reads `source` and accesses `target`, and moves on in each.
fn string(d: &mut Description<'_>, source: Option<Mem>, target: Option<Mem>, to_target: Access) {
    // Of all of them `aux` is zero without a repeat prefix.
    let repeated = d.insn.aux != 0;
    let operands = [(source, Access::Read), (target, to_target)];
    for (mem, access) in operands.into_iter().filter_map(|(mem, access)| Some((mem?, access))) {
        let bytes = d.insn.size.bytes() as u16;
        d.memory(MemoryOperand { access, mem, bytes, count: 1, conditional: repeated, repeated });
        d.read_general(mem.base);
        d.write_address(mem.base, mem.mask);
    }
    if repeated {
        d.read(Register::General(gpr::RCX));
        d.write_address(gpr::RCX, d.insn.mem.mask);
        d.written_conditionally();
    }
}
