//! The target `loaders`: bytes through every reader of what comes from outside: kernels, archives, input scripts,
//! snapshots, truth files, files of symbols, and registers and events in words.
//!
//! Whatever the bytes are, a reader does not panic, comes to an end, takes little memory, and refuses in one line. What
//! it accepts is written as what it was read from, or holds what else is sane; and a machine that was loaded goes on for
//! a while. The first byte of an input is the reader, the second chooses from what it may be told besides, the third
//! is a file that is in order, and the rest is what is changed in it (`edits.rs`, `tree.rs`), inside of lengths and
//! checksums. Or the rest is the file itself.

mod edits;
mod kernels;
mod machines;
mod sound;
mod texts;
mod tree;
mod truths;

use std::time::{Duration, Instant};

use vpmu::machine::Machine;

use self::edits::{Sound, Source};
use self::sound::Peak;
use crate::random::Random;

/// How long an input may take of the host's time: a thousand times what one does.
const LONGEST: Duration = Duration::from_secs(60);
/// From this third byte on, the rest of an input is the file itself; from the other on, what its frame is put around.
const WHOLE: u8 = 0xC0;
const FRAMED: u8 = 0xE0;

/// What reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    Kernel,
    Archive,
    Script,
    Snapshot,
    Truth,
    Words,
    Value,
    Symbols,
}

impl Reader {
    /// By the first byte. Snapshots and kernels have most to get wrong.
    fn of(byte: u8) -> Self {
        match byte % 16 {
            0..=3 => Self::Kernel,
            4 => Self::Archive,
            5 => Self::Script,
            6..=10 => Self::Snapshot,
            11 | 12 => Self::Truth,
            13 => Self::Words,
            14 => Self::Value,
            _ => Self::Symbols,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kernel => "--kernel",
            Self::Archive => "an archive",
            Self::Script => "--input",
            Self::Snapshot => "--load",
            Self::Truth => "vpmu truth",
            Self::Words => "vpmu explain --encode",
            Self::Value => "vpmu explain",
            Self::Symbols => "--symbols",
        }
    }
}

/// What an input is: who reads, what it may be told besides, the file, and how that came about.
struct Input {
    reader: Reader,
    options: u8,
    file: Vec<u8>,
    words: Vec<String>,
}

impl Input {
    fn new(bytes: &[u8]) -> Result<Self, String> {
        let mut source = Source::new(bytes);
        let (reader, options, which) = (Reader::of(source.byte()), source.byte(), source.byte());
        let (file, words) = match which {
            WHOLE.. => whole(reader, which, source.rest())?,
            _ => changed(reader, usize::from(which), &mut source)?,
        };
        Ok(Self { reader, options, file, words })
    }

    fn play(&self) -> Result<bool, String> {
        let Self { reader, options, ref file, .. } = *self;
        match reader {
            Reader::Kernel => kernels::check(file, options),
            Reader::Archive => texts::files(file),
            Reader::Script => texts::script(file, options),
            Reader::Snapshot => machines::check(file),
            Reader::Truth => truths::check(file),
            Reader::Words => texts::words(file, options),
            Reader::Value => texts::value(file, options),
            Reader::Symbols => truths::named_by(file, options),
        }
    }
}

/// The rest of an input as a file.
fn whole(reader: Reader, which: u8, rest: &[u8]) -> Result<(Vec<u8>, Vec<String>), String> {
    let words = format!("{} bytes: {:?}", rest.len(), Beginning(rest));
    let file = match (reader, which) {
        (Reader::Truth, FRAMED..) => truths::framed(rest)?,
        _ => rest.to_vec(),
    };
    Ok((file, vec![words]))
}

/// How bytes begin.
struct Beginning<'a>(&'a [u8]);

impl std::fmt::Debug for Beginning<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const MOST: usize = 80;
        let beginning = &self.0[..self.0.len().min(MOST)];
        write!(f, "\"{}\"", beginning.escape_ascii())?;
        f.write_str(if self.0.len() > MOST { "..." } else { "" })
    }
}

/// A file that is in order, with what the input changes in it.
fn changed(
    reader: Reader,
    which: usize,
    source: &mut Source<'_>,
) -> Result<(Vec<u8>, Vec<String>), String> {
    let text = |texts: &[&str]| Sound {
        bytes: texts[which % texts.len()].as_bytes().to_vec(),
        fields: vec![],
    };
    let (name, sound) = match reader {
        Reader::Snapshot => return machines::changed(which, source),
        Reader::Truth => return truths::changed(which, source),
        Reader::Kernel => {
            let (name, make) = kernels::SOUND[which % kernels::SOUND.len()];
            (name.into(), make())
        }
        Reader::Symbols if which & 1 == 1 => ("System.map".into(), text(&[SYSTEM_MAP])),
        Reader::Symbols => {
            let (name, make) = kernels::SOUND[8 - (which >> 1) % 3];
            (name.into(), make())
        }
        Reader::Archive => ("two archives".into(), texts::archive()),
        Reader::Script => {
            (format!("script {}", which % texts::SCRIPTS.len()), text(&texts::SCRIPTS))
        }
        Reader::Words => {
            let sound = text(&texts::WORDS);
            (String::from_utf8_lossy(&sound.bytes).into_owned(), sound)
        }
        Reader::Value => ("zero".into(), Sound { bytes: vec![0; 8], fields: vec![] }),
    };
    let (file, mut words) = edits::edit(source, &sound);
    words.insert(0, name);
    Ok((file, words))
}

/// As nm writes it.
const SYSTEM_MAP: &str = "\
0000000000000000 D __per_cpu_start
0000000000100000 T _text
0000000000100000 T startup
0000000000100110 t second
0000000000100200 W weak
0000000000101f00 T _etext
";

/// Plays an input: 1 if what it is is accepted, else 0.
///
/// # Errors
/// What does not hold.
pub fn play(bytes: &[u8]) -> Result<usize, String> {
    let input = Input::new(bytes)?;
    let (begun, peak) = (Instant::now(), Peak::now());
    let accepted = input.play()?;
    peak.is_kept()?;
    match begun.elapsed() {
        took if took > LONGEST => Err(format!("it took {} s", took.as_secs())),
        _ => Ok(accepted.into()),
    }
}

/// A machine that was loaded goes on for a while: whatever it does, it does not panic.
fn goes_on(machine: &mut Machine) -> Result<(), String> {
    machines::go_on(machine)
}

/// An input in words.
pub fn words(bytes: &[u8]) -> String {
    match Input::new(bytes) {
        Ok(Input { reader, options, words, .. }) => {
            format!("{}, options {options:#x}\n    {}\n", reader.name(), words.join("\n    "))
        }
        Err(error) => error,
    }
}

/// A generated input: a file that is in order, with few changes, of which one is seen most.
pub fn input(random: &mut Random) -> Vec<u8> {
    let mut input = random.bytes()[..3].to_vec();
    // Where texts are concerned, bytes at random are worth little.
    input[2] %= WHOLE;
    for _ in 0..1 + random.below(3) {
        let bytes = random.bytes();
        input.extend(&bytes[..4 + random.below(5)]);
        // Small numbers are edges.
        input.extend((0..random.below(5)).map(|_| random.below(24) as u8));
    }
    input
}
