//! Replays and generates inputs of the fuzz targets: see `README.md`.

use std::process::ExitCode;

use fuzz::driver;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((name, rest)) => match driver::target(name) {
            Some(play) => driver::run(play, rest),
            None => Err(format!("no target {name}\n{}", driver::USAGE)),
        },
        None => Err(driver::USAGE.to_owned()),
    };
    match outcome {
        Ok(words) => {
            println!("{words}");
            ExitCode::SUCCESS
        }
        Err(words) => {
            eprintln!("{words}");
            ExitCode::FAILURE
        }
    }
}
