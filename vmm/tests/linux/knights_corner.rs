//! Linux and its `knc` driver on the four threads of a Knights Corner core.
//!
//! The driver's events count no exceptions and interrupts beside instructions. It programs the second counter's
//! event select at 2Ah, where nothing is, instead of 29h (arch/x86/events/intel/knc.c adds the counter's number
//! to an address that has it already), so that the second of two events counts nothing.

use crate::boot::complaint;
use crate::guest::{packages, run_with};
use crate::harness::{Verdict, tests};
use crate::program::{INSTRUCTIONS, elf};

tests!(perf_counts_and_samples_on_each_thread);

const THREADS: u64 = 4;
const PERIOD: u64 = 100_003;
/// What the kernel's watchdog counts would take the first counter. Each thread would measure the length of its delay
/// loop: two cycles a turn, at 1.1 GHz and 250 ticks a second.
const APPEND: &str = "console=ttyS0 nmi_watchdog=0 lpj=2200000";
const INIT: &str = "\
echo threads-$(nproc)
for n in $(seq 0 $(($(nproc) - 1))); do taskset -c $n perf stat -x , -e instructions:u static; done
perf stat -x , -e instructions:u,branches:u static
perf record -q -a -e instructions:u -c 100003 -o /tmp/perf.data sh -c \
'for n in $(seq 0 $(($(nproc) - 1))); do taskset -c $n static & done; wait'
echo samples-begin
perf script -i /tmp/perf.data -F comm,cpu | grep static | sort | uniq -c
echo samples-end
poweroff -f";

fn perf_counts_and_samples_on_each_thread() -> Verdict {
    let packages = packages()?;
    let mut root = packages.root(INIT);
    packages.add_perf(&mut root);
    root.file("/bin/static", 0o755, elf());
    let options = ["--cpu", "knc", "--isa", "distro", "--append", APPEND];
    let log = run_with(packages, "knights-corner", THREADS as u8, &root, "", &options).log;
    let lines: Vec<_> = log.lines().collect();
    assert!(log.contains("Performance Events: knc PMU driver."), "{log}");
    assert!(lines.contains(&format!("threads-{THREADS}").as_str()), "{log}");
    let complaints: Vec<_> = lines.iter().filter(|line| complaint(line)).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");

    let counts = |event: &str| -> Vec<u64> {
        let rows = lines.iter().filter(|line| line.split(',').nth(2) == Some(event));
        rows.map(|row| row.split(',').next().unwrap_or_default().parse().expect(row)).collect()
    };
    // On each thread, and once more beside another event.
    assert_eq!(counts("instructions:u"), [INSTRUCTIONS; THREADS as usize + 1]);
    assert_eq!(counts("branches:u"), [0]);

    let samples = lines.iter().skip_while(|line| **line != "samples-begin").skip(1);
    let samples = samples.take_while(|line| **line != "samples-end");
    let samples: Vec<Vec<&str>> = samples
        .filter(|line| !line.starts_with('['))
        .map(|line| line.split_whitespace().collect())
        .collect();
    // What a thread had counted before the program began decides whether there is one more.
    let least = INSTRUCTIONS / PERIOD;
    assert_eq!(samples.len(), THREADS as usize, "{log}");
    for (n, sample) in samples.iter().enumerate() {
        let [count, "static", cpu] = sample[..] else { panic!("{sample:?}") };
        assert_eq!(cpu, format!("[{n:03}]"));
        let count: u64 = count.parse().expect("a number");
        assert!((least..=least + 1).contains(&count), "{count} samples on thread {n}");
    }
    Ok(())
}
