//! The target `driver`: Linux stands without lies, with those of the corpus, and with some that are generated; and it is
//! seen when it does not. Without a kernel all of that is ignored, with the reason.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use fuzz::driver::{Campaign, Target};
use libtest_mimic::{Arguments, Completion, Trial};

fn main() -> ExitCode {
    let available = fetch();
    let test = |name: &str, run: fn()| {
        let available = available.clone();
        Trial::ignorable_test(name, move || match available {
            Ok(()) => {
                run();
                Ok(Completion::Completed)
            }
            Err(why) => Ok(Completion::ignored_with(format!("linux: not available: {why}"))),
        })
    };
    let tests = vec![
        test("linux_stands_without_lies", linux_stands_without_lies),
        test("the_corpus_passes", the_corpus_passes),
        test("generated_inputs_pass", generated_inputs_pass),
    ];
    let mut arguments = Arguments::from_args();
    // One machine, which boots once, is enough.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, tests).exit_code()
}

/// Gets the kernel, and goes to where it is looked for: cargo starts tests in the folder of their package.
///
/// # Errors
/// This host cannot get it.
fn fetch() -> Result<(), String> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a project");
    env::set_current_dir(project).map_err(|e| e.to_string())?;
    let output = Command::new(project.join("guest-tests/linux/fetch")).output();
    let output = output.map_err(|e| format!("guest-tests/linux/fetch: {e}"))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(text.lines().last().unwrap_or("guest-tests/linux/fetch failed").into());
    }
    (target().needs)()
}

fn target() -> Target {
    Target::named("driver").expect("the target")
}

fn linux_stands_without_lies() {
    assert_eq!(target().play(&[]), Ok(0));
    // A PMI without an overflow, at once: the kernel says what it always says of an NMI that nobody claims.
    assert_eq!(target().play(&[11, 0, 0]), Ok(1));
}

fn the_corpus_passes() {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus/driver");
    target().replay(&[corpus]).unwrap_or_else(|failure| panic!("{failure}"));
}

fn generated_inputs_pass() {
    let campaign = Campaign { runs: 100, time: None, seed: 1, jobs: 1 };
    let played = target().campaign(campaign, |_, _| {});
    let played =
        played.unwrap_or_else(|find| panic!("{}", target().report(&find.bytes, &find.failure)));
    // Registers are written more often than read.
    assert!(played.inputs == 100 && played.operations > 200, "{played:?}");
}
