//! `perf record` in the guest, beside a trace of the same run.
//!
//! The machine runs in this process, a few instructions at a time, so that the test sees after how
//! many instructions of the program each interrupt and each exception came. From that alone follows
//! where every sample has to be: 26094, section 10.2, lets C0h count instructions, exceptions and
//! interrupts; the interrupt of the counter comes before the next instruction; the perf driver loads
//! the counter anew with the period, less what was counted since the overflow.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use vpmu::boot::{Image, Kernel, LinuxEntry, Payload};
use vpmu::config::{self, Config, Limits};
use vpmu::console::Console;
use vpmu::input::Script;
use vpmu::machine::{End, Machine};

use crate::guest::{Packages, packages};
use crate::program::{BASE, INSTRUCTIONS, Layout, elf};

/// The kernel would throttle a period of much less than this.
const PERIOD: u64 = 100_003;
/// Instructions at a time. No handler of the kernel is that short, so a stretch in which something
/// came between the program's instructions ends in the kernel.
const STRETCH: u64 = 64;
const COARSE: u64 = 50_000;
const INIT: &str = "\
echo trace-begins
perf record -q -e instructions:u -c 100003 -o /tmp/perf.data static
echo samples-begin
perf script -i /tmp/perf.data -F period,ip
echo samples-end
poweroff -f";

/// Console output that the test can look at meanwhile.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.borrow()).replace('\r', "")
    }
}

/// The machine in short stretches.
struct Stepper {
    machine: Machine,
    console: Console,
    output: Shared,
}

impl Stepper {
    fn new(packages: &Packages, initrd: Vec<u8>) -> Self {
        let (personality, platform) = config::personality("k8").expect("k8");
        let output = Shared::default();
        let config = Config {
            personality,
            platform,
            cpus: 1,
            ram: config::memory("512M").expect("memory"),
            payload: Payload::Kernel(Kernel {
                image: Image::read(&packages.kernel).expect("kernel"),
                modules: vec![Image { name: "initrd".into(), bytes: initrd }],
                command_line: "console=ttyS0".into(),
                entry: LinuxEntry::Auto,
            }),
            clock_hz: platform.clock_hz,
            start_time: 0,
            skid: 0,
            script: Script::default(),
            limits: Limits::default(),
        };
        Self {
            machine: Machine::new(&config).expect("a machine"),
            console: Console::to("memory".into(), Box::new(output.clone())),
            output,
        }
    }

    /// Runs `count` instructions; whether the guest goes on.
    fn run(&mut self, count: u64) -> bool {
        let limit = Some(self.machine.retired() + count);
        let limits = Limits { timeout: None, instructions: limit };
        match self.machine.run(limits, &mut self.console).expect("memory takes it") {
            End::Instructions => true,
            End::PowerOff => false,
            other => panic!("{other:?}\n{}", self.output.text()),
        }
    }

    fn run_to_line(&mut self, line: &str) {
        while !self.output.text().lines().any(|l| l == line) {
            assert!(self.run(COARSE * 100), "no {line} in\n{}", self.output.text());
        }
    }

    /// How many instructions of the program have been executed, if it is running now.
    fn executed(&self, layout: &Layout) -> Option<u64> {
        const RCX: u8 = 1;
        let cpu = &self.machine.vcpus()[0].cpu;
        if cpu.cpl() != 3 || !(BASE..BASE + 0x1000).contains(&cpu.rip) {
            return None;
        }
        layout.executed(cpu.rip, cpu.gpr(RCX) as u32)
    }

    /// Follows the program from its first instructions to its last: after how many of its
    /// instructions each exception and interrupt came.
    fn trace(&mut self, layout: &Layout) -> Vec<u64> {
        let mut executed = loop {
            assert!(self.run(STRETCH), "the program did not run");
            if let Some(executed) = self.executed(layout) {
                break executed;
            }
        };
        // Before that came the page fault of the first instruction.
        assert!(executed <= STRETCH);
        let mut events = vec![0];
        loop {
            // Up to the SYSCALL.
            let stretch = STRETCH.min(INSTRUCTIONS - 1 - executed);
            if stretch == 0 {
                return events;
            }
            assert!(self.run(stretch), "the program did not end");
            if self.executed(layout) == Some(executed + stretch) {
                executed += stretch;
                continue;
            }
            // It comes back to the instruction before which it was interrupted, and may at once be
            // interrupted again.
            loop {
                while self.executed(layout).is_none() {
                    assert!(self.run(1), "the program did not go on");
                }
                executed = self.executed(layout).expect("checked");
                events.push(executed);
                if executed == INSTRUCTIONS - 1 {
                    return events;
                }
                assert!(self.run(1), "the program did not end");
                if let Some(next) = self.executed(layout) {
                    assert_eq!(next, executed + 1);
                    executed = next;
                    break;
                }
            }
        }
    }
}

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

#[test]
fn perf_record_samples_where_a_trace_predicts() {
    let Some(packages) = packages("perf record") else { return };
    let mut root = packages.root(INIT);
    packages.add_perf(&mut root);
    root.file("/bin/static", 0o755, elf());
    let layout = Layout::new();
    let mut guest = Stepper::new(packages, root.bytes().expect("an archive"));
    guest.run_to_line("trace-begins");
    let events = guest.trace(&layout);
    while guest.run(COARSE * 100) {}

    let log = guest.output.text();
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
}
