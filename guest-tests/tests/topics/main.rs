//! Bare-metal guests, one topic a file. Each programs the PMU as a driver would, and each
//! expectation is counted by hand beside the guest it belongs to.
//!
//! A topic is a function over the part. It is a test on every engine and every part, called as in
//! `overflow::kvm::k8::counters_are_independent`; where it does not apply ([`applicability`]), the
//! test is ignored and the reason stands in its line.

mod applicability;

use std::process::ExitCode;

use guest_tests::{Engine, Part, Result, on_engine};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use vpmu::engine::EngineKind;
use vpmu::engine::kvm::host::Host;

/// What is tested of a part.
struct Topic {
    name: &'static str,
    test: fn(&'static Part) -> Result,
}

/// Lists the topics of a file, by the names of their functions.
macro_rules! topics {
    ($($topic:ident),+ $(,)?) => {
        pub(crate) const TOPICS: &[crate::Topic] =
            &[$(crate::Topic { name: stringify!($topic), test: $topic }),+];
    };
}

/// Lists the files.
macro_rules! files {
    ($($file:ident),+ $(,)?) => {
        $(mod $file;)+
        const FILES: &[(&str, &[Topic])] = &[$((stringify!($file), $file::TOPICS)),+];
    };
}

files!(
    beside,
    branches,
    breakpoints,
    classes,
    clock,
    counter_access,
    cpuid_features,
    cycles,
    demo,
    engines_agree,
    firmware,
    ipi,
    kernel_mode_float,
    local_apic,
    lvtpc,
    many,
    misses,
    modification,
    msr_storm,
    next_boundary,
    overflow,
    p55c,
    p6,
    pairing,
    pipelines,
    pmi,
    pmi_in_halt,
    pmi_priority,
    privilege,
    rdpmc,
    registers,
    silent,
    skid,
    smp,
    test_device,
    textbook,
    there_and_back,
    threads,
    timing,
    transfers,
    truth,
    truth_calls,
    vector_kernels,
    vector_unit,
);

/// Why a test on KVM is ignored that applies.
const NO_KVM: &str = "kvm: not available";

/// A test: a topic on an engine and a part.
struct Case {
    file: &'static str,
    topic: &'static Topic,
    engine: &'static Engine,
    part: &'static Part,
}

impl Case {
    fn name(&self) -> String {
        format!("{}::{}::{}::{}", self.file, self.engine.name, self.part.name, self.topic.name)
    }

    fn run(&self) -> std::result::Result<Completion, Failed> {
        on_engine(self.engine, || (self.topic.test)(self.part))?;
        Ok(Completion::Completed)
    }

    /// The trial of it. It is ignored if there is a reason `why_not`: while it runs, so that the
    /// reason is printed, or by a flag for those who only `list` tests.
    fn trial(self, why_not: Option<&'static str>, list: bool) -> Trial {
        let (name, flag) = (self.name(), list && why_not.is_some());
        let run = move || match why_not {
            Some(reason) => Ok(Completion::ignored_with(reason)),
            None => self.run(),
        };
        Trial::ignorable_test(name, run).with_ignored_flag(flag)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    FILES.iter().flat_map(|&(file, topics)| {
        Engine::ALL.into_iter().flat_map(move |engine| {
            Part::ALL.iter().filter(|part| engine.executes(part)).flat_map(move |part| {
                topics.iter().map(move |topic| Case { file, topic, engine, part })
            })
        })
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    // Those who list tests, and those who ask for what is ignored, go by the flag.
    let list = arguments.list || arguments.ignored;
    let no_kvm = Host::open().err();
    let mut without_kvm = 0;
    let mut trials = vec![Trial::test("applicability::every_entry_is_of_use", || {
        applicability::check();
        Ok(())
    })];
    for case in cases() {
        let lacks_kvm = case.engine.kind == EngineKind::Kvm && no_kvm.is_some();
        let why_not = applicability::why_not(&case).or(lacks_kvm.then_some(NO_KVM));
        let trial = case.trial(why_not, list);
        without_kvm += u32::from(why_not == Some(NO_KVM) && !arguments.is_filtered_out(&trial));
        trials.push(trial);
    }
    if let Some(why) = no_kvm.filter(|_| !arguments.list) {
        eprintln!("{NO_KVM}: {why}\nkvm: {without_kvm} tests are ignored");
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
