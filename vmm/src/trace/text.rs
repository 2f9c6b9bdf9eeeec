//! A line an act, for people.

use std::fmt::Write as _;

use super::{Format, Record, Subject, words};

pub(super) struct Text;

impl Format for Text {
    fn begin(&mut self, out: &mut String, _: &Subject) {
        let (cycles, seconds, code, retired) = ("cycles", "seconds", "cs:rip", "retired");
        let line =
            format_args!("{cycles:>13} {seconds:>14} vcpu cpl {code:>21} {retired:>12}  act\n");
        // To a string: it does not fail.
        let _ = out.write_fmt(line);
    }

    fn act(&mut self, out: &mut String, record: &Record<'_>) {
        let Record { subject, vcpu, at, .. } = *record;
        let nanoseconds = subject.nanoseconds(at.time);
        let (whole, part) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
        let (cpl, code) = match at.code {
            Some(code) => (code.cpl.to_string(), format!("{:04x}:{:08x}", code.cs, code.rip)),
            None => ("-".into(), "-".into()),
        };
        let retired = at.retired.map_or("-".into(), |retired| retired.to_string());
        let line = format_args!(
            "{:>13} {whole:>4}.{part:09} {vcpu:>4} {cpl:>3} {code:>21} {retired:>12}  {}\n",
            at.time,
            words::of(record)
        );
        let _ = out.write_fmt(line);
    }
}
