use super::*;

/// The first cycle at which the 1.193182 MHz input has made `ticks` ticks, at 2 GHz.
fn at(ticks: u64) -> u64 {
    (ticks * 2_000_000_000).div_ceil(1_193_182)
}

fn count(bench: &mut Bench, port: u16) -> u16 {
    u16::from_le_bytes([bench.inb(port), bench.inb(port)])
}

// Linux's periodic clock event: mode 2, HZ=1000, latch 1193. The count is taken with the clock after
// the write (tick 1); IRQ0 rises every 1193 ticks after that.
#[test]
fn mode_2_interrupts_periodically() {
    let mut bench = Bench::new();
    bench.outb(0x43, 0x34);
    bench.outb(0x40, 0xA9);
    bench.outb(0x40, 0x04);
    for period in 1..=5 {
        assert_eq!(bench.next_interrupt(), (0x30, at(1 + period * 1193)));
    }
}

// Datasheet, mode 2: counts N to 1; OUT is low while the count is 1.
#[test]
fn mode_2_counts() {
    let mut bench = Bench::new();
    bench.outb(0x61, 1);
    bench.outb(0x43, 0xB4);
    bench.outb(0x42, 3);
    bench.outb(0x42, 0);
    for (tick, value, out) in [(1, 3, 1), (2, 2, 1), (3, 1, 0), (4, 3, 1), (6, 1, 0), (7, 3, 1)] {
        bench.now = at(tick);
        assert_eq!(count(&mut bench, 0x42), value, "tick {tick}");
        assert_eq!(bench.inb(0x61) >> 5 & 1, out, "tick {tick}");
    }
}

// Datasheet, mode 3: by two; an even count is high for N/2, an odd one for (N+1)/2.
#[test]
fn mode_3_counts() {
    for (n, values) in [
        (4_u8, &[(4, 1), (2, 1), (4, 0), (2, 0)][..]),
        (5, &[(4, 1), (2, 1), (0, 1), (4, 0), (2, 0)]),
    ] {
        let mut bench = Bench::new();
        bench.outb(0x61, 1);
        bench.outb(0x43, 0xB6);
        bench.outb(0x42, n);
        bench.outb(0x42, 0);
        for (tick, &(value, out)) in (1..).zip(values.iter().cycle().take(12)) {
            bench.now = at(tick);
            assert_eq!(count(&mut bench, 0x42), value, "{n} tick {tick}");
            assert_eq!(bench.inb(0x61) >> 5 & 1, out, "{n} tick {tick}");
        }
    }
}

// Linux's one-shot clock event: mode 0 on channel 0. OUT rises N + 1 clocks after the write, once.
#[test]
fn mode_0_interrupts_once() {
    let mut bench = Bench::new();
    bench.outb(0x43, 0x30);
    bench.outb(0x40, 0xE8);
    bench.outb(0x40, 0x03);
    assert_eq!(bench.next_interrupt(), (0x30, at(1001)));
    assert_eq!(bench.chipset.next_deadline(), None);
    // After zero it goes on from FFFFh.
    bench.now = at(1003);
    assert_eq!(count(&mut bench, 0x40), 0xFFFE);
}

// Linux's one-shot mode is 4, software triggered strobe (control 38h): OUT is low for one clock after
// N + 1, and its rise is the edge.
#[test]
fn mode_4_strobes_once() {
    let mut bench = Bench::new();
    bench.outb(0x43, 0x38);
    bench.outb(0x40, 0xE8);
    bench.outb(0x40, 0x03);
    assert_eq!(bench.next_interrupt(), (0x30, at(1002)));
    assert_eq!(bench.chipset.next_deadline(), None);
}

// Linux's pit_calibrate_tsc: gate on, speaker off, mode 0 on channel 2, then port 61h bit 5.
// 50 ms is latch 59659 (1193182 / 20): OUT2 rises after 59660 clocks.
#[test]
fn calibration_by_port_61() {
    let mut bench = Bench::new();
    let gate = bench.inb(0x61) & !0x02 | 0x01;
    bench.outb(0x61, gate);
    bench.outb(0x43, 0xB0);
    bench.outb(0x42, (59659 & 0xFF) as u8);
    bench.outb(0x42, (59659 >> 8) as u8);
    bench.now = at(59660) - 1;
    assert_eq!(bench.inb(0x61) & 0x20, 0);
    bench.now = at(59660);
    assert_eq!(bench.inb(0x61) & 0x20, 0x20);
    // Within a tick of 50 ms at 2 GHz.
    assert!(bench.now.abs_diff(100_000_000) < 3353);
    assert_eq!(bench.inb(0x61) & 0xC3, 0x01);
}

// A low gate holds the count of mode 0.
#[test]
fn gate_holds_mode_0() {
    let mut bench = Bench::new();
    bench.outb(0x61, 1);
    bench.outb(0x43, 0xB0);
    bench.outb(0x42, 100);
    bench.outb(0x42, 0);
    bench.now = at(41);
    bench.outb(0x61, 0);
    bench.now = at(1000);
    assert_eq!(count(&mut bench, 0x42), 60);
    bench.outb(0x61, 1);
    bench.now = at(1010);
    assert_eq!(count(&mut bench, 0x42), 50);
}

// Modes 1 and 5 wait for a rising gate: OUT low for N clocks, or for one clock after N.
#[test]
fn gate_triggers_modes_1_and_5() {
    for (control, lows) in [(0xB2, 2..=4), (0xBA, 5..=5)] {
        let mut bench = Bench::new();
        bench.outb(0x43, control);
        bench.outb(0x42, 3);
        bench.outb(0x42, 0);
        bench.now = at(1);
        assert_eq!(bench.inb(0x61) & 0x20, 0x20);
        bench.outb(0x61, 1);
        for tick in 2..10 {
            bench.now = at(tick);
            let low = bench.inb(0x61) & 0x20 == 0;
            assert_eq!(low, lows.contains(&tick), "{control:#x} tick {tick}");
        }
    }
}

// A new count in mode 2 is taken at the end of the period (datasheet, mode 2).
#[test]
fn mode_2_takes_a_new_count_at_the_end_of_the_period() {
    let mut bench = Bench::new();
    bench.outb(0x43, 0x34);
    bench.outb(0x40, 0xE8);
    bench.outb(0x40, 0x03);
    bench.now = at(500);
    bench.outb(0x40, 0x64);
    bench.outb(0x40, 0x00);
    assert_eq!(bench.next_interrupt(), (0x30, at(1001)));
    assert_eq!(bench.next_interrupt(), (0x30, at(1101)));
}

// BCD: 1000h is 1000 clocks, and the count reads in BCD. Latched, it stands still until it is read;
// the read-back command latches the status (OUT high, count loaded, both bytes, mode 2, BCD) first.
#[test]
fn bcd_latch_and_read_back() {
    let mut bench = Bench::new();
    bench.outb(0x43, 0x35);
    bench.outb(0x40, 0x00);
    bench.outb(0x40, 0x10);
    bench.now = at(2);
    bench.outb(0x43, 0x00);
    bench.now = at(100);
    bench.outb(0x43, 0x00);
    assert_eq!(count(&mut bench, 0x40), 0x0999);
    assert_eq!(count(&mut bench, 0x40), 0x0901);
    bench.outb(0x43, 0xC2);
    bench.now = at(200);
    assert_eq!(bench.inb(0x40), 0xB5);
    assert_eq!(count(&mut bench, 0x40), 0x0901);
    assert_eq!(count(&mut bench, 0x40), 0x0801);
}
