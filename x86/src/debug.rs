//! Breakpoints and single-stepping (AMD64 APM volume 2, "Software-Debug Resources").

use crate::{
    control_registers::cr4,
    cpu::{Cpu, Shadow, Watch},
    flags,
    observe::{Cx, Observer},
    stop::{Stop, vector},
    stops::OWNER,
};

/// DR6 bits that software can change: B0-B3, BD, BS, BT.
const DR6_WRITABLE: u64 = 0xe00f;
/// DR6 bits that read as ones.
const DR6_ONES: u64 = 0xffff_0ff0;
/// DR6.B0-B3: which breakpoints matched.
const MATCHES: u64 = 0xf;
/// DR6.BD: an access to a debug register while DR7.GD was set.
pub(crate) const DEBUG_ACCESS: u64 = 1 << 13;
/// DR6.BS.
const SINGLE_STEP: u64 = 1 << 14;
/// DR7 bits 11, 12, 14 and 15 read as zeros, bit 10 as one.
const DR7_ZEROS: u64 = 0xd800;
const DR7_ONES: u64 = 0x400;
/// In [`Cpu::slot`] after INT n, SYSCALL and the like that cleared TF: no single-step trap comes
/// after the instruction.
const STEP_LOST: u32 = 4;

/// What a breakpoint watches: the R/W field of DR7.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Condition {
    Fetch,
    Write,
    Port,
    ReadWrite,
}

impl Cpu {
    /// Whether DR7 enables breakpoint `n`, locally or globally.
    fn breakpoint_enabled(&self, n: usize) -> bool {
        self.dr[7] >> (2 * n) & 3 != 0
    }

    fn condition(&self, n: usize) -> Condition {
        match self.dr[7] >> (16 + 4 * n) & 3 {
            0 => Condition::Fetch,
            1 => Condition::Write,
            // Without debug extensions the encoding is undefined; it watches nothing in memory.
            2 => Condition::Port,
            _ => Condition::ReadWrite,
        }
    }

    /// First byte and length of the range that breakpoint `n` watches.
    fn watched_range(&self, n: usize) -> (u64, u64) {
        let bytes = match self.dr[7] >> (18 + 4 * n) & 3 {
            0 => 1,
            1 => 2,
            2 => 8,
            _ => 4,
        };
        (self.dr[n] & !(bytes - 1), bytes)
    }

    fn overlaps(&self, n: usize, address: u64, bytes: u64) -> bool {
        let (first, length) = self.watched_range(n);
        address.wrapping_sub(first) < length || first.wrapping_sub(address) < bytes.max(1)
    }

    /// Derives from DR0-DR3, DR7 and `count_all` which breakpoints are watched for.
    pub fn refresh_watch(&mut self) {
        let owner = self.watch.data & OWNER;
        let mut watch = Watch { count_all: self.watch.count_all, ..Watch::default() };
        for n in 0..4 {
            if self.breakpoint_enabled(n) || watch.count_all {
                match self.condition(n) {
                    Condition::Fetch => watch.code |= 1 << n,
                    _ => watch.data |= 1 << n,
                }
            }
        }
        if watch.data != 0 || self.watch.data & !OWNER != 0 {
            // Pages with a watched address must not be reached on the fast path.
            self.tlb.flush_all();
        }
        watch.data |= owner;
        self.watch = watch;
    }

    /// Whether matches are reported of breakpoints that DR7 does not enable, too.
    pub fn watch_disabled_breakpoints(&mut self, all: bool) {
        if self.watch.count_all != all {
            self.watch.count_all = all;
            self.refresh_watch();
        }
    }

    /// Looks for breakpoints on a data access; the trap comes after the instruction.
    pub(crate) fn data_match<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: u64,
        write: bool,
    ) {
        for n in 0..4 {
            let wanted = match self.condition(n) {
                Condition::Write => write,
                Condition::ReadWrite => true,
                Condition::Fetch | Condition::Port => false,
            };
            if wanted && self.watch.data & 1 << n != 0 && self.overlaps(n, linear, bytes) {
                self.hit(cx, n);
            }
        }
    }

    /// Looks for breakpoints on a port access.
    pub(crate) fn port_match<O: Observer>(&mut self, cx: &mut Cx<'_, O>, port: u16, bytes: u64) {
        if self.watch.data & !OWNER == 0 || self.cr4 & cr4::DE == 0 {
            return;
        }
        for n in 0..4 {
            if self.watch.data & 1 << n != 0
                && self.condition(n) == Condition::Port
                && self.overlaps(n, u64::from(port), bytes)
            {
                self.hit(cx, n);
            }
        }
    }

    fn hit<O: Observer>(&mut self, cx: &mut Cx<'_, O>, n: usize) {
        cx.observer.debug_match(n);
        if self.breakpoint_enabled(n) {
            self.debug_hits |= 1 << n;
        }
    }

    /// Looks for breakpoints on the instruction at `linear`, before it executes. RF holds the
    /// fault back, and what has matched before is not reported again.
    pub(crate) fn code_match<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
    ) -> Option<Stop> {
        if self.system_flags & flags::RF != 0 {
            return None;
        }
        let mut hits = 0;
        for n in 0..4 {
            if self.watch.code & 1 << n != 0 && self.dr[n] == linear {
                cx.observer.debug_match(n);
                if self.breakpoint_enabled(n) {
                    hits |= 1 << n;
                }
            }
        }
        if hits == 0 {
            return None;
        }
        // With what MOV SS has held back.
        let held_back = std::mem::take(&mut self.debug_hits);
        self.set_debug_status(hits | held_back);
        Some(Stop::fault(vector::DB))
    }

    /// Enters in DR6 why #DB is raised. What matched at an earlier one is cleared by a breakpoint and
    /// by an access to a debug register; all else stays until software clears it.
    pub(crate) fn set_debug_status(&mut self, status: u64) {
        if status & (MATCHES | DEBUG_ACCESS) != 0 {
            self.dr[6] &= !MATCHES;
        }
        self.dr[6] |= status;
    }

    /// After an instruction has retired: the debug trap that data breakpoints or TF (`stepping`:
    /// TF when the instruction began) ask for. MOV SS and POP SS hold it back.
    pub(crate) fn debug_trap(&mut self, stepping: bool) -> Option<Stop> {
        let step = stepping && self.slot != STEP_LOST;
        if self.slot == STEP_LOST {
            self.slot = 2;
        }
        if self.shadow == Shadow::MovSs {
            return None;
        }
        let hits = std::mem::take(&mut self.debug_hits);
        if hits == 0 && !step {
            return None;
        }
        self.set_debug_status(hits | if step { SINGLE_STEP } else { 0 });
        Some(Stop::fault(vector::DB))
    }

    /// The running instruction clears TF on its way into a handler: no trap follows it.
    pub(crate) fn lose_step(&mut self) {
        self.slot = STEP_LOST;
    }

    /// The single-step trap comes right after the running instruction, which has set TF itself, as
    /// SYSRET can (APM volume 2, section 13.1.4).
    pub(crate) fn step_follows(&mut self) {
        self.debug_hits |= SINGLE_STEP;
    }

    /// Writes a debug register; DR4 and DR5 are DR6 and DR7 here already.
    pub(crate) fn set_debug_register(&mut self, n: usize, value: u64) {
        self.dr[n & 7] = match n & 7 {
            6 => status_as_held(value),
            7 => control_as_held(value),
            _ => value,
        };
        self.refresh_watch();
    }
}

/// DR6 as it holds a value.
pub(crate) const fn status_as_held(value: u64) -> u64 {
    value & DR6_WRITABLE | DR6_ONES
}

/// DR7 as it holds a value.
pub(crate) const fn control_as_held(value: u64) -> u64 {
    value & 0xffff_ffff & !DR7_ZEROS | DR7_ONES
}
