//! Fetches, page walks, prefetches and devices.

use super::coming::By;
use super::*;

impl Oracle {
    pub(in crate::cache::tests) fn fetch(&mut self, p: usize, fetch: &Fetch) {
        let end = fetch.physical + u64::from(fetch.bytes);
        if !fetch.memory.is_cacheable() {
            let unit = u64::from(self.g.uncached_fetch);
            for number in fetch.physical / unit..=(end - 1) / unit {
                self.one(p, "l1i_fetch");
                self.one(p, "l1i_miss");
                self.read_bus_part(p, fetch.memory, number * unit, unit, false);
            }
            return;
        }
        let unit = u64::from(self.g.fetch_window);
        for window in fetch.physical / unit..=(end - 1) / unit {
            let line = window * unit / self.bytes();
            let core = &mut self.cores[p];
            let here = core.code.get(line).is_some();
            if fetch.sequential && here && core.window == Some(window) && core.fetched == Some(line)
            {
                continue;
            }
            core.window = Some(window);
            self.one(p, "l1i_fetch");
            if !self.cores[p].code.touch(line) {
                self.one(p, "l1i_miss");
                self.code_miss(p, line, fetch.memory);
                let next = line + 1;
                let core = &self.cores[p];
                let known = core.code.get(next).is_some() || core.data.get(next).is_some();
                let page = 4096 / self.bytes();
                if self.g.next_line_fetch && !known && !next.is_multiple_of(page) {
                    self.code_miss(p, next, fetch.memory);
                }
            }
            self.cores[p].fetched = Some(line);
        }
    }

    pub(super) fn code_miss(&mut self, p: usize, line: u64, memory: MemoryType) {
        let one = self.g.code_and_data == CodeAndData::OneCache;
        if let Some(data) = self.cores[p].data.get(line) {
            if one {
                self.cores[p].data.remove(line, false);
                self.one(p, "l1i_invalidates_l1d");
            } else {
                self.cores[p].data.set(line, S);
            }
            if dirty(data.state) {
                self.data_back(p, data);
            } else if one {
                self.second_insert(p, line, data.state, 'd');
            }
        }
        let (state, _, from_second) = self.acquire(p, line, Who::Code, memory);
        self.one(p, if from_second { "l1i_refill_l2" } else { "l1i_refill_system" });
        let state = if one { state } else { S };
        if let Gone::Line(gone) = self.cores[p].code.insert(line, state, false)
            && self.exclusive()
        {
            self.second_insert(p, gone.number, gone.state, 'c');
        }
    }

    pub(in crate::cache::tests) fn walk_read(
        &mut self,
        p: usize,
        physical: u64,
        memory: MemoryType,
    ) {
        if !memory.is_cacheable() {
            return self.read_bus_part(p, memory, physical, 8, false);
        }
        let line = physical / self.bytes();
        if self.g.walks == WalkPath::DataCache {
            if !self.cores[p].data.touch(line) {
                return self.data_miss(p, line, Who::Walk, memory, false);
            }
            let time = self.time;
            let core = &mut self.cores[p];
            let rest = core.data_coming.rest(&core.data, time, line);
            self.cycles += rest.map_or(0, |(cycles, _)| cycles);
            return;
        }
        let core = &self.cores[p];
        if core.data.get(line).is_none()
            && core.code.get(line).is_none()
            && self.second_request(p, line, Who::Walk).is_none()
        {
            let state = self.read_missed(p, line, Who::Walk, memory);
            self.second_insert(p, line, state, 's');
        }
    }

    pub(in crate::cache::tests) fn walk_write(&mut self, p: usize, physical: u64) {
        self.write_line(p, physical / self.bytes(), physical, 8, Who::Store);
    }

    pub(in crate::cache::tests) fn prefetch(
        &mut self,
        p: usize,
        physical: u64,
        hint: Hint,
        memory: MemoryType,
    ) {
        let line = physical / self.bytes();
        if self.g.prefetches == Prefetches::Requests {
            return self.ask_for(p, line, hint, memory);
        }
        let name = match hint {
            Hint::T1 => "soft_prefetch_t1",
            Hint::T2 => "soft_prefetch_t2",
            Hint::NonTemporal => "soft_prefetch_nta",
            _ => "",
        };
        let outer = matches!(hint, Hint::T1 | Hint::T2 | Hint::WriteT1 | Hint::WriteT2);
        if outer && !name.is_empty() {
            self.one(p, name);
        }
        if !memory.is_cacheable() {
            return;
        }
        if !name.is_empty() && !self.has(p, line) {
            self.one(p, &format!("{name}_miss"));
        }
        self.one(p, "l1d_access");
        if self.cores[p].data.touch(line) {
            return;
        }
        self.one(p, "l1d_miss");
        let to_write = [Hint::Write, Hint::WriteT1, Hint::WriteT2, Hint::WriteNonTemporal];
        let writes = to_write.contains(&hint) && memory == MemoryType::WriteBack;
        let who = if writes { Who::Store } else { Who::Load };
        if outer && self.g.outer_prefetch == PrefetchInto::SecondLevel {
            if self.second_request(p, line, who).is_none() {
                let state = self.read_missed(p, line, who, memory);
                self.second_insert(p, line, state, 's');
            }
            return;
        }
        self.data_miss(p, line, who, memory, hint == Hint::NonTemporal);
    }

    /// A prefetch instruction of Knights Corner.
    fn ask_for(&mut self, p: usize, line: u64, hint: Hint, memory: MemoryType) {
        let (outer, writes) = match hint {
            Hint::T0 | Hint::NonTemporal => (false, false),
            Hint::T1 | Hint::T2 => (true, false),
            Hint::Write | Hint::WriteNonTemporal => (false, true),
            Hint::WriteT1 | Hint::WriteT2 => (true, true),
        };
        let cacheable = memory.is_cacheable();
        let may_write = memory == MemoryType::WriteBack && self.cores[p].code.get(line).is_none();
        let who = if writes && may_write { Who::AsksToWrite } else { Who::Asks };
        let dropped = !cacheable || self.is_asked_for(p, line);
        let below = self.cores[p].second.as_ref().unwrap().get(line);
        let comes = self.second_rest(p, line).is_some();
        let time = self.time;
        if outer {
            self.one(p, "prefetch_l2_seen_by_l1");
            if dropped {
                return;
            }
            self.one(p, "prefetch_l2");
            let core = &mut self.cores[p];
            let second = core.second.as_ref().unwrap();
            if comes || below.is_none() && core.second_coming.free_in(second, time) > 0 {
                return self.one(p, "prefetch_l2_dropped");
            }
            self.n(p, "prefetch_l2_miss", u64::from(below.is_none()));
            match (self.second_request(p, line, who), who) {
                (None, _) => {
                    let state = self.read_missed(p, line, who, memory);
                    self.second_insert(p, line, state, 's');
                    let core = &mut self.cores[p];
                    let second = core.second.as_ref().unwrap();
                    core.second_coming.ask(second, line, By::Program, self.cycles);
                }
                (Some(_), Who::AsksToWrite) => self.second_claim(p, line),
                _ => {}
            }
            return;
        }
        self.one(p, "prefetch_l1");
        if dropped {
            self.one(p, "prefetch_l1_dropped");
        } else if !self.cores[p].data.touch(line) {
            self.one(p, "prefetch_l1_miss");
            self.n(p, "prefetch_l1_l2_miss", u64::from(below.is_none() || comes));
            let core = &mut self.cores[p];
            self.cycles = core.data_coming.free_in(&core.data, time);
            self.data_miss(p, line, who, memory, false);
            let core = &mut self.cores[p];
            core.data_coming.ask(&core.data, line, By::Program, self.cycles);
        }
    }

    /// CLEVICT0, and CLEVICT1, which is for the second level too.
    pub(in crate::cache::tests) fn evict(&mut self, p: usize, physical: u64, second_level: bool) {
        let line = physical / self.bytes();
        if second_level {
            return self.flush_own(p, line);
        }
        if let Some(gone) = self.cores[p].data.remove(line, false)
            && dirty(gone.state)
        {
            self.data_back(p, gone);
        }
    }

    pub(in crate::cache::tests) fn device(&mut self, physical: u64, bytes: u32, write: bool) {
        let access = Access { physical, bytes, kind: Kind::Plain, memory: MemoryType::WriteBack };
        for (line, at, bytes) in self.lines(&access) {
            let (ask, request) = match (write, self.g.device_read) {
                (true, _) if bytes == self.bytes() => (Ask::All, Request::WritePartial),
                (true, _) => (Ask::Part, Request::WritePartial),
                (false, DeviceRead::Shares) => (Ask::Share, Request::ReadPartial),
                (false, DeviceRead::Leaves) => (Ask::Device, Request::ReadPartial),
            };
            let snoop = self.ask_all(None, line, ask);
            self.send(None, request, at, bytes, false, snoop);
        }
    }
}
