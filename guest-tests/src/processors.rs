//! More than one processor.

use iced_x86::code_asm::{dword_ptr, eax, ebp, ecx, edi, edx, esi, esp};
use vpmu::program::{DATA, LAPIC, LAPIC_ID, TRAMPOLINE, TRAMPOLINE_BYTES};

use crate::{Guest, Result};

/// How many have done their work.
const DONE: u32 = DATA + 0x10;
/// How many have reached each barrier.
const BARRIERS: u32 = DATA + 0x20;
const BARRIERS_MAX: u32 = 16;

/// Top of the stack of processor 0 of many: those of the others are [`STACK_OF_MANY`] further up each.
const STACKS_OF_MANY: u32 = 0x40_0400;
const STACK_OF_MANY: u32 = 0x400;

/// Where started processors begin: the vector of a start-up IPI is the number of a page below 1 MiB.
const START_UP_PAGE: u32 = 8;

const ICR: i32 = 0x300;
const ALL_BUT_SELF: u32 = 3 << 18;
const ASSERT: u32 = 1 << 14;
const INIT: u32 = 5 << 8;
const START_UP: u32 = 6 << 8;

impl Guest {
    /// Starts the other processors by INIT and a start-up IPI, lets all of them do `body`, each at
    /// CPL 0 on its own stack with its local APIC identifier in EBP, and waits for the last. Once a
    /// guest. `body` preserves EBP; what it reports, [`Self::probe`]s and logs of PMIs are there
    /// only once, so that one processor alone may use them.
    ///
    /// # Errors
    /// If an instruction cannot be encoded; so for all methods here.
    pub fn on_every_processor(
        &mut self,
        processors: u32,
        body: impl FnOnce(&mut Self) -> Result,
    ) -> Result {
        self.start_all(processors, |g| g.set_up_processor(), body)
    }

    /// As [`Self::on_every_processor`], for any number of them. Those behind processor 0 have a stack of
    /// 1 KiB and no TSS: they stay at CPL 0.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn on_many_processors(
        &mut self,
        processors: u32,
        body: impl FnOnce(&mut Self) -> Result,
    ) -> Result {
        let set_up = |g: &mut Self| {
            g.set_up_segments()?;
            g.mov(eax, dword_ptr(LAPIC + LAPIC_ID as u32))?;
            g.shr(eax, 24)?;
            g.imul_3(eax, eax, STACK_OF_MANY as i32)?;
            g.lea(esp, dword_ptr(eax + STACKS_OF_MANY))?;
            g.set_up_interrupts()
        };
        self.start_all(processors, set_up, body)
    }

    fn start_all(
        &mut self,
        processors: u32,
        set_up: impl FnOnce(&mut Self) -> Result,
        body: impl FnOnce(&mut Self) -> Result,
    ) -> Result {
        let (mut work, mut over) = (self.create_label(), self.create_label());
        self.jmp(over)?;

        let entry = self.here()?;
        self.set_start_up(entry);
        set_up(self)?;
        self.set_up_pmu()?;
        self.call(work)?;
        let stay = self.here()?;
        self.cli()?;
        self.hlt()?;
        self.jmp(stay)?;

        self.place(&mut work)?;
        self.processors = processors;
        self.mov(ebp, dword_ptr(LAPIC + LAPIC_ID as u32))?;
        self.shr(ebp, 24)?;
        body(self)?;
        self.lock().inc(dword_ptr(DONE))?;
        self.ret()?;

        self.place(&mut over)?;
        self.mov(esi, TRAMPOLINE)?;
        self.mov(edi, START_UP_PAGE << 12)?;
        self.mov(ecx, TRAMPOLINE_BYTES)?;
        self.rep().movsb()?;
        self.write_lapic(ICR, ALL_BUT_SELF | ASSERT | INIT)?;
        self.write_lapic(ICR, ALL_BUT_SELF | ASSERT | START_UP | START_UP_PAGE)?;
        self.call(work)?;
        self.wait_for(DONE)
    }

    /// Waits until every processor is here. Within [`Self::on_every_processor`].
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn barrier(&mut self) -> Result {
        assert!(self.barriers < BARRIERS_MAX, "too many barriers");
        let place = BARRIERS + 4 * self.barriers;
        self.barriers += 1;
        self.lock().inc(dword_ptr(place))?;
        self.wait_for(place)
    }

    /// [`Self::barrier`] that can be met at again and again: `place` is zero at the start, and every
    /// processor adds to EDI, zero at the start too. Within [`Self::on_every_processor`].
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn meet(&mut self, place: u32) -> Result {
        let processors = self.processors as i32;
        self.add(edi, processors)?;
        self.lock().inc(dword_ptr(place))?;
        let wait = self.here()?;
        self.cmp(dword_ptr(place), edi)?;
        self.jb(wait)
    }

    /// Does `body` on processor `n` alone. Within [`Self::on_every_processor`].
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn on_processor(&mut self, n: u32, body: impl FnOnce(&mut Self) -> Result) -> Result {
        let mut over = self.create_label();
        self.cmp(ebp, n as i32)?;
        self.jne(over)?;
        body(self)?;
        self.place(&mut over)
    }

    /// Leaves EDX:EAX at `place` plus eight times the number of the processor. Within
    /// [`Self::on_every_processor`].
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn leave(&mut self, place: u32) -> Result {
        self.mov(dword_ptr(ebp * 8 + place), eax)?;
        self.mov(dword_ptr(ebp * 8 + (place + 4)), edx)
    }

    /// Reports what [`Self::leave`] left at `place`, as `name` and the number of the processor.
    /// Changes EAX and EDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn report_left(&mut self, name: &str, place: u32) -> Result {
        (0..self.processors)
            .try_for_each(|n| self.report_quad(&format!("{name}{n}"), place + 8 * n))
    }

    /// Spins until the word at `place` has the number of the processors.
    fn wait_for(&mut self, place: u32) -> Result {
        let processors = self.processors as i32;
        let wait = self.here()?;
        self.cmp(dword_ptr(place), processors)?;
        self.jb(wait)
    }
}
