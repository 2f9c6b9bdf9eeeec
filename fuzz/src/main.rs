//! Fuzzes vpmu, and replays what was found: see `README.md`.

use std::process::ExitCode;

use fuzz::cli::{self, Error};

/// Wrong arguments; 1 is what does not hold, or a file that cannot be had.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let (words, code) = match cli::run(std::env::args_os()) {
        Ok(words) => {
            println!("{words}");
            return ExitCode::SUCCESS;
        }
        Err(Error::Usage(words)) => (words, ExitCode::from(USAGE)),
        Err(Error::Failed(words)) => (words, ExitCode::FAILURE),
    };
    eprintln!("vpmu-fuzz: {words}");
    code
}
