//! Loads and stores.

use super::coming::By;
use super::*;

impl Oracle {
    pub(super) fn data_miss(
        &mut self,
        p: usize,
        line: u64,
        who: Who,
        memory: MemoryType,
        once: bool,
    ) {
        let whole = matches!(who, Who::Whole(_));
        let owns = whole || matches!(who, Who::Store | Who::Locked | Who::AsksToWrite);
        if self.g.code_and_data == CodeAndData::OneCache {
            if let Some(code) = self.cores[p].code.remove(line, false) {
                self.one(p, "l1d_invalidates_l1i");
                self.second_insert(p, line, code.state, 'c');
            }
        } else if owns {
            self.own_code_drop(p, line);
        }
        let (mut state, mut came, from_second) = self.acquire(p, line, who, memory);
        if !owns && self.cores[p].code.get(line).is_some() {
            (state, came) = (S, S);
        }
        if from_second || !whole {
            self.state(p, if from_second { "l1d_refill_l2" } else { "l1d_refill_system" }, came);
        }
        match self.cores[p].data.insert(line, state, once) {
            Gone::Nothing => {}
            Gone::Taken => self.state(p, "l1d_evict", I),
            Gone::Line(gone) => {
                self.state(p, "l1d_evict", gone.state);
                if self.exclusive() && gone.marked {
                    if dirty(gone.state) {
                        self.one(p, "l1d_writeback");
                        self.send_line_back(p, gone.number);
                    }
                } else if dirty(gone.state) {
                    self.data_back(p, gone);
                } else if self.exclusive() {
                    self.second_insert(p, gone.number, gone.state, 'd');
                }
            }
        }
    }

    pub(super) fn misses(&mut self, p: usize, kind: Kind, write: bool) {
        self.one(p, "l1d_miss");
        let name = if write { "l1d_miss_store" } else { "l1d_miss_load" };
        self.one(p, name);
        match kind {
            Kind::Mmx => self.one(p, &format!("{name}_mmx")),
            Kind::Vector | Kind::NoRead { .. } => self.one(p, &format!("{name}_vpu")),
            Kind::Locked => self.one(p, "l1d_miss_locked"),
            _ => {}
        }
    }

    pub(super) fn train(&mut self, p: usize, line: u64, write: bool) {
        let Some(prefetcher) = self.g.prefetcher else { return };
        let line = line as i64;
        let streams = &mut self.cores[p].streams;
        let next = |&(last, direction): &(i64, i64)| {
            let step = line - last;
            (step == 1 || step == -1) && (direction == 0 || direction == step)
        };
        let Some(found) = streams.iter().position(next) else {
            streams.push((line, 0));
            if streams.len() > prefetcher.streams {
                streams.remove(0);
            }
            return;
        };
        let step = line - streams.remove(found).0;
        streams.push((line, step));
        let target = line + step;
        let page = 4096 / self.g.line as i64;
        if target.div_euclid(page) != line.div_euclid(page) {
            return;
        }
        self.one(p, if step == 1 { "hw_prefetch_up" } else { "hw_prefetch_down" });
        self.one(p, "hw_prefetch_attempt");
        let target = target as u64;
        if self.has(p, target) {
            self.one(p, "hw_prefetch_l2_hit");
            return self.one(p, "hw_prefetch_cancelled");
        }
        let time = self.time;
        let core = &mut self.cores[p];
        if core.second_coming.free_in(core.second.as_ref().unwrap(), time) > 0 {
            return self.one(p, "hw_prefetch_cancelled");
        }
        self.one(p, "hw_prefetch_l2_miss");
        self.one(p, "l2_tag_read");
        self.state(p, "l2_request", I);
        self.one(p, "l2_load_prefetched_invalid");
        let who = if write && prefetcher.for_ownership { Who::Store } else { Who::Load };
        let before = self.cycles;
        let (state, _) = self.read_system(p, target, who, MemoryType::WriteBack);
        let cycles = self.cycles - before;
        self.cycles = before;
        self.second_insert(p, target, state, 'p');
        let core = &mut self.cores[p];
        core.second_coming.ask(core.second.as_ref().unwrap(), target, By::Hardware, cycles);
    }

    pub(super) fn has(&self, p: usize, line: u64) -> bool {
        let core = &self.cores[p];
        core.code.get(line).is_some()
            || core.data.get(line).is_some()
            || core.second.as_ref().is_some_and(|second| second.get(line).is_some())
    }

    pub(super) fn lines(&self, access: &Access) -> Vec<(u64, u64, u64)> {
        let mut parts: Vec<(u64, u64, u64)> = Vec::new();
        for byte in access.physical..access.physical + u64::from(access.bytes) {
            match parts.last_mut() {
                Some((line, _, bytes)) if *line == byte / self.bytes() => *bytes += 1,
                _ => parts.push((byte / self.bytes(), byte, 1)),
            }
        }
        parts
    }

    pub(super) fn quads(at: u64, bytes: u64) -> Vec<(u64, u64)> {
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for byte in at..at + bytes {
            match parts.last_mut() {
                Some((first, bytes)) if *first / 8 == byte / 8 => *bytes += 1,
                _ => parts.push((byte, 1)),
            }
        }
        parts
    }

    pub(in crate::cache::tests) fn load(&mut self, p: usize, access: &Access) {
        self.n(p, "l1d_access", Self::quads(access.physical, access.bytes.into()).len() as u64);
        self.load_only(p, access);
    }

    pub(super) fn load_only(&mut self, p: usize, access: &Access) {
        if !access.memory.is_cacheable() {
            if self.g.uncached_is_miss {
                self.misses(p, access.kind, false);
            }
            self.settle(p, access);
            return self.read_bus(p, access, false);
        }
        for (line, ..) in self.lines(access) {
            if !self.cores[p].data.touch(line) {
                self.misses(p, access.kind, false);
                self.data_miss(p, line, Who::Load, access.memory, false);
                self.train(p, line, false);
            } else {
                self.waits(p, line);
            }
            self.cores[p].loaded = Some(line);
        }
    }

    pub(in crate::cache::tests) fn store(&mut self, p: usize, access: &Access) {
        self.n(p, "l1d_access", Self::quads(access.physical, access.bytes.into()).len() as u64);
        if !access.memory.is_cacheable() {
            return self.store_uncached(p, access);
        }
        if access.kind == Kind::NonTemporal {
            return self.store_streaming(p, access);
        }
        if access.memory != MemoryType::WriteBack {
            for (line, at, bytes) in self.lines(access) {
                self.own_code_drop(p, line);
                if !self.cores[p].data.touch(line) {
                    self.misses(p, access.kind, true);
                } else {
                    self.waits(p, line);
                }
                if access.memory == MemoryType::WriteProtected {
                    self.flush_own(p, line);
                }
                self.write_bus(p, access.memory, at, bytes, false);
            }
            return;
        }
        let lines = self.lines(access);
        let who = match access.kind {
            Kind::Locked => Who::Locked,
            Kind::NoRead { ordered } if lines.iter().all(|part| part.2 == self.bytes()) => {
                Who::Whole(ordered)
            }
            _ => Who::Store,
        };
        for (line, at, bytes) in lines {
            let state = self.cores[p].data.state(line);
            let waits = state != I && self.waits(p, line);
            self.n(p, "l1d_store_hit_owned", u64::from(sole(state) && !waits));
            if state == I {
                self.misses(p, access.kind, true);
            }
            self.write_line(p, line, at, bytes, who);
            if state == I && self.g.write_allocate && !matches!(who, Who::Whole(_)) {
                self.train(p, line, true);
            }
        }
    }

    pub(super) fn write_line(&mut self, p: usize, line: u64, at: u64, bytes: u64, who: Who) {
        let state = self.cores[p].data.state(line);
        self.cores[p].data.touch(line);
        if state == I && self.g.write_allocate {
            return self.data_miss(p, line, who, MemoryType::WriteBack, false);
        }
        if !sole(state) {
            self.own_code_drop(p, line);
        }
        let state = match state {
            I => return self.write_bus(p, MemoryType::WriteBack, at, bytes, false),
            M | E => M,
            _ if self.inclusive() => {
                let second = self.cores[p].second.as_mut().unwrap();
                second.touch(line);
                let state = second.state(line);
                self.one(p, "l2_tag_read");
                self.state(p, "l2_request", state);
                self.one(p, "l2_write_hit");
                self.cycles += self.g.second_level.unwrap().latency;
                if who != Who::Locked {
                    self.state(p, "l2_request_store", state);
                }
                self.second_own(p, line);
                M
            }
            _ => self.upgrade(p, line),
        };
        self.cores[p].data.set(line, state);
    }

    pub(super) fn store_uncached(&mut self, p: usize, access: &Access) {
        let streaming = access.kind == Kind::NonTemporal;
        if streaming {
            self.one(p, "weak_store");
            self.one(p, "weak_store_miss");
        }
        if streaming || self.g.uncached_is_miss {
            self.misses(p, access.kind, true);
        }
        if access.memory == MemoryType::WriteCombining && self.g.write_combining.buffers > 0 {
            self.one(p, "uncached_write");
            return self.combine(p, access, false);
        }
        self.settle(p, access);
        self.write_bus(p, access.memory, access.physical, access.bytes.into(), false);
    }

    pub(super) fn store_streaming(&mut self, p: usize, access: &Access) {
        self.one(p, "weak_store");
        self.misses(p, access.kind, true);
        let lines = self.lines(access);
        if !lines.iter().any(|&(line, ..)| self.has(p, line)) {
            self.one(p, "weak_store_miss");
        }
        for (line, ..) in lines {
            self.own_code_drop(p, line);
            self.flush_own(p, line);
        }
        if self.g.write_combining.buffers > 0 {
            return self.combine(p, access, true);
        }
        self.write_bus(p, access.memory, access.physical, access.bytes.into(), false);
    }
}
