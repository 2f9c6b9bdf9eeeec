//! What the boot ROM is told: how the payload begins, and what the self-test expects.

use firmware::{Handover, Mode, PmuRegister, Segments, Table, map};
use pmu_model::{Access, Personality};

use super::entry::{self, Entry, TableRegister};
use super::error::{BootError, Result};
use super::memory::GuestRam;
use crate::config::Config;

/// `EFER.LMA`: set by the processor.
const EFER_LMA: u64 = 1 << 10;

/// Writes the handover block for a payload that begins as `entry` says. The ROM sets `msrs`, index
/// and value, on every processor.
///
/// # Errors
/// If there is more to tell than the block has room for.
pub fn write(
    memory: &GuestRam,
    config: &Config,
    entry: &Entry,
    msrs: Vec<(u32, u64)>,
) -> Result<()> {
    let title = format!("{}, {}", config.platform.name, config.platform.description);
    let bytes = handover(config, entry, msrs, &title).bytes();
    if bytes.len() as u64 > map::HANDOVER_SIZE {
        return Err(BootError::DoesNotFit {
            what: "handover block".into(),
            size: bytes.len() as u64,
            place: format!("its {} bytes", map::HANDOVER_SIZE),
        });
    }
    entry::write(memory, map::HANDOVER, &bytes, "handover block")
}

fn handover<'a>(
    config: &Config,
    entry: &Entry,
    msrs: Vec<(u32, u64)>,
    title: &'a str,
) -> Handover<'a> {
    let table = |from: TableRegister| Table { base: from.base, limit: from.limit };
    Handover {
        title,
        processors: config.cpus.into(),
        registers: registers(config.personality),
        msrs,
        mode: match entry.mode {
            entry::Mode::Real => Mode::Real,
            entry::Mode::Protected32 => Mode::Protected,
            entry::Mode::Long => Mode::Long,
        },
        rip: entry.rip,
        gpr: entry.gpr,
        segments: Segments {
            cs: entry.cs.selector,
            data: entry.data.selector,
            ss: entry.ss.selector,
            tr: entry.tr.selector,
        },
        gdtr: table(entry.gdtr),
        idtr: table(entry.idtr),
        // The upper halves are zero: page tables are low, and CR0, CR4 and EFER have no such bits.
        cr0: entry.cr0 as u32,
        cr3: entry.cr3 as u32,
        cr4: entry.cr4 as u32,
        efer: (entry.efer & !EFER_LMA) as u32,
    }
}

/// What the registers of a PMU read as after power-up.
fn registers(personality: &'static Personality) -> Vec<PmuRegister<'static>> {
    let rows = personality.registers.iter();
    rows.map(|register| PmuRegister {
        index: register.msr,
        name: register.name,
        reset: (register.access != Access::WriteOnly).then_some(register.reset),
    })
    .collect()
}
