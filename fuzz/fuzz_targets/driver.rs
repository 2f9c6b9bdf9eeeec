//! The target `driver` as cargo-fuzz builds it; else a plain program that plays the files it is given.

#![cfg_attr(fuzzing, no_main)]

use fuzz::driver::Target;

fn play(bytes: &[u8]) {
    Target::named("driver").expect("the target").play_or_panic(bytes);
}

// Linux boots before the first input, of which its time would be taken for a part (`-timeout`).
#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(init: play(&[]), |bytes: &[u8]| play(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    for file in std::env::args_os().skip(1) {
        play(&std::fs::read(file)?);
    }
    Ok(())
}
