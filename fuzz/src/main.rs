//! Fuzzes vpmu, and replays what was found: see `README.md`.

use std::process::ExitCode;

fn main() -> ExitCode {
    match fuzz::cli::run(std::env::args_os()) {
        Ok(words) => {
            println!("{words}");
            ExitCode::SUCCESS
        }
        Err(words) => {
            eprintln!("vpmu-fuzz: {words}");
            ExitCode::FAILURE
        }
    }
}
