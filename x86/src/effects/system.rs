//! Control, debug, segment, system and model-specific registers.

use super::{Access, Register, describe::Description};
use crate::{
    insn::{File, Form, Size, gpr, seg},
    operation::Operation as O,
};

/// Describes an instruction of this file; false if it is none.
pub(super) fn describe(d: &mut Description<'_>) -> bool {
    let insn = d.insn;
    match insn.op {
        // MOV CS raises #UD.
        O::MovToSegment if insn.dst == seg::CS => {}
        O::MovToSegment => {
            d.read_source();
            d.write(Register::Segment(insn.dst));
        }
        O::MovFromSegment => {
            d.read(Register::Segment(insn.src));
            d.write_destination();
        }
        O::Lds | O::Les | O::Lfs | O::Lgs | O::Lss => {
            d.operand(Access::Read);
            d.write_general(insn.dst, insn.size);
            d.write(Register::Segment(insn.aux));
        }
        O::MovToControl => {
            d.read_general(insn.src);
            d.write(Register::Control(insn.dst));
        }
        O::MovFromControl => {
            d.read(Register::Control(insn.src));
            d.write_general(insn.dst, insn.size);
        }
        O::MovToDebug => {
            d.read_general(insn.src);
            d.write(Register::Debug(insn.dst));
        }
        O::MovFromDebug => {
            d.read(Register::Debug(insn.src));
            d.write_general(insn.dst, insn.size);
        }
        O::Clts => d.read_write(Register::Control(0)),
        O::Lmsw => {
            selector(d, insn.form == Form::Reg);
            d.read_write(Register::Control(0));
        }
        O::Smsw => {
            d.read(Register::Control(0));
            d.write_destination();
        }
        O::Lgdt => load_table(d, Register::Gdtr),
        O::Lidt => load_table(d, Register::Idtr),
        O::Sgdt => store_table(d, Register::Gdtr),
        O::Sidt => store_table(d, Register::Idtr),
        O::Lldt => {
            selector(d, insn.form == Form::RegReg);
            d.write(Register::Ldtr);
        }
        O::Ltr => {
            selector(d, insn.form == Form::RegReg);
            d.write(Register::Tr);
        }
        O::Sldt => {
            d.read(Register::Ldtr);
            d.write_destination();
        }
        O::Str => {
            d.read(Register::Tr);
            d.write_destination();
        }
        O::Verr | O::Verw => selector(d, insn.form == Form::RegReg),
        O::Lar | O::Lsl => {
            selector(d, insn.form == Form::RegReg);
            d.write_general(insn.dst, insn.size);
            d.written_conditionally();
        }
        O::Arpl => adjust_privilege(d),
        O::Invlpg => d.operand(Access::Address),
        O::Cli | O::Sti => {}
        _ => return describe_model_specific(d),
    }
    true
}

/// CPUID, the model-specific registers and what has instructions of its own.
fn describe_model_specific(d: &mut Description<'_>) -> bool {
    match d.insn.op {
        O::Cpuid => {
            d.read_general(gpr::RAX);
            d.read_general(gpr::RCX);
            for register in [gpr::RAX, gpr::RBX, gpr::RCX, gpr::RDX] {
                d.write_general(register, Size::B4);
            }
        }
        O::Rdmsr => {
            d.read(Register::ModelSpecific);
            d.read_general(gpr::RCX);
            result_in_two(d);
        }
        O::Wrmsr => {
            for register in [gpr::RCX, gpr::RDX, gpr::RAX] {
                d.read_general(register);
            }
            // One of many.
            d.may_write(Register::ModelSpecific);
        }
        O::Rdtsc => {
            d.read(Register::TimeStamp);
            result_in_two(d);
        }
        O::Rdpmc => {
            d.read(Register::PerformanceCounters);
            d.read_general(gpr::RCX);
            result_in_two(d);
        }
        O::Swapgs => {
            d.read_write(Register::Segment(seg::GS));
            d.read(Register::ModelSpecific);
            d.may_write(Register::ModelSpecific);
        }
        O::Spflt => {
            d.read_general(d.insn.src);
            d.may_write(Register::ModelSpecific);
        }
        O::Delay => d.read_general(d.insn.src),
        _ => return false,
    }
    true
}

/// EDX:EAX.
fn result_in_two(d: &mut Description<'_>) {
    d.write_general(gpr::RAX, Size::B4);
    d.write_general(gpr::RDX, Size::B4);
}

/// A 16-bit source in a register or in memory.
fn selector(d: &mut Description<'_>, in_register: bool) {
    if in_register { d.read_general(d.insn.src) } else { d.operand(Access::Read) }
}

fn load_table(d: &mut Description<'_>, table: Register) {
    d.operand(Access::Read);
    d.write(table);
}

fn store_table(d: &mut Description<'_>, table: Register) {
    d.read(table);
    d.operand(Access::Write);
}

/// ARPL: a selector in memory is written in either case, as by CMPXCHG.
fn adjust_privilege(d: &mut Description<'_>) {
    let insn = d.insn;
    if insn.files.first() == File::General {
        d.read_general(insn.dst);
        d.write_general(insn.dst, Size::B2);
        d.written_conditionally();
    } else {
        d.operand(Access::ReadWrite);
    }
    d.read_general(insn.src);
}
