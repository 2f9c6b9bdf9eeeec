//! What there is once for each processor, with that of the running one at hand.

use std::ops::{Index, IndexMut};

/// One `T` for each processor, by its number. That of the running one is kept in place, so that what is
/// told of execution finds it without a look-up; when another processor runs, the two change places.
#[derive(Clone, Debug)]
pub struct PerProcessor<T> {
    number: usize,
    running: T,
    /// Those of the others: of processor `n` at `n - 1`, but that of processor 0 where the running one's
    /// would be.
    others: Vec<T>,
}

impl<T> PerProcessor<T> {
    /// So many, made by a function of the number; the first runs.
    ///
    /// # Panics
    ///
    /// If there are none.
    #[must_use]
    pub fn new(processors: usize, make: impl FnMut(usize) -> T) -> Self {
        let mut all = (0..processors).map(make);
        let running = all.next().expect("a machine has a processor");
        Self { number: 0, running, others: all.collect() }
    }

    /// From now on, processor `number` runs.
    ///
    /// # Panics
    ///
    /// If there is none of that number.
    pub fn choose(&mut self, number: usize) {
        if self.number != 0 {
            std::mem::swap(&mut self.running, &mut self.others[self.number - 1]);
        }
        if number != 0 {
            std::mem::swap(&mut self.running, &mut self.others[number - 1]);
        }
        self.number = number;
    }

    /// Number of the running processor.
    #[inline(always)]
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// That of the running processor.
    #[inline(always)]
    #[must_use]
    pub fn running(&self) -> &T {
        &self.running
    }

    /// The same, to change it.
    #[inline(always)]
    pub fn running_mut(&mut self) -> &mut T {
        &mut self.running
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.others.len() + 1
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.running).chain(&self.others)
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.running).chain(&mut self.others)
    }

    /// Where in `others` that of a processor is which does not run.
    fn place(&self, number: usize) -> usize {
        if number == 0 { self.number - 1 } else { number - 1 }
    }
}

impl<T> Index<usize> for PerProcessor<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, number: usize) -> &T {
        if number == self.number { &self.running } else { &self.others[self.place(number)] }
    }
}

impl<T> IndexMut<usize> for PerProcessor<T> {
    #[inline(always)]
    fn index_mut(&mut self, number: usize) -> &mut T {
        if number == self.number {
            return &mut self.running;
        }
        let place = self.place(number);
        &mut self.others[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever runs, each is found by its number.
    #[test]
    fn each_is_found_by_its_number() {
        for processors in 1..5 {
            let mut all = PerProcessor::new(processors, |number| number);
            for chosen in [0, 2, 1, 1, 3, 0, 3, 2, 0].into_iter().filter(|&n| n < processors) {
                all.choose(chosen);
                assert_eq!((*all.running(), all.number()), (chosen, chosen));
                assert!((0..processors).all(|number| all[number] == number));
                let mut seen: Vec<_> = all.iter_mut().map(|number| *number).collect();
                seen.sort_unstable();
                assert_eq!(seen, (0..all.count()).collect::<Vec<_>>());
            }
        }
    }
}
