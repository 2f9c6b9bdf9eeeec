use super::*;

fn cmos(bench: &mut Bench, index: u8) -> u8 {
    bench.outb(0x70, index);
    bench.inb(0x71)
}

fn set_cmos(bench: &mut Bench, index: u8, value: u8) {
    bench.outb(0x70, index);
    bench.outb(0x71, value);
}

/// Century, year, month, day, day of the week, hours, minutes, seconds.
fn time(bench: &mut Bench) -> [u8; 8] {
    [0x32, 9, 8, 7, 6, 4, 2, 0].map(|index| cmos(bench, index))
}

// 2005-04-21 was a Thursday, the fifth day. 10 days, 13:14:15 later it was Sunday 2005-05-01.
#[test]
fn time_in_bcd() {
    let mut bench = Bench::new();
    assert_eq!(time(&mut bench), [0x20, 0x05, 0x04, 0x21, 5, 0, 0, 0]);
    bench.now = CLOCK_HZ - 1;
    assert_eq!(cmos(&mut bench, 0), 0);
    bench.now = CLOCK_HZ;
    assert_eq!(cmos(&mut bench, 0), 1);
    bench.now = (10 * 86_400 + 13 * 3600 + 14 * 60 + 15) * CLOCK_HZ;
    assert_eq!(time(&mut bench), [0x20, 0x05, 0x05, 0x01, 1, 0x13, 0x14, 0x15]);
}

// The end of a leap year's century: 1999-12-31 23:59:59 (Friday, 946684799) and a second on.
#[test]
fn century_rolls_over() {
    let mut bench = Bench { chipset: chipset_at(CLOCK_HZ, 946_684_799), now: 0 };
    assert_eq!(time(&mut bench), [0x19, 0x99, 0x12, 0x31, 6, 0x23, 0x59, 0x59]);
    bench.now = CLOCK_HZ;
    assert_eq!(time(&mut bench), [0x20, 0x00, 0x01, 0x01, 7, 0, 0, 0]);
}

// Binary and 12 hours: 13:00 is 81h (1 with the afternoon bit), midnight is 12.
#[test]
fn binary_twelve_hours() {
    let mut bench = Bench::new();
    set_cmos(&mut bench, 0x0B, 0x84);
    for (index, value) in [(4, 0x8B), (2, 59), (0, 59), (9, 24), (8, 2), (7, 28)] {
        set_cmos(&mut bench, index, value);
    }
    set_cmos(&mut bench, 0x32, 20);
    set_cmos(&mut bench, 0x0B, 0x04);
    // 11:59:59 PM on 2024-02-28, then midnight on the leap day, then 1 PM.
    bench.now = CLOCK_HZ;
    assert_eq!([4, 2, 0, 9, 8, 7].map(|i| cmos(&mut bench, i)), [12, 0, 0, 24, 2, 29]);
    bench.now += 13 * 3600 * CLOCK_HZ;
    assert_eq!(cmos(&mut bench, 4), 0x81);
}

// UIP is set for the 244 microseconds (8 crystal periods, 488281.25 cycles) before the update.
#[test]
fn update_in_progress() {
    let mut bench = Bench::new();
    for (now, a) in [
        (CLOCK_HZ - 488_283, 0x26),
        (CLOCK_HZ - 488_282, 0xA6),
        (CLOCK_HZ - 1, 0xA6),
        (CLOCK_HZ, 0x26),
    ] {
        bench.now = now;
        assert_eq!(cmos(&mut bench, 0x0A), a, "{now}");
    }
}

// SET stops the updates; releasing the divider starts them half a second later.
#[test]
fn setting_the_time() {
    let mut bench = Bench::new();
    set_cmos(&mut bench, 0x0B, 0x82);
    set_cmos(&mut bench, 0x0A, 0x76);
    set_cmos(&mut bench, 0, 0x30);
    bench.now = 5 * CLOCK_HZ;
    assert_eq!(cmos(&mut bench, 0), 0x30);
    set_cmos(&mut bench, 0x0B, 0x02);
    set_cmos(&mut bench, 0x0A, 0x26);
    bench.now = 5 * CLOCK_HZ + CLOCK_HZ / 2 - 1;
    assert_eq!(cmos(&mut bench, 0), 0x30);
    bench.now += 1;
    assert_eq!(cmos(&mut bench, 0), 0x31);
}

// Update-ended interrupt: every second; C (IRQF and UF) is cleared by the read, which drops IRQ8.
#[test]
fn update_interrupt() {
    let mut bench = Bench::new();
    set_cmos(&mut bench, 0x0B, 0x12);
    for second in 1..=3 {
        assert_eq!(bench.next_interrupt(), (0x38, second * CLOCK_HZ));
        assert_eq!(bench.chipset.next_deadline(), None, "nothing new until C is read");
        assert_eq!(cmos(&mut bench, 0x0C) & 0xB0, 0x90);
        assert_eq!(cmos(&mut bench, 0x0C), 0);
    }
}

// Rate 6 is 1024 Hz: 32 crystal periods, 1953125 cycles.
#[test]
fn periodic_interrupt() {
    let mut bench = Bench::new();
    set_cmos(&mut bench, 0x0B, 0x42);
    for period in 1..=1030 {
        assert_eq!(bench.next_interrupt(), (0x38, period * 1_953_125));
        assert_eq!(cmos(&mut bench, 0x0C) & 0xE0, 0xC0);
    }
}

// Alarm at 00:01:05; hours "don't care".
#[test]
fn alarm_interrupt() {
    let mut bench = Bench::new();
    for (index, value) in [(1, 0x05), (3, 0x01), (5, 0xFF), (0x0B, 0x22)] {
        set_cmos(&mut bench, index, value);
    }
    while !bench.chipset.irq.pending(0).interrupt {
        bench.now = bench.chipset.next_deadline().unwrap();
        bench.chipset.advance(bench.now);
    }
    assert_eq!(bench.now, 65 * CLOCK_HZ);
    assert_eq!(cmos(&mut bench, 0x0C) & 0xA0, 0xA0);
}

// The PC AT's CMOS map for 512 MiB: 640 KiB base; extended memory beyond the 64 MiB that the field
// holds; 496 MiB above 16 MiB in units of 64 KiB. Battery good. The NMI mask bit does not matter.
#[test]
fn configuration_bytes() {
    let mut bench = Bench::new();
    for (index, value) in [
        (0x15, 0x80),
        (0x16, 0x02),
        (0x17, 0xFF),
        (0x18, 0xFF),
        (0x30, 0xFF),
        (0x31, 0xFF),
        (0x34, 0x00),
        (0x35, 0x1F),
        (0x0D, 0x80),
        (0x8D, 0x80),
    ] {
        assert_eq!(cmos(&mut bench, index), value, "{index:#x}");
    }
    let sum: u16 = (0x10..=0x2D).map(|index| u16::from(cmos(&mut bench, index))).sum();
    assert_eq!([cmos(&mut bench, 0x2E), cmos(&mut bench, 0x2F)], sum.to_be_bytes());
}

// Nothing that a guest writes to the clock makes it fail.
#[test]
fn nonsense_in_the_clock_is_harmless() {
    let mut bench = Bench::new();
    for value in [0xFF, 0x00, 0x9A] {
        for b in [0x02, 0x06, 0x04, 0x00] {
            for index in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x32] {
                set_cmos(&mut bench, index, value);
            }
            set_cmos(&mut bench, 0x0B, b);
            bench.now += 40 * 86_400 * CLOCK_HZ;
            // Brought up to date, the month is one again.
            let month = cmos(&mut bench, 8);
            assert!((1..=0x12).contains(&month), "{month:#x}");
        }
    }
}
