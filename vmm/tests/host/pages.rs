//! What is installed beside the program is understood by those for whom it is: shells load the completions
//! and complete with them, and man(1) has nothing to say against the pages.

use super::*;

tests!(
    bash_completes,
    zsh_completes,
    fish_completes,
    man_takes_the_pages,
    mandoc_takes_the_pages,
    an_unknown_page
);

/// The commands, each of which has a page of its own.
const COMMANDS: [&str; 11] = [
    "test",
    "run",
    "stat",
    "list",
    "events",
    "explain",
    "reference",
    "truth",
    "completions",
    "exec",
    "fetch",
];

/// The folder that `readers` beside this file has unpacked programs in, or why it could not.
fn readers() -> Result<&'static Path, CannotRun> {
    static ROOT: LazyLock<Result<PathBuf, CannotRun>> = LazyLock::new(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host/readers");
        let child = Command::new(script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let output = child.expect("the script").wait_with_output().expect("its output");
        match output.status.code() {
            Some(0) => Ok(String::from_utf8(output.stdout).expect("UTF-8").trim_end().into()),
            Some(3) => Err(CannotRun::without("apt", "shells and mandoc are not to be had")),
            _ => panic!("readers failed; its reason is on the standard error"),
        }
    });
    ROOT.as_deref().map_err(Clone::clone)
}

/// Runs a program of the host or of the readers, or says that it is not there.
fn run(program: &str, words: &[&str]) -> Result<Output, CannotRun> {
    let mut command = Command::new(program);
    if program.starts_with('/') {
        let root = readers()?;
        command.env("LD_LIBRARY_PATH", root.join("usr/lib/x86_64-linux-gnu"));
        command.env("READERS", root).env("HOME", env!("CARGO_TARGET_TMPDIR"));
    }
    // Lines of a width at which the longest word fits.
    command.args(words).env("MANWIDTH", "200").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|e| CannotRun::without(program, &e.to_string()))?;
    Ok(wait_for(child))
}

/// A new folder for a test.
fn folder(test: &str) -> PathBuf {
    let folder = format!("{test}.{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Loads the completions for `shell` in it and has `script` use them, with the file's name as `$file`. It is
/// to print these words and nothing else.
fn completes(shell: &str, program: &str, script: &str, expected: &[&str]) -> Verdict {
    let made = finish(Command::new(VPMU).args(["completions", shell]));
    assert_eq!(said(&made), (String::new(), Some(0)));
    let folder = folder(shell);
    let file = folder.join("_vpmu");
    std::fs::write(&file, made.stdout).expect("a file");
    let script = script.replace("$file", &file.display().to_string());
    let ran = run(program, &["-c", &script])?;
    let (text, errors) =
        (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    let words: Vec<_> = text.split_whitespace().collect();
    assert_eq!((words, &*errors), (expected.to_vec(), ""));
    std::fs::remove_dir_all(folder).expect("the folder");
    Ok(())
}

/// bash(1), "Programmable Completion": the function's arguments are the command, the word and the one before.
fn bash_completes() -> Verdict {
    let script = "source $file; complete -p vpmu >/dev/null
        COMP_WORDS=(vpmu ev) COMP_CWORD=1; _vpmu vpmu ev vpmu; echo ${COMPREPLY[@]}
        COMP_WORDS=(vpmu run --cpu kn) COMP_CWORD=3; _vpmu vpmu kn --cpu; echo ${COMPREPLY[@]}";
    completes("bash", "bash", script, &["events", "knc"])
}

/// The path of one of the readers.
fn reader(path: &str) -> Result<String, CannotRun> {
    Ok(readers()?.join(path).display().to_string())
}

/// zshcompsys(1): once the system is there, a file defines a function and names its command.
fn zsh_completes() -> Verdict {
    let script = "module_path=($READERS/usr/lib/x86_64-linux-gnu/zsh/$ZSH_VERSION)
        fpath=($READERS/usr/share/zsh/functions/**/*(N/))
        autoload -U compinit; compinit -D -u; source $file; echo ${_comps[vpmu]}";
    completes("zsh", &reader("bin/zsh")?, script, &["_vpmu"])
}

/// fish's `complete -C` prints what it would offer.
fn fish_completes() -> Verdict {
    let script = "source $file; complete -C 'vpmu eve' | cut -f 1";
    completes("fish", &reader("usr/bin/fish")?, script, &["events"])
}

/// Has all pages written, and a checker read each of them: it is to print nothing on standard error, and as
/// much as `enough` bytes of text.
fn pages_are_taken(test: &str, program: &str, words: &[&str], enough: usize) -> Verdict {
    let folder = folder(test);
    let made = finish(Command::new(VPMU).args(["man", "--folder"]).arg(&folder));
    assert_eq!(said(&made), (String::new(), Some(0)));
    let pages = COMMANDS.iter().map(|command| format!("vpmu-{command}.1"));
    for page in pages.chain(["vpmu.1".to_owned()]) {
        let path = folder.join(&page).display().to_string();
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{page}: {e}"));
        assert!(text.contains("\n.SH SYNOPSIS\n"), "{page}: {text}");
        let read = run(program, &[words, &[&path]].concat())?;
        let errors = String::from_utf8_lossy(&read.stderr);
        if read.status.code() == Some(127) || errors.contains("minimized") {
            return Err(CannotRun::without(program, &errors));
        }
        assert_eq!((&*errors, read.status.code()), ("", Some(0)), "{page}");
        assert!(read.stdout.len() >= enough, "{page}: {}", String::from_utf8_lossy(&read.stdout));
    }
    std::fs::remove_dir_all(folder).expect("the folder");
    Ok(())
}

fn man_takes_the_pages() -> Verdict {
    pages_are_taken("man", "man", &["--warnings", "-l"], 300)
}

/// It is silent about what is right, and what is a matter of taste is no error.
fn mandoc_takes_the_pages() -> Verdict {
    pages_are_taken("mandoc", &reader("usr/bin/mandoc")?, &["-Tlint", "-Werror"], 0)
}

/// It names those that there are.
fn an_unknown_page() -> Verdict {
    let (text, status) = said(&finish(Command::new(VPMU).args(["man", "dance"])));
    assert_eq!(status, Some(2));
    assert!(text.starts_with("vpmu: no command \"dance\"; known: run, stat, "), "{text}");
    assert_eq!(text.lines().count(), 1);
    Ok(())
}
