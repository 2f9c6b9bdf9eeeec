//! Code at addresses of choice, called from a program that counts.

use guest_tests::msr::{OS, USR};
use guest_tests::part::Event;
use guest_tests::{Guest, Part};
use iced_x86::code_asm::{CodeAssembler, edi, esi};
use vpmu::program::Image;

use crate::Result;
use crate::machine::{Options, run};

/// Where routines are: a multiple of the span of every cache and of every branch target buffer.
pub(crate) const BASE: u32 = 0x100_0000;

/// Room for routines, and what the machine has of memory with it.
const ROOM: u32 = 0x40_0000;

/// A routine. It finds in ESI how many rounds to go, which it counts down to zero, and returns; it may
/// change all registers but ESP.
#[derive(Debug, Default)]
pub(crate) struct Routine {
    /// Pieces of code and data, by their addresses.
    pub(crate) pieces: Vec<(u32, Vec<u8>)>,
    /// Where it begins.
    pub(crate) entry: u32,
}

impl Routine {
    /// Assembles a piece at an address, and returns where the next byte is.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub(crate) fn assemble(
        &mut self,
        address: u32,
        code: impl FnOnce(&mut CodeAssembler) -> guest_tests::Result,
    ) -> Result<u32> {
        let mut assembler = CodeAssembler::new(32)?;
        code(&mut assembler)?;
        let bytes = assembler.assemble(address.into())?;
        let end = address + bytes.len() as u32;
        self.pieces.push((address, bytes));
        Ok(end)
    }

    /// How often `event` occurs in each of so many rounds, behind `before` rounds that are not counted. The
    /// call of the routine, the return from it and the end of its loop are counted too.
    ///
    /// # Errors
    /// If the program does not run.
    pub(crate) fn count(
        &self,
        part: &'static Part,
        event: Event,
        before: u32,
        rounds: &[u32],
    ) -> Result<Vec<u64>> {
        let n = event.counter;
        let mut image = Guest::assemble(part, |g| {
            for (case, &rounds) in rounds.iter().enumerate() {
                for (rounds, counted) in [(before, false), (rounds, true)] {
                    g.start(n, event, OS | USR, 0)?;
                    g.mov(edi, self.entry)?;
                    g.mov(esi, rounds)?;
                    g.call(edi)?;
                    g.stop(n)?;
                    if counted {
                        g.read_msr(g.part.perfctr(n))?;
                        g.report(&format!("case {case}"))?;
                    }
                }
            }
            Ok(())
        })?;
        for (address, bytes) in &self.pieces {
            put(&mut image, *address, bytes);
        }
        let memory = u64::from(BASE + ROOM);
        let outcome = run(part, image, Options { memory, ..Options::default() })?;
        (0..rounds.len()).map(|case| outcome.value(&format!("case {case}"))).collect()
    }
}

/// Writes to guest-physical memory before the program begins.
pub(crate) fn put(image: &mut Image, address: u32, bytes: &[u8]) {
    let start = (u64::from(address) - image.load_address) as usize;
    let end = start + bytes.len();
    if image.bytes.len() < end {
        image.bytes.resize(end, 0);
    }
    image.bytes[start..end].copy_from_slice(bytes);
}
