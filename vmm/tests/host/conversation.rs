//! Console input that waits for what the guest prints, the guest's own exit status, and the ways in which a
//! bare program is loaded.

use super::*;

tests!(
    a_prompt_is_answered,
    a_script_waits_for_a_prompt,
    a_prompt_that_never_came_is_named,
    a_flat_image_at_an_address_with_a_suffix,
    an_elf_without_a_boot_protocol
);

/// Prints ">", waits for a byte, prints it and reports it at the debug-exit port.
const CONVERSATION: &[u8] = &[
    0xBA, 0xF8, 0x03, // MOV DX, 3F8h
    0xB0, b'>', // MOV AL, '>'
    0xEE, // OUT DX, AL
    0xBA, 0xFD, 0x03, // MOV DX, 3FDh: line status
    0xEC, // IN AL, DX
    0xA8, 0x01, // TEST AL, 1: data ready
    0x74, 0xF8, // JZ, to MOV DX, 3FDh
    0xBA, 0xF8, 0x03, // MOV DX, 3F8h
    0xEC, // IN AL, DX
    0xEE, // OUT DX, AL
    0xE6, 0xF4, // OUT F4h, AL
];

/// Runs the conversation with these options, for a test: its output, what was said and the status.
fn converse(test: &str, options: &[&str]) -> (String, String, Option<i32>) {
    let name = format!("conversation-{test}");
    let flat = format!("{}@0x7c00", payload(&name, CONVERSATION).display());
    let words = ["run", "--flat", &flat, "--mem", "4M", "--stats", "none"];
    let run = finish(Command::new(VPMU).args(words).args(options));
    let (text, status) = said(&run);
    (String::from_utf8(run.stdout).expect("UTF-8"), text, status)
}

/// 'k' is 6Bh, 107; by default the status is value * 2 + 1.
fn a_prompt_is_answered() -> Verdict {
    let answered = |status| (">k".to_owned(), String::new(), Some(status));
    assert_eq!(converse("prompt", &["--expect", ">=k", "--exit-raw"]), answered(107));
    assert_eq!(converse("prompt", &["--expect", ">=k"]), answered(215));
    Ok(())
}

fn a_script_waits_for_a_prompt() -> Verdict {
    let file = format!("conversation.{}", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    std::fs::write(&file, "wait \">\"\n+50 \"j\"\n").expect("a script");
    let ended = converse("script", &["--input", &file.display().to_string(), "--exit-raw"]);
    assert_eq!(ended, (">j".into(), String::new(), Some(106)));
    std::fs::remove_file(file).expect("the script");
    Ok(())
}

/// Status 122: --max-instructions was reached.
fn a_prompt_that_never_came_is_named() -> Verdict {
    let (output, text, status) =
        converse("never", &["--expect", "#=k", "--max-instructions", "1000000"]);
    assert_eq!((&*output, status), (">", Some(122)));
    let line = "vpmu: the guest never printed \"#\", for which the console input waits\n";
    assert!(text.contains(line), "{text}");
    Ok(())
}

/// XOR EAX, EAX; OUT F4h, AL, in 32-bit protected mode.
const REPORTS: &[u8] = &[0x31, 0xC0, 0xE6, 0xF4];

fn a_flat_image_at_an_address_with_a_suffix() -> Verdict {
    let flat = format!("{}@1M", payload("suffix", REPORTS).display());
    let words = ["run", "--flat", &flat, "--mem", "4M", "--stats", "none", "--exit-raw"];
    assert_eq!(said(&finish(Command::new(VPMU).args(words))), (String::new(), Some(0)));
    Ok(())
}

/// System V ABI, figures 4-3 and 5-1: the header of an executable for the 80386, entry 10_0054h, and one
/// loadable segment: all of the file, at 10_0000h.
fn an_elf_without_a_boot_protocol() -> Verdict {
    let mut file = b"\x7FELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0\x01\0\0\0".to_vec();
    for word in [0x10_0054_u32, 52, 0, 0, 32 << 16 | 52, 1, 0] {
        file.extend(word.to_le_bytes());
    }
    for word in [1_u32, 0, 0x10_0000, 0x10_0000, 88, 88, 5, 4] {
        file.extend(word.to_le_bytes());
    }
    file.extend(REPORTS);
    assert_eq!(file.len(), 88);
    let path = payload("bare-elf", &file);
    let mut command = Command::new(VPMU);
    command.args(["run", "--mem", "4M", "--stats", "none", "--exit-raw", "--kernel"]).arg(&path);
    let (text, status) = said(&finish(&mut command));
    let line = format!(
        "vpmu: {}: a 32-bit ELF without a multiboot header: starts at its entry, 0x100054, in protected mode \
         with flat segments, without paging\n",
        path.display()
    );
    assert_eq!((text, status), (line, Some(0)));
    Ok(())
}
