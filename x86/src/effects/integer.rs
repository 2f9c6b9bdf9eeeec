//! Moves, arithmetic, bits and shifts on general registers.

use super::{Access, Register, describe::Description};
use crate::{
    insn::{Form, Mem, Size, gpr, seg},
    operation::Operation as O,
};

/// Describes an instruction of this file; false if it is none.
pub(super) fn describe(d: &mut Description<'_>) -> bool {
    let insn = d.insn;
    match insn.op {
        O::Add | O::Or | O::Adc | O::Sbb | O::And | O::Sub | O::Xor => {
            d.modify_destination();
            d.read_source();
        }
        O::Cmp | O::Test => {
            d.read_destination();
            d.read_source();
        }
        O::Inc | O::Dec | O::Neg | O::Not | O::Bswap => d.modify_destination(),
        O::Mov | O::Movzx | O::Movsx | O::Movsxd => {
            d.read_source();
            d.write_destination();
        }
        O::Lea => lea(d),
        O::Cmovcc => {
            d.read_source();
            d.write_destination();
            // With a 32-bit operand 64-bit mode clears the upper half in any case (APM volume 3,
            // "CMOVcc").
            if d.mode.is_64bit() && insn.size == Size::B4 {
                d.read_general(insn.dst);
            } else {
                d.written_conditionally();
            }
        }
        O::Setcc => d.write_destination(),
        O::Xlatb => {
            d.operand(Access::Read);
            d.read_general(gpr::RAX);
            d.write_general(gpr::RAX, Size::B1);
        }
        O::Rol | O::Ror | O::Rcl | O::Rcr | O::Shl | O::Shr | O::Sar => {
            // CL is the source.
            d.modify_destination();
            d.read_source();
        }
        O::Shld | O::Shrd => {
            d.modify_destination();
            d.read_general(insn.src);
            if matches!(insn.form, Form::RegReg | Form::MemReg) {
                d.read_general(gpr::RCX);
            }
        }
        O::Bt => {
            d.read_destination();
            d.read_source();
        }
        O::Bts | O::Btr | O::Btc => {
            d.modify_destination();
            d.read_source();
        }
        O::Bsf | O::Bsr => {
            d.read_source();
            // A source of zero leaves the destination undefined (SDM volume 2) or alone (APM volume 3).
            d.write_destination();
            d.written_conditionally();
        }
        O::Mul | O::Imul | O::Div | O::Idiv => multiply(d),
        O::Cbw | O::Cwde | O::Cdqe => {
            d.read_general(gpr::RAX);
            d.write_general(gpr::RAX, insn.size);
        }
        O::Cwd | O::Cdq | O::Cqo => {
            d.read_general(gpr::RAX);
            d.write_general(gpr::RDX, insn.size);
        }
        O::Aaa | O::Aas | O::Aad | O::Aam | O::Daa | O::Das => {
            d.read_general(gpr::RAX);
            d.write_general(gpr::RAX, Size::B2);
        }
        O::Lahf => d.write_general(gpr::RAX, Size::B1),
        O::Sahf => d.read_general(gpr::RAX),
        O::Salc => d.write_general(gpr::RAX, Size::B1),
        O::Clc | O::Stc | O::Cmc | O::Cld | O::Std => {}
        O::Xchg | O::Xadd => {
            d.modify_destination();
            d.read_general(insn.src);
            d.write_general(insn.src, insn.size);
        }
        O::Cmpxchg => compare_and_exchange(d),
        O::Cmpxchg8b | O::Cmpxchg16b => {
            d.operand(Access::ReadWrite);
            for register in [gpr::RAX, gpr::RDX, gpr::RCX, gpr::RBX] {
                d.read_general(register);
            }
            d.may_write(Register::General(gpr::RAX));
            d.may_write(Register::General(gpr::RDX));
        }
        O::Bound => {
            d.read_general(insn.dst);
            d.elements(Access::Read, insn.mem, insn.size.bytes() as u16, 2);
        }
        O::Prefetch
        | O::Prefetchnta
        | O::Prefetcht0
        | O::Prefetcht1
        | O::Prefetcht2
        | O::Prefetchw
        | O::Prefetchwt1
        | O::Clflush
        | O::Clevict0
        | O::Clevict1 => d.operand(Access::Cache),
        op if op.is_vector_prefetch() => d.operand(Access::Cache),
        _ => return false,
    }
    true
}

/// LEA: no segment, no access.
fn lea(d: &mut Description<'_>) {
    let mem = Mem { seg: seg::FLAT, ..d.insn.mem };
    d.one(Access::Address, mem, 0);
    d.write_destination();
}

/// The accumulator and its upper half with an operand; IMUL also into any register.
fn multiply(d: &mut Description<'_>) {
    let insn = d.insn;
    match insn.form {
        // IMUL has their number in `aux`. With two the destination is read, with three it is not.
        Form::RegReg | Form::RegMem => {
            d.read_source();
            if insn.aux == 2 {
                d.read_general(insn.dst);
            }
            d.write_destination();
        }
        _ => {
            d.read_destination();
            d.read_general(gpr::RAX);
            d.write_general(gpr::RAX, insn.size);
            if insn.size != Size::B1 {
                if matches!(insn.op, O::Div | O::Idiv) {
                    d.read_general(gpr::RDX);
                }
                d.write_general(gpr::RDX, insn.size);
            }
        }
    }
}

/// CMPXCHG: memory is written in either case, a register only if the comparison succeeds.
fn compare_and_exchange(d: &mut Description<'_>) {
    let insn = d.insn;
    d.modify_destination();
    d.read_general(gpr::RAX);
    d.write_general(gpr::RAX, insn.size);
    d.written_conditionally();
    d.read_general(insn.src);
}
