//! Debian's memtest86+: a kernel by the Linux boot protocol that is not Linux, and a judge of loads,
//! stores and paging.

use crate::guest::{packages, run_other};
use crate::harness::{Verdict, tests};

tests!(
    the_64_bit_image_passes_its_tests_on_k8,
    the_32_bit_image_passes_its_tests_on_k8,
    the_32_bit_image_passes_its_tests_on_p6
);

/// The tests of memtest86+ 6.10 that its README lists, but for 1 and 2, which are over before the
/// serial console, drawn anew once a second, can show them.
const SHOWN: [&str; 9] = [
    "#0  [Address test, walking ones, no cache]",
    "#3  [Moving inversions, 1s & 0s]",
    "#4  [Moving inversions, 8 bit pattern]",
    "#5  [Moving inversions, random pattern]",
    "#6  [Moving inversions, ",
    "#7  [Block move]",
    "#8  [Random number sequence]",
    "#9  [Modulo 20, random pattern]",
    "#10 [Bit fade test, 2 patterns]",
];

/// The exit status of a guest that asks for a reset.
const RESET: i32 = 118;

/// Runs one pass over 4 MiB, which with the program, behind them for that time, is all memory; then
/// types Escape, which "exits the test and reboots the machine" (README, Operation). The clock of
/// 1 MHz makes its waits short, which take minutes of virtual time.
fn passes_its_tests(cpu: &str, image: &str, escape_at_microseconds: u64) -> Verdict {
    let test = format!("{image} on {cpu}");
    let packages = packages()?;
    let kernel = packages.path("boot").join(image);
    let options = [
        ["--cpu", cpu],
        ["--mem", "4500K"],
        ["--clock", "1000000"],
        ["--append", "console=ttyS0,115200 nosmp nobench nosm nopause"],
        ["--kernel", kernel.to_str().expect("a path in UTF-8")],
    ];
    let typed = format!("{escape_at_microseconds} \"\\e\"\n");
    let (status, log) = run_other(&format!("{cpu}-{image}"), options.as_flattened(), &typed);
    let screen = text(&log);
    assert_eq!(status, Some(RESET), "{test}: {screen}");
    for shown in SHOWN {
        assert!(screen.contains(shown), "{test}: {shown}\n{screen}");
    }
    // The status is "Testing" up to the first error or the end of the first pass.
    let (first, second) = screen.split_once("Status: Pass").expect("the first pass ends");
    assert!(first.contains("Pass:  0        Errors: 0 "), "{test}: {first}");
    assert!(second.contains("Pass:  1        Errors: 0 "), "{test}: {second}");
    for errors in screen.split("Errors: ").skip(1) {
        assert!(errors.starts_with("0 "), "{test}: Errors: {errors}");
    }
    Ok(())
}

/// What is written to a screen by ECMA-48, a line for each control sequence.
fn text(log: &[u8]) -> String {
    let mut text = String::new();
    let mut bytes = log.iter();
    while let Some(byte) = bytes.next() {
        if *byte == 0x1B {
            // CSI, parameters, and a final byte of 40h to 7Eh (5.4 of the standard).
            bytes.by_ref().skip(1).find(|byte| (0x40..=0x7E).contains(*byte));
            text.push('\n');
        } else {
            text.push(char::from(*byte));
        }
    }
    text
}

fn the_64_bit_image_passes_its_tests_on_k8() -> Verdict {
    passes_its_tests("k8", "memtest86+x64.bin", 3_900_000_000)
}

fn the_32_bit_image_passes_its_tests_on_k8() -> Verdict {
    passes_its_tests("k8", "memtest86+ia32.bin", 5_600_000_000)
}

fn the_32_bit_image_passes_its_tests_on_p6() -> Verdict {
    passes_its_tests("p6", "memtest86+ia32.bin", 5_600_000_000)
}
