//! Runs tests that may find out, while they run, that this host cannot run them. Such a test is
//! reported as ignored, with its reason in its line.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

/// Why a test cannot run here.
#[derive(Clone, Debug)]
pub(crate) struct CannotRun(String);

impl CannotRun {
    /// `what` the host lacks, and the last line of what it says about it.
    pub(crate) fn without(what: &str, says: &str) -> Self {
        let says = says.trim().lines().last().unwrap_or_default();
        Self(format!("{what}: not available: {says}"))
    }

    /// What else is against it on this host.
    #[allow(dead_code, reason = "the tests of truth files lack nothing but other programs")]
    pub(crate) fn because(why: &str) -> Self {
        Self(why.into())
    }
}

/// A test passes, cannot run, or panics.
pub(crate) type Verdict = Result<(), CannotRun>;

/// A test.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Verdict,
}

/// Lists the tests of a file, by the names of their functions.
macro_rules! tests {
    ($($test:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[crate::harness::Test] =
            &[$(crate::harness::Test { name: stringify!($test), run: $test }),+];
    };
}
pub(crate) use tests;

/// Runs the tests of these files as the command line says.
pub(crate) fn run(files: &[(&str, &'static [Test])]) -> ExitCode {
    let trial = |file: &str, test: &'static Test| {
        Trial::ignorable_test(format!("{file}::{}", test.name), || match (test.run)() {
            Ok(()) => Ok(Completion::Completed),
            Err(CannotRun(why)) => Ok(Completion::ignored_with(why)),
        })
    };
    let trials =
        files.iter().flat_map(|&(file, tests)| tests.iter().map(move |test| trial(file, test)));
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
