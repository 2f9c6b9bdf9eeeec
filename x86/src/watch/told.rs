//! What a model is told of.

use crate::{block::Code, cpu::Cpu, insn::Insn, mode::CodeSize};

/// Bytes of code that were fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetch {
    /// Linear address.
    pub linear: u64,
    /// Guest-physical address of the first byte.
    pub physical: u64,
    /// Guest-physical address of those in the next page, if there are any.
    pub second_page: Option<u64>,
    /// Length in bytes.
    pub len: u16,
}

impl Fetch {
    /// The bytes of a block.
    #[inline(always)]
    pub(super) fn of_block(linear: u64, block: &impl Code) -> Self {
        Self {
            linear,
            physical: block.physical(0),
            second_page: block.second_page(),
            len: u16::try_from(block.bytes()).unwrap_or(u16::MAX),
        }
    }

    /// The bytes of an instruction of a block that has these.
    #[inline(always)]
    pub(super) fn instruction(&self, insn: &Insn) -> Self {
        let start = u64::from(insn.start());
        // Only the single instruction of a block may reach into a second page.
        Self {
            linear: self.linear.wrapping_add(start),
            physical: self.physical + start,
            second_page: self.second_page,
            len: insn.len.into(),
        }
    }
}

/// What kind of access it was: what an instruction makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// An operand.
    Plain,
    /// A push or a pop, explicit or implied.
    Stack,
    /// An element of a string, or a run of them.
    String,
    /// Of an MMX or 3DNow! instruction.
    Mmx,
    /// Of an instruction of the vector unit.
    Vector,
    /// Of a locked read-modify-write.
    Locked,
    /// A store that goes past the caches: MOVNTI, MOVNTQ, MASKMOVQ and the like.
    NonTemporal,
    /// A store of the vector unit that writes all of a line and says that it need not be read first:
    /// VMOVNRAPS, VMOVNRAPD, VMOVNRNGOAPS and VMOVNRNGOAPD, without a mask.
    NoRead {
        /// It is in order with other stores: VMOVNRAPS and VMOVNRAPD.
        ordered: bool,
    },
    /// A prefetch, with its hint.
    Prefetch(Hint),
    /// CLFLUSH.
    Flush,
    /// CLEVICT0, or CLEVICT1, which is for the second level too.
    Evict {
        /// It is CLEVICT1.
        second_level: bool,
    },
}

/// What a prefetch asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// PREFETCHT0; PREFETCH, which says no more.
    T0,
    /// PREFETCHT1.
    T1,
    /// PREFETCHT2.
    T2,
    /// PREFETCHNTA.
    Nta,
    /// PREFETCHW, PREFETCHWT1 and VPREFETCHE0: the line will be written.
    Write,
    /// VPREFETCHE1: the same, and it is wanted in the second level.
    WriteT1,
    /// VPREFETCHE2: the same.
    WriteT2,
    /// VPREFETCHENTA: it will be written once.
    WriteNta,
}

/// A control transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Linear address of the instruction.
    pub from: u64,
    /// Linear address of the instruction in line behind it.
    pub next: u64,
    /// Linear address of its target: where it goes if it is taken. Of a conditional one, the target that
    /// it names, also if it is not taken.
    pub to: u64,
    /// What it was.
    pub kind: TransferKind,
    /// It changed the flow; only a conditional one may not.
    pub taken: bool,
}

/// Kinds of control transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    /// Jcc, LOOP, JCXZ.
    Conditional,
    /// A jump to a place that the instruction names.
    Jump,
    /// A jump to where a register or memory says.
    IndirectJump,
    /// A call of a place that the instruction names.
    Call,
    /// A call of where a register or memory says.
    IndirectCall,
    /// A near return.
    Return,
    /// A far call.
    FarCall,
    /// A far return, but not IRET.
    FarReturn,
    /// Any other far transfer: far jump, INT n, IRET, SYSCALL and the like.
    Far,
}

/// What code is executed under: the state that decides how it is decoded, translated and protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutionContext {
    /// Privilege level.
    pub cpl: u8,
    /// CR3; `None` while paging is off.
    pub cr3: Option<u64>,
    /// Code size.
    pub code: CodeSize,
}

impl ExecutionContext {
    pub(super) fn of(cpu: &Cpu) -> Self {
        let cr3 = cpu.paging().then(|| cpu.cr3());
        Self { cpl: cpu.cpl(), cr3, code: cpu.code_size() }
    }
}
