//! The 8254 programmable interval timer at ports 40h to 43h, and the system control port 61h.

use serde::{Deserialize, Serialize};

use super::pit_channel::Channel;
use super::rate::Rate;

/// The input clock: a third of the NTSC colour subcarrier's 3.579545 MHz.
const PIT_HZ: u64 = 1_193_182;

/// Half the period of the DRAM refresh bit in port 61h: one request about every 15 microseconds.
const REFRESH_TICKS: u64 = 18;

/// The three counters. Channel 0 is IRQ0, channel 1 was the DRAM refresh, channel 2 is the speaker
/// and the one whose gate software has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pit {
    rate: Rate,
    channels: [Channel; 3],
    /// Port 61h bits 3:0: channel 2 gate, speaker data, and the two parity check enables.
    control: u8,
    /// The tick of the next rise of OUT0, which is an interrupt.
    next_rise: Option<u64>,
    deadline: Option<u64>,
}

impl Pit {
    /// A timer that counts nothing, on a machine of `clock_hz` cycles a second.
    pub fn new(clock_hz: u64) -> Self {
        Self {
            rate: Rate::new(clock_hz, PIT_HZ),
            channels: [Channel::new(true), Channel::new(true), Channel::new(false)],
            control: 0,
            next_rise: None,
            deadline: None,
        }
    }

    /// Whether `other` has the same clock, and counts that there are.
    pub(super) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        self.rate == other.rate && other.channels.iter().all(Channel::is_sound)
    }

    /// Reads port 40h to 43h, `index` 0 to 3. The control port is write-only.
    pub fn read(&mut self, index: u16, now: u64) -> u8 {
        let tick = self.rate.ticks(now);
        self.channels.get_mut(usize::from(index)).map_or(0xFF, |channel| channel.read(tick))
    }

    /// Writes port 40h to 43h.
    pub fn write(&mut self, index: u16, value: u8, now: u64) {
        let tick = self.rate.ticks(now);
        match self.channels.get_mut(usize::from(index)) {
            Some(channel) => channel.write(value, tick),
            None => self.write_control(value, tick),
        }
        self.update_rise(tick);
    }

    fn write_control(&mut self, value: u8, tick: u64) {
        match self.channels.get_mut(usize::from(value >> 6)) {
            Some(channel) if value & 0x30 == 0 => channel.latch_count(tick),
            Some(channel) => channel.program(value),
            None => self.read_back(value, tick),
        }
    }

    /// Read-back command: counters in bits 3:1; bit 5 clear latches counts, bit 4 clear statuses.
    fn read_back(&mut self, value: u8, tick: u64) {
        for (index, channel) in self.channels.iter_mut().enumerate() {
            if value & 2 << index == 0 {
                continue;
            }
            if value & 1 << 5 == 0 {
                channel.latch_count(tick);
            }
            if value & 1 << 4 == 0 {
                channel.latch_status(tick);
            }
        }
    }

    /// Port 61h: bit 5 is OUT2, bit 4 toggles with the DRAM refresh, bits 7:6 (parity and channel
    /// check) are clear, bits 3:0 read as written.
    pub fn read_system_control(&mut self, now: u64) -> u8 {
        let tick = self.rate.ticks(now);
        let refresh = u8::from(!(tick / REFRESH_TICKS).is_multiple_of(2));
        u8::from(self.channels[2].out(tick)) << 5 | refresh << 4 | self.control
    }

    /// Writes port 61h; bit 0 is the gate of channel 2.
    pub fn write_system_control(&mut self, value: u8, now: u64) {
        self.control = value & 0xF;
        self.channels[2].set_gate(value & 1 != 0, self.rate.ticks(now));
    }

    /// OUT0 between its rises, as the interrupt line sees it: low only where the mode holds it low.
    /// The one-clock pulse of the rate generator is part of the rise that [`Self::advance`] reports,
    /// so that the line does not depend on when it is looked at.
    pub fn irq_level(&mut self, now: u64) -> bool {
        let tick = self.rate.ticks(now);
        self.channels[0].steady_out(tick)
    }

    /// Brings the timer up to `now`; whether OUT0 has risen since the last call.
    pub fn advance(&mut self, now: u64) -> bool {
        let tick = self.rate.ticks(now);
        let rose = self.next_rise.is_some_and(|rise| tick >= rise);
        if rose {
            self.update_rise(tick);
        }
        rose
    }

    /// The virtual time of the next rise of OUT0.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadline
    }

    fn update_rise(&mut self, tick: u64) {
        self.next_rise = self.channels[0].next_rise(tick);
        self.deadline = self.next_rise.map(|rise| self.rate.cycles(rise));
    }
}
