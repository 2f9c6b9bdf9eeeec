//! Scripted console input: what is typed, and at which virtual time or behind which output.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::wording::quoted;

/// Output that a later line may still wait for, in bytes.
const REMEMBERED: usize = 64 << 10;
/// The longest text that can be waited for, in bytes.
const LONGEST: usize = 4 << 10;

/// Console input as a list of steps, each of which begins when the one before it is done.
///
/// In a file, a line each:
/// - `TIME "TEXT"` types the text at a time in microseconds since power-on, or at once if that has passed;
/// - `+TIME "TEXT"` does so that many microseconds after the line before was done;
/// - `wait "TEXT"` waits until the guest prints the text, behind what the last `wait` found.
///
/// `\n`, `\r`, `\t`, `\e`, `\0`, `\\`, `\"` and `\xHH` are escapes. Empty lines and lines that begin
/// with `#` are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    steps: VecDeque<Step>,
    /// How many of them wait for output.
    waits: usize,
    /// When the last step was done, in cycles.
    done_at: u64,
    /// The end of the output, behind what was last found and what nothing can be found in any more.
    unseen: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    Type { when: When, text: Vec<u8> },
    Wait(Vec<u8>),
}

/// A time in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum When {
    SincePowerOn(u64),
    AfterTheLast(u64),
}

impl Script {
    /// Reads a script for a machine whose clock has `clock_hz` cycles a second.
    ///
    /// # Errors
    /// The number of the first bad line, and what is wrong with it.
    pub fn parse(text: &str, clock_hz: u64) -> Result<Self, String> {
        let mut script = Self::default();
        let mut last = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let step = parse_line(line, clock_hz)
                .map_err(|problem| format!("line {number}: {problem}"))?;
            if let Step::Type { when: When::SincePowerOn(time), .. } = step {
                if time < last {
                    return Err(format!("line {number}: earlier than the line before"));
                }
                last = time;
            }
            script.push(step);
        }
        Ok(script)
    }

    /// Adds to the end what `TEXT=SEND` asks for: to wait for one text and then type the other.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn expect(&mut self, exchange: &str) -> Result<(), String> {
        let (text, send) =
            exchange.split_once('=').ok_or("expected TEXT=SEND; an = inside of TEXT is \\x3d")?;
        let (wait, text) = (wait(text)?, unescape(send)?);
        self.push(wait);
        self.push(Step::Type { when: When::AfterTheLast(0), text });
        Ok(())
    }

    /// Whether nothing is to be typed or waited for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn push(&mut self, step: Step) {
        self.waits += usize::from(matches!(step, Step::Wait(_)));
        self.steps.push_back(step);
    }

    /// When the next bytes are due, in cycles; `None` if there are none, or they wait for output.
    #[must_use]
    pub fn next_time(&self) -> Option<u64> {
        match self.steps.front()? {
            Step::Type { when: When::SincePowerOn(time), .. } => Some(*time),
            Step::Type { when: When::AfterTheLast(cycles), .. } => {
                Some(self.done_at.saturating_add(*cycles))
            }
            Step::Wait(_) => None,
        }
    }

    /// The text that has to be printed before anything more is typed.
    #[must_use]
    pub fn awaited(&self) -> Option<String> {
        match self.steps.front()? {
            Step::Wait(text) => Some(String::from_utf8_lossy(text).into_owned()),
            Step::Type { .. } => None,
        }
    }

    /// The guest has printed `output`.
    pub fn printed(&mut self, output: &[u8]) {
        if self.waits != 0 {
            self.unseen.extend_from_slice(output);
            self.unseen.drain(..self.unseen.len().saturating_sub(REMEMBERED));
        }
    }

    /// Takes the bytes that are due at `now`.
    pub fn take_due(&mut self, now: u64) -> Vec<u8> {
        let mut due = Vec::new();
        loop {
            if self.next_time().is_some_and(|time| time <= now) {
                if let Some(Step::Type { text, .. }) = self.steps.pop_front() {
                    due.extend(text);
                }
            } else if self.finds() {
                self.steps.pop_front();
                self.waits -= 1;
            } else {
                return due;
            }
            self.done_at = now;
        }
    }

    /// Whether the text that is waited for has been printed. What it cannot begin in is forgotten, so that no
    /// output is searched twice however often this is asked.
    fn finds(&mut self) -> bool {
        let Some(Step::Wait(text)) = self.steps.front() else { return false };
        let at = self.unseen.windows(text.len()).position(|window| window == text);
        let seen = match at {
            Some(at) => at + text.len(),
            None => self.unseen.len().saturating_sub(text.len() - 1),
        };
        self.unseen.drain(..seen);
        at.is_some()
    }
}

fn parse_line(line: &str, clock_hz: u64) -> Result<Step, String> {
    let (first, text) = line
        .split_once(char::is_whitespace)
        .ok_or("expected a time in microseconds, or wait, and a text in double quotes")?;
    let text = text
        .trim()
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .ok_or("the text is not in double quotes");
    if first == "wait" {
        return wait(text?);
    }
    let relative = first.strip_prefix('+');
    let digits = relative.unwrap_or(first);
    // Rust takes a sign, too.
    let time = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok());
    let time =
        time.flatten().ok_or_else(|| format!("{} is no time in microseconds", quoted(first)))?;
    let cycles = u128::from(time) * u128::from(clock_hz) / 1_000_000;
    let cycles = u64::try_from(cycles).map_err(|_| "the time is too far away".to_string())?;
    let when =
        if relative.is_some() { When::AfterTheLast(cycles) } else { When::SincePowerOn(cycles) };
    Ok(Step::Type { when, text: unescape(text?)? })
}

fn wait(text: &str) -> Result<Step, String> {
    let text = unescape(text)?;
    match text.len() {
        0 => Err("there is nothing to wait for".into()),
        1..=LONGEST => Ok(Step::Wait(text)),
        _ => Err(format!("the text to wait for has more than {LONGEST} bytes")),
    }
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            bytes.extend(c.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        bytes.push(match chars.next() {
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some('t') => b'\t',
            Some('e') => 0x1B,
            Some('0') => 0,
            Some('\\') => b'\\',
            Some('"') => b'"',
            Some('x') => {
                let digits: String = chars.by_ref().take(2).collect();
                (digits.len() == 2)
                    .then(|| u8::from_str_radix(&digits, 16).ok())
                    .flatten()
                    .ok_or_else(|| {
                        format!("\\x{}: expected two hexadecimal digits", digits.escape_debug())
                    })?
            }
            Some(c) => return Err(format!("unknown escape \\{}", c.escape_debug())),
            None => return Err("the text ends inside an escape".into()),
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 microsecond of a 2 GHz clock is 2000 cycles.
    #[test]
    fn a_script_is_read_and_given_out_in_time() {
        let text = "# login\n\n10 \"root\\n\"\n10 \"a\\x1B\\\\\"\n3000000 \"\\\"x\\\"\"\n";
        let mut script = Script::parse(text, 2_000_000_000).unwrap();
        assert_eq!(script.next_time(), Some(20_000));
        assert_eq!(script.take_due(19_999), b"");
        assert_eq!(script.take_due(20_000), b"root\na\x1B\\");
        assert_eq!(script.next_time(), Some(6_000_000_000));
        assert_eq!(script.take_due(u64::MAX), b"\"x\"");
        assert_eq!(script.next_time(), None);
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, problem) in [
            ("5", "line 1: expected a time in microseconds, or wait, and a text in double quotes"),
            ("\nx \"a\"", "line 2: \"x\" is no time in microseconds"),
            ("5 a", "line 1: the text is not in double quotes"),
            ("5 \"", "line 1: the text is not in double quotes"),
            ("5 \"\\q\"", "line 1: unknown escape \\q"),
            ("5 \"\\x1\"", "line 1: \\x1: expected two hexadecimal digits"),
            ("5 \"a\"\n4 \"b\"", "line 2: earlier than the line before"),
            ("18446744073709551615 \"a\"", "line 1: the time is too far away"),
            ("+ \"a\"", "line 1: \"+\" is no time in microseconds"),
            ("++1 \"a\"", "line 1: \"++1\" is no time in microseconds"),
            ("wait \"\"", "line 1: there is nothing to wait for"),
            ("wait a", "line 1: the text is not in double quotes"),
            // Nothing that a terminal obeys is repeated.
            ("5 \"\\\u{1b}\"", "line 1: unknown escape \\\\u{1b}"),
            ("5 \"\\x\u{1b}\t\"", "line 1: \\x\\u{1b}\\t: expected two hexadecimal digits"),
        ] {
            assert_eq!(Script::parse(text, 2_000_000_000).unwrap_err(), problem, "{text}");
        }
    }

    /// "ab", in two pieces, behind an "a" that comes to nothing; then what was printed in between, and a
    /// microsecond of a 1 GHz clock behind it.
    #[test]
    fn a_step_waits_for_the_text_and_for_the_step_before() {
        let text = "wait \"ab\"\n5 \"1\"\nwait \"cd\"\n+1 \"2\"\nwait \"cd\"\n";
        let mut script = Script::parse(text, 1_000_000_000).unwrap();
        script.printed(b"b a");
        assert_eq!((script.next_time(), script.take_due(9000)), (None, vec![]));
        assert_eq!(script.awaited().unwrap(), "ab");
        script.printed(b"ab-cd!");
        // Its time has passed: at once. What it waits for next has been printed already.
        assert_eq!(script.take_due(10_000), b"1");
        assert_eq!((script.next_time(), script.awaited()), (Some(11_000), None));
        assert_eq!(script.take_due(10_999), b"");
        assert_eq!(script.take_due(11_000), b"2");
        // "cd" was found once; it is not found again.
        assert_eq!((script.take_due(u64::MAX), script.awaited()), (vec![], Some("cd".into())));
        script.printed(b"cd");
        assert_eq!((script.take_due(u64::MAX), script.awaited()), (vec![], None));
        assert_eq!(script, Script { done_at: u64::MAX, ..Script::default() });
    }

    #[test]
    fn output_is_not_kept_for_ever() {
        let mut script = Script::parse("wait \"never\"", 1).unwrap();
        for _ in 0..100 {
            script.printed(&[b'x'; 10_000]);
        }
        assert_eq!(script.unseen.len(), 65_536);
        // "neve" may be the beginning of what comes.
        assert_eq!((script.take_due(0), script.unseen.len()), (vec![], 4));
        let mut script = Script::parse("1 \"a\"", 1).unwrap();
        script.printed(b"x");
        assert_eq!(script.unseen, b"");
    }

    #[test]
    fn an_exchange_is_a_wait_and_what_is_typed_then() {
        let mut script = Script::default();
        script.expect(r"login: =root\n").unwrap();
        script.expect(r"a\x3db=c=d").unwrap();
        script.printed(b"login: a=b");
        assert_eq!(script.take_due(7), b"root\nc=d");
        assert!(script.expect("login").unwrap_err().starts_with("expected TEXT=SEND"));
        assert_eq!(script.expect("=x").unwrap_err(), "there is nothing to wait for");
        assert_eq!(script.expect(r"a=\q").unwrap_err(), "unknown escape \\q");
        let long = format!("{}=x", "a".repeat(4097));
        assert_eq!(
            script.expect(&long).unwrap_err(),
            "the text to wait for has more than 4096 bytes"
        );
    }
}
