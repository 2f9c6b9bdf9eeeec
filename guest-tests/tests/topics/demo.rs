//! The sampling demo, and that a run is a function of its inputs.

use guest_tests::{Result, run};
use vpmu::demo;

const PERIOD: u64 = 10_007;

fn numbers(line: &str) -> Vec<u64> {
    line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn the_table_adds_up() -> Result {
    let serial = run(&demo::sampling()?).serial;
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

    // Each sample takes a period and the interrupt, which counts as an instruction. The total is
    // read a few instructions before the last one.
    let last = serial.lines().find(|line| line.contains("branches")).expect("totals");
    let totals = numbers(last.split_once(':').expect("a colon").1);
    let [cycles, instructions, branches] = totals[..] else { panic!("{last}") };
    assert_eq!(instructions / (PERIOD + 1), samples);
    assert!(cycles > 0 && branches > 0 && branches < instructions);
    Ok(())
}

#[test]
fn two_runs_are_equal() -> Result {
    let image = demo::sampling()?;
    let (first, second) = (run(&image), run(&image));
    assert_eq!(first.serial, second.serial);
    assert_eq!(first.machine.time(), second.machine.time());
    Ok(())
}
