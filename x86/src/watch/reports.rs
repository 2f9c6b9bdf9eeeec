//! What an instruction has to report beside being executed: of which kind its accesses are, whether it is a
//! control transfer, what it changes for those behind it. Tables by operation.

use super::{AccessKind, Hint, TransferKind};
use crate::{
    class::Class,
    insn::{Form, Insn},
    observe::Direction,
    operation::Operation,
    vector::Mvex,
};

/// It names memory that it does not access.
pub(super) const TOUCHES: u8 = 1 << 0;
/// It is a control transfer.
pub(super) const TRANSFERS: u8 = 1 << 1;
/// It serialises.
pub(super) const SERIALISES: u8 = 1 << 2;
/// Stores behind it wait for those before it: SFENCE and MFENCE.
pub(super) const FENCES: u8 = 1 << 3;
/// What follows may run in another context.
pub(super) const CHANGES_CONTEXT: u8 = 1 << 4;

/// What an operation has to report beside its accesses: nothing, for most.
pub(super) static TRAITS: [u8; Operation::ALL.len()] = {
    let mut traits = [0; Operation::ALL.len()];
    let mut n = 0;
    while n < traits.len() {
        let op = Operation::ALL[n];
        if touches(op) {
            traits[n] |= TOUCHES;
        }
        if transfer_of(op, true).is_some() {
            traits[n] |= TRANSFERS;
        }
        if op.is_serialising() {
            traits[n] |= SERIALISES | CHANGES_CONTEXT;
        }
        if is_far(op) {
            traits[n] |= CHANGES_CONTEXT;
        }
        if matches!(op, Operation::Sfence | Operation::Mfence) {
            traits[n] |= FENCES;
        }
        n += 1;
    }
    traits
};

/// Whether an instruction has more to report than accesses.
pub(crate) fn reports_more(op: Operation) -> bool {
    TRAITS[op as usize] != 0
}

/// Whether the accesses of an instruction are of kinds that a cache treats as those of any operand.
pub(crate) fn accesses_plainly(insn: &Insn, class: Class) -> bool {
    use AccessKind as Kind;
    let is_plain = |direction| {
        matches!(
            kind(insn, direction, class),
            Kind::Plain | Kind::Stack | Kind::String | Kind::Mmx | Kind::Vector
        )
    };
    is_plain(Direction::Load) && is_plain(Direction::Store) && is_plain(Direction::Modify)
}

/// Whether an operation transfers control to where the code segment may be another one.
const fn is_far(op: Operation) -> bool {
    use TransferKind as T;
    matches!(transfer_of(op, true), Some(T::FarCall | T::FarReturn | T::Far))
}

/// Whether an operation names memory that it does not access.
const fn touches(op: Operation) -> bool {
    hint(op).is_some()
        || matches!(op, Operation::Clflush | Operation::Clevict0 | Operation::Clevict1)
}

const fn hint(op: Operation) -> Option<Hint> {
    Some(match op {
        Operation::Prefetch | Operation::Prefetcht0 | Operation::Vprefetch0 => Hint::T0,
        Operation::Prefetcht1 | Operation::Vprefetch1 => Hint::T1,
        Operation::Prefetcht2 | Operation::Vprefetch2 => Hint::T2,
        Operation::Prefetchnta | Operation::Vprefetchnta => Hint::Nta,
        Operation::Prefetchw | Operation::Prefetchwt1 | Operation::Vprefetche0 => Hint::Write,
        Operation::Vprefetche1 => Hint::WriteT1,
        Operation::Vprefetche2 => Hint::WriteT2,
        Operation::Vprefetchenta => Hint::WriteNta,
        _ => return None,
    })
}

/// What kind of access one of `insn` is.
#[inline(always)]
pub(super) fn kind(insn: &Insn, direction: Direction, class: Class) -> AccessKind {
    let has = |of: Class| class.0 & of.0 != 0;
    match KINDS[insn.op as usize][usize::from(direction == Direction::Store)] {
        AccessKind::Plain if direction == Direction::Modify && has(Class::LOCKED) => {
            AccessKind::Locked
        }
        AccessKind::Plain if has(Class::MMX) => AccessKind::Mmx,
        AccessKind::Plain if has(Class::VPU) => AccessKind::Vector,
        // A mask may leave something of the line as it is.
        AccessKind::NoRead { .. } if Mvex::of(insn).mask() != 0 => AccessKind::Vector,
        kind => kind,
    }
}

/// By operation: what kind of access one of it is that is neither locked nor MMX, and no store, and a store.
static KINDS: [[AccessKind; 2]; Operation::ALL.len()] = {
    let mut kinds = [[AccessKind::Plain; 2]; Operation::ALL.len()];
    let mut n = 0;
    while n < kinds.len() {
        let op = Operation::ALL[n];
        kinds[n] = [kind_of(op, false), kind_of(op, true)];
        n += 1;
    }
    kinds
};

/// The same of an operation.
const fn kind_of(op: Operation, store: bool) -> AccessKind {
    use Operation as O;
    match op {
        // What is pushed may come from memory, and what is popped go there.
        O::Push
        | O::PushSegment
        | O::Call
        | O::CallFar
        | O::Pushf
        | O::Pusha
        | O::Enter
        | O::Int
        | O::Int1
        | O::Int3
        | O::Into
            if store =>
        {
            AccessKind::Stack
        }
        O::Pop
        | O::PopSegment
        | O::Ret
        | O::RetFar
        | O::Iret
        | O::Popf
        | O::Popa
        | O::Leave
        | O::Enter
            if !store =>
        {
            AccessKind::Stack
        }
        O::Movs | O::Cmps | O::Scas | O::Lods | O::Stos | O::Ins | O::Outs => AccessKind::String,
        O::Movnti
        | O::Movntq
        | O::Movntps
        | O::Movntpd
        | O::Movntdq
        | O::Maskmovq
        | O::Maskmovdqu => AccessKind::NonTemporal,
        O::Vmovnraps | O::Vmovnrapd if store => AccessKind::NoRead { ordered: true },
        O::Vmovnrngoaps | O::Vmovnrngoapd if store => AccessKind::NoRead { ordered: false },
        // Their handlers name the line.
        O::Vgatherpf0dps => AccessKind::Prefetch(Hint::T0),
        O::Vgatherpf1dps => AccessKind::Prefetch(Hint::T1),
        O::Vscatterpf0dps => AccessKind::Prefetch(Hint::Write),
        O::Vscatterpf1dps => AccessKind::Prefetch(Hint::WriteT1),
        O::Clflush => AccessKind::Flush,
        O::Clevict0 => AccessKind::Evict { second_level: false },
        O::Clevict1 => AccessKind::Evict { second_level: true },
        op => match hint(op) {
            Some(hint) => AccessKind::Prefetch(hint),
            None => AccessKind::Plain,
        },
    }
}

/// What kind of control transfer an instruction is.
#[inline(always)]
pub(crate) fn transfer(insn: &Insn) -> Option<TransferKind> {
    TRANSFER_KINDS[insn.op as usize][usize::from(insn.form == Form::None)]
}

/// By operation: what kind of control transfer it is if it does not name its target, and if it does.
static TRANSFER_KINDS: [[Option<TransferKind>; 2]; Operation::ALL.len()] = {
    let mut kinds = [[None; 2]; Operation::ALL.len()];
    let mut n = 0;
    while n < kinds.len() {
        let op = Operation::ALL[n];
        kinds[n] = [transfer_of(op, false), transfer_of(op, true)];
        n += 1;
    }
    kinds
};

/// The same by operation; one that has its target in a register or in memory does not `name` it.
const fn transfer_of(op: Operation, names: bool) -> Option<TransferKind> {
    use Operation as O;
    Some(match op {
        O::Jcc | O::Jcxz | O::Jkzd | O::Jknzd | O::Loop | O::Loope | O::Loopne => {
            TransferKind::Conditional
        }
        O::Jmp if names => TransferKind::Jump,
        O::Jmp => TransferKind::IndirectJump,
        O::Call if names => TransferKind::Call,
        O::Call => TransferKind::IndirectCall,
        O::Ret => TransferKind::Return,
        O::CallFar => TransferKind::FarCall,
        O::RetFar => TransferKind::FarReturn,
        O::JmpFar
        | O::Iret
        | O::Int
        | O::Int1
        | O::Int3
        | O::Into
        | O::Syscall
        | O::Sysret
        | O::Sysenter
        | O::Sysexit => TransferKind::Far,
        _ => return None,
    })
}
