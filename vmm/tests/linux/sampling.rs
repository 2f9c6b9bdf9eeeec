//! `perf record` in the guest, beside a trace of the same run.
//!
//! From the trace alone follows where every sample has to be: K8 BIOS and Kernel Developer's Guide
//! (26094), section 10.2, lets C0h count instructions, exceptions and interrupts; the interrupt of
//! the counter comes before the next instruction; the perf driver loads the counter anew with the
//! period, less what was counted since the overflow.

use crate::guest::packages;
use crate::harness::{Verdict, tests};
use crate::program::{INSTRUCTIONS, Layout, elf};
use crate::trace::Stepper;

tests!(perf_record_samples_where_a_trace_predicts);

/// The kernel would throttle a period of much less than this.
const PERIOD: u64 = 100_003;
const INIT: &str = "\
echo trace-begins
perf record -q -e instructions:u -c 100003 -o /tmp/perf.data static
echo samples-begin
perf script -i /tmp/perf.data -F period,ip
echo samples-end
poweroff -f";

/// After how many instructions of the program each sample has to be.
fn predict(events: &[u64]) -> Vec<u64> {
    let mut samples = Vec::new();
    let mut overflow = PERIOD;
    // Event n (from 0) comes after `position` instructions, as count `position + n + 1`.
    for (n, &position) in (0u64..).zip(events) {
        let count = position + n + 1;
        assert_ne!(count, overflow, "an interrupt overflows: choose another length of the program");
        // The instructions up to this event have overflowed the counter, so it is the NMI.
        if position + n == overflow {
            samples.push(position);
            overflow += PERIOD;
        }
    }
    samples
}

fn perf_record_samples_where_a_trace_predicts() -> Verdict {
    let packages = packages()?;
    let mut root = packages.root(INIT);
    packages.add_perf(&mut root);
    root.file("/bin/static", 0o755, elf());
    let layout = Layout::new();
    let mut guest = Stepper::new(packages, root.bytes().expect("an archive"));
    guest.run_to_line("trace-begins");
    let events = guest.trace(&layout);
    let log = guest.finish();
    let samples = log
        .lines()
        .skip_while(|line| *line != "samples-begin")
        .skip(1)
        .take_while(|line| *line != "samples-end")
        // The kernel may have a line of its own there.
        .filter(|line| !line.starts_with('['))
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            assert_eq!(words[0], "100003", "{line}");
            u64::from_str_radix(words[1], 16).expect("an address")
        });
    let samples: Vec<_> = samples.collect();
    let predicted: Vec<_> = predict(&events).into_iter().map(|n| layout.address(n)).collect();
    let count = INSTRUCTIONS + events.len() as u64;
    assert_eq!(samples.len() as u64, count / PERIOD, "{log}");
    assert_eq!(samples, predicted);
    Ok(())
}
