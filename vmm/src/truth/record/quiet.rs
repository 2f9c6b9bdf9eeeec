//! Blocks that are recorded as a whole: nothing need be told of their instructions one by one.

use x86_cpu::block::Code;
use x86_cpu::class::Class;
use x86_cpu::cpu::Cpu;
use x86_cpu::effects::Mode;
use x86_cpu::insn::Insn;
use x86_cpu::operation::Operation;

/// A block whose accesses, all together, are known to be those of one instruction, and which does nothing else
/// that depends on the run but to transfer control near.
#[derive(Clone, Copy)]
pub(super) struct Quiet {
    /// The number of that instruction; 0 if none accesses memory.
    pub(super) accessing: u8,
}

impl Quiet {
    /// If `block` is one.
    pub(super) fn of(cpu: &Cpu, block: &impl Code) -> Option<Self> {
        let mode = Mode::of(cpu);
        let is_plain =
            |(n, insn): (usize, &Insn)| block.class(n) == Class::NONE && is_plain(insn.op);
        if cpu.charges_taken_branches() || !block.instructions().enumerate().all(is_plain) {
            return None;
        }
        let accesses = |insn: &Insn| !insn.effects(mode).memory.is_empty();
        let mut accessing = block.instructions().enumerate().filter(|(_, insn)| accesses(insn));
        let first = accessing.next().map_or(0, |(n, _)| n);
        let accessing_more = accessing.next().is_some();
        (!accessing_more).then_some(Self { accessing: u8::try_from(first).ok()? })
    }
}

/// Whether an operation does nothing that depends on the run but accesses, without repeating them, and near
/// transfers.
fn is_plain(op: Operation) -> bool {
    use Operation as O;
    matches!(
        op,
        O::Adc
            | O::Add
            | O::And
            | O::Bsf
            | O::Bsr
            | O::Bswap
            | O::Bt
            | O::Btc
            | O::Btr
            | O::Bts
            | O::Call
            | O::Cbw
            | O::Cdq
            | O::Cdqe
            | O::Clc
            | O::Cmc
            | O::Cmovcc
            | O::Cmp
            | O::Cqo
            | O::Cwd
            | O::Cwde
            | O::Dec
            | O::Imul
            | O::Inc
            | O::Jcc
            | O::Jcxz
            | O::Jmp
            | O::Lahf
            | O::Lea
            | O::Leave
            | O::Loop
            | O::Loope
            | O::Loopne
            | O::Mov
            | O::Movsx
            | O::Movsxd
            | O::Movzx
            | O::Mul
            | O::Neg
            | O::Nop
            | O::Not
            | O::Or
            | O::Pop
            | O::Push
            | O::Rcl
            | O::Rcr
            | O::Ret
            | O::Rol
            | O::Ror
            | O::Sahf
            | O::Sar
            | O::Sbb
            | O::Setcc
            | O::Shl
            | O::Shld
            | O::Shr
            | O::Shrd
            | O::Stc
            | O::Sub
            | O::Test
            | O::Xadd
            | O::Xchg
            | O::Xor
    )
}
