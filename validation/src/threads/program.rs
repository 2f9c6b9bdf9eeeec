//! Programs that some hardware threads of a Knights Corner execute at the same time, each with a clock.

use guest_tests::msr::{OS, USR};
use guest_tests::{Guest, Part};
use iced_x86::code_asm::{
    CodeAssembler, dword_ptr, eax, ebp, esi, r12, r12d, r13d, r14d, r15d, rbp, rdi, rsi,
};
use iced_x86::{Code, Instruction, MemoryOperand, MvexRegMemConv, Register};
use vpmu::engine::soft::Timing;

use crate::Result;
use crate::machine::{Options, run};

/// Where the tables for 64-bit mode are.
const TABLES: u32 = 0x30_0000;
/// How many have come to each of the meetings, and what each thread leaves.
const MEETINGS: u32 = 0x31_0000;
const LEFT: u32 = 0x31_1000;
/// Where each processor has its data, and how far that is apart.
pub(super) const DATA: u32 = 0x80_0000;
/// Hardware threads of a core.
pub(super) const THREADS: u32 = 4;

/// What one round of a program is.
pub(super) struct Program<'a> {
    /// What is in RSI: the address of the data of processor 0, and by how much that of the next core is more.
    pub(super) data: (u32, u32),
    /// What is there before the program begins.
    pub(super) memory: Vec<(u32, Vec<u8>)>,
    /// Before the rounds. EBP is the processor's number, RSI where its data is.
    pub(super) set_up: &'a (dyn Fn(&mut CodeAssembler) -> guest_tests::Result + Sync),
    /// A round. It may change all but RSP, RBP, RSI, and R12 to R15.
    pub(super) round: &'a (dyn Fn(&mut CodeAssembler) -> guest_tests::Result + Sync),
    /// How many before those that are timed, and how many are.
    pub(super) rounds: [u32; 2],
}

/// Runs a program on these processors at the same time: for each of them the cycles of all rounds that are timed;
/// and the frequency of the clock. All others are halted.
pub(super) fn cycles(
    part: &'static Part,
    processors: &[u32],
    memory: u64,
    program: &Program<'_>,
) -> Result<(Vec<u64>, u64)> {
    let cpus = processors.iter().max().map_or(1, |last| last + 1);
    let code = code(processors, program)?;
    let mut image = Guest::assemble(part, |g| {
        g.on_many_processors(cpus, |g| {
            let (mut takes_part, mut over) = (g.create_label(), g.create_label());
            for &processor in processors {
                g.cmp(ebp, processor as i32)?;
                g.je(takes_part)?;
            }
            g.jmp(over)?;
            g.place(&mut takes_part)?;
            // With this clock pipelines run while anything is counted.
            g.start(1, part.cycles, OS | USR, 0)?;
            g.in_64_bit_mode(TABLES, &code)?;
            g.stop(1)?;
            g.place(&mut over)
        })?;
        processors.iter().try_for_each(|n| g.report_word(&format!("cycles{n}"), LEFT + 4 * n))
    })?;
    // 64-bit mode has the first 16 MiB by its own tables.
    let pages = (8..512_u64).flat_map(|n| (n << 21 | 0x83).to_le_bytes()).collect::<Vec<_>>();
    crate::routine::put(&mut image, TABLES + 0x2000 + 8 * 8, &pages);
    for (address, bytes) in &program.memory {
        crate::routine::put(&mut image, *address, bytes);
    }
    let options = Options { cpus: cpus as u8, memory, timing: Timing::Model };
    let outcome = run(part, image, options)?;
    let cycles = processors.iter().map(|n| outcome.value(&format!("cycles{n}")));
    Ok((cycles.collect::<Result<_>>()?, outcome.clock_hz))
}

/// The 64-bit code that each of them executes.
fn code(processors: &[u32], program: &Program<'_>) -> Result<Vec<u8>> {
    let mut code = CodeAssembler::new(64)?;
    let a = &mut code;
    let (data, apart) = program.data;
    a.mov(eax, ebp)?;
    a.shr(eax, 2)?;
    a.imul_3(eax, eax, apart as i32)?;
    a.add(eax, data as i32)?;
    a.mov(esi, eax)?;
    (program.set_up)(a)?;
    let [before, timed] = program.rounds;
    a.mov(r12d, 2)?;
    a.mov(r15d, before)?;
    // All begin at once, both times.
    let (mut meeting, mut wait, mut again) = (a.create_label(), a.create_label(), a.create_label());
    a.set_label(&mut meeting)?;
    a.lock().inc(dword_ptr(r12 * 8 + MEETINGS))?;
    a.set_label(&mut wait)?;
    a.cmp(dword_ptr(r12 * 8 + MEETINGS), processors.len() as i32)?;
    a.jb(wait)?;
    a.rdtsc()?;
    a.mov(r14d, eax)?;
    a.mov(rdi, rsi)?;
    a.mov(r13d, r15d)?;
    a.set_label(&mut again)?;
    (program.round)(a)?;
    a.dec(r13d)?;
    a.jnz(again)?;
    a.rdtsc()?;
    a.sub(eax, r14d)?;
    a.mov(r15d, timed)?;
    a.dec(r12d)?;
    a.jnz(meeting)?;
    a.mov(dword_ptr(rbp * 4 + LEFT), eax)?;
    Ok(code.assemble(0)?)
}

/// A register of the vector unit.
fn zmm(n: u32) -> Register {
    Register::ZMM0 + n
}

/// `code zmm, zmm, zmm`.
pub(super) fn vector(
    a: &mut CodeAssembler,
    code: Code,
    [to, x, y]: [u32; 3],
) -> guest_tests::Result {
    a.add_instruction(Instruction::with3(code, zmm(to), zmm(x), zmm(y))?)
}

/// VMOVAPS of 64 bytes from `[base + displacement]`.
pub(super) fn load(
    a: &mut CodeAssembler,
    n: u32,
    base: Register,
    displacement: i32,
) -> guest_tests::Result {
    let memory = MemoryOperand::with_base_displ(base, displacement.into());
    let code = Code::MVEX_Vmovaps_zmm_k1_zmmmt;
    a.add_instruction(unconverted(Instruction::with2(code, zmm(n), memory)?))
}

/// VMOVAPS of 64 bytes to `[base + displacement]`.
pub(super) fn store(
    a: &mut CodeAssembler,
    base: Register,
    displacement: i32,
    n: u32,
) -> guest_tests::Result {
    let memory = MemoryOperand::with_base_displ(base, displacement.into());
    let code = Code::MVEX_Vmovaps_mt_k1_zmm;
    a.add_instruction(unconverted(Instruction::with2(code, memory, zmm(n))?))
}

/// An instruction with an operand in memory that is not converted; the encoder scales its displacement by that.
fn unconverted(mut instruction: Instruction) -> Instruction {
    instruction.set_mvex_reg_mem_conv(MvexRegMemConv::MemConvNone);
    instruction
}
