//! Names of the places in a dump.

use std::ops::Range;

use crate::boot::Payload;
use crate::config::Config;
use crate::engine::soft::Vcpu;
use crate::machine::Machine;
use crate::symbols::{self, GuestMemory, SymbolFile};
use crate::truth::Symbol;
use crate::truth::functions::printable;

/// How much memory is searched for the kernel's own names, before and behind a place in its code: three
/// times what a distribution's kernel takes. A dump is not to take long, whatever the guest has.
const BEFORE: u64 = 32 << 20;
const BEHIND: u64 = 64 << 20;

/// The parts of the kernel's table are aligned in a range that begins with a page.
const PAGE: u64 = 4096;

/// Names of supervisor code.
#[derive(Default)]
pub(super) struct Names {
    /// By address.
    symbols: Vec<Symbol>,
}

impl Names {
    /// The names that are known: of the user's files, of the payload's file if it is an ELF file, and those
    /// that a kernel has in memory.
    pub(super) fn new(machine: &Machine, config: &Config, files: &[SymbolFile]) -> Self {
        let mut symbols: Vec<_> = files.iter().flat_map(symbols::of_file).collect();
        if let Payload::Kernel(kernel) = &config.payload {
            symbols.extend(symbols::of_image(&kernel.image));
        }
        let own = machine.vcpus().iter().find_map(|vcpu| kernel_code(machine, vcpu));
        if let Some(physical) = own.filter(|_| symbols.is_empty()) {
            let page = physical & !(PAGE - 1);
            let window = page.saturating_sub(BEFORE)..page.saturating_add(BEHIND);
            let ranges = config.ram.ranges();
            let within = ranges.iter().map(|range| intersection(range, &window));
            let ranges: Vec<_> = within.filter(|range| !range.is_empty()).collect();
            let read = |address: u64, bytes: &mut [u8]| machine.read_physical(address, bytes);
            symbols = symbols::of_kernel(&GuestMemory { ranges: &ranges, read: &read });
        }
        // Of several names the first is the best.
        symbols.sort_by_key(|symbol| symbol.address);
        Self { symbols }
    }

    /// The symbol that an address is in, and how far.
    pub(super) fn at(&self, address: u64) -> Option<String> {
        let behind = self.symbols.partition_point(|symbol| symbol.address <= address);
        let start = self.symbols[..behind].last()?.address;
        let first = self.symbols.partition_point(|symbol| symbol.address < start);
        let symbol = &self.symbols[first];
        let offset = address - start;
        let name = printable(&symbol.name);
        match offset {
            0 => Some(name),
            _ if offset < symbol.size => Some(format!("{name}+{offset:#x}")),
            _ => None,
        }
    }
}

fn intersection(a: &Range<u64>, b: &Range<u64>) -> Range<u64> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// Where code of a kernel with paging is in memory: at CS:RIP, or at the entry of system calls.
fn kernel_code(machine: &Machine, vcpu: &Vcpu) -> Option<u64> {
    const PG: u64 = 1 << 31;
    let cpu = &vcpu.cpu;
    if cpu.cr0() & PG == 0 {
        return None;
    }
    let linear = match cpu.cpl() {
        0 => cpu.linear_rip(),
        _ if cpu.msrs.lstar != 0 => cpu.msrs.lstar,
        _ if cpu.msrs.sysenter_eip != 0 => cpu.msrs.sysenter_eip,
        _ => cpu.idtr.base,
    };
    Some(cpu.look_up(machine.memory.ram(), linear)?.physical)
}
