//! The small driver: replays inputs from files and generates them, on a stable compiler.

use std::fs;
use std::path::{Path, PathBuf};

/// How the driver is used.
pub const USAGE: &str = "usage: fuzz pmu FILE|DIRECTORY...\n       fuzz pmu --runs N --seed S";

/// A target: what it does with the bytes of one input. How many operations it played, or why it failed.
pub type Play = fn(&[u8]) -> Result<usize, String>;

/// The target of a name.
pub fn target(name: &str) -> Option<Play> {
    (name == "pmu").then_some(|bytes| {
        crate::pmu::play(bytes).map_err(|difference| crate::pmu::words(bytes, &difference))
    })
}

/// Does what the arguments behind the target's name say; what is to be printed.
///
/// # Errors
/// Wrong arguments, a file that cannot be read, or the first input that fails, in words.
pub fn run(play: Play, arguments: &[String]) -> Result<String, String> {
    let mut words = arguments.iter().map(String::as_str);
    let (mut runs, mut seed, mut paths) = (None, 1, Vec::new());
    while let Some(word) = words.next() {
        match word {
            "--runs" => runs = Some(number(words.next())?),
            "--seed" => seed = number(words.next())?,
            _ if word.starts_with('-') => return Err(USAGE.to_owned()),
            path => paths.push(PathBuf::from(path)),
        }
    }
    match (runs, paths.is_empty()) {
        (Some(runs), true) => generate(play, runs, seed),
        (None, false) => replay(play, &paths),
        _ => Err(USAGE.to_owned()),
    }
}

fn number(word: Option<&str>) -> Result<u64, String> {
    word.and_then(|word| word.parse().ok()).ok_or_else(|| USAGE.to_owned())
}

/// Plays the files, and those in the directories, in the order of their names.
///
/// # Errors
/// A file that cannot be read, or the first that fails.
pub fn replay(play: Play, paths: &[PathBuf]) -> Result<String, String> {
    let (mut files, mut operations) = (Vec::new(), 0);
    for path in paths {
        files_of(path, &mut files).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    for file in &files {
        let name = file.display();
        let bytes = fs::read(file).map_err(|error| format!("{name}: {error}"))?;
        operations += play(&bytes).map_err(|failure| format!("{name}: {failure}"))?;
    }
    Ok(format!("{} inputs, {operations} operations", files.len()))
}

fn files_of(path: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        found.push(entry?.path());
    }
    found.sort();
    found.iter().try_for_each(|path| files_of(path, files))
}

/// Plays `runs` generated inputs.
///
/// # Errors
/// The first that fails, with its bytes in hexadecimal.
pub fn generate(play: Play, runs: u64, seed: u64) -> Result<String, String> {
    let (mut generator, mut operations) = (Generator::new(seed), 0);
    for run in 0..runs {
        let bytes = generator.input();
        operations += play(bytes).map_err(|failure| {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("input {run} of seed {seed}, {hex}:\n{failure}")
        })?;
    }
    Ok(format!("{runs} inputs, {operations} operations"))
}

/// Inputs without end: bytes of a xorshift generator, of which the same seed gives the same.
pub struct Generator {
    state: u64,
    input: Vec<u8>,
}

impl Generator {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Generator {
        // The generator stands still at zero, which no seed may give.
        let state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Generator { state, input: Vec::new() }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// The next input: 200 bytes, some 50 operations. Little happens while no counter runs, so that every
    /// second input begins with two that do, at all privilege levels and with INT.
    pub fn input(&mut self) -> &[u8] {
        self.input.clear();
        for _ in 0..25 {
            let bytes = self.next().to_le_bytes();
            self.input.extend(bytes);
        }
        if self.input[1] & 1 == 1 {
            let (first, second) = (self.input[2], self.input[3]);
            // Selects, and Knights Corner's global enable bits: see `Script`.
            let begin = [6, 0, first, 0x13, 0, 0, 6, 1, second, 0x13, 0, 0, 3, 7, 0x13];
            self.input[1..=begin.len()].copy_from_slice(&begin);
        }
        &self.input
    }
}
