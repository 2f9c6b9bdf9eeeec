//! The machine in this process, a few instructions at a time, so that a test sees after how many
//! instructions of the program each interrupt and each exception came, whatever any counter says.

use vpmu::boot::{Image, Kernel, LinuxEntry, Payload};
use vpmu::config::{self, Config};
use vpmu::console::{Captured, Console};
use vpmu::machine::{End, Machine};
use vpmu::stop::Stop;

use crate::guest::{BRIEF, Packages};
use crate::program::{BASE, INSTRUCTIONS, Layout};

/// Instructions at a time. No handler of the kernel is that short, so a stretch in which something
/// came between the program's instructions ends in the kernel.
const STRETCH: u64 = 64;
/// Instructions at a time where nothing is to be seen.
const COARSE: u64 = 500_000;

/// The machine in short stretches.
pub(crate) struct Stepper {
    machine: Machine,
    /// Never requested. A run of its own would make one each time.
    stop: Stop,
    console: Console,
    output: Captured,
}

impl Stepper {
    /// One processor that boots the packages' kernel.
    pub(crate) fn new(packages: &Packages, initrd: Vec<u8>) -> Self {
        let output = Captured::default();
        let ram = config::memory("512M").expect("memory");
        let payload = Payload::Kernel(Kernel {
            image: Image::read_kernel(&packages.kernel, &ram).expect("kernel"),
            modules: vec![Image { name: "initrd".into(), bytes: initrd }.into()],
            command_line: BRIEF.into(),
            entry: LinuxEntry::Auto,
        });
        let config = Config::new("k8", ram, payload).expect("k8");
        Self {
            machine: Machine::new(&config).expect("a machine"),
            stop: Stop::new().expect("an event"),
            console: output.console(),
            output,
        }
    }

    /// Runs `count` instructions; whether the guest goes on.
    fn run(&mut self, count: u64) -> bool {
        let limit = Some(self.machine.retired() + count);
        let end = self.machine.run_until(&self.stop, limit, &mut self.console);
        match end.expect("memory takes it") {
            End::Instructions => true,
            End::PowerOff => false,
            other => panic!("{other:?}\n{}", self.output.text()),
        }
    }

    /// Runs until the console has this line.
    pub(crate) fn run_to_line(&mut self, line: &str) {
        while !self.output.text().lines().any(|l| l == line) {
            assert!(self.run(COARSE), "no {line} in\n{}", self.output.text());
        }
    }

    /// Runs until the guest powers off; what was on its console, carriage returns removed.
    pub(crate) fn finish(mut self) -> String {
        while self.run(COARSE) {}
        self.output.text()
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
    pub(crate) fn trace(&mut self, layout: &Layout) -> Vec<u64> {
        let mut executed = loop {
            assert!(self.run(STRETCH), "the program did not run");
            if let Some(executed) = self.executed(layout) {
                break executed;
            }
        };
        assert!(executed <= STRETCH);
        // Before that came the page fault of the first instruction, unless it comes now.
        let mut events = vec![0];
        if executed == 0 {
            assert!(self.run(1), "the program did not go on");
            match self.executed(layout) {
                Some(next) => executed = next,
                None => events.clear(),
            }
        }
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
