//! One counter of the 8254 programmable interval timer (Intel 8254 datasheet 231164).

use serde::{Deserialize, Serialize};

/// One counter: its programming, and its count as a function of time.
///
/// Times are ticks of the input clock. `start` is the tick at which the counting element held the
/// full count, so the count at tick `t` follows from `t - start`, the mode and the count alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Channel {
    /// 0 to 5.
    mode: u8,
    bcd: bool,
    /// Control word bits 5:4: 1 low byte, 2 high byte, 3 both.
    access: u8,
    /// The count, 1 to 65536 (10000 in BCD).
    count: u64,
    start: u64,
    /// False from the control word until the first count.
    loaded: bool,
    /// In modes 1 and 5, whether the gate has started the count.
    triggered: bool,
    /// A count that takes effect at the end of the current period (modes 2 and 3) or with the next
    /// trigger (modes 1 and 5).
    next_count: Option<u64>,
    /// Ticks counted when counting was suspended, while it is.
    suspended: Option<u64>,
    gate: bool,
    /// Low byte of a two-byte write that is half done.
    write_low: Option<u8>,
    /// The next byte of a two-byte read is the high one.
    read_high: bool,
    latched_count: Option<u16>,
    latched_status: Option<u8>,
}

impl Channel {
    pub(crate) fn new(gate: bool) -> Self {
        Self {
            mode: 3,
            bcd: false,
            access: 3,
            count: 0x1_0000,
            start: 0,
            loaded: false,
            triggered: false,
            next_count: None,
            suspended: None,
            gate,
            write_low: None,
            read_high: false,
            latched_count: None,
            latched_status: None,
        }
    }

    /// Whether a guest can have programmed it so.
    pub(crate) fn is_sound(&self) -> bool {
        let is_count = |count: u64| (1..=0x1_0000).contains(&count);
        self.mode <= 5 && is_count(self.count) && self.next_count.is_none_or(is_count)
    }

    /// A control word for this counter that is not a latch command.
    pub(crate) fn program(&mut self, control: u8) {
        let mode = control >> 1 & 7;
        *self = Self {
            // 6 and 7 are 2 and 3: the high bit is a don't-care there.
            mode: if mode > 5 { mode & 3 } else { mode },
            bcd: control & 1 != 0,
            access: control >> 4 & 3,
            count: self.count,
            start: self.start,
            ..Self::new(self.gate)
        };
    }

    /// Writes the count register.
    pub(crate) fn write(&mut self, value: u8, tick: u64) {
        let register = match (self.access, self.write_low.take()) {
            (1, _) => u16::from(value),
            (2, _) => u16::from(value) << 8,
            (_, None) => {
                self.write_low = Some(value);
                // In mode 0 the first byte stops the count and takes OUT low.
                if self.mode == 0 {
                    self.loaded = false;
                }
                return;
            }
            (_, Some(low)) => u16::from_le_bytes([low, value]),
        };
        let count = self.decode(register);
        self.load_next_count(tick);
        match self.mode {
            2 | 3 if self.loaded && self.gate => self.next_count = Some(count),
            1 | 5 if self.triggered => self.next_count = Some(count),
            _ => {
                self.count = count;
                self.loaded = true;
                // The counting element takes the count with the next clock pulse.
                self.start = tick.saturating_add(1);
                self.suspended = if self.gate_suspends() && !self.gate { Some(0) } else { None };
            }
        }
    }

    /// A register value of zero is the largest count.
    fn decode(&self, register: u16) -> u64 {
        let count = if self.bcd {
            (0..4).rev().fold(0, |sum, digit| sum * 10 + u64::from(register >> (digit * 4) & 0xF))
        } else {
            u64::from(register)
        };
        if count == 0 { self.modulus() } else { count }
    }

    fn modulus(&self) -> u64 {
        if self.bcd { 10_000 } else { 0x1_0000 }
    }

    fn encode(&self, count: u64) -> u16 {
        let count = count % self.modulus();
        if self.bcd {
            (0..4).fold(0, |sum, digit| {
                sum | ((count / 10_u64.pow(digit) % 10) as u16) << (digit * 4)
            })
        } else {
            count as u16
        }
    }

    /// In these modes a low gate stops the count.
    fn gate_suspends(&self) -> bool {
        matches!(self.mode, 0 | 2 | 3 | 4)
    }

    /// Sets the gate input.
    pub(crate) fn set_gate(&mut self, gate: bool, tick: u64) {
        if gate == self.gate {
            return;
        }
        self.load_next_count(tick);
        let elapsed = self.elapsed(tick);
        self.gate = gate;
        match (self.mode, gate) {
            // A rising edge starts or restarts the whole count.
            (1 | 5, true) => {
                self.count = self.next_count.take().unwrap_or(self.count);
                self.triggered = self.loaded;
                self.start = tick.saturating_add(1);
            }
            (2 | 3, true) => {
                self.count = self.next_count.take().unwrap_or(self.count);
                self.start = tick.saturating_add(1);
                self.suspended = None;
            }
            (0 | 4, true) => {
                self.start = tick.saturating_sub(self.suspended.take().unwrap_or(elapsed));
            }
            (0 | 2 | 3 | 4, false) => self.suspended = Some(elapsed),
            _ => {}
        }
    }

    fn elapsed(&self, tick: u64) -> u64 {
        self.suspended.unwrap_or_else(|| tick.saturating_sub(self.start))
    }

    /// Brings the counting element up to `tick`: it loads a count that was written while another one
    /// was counting at the end of the period in which that was written, in mode 3 of the half period.
    fn load_next_count(&mut self, tick: u64) {
        let Some(next) = self.next_count else { return };
        if !matches!(self.mode, 2 | 3) || self.suspended.is_some() {
            return;
        }
        // The count was written in the current period: this function is called at every access and
        // at every rising edge, so the end of the period that holds `start` is the one to wait for.
        if tick >= self.start.saturating_add(self.count) {
            let periods = (tick - self.start) / self.count;
            self.start += periods * self.count;
            self.count = next;
            self.next_count = None;
        }
    }

    /// Whether the counter is counting: it has a count and, in modes 1 and 5, a trigger.
    fn runs(&self) -> bool {
        self.loaded && (self.triggered || !matches!(self.mode, 1 | 5))
    }

    /// The counting element at `tick`.
    fn value(&self, tick: u64) -> u16 {
        let elapsed = self.elapsed(tick);
        if !self.runs() {
            return self.encode(self.count);
        }
        match self.mode {
            2 => self.encode(self.count - elapsed % self.count),
            3 => {
                let phase = elapsed % self.count;
                let high = self.count.div_ceil(2);
                // It counts by two from the count, or from the even number below an odd one.
                let step = if phase < high { phase } else { phase - high };
                self.encode((self.count & !1) - 2 * step)
            }
            // The others go on below zero, from the largest count.
            _ => {
                let modulus = self.modulus();
                self.encode(self.count % modulus + modulus - elapsed % modulus)
            }
        }
    }

    /// The OUT pin at `tick`.
    pub(crate) fn out(&mut self, tick: u64) -> bool {
        self.load_next_count(tick);
        let elapsed = self.elapsed(tick);
        if !self.runs() {
            return self.mode != 0;
        }
        match self.mode {
            0 | 1 => elapsed >= self.count,
            2 => !self.gate || self.count == 1 || elapsed % self.count != self.count - 1,
            3 => !self.gate || elapsed % self.count < self.count.div_ceil(2),
            _ => elapsed != self.count,
        }
    }

    /// OUT without the low phases of the periodic modes and the strobes: low only while mode 0 or 1
    /// counts, or before mode 0 has a count.
    pub(crate) fn steady_out(&mut self, tick: u64) -> bool {
        !matches!(self.mode, 0 | 1) || self.out(tick)
    }

    /// The first tick after `tick` at which OUT rises.
    pub(crate) fn next_rise(&mut self, tick: u64) -> Option<u64> {
        self.load_next_count(tick);
        if !self.runs() || self.suspended.is_some() {
            return None;
        }
        let rise = match self.mode {
            0 | 1 => self.start.saturating_add(self.count),
            // A count of one is illegal in these modes; OUT then stays high.
            2 | 3 if self.count == 1 => return None,
            2 | 3 => {
                let periods = self.elapsed(tick) / self.count + 1;
                self.start.saturating_add(periods.saturating_mul(self.count))
            }
            // The strobe lasts one tick.
            _ => self.start.saturating_add(self.count + 1),
        };
        (rise > tick).then_some(rise)
    }

    /// Counter latch command. A second one before the read is ignored.
    pub(crate) fn latch_count(&mut self, tick: u64) {
        self.load_next_count(tick);
        if self.latched_count.is_none() {
            self.latched_count = Some(self.value(tick));
        }
    }

    /// Read-back command for the status byte: OUT, null count, and the control word.
    pub(crate) fn latch_status(&mut self, tick: u64) {
        if self.latched_status.is_none() {
            let out = self.out(tick);
            let null = !self.loaded || self.next_count.is_some() || tick < self.start;
            self.latched_status = Some(
                u8::from(out) << 7
                    | u8::from(null) << 6
                    | self.access << 4
                    | self.mode << 1
                    | u8::from(self.bcd),
            );
        }
    }

    /// Reads the counter's port: the latched status, then the latched count, then the count itself.
    pub(crate) fn read(&mut self, tick: u64) -> u8 {
        if let Some(status) = self.latched_status.take() {
            return status;
        }
        self.load_next_count(tick);
        let [low, high] = self.latched_count.unwrap_or_else(|| self.value(tick)).to_le_bytes();
        let (byte, last) = match self.access {
            1 => (low, true),
            2 => (high, true),
            _ if self.read_high => (high, true),
            _ => (low, false),
        };
        self.read_high = !last;
        if last {
            self.latched_count = None;
        }
        byte
    }
}
