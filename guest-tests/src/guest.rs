//! The frame around a test: traps that can be recovered from, a PMI handler that keeps a log, trips
//! to CPL 3, and values reported on the serial port.

use std::ops::{Deref, DerefMut};

use iced_x86::code_asm::{cr4, dword_ptr, eax, ebx, ecx, edi, edx, esp};
use vpmu::demo::Console;
use vpmu::program::{self, Image, LAPIC, Program};

use crate::Result;
use crate::msr::GLOBAL_OVF_CTRL;
use crate::part::{Part, Registers};

/// The interrupt vector that [`Guest::assemble`] gives a handler that logs PMIs; so has NMI.
pub const PMI_VECTOR: u8 = 0x50;
/// Memory that tests may use as they like, zero at the start.
pub const SCRATCH: u32 = 0x20_0000;
/// EFLAGS with nothing set but the bit that is always one.
pub const EFLAGS_CLEAR: i32 = 2;
/// EFLAGS.IF.
pub const EFLAGS_IF: i32 = 1 << 9;

/// LVT performance counter register.
pub const LVTPC: i32 = 0x340;
/// LVT delivery mode NMI.
pub const LVT_NMI: u32 = 4 << 8;
/// LVT mask bit.
pub const LVT_MASKED: u32 = 1 << 16;
/// End of interrupt register.
pub const EOI: i32 = 0xB0;

/// INT n that comes back from CPL 3.
const RETURN_VECTOR: u8 = 0x80;

// Variables of the frame. `processors` has some from 10h on.
const RECOVER: u32 = program::DATA;
/// What came of [`Guest::attempt`]: [`NO_FAULT`], or 100h plus the vector.
pub const FAULT: u32 = program::DATA + 0x04;
const ERROR_CODE: u32 = program::DATA + 0x08;
const PMIS: u32 = program::DATA + 0x0C;
const LOG: u32 = program::DATA + 0x100;
const LOG_ENTRIES: u32 = 32;
const RESULTS: u32 = program::DATA + 0x200;
const RESULTS_MAX: usize = 0xE00 / 8;

/// What [`Guest::probe`] reports if nothing faulted.
pub const NO_FAULT: u64 = 0;
/// What [`Guest::probe`] reports after an invalid-opcode fault.
pub const FAULT_UD: u64 = 0x100 | 6;
/// What [`Guest::probe`] reports after a general-protection fault.
pub const FAULT_GP: u64 = 0x100 | 13;

/// Exit code of a guest with an unexpected exception.
const UNEXPECTED: u32 = 0x3F;

/// A guest being assembled. It is the assembler too: every instruction is a method.
pub struct Guest {
    program: Program,
    console: Console,
    results: Vec<String>,
    /// Whose counters it programs.
    pub part: &'static Part,
    /// What each enabled counter is programmed with, at this place in the code.
    pub(crate) running: [Option<u64>; 4],
    /// Processors that meet at barriers.
    pub(crate) processors: u32,
    /// Barriers so far.
    pub(crate) barriers: u32,
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
    /// A guest for `part` that has set up its processor and does `body` at CPL 0 with interrupts
    /// disabled, then reports and exits.
    ///
    /// # Errors
    /// If an instruction cannot be encoded; so for all methods here.
    pub fn assemble(part: &'static Part, body: impl FnOnce(&mut Self) -> Result) -> Result<Image> {
        let mut program = Program::new()?;
        let console = Console::new(&mut program)?;
        let mut guest = Self {
            program,
            console,
            results: Vec::new(),
            part,
            running: [None; 4],
            processors: 1,
            barriers: 0,
        };
        guest.traps()?;
        guest.on_pmi(|_| Ok(()))?;
        guest.set_up_pmu()?;
        body(&mut guest)?;
        guest.print_results()?;
        guest.console.exit(&mut guest.program, 0)?;
        guest.program.finish()
    }

    /// Where the value is kept that will be reported as `name`.
    fn slot(&mut self, name: &str) -> u32 {
        assert!(self.results.len() < RESULTS_MAX, "too many results");
        assert!(!self.results.iter().any(|known| known == name), "{name} is reported twice");
        let slot = RESULTS + 8 * self.results.len() as u32;
        self.results.push(name.into());
        slot
    }

    /// Reports EDX:EAX as `name`. Preserves all registers.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report(&mut self, name: &str) -> Result {
        let slot = self.slot(name);
        self.mov(dword_ptr(slot), eax)?;
        self.mov(dword_ptr(slot + 4), edx)
    }

    /// Reports EAX as `name`. Preserves all registers.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report_eax(&mut self, name: &str) -> Result {
        let slot = self.slot(name);
        self.mov(dword_ptr(slot), eax)
    }

    /// Reports the word at `address`. Changes EAX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report_word(&mut self, name: &str, address: u32) -> Result {
        self.mov(eax, dword_ptr(address))?;
        self.report_eax(name)
    }

    /// Reports the quadword at `address`. Changes EAX and EDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report_quad(&mut self, name: &str, address: u32) -> Result {
        self.mov(eax, dword_ptr(address))?;
        self.mov(edx, dword_ptr(address + 4))?;
        self.report(name)
    }

    /// RDMSR of `index` into EDX:EAX. Changes ECX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn read_msr(&mut self, index: u32) -> Result {
        self.mov(ecx, index)?;
        self.rdmsr()
    }

    /// RDPMC of `counter` into EDX:EAX. Changes ECX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn read_pmc(&mut self, counter: u32) -> Result {
        self.mov(ecx, counter)?;
        self.rdpmc()
    }

    /// Sets bits of CR4. Changes EAX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn set_cr4(&mut self, bits: i32) -> Result {
        self.mov(eax, cr4)?;
        self.or(eax, bits)?;
        self.mov(cr4, eax)
    }

    /// Does `body`, in which one instruction may fault, and reports [`NO_FAULT`] or 100h plus the
    /// vector. After a fault the rest of `body` is left out. Changes EAX.
    ///
    /// MOV, MOV come before `body` ([`PROBE_BEFORE`]), MOV, MOV, MOV behind it ([`PROBE_BEHIND`]).
    /// Between them, if an exception without an error code is taken, the handler executes PUSH,
    /// PUSH, JMP, PUSH, MOV, TEST, JZ (not taken), MOV, MOV, OR, MOV, MOV, MOV, POP, ADD, IRETD
    /// ([`RECOVERING`]).
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn probe(&mut self, name: &str, body: impl FnOnce(&mut Self) -> Result) -> Result {
        self.attempt(body)?;
        self.report_word(name, FAULT)
    }

    /// [`Self::probe`] that reports nothing and changes no register: what came of it is at
    /// [`FAULT`].
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn attempt(&mut self, body: impl FnOnce(&mut Self) -> Result) -> Result {
        let mut after = self.create_label();
        self.mov(dword_ptr(FAULT), 0)?;
        self.store_address(dword_ptr(RECOVER), after)?;
        body(self)?;
        self.place(&mut after)?;
        self.mov(dword_ptr(RECOVER), 0)
    }

    /// Reports the error code of the last fault that [`Self::probe`] recovered from.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report_error_code(&mut self, name: &str) -> Result {
        self.report_word(name, ERROR_CODE)
    }

    /// [`Self::at_cpl`] 3.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn at_cpl3(&mut self, eflags: i32, body: impl FnOnce(&mut Self) -> Result) -> Result {
        self.at_cpl(3, eflags, body)
    }

    /// Does `body` at `cpl`, 1 to 3, with `eflags`, and comes back with interrupts disabled.
    ///
    /// On the way there are, from the first: PUSH, MOV, AND, MOV and those of [`Program::enter`],
    /// MOV, AND, ADD, PUSH five times at CPL 0 and the IRETD, which begins there; on the way back
    /// INT 80h, which begins at `cpl`, and MOV, RET at CPL 0: [`ENTERING`], one and [`LEAVING`].
    /// Changes EAX on the way there.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn at_cpl(
        &mut self,
        cpl: u8,
        eflags: i32,
        body: impl FnOnce(&mut Self) -> Result,
    ) -> Result {
        let (mut there, mut back) = (self.create_label(), self.create_label());
        self.push_address(back)?;
        self.mov(eax, esp)?;
        self.and(eax, -(program::STACKS_SIZE as i32))?;
        self.mov(dword_ptr(eax + program::INTERRUPT_STACK as i32), esp)?;
        self.enter(cpl, there, eflags)?;
        self.place(&mut there)?;
        body(self)?;
        self.int(i32::from(RETURN_VECTOR))?;
        self.place(&mut back)
    }

    /// Replaces what happens at a PMI, by NMI or by [`PMI_VECTOR`]: the interrupted EIP is logged,
    /// then `body` finds the number of PMIs so far in EAX, and may change EAX, EBX, ECX, EDX and
    /// EDI.
    ///
    /// Without `body` the handler executes five PUSH, eight instructions for the log, what the part
    /// needs before there can be a next PMI (Knights Corner: WRMSR with three MOV that clears the
    /// overflow; Pentium M: MOV, AND that opens LVTPC), for [`PMI_VECTOR`] two for the EOI, five POP
    /// and IRETD ([`Part::handling`]).
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn on_pmi(&mut self, body: impl Fn(&mut Self) -> Result) -> Result {
        let registers = [eax, ebx, ecx, edx, edi];
        let mut over = self.create_label();
        self.jmp(over)?;
        for (vector, ends) in [(2, false), (PMI_VECTOR, true)] {
            let entry = self.here()?;
            self.gate(vector, entry, 0);
            for register in registers {
                self.push(register)?;
            }
            self.allow_another()?;
            self.mov(eax, dword_ptr(PMIS))?;
            self.mov(ecx, eax)?;
            self.and(ecx, (LOG_ENTRIES - 1) as i32)?;
            // Behind the five registers: EIP, CS, EFLAGS and, from above CPL 0, ESP, SS.
            self.mov(edx, dword_ptr(esp + 5 * 4))?;
            self.mov(ebx, LOG)?;
            self.mov(dword_ptr(ebx + ecx * 4), edx)?;
            self.inc(eax)?;
            self.mov(dword_ptr(PMIS), eax)?;
            body(self)?;
            if ends {
                self.write_lapic(EOI, 0)?;
            }
            for register in registers.into_iter().rev() {
                self.pop(register)?;
            }
            self.iretd()?;
        }
        self.place(&mut over)
    }

    /// What the handler of a PMI has to do on this part before there can be another. Changes EAX,
    /// ECX, EDX and EDI.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn allow_another(&mut self) -> Result {
        if self.part.registers == Registers::Knc {
            self.write_msr(GLOBAL_OVF_CTRL, 3)?;
        }
        if self.part.masks_lvtpc {
            self.mov(edi, LAPIC)?;
            self.and(dword_ptr(edi + LVTPC), !LVT_MASKED as i32)?;
        }
        Ok(())
    }

    /// Reports how many PMIs came, as `name`, and the first `log` interrupted addresses, as
    /// `name.0`, `name.1`, ... Changes EAX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report_pmis(&mut self, name: &str, log: u32) -> Result {
        self.report_word(name, PMIS)?;
        for entry in 0..log {
            self.report_word(&format!("{name}.{entry}"), LOG + 4 * entry)?;
        }
        Ok(())
    }

    /// Forgets the PMIs so far.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn forget_pmis(&mut self) -> Result {
        self.mov(dword_ptr(PMIS), 0)
    }

    /// Handlers of the exceptions and of the way back to CPL 0.
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
            self.gate(vector, entry, 0);
        }

        // EAX, vector, error code, EIP, ...
        let mut unexpected = self.create_label();
        self.place(&mut common)?;
        self.push(eax)?;
        self.mov(eax, dword_ptr(RECOVER))?;
        self.test(eax, eax)?;
        self.jz(unexpected)?;
        self.mov(dword_ptr(esp + 12), eax)?;
        self.mov(eax, dword_ptr(esp + 4))?;
        self.or(eax, 0x100)?;
        self.mov(dword_ptr(FAULT), eax)?;
        self.mov(eax, dword_ptr(esp + 8))?;
        self.mov(dword_ptr(ERROR_CODE), eax)?;
        self.pop(eax)?;
        self.add(esp, 8)?;
        self.iretd()?;

        self.place(&mut unexpected)?;
        self.xor(edx, edx)?;
        for (text, place) in [("exception ", 4), (" error code ", 8), (" at ", 12)] {
            self.console.text(&mut self.program, text)?;
            self.mov(eax, dword_ptr(esp + place))?;
            self.console.hex(&mut self.program)?;
        }
        self.console.text(&mut self.program, "\n")?;
        self.console.exit(&mut self.program, UNEXPECTED)?;

        // On the interrupt stack: EIP, CS, EFLAGS, ESP, SS, and where at_cpl left the other.
        let back = self.here()?;
        self.gate(RETURN_VECTOR, back, 3);
        self.mov(esp, dword_ptr(esp + 5 * 4))?;
        self.ret()?;
        self.place(&mut over)
    }

    /// One line a result: `name=` and 16 hexadecimal digits.
    fn print_results(&mut self) -> Result {
        for (slot, name) in (RESULTS..).step_by(8).zip(self.results.clone()) {
            self.console.text(&mut self.program, &format!("{name}="))?;
            self.mov(eax, dword_ptr(slot))?;
            self.mov(edx, dword_ptr(slot + 4))?;
            self.console.hex(&mut self.program)?;
            self.console.text(&mut self.program, "\n")?;
        }
        Ok(())
    }
}

/// Instructions of [`Guest::probe`] before what is probed.
pub const PROBE_BEFORE: u64 = 2;
/// Instructions of [`Guest::probe`] behind it.
pub const PROBE_BEHIND: u64 = 3;
/// Instructions of the handler of an exception without an error code.
pub const RECOVERING: u64 = 16;
/// Instructions that begin at CPL 0 on the way to CPL 3 in [`Guest::at_cpl3`].
pub const ENTERING: u64 = 13;
/// Instructions that begin at CPL 0 on the way back.
pub const LEAVING: u64 = 2;
