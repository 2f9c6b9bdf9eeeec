//! The programs that are timed: bare metal, 64 bit, the same image on every emulator.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    al, byte_ptr, dword_ptr, dx, eax, ecx, edx, qword_ptr, r8, r9, r10, r10d, rax, rbx, rcx, rdi,
    rdx, rsi,
};
use vpmu::program::Image;

use crate::long_mode::Program;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Xorshift with a 64 KiB table: 25 instructions, 2-3 loads, a rare store, 0.8 unpredictable
    /// branches.
    Mixed,
    /// Register arithmetic.
    Integer,
    /// Loads and stores that walk a table.
    Memory,
    /// A branch that no predictor gets right.
    RandomBranch,
    /// Calls and returns, two deep.
    CallReturn,
    /// The loop around the following three.
    Empty,
    /// RDPMC of counter 0.
    Rdpmc,
    /// RDMSR of PerfCtr3.
    Rdmsr,
    /// WRMSR of PerfCtr3.
    Wrmsr,
}

/// A program, plain or with counters enabled around its loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) load: Load,
    pub(crate) counted: Counted,
}

/// What is counted around the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Nothing,
    /// Retired instructions and branches, misaligned accesses and interrupts.
    Exact,
    /// Misses of the data cache in place of retired instructions: the models see every instruction.
    Modelled,
}

impl Load {
    pub(crate) const ALL: [Self; 5] =
        [Self::Mixed, Self::Integer, Self::Memory, Self::RandomBranch, Self::CallReturn];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Integer => "integer",
            Self::Memory => "memory",
            Self::RandomBranch => "random branch",
            Self::CallReturn => "call and return",
            Self::Empty => "empty",
            Self::Rdpmc => "RDPMC",
            Self::Rdmsr => "RDMSR of a counter",
            Self::Wrmsr => "WRMSR of a counter",
        }
    }

    /// So many that a run takes about a second.
    pub(crate) fn iterations(self) -> u64 {
        match self {
            Self::Mixed => 8_000_000,
            _ => 20_000_000,
        }
    }
}

/// A table for the loads, 64 KiB.
pub(crate) const TABLE: u64 = 0x20_0000;
pub(crate) const TABLE_BYTES: u32 = 0x1_0000;
/// PerfEvtSel0 (BKDG 10.2.1).
const PERF_EVT_SEL: u32 = 0xC001_0000;
/// PerfCtr3, which nothing counts in.
const PERF_CTR_3: u32 = 0xC001_0007;
/// Bits of PerfEvtSel: USR, OS, EN.
pub(crate) const COUNT: u64 = 1 << 16 | 1 << 17 | 1 << 22;
/// RETIRED_INSTRUCTIONS, RETIRED_BRANCH_INSTRUCTIONS, MISALIGNED_ACCESSES, INTERRUPTS_TAKEN.
const EVENTS: [u64; 4] = [0xC0, 0xC2, 0x47, 0xCF];
/// DATA_CACHE_MISSES, in place of the first.
pub(crate) const MODELLED_EVENT: u64 = 0x41;
/// Bochs ends when this is written to its port 8900h; elsewhere nothing listens there.
const SHUTDOWN: &[u8] = b"Shutdown";
const SHUTDOWN_PORT: u32 = 0x8900;
/// Ends vpmu, and QEMU with `-device isa-debug-exit,iobase=0xf4,iosize=4`.
pub(crate) const DEBUG_EXIT: u32 = 0xF4;

/// Assembles `iterations` of a workload.
pub(crate) fn assemble(
    workload: Workload,
    iterations: u64,
) -> std::result::Result<Image, IcedError> {
    let mut p = Program::new()?;
    // A fixed start for everything random.
    p.mov(rax, 0x2545_F491_4F6C_DD1Du64)?;
    p.mov(rsi, TABLE)?;
    p.mov(rcx, u64::from(TABLE_BYTES) / 8)?;
    let fill = p.here()?;
    xorshift(&mut p)?;
    p.mov(qword_ptr(rsi + rcx * 8 - 8), rax)?;
    p.dec(rcx)?;
    p.jnz(fill)?;
    if workload.counted != Counted::Nothing {
        // Counter 3 is left to RDMSR and WRMSR.
        let counters = if matches!(workload.load, Load::Rdmsr | Load::Wrmsr) { 3 } else { 4 };
        p.mov(rbx, rax)?;
        let mut events = EVENTS;
        if workload.counted == Counted::Modelled {
            events[0] = MODELLED_EVENT;
        }
        for (n, event) in (0..).zip(events).take(counters) {
            p.write_msr(PERF_EVT_SEL + n, event | COUNT)?;
        }
        p.mov(rax, rbx)?;
    }
    p.xor(rbx, rbx)?;
    p.xor(rdi, rdi)?;
    p.mov(r9, iterations)?;
    body(&mut p, workload.load)?;
    p.mov(edx, SHUTDOWN_PORT)?;
    for &byte in SHUTDOWN {
        p.mov(al, u32::from(byte))?;
        p.out(dx, al)?;
    }
    p.xor(eax, eax)?;
    p.mov(edx, DEBUG_EXIT)?;
    p.out(dx, eax)?;
    let stay = p.here()?;
    p.hlt()?;
    p.jmp(stay)?;
    p.finish()
}

/// Marsaglia's 64-bit xorshift of RAX (13, 7, 17). Changes RDX. Nine instructions.
fn xorshift(p: &mut Program) -> std::result::Result<(), IcedError> {
    p.mov(rdx, rax)?;
    p.shl(rdx, 13)?;
    p.xor(rax, rdx)?;
    p.mov(rdx, rax)?;
    p.shr(rdx, 7)?;
    p.xor(rax, rdx)?;
    p.mov(rdx, rax)?;
    p.shl(rdx, 17)?;
    p.xor(rax, rdx)
}

/// The loop: R9 counts down, RSI is the table, RAX is random.
fn body(p: &mut Program, load: Load) -> std::result::Result<(), IcedError> {
    let (mut over, mut f, mut g) = (p.create_label(), p.create_label(), p.create_label());
    if load == Load::CallReturn {
        p.jmp(over)?;
        p.place(&mut f)?;
        p.add(rbx, 1)?;
        p.call(g)?;
        p.ret()?;
        p.place(&mut g)?;
        p.xor(rbx, rax)?;
        p.ret()?;
        p.place(&mut over)?;
    }
    p.mov(ecx, PERF_CTR_3)?;
    if load == Load::Rdpmc {
        p.xor(ecx, ecx)?;
    }
    let top = p.here()?;
    match load {
        Load::Mixed => mixed(p)?,
        Load::Integer => {
            p.add(rbx, rax)?;
            p.lea(rax, qword_ptr(rax + rbx * 2 + 1))?;
            p.xor(rax, rbx)?;
            p.shl(rbx, 3)?;
            p.sub(rbx, rax)?;
            p.imul_2(rax, rbx)?;
        }
        Load::Memory => {
            p.mov(rdx, qword_ptr(rsi + rdi * 8))?;
            p.add(rbx, rdx)?;
            p.mov(qword_ptr(rsi + rdi * 8), rbx)?;
            p.add(rdi, 9)?;
            p.and(rdi, i32::try_from(TABLE_BYTES / 8 - 1).unwrap_or_default())?;
            p.add(dword_ptr(rsi + 64), 1)?;
        }
        Load::RandomBranch => {
            let mut skip = p.create_label();
            xorshift(p)?;
            p.test(al, 16)?;
            p.jz(skip)?;
            p.add(rbx, 3)?;
            p.place(&mut skip)?;
        }
        Load::CallReturn => p.call(f)?,
        Load::Empty => {}
        Load::Rdpmc => p.rdpmc()?,
        Load::Rdmsr => p.rdmsr()?,
        Load::Wrmsr => p.wrmsr()?,
    }
    p.dec(r9)?;
    p.jnz(top)
}

/// 23 or 24 instructions and, one time in eight, a store; the caller's two come on top.
fn mixed(p: &mut Program) -> std::result::Result<(), IcedError> {
    let (mut skip, mut no_store) = (p.create_label(), p.create_label());
    xorshift(p)?;
    p.mov(edx, eax)?;
    p.and(edx, TABLE_BYTES / 8 - 1)?;
    p.mov(rdi, qword_ptr(rsi + rdx * 8))?;
    p.add(rbx, rdi)?;
    p.test(al, 64)?;
    p.jz(skip)?;
    p.mov(rdi, rax)?;
    p.shr(rdi, 51)?;
    p.add(rbx, qword_ptr(rsi + rdi * 8))?;
    p.place(&mut skip)?;
    p.test(eax, 0x700)?;
    p.jnz(no_store)?;
    p.mov(qword_ptr(rsi + rdx * 8), rbx)?;
    p.place(&mut no_store)?;
    p.lea(r8, qword_ptr(rbx + rdx))?;
    p.xor(rcx, r8)?;
    p.movzx(r10d, byte_ptr(rsi + rdx))?;
    p.add(rcx, r10)
}
