//! The writes of a thread that the caches or the bus have yet to take.

/// More write buffers than any part with threads has.
const MOST: usize = 8;

/// The write buffers of a thread. Writes leave them in order, though what several of them need may go on at
/// the same time: which lines this processor alone is to have, or what memory takes.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteBuffers {
    /// The cycles in which the last writes leave, the last of them at the end.
    leave: [u64; MOST],
}

impl WriteBuffers {
    /// A write begins in cycle `now`, and takes so many cycles. How many cycles later no more writes are left than
    /// there are buffers.
    ///
    /// # Panics
    ///
    /// If there are as many buffers as [`MOST`], or more.
    pub(super) fn write(&mut self, now: u64, cycles: u64, buffers: usize) -> u64 {
        assert!(buffers < MOST);
        let leaves = self.leave[MOST - 1].max(now + cycles);
        self.leave.copy_within(1.., 0);
        self.leave[MOST - 1] = leaves;
        self.leave[MOST - 1 - buffers].saturating_sub(now)
    }
}

uarch::state! {
    WriteBuffers { cycles: leave; }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bus that takes one at a time, in 100 cycles: the thread is four ahead of it.
    #[test]
    fn one_after_the_other() {
        let mut buffers = WriteBuffers::default();
        assert_eq!([10, 20, 30, 40].map(|now| buffers.write(now, n(now), 4)), [0; 4]);
        // The fifth is to leave in 510, and waits until the first has left, in 110.
        assert_eq!(buffers.write(50, 460, 4), 60);
        assert_eq!(buffers.write(110, 500, 4), 100);

        /// Of the first four: they leave in 110, 210, 310, 410.
        fn n(now: u64) -> u64 {
            now * 10 + 10 - now
        }
    }

    /// Each takes 240 cycles, whatever the others do: four in 240 cycles.
    #[test]
    fn at_the_same_time() {
        let mut buffers = WriteBuffers::default();
        let mut now = 0;
        let mut begin = |buffers: &mut WriteBuffers| {
            let began = now;
            now += 10 + buffers.write(now, 240, 4);
            began
        };
        let began: Vec<_> = (0..9).map(|_| begin(&mut buffers)).collect();
        // The fifth waits from 40 on until the first has left in 240, those up to the ninth for nobody: the
        // second leaves in 250, as the sixth begins, and the fifth in 280.
        assert_eq!(began, [0, 10, 20, 30, 40, 250, 260, 270, 280]);
        assert_eq!(buffers.write(290, 240, 4), 490 - 290);
    }

    /// Against a list of all writes, and a wait cycle by cycle.
    #[test]
    fn as_a_list_of_all_writes_has_them() {
        let mut random = 1_u64;
        let mut below = |n: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % n
        };
        for buffers in 1..MOST {
            let (mut of, mut leave, mut now) = (WriteBuffers::default(), Vec::new(), 0);
            let mut waited = 0;
            for _ in 0..2_000 {
                now += below(60);
                let cycles = 1 + below(300);
                // It leaves behind the one before it.
                leave.push((now + cycles).max(leave.last().copied().unwrap_or(0)));
                let mut wait = 0;
                while leave.iter().rev().filter(|&&leaves| leaves > now + wait).count() > buffers {
                    wait += 1;
                }
                assert_eq!(of.write(now, cycles, buffers), wait);
                now += wait;
                waited += u64::from(wait > 0);
            }
            assert!((100..1_990).contains(&waited), "{buffers}: {waited}");
        }
    }
}
