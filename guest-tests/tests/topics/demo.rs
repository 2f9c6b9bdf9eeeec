//! The sampling demo, and that a run is a function of its inputs.

use guest_tests::part::Registers;
use guest_tests::{Part, Result, run};
use vpmu::demo;

topics!(the_table_adds_up, totals_add_up, two_runs_are_equal);

const PERIOD: u64 = 10_007;

fn numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

fn image(part: &Part) -> Result<demo::Image> {
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

fn totals_add_up(part: &'static Part) -> Result {
    let outcome = run(part, &image(part)?);
    let totals = totals(&outcome.serial);
    let counter = |n| outcome.machine.vcpus()[0].pmu.counter_stats(n).expect("a counter").total();
    match (part.registers, &totals[..]) {
        // The totals are read a few instructions before the counters stop.
        (Registers::Amd, &[cycles, instructions, branches]) => {
            assert!(cycles.abs_diff(instructions) < 10 + counter(0).pmis);
            assert_eq!(instructions / 1000, counter(0).count / 1000);
            assert!(branches > 0 && branches < instructions);
        }
        (Registers::P6 | Registers::Knc, &[cycles]) => {
            assert!(cycles.abs_diff(counter(0).count) < 10 + counter(0).pmis);
        }
        (Registers::P55c, &[cycles, instructions]) => {
            // One cycle an instruction; the counter of cycles is read four instructions earlier.
            assert_eq!(instructions, cycles + 4);
            assert!(instructions > 10_000_000);
            assert_eq!(counter(1).overflows, 1, "one period after the start");
        }
        (_, totals) => panic!("{totals:?}"),
    }
    Ok(())
}

fn two_runs_are_equal(part: &'static Part) -> Result {
    let image = image(part)?;
    let (first, second) = (run(part, &image), run(part, &image));
    assert_eq!(first.serial, second.serial);
    assert_eq!(first.machine.time(), second.machine.time());
    Ok(())
}
