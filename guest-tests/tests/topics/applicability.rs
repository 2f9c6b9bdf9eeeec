//! Which topics do not apply to which parts, and why.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use guest_tests::{Part, Result, on_engine};
use vpmu::engine::EngineKind;
use vpmu::engine::kvm::host::Host;

/// A topic that makes no sense on some parts.
struct Exception {
    /// `file::topic`, or `file` for all of its topics.
    topic: &'static str,
    parts: &'static [&'static str],
    why: &'static str,
}

const fn not(topic: &'static str, parts: &'static [&'static str], why: &'static str) -> Exception {
    Exception { topic, parts, why }
}

const INTEL: &[&str] = &["p55c", "ppro", "pii", "p6", "pm", "knc"];
const P6_FAMILY: &[&str] = &["ppro", "pii", "p6", "pm"];
const NOT_KNC: &[&str] = &["p55c", "ppro", "pii", "p6", "pm", "k7", "k8"];
const NO_INT: &str = "an overflow interrupts nobody: it toggles the pins PM0 and PM1";
const NO_CMASK: &str = "CESR has no edge detection, inversion or counter mask";
const NO_MASKED: &str = "no event counts the cycles with interrupts masked";

const EXCEPTIONS: &[Exception] = &[
    not("branches::system_calls", INTEL, "no SYSCALL in 32-bit code"),
    not("branches::system_calls_between_levels", INTEL, "no SYSCALL in 32-bit code"),
    not("breakpoints", P6_FAMILY, "no event counts matches of debug registers"),
    not("breakpoints", &["knc"], "no event counts matches of debug registers"),
    not("classes::clflush_and_cpuid", INTEL, "no such events"),
    not("classes::clflush_and_cpuid", &["k7"], "no such events"),
    not("classes::floating_point_and_media", INTEL, "no such event"),
    not("classes::floating_point_and_media", &["k7"], "no such event"),
    not("classes::fast_flags", INTEL, "no such event"),
    not("classes::fast_flags", &["k7"], "no such event"),
    not("classes::software_prefetches", INTEL, "no such event, or one of hits and misses"),
    not("classes::software_prefetches", &["k7"], "no such event"),
    not("classes::locked_operations", P6_FAMILY, "no such event"),
    not("classes::locked_operations", &["k7", "knc"], "no such event"),
    not("classes::misaligned_accesses", &["knc"], "no such event"),
    not("classes::segment_loads", &["knc"], "no such event"),
    not("classes::segment_loads_by_register", INTEL, "the event has no unit masks"),
    not("classes::memory_references", &["k7", "k8"], "counted in the cache, of which no model is"),
    not("classes::floating_point_operations", &["k7", "k8", "knc"], "no such event"),
    not("classes::port_accesses", P6_FAMILY, "no such event"),
    not("classes::port_accesses", &["k7", "k8", "knc"], "no such event"),
    not("classes::mmx", &["ppro", "knc"], "no MMX"),
    not("classes::mmx", &["k7", "k8"], "no event of saturating instructions"),
    not("classes::mmx_transitions", &["ppro", "knc"], "no MMX"),
    not("classes::mmx_transitions", &["k7", "k8"], "no event of transitions"),
    not("cycles::masked_cycles", &["p55c", "knc"], NO_MASKED),
    not("cycles::masked_throughout", &["p55c", "knc"], NO_MASKED),
    not("cycles::masked_and_pending", &["p55c", "knc"], NO_MASKED),
    not("cycles::edges_at_one_level", &["p55c", "knc"], NO_MASKED),
    not("cycles::instructions_per_cycle", &["p55c"], NO_CMASK),
    not("lvtpc", &["p55c"], NO_INT),
    not("lvtpc::delivery_does_not_mask", &["pm"], "delivery masks"),
    not(
        "lvtpc::delivery_masks",
        &["ppro", "pii", "p6", "k7", "k8", "knc"],
        "delivery does not mask",
    ),
    not("p55c", P6_FAMILY, "CESR is P55C's"),
    not("p55c", &["k7", "k8", "knc"], "CESR is P55C's"),
    not("p6", &["p55c", "k7", "k8", "knc"], "one enable bit and signed writes are P6's"),
    not("pmi", &["p55c"], NO_INT),
    not(
        "pmi::two_overflows_are_two_interrupts",
        &["knc", "pm"],
        "one interrupt until the handler acts",
    ),
    not(
        "pmi::two_overflows_of_hlt_are_two_interrupts",
        &["knc", "pm"],
        "one interrupt until the handler acts",
    ),
    not("registers::global_registers", &["p55c", "k7", "k8"], "no global registers"),
    not("registers::global_registers", P6_FAMILY, "no global registers"),
    not("demo::the_table_adds_up", &["p55c"], NO_INT),
    not("skid", &["p55c"], NO_INT),
    not("threads::spflt_selects_a_region", NOT_KNC, "no SPFLT"),
    not("threads::each_thread_counts_its_region", NOT_KNC, "no SPFLT"),
    not("threads::a_counter_for_all_threads", NOT_KNC, "one thread a core"),
    not("threads::two_overflows_are_one_interrupt", NOT_KNC, "an interrupt an overflow"),
    not("threads::a_later_overflow_is_in_the_status", NOT_KNC, "no overflow status"),
    not("threads::the_wrong_order_loses_the_next", NOT_KNC, "no overflow status"),
    not("threads::a_core_has_one_time_stamp_counter", NOT_KNC, "one thread a core"),
];

/// Topics that make no sense on KVM, and why.
const NOT_ON_KVM: &[(&str, &str)] = &[
    ("demo::two_runs_are_equal", "time outside of counting is the host's"),
    ("threads::a_core_has_one_time_stamp_counter", "the time-stamp counters are the host's"),
];

fn not_on_kvm(file: &str, topic: &str) -> bool {
    NOT_ON_KVM.iter().any(|(known, _)| known.split_once("::") == Some((file, topic)))
}

/// The entry that says that `topic` of `file` does not apply to `part`.
fn exception(file: &str, topic: &str, part: &str) -> Option<&'static Exception> {
    EXCEPTIONS.iter().find(|exception| {
        let same = match exception.topic.split_once("::") {
            Some(known) => known == (file, topic),
            None => exception.topic == file,
        };
        same && exception.parts.contains(&part)
    })
}

/// Runs `body` on the engine and for the part that the modules at `path` are called after, unless
/// `topic` does not apply to them or this host has no such engine.
pub(crate) fn test(path: &str, topic: &str, body: fn(&'static Part) -> Result) -> Result {
    let mut modules = path.rsplit("::");
    let (Some(part), Some(engine), Some(file)) = (modules.next(), modules.next(), modules.next())
    else {
        panic!("{path} is no part of a topic");
    };
    if exception(file, topic, part).is_some() {
        return Ok(());
    }
    let engine = match engine {
        "soft" => EngineKind::Soft,
        "kvm" if not_on_kvm(file, topic) || !kvm_is_there() => return Ok(()),
        "kvm" => EngineKind::Kvm,
        other => panic!("{other} is no engine"),
    };
    on_engine(engine, || body(Part::by_name(part)))
}

/// Whether this host has KVM. If not, says why, once, and then how many tests have done without.
fn kvm_is_there() -> bool {
    static WHY_NOT: OnceLock<Option<String>> = OnceLock::new();
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let why_not = WHY_NOT.get_or_init(|| {
        let why = Host::open().err()?.to_string();
        say(&format!("kvm: not available: {why}\n"));
        Some(why)
    });
    if why_not.is_some() {
        let skipped = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
        say(&format!("kvm: {skipped} skipped\n"));
    }
    why_not.is_none()
}

/// Past the test harness, which would keep it to itself.
fn say(text: &str) {
    std::io::stderr().write_all(text.as_bytes()).expect("stderr");
}

#[test]
fn what_does_not_apply() {
    let mut text = String::from("topics that do not apply:\n");
    for Exception { topic, parts, why } in EXCEPTIONS {
        for part in *parts {
            assert!(Part::ALL.iter().any(|known| known.name == *part), "{part} is no part");
        }
        text += &format!("  {topic} on {}: {why}\n", parts.join(", "));
    }
    for (topic, why) in NOT_ON_KVM {
        text += &format!("  {topic} on KVM: {why}\n");
    }
    say(&text);
}
