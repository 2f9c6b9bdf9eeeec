//! The real-time clock and its battery-backed memory: Motorola MC146818 at ports 70h and 71h, 128
//! bytes as in the PC AT's successors.

use serde::{Deserialize, Serialize};

use super::calendar::{Date, date_from_days, days_from_date};
use super::rate::Rate;

/// 2005-04-21 00:00:00 UTC, the time at which the machine starts unless told otherwise.
pub const DEFAULT_START: i64 = 1_114_041_600;

const SECONDS: u8 = 0x00;
const SECONDS_ALARM: u8 = 0x01;
const MINUTES: u8 = 0x02;
const MINUTES_ALARM: u8 = 0x03;
const HOURS: u8 = 0x04;
const HOURS_ALARM: u8 = 0x05;
const DAY_OF_WEEK: u8 = 0x06;
const DAY: u8 = 0x07;
const MONTH: u8 = 0x08;
const YEAR: u8 = 0x09;
const REGISTER_A: u8 = 0x0A;
const REGISTER_B: u8 = 0x0B;
const REGISTER_C: u8 = 0x0C;
const REGISTER_D: u8 = 0x0D;
/// Where a PC BIOS and ACPI's FADT have the century.
pub const CENTURY: u8 = 0x32;

/// Register A: update in progress.
const UIP: u8 = 1 << 7;
/// Register B: set, periodic, alarm and update-ended interrupt enables, binary, 24 hours.
const SET: u8 = 1 << 7;
const UIE: u8 = 1 << 4;
const BINARY: u8 = 1 << 2;
const HOURS_24: u8 = 1 << 1;
/// Register C: any interrupt; periodic (as PIE in B), alarm (as AIE), update ended (as UIE).
const IRQF: u8 = 1 << 7;
const PERIODIC: u8 = 1 << 6;
const ALARM: u8 = 1 << 5;
const UPDATE: u8 = UIE;
/// Register D: the battery is good.
const VALID: u8 = 1 << 7;

/// Register A bits 6:4: a 32.768 kHz crystal, the only one that a PC has.
const DIVIDER_RUNNING: u8 = 0b010;
const CRYSTAL_HZ: u64 = 32_768;
/// UIP is set this long before the time changes: 244 microseconds, eight crystal periods.
const UIP_TICKS: u64 = 8;
/// An alarm byte of C0h to FFh matches everything.
const DO_NOT_CARE: u8 = 0xC0;
const SECONDS_PER_DAY: i64 = 86_400;

/// The clock and 128 bytes of memory, of which the first 14 are its registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rtc {
    rate: Rate,
    clock_hz: u64,
    /// Port 70h bits 6:0.
    index: u8,
    /// Eight rows of sixteen bytes. The time is kept as the guest reads it, brought up to date when
    /// it is looked at.
    nvram: [[u8; 16]; 8],
    /// The divider chain, in cycles since its last whole second: `chain` at virtual time `chain_at`.
    chain: u64,
    chain_at: u64,
    deadline: Option<u64>,
}

impl Rtc {
    /// Whether `other` has the same clock.
    pub(super) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        (self.rate, self.clock_hz) == (other.rate, other.clock_hz)
    }

    /// A clock that shows `start` (seconds since 1970-01-01 UTC) at virtual time zero, with the
    /// configuration bytes that a PC BIOS leaves for `ram_size` bytes of memory and `vcpus`
    /// processors.
    pub fn new(clock_hz: u64, start: i64, ram_size: u64, vcpus: u8) -> Self {
        let clock_hz = clock_hz.max(1);
        let mut rtc = Self {
            rate: Rate::new(clock_hz, CRYSTAL_HZ),
            clock_hz,
            index: 0,
            nvram: [[0; 16]; 8],
            chain: 0,
            chain_at: 0,
            deadline: None,
        };
        // 32.768 kHz, 1024 Hz periodic rate; BCD, 24 hours.
        rtc.store(REGISTER_A, 0x26);
        rtc.store(REGISTER_B, HOURS_24);
        rtc.store(REGISTER_D, VALID);
        rtc.show(start);
        // 1970-01-01 was a Thursday; 1 is Sunday.
        let weekday = (start.div_euclid(SECONDS_PER_DAY) + 4).rem_euclid(7) + 1;
        rtc.store(DAY_OF_WEEK, weekday as u8);
        rtc.store_configuration(ram_size, vcpus);
        rtc
    }

    /// The CMOS map of the PC AT: equipment, memory sizes, checksum.
    fn store_configuration(&mut self, ram_size: u64, vcpus: u8) {
        const GAP: u64 = 1 << 32;
        let low = ram_size.min(0xC000_0000);
        let above_4g = ram_size - low;
        let extended = (low.saturating_sub(1 << 20) >> 10).min(0xFFFF) as u16;
        let above_16m = (low.saturating_sub(1 << 24) >> 16).min(0xFFFF) as u16;
        let high = (above_4g.min(GAP << 8) >> 16).min(0xFF_FFFF) as u32;
        // Equipment: a coprocessor, no floppy, no display adapter of its own kind.
        self.store(0x14, 0x02);
        self.store_word(0x15, 640);
        self.store_word(0x17, extended);
        self.store_word(0x30, extended);
        self.store_word(0x34, above_16m);
        self.store_word(0x5B, high as u16);
        self.store(0x5D, (high >> 16) as u8);
        self.store(0x5F, vcpus.saturating_sub(1));
        let sum: u16 = (0x10..0x2E).map(|cell| u16::from(self.load(cell))).sum();
        // The checksum alone is stored high byte first.
        self.store_word(0x2E, sum.swap_bytes());
    }

    fn load(&self, index: u8) -> u8 {
        self.nvram[usize::from(index >> 4 & 7)][usize::from(index & 15)]
    }

    fn store(&mut self, index: u8, value: u8) {
        self.nvram[usize::from(index >> 4 & 7)][usize::from(index & 15)] = value;
    }

    fn store_word(&mut self, index: u8, value: u16) {
        let [low, high] = value.to_le_bytes();
        self.store(index, low);
        self.store(index + 1, high);
    }

    /// Writes port 70h. Bit 7 masks NMI on a PC; the machine has no source of NMI behind it.
    pub fn write_index(&mut self, value: u8) {
        self.index = value & 0x7F;
    }

    /// Reads port 71h.
    pub fn read(&mut self, now: u64) -> u8 {
        self.advance(now);
        match self.index {
            REGISTER_A => self.load(REGISTER_A) | self.uip(now),
            REGISTER_C => {
                let flags = self.load(REGISTER_C);
                let irqf = if self.irq() { IRQF } else { 0 };
                self.store(REGISTER_C, 0);
                self.update_deadline(now);
                flags | irqf
            }
            index => self.load(index),
        }
    }

    /// Writes port 71h. C and D are read-only.
    pub fn write(&mut self, value: u8, now: u64) {
        self.advance(now);
        match self.index {
            REGISTER_A => self.write_a(value, now),
            // SET clears UIE.
            REGISTER_B if value & SET != 0 => self.store(REGISTER_B, value & !UIE),
            REGISTER_B => self.store(REGISTER_B, value),
            REGISTER_C | REGISTER_D => {}
            index => self.store(index, value),
        }
        self.update_deadline(now);
    }

    /// Letting the divider go makes the first update half a second later.
    fn write_a(&mut self, value: u8, now: u64) {
        let was_running = self.divider_runs();
        self.store(REGISTER_A, value & !UIP);
        if self.divider_runs() && !was_running {
            self.chain = self.clock_hz / 2;
            self.chain_at = now;
        }
    }

    fn divider_runs(&self) -> bool {
        self.load(REGISTER_A) >> 4 == DIVIDER_RUNNING
    }

    fn updates(&self) -> bool {
        self.divider_runs() && self.load(REGISTER_B) & SET == 0
    }

    fn uip(&self, now: u64) -> u8 {
        let left = self.clock_hz - self.chain_to(now) % self.clock_hz;
        let window = self.rate.cycles(UIP_TICKS);
        if self.updates() && left <= window { UIP } else { 0 }
    }

    /// The divider chain at `now`.
    fn chain_to(&self, now: u64) -> u64 {
        self.chain.saturating_add(now.saturating_sub(self.chain_at))
    }

    /// Crystal periods between two periodic interrupts, register A bits 3:0. The codes 1 and 2 are
    /// those of 8 and 9.
    fn period(&self) -> Option<u64> {
        match self.load(REGISTER_A) & 0xF {
            0 => None,
            rate @ (1 | 2) => Some(1 << (rate + 6)),
            rate => Some(1 << (rate - 1)),
        }
    }

    /// IRQ8: a flag is set whose enable is set.
    pub fn irq(&self) -> bool {
        self.load(REGISTER_C) & self.load(REGISTER_B) & (PERIODIC | ALARM | UPDATE) != 0
    }

    /// The next time at which IRQ8 may rise.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadline
    }

    /// Brings the clock up to `now`.
    pub fn advance(&mut self, now: u64) {
        if !self.divider_runs() || now <= self.chain_at {
            return;
        }
        let chain = self.chain_to(now);
        if let Some(period) = self.period()
            && self.rate.ticks(chain) / period > self.rate.ticks(self.chain) / period
        {
            self.raise(PERIODIC);
        }
        let seconds = chain / self.clock_hz;
        // A whole day of periods is a whole number of ticks, so dropping seconds keeps the phase.
        self.chain = chain % self.clock_hz;
        self.chain_at = now;
        if seconds > 0 && self.updates() {
            self.tick(seconds);
        }
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.update_deadline(now);
        }
    }

    fn raise(&mut self, flag: u8) {
        self.store(REGISTER_C, self.load(REGISTER_C) | flag);
    }

    /// The time moves on by `seconds`.
    fn tick(&mut self, seconds: u64) {
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX >> 1);
        let before = self.shown();
        // An alarm in the seconds that have passed; each day's are the same.
        for second in 1..=seconds.min(SECONDS_PER_DAY) {
            if self.alarm_matches((before + second).rem_euclid(SECONDS_PER_DAY)) {
                self.raise(ALARM);
                break;
            }
        }
        let after = before.saturating_add(seconds);
        let days = after.div_euclid(SECONDS_PER_DAY) - before.div_euclid(SECONDS_PER_DAY);
        if days > 0 {
            let weekday = i64::from(self.load(DAY_OF_WEEK)) - 1 + days;
            self.store(DAY_OF_WEEK, (weekday.rem_euclid(7) + 1) as u8);
        }
        self.show(after);
        self.raise(UPDATE);
    }

    fn alarm_matches(&self, second_of_day: i64) -> bool {
        let fields = [
            (SECONDS_ALARM, self.encode(second_of_day % 60)),
            (MINUTES_ALARM, self.encode(second_of_day / 60 % 60)),
            (HOURS_ALARM, self.encode_hour(second_of_day / 3600)),
        ];
        fields.into_iter().all(|(index, value)| {
            let alarm = self.load(index);
            alarm >= DO_NOT_CARE || alarm == value
        })
    }

    /// The time in the registers, in seconds since 1970. Whatever a guest has written there is taken
    /// for a number and carries over.
    fn shown(&self) -> i64 {
        let field = |index| self.decode(self.load(index));
        let year = field(CENTURY) * 100 + field(YEAR);
        let date = Date { year, month: field(MONTH), day: field(DAY) };
        let hour = self.decode_hour(self.load(HOURS));
        days_from_date(date) * SECONDS_PER_DAY + hour * 3600 + field(MINUTES) * 60 + field(SECONDS)
    }

    /// Shows `time` in all registers but the day of the week.
    fn show(&mut self, time: i64) {
        let date = date_from_days(time.div_euclid(SECONDS_PER_DAY));
        let second = time.rem_euclid(SECONDS_PER_DAY);
        self.store(SECONDS, self.encode(second % 60));
        self.store(MINUTES, self.encode(second / 60 % 60));
        self.store(HOURS, self.encode_hour(second / 3600));
        self.store(DAY, self.encode(date.day));
        self.store(MONTH, self.encode(date.month));
        self.store(YEAR, self.encode(date.year.rem_euclid(100)));
        self.store(CENTURY, self.encode(date.year.div_euclid(100).rem_euclid(100)));
    }

    /// 0 to 99, in BCD or binary as register B says.
    fn encode(&self, value: i64) -> u8 {
        let value = value as u8;
        if self.load(REGISTER_B) & BINARY != 0 { value } else { ((value / 10) << 4) | (value % 10) }
    }

    fn decode(&self, value: u8) -> i64 {
        let binary = self.load(REGISTER_B) & BINARY != 0;
        i64::from(if binary { value } else { (value >> 4) * 10 + (value & 15) })
    }

    /// In 12-hour mode: 12, 1 to 11, with bit 7 set after noon.
    fn encode_hour(&self, hour: i64) -> u8 {
        if self.load(REGISTER_B) & HOURS_24 != 0 {
            return self.encode(hour);
        }
        let afternoon = if hour >= 12 { 1 << 7 } else { 0 };
        afternoon | self.encode((hour + 11) % 12 + 1)
    }

    fn decode_hour(&self, value: u8) -> i64 {
        if self.load(REGISTER_B) & HOURS_24 != 0 {
            return self.decode(value);
        }
        self.decode(value & 0x7F) % 12 + if value & 1 << 7 != 0 { 12 } else { 0 }
    }

    /// Nothing more can happen to IRQ8 until C is read, once it is asserted.
    fn update_deadline(&mut self, now: u64) {
        self.deadline = None;
        if self.irq() || !self.divider_runs() {
            return;
        }
        let enables = self.load(REGISTER_B);
        let chain = self.chain_to(now);
        let at = |target: u64| now.saturating_add(target.saturating_sub(chain));
        let second = (enables & (ALARM | UPDATE) != 0 && self.updates())
            .then(|| at((chain / self.clock_hz + 1).saturating_mul(self.clock_hz)));
        let period = self.period().filter(|_| enables & PERIODIC != 0).map(|period| {
            at(self.rate.cycles((self.rate.ticks(chain) / period + 1).saturating_mul(period)))
        });
        self.deadline = second.into_iter().chain(period).min();
    }
}
