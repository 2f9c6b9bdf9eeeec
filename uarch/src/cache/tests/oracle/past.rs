//! What goes past the caches, and flushes.

use super::*;

impl Oracle {
    pub(in crate::cache::tests) fn modify(&mut self, p: usize, access: &Access) {
        if access.kind != Kind::Locked {
            self.load(p, access);
            return self.store(p, access);
        }
        self.drain(p);
        let quads = Self::quads(access.physical, access.bytes.into()).len() as u64;
        let lines = self.lines(access);
        let cache = self.g.locks == LockPolicy::Cache;
        if cache && lines.len() == 1 && access.memory == MemoryType::WriteBack {
            self.n(p, "l1d_access", quads);
            return self.store(p, access);
        }
        self.n(p, "l1d_access", 2 * quads);
        let cacheable = access.memory.is_cacheable();
        if cacheable {
            for (line, ..) in lines {
                self.own_code_drop(p, line);
                self.flush_own(p, line);
            }
        }
        if cacheable || self.g.uncached_is_miss {
            self.misses(p, access.kind, false);
            self.misses(p, access.kind, true);
        }
        self.read_bus(p, access, true);
        self.write_bus(p, access.memory, access.physical, access.bytes.into(), true);
    }

    pub(super) fn read_bus(&mut self, p: usize, access: &Access, locked: bool) {
        for (at, bytes) in Self::quads(access.physical, access.bytes.into()) {
            self.read_bus_part(p, access.memory, at, bytes, locked);
        }
    }

    pub(super) fn read_bus_part(
        &mut self,
        p: usize,
        memory: MemoryType,
        at: u64,
        bytes: u64,
        locked: bool,
    ) {
        self.n(p, "uncached_read", u64::from(!memory.is_cacheable()));
        self.n(p, "uncached_access", u64::from(memory == MemoryType::Uncacheable));
        self.request_type(p, memory);
        if memory.is_cacheable() {
            self.ask_all(Some(p), at / self.bytes(), Ask::Flush);
        }
        self.send(Some(p), Request::ReadPartial, at, bytes, locked, Snoop::Miss);
    }

    pub(super) fn write_bus(
        &mut self,
        p: usize,
        memory: MemoryType,
        at: u64,
        bytes: u64,
        locked: bool,
    ) {
        for (at, bytes) in Self::quads(at, bytes) {
            self.n(p, "uncached_write", u64::from(!memory.is_cacheable()));
            self.n(p, "uncached_access", u64::from(memory == MemoryType::Uncacheable));
            self.request_type(p, memory);
            self.one(p, "system_write_qword");
            let snoop = if memory.is_cacheable() {
                self.ask_all(Some(p), at / self.bytes(), Ask::Part)
            } else {
                Snoop::Miss
            };
            self.send(Some(p), Request::WritePartial, at, bytes, locked, snoop);
        }
    }

    pub(super) fn combine(&mut self, p: usize, access: &Access, streaming: bool) {
        for (line, at, bytes) in self.lines(access) {
            let combining = &mut self.cores[p].combining;
            let found = combining.iter().position(|buffer| buffer.0 == line);
            let mut oldest = None;
            if found.is_none() {
                if combining.len() == self.g.write_combining.buffers {
                    oldest = Some(combining.remove(0));
                }
                combining.push((line, BTreeSet::new(), streaming));
            }
            let at_line = combining.iter_mut().find(|buffer| buffer.0 == line).unwrap();
            at_line.1.extend(at..at + bytes);
            if let Some(oldest) = oldest {
                self.flush_buffer(p, &oldest);
            }
            let size = self.g.line as usize;
            let combining = &mut self.cores[p].combining;
            if let Some(full) = combining.iter().position(|buffer| buffer.1.len() == size) {
                let full = combining.remove(full);
                self.flush_buffer(p, &full);
            }
        }
    }

    pub(super) fn flush_buffer(
        &mut self,
        p: usize,
        (_, bytes, streaming): &(u64, BTreeSet<u64>, bool),
    ) {
        self.one(p, if *streaming { "wc_flush_streaming" } else { "wc_flush" });
        let full = bytes.len() as u64 == self.bytes();
        let unit = if full { self.bytes() } else { u64::from(self.g.write_combining.partial) };
        let units: BTreeSet<u64> = bytes.iter().map(|byte| byte / unit).collect();
        for number in units {
            let of_unit: Vec<u64> =
                bytes.iter().copied().filter(|byte| byte / unit == number).collect();
            let quads: BTreeSet<u64> = of_unit.iter().map(|byte| byte / 8).collect();
            self.n(p, "system_write_qword", quads.len() as u64);
            let ask = if full { Ask::All } else { Ask::Part };
            let snoop = self.ask_all(Some(p), of_unit[0] / self.bytes(), ask);
            let count = of_unit.len() as u64;
            self.send(Some(p), Request::WriteCombined, of_unit[0], count, false, snoop);
        }
    }

    pub(super) fn settle(&mut self, p: usize, access: &Access) {
        if access.memory == MemoryType::Uncacheable {
            return self.drain(p);
        }
        for (line, ..) in self.lines(access) {
            let combining = &mut self.cores[p].combining;
            if let Some(place) = combining.iter().position(|buffer| buffer.0 == line) {
                let buffer = combining.remove(place);
                self.flush_buffer(p, &buffer);
            }
        }
    }

    pub(in crate::cache::tests) fn drain(&mut self, p: usize) {
        for buffer in std::mem::take(&mut self.cores[p].combining) {
            self.flush_buffer(p, &buffer);
        }
    }

    pub(super) fn flush_own(&mut self, p: usize, line: u64) {
        let above = self.first_drop(p, line);
        let second = self.cores[p].second.as_mut().and_then(|second| second.remove(line, false));
        if let Some(gone) = second {
            self.one(p, "l2_tag_write");
            self.second_gone(p, gone, above);
            if above || dirty(gone.state) {
                self.second_back(p, line, above);
            }
        } else if above {
            self.send_line_back(p, line);
        }
    }

    pub(in crate::cache::tests) fn flush(&mut self, p: usize, physical: u64) {
        let line = physical / self.bytes();
        let combining = &mut self.cores[p].combining;
        if let Some(place) = combining.iter().position(|buffer| buffer.0 == line) {
            let buffer = combining.remove(place);
            self.flush_buffer(p, &buffer);
        }
        self.flush_own(p, line);
        self.ask_all(Some(p), line, Ask::Flush);
    }

    pub(in crate::cache::tests) fn write_back_all(&mut self, p: usize) {
        self.drain(p);
        let mut lines = self.cores[p].data.lines();
        lines.extend(self.cores[p].second.iter().flat_map(Array::lines));
        for line in lines {
            self.flush_own(p, line.number);
        }
        self.drop_all(p);
    }

    pub(in crate::cache::tests) fn drop_all(&mut self, p: usize) {
        let core = &mut self.cores[p];
        core.code.clear();
        core.data.clear();
        core.fetched = None;
        let lines = core.second.as_ref().map_or(Vec::new(), Array::lines);
        core.second.iter_mut().for_each(Array::clear);
        for line in lines {
            self.one(p, "l2_tag_write");
            self.second_gone(p, line, false);
        }
    }
}
