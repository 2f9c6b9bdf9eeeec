//! The second level.

use super::coming::By;
use super::*;

impl Oracle {
    pub(super) fn second_request(&mut self, p: usize, line: u64, who: Who) -> Option<Line> {
        let second = self.cores[p].second.as_mut().unwrap();
        second.touch(line);
        let here = second.get(line);
        let rest = if who == Who::Code { None } else { self.second_rest(p, line) };
        let found = here.filter(|_| rest.is_none());
        if let Some((cycles, by)) = rest {
            self.cycles += cycles;
            let waits = [Who::Load, Who::Store, Who::Locked].contains(&who) && by == By::Program;
            self.n(p, "prefetch_l2_hit_inflight", u64::from(waits));
        }
        let state = found.map_or(I, |line| line.state);
        self.one(p, "l2_tag_read");
        self.state(p, "l2_request", state);
        let load = if found.is_some_and(|line| line.marked) {
            "l2_load_prefetched"
        } else {
            "l2_load_demand"
        };
        let (request, miss, read) = match who {
            Who::Code => ("l2_request_ifetch", "l2_miss_ifetch", "l2_read_instruction"),
            Who::Load => ("l2_request_data", "l2_miss_data", "l2_read_load"),
            Who::Walk => ("l2_request_tlb", "l2_miss_tlb", "l2_read_load"),
            Who::Asks => ("l2_request_data", "l2_miss_data", "l2_read_load"),
            Who::Store | Who::Whole(_) | Who::Locked | Who::AsksToWrite => {
                ("l2_request_data", "l2_miss_data", "l2_read_store")
            }
        };
        let reads = matches!(who, Who::Code | Who::Load | Who::Walk);
        let writes = matches!(who, Who::Store | Who::Whole(_) | Who::Locked);
        if let (Who::Whole(ordered), None) = (who, found) {
            let how = if ordered { "ordered" } else { "weak" };
            self.one(p, &format!("l2_miss_write_line_{how}"));
            self.n(p, "l2_miss_read", u64::from(!ordered));
        }
        if found.is_some() && reads {
            self.state(p, "l2_request_read", state);
        }
        self.n(p, "l2_miss_read", u64::from(found.is_none() && (reads || who == Who::Asks)));
        self.n(p, "l2_write_hit", u64::from(found.is_some() && writes));
        self.one(p, request);
        self.one(p, if found.is_some() { read } else { miss });
        match who {
            Who::Code => self.state(p, "l2_request_ifetch", state),
            Who::Load | Who::Walk => {
                self.state(p, "l2_request_load", state);
                self.state(p, load, state);
            }
            Who::Store | Who::Whole(_) => self.state(p, "l2_request_store", state),
            Who::Locked | Who::Asks | Who::AsksToWrite => {}
        }
        here
    }

    /// From: 's' system for an access, 'p' system for the prefetcher, 'd' data cache, 'c' code cache; 'n'
    /// nowhere.
    pub(super) fn second_insert(&mut self, p: usize, line: u64, state: LineState, from: char) {
        let Some(second) = self.cores[p].second.as_mut() else { return };
        let gone = second.insert(line, state, from == 'p');
        if from != 'n' {
            self.carry(p, false);
        }
        self.one(p, "l2_fill");
        self.one(p, "l2_tag_write");
        self.n(p, "l2_fill_modified", u64::from(state == M));
        self.state(p, if from == 'p' { "l2_fill_prefetched" } else { "l2_fill_demand" }, state);
        match from {
            's' | 'p' => self.one(p, "l2_write_from_system"),
            'd' => self.one(p, "l2_write_from_l1d"),
            _ => {}
        }
        let Gone::Line(gone) = gone else { return };
        let above = self.inclusive() && self.first_drop(p, gone.number);
        self.second_gone(p, gone, above);
        if above || dirty(gone.state) {
            self.second_back(p, gone.number, above);
        }
    }

    /// Over the second level's bus goes a line.
    pub(super) fn carry(&mut self, p: usize, up: bool) {
        let Some(second) = self.g.second_level else { return };
        let cycles = self.bytes() / u64::from(second.bus.width) * second.bus.period;
        self.n(p, "l2_bus_busy", cycles);
        self.n(p, "l2_bus_busy_read", if up { cycles } else { 0 });
    }

    pub(super) fn second_back(&mut self, p: usize, line: u64, above: bool) {
        if !above {
            self.carry(p, false);
        }
        self.one(p, "l2_evict_modified");
        self.one(p, "l2_write_from_l2");
        self.send_line_back(p, line);
    }

    /// Drops a line in both first levels. Whether it was dirty there.
    pub(super) fn first_drop(&mut self, p: usize, line: u64) -> bool {
        self.cores[p].code.remove(line, false);
        let was = self.cores[p].data.remove(line, false).is_some_and(|line| dirty(line.state));
        self.n(p, "l1d_writeback", u64::from(was));
        was
    }

    /// The state for the first level, the state reported, and whether the second level had it.
    pub(super) fn acquire(
        &mut self,
        p: usize,
        line: u64,
        who: Who,
        memory: MemoryType,
    ) -> (LineState, LineState, bool) {
        let owns = matches!(who, Who::Store | Who::Whole(_) | Who::Locked);
        if self.g.second_level.is_none() {
            let (state, _) = self.read_system(p, line, who, memory);
            return (state, state, false);
        }
        self.cycles += self.g.second_level.unwrap().latency;
        let Some(found) = self.second_request(p, line, who) else {
            let state = self.read_missed(p, line, who, memory);
            if self.inclusive() {
                self.second_insert(p, line, state, if let Who::Whole(_) = who { 'n' } else { 's' });
            }
            return (state, state, false);
        };
        self.carry(p, true);
        if self.exclusive() {
            self.cores[p].second.as_mut().unwrap().remove(line, false);
            self.one(p, "l2_tag_write");
            self.second_gone(p, found, false);
            let state = if owns {
                if !sole(found.state) {
                    self.upgrade(p, line);
                }
                M
            } else if who == Who::Code && dirty(found.state) {
                self.second_back(p, line, false);
                if found.state == M { E } else { S }
            } else {
                found.state
            };
            return (state, found.state, true);
        }
        let state = if owns {
            self.second_own(p, line);
            M
        } else if who == Who::AsksToWrite {
            self.second_claim(p, line);
            E
        } else if sole(found.state) {
            E
        } else {
            S
        };
        (state, state, true)
    }

    pub(super) fn second_own(&mut self, p: usize, line: u64) {
        let state = self.cores[p].second.as_ref().unwrap().state(line);
        if !sole(state) {
            self.upgrade(p, line);
        }
        if state != M {
            self.cores[p].second.as_mut().unwrap().set(line, M);
            self.one(p, "l2_tag_write");
        }
    }

    /// Others drop a line of the second level, which is to be written later.
    pub(super) fn second_claim(&mut self, p: usize, line: u64) {
        if !sole(self.cores[p].second.as_ref().unwrap().state(line)) {
            self.upgrade(p, line);
            self.cores[p].second.as_mut().unwrap().set(line, E);
            self.one(p, "l2_tag_write");
        }
    }

    /// A line of the data cache that is dirty goes down.
    pub(super) fn data_back(&mut self, p: usize, line: Line) {
        self.one(p, "l1d_writeback");
        if self.exclusive() {
            self.second_insert(p, line.number, line.state, 'd');
        } else if self.inclusive() {
            self.one(p, "l2_tag_write");
            self.one(p, "l2_write_from_l1d");
            self.carry(p, false);
            self.cores[p].second.as_mut().unwrap().set(line.number, M);
        } else {
            self.send_line_back(p, line.number);
        }
    }

    pub(super) fn own_code_drop(&mut self, p: usize, line: u64) {
        if self.cores[p].code.remove(line, false).is_some() {
            self.one(p, "l1d_invalidates_l1i");
        }
    }
}
