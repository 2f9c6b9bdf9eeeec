//! The clock of the bus, against the clock of the processor.

/// Clocks of the processor to clocks of the bus: the bus ratio, 15 to 2 for 7.5.
///
/// Both clocks begin at zero. Clock `n` of the bus begins in the first clock of the processor that is not
/// before it, so that with 15 to 2 the clocks of the bus are by turns eight and seven of the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRatio {
    /// Clocks of the processor ...
    pub processor: u64,
    /// ... in which the bus has so many.
    pub bus: u64,
}

impl ClockRatio {
    /// The first clock of the bus that begins at this clock of the processor or later.
    #[must_use]
    pub const fn bus_clock(self, cycle: u64) -> u64 {
        (cycle * self.bus).div_ceil(self.processor)
    }

    /// The clock of the processor in which this clock of the bus begins.
    #[must_use]
    pub const fn cycle(self, bus_clock: u64) -> u64 {
        let cycles = bus_clock * self.processor;
        // Mostly the ratio is a whole number, and this is asked several times a transaction.
        if self.bus == 1 { cycles } else { cycles.div_ceil(self.bus) }
    }

    /// Clocks of the processor in the clocks of the bus from `from` up to `to`, which is not one of them.
    #[must_use]
    pub const fn cycles(self, from: u64, to: u64) -> u64 {
        self.cycle(to) - self.cycle(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 7.5 clocks of the processor: the bus begins at 0, 7.5 (8), 15, 22.5 (23), 30.
    #[test]
    fn half_clocks_are_rounded_up() {
        let ratio = ClockRatio { processor: 15, bus: 2 };
        assert_eq!([0, 1, 2, 3, 4].map(|clock| ratio.cycle(clock)), [0, 8, 15, 23, 30]);
        assert_eq!(
            [0, 1, 7, 8, 9, 15, 16].map(|cycle| ratio.bus_clock(cycle)),
            [0, 1, 1, 2, 2, 2, 3]
        );
        assert_eq!(ratio.cycles(1, 4), 22);
    }

    #[test]
    fn no_clock_of_the_bus_is_taken_that_has_begun() {
        for ratio in [(3, 1), (15, 2), (10, 1), (16, 1)] {
            let ratio = ClockRatio { processor: ratio.0, bus: ratio.1 };
            for cycle in 0..1000 {
                let clock = ratio.bus_clock(cycle);
                assert!(clock * ratio.processor >= cycle * ratio.bus);
                assert!(clock == 0 || (clock - 1) * ratio.processor < cycle * ratio.bus);
            }
        }
    }
}
