//! Truth files: what is read is written as the same, and whatever it is, all that is made of it can be made. And files
//! of symbols, with which such a file is read.

use std::sync::OnceLock;

use ciborium::Value;
use vpmu::framed::{self, Kind};
use vpmu::symbols::Sources;
use vpmu::symbols::{self, SymbolFile};
use vpmu::truth::functions::Functions;
use vpmu::truth::report::{By, Filter, Report};
use vpmu::truth::{Truth, callgrind, folded, listing};

use super::edits::{Edit, Source};
use super::machines::{self, unframed};
use super::sound::refused;
use super::tree;

/// The machines whose runs are recorded, of those of snapshots.
const MACHINES: [usize; 4] = [5, 0, 6, 7];
/// Most changes of an input.
const CHANGES: usize = 8;
/// Lines of reports.
const LINES: usize = 40;

/// How many there are.
pub(super) const COUNT: usize = MACHINES.len();

/// A truth file that is in order.
struct Sound {
    truth: Truth,
    kind: Kind,
    tree: Value,
}

fn sound(n: usize) -> Result<&'static Sound, String> {
    static ALL: [OnceLock<Result<Sound, String>>; COUNT] = [const { OnceLock::new() }; COUNT];
    let n = n % COUNT;
    let made = ALL[n].get_or_init(|| {
        let truth = machines::recorded(MACHINES[n])?;
        let file = truth.to_bytes();
        let (kind, body) = unframed("vpmu-truth", &file)?;
        Ok(Sound { tree: framed::from_cbor(body)?, kind, truth })
    });
    made.as_ref().map_err(Clone::clone)
}

/// A truth file with changes, and these in words. Length and CRC are right.
pub(super) fn changed(n: usize, source: &mut Source<'_>) -> Result<(Vec<u8>, Vec<String>), String> {
    let sound = sound(n)?;
    let mut words = vec![format!("what machine {} did", MACHINES[n % COUNT])];
    let mut tree = sound.tree.clone();
    // The last changes are of the bytes, which may be no CBOR then.
    while !source.is_over() && words.len() <= CHANGES {
        if source.byte() >= 0xE0 {
            let mut bytes = framed::to_cbor(&tree);
            while !source.is_over() && words.len() <= CHANGES {
                let edit = Edit::next(source, &bytes, &[]);
                words.push(edit.to_string());
                edit.apply(&mut bytes);
            }
            return Ok((sound.kind.frame(bytes), words));
        }
        words.push(tree::edit(&mut tree, source));
    }
    Ok((sound.kind.frame(framed::to_cbor(&tree)), words))
}

/// Bytes in the frame of such a file.
pub(super) fn framed(bytes: &[u8]) -> Result<Vec<u8>, String> {
    Ok(sound(0)?.kind.frame(bytes.to_vec()))
}

/// Reads a truth file, and makes of it all that can be made: whether it is accepted.
///
/// # Errors
/// What does not hold.
pub(super) fn check(bytes: &[u8]) -> Result<bool, String> {
    let truth = match Truth::from_bytes(bytes) {
        Ok(truth) => truth,
        Err(error) => return refused(&error),
    };
    is_written(&truth)?;
    report(&truth)?;
    Ok(true)
}

/// That it is read as what it is written as.
fn is_written(truth: &Truth) -> Result<(), String> {
    truth.check().map_err(|what| format!("it was accepted, but {what}"))?;
    let bytes = truth.to_bytes();
    let read = Truth::from_bytes(&bytes).map_err(|error| format!("written, it is {error}"))?;
    if read != *truth || read.to_bytes() != bytes {
        return Err("it is written and read as another".into());
    }
    Ok(())
}

/// Prints what can be printed.
fn report(truth: &Truth) -> Result<(), String> {
    if truth.events.is_empty() {
        return Ok(());
    }
    let mut functions = Functions::new(truth);
    let filter = Filter::default();
    let mut sums = Vec::new();
    for by in [By::Function, By::Instruction, By::Module, By::Process, By::Cpl, By::Vcpu] {
        match Report::new(truth, &mut functions, by, &filter, 0, LINES) {
            Ok(report) => {
                report.json().map_err(|error| error.to_string())?;
                sums.push(report.table());
            }
            Err(error) => drop(refused(&error)?),
        }
    }
    if let Some(text) = sums.iter().find(|text| has_controls(text)) {
        return Err(format!("a table with control characters: {text:?}"));
    }
    let report = listing::report(truth, &mut functions, &filter, 0);
    let report = report.map_err(|error| error.to_string())?;
    if has_controls(&listing::text(&report)) {
        return Err("a listing with control characters".into());
    }
    let mut out = Vec::new();
    callgrind::write(truth, &mut functions, &mut out).map_err(|error| error.to_string())?;
    folded::write(truth, &mut functions, 0, &mut out).map_err(|error| error.to_string())?;
    match has_controls(&String::from_utf8_lossy(&out)) {
        true => Err("a file for other tools with control characters".into()),
        false => Ok(()),
    }
}

fn has_controls(text: &str) -> bool {
    text.chars().any(|c| c.is_control() && c != '\n')
}

/// Names what a machine did by a file of symbols, if that is one: whether it is.
///
/// # Errors
/// What does not hold.
pub(super) fn named_by(bytes: &[u8], options: u8) -> Result<bool, String> {
    let sound = sound(0)?;
    let mut truth = sound.truth.clone();
    let address = match options >> 6 {
        0 => None,
        1 => Some(0),
        2 => Some(0x10_0000),
        _ => Some(u64::MAX - 0xFFF),
    };
    let file = SymbolFile { argument: "it".into(), bytes: bytes.to_vec(), address };
    let files = [file];
    match symbols::attach(&mut truth, &Sources { files: &files, ..Sources::default() }) {
        Ok(()) => {
            is_written(&truth)?;
            report(&truth)?;
            Ok(true)
        }
        Err(error) => refused(&error),
    }
}
