//! What people write: input scripts, events in words and register values; and archives of a first root file system.

use std::collections::BTreeMap;

use pmu_model::explain::{encode, explain, selection_words};
use pmu_model::{Personality, Programming, RegisterKind, SignalSet};
use vpmu::boot::initramfs::{self, Archive};
use vpmu::explain;
use vpmu::input::Script;

use super::edits::Sound;
use super::sound::{one_line, refused};

/// Scripts that are in order.
pub(super) const SCRIPTS: [&str; 3] = [
    "# login\n\n10 \"root\\n\"\n20 \"a\\x1B\\\\\"\n+3000000 \"\\\"x\\\"\"\n",
    "wait \"login: \"\n+1 \"root\\r\"\nwait \"# \"\n+0 \"halt\\n\\e\\0\\t\"\n",
    "5 \"1\"\nwait \"\u{e9}\"\n",
];

/// Reads a script, of a file or of `--expect`: whether it is one.
///
/// # Errors
/// What does not hold.
pub(super) fn script(bytes: &[u8], options: u8) -> Result<bool, String> {
    // Of what is not UTF-8 the reader of the file says just that.
    let text = String::from_utf8_lossy(bytes);
    let clock = [1_000_000, 2_000_000_000, 1_000_000_000_000][usize::from(options) % 3];
    let script = if options & 0x80 == 0 {
        Script::parse(&text, clock)
    } else {
        let mut script = Script::default();
        text.split('\n').try_for_each(|exchange| script.expect(exchange)).map(|()| script)
    };
    let mut script = match script {
        Ok(script) => script,
        Err(error) => return refused(&error),
    };
    types_all(&mut script, &text)?;
    Ok(true)
}

/// A guest that echoes what is typed, and prints what is waited for, is typed at to the end; and not more than there is
/// in the script.
fn types_all(script: &mut Script, source: &str) -> Result<(), String> {
    let (mut typed, mut now) = (0, 0);
    for _ in 0..=source.len() {
        if script.is_empty() {
            return match typed <= source.len() {
                true => Ok(()),
                false => Err(format!("{typed} bytes typed by {} of script", source.len())),
            };
        }
        match (script.next_time(), script.awaited()) {
            (Some(time), None) => now = now.max(time),
            (None, Some(text)) => script.printed(text.as_bytes()),
            both => return Err(format!("it waits for both or neither: {both:?}")),
        }
        let due = script.take_due(now);
        script.printed(&due);
        typed += due.len();
        // What is no UTF-8 is not in the words for what is awaited.
        if script.awaited().is_some_and(|text| text.contains('\u{FFFD}')) {
            return Ok(());
        }
    }
    Err("the script does not end".into())
}

/// Events in words that are in order.
pub(super) const WORDS: [&str; 8] = [
    "RETIRED_BRANCH_INSTRUCTIONS:u:int",
    "r1C2:k:c=3:i:e",
    "DATA_READ:u:ctr=1",
    "VPU_ELEMENTS_ACTIVE:t",
    "r00",
    "INST_RETIRED:c=255:usr=0:os=1",
    "DATA_CACHE_REFILLS_FROM_L2:all:k",
    "L2_LD:umask=0xF:pc:en=0",
];

/// Encodes words, and explains the value: whether they are ones.
///
/// # Errors
/// What does not hold.
pub(super) fn words(bytes: &[u8], options: u8) -> Result<bool, String> {
    let text = String::from_utf8_lossy(bytes);
    let personality = Personality::ALL[usize::from(options) % Personality::ALL.len()];
    match explain::encode(personality, &text) {
        Ok(line) => one_line(line.trim_end())?,
        // What a user writes may be as long as a command line.
        Err(error) => {
            let error: String = error.to_string().chars().take(200).collect();
            return refused(&error);
        }
    }
    let value = encode(personality, &text).map_err(|error| error.to_string())?;
    encodes_again(personality, value)?;
    Ok(true)
}

/// Explains a value of a register: whether there is such a register.
///
/// # Errors
/// What does not hold.
pub(super) fn value(bytes: &[u8], options: u8) -> Result<bool, String> {
    let personality = Personality::ALL[usize::from(options) % Personality::ALL.len()];
    let (register, value) = bytes
        .split_first_chunk::<8>()
        .map_or((bytes, 0), |(value, rest)| (rest, u64::from_le_bytes(*value)));
    let register = match register {
        [] => personality.registers[value as usize % personality.registers.len()].name.into(),
        text => String::from_utf8_lossy(text),
    };
    match explain::decode(personality, &register, &format!("{value:x}")) {
        Ok(text) => text.lines().try_for_each(one_line)?,
        Err(error) => {
            let error: String = error.to_string().chars().take(200).collect();
            return refused(&error);
        }
    }
    let explained = explain(personality, &SignalSet::ALL, &register, value);
    let explained = explained.map_err(|error| error.to_string())?;
    if explained.register.kind == RegisterKind::Cesr {
        for selection in &explained.selections {
            encode(personality, &selection.encoding).map_err(|error| {
                format!("{value:#x} explained as {}: {error}", selection.encoding)
            })?;
        }
    }
    if let (RegisterKind::Evtsel(_), Programming::PerfEvtSel) =
        (explained.register.kind, personality.programming)
    {
        encodes_again(personality, value & explained.register.stored)?;
    }
    Ok(true)
}

/// That a value is what its words encode.
fn encodes_again(personality: &'static Personality, value: u64) -> Result<(), String> {
    let halves = match personality.programming {
        Programming::PerfEvtSel => vec![(0, value, value)],
        // Half of CESR each: of the counter that is selected the words give the same half.
        Programming::Cesr => {
            let halves = (0..2).map(|counter| (counter, value >> (16 * counter) & 0x3FF));
            halves
                .filter(|&(_, half)| half != 0)
                .map(|(counter, half)| (counter, half, half << (16 * counter)))
                .collect()
        }
    };
    for (counter, word, expected) in halves {
        let words = selection_words(personality, counter, word);
        let again = encode(personality, &words);
        if again != Ok(expected) {
            return Err(format!("{expected:#x} is {words:?} in words, and that {again:x?}"));
        }
    }
    Ok(())
}

/// Linux Documentation/driver-api/early-userspace/buffer-format.rst: two files, a folder and a link; and another archive
/// behind it.
pub(super) fn archive() -> Sound {
    let mut archive = Archive::new();
    archive.file("/init", 0o755, b"#!/bin/sh\n".to_vec());
    archive.file("/usr/bin/x", 0o644, b"12345".to_vec());
    archive.symlink("/bin", "usr/bin");
    archive.character_device("/dev/console", 0o600, 5, 1);
    let mut second = Archive::new();
    second.file("/late", 0o644, vec![7; 100]);
    let bytes =
        [archive, second].into_iter().flat_map(|archive| archive.bytes().unwrap_or_default());
    Sound { bytes: bytes.collect(), fields: vec![] }
}

/// Lists the files of an archive, and makes an archive of these: it has the same. Whether there is one.
///
/// # Errors
/// What does not hold.
pub(super) fn files(bytes: &[u8]) -> Result<bool, String> {
    let files = initramfs::files(bytes);
    let content: usize = files.iter().map(|(_, content)| content.len()).sum();
    if content > bytes.len() {
        return Err(format!("{content} bytes of files in {} of archive", bytes.len()));
    }
    let mut archive = Archive::new();
    let mut expected = BTreeMap::new();
    for (name, content) in &files {
        if name.starts_with('/') || name.contains('\0') {
            return Err(format!("a file called {name:?}"));
        }
        // A path with a slash at its end would be another's.
        let path = name.trim_matches('/');
        archive.file(path, 0o644, content.to_vec());
        expected.insert(path.to_owned(), *content);
    }
    let again = archive.bytes().map_err(|error| error.to_string())?;
    let listed: BTreeMap<_, _> = initramfs::files(&again).into_iter().collect();
    match listed == expected {
        true => Ok(!files.is_empty()),
        false => Err("its files, in an archive of their own, are others".into()),
    }
}
