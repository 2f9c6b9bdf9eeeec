//! Writing and reading the file, also files that somebody made to be read wrongly.

use vpmu::framed::{FormatError, Problem};
use vpmu::truth::Truth;

use crate::harness::{Verdict, tests};
use crate::{path, sample, sample_file, vpmu_truth};

tests![
    what_is_written_is_read,
    the_sample_is_consistent,
    what_is_no_truth_file_is_told_apart,
    every_length_but_the_whole_is_truncated,
    every_damaged_byte_is_noticed,
    no_bytes_break_the_reader,
    a_length_takes_no_memory,
    parts_that_do_not_agree_are_refused,
];

/// The same line in front of another body, with a CRC that fits.
fn with_body(body: &[u8]) -> Vec<u8> {
    let line = format!("vpmu-truth 2 {} {:08x}\n", body.len(), crc32fast::hash(body));
    [line.as_bytes(), body].concat()
}

/// Where the body begins.
fn body(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| byte == b'\n').expect("a line") + 1
}

fn what_is_written_is_read() -> Verdict {
    let truth = sample::truth();
    let file = sample_file("written");
    assert_eq!(Truth::read(&file).expect("a truth"), truth);
    assert_eq!(std::fs::read(&file).expect("bytes"), truth.to_bytes());
    let empty = Truth::default();
    assert_eq!(Truth::from_bytes(&empty.to_bytes()), Ok(empty));
    let error = truth.write("/nonexistent/truth".as_ref()).unwrap_err();
    assert!(error.to_string().starts_with("cannot write /nonexistent/truth: "), "{error}");
    Ok(())
}

/// What is executed is executed in a context.
fn the_sample_is_consistent() -> Verdict {
    let truth = sample::truth();
    let own = |event: usize| truth.contexts.iter().map(|context| context.own[event]).sum::<u64>();
    assert_eq!(truth.totals(), sample::TOTALS);
    assert_eq!([own(0), own(1)], sample::TOTALS);
    Ok(())
}

fn what_is_no_truth_file_is_told_apart() -> Verdict {
    let whole = sample::truth().to_bytes();
    let mut longer = whole.clone();
    longer.push(0);
    let mut other = whole.clone();
    let last = other.len() - 1;
    other[last] ^= 1;
    let first = String::from_utf8_lossy(&whole[..body(&whole)]).replace("truth 2", "truth 1");
    let whole_length = whole.len() - body(&whole);
    let truncated = format!(
        "a truncated truth file: {} of {whole_length} bytes behind its first line",
        whole_length - 1
    );
    let cases: [(&[u8], &str); 10] = [
        (b"", "no truth file: does not start with \"vpmu-truth 2\""),
        (b"\x7FELF\n", "no truth file: does not start with \"vpmu-truth 2\""),
        (&[b'x'; 1000], "no truth file: does not start with \"vpmu-truth 2\""),
        (first.as_bytes(), "a truth file of version 1; expected version 2"),
        (b"vpmu-truth 2 1", "a truncated truth file: it ends in its first line"),
        (&whole[..last], &truncated),
        (&longer, "a corrupt truth file: something follows its end"),
        (&other, "a corrupt truth file: its CRC is another"),
        (b"vpmu-truth 2 one 0\n", "a corrupt truth file: its first line has no length and CRC"),
        (&with_body(b"\x00\x00"), "a corrupt truth file: "),
    ];
    for (index, (bytes, expected)) in cases.into_iter().enumerate() {
        let file = path(&format!("no-truth-{index}"));
        std::fs::write(&file, bytes).expect("a file");
        let (text, error, status) = vpmu_truth(&file, "");
        let expected = format!("vpmu: {} is {expected}", file.display());
        assert!(error.starts_with(&expected), "{error}\n{expected}");
        assert!(error.ends_with('\n') && error.lines().count() == 1, "{error}");
        assert_eq!((&*text, status), ("", Some(4)));
    }
    let (_, error, status) = vpmu_truth("/".as_ref(), "");
    assert!(error.starts_with("vpmu: cannot read /: "), "{error}");
    assert_eq!(status, Some(4));
    Ok(())
}

fn every_length_but_the_whole_is_truncated() -> Verdict {
    let whole = sample::truth().to_bytes();
    for length in "vpmu-truth ".len()..whole.len() {
        let error = Truth::from_bytes(&whole[..length]).unwrap_err();
        assert!(matches!(error.problem, Problem::Truncated { .. }), "{length}: {error}");
    }
    Ok(())
}

fn every_damaged_byte_is_noticed() -> Verdict {
    let whole = sample::truth().to_bytes();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        // The digits of the CRC may be capitals.
        let capital = at < body(&whole) && bytes[at].eq_ignore_ascii_case(&whole[at]);
        assert!(capital || Truth::from_bytes(&bytes).is_err(), "byte {at}");
    }
    Ok(())
}

/// Every byte of the body replaced by others that begin something in CBOR, with a CRC that fits: either
/// the reader refuses it, or what it gives can be written and read.
fn no_bytes_break_the_reader() -> Verdict {
    let whole = sample::truth().to_bytes();
    let body = &whole[body(&whole)..];
    let mut accepted = 0;
    for at in 0..body.len() {
        for byte in [0, 1, 0x17, 0x1B, 0x20, 0x5B, 0x7B, 0x80, 0x9B, 0x9F, 0xBB, 0xF6, 0xFB, 0xFF] {
            let mut body = body.to_vec();
            body[at] = byte;
            if let Ok(truth) = Truth::from_bytes(&with_body(&body)) {
                assert_eq!(truth.check(), Ok(()));
                assert_eq!(Truth::from_bytes(&truth.to_bytes()), Ok(truth));
                accepted += 1;
            }
        }
    }
    // Other counts and names are no errors.
    assert!(accepted > 100, "{accepted}");
    Ok(())
}

/// Arrays, byte strings and texts that claim 2^62 elements (RFC 8949, section 3: 1Bh, a length of eight
/// bytes, in each major type), and arrays within arrays without an end.
fn a_length_takes_no_memory() -> Verdict {
    let truth = Truth { personality: "k8".into(), ..Truth::default() };
    let bytes = truth.to_bytes();
    let body = &bytes[body(&bytes)..];
    let name = b"\x62k8";
    let at = body.windows(3).position(|window| window == name).expect("the personality");
    for major in [0x5B, 0x7B, 0x9B, 0xBB] {
        let long = [&body[..at], &[major, 0x40, 0, 0, 0, 0, 0, 0, 0], &body[at + 3..]].concat();
        assert!(Truth::from_bytes(&with_body(&long)).is_err());
        assert!(Truth::from_bytes(&with_body(&long[at..])).is_err());
        let rows = b"\x64rows\x80";
        let at = body.windows(6).position(|window| window == rows).expect("the rows") + 5;
        let long = [&body[..at], &[major, 0x40, 0, 0, 0, 0, 0, 0, 0], &body[at + 1..]].concat();
        assert!(Truth::from_bytes(&with_body(&long)).is_err());
    }
    assert!(Truth::from_bytes(&with_body(&[0x9F; 1 << 20])).is_err());
    assert!(Truth::from_bytes(&with_body(&[0x81; 1 << 20])).is_err());
    let error = Truth::from_bytes(format!("vpmu-truth 2 {} 0\nx", u64::MAX).as_bytes());
    assert!(matches!(error, Err(FormatError { problem: Problem::Truncated { bytes: 1, .. }, .. })));
    Ok(())
}

fn parts_that_do_not_agree_are_refused() -> Verdict {
    type Change = fn(&mut Truth);
    let cases: [(Change, &str); 15] = [
        (|t| t.instructions[2].space = 2, "instruction 2: space 2 of 2"),
        (|t| t.instructions[2].bits = 8, "instruction 2: code of 8 bits"),
        (|t| t.instructions[2].bytes = vec![0x66; 16], "instruction 2: 16 bytes long"),
        (|t| t.rows[1].instruction = 15, "row 1: instruction 15 of 15"),
        (|t| t.rows[1].vcpu = 2, "row 1: processor 2 of 2"),
        (|t| t.rows[1].cpl = 4, "row 1: privilege level 4"),
        (|t| t.rows[1].counts.push(0), "row 1: 3 counts of 2 events"),
        (|t| t.contexts[1].parent = Some(1), "context 1: it stands before context 1, "),
        (
            |t| t.contexts[1].parent = Some(u32::MAX),
            "context 1: it stands before context 4294967295, ",
        ),
        (|t| t.contexts[1].space = 2, "context 1: space 2 of 2"),
        (|t| t.contexts[1].cpl = 7, "context 1: privilege level 7"),
        (|t| t.contexts[1].own.clear(), "context 1: 0 counts of 2 events"),
        (|t| t.modules[1].space = Some(9), "module 1: space 9 of 2"),
        (|t| t.rows[1].counts[1] = u64::MAX, "the counts of \"loads\" exceed 64 bits"),
        (|t| t.contexts[1].times = u64::MAX, "the contexts were entered more often than "),
    ];
    for (change, expected) in cases {
        let mut truth = sample::truth();
        change(&mut truth);
        let Err(FormatError { problem: Problem::Corrupt(what), .. }) =
            Truth::from_bytes(&truth.to_bytes())
        else {
            panic!("accepted: {expected}");
        };
        assert!(what.starts_with(expected), "{what}");
    }
    Ok(())
}
