//! Which topics do not apply to which parts, and why.

use guest_tests::{Engine, Part};

use crate::{Case, cases};

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
    not("truth::a_watched_address", P6_FAMILY, "no event counts matches of debug registers"),
    not("truth::a_watched_address", &["knc"], "no event counts matches of debug registers"),
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
    not(
        "classes::memory_references_by_level",
        &["k7", "k8"],
        "reads of descriptor tables are accesses of the cache too",
    ),
    not("classes::memory_references_by_quadword", INTEL, "an access is one, whatever its size"),
    not("classes::floating_point_operations", &["k7", "k8", "knc"], "no such event"),
    not("classes::port_accesses", P6_FAMILY, "no such event"),
    not("classes::port_accesses", &["k7", "k8", "knc"], "no such event"),
    not("classes::mmx", &["ppro", "knc"], "no MMX"),
    not("classes::mmx", &["k7", "k8"], "no event of saturating instructions"),
    not("classes::mmx_transitions", &["ppro", "knc"], "no MMX"),
    not("classes::mmx_transitions", &["k7", "k8"], "no event of transitions"),
    not("clock::a_pmi_within_an_instruction", &["p55c"], NO_INT),
    not("clock::cycles_without_an_instruction", &["p55c"], NO_CMASK),
    not("counter_access::with_a_counter_mask", &["p55c"], NO_CMASK),
    not("cpuid_features", INTEL, "no such registers"),
    not("cpuid_features", &["k7"], "no such registers"),
    not("cycles::masked_cycles", &["p55c", "knc"], NO_MASKED),
    not("cycles::masked_throughout", &["p55c", "knc"], NO_MASKED),
    not("cycles::masked_and_pending", &["p55c", "knc"], NO_MASKED),
    not("cycles::edges_at_one_level", &["p55c", "knc"], NO_MASKED),
    not("cycles::instructions_per_cycle", &["p55c"], NO_CMASK),
    not("kernel_mode_float::mmx", &["ppro", "knc"], "no MMX"),
    not("kernel_mode_float::sse", &["p55c", "ppro", "pii", "k7", "knc"], "no SSE"),
    not("kernel_mode_float::sse2", &["p55c", "ppro", "pii", "p6", "k7", "knc"], "no SSE2"),
    not("local_apic", &["p55c"], "no IA32_APIC_BASE"),
    not("lvtpc", &["p55c"], NO_INT),
    not("lvtpc::delivery_does_not_mask", &["pm"], "delivery masks"),
    not(
        "lvtpc::delivery_masks",
        &["ppro", "pii", "p6", "k7", "k8", "knc"],
        "delivery does not mask",
    ),
    not(
        "many",
        &["p55c", "ppro", "pii", "p6", "pm", "k7"],
        "one part with a thread a core will do",
    ),
    not("textbook::a_matrix_keeps_waiting_by_columns", &["knc"], "no event counts waits for data"),
    not(
        "textbook::a_matrix_keeps_waiting_by_columns",
        &["pm"],
        "its second level has the matrix, and its window hides the rest",
    ),
    not("misses::a_pmi_comes_behind_the_miss", &["p55c"], NO_INT),
    not("misses::a_pmi_within_a_string", &["p55c"], NO_INT),
    not("misses::page_tables_loaded_again", P6_FAMILY, "no event counts misses of the data TLB"),
    not("next_boundary::of_a_pmi", &["p55c"], NO_INT),
    not("next_boundary::of_sysret", INTEL, "no SYSRET in 32-bit code"),
    not("p55c", P6_FAMILY, "CESR is P55C's"),
    not("p55c", &["k7", "k8", "knc"], "CESR is P55C's"),
    not("p6", &["p55c", "k7", "k8", "knc"], "one enable bit and signed writes are P6's"),
    not("pairing", P6_FAMILY, "no two pipes in order"),
    not("pairing", &["k7", "k8", "knc"], "no two pipes in order"),
    not("pipelines", &["p55c", "knc"], "no pipeline that executes out of order"),
    not("pipelines::code_written_before", P6_FAMILY, "no event counts restarts"),
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
    not("pmi_in_halt::a_pmi_behind_the_waking_handler", &["p55c"], NO_INT),
    not("pmi_in_halt::another_thread_overflows_it", NOT_KNC, "one thread a core"),
    not("pmi_priority", &["p55c"], NO_INT),
    not("registers::global_registers", &["p55c", "k7", "k8"], "no global registers"),
    not("registers::global_registers", P6_FAMILY, "no global registers"),
    not("demo::the_table_adds_up", &["p55c"], NO_INT),
    not("skid", &["p55c"], NO_INT),
    not("smp::pmis_go_to_their_own", &["p55c"], NO_INT),
    not("there_and_back::a_pmi_waits_across", &["p55c"], NO_INT),
    not("threads::spflt_sets_the_preference", NOT_KNC, "no SPFLT"),
    not("threads::spflt_selects_a_region", NOT_KNC, "no SPFLT"),
    not("threads::each_thread_counts_its_region", NOT_KNC, "no SPFLT"),
    not("threads::a_counter_for_all_threads", NOT_KNC, "one thread a core"),
    not("threads::an_event_of_the_core", NOT_KNC, "one thread a core"),
    not("threads::pushes_are_of_the_level_they_go_to", NOT_KNC, "one thread a core"),
    not("threads::what_a_sibling_has_brought_in", NOT_KNC, "one thread a core"),
    not("threads::two_overflows_are_one_interrupt", NOT_KNC, "an interrupt an overflow"),
    not("threads::a_later_overflow_is_in_the_status", NOT_KNC, "no overflow status"),
    not("threads::the_wrong_order_loses_the_next", NOT_KNC, "no overflow status"),
    not("timing", &["knc"], "its pipeline is not modelled yet"),
    not("timing::instructions_of_one_cycle", &["p55c"], NO_CMASK),
    not("threads::a_core_has_one_time_stamp_counter", NOT_KNC, "one thread a core"),
    not("vector_kernels", NOT_KNC, "no vector unit"),
    not("vector_unit", NOT_KNC, "no vector unit"),
];

const MANY: &str = "not every KVM has so many processors";
const HOSTS_TIME: &str = "time outside of counting is the host's";
const HOSTS_TSC: &str = "the time-stamp counters are the host's";
/// Without hardware beneath KVM: it looks for interrupts when it enters the guest, which may be long
/// after STI or after a message to the own local APIC.
const LATE: &str = "not every KVM takes its own local APIC's interrupts at once";

/// Topic `timing` and `docs/validation.md` have the cycles of pipelines.
const NOT_FLAT: &str = "it counts cycles of the flat clock";
/// Without hardware beneath KVM, which then cannot leave the processors to the software CPU either.
const NO_PAGING: &str = "not every KVM with an irqchip has paging outside long mode";

const NOT_RECORDED: &str = "the software engine records";
const KVMS_CPUID: &str = "KVM's CPUID is set once";

/// Topics that make no sense on one of the engines.
const OF_OTHER_ENGINES: &[(&str, &Engine, &str)] = &[
    ("demo::two_runs_are_equal", &Engine::KVM, HOSTS_TIME),
    ("demo::two_runs_are_equal", &Engine::KVM_IRQCHIP, HOSTS_TIME),
    ("threads::a_core_has_one_time_stamp_counter", &Engine::KVM, HOSTS_TSC),
    ("threads::a_core_has_one_time_stamp_counter", &Engine::KVM_IRQCHIP, HOSTS_TSC),
    ("ipi", &Engine::KVM, HOSTS_TSC),
    ("ipi", &Engine::KVM_IRQCHIP, HOSTS_TSC),
    ("engines_agree", &Engine::SOFT, "KVM is compared with it"),
    ("smp::exceptions_of_the_host_at_once", &Engine::SOFT, "no host raises exceptions for it"),
    ("cpuid_features::cpuid_says_what_was_written", &Engine::KVM, KVMS_CPUID),
    ("cpuid_features::cpuid_says_what_was_written", &Engine::KVM_IRQCHIP, KVMS_CPUID),
    ("engines_agree", &Engine::SAVED, "KVM is compared with the software engine"),
    ("engines_agree", &Engine::HOPPING, "the software engine's part of it has another clock"),
    ("smp::exceptions_of_the_host_at_once", &Engine::SAVED, "no host raises exceptions for it"),
    ("engines_agree", &Engine::RECORDED, "KVM is compared with the software engine"),
    ("smp::exceptions_of_the_host_at_once", &Engine::RECORDED, "no host raises exceptions for it"),
    ("truth", &Engine::KVM, NOT_RECORDED),
    ("truth", &Engine::KVM_IRQCHIP, NOT_RECORDED),
    ("truth_calls", &Engine::KVM, NOT_RECORDED),
    ("truth_calls", &Engine::KVM_IRQCHIP, NOT_RECORDED),
    ("clock", &Engine::TIMED, NOT_FLAT),
    ("counter_access::with_a_counter_mask", &Engine::TIMED, NOT_FLAT),
    ("cycles", &Engine::TIMED, NOT_FLAT),
    ("demo::totals_add_up", &Engine::TIMED, NOT_FLAT),
    ("p55c::clocks_and_occurrences", &Engine::TIMED, NOT_FLAT),
    ("p55c::counter_control", &Engine::TIMED, NOT_FLAT),
    ("p55c::twins_differ_by_counter", &Engine::TIMED, NOT_FLAT),
    ("pmi_in_halt::another_processor_ends_it", &Engine::TIMED, NOT_FLAT),
    ("smp::four_count_at_once", &Engine::TIMED, NOT_FLAT),
    ("smp::eight_count_at_once", &Engine::TIMED, NOT_FLAT),
    ("smp::they_start_and_stop_as_they_like", &Engine::TIMED, NOT_FLAT),
    ("beside", &Engine::KVM, HOSTS_TIME),
    ("beside", &Engine::KVM_IRQCHIP, HOSTS_TIME),
    ("beside", &Engine::PRICED, "it has a clock of its own"),
    ("many", &Engine::KVM, MANY),
    ("many", &Engine::KVM_IRQCHIP, MANY),
    ("timing", &Engine::KVM, HOSTS_TIME),
    ("timing", &Engine::KVM_IRQCHIP, HOSTS_TIME),
    ("timing", &Engine::PRICED, "it has a clock of its own"),
    ("engines_agree", &Engine::TIMED, "KVM is compared with the software engine"),
    ("smp::exceptions_of_the_host_at_once", &Engine::TIMED, "no host raises exceptions for it"),
    ("engines_agree", &Engine::PRICED, "KVM is compared with the software engine"),
    ("smp::exceptions_of_the_host_at_once", &Engine::PRICED, "no host raises exceptions for it"),
    ("local_apic", &Engine::KVM_IRQCHIP, "IA32_APIC_BASE is KVM's"),
    ("misses::page_tables_loaded_again", &Engine::KVM_IRQCHIP, NO_PAGING),
    ("next_boundary::of_the_uncounted", &Engine::KVM, LATE),
    ("next_boundary::of_the_uncounted", &Engine::KVM_IRQCHIP, LATE),
    ("pmi_priority", &Engine::KVM_IRQCHIP, LATE),
    ("there_and_back::a_pmi_waits_across", &Engine::KVM_IRQCHIP, LATE),
];

impl Case {
    /// Whether it is of `file::topic`, or of any topic of `file`.
    fn is_of(&self, topic: &str) -> bool {
        match topic.split_once("::") {
            Some(known) => known == (self.file, self.topic.name),
            None => topic == self.file,
        }
    }
}

/// Whether what makes no sense on `engine` does not on `other`.
fn is_of(engine: &Engine, other: &Engine) -> bool {
    engine == other || *engine == Engine::KVM && *other == Engine::HOPPING
}

/// Why `case` makes no sense, if it does not.
pub(crate) fn why_not(case: &Case) -> Option<&'static str> {
    let of_part = EXCEPTIONS
        .iter()
        .find(|exception| exception.parts.contains(&case.part.name) && case.is_of(exception.topic))
        .map(|exception| exception.why);
    of_part.or_else(|| {
        OF_OTHER_ENGINES
            .iter()
            .find(|(topic, engine, _)| is_of(engine, case.engine) && case.is_of(topic))
            .map(|(_, _, why)| *why)
    })
}

/// Checks that each entry names a topic and parts that there are.
///
/// # Panics
/// If not.
pub(crate) fn check() {
    let is_known = |topic: &str| cases().any(|case| case.is_of(topic));
    for Exception { topic, parts, .. } in EXCEPTIONS {
        assert!(is_known(topic), "{topic} is no topic");
        for part in *parts {
            assert!(Part::ALL.iter().any(|known| known.name == *part), "{part} is no part");
        }
    }
    for (topic, _, _) in OF_OTHER_ENGINES {
        assert!(is_known(topic), "{topic} is no topic");
    }
}
