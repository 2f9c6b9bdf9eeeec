//! The command line of `vpmu-fuzz`: what is wrong with it is one line, and exit status 2.

use std::process::Command;

fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_vpmu-fuzz")).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let words = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = words.lines().collect();
    assert_eq!(lines.len(), 1, "{arguments:?}: {words}");
    lines[0].to_owned()
}

#[test]
fn a_target_that_there_is_not_is_told_with_those_there_are() {
    assert_eq!(
        refused(&["registers"]),
        "vpmu-fuzz: no target registers; there are pmu, instructions, machine, kvm, loaders, driver, \
         and replay and minimise; see vpmu-fuzz --help"
    );
}

#[test]
fn wrong_arguments_are_one_line() {
    for (arguments, what) in [
        (&["pmu", "--runs", "many"][..], "invalid value 'many' for '--runs <N>'"),
        (&["pmu", "--hours", "1"], "unexpected argument '--hours' found"),
        (&["replay"], "the following required arguments were not provided: <FILE>..."),
        (&["pmu", "--runs", "1", "input"], "cannot be used with"),
    ] {
        let line = refused(arguments);
        assert!(line.contains(what) && line.ends_with("; see vpmu-fuzz --help"), "{line}");
    }
}
