//! Linux and its `knc` driver on the four threads of a Knights Corner core, and on those of four cores.
//!
//! The driver's events count no exceptions and interrupts beside instructions. It programs the second counter's
//! event select at 2Ah, where nothing is, instead of 29h (arch/x86/events/intel/knc.c adds the counter's number
//! to an address that has it already), so that the second of two events counts nothing.

use serde_json::Value;

use crate::boot::complaint;
use crate::guest::{BRIEF, packages, run_with};
use crate::harness::{Verdict, tests};
use crate::program::{INSTRUCTIONS, elf};

tests!(perf_counts_and_samples_on_each_thread, perf_counts_all_of_four_cores);

const THREADS: u64 = 4;
const PERIOD: u64 = 100_003;
/// What the kernel's watchdog counts would take the first counter. Each thread would measure the length of its delay
/// loop: two cycles a turn, at 1.1 GHz and 250 ticks a second.
const APPEND: &str = "nmi_watchdog=0 lpj=2200000";
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
    let append = format!("{BRIEF} {APPEND}");
    let options = ["--cpu", "knc", "--isa", "distro", "--append", &append];
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

/// Threads of four cores.
const ALL: u64 = 16;
/// EVNTSEL of event 16h: INT, bit 20; OS, 17, and USR, 16. Intel 327357, section 1.4.3.3. The statistics have it
/// without EN, bit 22.
const INSTRUCTIONS_EVERYWHERE: u64 = 0x13_0016;
const INSTRUCTIONS_OF_USERS: u64 = 0x11_0016;
/// What is counted apart from the program on each thread: taskset, the shell, and perf's own end of the work.
const OTHER_INSTRUCTIONS: u64 = 3_000_000;
const INIT_OF_ALL: &str = "\
echo threads-$(nproc)
perf stat -a -A -x , -e instructions sleep 0.01
perf stat -a -x , -e instructions:u sh -c \
'for n in $(seq 0 $(($(nproc) - 1))); do taskset -c $n static & done; wait'
poweroff -f";

/// What perf says of each thread and of all together is what the counters have counted.
fn perf_counts_all_of_four_cores() -> Verdict {
    let packages = packages()?;
    let mut root = packages.root(INIT_OF_ALL);
    packages.add_perf(&mut root);
    root.file("/bin/static", 0o755, elf());
    let append = format!("{BRIEF} {APPEND}");
    let options = ["--cpu", "knc", "--isa", "distro", "--append", &append];
    let run = run_with(packages, "knights-corner-16", ALL as u8, &root, "", &options);
    let lines: Vec<_> = run.log.lines().collect();
    assert!(lines.contains(&format!("threads-{ALL}").as_str()), "{}", run.log);
    let complaints: Vec<_> = lines.iter().filter(|line| complaint(line)).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");

    let stats: Value = serde_json::from_str(&run.stats).expect("JSON");
    // By thread, the count of a select of counter 0, and what the thread has executed.
    let counted = |select: u64| -> Vec<(u64, u64)> {
        let vcpus = stats["vcpus"].as_array().expect("a list").iter();
        vcpus
            .map(|vcpu| {
                let selections = vcpu["counters"][0]["selections"].as_array().expect("a list");
                let of = |selection: &&Value| selection["select"] == select;
                let selection = selections.iter().find(of).expect("a count of each thread");
                let number = |of: &Value| of.as_u64().expect("a number");
                (number(&selection["count"]), number(&vcpu["instructions"]))
            })
            .collect()
    };
    let printed = |begin: &str, event: &str| -> Option<u64> {
        let fields = lines.iter().map(|line| line.split(',').collect::<Vec<_>>());
        let mut rows = fields.filter(|row| {
            row.contains(&event) && (begin.is_empty() || row.first() == Some(&begin))
        });
        let row = rows.next()?;
        row[usize::from(!begin.is_empty())].parse().ok()
    };

    let everywhere = counted(INSTRUCTIONS_EVERYWHERE);
    assert_eq!(everywhere.len() as u64, ALL);
    for (n, (count, executed)) in everywhere.into_iter().enumerate() {
        assert_eq!(printed(&format!("CPU{n}"), "instructions"), Some(count), "thread {n}");
        assert!((1..executed).contains(&count), "{count} of {executed} on thread {n}");
    }
    let of_users = counted(INSTRUCTIONS_OF_USERS);
    let sum = of_users.iter().map(|(count, _)| count).sum();
    assert_eq!(printed("", "instructions:u"), Some(sum));
    for (n, (count, _)) in of_users.into_iter().enumerate() {
        let expected = INSTRUCTIONS..INSTRUCTIONS + OTHER_INSTRUCTIONS;
        assert!(expected.contains(&count), "{count} on thread {n}");
    }
    Ok(())
}
