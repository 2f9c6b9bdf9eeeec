//! The guest that executes scripts: one record in memory after the other, each an instruction with its operands, and
//! room for what it finds out, or for the exception that comes of it. Each interrupt is written down as well.
//!
//! ```text
//! 20_0000h  script of processor 0, 32 bytes an operation   21_0000h  the same of processor 1
//! 20_2000h  interrupts; how they are answered; stack at CPL 3
//! 20_3000h  what strings are copied from, and where to
//! ```
//!
//! That is few pages: each that is written is put back before the next script.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeLabel, al, ax, byte_ptr, cr4, cx, dword_ptr, dx, eax, ebp, ebx, ecx, edi, edx, esi, esp,
};
use vpmu::devices::debug_exit::{DEBUG_EXIT, MARKER, POST_CODE};
use vpmu::program::{
    INTERRUPT_STACK, Image, LAPIC, Program, STACKS, STACKS_SIZE, TRAMPOLINE, TRAMPOLINE_BYTES,
    segments,
};

/// Where processor 0 has its script; what it has is here and behind.
pub(super) const AREA: u32 = 0x20_0000;
/// Bytes from what one processor has to what the next one has.
pub(super) const AREA_SIZE: u32 = 0x1_0000;
/// Bytes of a record of a script, and of an interrupt.
pub(super) const RECORD: u32 = 32;
/// From a record to what the operation leaves: three doublewords.
const RESULT: u32 = 20;
/// From a script to the interrupts, to the variables, to the top of the stack at CPL 3, and to strings.
const INTERRUPTS: u32 = 0x2000;
/// Records that a script has room for.
pub(super) const MOST_RECORDS: usize = (INTERRUPTS / RECORD) as usize;
const VARIABLES: u32 = 0x2800;
const USER_STACK: u32 = 0x3000;
const COPIED_FROM: u32 = 0x3000;
const COPIED_TO: u32 = 0x3800;
/// Interrupts that are kept, the last of them.
const KEPT: u32 = 64;

/// Variables: the stack's top, which is that of interrupts at CPL 3, when nothing else is on a stack; where the next interrupt is written; how interrupts are answered, which of
/// [`ANSWER_EOI`] and the others, and with what.
const STACK: u32 = VARIABLES;
const NEXT_INTERRUPT: u32 = VARIABLES + 4;
const ANSWER: u32 = VARIABLES + 8;
const ANSWER_ENTRY: u32 = VARIABLES + 12;
const ANSWER_MSR: u32 = VARIABLES + 16;
/// Where processor 1 waits for the door to open.
const OPEN: u32 = AREA + VARIABLES + 0x100;

/// An answer to an interrupt: EOI, LVTPC is written, a register is written.
pub(super) const ANSWER_EOI: u32 = 1;
pub(super) const ANSWER_LVTPC: u32 = 2;
pub(super) const ANSWER_WRITE: u32 = 4;

/// What the result of an exception begins with: its vector and EIP are behind. Where one of an operation that was done
/// has EAX and EDX, there is zero.
const EXCEPTION: u32 = 2;

const EOI: u32 = 0xB0;
const ICR: u32 = 0x300;
const ICR_HIGH: u32 = 0x310;
const LVTPC: u32 = 0x340;
/// ICR: INIT, and a start-up IPI for a page, both asserted.
const INIT: u32 = 0x4500;
const START_UP: u32 = 0x4600;
/// The page that processor 1 starts in.
const PAGE: u32 = 8;
/// The vector by which code at CPL 3 comes back, and the one that operations raise.
const RETURN: u8 = 0x80;
pub(super) const RAISED: u8 = 0x81;
/// Symbols: what leads to an operation at CPL 3, and the end of a script.
const TO_USER: &str = "to CPL 3";
const END: &str = "end";
/// Behind the name of an operation: it is executed there at CPL 3.
const AT_CPL3: &str = " at CPL 3";
/// Where exceptions and interrupts arrive, and the instruction behind that; what handlers of interrupts do
/// with registers.
pub(super) const GATE: &str = "gate";
pub(super) const BEHIND_GATE: &str = "behind a gate";
/// The latter of #UD and #GP.
pub(super) const BEHIND_REFUSAL: &str = "behind a refusal";
pub(super) const HANDLER_READS: &str = "rdpmc of the handler";
pub(super) const HANDLER_WRITES: &str = "wrmsr of the handler";
/// EFLAGS.IF.
const IF: u32 = 1 << 9;

type Made = Result<(), IcedError>;

/// The guest, and where it has its operations.
pub(super) struct Agent {
    /// What its records name are its symbols.
    pub(super) image: Image,
    /// By routine: where it is at CPL 0, and at CPL 3.
    routines: [[u32; 2]; Routine::ALL.len()],
    /// What leads to an operation at CPL 3, and the end of a script.
    pub(super) to_user: u32,
    pub(super) end: u32,
}

impl Agent {
    /// That of a machine with so many processors, 1 or 2.
    ///
    /// # Errors
    /// It cannot be assembled.
    pub(super) fn new(cpus: u8) -> Result<Self, String> {
        let image = assemble(cpus).map_err(|error| error.to_string())?;
        let at = |symbol: &str| {
            image.symbol(symbol).map(|at| at as u32).ok_or_else(|| format!("there is no {symbol}"))
        };
        let mut routines = [[0; 2]; Routine::ALL.len()];
        for (places, routine) in routines.iter_mut().zip(Routine::ALL) {
            *places = [at(routine.name())?, at(&at_cpl3(routine.name()))?];
        }
        let (to_user, end) = (at(TO_USER)?, at(END)?);
        Ok(Self { image, routines, to_user, end })
    }

    /// Where a routine is, at CPL 0 and at CPL 3.
    pub(super) fn places(&self, routine: Routine) -> [u32; 2] {
        self.routines[routine as usize]
    }
}

/// Has [`Routine`] be these, each with its name.
macro_rules! routines {
    ($($routine:ident $name:literal,)*) => {
        /// What the agent does for an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Routine {
            $($routine,)*
        }

        impl Routine {
            const ALL: [Self; [$($name),*].len()] = [$(Self::$routine),*];

            /// The instruction, or what it is about.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(Self::$routine => $name,)*
                }
            }
        }
    };
}

routines! {
    Rdmsr "rdmsr",
    Wrmsr "wrmsr",
    Rdpmc "rdpmc",
    Spflt "spflt",
    Load "load",
    Store "store",
    Cli "cli",
    Sti "sti",
    Hlt "hlt",
    Nop "nop",
    Ud2 "ud2",
    Int3 "int3",
    Int "int",
    Divide "divide",
    Loop "loop",
    RepMovsb "rep movsb",
    Imul "imul",
    Cr4 "cr4",
    Answer "answer",
    AnswerByWrite "answer by write",
    In1 "in 1",
    In2 "in 2",
    In4 "in 4",
    Out1 "out 1",
    Out2 "out 2",
    Out4 "out 4",
}

/// The symbol of an operation where it is executed at CPL 3; at CPL 0 it is its name.
fn at_cpl3(operation: &str) -> String {
    format!("{operation}{AT_CPL3}")
}

/// The guest's program.
fn assemble(cpus: u8) -> Result<Image, IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    let (mut begin, mut next) = (p.create_label(), p.create_label());
    p.mov(ebp, AREA)?;
    if cpus > 1 {
        start_other(p, begin)?;
    }
    p.mov(esp, STACKS + INTERRUPT_STACK)?;
    p.mov(dword_ptr(ebp + STACK), esp)?;
    p.mov(dword_ptr(ebp + NEXT_INTERRUPT), 0)?;
    p.mov(edx, u32::from(POST_CODE))?;
    p.mov(eax, MARKER)?;
    p.out(dx, eax)?;
    p.mov(dword_ptr(OPEN), 1)?;
    p.place(&mut begin)?;
    p.mov(esi, ebp)?;
    to_this(p)?;
    p.place(&mut next)?;
    to_next(p)?;
    operations(p)?;
    at_user(p, next)?;
    end(p)?;
    exceptions(p, next)?;
    interrupts(p)?;
    program.finish()
}

/// Has processor 1 come to where it waits, and `begin` there when the door is open.
fn start_other(p: &mut Program, begin: CodeLabel) -> Made {
    let (mut started, mut over, mut wait) = (p.create_label(), p.create_label(), p.create_label());
    for at in (0..TRAMPOLINE_BYTES).step_by(4) {
        p.mov(eax, dword_ptr(TRAMPOLINE + at))?;
        p.mov(dword_ptr(PAGE * 0x1000 + at), eax)?;
    }
    p.mov(dword_ptr(OPEN), 0)?;
    for command in [INIT, START_UP | PAGE] {
        p.mov(dword_ptr(LAPIC + ICR_HIGH), 1 << 24)?;
        p.mov(dword_ptr(LAPIC + ICR), command)?;
    }
    p.place(&mut wait)?;
    p.cmp(dword_ptr(OPEN), 2)?;
    p.jne(wait)?;
    p.jmp(over)?;

    p.place(&mut started)?;
    p.set_start_up(started);
    p.set_up_processor()?;
    p.mov(ebp, AREA + AREA_SIZE)?;
    p.mov(esp, STACKS + STACKS_SIZE + INTERRUPT_STACK)?;
    p.mov(dword_ptr(ebp + STACK), esp)?;
    p.mov(dword_ptr(ebp + NEXT_INTERRUPT), 0)?;
    p.mov(dword_ptr(OPEN), 2)?;
    let closed = p.here()?;
    p.cmp(dword_ptr(OPEN), 1)?;
    p.jne(closed)?;
    p.jmp(begin)?;
    p.place(&mut over)
}

/// Where processors end that INIT or a start-up IPI has brought into real mode, with what is there: they halt. At the
/// reset vector is no memory, which is #UD; and each page of RAM below the firmware is one to start in, of which [`PAGE`]
/// has the code that starts processor 1.
pub(super) fn ends() -> Vec<(u64, Vec<u8>)> {
    /// CLI; HLT; JMP to the HLT.
    const HALT: [u8; 4] = [0xFA, 0xF4, 0xEB, 0xFD];
    /// The interrupt vector table: INT 1 to 255, all to 0000:0600h.
    const HANDLER: u32 = 0x600;
    let vectors = std::iter::repeat_n(HANDLER.to_le_bytes(), 255).flatten().collect();
    let pages =
        (0..0xE0).filter(|&page| page != PAGE).map(|page| (u64::from(page) << 12, HALT.into()));
    pages.chain([(4, vectors), (HANDLER.into(), HALT.into())]).collect()
}

/// What an operation leaves that is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaves {
    /// What it does to the processor, its PMU and devices.
    Nothing,
    /// EAX and EDX as well.
    Registers,
}

/// A routine, once for each level. It goes to the next record from where it is: scripts are executed
/// thousands of times a second, and mostly what is around the operations.
fn operation(
    p: &mut Program,
    routine: Routine,
    leaves: Leaves,
    body: impl Fn(&mut Program) -> Made,
) -> Made {
    let name = routine.name();
    for (cpl, symbol) in [(0, name.to_owned()), (3, at_cpl3(name))] {
        p.mark(&symbol)?;
        body(p)?;
        if leaves == Leaves::Registers {
            p.mov(dword_ptr(esi + RESULT + 4), eax)?;
            p.mov(dword_ptr(esi + RESULT + 8), edx)?;
        }
        match cpl {
            0 => to_next(p)?,
            _ => p.int(i32::from(RETURN))?,
        }
    }
    Ok(())
}

/// From record to record: ESI is that of this operation, EBP where its processor's area begins.
fn to_next(p: &mut Program) -> Made {
    p.add(esi, RECORD as i32)?;
    to_this(p)
}

/// To the operation of this record.
fn to_this(p: &mut Program) -> Made {
    p.mov(ecx, dword_ptr(esi + 4))?;
    p.mov(eax, dword_ptr(esi + 8))?;
    p.mov(edx, dword_ptr(esi + 12))?;
    p.jmp(dword_ptr(esi))
}

/// An operation that only does something.
fn does(p: &mut Program, routine: Routine, body: impl Fn(&mut Program) -> Made) -> Made {
    operation(p, routine, Leaves::Nothing, body)
}

/// One that finds something out.
fn finds(p: &mut Program, routine: Routine, body: impl Fn(&mut Program) -> Made) -> Made {
    operation(p, routine, Leaves::Registers, body)
}

fn operations(p: &mut Program) -> Made {
    finds(p, Routine::Rdmsr, |p| p.rdmsr())?;
    does(p, Routine::Wrmsr, |p| p.wrmsr())?;
    finds(p, Routine::Rdpmc, |p| p.rdpmc())?;
    // VEX.L0.F2.0F AE /6 with EAX.
    does(p, Routine::Spflt, |p| p.db(&[0xC5, 0xFB, 0xAE, 0xF0]))?;
    finds(p, Routine::Load, |p| p.mov(eax, dword_ptr(ecx)))?;
    does(p, Routine::Store, |p| p.mov(dword_ptr(ecx), eax))?;
    does(p, Routine::Cli, |p| p.cli())?;
    does(p, Routine::Sti, |p| p.sti())?;
    does(p, Routine::Hlt, |p| p.hlt())?;
    does(p, Routine::Nop, |p| p.nop())?;
    does(p, Routine::Ud2, |p| p.ud2())?;
    does(p, Routine::Int3, |p| p.int3())?;
    does(p, Routine::Int, |p| p.int(i32::from(RAISED)))?;
    does(p, Routine::Divide, |p| {
        p.xor(ecx, ecx)?;
        p.div(ecx)
    })?;
    does(p, Routine::Loop, |p| {
        let again = p.here()?;
        p.dec(ecx)?;
        p.jnz(again)
    })?;
    does(p, Routine::RepMovsb, |p| {
        p.push(esi)?;
        p.lea(esi, dword_ptr(ebp + COPIED_FROM))?;
        p.lea(edi, dword_ptr(ebp + COPIED_TO))?;
        p.rep().movsb()?;
        p.pop(esi)
    })?;
    finds(p, Routine::Imul, |p| {
        let again = p.here()?;
        p.imul_2(eax, edx)?;
        p.dec(ecx)?;
        p.jnz(again)
    })?;
    does(p, Routine::Cr4, |p| {
        p.mov(ecx, cr4)?;
        p.and(ecx, !(1 << 8))?;
        p.or(ecx, eax)?;
        p.mov(cr4, ecx)
    })?;
    does(p, Routine::Answer, |p| {
        p.mov(dword_ptr(ebp + ANSWER), ecx)?;
        p.mov(dword_ptr(ebp + ANSWER_ENTRY), eax)
    })?;
    does(p, Routine::AnswerByWrite, |p| {
        p.mov(dword_ptr(ebp + ANSWER_MSR), ecx)?;
        p.mov(dword_ptr(ebp + ANSWER_MSR + 4), eax)?;
        p.mov(dword_ptr(ebp + ANSWER_MSR + 8), edx)?;
        p.or(dword_ptr(ebp + ANSWER), ANSWER_WRITE as i32)
    })?;
    ports(p)
}

/// IN and OUT of each width; the port is in CX.
fn ports(p: &mut Program) -> Made {
    finds(p, Routine::In1, |p| {
        p.mov(dx, cx)?;
        p.in_(al, dx)
    })?;
    finds(p, Routine::In2, |p| {
        p.mov(dx, cx)?;
        p.in_(ax, dx)
    })?;
    finds(p, Routine::In4, |p| {
        p.mov(dx, cx)?;
        p.in_(eax, dx)
    })?;
    does(p, Routine::Out1, |p| {
        p.mov(dx, cx)?;
        p.out(dx, al)
    })?;
    does(p, Routine::Out2, |p| {
        p.mov(dx, cx)?;
        p.out(dx, ax)
    })?;
    does(p, Routine::Out4, |p| {
        p.mov(dx, cx)?;
        p.out(dx, eax)
    })
}

fn end(p: &mut Program) -> Made {
    let mut other = p.create_label();
    p.mark(END)?;
    p.cmp(ebp, AREA as i32)?;
    p.jne(other)?;
    p.xor(eax, eax)?;
    p.mov(edx, u32::from(DEBUG_EXIT))?;
    p.out(dx, eax)?;
    p.place(&mut other)?;
    p.cli()?;
    let halted = p.here()?;
    p.hlt()?;
    p.jmp(halted)
}

/// The operation that the record names besides, at CPL 3; and back.
fn at_user(p: &mut Program, next: CodeLabel) -> Made {
    let (code, stack) = segments(3);
    p.mark(TO_USER)?;
    p.lea(edi, dword_ptr(ebp + USER_STACK))?;
    p.push(i32::from(stack))?;
    p.push(edi)?;
    p.pushfd()?;
    p.push(i32::from(code))?;
    p.push(dword_ptr(esi + 16))?;
    p.iretd()?;

    let back = p.mark(GATE)?;
    p.gate(RETURN, back, 3);
    p.mov(eax, dword_ptr(esp + 8))?;
    // An interrupt may have this vector, too.
    p.mark(BEHIND_GATE)?;
    go_on(p, next)
}

/// To the next record with an empty stack, with interrupts enabled as in the flags in EAX.
fn go_on(p: &mut Program, next: CodeLabel) -> Made {
    p.and(eax, IF as i32)?;
    p.mov(esp, dword_ptr(ebp + STACK))?;
    p.push(eax)?;
    p.popfd()?;
    p.jmp(next)
}

/// Exceptions are results of the operation, wherever it was.
fn exceptions(p: &mut Program, next: CodeLabel) -> Made {
    /// Those with an error code.
    const WITH_CODE: [u8; 7] = [8, 10, 11, 12, 13, 14, 17];
    let mut exception = p.create_label();
    for vector in (0..32).filter(|&vector| vector != 2) {
        let stub = p.mark(GATE)?;
        p.gate(vector, stub, 3);
        if WITH_CODE.contains(&vector) {
            p.add(esp, 4)?;
        } else {
            p.nop()?;
        }
        p.mark(BEHIND_GATE)?;
        if matches!(vector, 6 | 13) {
            p.mark(BEHIND_REFUSAL)?;
        }
        p.push(i32::from(vector))?;
        p.jmp(exception)?;
    }
    p.place(&mut exception)?;
    p.pop(eax)?;
    p.pop(edx)?;
    p.mov(dword_ptr(esi + RESULT), EXCEPTION)?;
    p.mov(dword_ptr(esi + RESULT + 4), eax)?;
    p.mov(dword_ptr(esi + RESULT + 8), edx)?;
    p.mov(eax, dword_ptr(esp + 4))?;
    go_on(p, next)
}

/// Every interrupt is written down with the counter, and answered.
fn interrupts(p: &mut Program) -> Made {
    let mut interrupt = p.create_label();
    for vector in (2..=255).filter(|&vector| (vector == 2 || vector >= 32) && vector != RETURN) {
        let stub = p.mark(GATE)?;
        p.gate(vector, stub, 3);
        p.push(i32::from(vector))?;
        p.mark(BEHIND_GATE)?;
        p.jmp(interrupt)?;
    }
    p.place(&mut interrupt)?;
    p.pushad()?;
    p.mov(ebx, dword_ptr(ebp + NEXT_INTERRUPT))?;
    p.and(ebx, (RECORD * (KEPT - 1)) as i32)?;
    p.add(ebx, ebp)?;
    p.add(ebx, INTERRUPTS as i32)?;
    // Behind the eight registers: vector, EIP, CS.
    for (place, from) in [(0, 32), (4, 36), (8, 40)] {
        p.mov(eax, dword_ptr(esp + from))?;
        p.mov(dword_ptr(ebx + place), eax)?;
    }
    p.mov(dword_ptr(ebx + 12), esi)?;
    p.xor(ecx, ecx)?;
    p.mark(HANDLER_READS)?;
    p.rdpmc()?;
    p.mov(dword_ptr(ebx + 16), eax)?;
    p.mov(dword_ptr(ebx + 20), edx)?;
    p.add(dword_ptr(ebp + NEXT_INTERRUPT), RECORD as i32)?;

    let (mut no_eoi, mut no_lvtpc, mut no_write) =
        (p.create_label(), p.create_label(), p.create_label());
    p.test(byte_ptr(ebp + ANSWER), ANSWER_LVTPC as i32)?;
    p.jz(no_lvtpc)?;
    p.mov(eax, dword_ptr(ebp + ANSWER_ENTRY))?;
    p.mov(dword_ptr(LAPIC + LVTPC), eax)?;
    p.place(&mut no_lvtpc)?;
    p.test(byte_ptr(ebp + ANSWER), ANSWER_WRITE as i32)?;
    p.jz(no_write)?;
    p.mov(ecx, dword_ptr(ebp + ANSWER_MSR))?;
    p.mov(eax, dword_ptr(ebp + ANSWER_MSR + 4))?;
    p.mov(edx, dword_ptr(ebp + ANSWER_MSR + 8))?;
    p.mark(HANDLER_WRITES)?;
    p.wrmsr()?;
    p.place(&mut no_write)?;
    p.test(byte_ptr(ebp + ANSWER), ANSWER_EOI as i32)?;
    p.jz(no_eoi)?;
    p.mov(dword_ptr(LAPIC + EOI), 0)?;
    p.place(&mut no_eoi)?;
    p.popad()?;
    p.add(esp, 4)?;
    p.iretd()
}
