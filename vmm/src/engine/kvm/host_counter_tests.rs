//! Without a PMU: what is said about that, and the mechanism with the clock of a thread, which is a
//! software event of every Linux. It counts nanoseconds, outside of the guest as well.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pmu_model::{MsrAccess, Personality, Signal};
use vmm_sys_util::signal::register_signal_handler;

use super::*;

// perf_event_open(2).
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;

// PerfEvtSel0 and PerfCtr0 of the K8 (BKDG 26094, section 10.2): EN bit 22, INT bit 20, OS bit 17,
// USR bit 16, CPU_CLK_UNHALTED 76h; 48 bits.
const PERF_EVT_SEL_0: u32 = 0xC001_0000;
const PERF_CTR_0: u32 = 0xC001_0004;
const CLOCKS: u64 = 0x0053_0076;
const INSTRUCTIONS: u64 = 0x0053_00C0;
const WIDTH: u32 = 48;

/// A millisecond.
const PERIOD: u64 = 1_000_000;

const TASK_CLOCK: HostSelect = HostSelect {
    perf_type: PERF_TYPE_SOFTWARE,
    config: PERF_COUNT_SW_TASK_CLOCK,
    exclude_user: false,
    exclude_kernel: false,
};

/// A clock for the cycles.
pub(in crate::engine::kvm) const WITH_TASK_CLOCK: &[Row] = &[Row {
    signals: &[Signal::CyclesUnhalted],
    perf_type: PERF_TYPE_SOFTWARE,
    config: PERF_COUNT_SW_TASK_CLOCK,
    fidelity: pmu_model::Fidelity::Modelled,
    note: "nanoseconds",
}];

/// Opens the clock.
fn clock(distance: u64, signal: libc::c_int) -> HostCounter {
    HostCounter::open(TASK_CLOCK, distance, signal).expect("this test needs perf_event_open")
}

/// Executes until `done`.
fn burn(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(20), "it never comes");
        std::hint::black_box((0..1000).sum::<u64>());
    }
}

static SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn note(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// The signal comes to this thread when the clock has passed the distance, and not before; the next
/// one after the new distance.
#[test]
#[cfg_attr(not(host_perf), ignore = "no perf_event_open when this was built")]
fn an_overflow_signals_the_thread() {
    // Not the one that other tests kick their threads with.
    let signal = SIGRTMIN() + 1;
    register_signal_handler(signal, note).unwrap();
    let mut counter = clock(PERIOD, signal);
    burn(|| SIGNALS.load(Ordering::Relaxed) != 0);
    let first = counter.take().unwrap().unwrap();
    assert!(first >= PERIOD, "{first}");
    // Far away: nothing comes for ten old periods.
    counter.signal_after(1 << WIDTH).unwrap();
    let before = SIGNALS.load(Ordering::Relaxed);
    let mut passed = 0;
    burn(|| {
        passed += counter.take().unwrap().unwrap();
        passed >= 10 * PERIOD
    });
    assert_eq!(SIGNALS.load(Ordering::Relaxed), before);
    counter.signal_after(PERIOD).unwrap();
    burn(|| SIGNALS.load(Ordering::Relaxed) > before);
}

/// What has been counted is added to the guest's counter, which wraps and asserts once; a disabled
/// counter stands still.
#[test]
#[cfg_attr(not(host_perf), ignore = "no perf_event_open when this was built")]
fn the_guests_counter_follows() {
    // The kick may come here.
    crate::engine::kvm::kick::prepare().unwrap();
    let mut pmu = Pmu::without_demand(Personality::by_name("k8").unwrap());
    let mut counters = HostCounters::new(Some(WITH_TASK_CLOCK));
    let mut told = Told::default();
    let value = |pmu: &Pmu| match pmu.read_msr(PERF_CTR_0) {
        MsrAccess::Done(value) => value,
        other => panic!("{other:?}"),
    };
    let start = (1 << WIDTH) - PERIOD;
    pmu.write_msr(PERF_CTR_0, start);
    pmu.write_msr(PERF_EVT_SEL_0, CLOCKS);
    counters.follow(&pmu, &mut told).unwrap();
    let mut asserted = 0;
    burn(|| {
        let collected = counters.collect(&mut pmu, &mut told, |pmis| asserted += pmis.count());
        collected.unwrap();
        value(&pmu) < start
    });
    assert_eq!(asserted, 1);
    let stats = pmu.counter_stats(0).unwrap().total();
    assert_eq!((stats.overflows, stats.pmis), (1, 1));
    assert_eq!(stats.count, PERIOD + value(&pmu));

    pmu.write_msr(PERF_EVT_SEL_0, 0);
    counters.follow(&pmu, &mut told).unwrap();
    let end = value(&pmu);
    counters.collect(&mut pmu, &mut told, |_| {}).unwrap();
    assert_eq!(value(&pmu), end);
    assert!(told.0.is_empty(), "{told:?}");
}

/// An event without a row is told, and has no counter.
#[test]
fn what_stands_still_is_told() {
    let mut pmu = Pmu::without_demand(Personality::by_name("k8").unwrap());
    let mut counters = HostCounters::new(Some(WITH_TASK_CLOCK));
    let mut told = Told::default();
    pmu.write_msr(PERF_EVT_SEL_0, INSTRUCTIONS);
    counters.follow(&pmu, &mut told).unwrap();
    assert_eq!(told.0.iter().collect::<Vec<_>>(), [&(0xC0, Still::NoEvent)]);
    assert!(counters.counters.iter().all(Option::is_none));
    let text = still(pmu.personality(), 0, pmu.select(0).unwrap(), Still::NoEvent);
    assert!(text.starts_with("RETIRED_INSTRUCTIONS:"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

/// One line each, which says what to do.
#[test]
fn a_host_that_cannot_count_is_one_line() {
    for (number, what_to_do) in [
        (libc::ENOENT, "run on one with a PMU"),
        (libc::EOPNOTSUPP, "run on one with a PMU"),
        (libc::EACCES, "set it to 1"),
        (libc::EINVAL, "use --count exact"),
    ] {
        let error = cannot_count(&io::Error::from_raw_os_error(number));
        let text = error.to_string();
        assert_eq!(error.status(), 6);
        assert!(text.starts_with("--count host: ") && text.contains(what_to_do), "{text}");
        assert!(text.ends_with("or use --count exact") && !text.contains('\n'), "{text}");
    }
}
