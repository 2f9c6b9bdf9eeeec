//! Scripted console input: what is typed, and at which virtual time.

use std::collections::VecDeque;

/// Console input with virtual time stamps, in the order of time.
///
/// One line of text each: the time in microseconds since power-on, then the bytes in double quotes.
/// `\n`, `\r`, `\t`, `\e`, `\0`, `\\`, `\"` and `\xHH` are escapes. Empty lines and lines that begin
/// with `#` are skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    entries: VecDeque<(u64, Vec<u8>)>,
}

impl Script {
    /// Reads a script for a machine whose clock has `clock_hz` cycles a second.
    ///
    /// # Errors
    /// The number of the first bad line, and what is wrong with it.
    pub fn parse(text: &str, clock_hz: u64) -> Result<Self, String> {
        let mut entries = VecDeque::new();
        let mut last = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (time, bytes) = parse_line(line, clock_hz)
                .map_err(|problem| format!("line {number}: {problem}"))?;
            if time < last {
                return Err(format!("line {number}: earlier than the line before"));
            }
            last = time;
            entries.push_back((time, bytes));
        }
        Ok(Self { entries })
    }

    /// When the next bytes are due, in cycles.
    #[must_use]
    pub fn next_time(&self) -> Option<u64> {
        self.entries.front().map(|(time, _)| *time)
    }

    /// Takes the bytes that are due at `now`.
    pub fn take_due(&mut self, now: u64) -> Vec<u8> {
        let mut due = Vec::new();
        while self.next_time().is_some_and(|time| time <= now) {
            due.extend(self.entries.pop_front().into_iter().flat_map(|(_, bytes)| bytes));
        }
        due
    }
}

fn parse_line(line: &str, clock_hz: u64) -> Result<(u64, Vec<u8>), String> {
    let (time, text) = line
        .split_once(char::is_whitespace)
        .ok_or("expected a time in microseconds and a text in double quotes")?;
    let time: u64 = time.parse().map_err(|_| format!("{time:?} is no time in microseconds"))?;
    let cycles = u128::from(time) * u128::from(clock_hz) / 1_000_000;
    let cycles = u64::try_from(cycles).map_err(|_| "the time is too far away".to_string())?;
    let text = text
        .trim()
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .ok_or("the text is not in double quotes")?;
    Ok((cycles, unescape(text)?))
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
                    .ok_or_else(|| format!("\\x{digits}: expected two hexadecimal digits"))?
            }
            Some(c) => return Err(format!("unknown escape \\{c}")),
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
            ("5", "line 1: expected a time in microseconds and a text in double quotes"),
            ("\nx \"a\"", "line 2: \"x\" is no time in microseconds"),
            ("5 a", "line 1: the text is not in double quotes"),
            ("5 \"", "line 1: the text is not in double quotes"),
            ("5 \"\\q\"", "line 1: unknown escape \\q"),
            ("5 \"\\x1\"", "line 1: \\x1: expected two hexadecimal digits"),
            ("5 \"a\"\n4 \"b\"", "line 2: earlier than the line before"),
            ("18446744073709551615 \"a\"", "line 1: the time is too far away"),
        ] {
            assert_eq!(Script::parse(text, 2_000_000_000).unwrap_err(), problem, "{text}");
        }
    }
}
