//! What prefetches have asked for and is on its way: a list of who asked for what until when.

use super::*;

#[derive(Clone, Copy, PartialEq)]
pub(super) enum By {
    Program,
    Hardware,
}

struct Line {
    number: u64,
    /// When it came into the array: it is the same line as long as that is so.
    since: u64,
    ready: u64,
    by: By,
    /// Who waited for it last, and when that began.
    waited: Option<(usize, u64)>,
}

pub(super) struct Coming {
    places: usize,
    lines: Vec<Line>,
    /// When a line was last asked for.
    asked: u64,
}

impl Coming {
    pub(super) fn new(places: usize) -> Self {
        Self { places, lines: Vec::new(), asked: 0 }
    }

    /// What is still in the array.
    fn prune(&mut self, array: &Array) {
        self.lines.retain(|line| array.since(line.number) == Some(line.since));
    }

    /// Cycles until a line comes, and who asked for it.
    pub(super) fn rest(&mut self, array: &Array, time: u64, number: u64) -> Option<(u64, By)> {
        self.prune(array);
        let time = time.max(self.asked);
        let line = self.lines.iter().find(|line| line.number == number && line.ready > time)?;
        Some((line.ready - time, line.by))
    }

    /// The same for who waits, once an instruction.
    pub(super) fn wait(&mut self, array: &Array, time: u64, number: u64, p: usize) -> Option<u64> {
        let (cycles, _) = self.rest(array, time, number)?;
        let line = self.lines.iter_mut().find(|line| line.number == number).unwrap();
        if line.waited == Some((p, time)) {
            return None;
        }
        line.waited = Some((p, time));
        Some(cycles)
    }

    /// When one that is asked for at `time` can be on its way, cycles later.
    pub(super) fn free_in(&mut self, array: &Array, time: u64) -> u64 {
        if self.places == 0 {
            return 0;
        }
        self.prune(array);
        self.asked = self.asked.max(time);
        let others = |at: u64| self.lines.iter().filter(|line| line.ready > at).count();
        let at = (self.asked..).find(|&at| others(at) < self.places).unwrap();
        let wait = at - self.asked;
        self.lines.retain(|line| line.ready > self.asked);
        wait
    }

    pub(super) fn ask(&mut self, array: &Array, number: u64, by: By, cycles: u64) {
        if self.places > 0 && cycles > 0 {
            let since = array.since(number).unwrap();
            let ready = self.asked + cycles;
            self.lines.push(Line { number, since, ready, by, waited: None });
        }
    }
}

impl Oracle {
    /// A data request to a line that the data cache has: whether it waits for it.
    pub(super) fn waits(&mut self, p: usize, line: u64) -> bool {
        let time = self.time;
        let core = &mut self.cores[p];
        let Some(cycles) = core.data_coming.wait(&core.data, time, line, p) else { return false };
        self.cycles += cycles;
        self.one(p, "prefetch_l1_hit_inflight");
        true
    }

    /// What is left of a line's way into the second level.
    pub(super) fn second_rest(&mut self, p: usize, line: u64) -> Option<(u64, By)> {
        let time = self.time;
        let core = &mut self.cores[p];
        core.second_coming.rest(core.second.as_ref()?, time, line)
    }

    /// Whether the program has asked for a line that is on its way.
    pub(super) fn is_asked_for(&mut self, p: usize, line: u64) -> bool {
        let time = self.time;
        let core = &mut self.cores[p];
        let first = core.data_coming.rest(&core.data, time, line);
        let second = self.second_rest(p, line);
        [first, second].into_iter().flatten().any(|(_, by)| by == By::Program)
    }
}
