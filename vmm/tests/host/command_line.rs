//! The command line as such: help, suggestions, colour.

use super::*;

tests!(
    alone_it_prints_help,
    what_is_mistyped,
    colour_by_the_usual_rules,
    the_list_of_processors,
    events_by_any_name
);

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

/// Name, counters and their bits (Intel MMX Technology manual, chapter 6; AMD 22007 and 26094; Intel 327357),
/// what CPUID calls the vendor, and whether a counter interrupts.
const PROCESSORS: [(&str, u64, u64, &str, &str); 8] = [
    ("p55c", 2, 40, "GenuineIntel", "none: pins"),
    ("ppro", 2, 40, "GenuineIntel", "each overflow"),
    ("pii", 2, 40, "GenuineIntel", "each overflow"),
    ("p6", 2, 40, "GenuineIntel", "each overflow"),
    ("pm", 2, 40, "GenuineIntel", "each overflow; masks LVTPC"),
    ("k7", 4, 48, "AuthenticAMD", "each overflow"),
    ("k8", 4, 48, "AuthenticAMD", "each overflow"),
    ("knc", 2, 40, "GenuineIntel", "first of the status"),
];

/// The README's table, which `ci/tidy` holds to the generated page of events, has the same numbers of events.
fn the_list_of_processors() -> Verdict {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = std::fs::read_to_string(readme).expect("the README");
    let text = printed(&["list"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 1 + PROCESSORS.len(), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&printed(&["list", "--json"])).expect("JSON");
    let rows = json.as_array().expect("an array");
    assert_eq!(rows.len(), PROCESSORS.len());
    for ((name, counters, width, vendor, interrupt), (line, row)) in
        PROCESSORS.into_iter().zip(lines[1..].iter().zip(rows))
    {
        assert!(
            line.starts_with(&format!("{name} ")) && line.ends_with(&format!("  {interrupt}")),
            "{line}"
        );
        assert!(line.contains(&format!("  {counters} x {width}  ")), "{line}");
        let in_readme = readme.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let cells: Vec<_> = in_readme.expect("its row").split('|').map(str::trim).collect();
        let [events, live, partial, pending] =
            [4, 9, 10, 11].map(|cell| cells[cell].parse::<u64>().expect("a number"));
        let absent = events - live - partial - pending;
        let words: Vec<_> = line.split_whitespace().collect();
        let numbers = [events, live, partial, pending, absent].map(|number| number.to_string());
        assert!(words.windows(5).any(|five| five == numbers), "{line}");
        assert_eq!(row["name"], name);
        assert_eq!((&row["counters"], &row["width"]), (&counters.into(), &width.into()), "{row}");
        assert_eq!(row["vendor"], vendor);
        for (key, number) in [("all", events), ("live", live), ("absent", absent)] {
            assert_eq!(row["events"][key], number, "{row}");
        }
    }
    Ok(())
}

/// By perf's name, by libpfm4's with a unit mask; and an event or a register of another processor is said to
/// be of that one.
fn events_by_any_name() -> Verdict {
    for (words, begins) in [
        (&["events", "branch-misses"][..], "C3h  RETIRED_MISPREDICTED_BRANCH_INSTRUCTIONS "),
        (&["events", "--cpu", "p6", "cache-references"], "2Eh  L2_RQSTS "),
        (&["events", "DISPATCHED_FPU:OPS_ADD"], "00h  "),
        (&["explain", "--encode", "help"], "EVENT[:WORD...]"),
    ] {
        let text = printed(words);
        assert!(text.starts_with(begins), "{words:?}: {text}");
    }
    for (words, ends) in [
        (&["events", "VPU_ELEMENTS_ACTIVE"][..], "; it is on knc\n"),
        (&["explain", "--encode", "VPU_ELEMENTS_ACTIVE"], "; it is on knc\n"),
        (&["explain", "CESR", "0"], "; it is on p55c\n"),
        (
            &["explain", "--encode", "RETIRED_INSTRUCTIONS:x"],
            "; --encode help lists the modifiers\n",
        ),
    ] {
        let (text, status) = said(&run(words));
        assert_eq!((status, text.lines().count()), (Some(2), 1), "{text}");
        assert!(text.ends_with(ends), "{text}");
    }
    Ok(())
}
