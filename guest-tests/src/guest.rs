//! The frame around a test: traps that can be recovered from, a PMI handler that keeps a log, trips
//! to CPL 3, and values reported on the serial port.

use std::ops::{Deref, DerefMut};

use iced_x86::code_asm::{byte_ptr, eax, ecx, qword_ptr, r11, rax, rbx, rcx, rdi, rdx, rsp};
use vpmu::demo::{Console, Image, Program, program};

use crate::Result;

/// The interrupt vector that [`Guest::assemble`] gives a handler that logs PMIs; so has NMI.
pub const PMI_VECTOR: u8 = 0x50;
/// Memory that tests may use as they like, zero at the start.
pub const SCRATCH: u64 = 0x20_0000;
/// RFLAGS with nothing set but the bit that is always one.
pub const RFLAGS_CLEAR: i32 = 2;
/// RFLAGS.IF.
pub const RFLAGS_IF: i32 = 1 << 9;

/// LVT performance counter register.
pub const LVTPC: i32 = 0x340;
/// LVT delivery mode NMI.
pub const LVT_NMI: u32 = 4 << 8;
/// LVT mask bit.
pub const LVT_MASKED: u32 = 1 << 16;
const EOI: i32 = 0xB0;

/// INT n that comes back from CPL 3.
const RETURN_VECTOR: u8 = 0x80;

// Variables of the frame.
const RECOVER: u64 = program::DATA;
const FAULT: u64 = program::DATA + 0x08;
const ERROR_CODE: u64 = program::DATA + 0x10;
const RESUME_RIP: u64 = program::DATA + 0x18;
const RESUME_RSP: u64 = program::DATA + 0x20;
const PMIS: u64 = program::DATA + 0x28;
const LOG: u64 = program::DATA + 0x100;
const LOG_ENTRIES: u32 = 32;
const RESULTS: u64 = program::DATA + 0x200;
const RESULTS_MAX: usize = 0xE00 / 8;

/// What [`Guest::probe`] reports if nothing faulted.
pub const NO_FAULT: u64 = 0;
/// What [`Guest::probe`] reports after a general-protection fault.
pub const FAULT_GP: u64 = 0x100 | 13;

/// Exit code of a guest with an exception that nobody expected.
const UNEXPECTED: u32 = 0x3F;

/// A guest being assembled. It is the assembler too: every instruction is a method.
pub struct Guest {
    program: Program,
    console: Console,
    results: Vec<String>,
}

impl Deref for Guest {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.program
    }
}

impl DerefMut for Guest {
    fn deref_mut(&mut self) -> &mut Program {
        &mut self.program
    }
}

impl Guest {
    /// A guest that has set up its processor and does `body` at CPL 0 with interrupts disabled,
    /// then reports and exits.
    ///
    /// # Errors
    /// If an instruction cannot be encoded; so for all methods here.
    pub fn assemble(body: impl FnOnce(&mut Self) -> Result) -> Result<Image> {
        let mut program = Program::new()?;
        let console = Console::new(&mut program)?;
        let mut guest = Self { program, console, results: Vec::new() };
        guest.traps()?;
        guest.on_pmi(|_| Ok(()))?;
        body(&mut guest)?;
        guest.print_results()?;
        guest.console.exit(&mut guest.program, 0)?;
        guest.program.finish()
    }

    /// Reports RAX as `name`. Preserves all registers.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report(&mut self, name: &str) -> Result {
        assert!(self.results.len() < RESULTS_MAX, "too many results");
        assert!(!self.results.iter().any(|known| known == name), "{name} is reported twice");
        let slot = RESULTS + 8 * self.results.len() as u64;
        self.results.push(name.into());
        self.mov(qword_ptr(slot), rax)
    }

    /// Reports the quadword at `address`. Changes RAX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report_quad(&mut self, name: &str, address: u64) -> Result {
        self.mov(rax, qword_ptr(address))?;
        self.report(name)
    }

    /// RDMSR of `index` into RAX. Changes RCX and RDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn read_msr(&mut self, index: u32) -> Result {
        self.mov(ecx, index)?;
        self.rdmsr()?;
        self.shl(rdx, 32)?;
        self.or(rax, rdx)
    }

    /// RDPMC of `counter` into RAX. Changes RCX and RDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn read_pmc(&mut self, counter: u32) -> Result {
        self.mov(ecx, counter)?;
        self.rdpmc()?;
        self.shl(rdx, 32)?;
        self.or(rax, rdx)
    }

    /// Does `body`, in which one instruction may fault, and reports [`NO_FAULT`] or 100h plus the
    /// vector. After a fault the rest of `body` is left out. Changes RAX and R11.
    ///
    /// LEA, MOV, MOV come before `body` ([`PROBE_BEFORE`]), MOV, MOV, MOV behind it
    /// ([`PROBE_BEHIND`]). Between them, if an exception without an error code is taken, the handler
    /// executes PUSH, PUSH, JMP, PUSH, MOV, TEST, JZ (not taken), MOV, MOV, OR, MOV, MOV, MOV, POP,
    /// ADD, IRETQ ([`RECOVERING`]).
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn probe(&mut self, name: &str, body: impl FnOnce(&mut Self) -> Result) -> Result {
        let mut after = self.create_label();
        self.lea(r11, byte_ptr(after))?;
        self.mov(qword_ptr(FAULT), 0)?;
        self.mov(qword_ptr(RECOVER), r11)?;
        body(self)?;
        self.place(&mut after)?;
        self.mov(qword_ptr(RECOVER), 0)?;
        self.report_quad(name, FAULT)
    }

    /// Reports the error code of the last fault that [`Self::probe`] recovered from.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report_error_code(&mut self, name: &str) -> Result {
        self.report_quad(name, ERROR_CODE)
    }

    /// Does `body` at CPL 3 with `rflags`, and comes back with interrupts disabled.
    ///
    /// On the way there are, from the first: LEA, MOV, MOV, MOV, PUSH, MOV, PUSH, PUSH, PUSH, LEA,
    /// PUSH at CPL 0 and the IRETQ, which begins there; on the way back INT 80h, which begins at
    /// CPL 3, and MOV, JMP at CPL 0: [`ENTERING`], one and [`LEAVING`]. Changes RAX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn at_cpl3(&mut self, rflags: i32, body: impl FnOnce(&mut Self) -> Result) -> Result {
        let (mut user, mut back) = (self.create_label(), self.create_label());
        self.lea(rax, byte_ptr(back))?;
        self.mov(qword_ptr(RESUME_RIP), rax)?;
        self.mov(rax, rsp)?;
        self.mov(qword_ptr(RESUME_RSP), rax)?;
        self.enter_user(user, rflags)?;
        self.place(&mut user)?;
        body(self)?;
        self.int(i32::from(RETURN_VECTOR))?;
        self.place(&mut back)
    }

    /// Replaces what happens at a PMI, by NMI or by [`PMI_VECTOR`]: the interrupted RIP is logged,
    /// then `body` finds the number of PMIs so far in RAX, and may change RAX, RBX, RCX, RDX and
    /// RDI.
    ///
    /// Without `body` the handler executes five PUSH, eight instructions for the log, for
    /// [`PMI_VECTOR`] two for the EOI, five POP and IRETQ ([`HANDLING`]).
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn on_pmi(&mut self, body: impl Fn(&mut Self) -> Result) -> Result {
        let mut over = self.create_label();
        self.jmp(over)?;
        for (vector, ist, ends) in [(2, 1, false), (PMI_VECTOR, 0, true)] {
            let entry = self.here()?;
            self.gate(vector, entry, ist, 0);
            for register in [rax, rbx, rcx, rdx, rdi] {
                self.push(register)?;
            }
            self.mov(rax, qword_ptr(PMIS))?;
            self.mov(rcx, rax)?;
            self.and(ecx, LOG_ENTRIES - 1)?;
            // Behind the five registers: RIP, CS, RFLAGS, RSP, SS.
            self.mov(rdx, qword_ptr(rsp + 5 * 8))?;
            self.mov(rbx, LOG)?;
            self.mov(qword_ptr(rbx + rcx * 8), rdx)?;
            self.inc(rax)?;
            self.mov(qword_ptr(PMIS), rax)?;
            body(self)?;
            if ends {
                self.write_lapic(EOI, 0)?;
            }
            for register in [rdi, rdx, rcx, rbx, rax] {
                self.pop(register)?;
            }
            self.iretq()?;
        }
        self.place(&mut over)
    }

    /// Reports how many PMIs came, as `name`, and the first `log` interrupted addresses, as
    /// `name.0`, `name.1`, ... Changes RAX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report_pmis(&mut self, name: &str, log: u64) -> Result {
        self.report_quad(name, PMIS)?;
        for entry in 0..log {
            self.report_quad(&format!("{name}.{entry}"), LOG + 8 * entry)?;
        }
        Ok(())
    }

    /// Forgets the PMIs so far. Changes RAX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn forget_pmis(&mut self) -> Result {
        self.xor(eax, eax)?;
        self.mov(qword_ptr(PMIS), rax)
    }

    /// Handlers of the exceptions and of the way back from CPL 3.
    fn traps(&mut self) -> Result {
        let (mut over, mut common) = (self.create_label(), self.create_label());
        self.jmp(over)?;
        for vector in (0..32).filter(|&vector| vector != 2) {
            let entry = self.here()?;
            if !matches!(vector, 8 | 10..=14 | 17) {
                self.push(0)?;
            }
            self.push(i32::from(vector))?;
            self.jmp(common)?;
            self.gate(vector, entry, 2, 0);
        }

        // RAX, vector, error code, RIP, ...
        let mut unexpected = self.create_label();
        self.place(&mut common)?;
        self.push(rax)?;
        self.mov(rax, qword_ptr(RECOVER))?;
        self.test(rax, rax)?;
        self.jz(unexpected)?;
        self.mov(qword_ptr(rsp + 24), rax)?;
        self.mov(rax, qword_ptr(rsp + 8))?;
        self.or(eax, 0x100)?;
        self.mov(qword_ptr(FAULT), rax)?;
        self.mov(rax, qword_ptr(rsp + 16))?;
        self.mov(qword_ptr(ERROR_CODE), rax)?;
        self.pop(rax)?;
        self.add(rsp, 16)?;
        self.iretq()?;

        self.place(&mut unexpected)?;
        for (text, place) in [("exception ", 8), (" error code ", 16), (" at ", 24)] {
            self.console.text(&mut self.program, text)?;
            self.mov(rax, qword_ptr(rsp + place))?;
            self.console.hex(&mut self.program)?;
        }
        self.console.text(&mut self.program, "\n")?;
        self.console.exit(&mut self.program, UNEXPECTED)?;

        let back = self.here()?;
        self.gate(RETURN_VECTOR, back, 0, 3);
        self.mov(rsp, qword_ptr(RESUME_RSP))?;
        self.jmp(qword_ptr(RESUME_RIP))?;
        self.place(&mut over)
    }

    /// One line a result: `name=` and 16 hexadecimal digits.
    fn print_results(&mut self) -> Result {
        for (index, name) in self.results.clone().into_iter().enumerate() {
            self.console.text(&mut self.program, &format!("{name}="))?;
            self.mov(rax, qword_ptr(RESULTS + 8 * index as u64))?;
            self.console.hex(&mut self.program)?;
            self.console.text(&mut self.program, "\n")?;
        }
        Ok(())
    }
}

/// Instructions of [`Guest::probe`] before what is probed.
pub const PROBE_BEFORE: u64 = 3;
/// Instructions of [`Guest::probe`] behind it.
pub const PROBE_BEHIND: u64 = 3;
/// Instructions of the handler of an exception without an error code.
pub const RECOVERING: u64 = 16;
/// Instructions of the handler at [`PMI_VECTOR`].
pub const HANDLING: u64 = 21;
/// Instructions that begin at CPL 0 on the way to CPL 3 in [`Guest::at_cpl3`].
pub const ENTERING: u64 = 12;
/// Instructions that begin at CPL 0 on the way back.
pub const LEAVING: u64 = 2;
