//! The command line as such: help, suggestions, colour.

use super::*;

tests!(alone_it_prints_help, what_is_mistyped, colour_by_the_usual_rules);

/// Runs `vpmu` with these words to its end, in an environment that says nothing of colour.
fn run(words: &[&str]) -> Output {
    run_with(words, &[])
}

/// The same with these variables in the environment.
fn run_with(words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(VPMU);
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    finish(command.args(words).envs(variables.iter().copied()))
}

/// What was printed on standard output by a run that is to end with status 0.
fn printed(words: &[&str]) -> String {
    let run = run(words);
    assert_eq!(said(&run), (String::new(), Some(0)), "{words:?}");
    String::from_utf8(run.stdout).expect("UTF-8")
}

/// The help goes to standard error, where it disturbs no program that reads the output, and the status is
/// that of a wrong command line; asked for, it is the output.
fn alone_it_prints_help() -> Verdict {
    let alone = run(&[]);
    let (text, status) = said(&alone);
    assert_eq!(status, Some(2));
    assert!(alone.stdout.is_empty());
    let help = printed(&["--help"]);
    for text in [&text, &help] {
        assert!(text.starts_with("A full-system x86 PMU emulator"), "{text}");
        assert!(
            text.contains("\nUsage: vpmu <COMMAND>\n") && text.contains("\nExamples:\n"),
            "{text}"
        );
    }
    Ok(())
}

/// One line, with what is likely to be meant.
fn what_is_mistyped() -> Verdict {
    for (words, meant) in [(&["evnts"][..], "'events'"), (&["run", "--dmeo", "list"], "'--demo'")] {
        let (text, status) = said(&run(words));
        assert_eq!((status, text.lines().count()), (Some(2), 1), "{text}");
        assert!(text.starts_with("vpmu: ") && text.contains("; tip: a similar "), "{text}");
        assert!(text.contains(meant), "{text}");
    }
    Ok(())
}

/// A pipe is no terminal; CLICOLOR_FORCE colours it all the same, and NO_COLOR has the last word
/// (https://no-color.org, https://bixense.com/clicolors).
fn colour_by_the_usual_rules() -> Verdict {
    let colours = |variables: &[(&str, &str)]| {
        let run = run_with(&["--help"], variables);
        assert_eq!(run.status.code(), Some(0));
        run.stdout.contains(&0x1B)
    };
    assert!(!colours(&[]));
    assert!(colours(&[("CLICOLOR_FORCE", "1")]));
    assert!(!colours(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]));
    Ok(())
}
