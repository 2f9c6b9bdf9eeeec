//! The sampling demo, and that a run is a function of its inputs.

use guest_tests::part::Registers;
use guest_tests::timing::{delivery, memory, taken};
use guest_tests::{Part, Result, run};
use vpmu::demo;
use vpmu::program;

topics!(the_table_adds_up, totals_add_up, two_runs_are_equal);

const PERIOD: u64 = 10_007;

fn numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

fn image(part: &Part) -> Result<program::Image> {
    demo::sampling(demo::Part::by_name(part.name).expect("a part of the demo"))
}

/// The numbers in the line of totals.
fn totals(serial: &str) -> Vec<u64> {
    let last = serial.lines().find(|line| line.contains("Counted with")).expect("totals");
    numbers(last.split_once(':').expect("a colon").1)
}

fn the_table_adds_up(part: &'static Part) -> Result {
    let outcome = run(part, &image(part)?);
    let serial = &outcome.serial;
    let head = numbers(serial.lines().next().expect("a first line"));
    let [samples, period] = head[..] else { panic!("{serial}") };
    assert_eq!(period, PERIOD);

    // "  61.23%      1224  name"
    let rows: Vec<(u64, u64, &str)> = serial
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| match numbers(line)[..] {
            [whole, hundredths, samples] => {
                (100 * whole + hundredths, samples, line.split_whitespace().last().unwrap_or(""))
            }
            _ => panic!("{line}"),
        })
        .collect();
    assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), samples, "every sample has a function");
    for row in &rows {
        assert_eq!(row.0, row.1 * 10_000 / samples, "{}", row.2);
    }
    assert!(rows.is_sorted_by(|a, b| a.1 >= b.1), "most samples first");
    for name in ["fill", "checksum", "sort_pass", "collatz"] {
        assert!(rows.iter().any(|row| row.2 == name && row.1 > 0), "{name} was sampled");
    }

    // One sample a period, and on K7 and K8 the interrupt counts as an instruction at CPL 3.
    let sampled = outcome.machine.vcpus()[0].pmu.counter_stats(0).expect("counter 0").total();
    assert_eq!(sampled.pmis, samples);
    assert_eq!(sampled.count / (PERIOD + part.exceptional.instructions), samples);
    Ok(())
}

/// What a part of the measured program executes. Each number is that of the instructions in
/// `vmm/src/demo/sampling.rs`.
#[derive(Clone, Copy, Default)]
struct Work {
    instructions: u64,
    /// Of them, with a memory operand.
    memory: u64,
    /// Of them, branches.
    branches: u64,
    /// Of those, taken.
    taken: u64,
}

impl Work {
    fn cycles(self) -> u64 {
        let others = self.instructions - self.memory - self.taken;
        others + self.memory * memory() + self.taken * taken()
    }
}

/// The measured program up to its first RDPMC, by doing what it does.
fn workload() -> Work {
    const ROUNDS: u32 = 600;
    const ELEMENTS: usize = 1000;
    const SEQUENCES: u32 = 60;
    let mut array = [0_u32; ELEMENTS];
    let mut eax = 0_u32;
    // XOR EAX, MOV EBP; and MOV ECX before RDPMC.
    let mut work = Work { instructions: 3, ..Work::default() };
    let mut executed = |instructions, memory, branches, taken| {
        work.instructions += instructions;
        work.memory += memory;
        work.branches += branches;
        work.taken += taken;
    };
    for round in 1..=ROUNDS {
        // CALL fill, two MOV, RET.
        executed(4, 0, 2, 2);
        for ecx in (1..=ELEMENTS).rev() {
            array[ecx - 1] = eax;
            eax = eax.rotate_left(11).wrapping_add(ecx as u32);
            // MOV to the array, ROL, ADD, DEC, JNZ.
            executed(5, 1, 1, u64::from(ecx > 1));
        }
        // CALL sort_pass, two MOV, RET.
        executed(4, 0, 2, 2);
        for n in 0..ELEMENTS - 1 {
            // Two MOV from the array, CMP, JBE, ADD, DEC, JNZ.
            executed(7, 2, 2, u64::from(n + 1 < ELEMENTS - 1));
            if array[n] > array[n + 1] {
                array.swap(n, n + 1);
                // Two MOV to the array.
                executed(2, 2, 0, 0);
            } else {
                // That JBE.
                executed(0, 0, 0, 1);
            }
        }
        // CALL checksum, two MOV, RET.
        executed(4, 0, 2, 2);
        for ecx in (1..=ELEMENTS).rev() {
            eax = eax.rotate_left(7) ^ array[ecx - 1];
            // ROL, XOR with the array, DEC, JNZ.
            executed(4, 1, 1, u64::from(ecx > 1));
        }
        // MOV EBX; at the end of the round DEC EBP, JNZ.
        executed(3, 0, 1, u64::from(round < ROUNDS));
        for ebx in (1..=SEQUENCES).rev() {
            // LEA, CALL collatz, RET, DEC EBX, JNZ.
            executed(5, 1, 3, 2 + u64::from(ebx > 1));
            let mut edi = ebx + 1;
            while edi != 1 {
                // TEST, JZ, then SHR or LEA and JMP, then INC, CMP, JNE.
                let even = edi % 2 == 0;
                edi = if even { edi / 2 } else { 3 * edi + 1 };
                let again = u64::from(edi != 1);
                if even { executed(6, 0, 2, 1 + again) } else { executed(7, 1, 3, 1 + again) }
                eax = eax.wrapping_add(1);
            }
        }
    }
    work
}

/// Besides its instructions the program is charged for the delivery of each interrupt; K7 and K8 count
/// it as an instruction and as a branch as well. From one RDPMC to the next are four instructions.
fn totals_add_up(part: &'static Part) -> Result {
    let work = workload();
    let Work { instructions, branches, .. } = work;
    let outcome = run(part, &image(part)?);
    let counter = |n| outcome.machine.vcpus()[0].pmu.counter_stats(n).expect("a counter").total();
    let pmis = counter(0).pmis;
    let cycles = work.cycles() + pmis * delivery();
    let expected = match part.registers {
        Registers::Amd => {
            vec![cycles, instructions + 4 + pmis, branches + pmis]
        }
        Registers::P6 | Registers::Knc => vec![cycles],
        Registers::P55c => {
            assert_eq!(counter(1).overflows, 1, "one period after the start");
            vec![work.cycles(), instructions + 4]
        }
    };
    assert_eq!(totals(&outcome.serial), expected);
    Ok(())
}

fn two_runs_are_equal(part: &'static Part) -> Result {
    let image = image(part)?;
    let (first, second) = (run(part, &image), run(part, &image));
    assert_eq!(first.serial, second.serial);
    assert_eq!(first.machine.time(), second.machine.time());
    Ok(())
}
