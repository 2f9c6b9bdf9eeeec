//! The target `pmu` as cargo-fuzz builds it; else a plain program that plays the files it is given.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::pmu::target(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    for file in std::env::args_os().skip(1) {
        fuzz::pmu::target(&std::fs::read(file)?);
    }
    Ok(())
}
