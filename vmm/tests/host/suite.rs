//! `vpmu test`: images that pass, fail, hang or are not there, on several processors, as TAP and as JUnit's
//! XML.

use super::*;

tests!(
    images_pass_and_fail,
    a_value_of_more_than_a_byte_is_no_pass,
    all_processors_at_once,
    what_cannot_be_tested_is_a_usage_error
);

/// MOV AL, value; OUT F4h, AL.
const fn reports(value: u8) -> [u8; 4] {
    [0xB0, value, 0xE6, 0xF4]
}

/// An image of raw bytes as `vpmu test` takes it.
fn image(name: &str, code: &[u8]) -> String {
    format!("{}@0x7c00", payload(&format!("suite-{name}"), code).display())
}

/// Runs `vpmu test` with these words; the status and what is printed.
fn test(words: &[&str]) -> (String, Option<i32>) {
    let run = finish(Command::new(VPMU).arg("test").args(words));
    assert_eq!(String::from_utf8_lossy(&run.stderr), "", "{words:?}");
    (String::from_utf8(run.stdout).expect("UTF-8"), run.status.code())
}

/// MOV DX, 3F8h; MOV AL, '<'; OUT DX, AL; and 3 at the debug-exit port. HLT with interrupts disabled; JMP to
/// itself; and a file that is not there.
fn images_pass_and_fail() -> Verdict {
    let pass = image("pass", &reports(0));
    let prints = [&[0xBA, 0xF8, 0x03, 0xB0, b'<', 0xEE][..], &reports(3)].concat();
    let fail = image("fail", &prints);
    let (halt, hang) = (image("halt", HALT), image("hang", &[0xEB, 0xFE]));
    let junit = format!("junit.{}.xml", std::process::id());
    let junit = Path::new(env!("CARGO_TARGET_TMPDIR")).join(junit);
    let file = junit.display().to_string();
    let words = [&pass, &fail, &halt, &hang, "/nonexistent@0", "--timeout", "1"];
    let words = [&words[..], &["--jobs", "3", "--junit", &file, "--", "--mem", "4M"]].concat();
    let (text, status) = test(&words);
    assert_eq!(status, Some(1), "{text}");
    let expected = format!(
        "TAP version 13\n1..5\nok 1 - k8: {pass}\nnot ok 2 - k8: {fail}\n  ---\n  \
         message: \"the guest reports 3\"\n  console: |2\n    <\n  ...\nnot ok 3 - k8: {halt}\n  ---\n  \
         message: \"every processor is halted for good\"\n  diagnosis: |2\n    vcpu 0: halted by HLT \
         with IF clear: no interrupt wakes it; CPL 0, real mode, next 07c0:0002\n  ...\nnot ok 4 - k8: {hang}\n  ---\n  \
         message: \"the time limit is reached\"\n  diagnosis: |2\n    vcpu 0: at 07c0:0000: jmp 0; CPL 0, \
         real mode, IF clear\n  ...\nnot ok 5 - k8: /nonexistent@0\n  ---\n"
    );
    let rest =
        text.strip_prefix(&expected).unwrap_or_else(|| panic!("{text}\ninstead of\n{expected}"));
    assert_eq!(
        rest,
        "  message: \"--flat /nonexistent: cannot be read: No such file or directory (os error 2)\"\n  ...\n"
    );
    let xml = std::fs::read_to_string(&junit).expect("the XML");
    assert!(xml.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"), "{xml}");
    assert!(
        xml.contains("<testsuite name=\"vpmu\" tests=\"5\" failures=\"4\" errors=\"0\""),
        "{xml}"
    );
    assert_eq!(xml.matches("<testcase ").count(), 5, "{xml}");
    assert!(xml.contains("<failure message=\"the guest reports 3\"></failure>"), "{xml}");
    assert!(xml.contains("<system-out>&lt;</system-out>"), "{xml}");
    std::fs::remove_file(junit).expect("the file");
    Ok(())
}

/// MOV EAX, 80h; OUT F4h, EAX, in real mode with the operand size of 32 bits: 257 as an exit status, of which
/// a parent would see a 1.
fn a_value_of_more_than_a_byte_is_no_pass() -> Verdict {
    let code = [0x66, 0xB8, 0x80, 0, 0, 0, 0x66, 0xE7, 0xF4];
    let (text, status) = test(&[&image("wide", &code), "--", "--mem", "4M"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("message: \"the guest reports 128\""), "{text}");
    Ok(())
}

/// In the order of every list of processors, whoever is first to end.
fn all_processors_at_once() -> Verdict {
    let pass = image("all", &reports(0));
    let (text, status) = test(&[&pass, "--cpu", "all", "--jobs", "4", "--", "--mem", "4M"]);
    let names = ["p55c", "ppro", "pii", "p6", "pm", "k7", "k8", "knc"];
    let lines =
        names.iter().enumerate().map(|(n, name)| format!("ok {} - {name}: {pass}\n", n + 1));
    assert_eq!(text, format!("TAP version 13\n1..8\n{}", lines.collect::<String>()));
    assert_eq!(status, Some(0));
    let (text, status) = test(&[&pass, "--cpu", "knc,p6", "--", "--mem", "4M"]);
    assert_eq!((text.lines().count(), status), (4, Some(0)), "{text}");
    Ok(())
}

/// One line, and nothing has run.
fn what_cannot_be_tested_is_a_usage_error() -> Verdict {
    let pass = image("usage", &reports(0));
    for words in [
        &["--cpu", "k9", &pass][..],
        &[],
        &[&pass, "--", "--frobnicate"],
        &[&pass, "--", "--truth", "t"],
        &[&pass, "--jobs", "0"],
    ] {
        let run = finish(Command::new(VPMU).arg("test").args(words));
        let (text, status) = said(&run);
        assert_eq!((status, text.lines().count()), (Some(2), 1), "{text}");
        assert!(run.stdout.is_empty());
    }
    Ok(())
}
