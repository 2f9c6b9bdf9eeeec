//! What the command line takes, and what it says of the rest.

use super::help::one_line;
use super::*;

fn line(arguments: &[&str]) -> String {
    let arguments = ["vpmu"].iter().chain(arguments);
    match Cli::try_parse_from(arguments) {
        Ok(_) => "accepted".into(),
        Err(error) => one_line(&error.render().to_string()),
    }
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn what_is_wrong_is_one_line() {
    for arguments in [
        &["run"][..],
        &["run", "--kernel", "k", "--flat", "f@0"],
        &["run", "--kernel", "k", "--smp", "-1"],
        &["run", "--kernel", "k", "--smp", "many"],
        &["run", "--kernel", "k", "--frobnicate"],
        &["run", "--kernel", "k", "--isa", "avx"],
        &["run", "--kernel", "k", "--engine", "xen"],
        &["run", "--kernel", "k", "--count", "some"],
        &["run", "--kernel", "k", "--hypervisor-bit=on"],
        &["run", "--kernel", "k", "--lvtpc-automask", "maybe"],
        &["run", "--flat", "f@0", "--initrd", "i"],
        &["run", "--flat", "f@0", "--input", "i", "--expect", "a=b"],
        &["explain", "C0010000"],
        &["truth"],
        &["truth", "t", "--by", "colour"],
        &["truth", "t", "--cpl", "4"],
        &["truth", "t", "--callgrind", "c", "--cpl", "3"],
        &["truth", "t", "--folded", "f", "--by", "cpl"],
        &["truth", "t", "--function", "f", "--by", "cpl"],
        &["exec"],
        &["stat", "--metrics"],
        &["dance"],
    ] {
        let text = line(arguments);
        assert!(!text.contains('\n') && text.ends_with("; see vpmu --help"), "{text}");
    }
}

/// Each command has examples in its help, and they are command lines that it takes.
#[test]
fn examples_are_accepted() {
    let command = Cli::command();
    for command in std::iter::once(&command).chain(command.get_subcommands()) {
        let name = command.get_name();
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let (_, examples) = help.split_once("Examples:\n").unwrap_or_else(|| panic!("{name}"));
        let examples: Vec<_> = examples.lines().take_while(|line| !line.is_empty()).collect();
        assert!(!examples.is_empty(), "{name}");
        for example in examples {
            let words: Vec<_> = example.split_whitespace().collect();
            assert_eq!(words[0], "vpmu", "{example}");
            assert!(name == "vpmu" || words[1] == name, "{example}");
            assert_eq!(line(&words[1..]), "accepted", "{example}");
        }
    }
}

#[test]
fn what_is_mistyped_is_answered_with_the_nearest() {
    for (arguments, meant) in [
        (&["explian"][..], "'explain'"),
        (&["run", "--kernle", "k"], "'--kernel'"),
        (&["run", "--isa", "strickt", "--kernel", "k"], "'strict'"),
    ] {
        let text = line(arguments);
        let (_, tip) = text.split_once("; tip: ").unwrap_or_else(|| panic!("{text}"));
        assert!(tip.contains(meant), "{text}");
    }
}

#[test]
fn a_wrong_way_to_count_is_answered_with_the_right_ones() {
    let text = line(&["run", "--kernel", "k", "--count", "some"]);
    assert!(text.contains("'some' for '--count"), "{text}");
    assert!(text.contains("exact, host, off"), "{text}");
    let text = line(&["run", "--kernel", "k", "--hypervisor-bit=on"]);
    assert!(text.contains("--hypervisor-bit"), "{text}");
}

#[test]
fn help_for_cpu_needs_nothing_else() {
    for text in ["run --cpu help", "events --cpu help", "explain --cpu help", "exec --cpu help"] {
        let arguments = ["vpmu"].into_iter().chain(text.split(' '));
        let Err(error) = Cli::try_parse_from(arguments) else { panic!("{text}: accepted") };
        assert!(!error.use_stderr());
        assert_eq!(error.render().to_string(), format!("error: {}", config::known_cpus()));
    }
}

#[test]
fn the_documented_forms_are_accepted() {
    for text in [
        "run --cpu k8 --kernel k --initrd i --append console=ttyS0 --smp 4 --mem 1G",
        "run --flat f@0x7c00 --serial log --input in --stats json --stats-file s",
        "run --demo sampling --timeout 5 --max-instructions 100 --skid 3 --clock 1000000000",
        "run --cpu knc --isa distro --lvtpc-automask on --smp 244 --kernel k",
        "run --engine kvm --smp 2 --flat f@0x100000",
        "run --engine auto --kernel k",
        "run --count off --hypervisor-bit --flat f@0",
        "run --engine kvm --count host --kernel k",
        "run --no-cache --kernel k",
        "exec --count exact -- ls",
        "run --engine kvm --irqchip kernel --smp 2 --flat f@0x100000",
        "run --cpu p6 --isa strict --lvtpc-automask off --flat f@0",
        "run --cpu p55c --boot firmware --smp 2 --demo sampling",
        "run --boot direct --kernel k",
        "run --kernel k --expect login:=root --expect #=poweroff",
        "run --flat f@1M --exit-raw",
        "stat --cpu knc --smp 4 --metrics --per-cpu --json --kernel k",
        "stat -e RETIRED_INSTRUCTIONS,cycles --demo sampling",
        "events --cpu k8 BRANCH --json",
        "events --cpu all BRANCH --json",
        "reference events",
        "reference msrs",
        "truth t --by instruction --event loads --limit 5 --cpl 3 --vcpu 0 --space sh --json",
        "truth t --function memcpy",
        "truth t --callgrind -",
        "truth t --folded stacks --event loads",
        "explain --cpu k8 C0010000 1100C2",
        "explain --encode RETIRED_BRANCH_INSTRUCTIONS:u:int",
        "exec --cpu k8 --kernel k -- ls -l",
        "exec --verbose -- cat",
        "exec --module e1000 --msr --busybox b --get p.data -- perf record",
        "fetch --suite trixie",
        "exec --env A=b --env C --cwd /tmp --add f:/tmp/g --add d --no-arg-files -- cat f",
    ] {
        let arguments: Vec<_> = text.split(' ').collect();
        assert_eq!(line(&arguments), "accepted", "{text}");
    }
}

/// What stands in the documents between backquotes and begins with `vpmu`, or with an option, is a command or
/// an option that there is.
#[test]
fn what_the_documents_name_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = [".", "docs", "examples", "firmware"].map(|folder| root.join(folder));
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    let command = Cli::command();
    let options_of = |command: &clap::Command| -> Vec<String> {
        command.get_arguments().filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect()
    };
    let all: Vec<String> = command.get_subcommands().flat_map(options_of).collect();
    // Of the guests' recipe, of git, of cargo and of other programs.
    const OTHERS: [&str; 10] = [
        "--i686",
        "--update",
        "--release",
        "--workspace",
        "--dry-run",
        "--check",
        "--help",
        "--version",
        "--all-targets",
        "--profile",
    ];
    let mut named = 0;
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        for span in text.split('`').skip(1).step_by(2).filter(|span| !span.contains('\n')) {
            let words: Vec<_> = span.split_whitespace().take_while(|word| *word != "--").collect();
            let known = match words[..] {
                ["vpmu", name, ..] if name.starts_with(|c: char| c.is_ascii_lowercase()) => {
                    let found = command.find_subcommand(name);
                    let found = found.unwrap_or_else(|| panic!("{}: {span}", file.display()));
                    options_of(found)
                }
                [first, ..] if first.starts_with("--") => all.clone(),
                _ => continue,
            };
            for word in words.iter().filter(|word| word.starts_with("--")) {
                let option = word.split(['=', '|', ',']).next().unwrap_or_default();
                let there = known.iter().any(|known| known == option);
                assert!(there || OTHERS.contains(&option), "{}: {span}", file.display());
                named += 1;
            }
        }
    }
    assert!(named > 100, "{named}");
}
