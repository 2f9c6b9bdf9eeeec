//! The kernel's own symbols, found in its memory, against those that it prints.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use vm_memory::GuestAddress;
use vpmu::boot::initramfs::Archive;
use vpmu::boot::memory::RamLayout;
use vpmu::boot::{Image, Kernel, LinuxEntry, Payload};
use vpmu::config::{Config, Limits};
use vpmu::console::Captured;
use vpmu::machine::{End, Machine};
use vpmu::symbols::{GuestMemory, kallsyms};

use crate::guest::{BRIEF, packages};
use crate::harness::{Verdict, tests};

tests!(the_kernels_symbols_are_those_that_it_prints);

/// Prints the symbols of code, without those of modules.
const INIT: &str = "\
echo 0 >/proc/sys/kernel/kptr_restrict
echo symbols:
grep ' [tTwW] ' /proc/kallsyms | grep -v '\\['
echo end
poweroff -f";

/// Boots a kernel: the lines that it prints from `symbols:` up to `end`, and those made of what is found in its
/// memory.
fn printed_and_found(kernel: &Path, root: &Archive, append: &str) -> [Vec<String>; 2] {
    let ram = RamLayout::new(512 << 20, None).expect("RAM");
    let initrd = Image { name: "initrd".into(), bytes: root.bytes().expect("an archive") };
    let payload = Payload::Kernel(Kernel {
        image: Image::read_kernel(kernel, &ram).expect("a kernel"),
        modules: vec![initrd.into()],
        command_line: format!("{BRIEF} quiet {append}"),
        entry: LinuxEntry::Auto,
    });
    let regions = ram.regions();
    let config = Config::new("k8", ram, payload).expect("a machine");
    let mut machine = Machine::new(&config).expect("a machine");
    let captured = Captured::default();
    let limits = Limits { timeout: Some(Duration::from_secs(400)), instructions: None };
    let end = machine.run(limits, &mut captured.console()).expect("a run");
    let log = captured.text();
    assert_eq!(end, End::PowerOff, "{log}");
    let (_, printed) = log.split_once("symbols:\n").expect("the list");
    let (printed, _) = printed.rsplit_once("end\n").expect("all of the list");
    let printed = printed.lines().map(str::to_owned).collect();

    let range = |(start, size): (GuestAddress, usize)| start.0..start.0 + size as u64;
    let ranges: Vec<Range<u64>> = regions.into_iter().map(range).collect();
    let read = |address: u64, out: &mut [u8]| machine.read_physical(address, out);
    let tables = kallsyms::find(&GuestMemory { ranges: &ranges, read: &read });
    assert_eq!(tables.len(), 1, "tables");
    let rows = tables[0].iter().filter(|row| b"tTwW".contains(&row.kind));
    let line =
        |row: &kallsyms::Row| format!("{:016x} {} {}", row.address, char::from(row.kind), row.name);
    [printed, rows.map(line).collect()]
}

/// Line for line, where the kernel is linked to and where it moved itself.
fn the_kernels_symbols_are_those_that_it_prints() -> Verdict {
    let packages = packages()?;
    let root = packages.root(INIT);
    let mut beginnings = Vec::new();
    for append in ["nokaslr", ""] {
        let [printed, found] = printed_and_found(&packages.kernel, &root, append);
        assert!(printed.len() > 10_000, "{} symbols", printed.len());
        for (printed, found) in printed.iter().zip(&found) {
            assert_eq!(printed, found);
        }
        assert_eq!(printed.len(), found.len());
        let text = found.iter().find(|line| line.ends_with(" _text")).expect("a beginning");
        beginnings.push(text[..16].to_owned());
    }
    // Linux, Documentation/arch/x86/x86_64/mm.rst: the kernel's text is mapped there.
    assert_eq!(beginnings[0], "ffffffff81000000");
    assert_ne!(beginnings[1], beginnings[0]);
    Ok(())
}
