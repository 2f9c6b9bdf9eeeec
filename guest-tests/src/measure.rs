//! Counting what a stretch of code does.

use iced_x86::code_asm::{eax, ecx, edx};

use crate::msr::{EN, PERF_CTR, PERF_EVT_SEL};
use crate::{Guest, Result};

/// Instructions of [`Guest::stop`]: MOV, XOR, XOR, WRMSR. Each counts, since the counter is enabled
/// when it begins.
pub const DISABLING: u64 = 4;

impl Guest {
    /// Sets PerfCtr`n` to `preset` and enables it with `select`. Changes RAX, RCX and RDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded; so for all methods here.
    pub fn start(&mut self, n: u32, select: u64, preset: u64) -> Result {
        self.write_msr(PERF_CTR + n, preset)?;
        self.write_msr(PERF_EVT_SEL + n, select | EN)
    }

    /// Disables PerfCtr`n`. Changes RAX, RCX and RDX.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn stop(&mut self, n: u32) -> Result {
        self.mov(ecx, PERF_EVT_SEL + n)?;
        self.xor(eax, eax)?;
        self.xor(edx, edx)?;
        self.wrmsr()
    }

    /// Reports as `name` what counter 0 counts with `select` while `body` runs, [`Self::stop`]
    /// included.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn count(
        &mut self,
        name: &str,
        select: u64,
        body: impl FnOnce(&mut Self) -> Result,
    ) -> Result {
        self.start(0, select, 0)?;
        body(self)?;
        self.stop(0)?;
        self.read_msr(PERF_CTR)?;
        self.report(name)
    }

    /// [`Self::count`] of the same `body` for each of `selects`.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn count_each(
        &mut self,
        selects: &[(&str, u64)],
        body: impl Fn(&mut Self) -> Result,
    ) -> Result {
        selects.iter().try_for_each(|&(name, select)| self.count(name, select, &body))
    }
}
