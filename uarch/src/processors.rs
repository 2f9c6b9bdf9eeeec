//! What there is once for each processor or each core, with that of the running one at hand.

use crate::state::{State, Visitor};
use std::ops::{Index, IndexMut};

/// One `T` for each processor, by its number. That of the running one is kept in place, so that what is told of
/// execution finds it without a look-up; when another processor runs, the two change places.
#[derive(Clone, Debug)]
pub struct PerProcessor<T> {
    /// Which one is in place.
    number: usize,
    running: T,
    /// Those of the others.
    others: Vec<T>,
    /// By number: where among those it is. Of the running one, this says nothing.
    places: Vec<usize>,
}

impl<T> PerProcessor<T> {
    /// So many, made by a function of the number; the first runs.
    ///
    /// # Panics
    ///
    /// If there are none.
    #[must_use]
    pub fn new(processors: usize, mut make: impl FnMut(usize) -> T) -> Self {
        assert!(processors != 0, "a machine has a processor");
        let running = make(0);
        let others = (1..processors).map(make).collect();
        let places = (0..processors).map(|number| number.saturating_sub(1)).collect();
        Self { number: 0, running, others, places }
    }

    /// From now on, this processor runs.
    ///
    /// # Panics
    ///
    /// If there is none of that number.
    #[inline(always)]
    pub fn choose(&mut self, processor: usize) {
        if processor != self.number {
            let place = self.places[processor];
            std::mem::swap(&mut self.running, &mut self.others[place]);
            self.places[self.number] = place;
            self.number = processor;
        }
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
        self.places.len()
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.running).chain(&self.others)
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        std::iter::once(&mut self.running).chain(&mut self.others)
    }
}

impl<T> Index<usize> for PerProcessor<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, processor: usize) -> &T {
        match processor == self.number {
            true => &self.running,
            false => &self.others[self.places[processor]],
        }
    }
}

impl<T> IndexMut<usize> for PerProcessor<T> {
    #[inline(always)]
    fn index_mut(&mut self, processor: usize) -> &mut T {
        if processor == self.number {
            return &mut self.running;
        }
        &mut self.others[self.places[processor]]
    }
}

/// One `T` for each core of so many hardware threads, by the number of a processor: the threads of a core are
/// processors with adjacent numbers. That of the running processor's core is at hand, as in [`PerProcessor`].
#[derive(Clone, Debug)]
pub struct PerCore<T> {
    /// log2 of how many processors have one together.
    shift: u32,
    /// By the number of the core.
    cores: PerProcessor<T>,
}

impl<T> PerCore<T> {
    /// One for each core of so many `threads`, a power of two, made by a function of its number. The last
    /// core may have fewer.
    ///
    /// # Panics
    ///
    /// If there are no processors, or the number of threads is no power of two.
    #[must_use]
    pub fn new(processors: usize, threads: usize, make: impl FnMut(usize) -> T) -> Self {
        assert!(threads.is_power_of_two(), "{threads} threads a core");
        let count = processors.div_ceil(threads);
        let cores = PerProcessor::new(count, make);
        Self { shift: threads.trailing_zeros(), cores }
    }

    /// From now on, this processor runs.
    ///
    /// # Panics
    ///
    /// If there is none of that number.
    #[inline(always)]
    pub fn choose(&mut self, processor: usize) {
        self.cores.choose(self.number_of(processor));
    }

    /// Number of the running processor's core.
    #[inline(always)]
    #[must_use]
    pub fn number(&self) -> usize {
        self.cores.number()
    }

    /// Number of a processor's core.
    #[inline(always)]
    #[must_use]
    pub fn number_of(&self, processor: usize) -> usize {
        processor >> self.shift
    }

    /// The first processor of the core of this number.
    #[inline(always)]
    #[must_use]
    pub fn first_of(&self, number: usize) -> usize {
        number << self.shift
    }

    /// Which of the threads of its core a processor is, from 0 up.
    #[inline(always)]
    #[must_use]
    pub fn thread_of(&self, processor: usize) -> usize {
        processor - self.first_of(self.number_of(processor))
    }

    /// That of the running processor's core.
    #[inline(always)]
    #[must_use]
    pub fn running(&self) -> &T {
        self.cores.running()
    }

    /// The same, to change it.
    #[inline(always)]
    pub fn running_mut(&mut self) -> &mut T {
        self.cores.running_mut()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cores.count()
    }

    /// All of them, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.cores.iter()
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.cores.iter_mut()
    }
}

impl<T> Index<usize> for PerCore<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, processor: usize) -> &T {
        &self.cores[self.number_of(processor)]
    }
}

impl<T> IndexMut<usize> for PerCore<T> {
    #[inline(always)]
    fn index_mut(&mut self, processor: usize) -> &mut T {
        let number = self.number_of(processor);
        &mut self.cores[number]
    }
}

/// Of all; and which one is in place.
impl<T: State> State for PerProcessor<T> {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        self.visit_with(visitor, T::visit);
    }
}

impl<T> PerProcessor<T> {
    /// Saves all, or loads them, as [`State::visit`] does; `visit` does so with one of them.
    pub fn visit_with<V: Visitor>(
        &mut self,
        visitor: &mut V,
        mut visit: impl FnMut(&mut T, &mut V),
    ) {
        visitor.name("PerProcessor.number");
        let mut number = self.number;
        visitor.index(&mut number, self.count());
        self.choose(number);
        visit(&mut self.running, visitor);
        for other in (0..self.count()).filter(|&other| other != number) {
            visit(&mut self[other], visitor);
        }
    }
}

impl<T: State> State for PerCore<T> {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        self.visit_with(visitor, T::visit);
    }
}

impl<T> PerCore<T> {
    /// As [`PerProcessor::visit_with`].
    pub fn visit_with<V: Visitor>(
        &mut self,
        visitor: &mut V,
        mut visit: impl FnMut(&mut T, &mut V),
    ) {
        self.cores.visit_with(visitor, |core, visitor| visit(core, visitor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Loader, Saver};

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

    /// What is saved does not tell who ran before, nor what is loaded.
    #[test]
    fn who_ran_before_is_not_saved() {
        let having_run = |processors: &[usize]| {
            let mut all = PerProcessor::new(5, |number| number as u64);
            processors.iter().for_each(|&processor| all.choose(processor));
            let mut bytes = Vec::new();
            all.visit(&mut Saver::new(&mut bytes));
            (all, bytes)
        };
        let (mut all, bytes) = having_run(&[3, 1, 4, 0, 2]);
        assert_eq!(bytes, having_run(&[2]).1);
        all.choose(4);
        all.iter_mut().for_each(|number| *number += 100);
        let mut loader = Loader::new(&bytes);
        all.visit(&mut loader);
        loader.finish().unwrap();
        assert_eq!((all.number(), *all.running()), (2, 2));
        assert!((0..5).all(|number| all[number] == number as u64));
    }

    /// Whoever runs, the processors of a core find the same one: here the core's number.
    #[test]
    fn processors_of_a_core_have_one() {
        for (processors, threads, cores) in [(8, 4, 2), (5, 4, 2), (4, 2, 2), (9, 4, 3), (1, 4, 1)]
        {
            let mut all = PerCore::new(processors, threads, |number| number);
            assert_eq!(all.count(), cores);
            for chosen in (0..processors).rev().chain(0..processors) {
                all.choose(chosen);
                assert_eq!((*all.running(), all.number()), (chosen / threads, chosen / threads));
                for processor in 0..processors {
                    assert_eq!(all[processor], processor / threads);
                    assert_eq!(all.thread_of(processor), processor % threads);
                }
            }
            assert_eq!(all.first_of(cores - 1), (cores - 1) * threads);
        }
    }
}
