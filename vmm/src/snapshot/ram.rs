//! The pages of RAM of a snapshot.

use std::io::{self, Read, Write};
use std::sync::Arc;

use x86_cpu::ram::PAGE;

use crate::memory::Memory;

const BYTES: usize = PAGE as usize;

/// Pages that are not all zeroes: runs of them, each with the guest-physical address of its first page and the
/// contents.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Pages(Arc<[Run]>);

#[derive(Clone, PartialEq, Eq)]
struct Run {
    address: u64,
    bytes: Vec<u8>,
}

/// The longest run, in bytes, so that none is moved about while it grows.
const LONGEST: usize = 1 << 20;

impl Pages {
    /// Those of a machine's RAM.
    pub(crate) fn of(memory: &Memory) -> Self {
        let mut runs: Vec<Run> = Vec::new();
        let mut page = [0; BYTES];
        for address in memory.ram_pages() {
            let Some(host) = memory.ram().page(address) else { continue };
            host.read_slice(0, &mut page);
            if page == [0; BYTES] {
                continue;
            }
            match runs.last_mut() {
                Some(run)
                    if run.address + run.bytes.len() as u64 == address
                        && run.bytes.len() < LONGEST =>
                {
                    run.bytes.extend_from_slice(&page);
                }
                _ => runs.push(Run { address, bytes: page.to_vec() }),
            }
        }
        Self(runs.into())
    }

    /// Makes RAM, which is all zeroes, what it was.
    ///
    /// # Errors
    /// If it is not all in RAM.
    pub(crate) fn restore(&self, memory: &Memory) -> Result<(), String> {
        for Run { address, bytes } in &*self.0 {
            for (page, contents) in (*address..).step_by(BYTES).zip(bytes.chunks_exact(BYTES)) {
                let host = memory.ram().page(page).filter(|_| !memory.ram().is_rom(page));
                let host =
                    host.ok_or_else(|| format!("a page at {page:#x}, where there is no RAM"))?;
                host.write_slice(0, contents);
            }
        }
        Ok(())
    }

    /// Writes them: each run's address and number of pages, in 64 bits each, and its pages; then a run of no pages.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for Run { address, bytes } in &*self.0 {
            out.write_all(&address.to_le_bytes())?;
            out.write_all(&((bytes.len() / BYTES) as u64).to_le_bytes())?;
            out.write_all(bytes)?;
        }
        out.write_all(&[0; 16])
    }

    /// Reads what [`Self::write`] has written.
    pub(super) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut runs = Vec::new();
        loop {
            let [mut address, mut pages] = [[0; 8]; 2];
            input.read_exact(&mut address)?;
            input.read_exact(&mut pages)?;
            let (address, pages) = (u64::from_le_bytes(address), u64::from_le_bytes(pages));
            if pages == 0 {
                return Ok(Self(runs.into()));
            }
            if address % PAGE != 0 || pages > (LONGEST / BYTES) as u64 {
                return Err(io::Error::other("a run of pages that is too long or not at a page"));
            }
            let mut bytes = vec![0; pages as usize * BYTES];
            input.read_exact(&mut bytes)?;
            runs.push(Run { address, bytes });
        }
    }
}
