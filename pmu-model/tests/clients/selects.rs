//! Codes and unit masks that clients really write, of which some mean nothing on the processor.

use pmu_model::{Personality, Signal, SignalCounts};

use crate::guest::Guest;

/// USR, OS, INT and EN, as Linux and libpfm4 set them.
const ON: u64 = 0x0053_0000;

/// First event select and counter of K7 and K8.
const EVTSEL0: u32 = 0xC001_0000;
const PERFCTR0: u32 = 0xC001_0004;

/// Every signal there is, `n` times.
fn everything(n: u64) -> SignalCounts {
    Signal::ALL.iter().map(|&signal| (signal, n)).collect()
}

/// What counter 0 has after `n` of `signal`, selected by an AMD event and mask.
fn counted(name: &str, select: u64, signal: Signal, n: u64) -> u64 {
    let mut guest = Guest::on(name);
    guest.wrmsr(EVTSEL0, ON | select);
    assert_eq!(guest.fire(signal, n, 3), []);
    guest.rdmsr(PERFCTR0)
}

/// Linux 6.1 `arch/x86/events/amd/core.c`, `amd_hw_cache_event_ids`: 0141h, 0746h and 0385h carry masks
/// that only later families know; LIKWID's K8 table has masks on 45h, 46h and 85h. The manuals of K7
/// and K8 have no mask there, and it must be ignored.
#[test]
fn masks_without_a_table_are_ignored() {
    for name in ["k7", "k8"] {
        for (code, signal) in [
            (0x41, Signal::L1dMiss),
            (0x45, Signal::DtlbMissL1),
            (0x46, Signal::DtlbMissLast),
            (0x85, Signal::ItlbMissLast),
            (0x76, Signal::CyclesUnhalted),
            (0xC0, Signal::InsnRetired),
        ] {
            for umask in [0x00, 0x01, 0x03, 0x07, 0x80, 0xFF] {
                let select = umask << 8 | code;
                assert_eq!(counted(name, select, signal, 12), 12, "{name} {select:#06x}");
            }
        }
    }
}

/// Where the manuals do have a table of masks, each bit selects its sub-event, and mask 0 nothing.
#[test]
fn masks_with_a_table_select() {
    for (name, select, signal, expected) in [
        ("k8", 0x077D, Signal::L2RequestIfetch, 5),
        ("k8", 0x077D, Signal::L2RequestData, 5),
        ("k8", 0x077D, Signal::L2RequestTlb, 5),
        ("k8", 0x077D, Signal::L2RequestSnoop, 0),
        ("k8", 0x007D, Signal::L2RequestData, 0),
        ("k8", 0x037E, Signal::L2MissData, 5),
        ("k8", 0x037E, Signal::L2MissTlb, 0),
        ("k8", 0x007E, Signal::L2MissData, 0),
        ("k7", 0x1042, Signal::L1dRefillL2Modified, 5),
        ("k7", 0x0842, Signal::L1dRefillL2Modified, 0),
        ("k7", 0x0042, Signal::L1dRefillL2Modified, 0),
        ("k7", 0x1F43, Signal::L1dRefillSystemShared, 5),
        ("k7", 0x0043, Signal::L1dRefillSystemShared, 0),
        ("k7", 0x0844, Signal::L1dEvictOwned, 5),
        ("k7", 0x0044, Signal::L1dEvictOwned, 0),
    ] {
        assert_eq!(counted(name, select, signal, 5), expected, "{name} {select:#06x} {signal:?}");
    }
    for (name, codes) in [("k8", &[0x7D, 0x7E, 0x42, 0x43, 0x44][..]), ("k7", &[0x42, 0x43, 0x44])]
    {
        for &code in codes {
            let mut guest = Guest::on(name);
            guest.wrmsr(EVTSEL0, ON | code);
            assert!(guest.pmu.advance(&everything(1), 3).is_empty());
            assert_eq!(guest.rdmsr(PERFCTR0), 0, "{name} {code:#x} mask 0");
        }
    }
}

/// The same table of Linux, on K7: cache references and misses, last-level cache, prefetches and
/// node accesses are codes that K7 does not list. They are written and read back, count nothing, and
/// the summary names them. D0h and D1h (stalled cycles) are in the 1999 guide and count.
#[test]
fn linux_asks_k7_for_codes_of_later_processors() {
    for select in [0x077D, 0x077E, 0x037D, 0x037E, 0x017F, 0x0267, 0x0167, 0x014B, 0xB8E9, 0x98E9] {
        let mut guest = Guest::on("k7");
        guest.wrmsr(EVTSEL0, ON | select);
        assert_eq!(guest.rdmsr(EVTSEL0), ON | select);
        assert!(guest.pmu.advance(&everything(9), 3).is_empty());
        assert_eq!(guest.rdmsr(PERFCTR0), 0, "{select:#06x}");
        assert_eq!(guest.pmu.uncounted().iter().count(), 1, "{select:#06x}");
    }
    assert_eq!(counted("k7", 0xD0, Signal::StallDecoderEmpty, 4), 4);
    assert_eq!(counted("k7", 0xD1, Signal::StallDispatchAny, 4), 4);
}

/// A zero event code is an event on three of the processors: Data Read on the Pentium and on Knights
/// Corner, Dispatched FPU Operations on K8 (whose mask selects the pipe).
#[test]
fn code_0_is_an_event() {
    let mut p55c = Guest::on("p55c");
    p55c.wrmsr(0x11, 0xC0);
    assert_eq!(p55c.fire(Signal::Load, 21, 0), []);
    assert_eq!(p55c.rdmsr(0x12), 21);

    let mut knc = Guest::on("knc");
    knc.wrmsr(0x28, ON);
    knc.wrmsr(0x2F, 1);
    assert_eq!(knc.fire(Signal::Load, 21, 0), []);
    assert_eq!(knc.rdmsr(0x20), 21);

    assert_eq!(counted("k8", 0x0100, Signal::FpuOpAdd, 21), 21);
    assert_eq!(counted("k8", 0x0100, Signal::FpuOpMul, 21), 0);
}

/// Linux 6.1 `arch/x86/events/amd/core.c`, `amd_is_nb_event`, and BKDG 26094 section 10.2: codes E0h to
/// FFh belong to the northbridge. With one core a node each of the four slots is that core's.
#[test]
fn northbridge_codes() {
    let k8 = Personality::by_name("k8").unwrap();
    for code in 0..=0xFF {
        assert_eq!(k8.is_northbridge(code), code & 0xE0 == 0xE0, "{code:#x}");
    }
    let mut guest = Guest::on("k8");
    for i in 0..4 {
        guest.wrmsr(EVTSEL0 + i, ON | 0xFFE9);
    }
    assert_eq!(guest.fire(Signal::NbRequestCpuToMem, 6, 0), []);
    assert_eq!([0, 1, 2, 3].map(|i| guest.rdpmc(i)), [6; 4]);
}

/// BKDG 26094, event E9h: a mask is a request and a route. A bit alone is neither (libpfm4 offers
/// the eight bits singly), FFh is every route, and Linux uses B8h, which holds CPU to local memory
/// (A8h), and 98h, CPU to remote memory, of which one node has none. OProfile's 30 masks are unions of
/// the document's ten.
#[test]
fn e9h_counts_complete_routes() {
    let local = [
        (0xA8, Signal::NbRequestCpuToMem, 1000),
        (0xA4, Signal::NbRequestCpuToIo, 200),
        (0xA2, Signal::NbRequestIoToMem, 30),
        (0xA1, Signal::NbRequestIoToIo, 4),
    ];
    let mut values = Vec::new();
    for umask in 0..=0xFF_u64 {
        let mut guest = Guest::on("k8");
        guest.wrmsr(EVTSEL0, ON | umask << 8 | 0xE9);
        let mut expected = 0;
        for (route, signal, n) in local {
            assert_eq!(guest.fire(signal, n, 0), []);
            expected += if umask & route == route { n } else { 0 };
        }
        assert_eq!(guest.rdmsr(PERFCTR0), expected, "{umask:#x}");
        values.push(expected);
    }
    for bit in 0..8 {
        assert_eq!(values[1 << bit], 0);
    }
    assert_eq!([values[0xFF], values[0xB8], values[0x98], values[0xA8]], [1234, 1000, 0, 1000]);
}

/// libpfm4's encodings all carry 53h in bits 23:16. Without a handler, INT is harmless: a counter
/// that overflows goes on as it does without.
#[test]
fn int_without_a_handler_changes_no_count() {
    for (name, evtsel, counter, code, others) in [
        ("ppro", 0x186, 0xC1, 0xC0, &[][..]),
        ("pii", 0x186, 0xC1, 0xC0, &[]),
        ("p6", 0x186, 0xC1, 0xC0, &[]),
        ("k7", EVTSEL0, PERFCTR0, 0xC0, &[]),
        ("k8", EVTSEL0, PERFCTR0, 0xC0, &[]),
        ("knc", 0x28, 0x20, 0x16, &[(0x2F, 3)]),
    ] {
        for select in [0x0053_0000, 0x0043_0000] {
            let mut guest = Guest::on(name);
            for &(msr, value) in others {
                guest.wrmsr(msr, value);
            }
            guest.wrmsr(counter, u64::MAX - 9);
            guest.wrmsr(evtsel, select | code);
            for _ in 0..5 {
                let _ = guest.fire(Signal::InsnRetired, 7, 3);
            }
            assert_eq!(guest.rdmsr(counter), 25, "{name} {select:#x}");
            assert_eq!(guest.rdmsr(evtsel), select | code);
            let total = guest.pmu.counter_stats(0).unwrap().total();
            assert_eq!((total.count, total.overflows), (35, 1));
        }
    }
}
