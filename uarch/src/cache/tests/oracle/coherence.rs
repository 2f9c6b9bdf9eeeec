//! What the caches of the other processors answer, and transactions.

use super::*;

impl Oracle {
    pub(super) fn ask_all(&mut self, asker: Option<usize>, line: u64, ask: Ask) -> Snoop {
        let mut answers = BTreeSet::new();
        for core in 0..self.cores.all.len() {
            if Some(core) != asker.map(|asker| asker / self.cores.threads) {
                let q = self.cores.last[core];
                answers.insert(self.ask(q, line, ask));
            }
        }
        if answers.contains(&2) {
            Snoop::HitDirty
        } else if answers.contains(&1) {
            Snoop::HitClean
        } else {
            Snoop::Miss
        }
    }

    /// 0: not there; 1: clean; 2: dirty.
    pub(super) fn ask(&mut self, q: usize, line: u64, ask: Ask) -> u8 {
        let core = &self.cores[q];
        let (code, data) = (core.code.get(line), core.data.get(line));
        let second = core.second.as_ref().and_then(|second| second.get(line));
        let is_there = [code, data, second] != [None; 3];
        if is_there || self.g.coherence == Coherence::Snooping {
            self.one(q, "snoop_l1d");
            if self.g.second_level.is_some() {
                self.one(q, "l2_request_snoop");
                self.one(q, "l2_tag_read");
            }
        }
        if !is_there {
            return 0;
        }
        for (found, name) in
            [(code, "snoop_hit_l1i"), (data, "snoop_hit_l1d"), (second, "snoop_hit_l2")]
        {
            self.n(q, name, u64::from(found.is_some()));
        }
        self.n(q, "snoop_hitm_l2", u64::from(second.is_some_and(|line| dirty(line.state))));
        let in_data = data.is_some_and(|line| dirty(line.state));
        let is_dirty = in_data || second.is_some_and(|line| dirty(line.state));
        let gives = is_dirty && ask != Ask::All;
        let mesi = self.g.protocol == Protocol::Mesi;
        if gives {
            let stays = ask == Ask::Device || (ask == Ask::Share && !mesi);
            self.n(q, "l1d_writeback", u64::from(in_data && !stays));
            let to_memory = (mesi && ask != Ask::Device) || ask == Ask::Flush;
            let second_level = self.g.second_level.is_some();
            let snooped = self.g.coherence == Coherence::Snooping;
            self.n(q, "l2_evict_modified", u64::from(to_memory && second_level && snooped));
            if !in_data {
                self.carry(q, false);
            }
            if self.g.snooped_write_back || ask == Ask::Flush {
                self.send_line_back(q, line);
            } else {
                self.n(q, "system_write_qword", self.bytes() / 8);
            }
        }
        match ask {
            Ask::Device => {}
            Ask::Share => {
                let to = |state| if dirty(state) && !mesi { O } else { S };
                let core = &mut self.cores[q];
                if let Some(code) = code {
                    core.code.set(line, to(code.state));
                }
                if let Some(data) = data {
                    core.data.set(line, to(data.state));
                }
                if let (Some(array), Some(second)) = (&mut core.second, second) {
                    array.set(line, to(second.state));
                }
            }
            _ => {
                let core = &mut self.cores[q];
                let (loaded, fetched) = (core.loaded == Some(line), core.fetched == Some(line));
                core.code.remove(line, true);
                core.data.remove(line, true);
                if data.is_some() && loaded {
                    core.loaded = None;
                    self.one(q, "flush_probe_load");
                }
                if code.is_some() && fetched {
                    self.one(q, "flush_probe_ifetch");
                }
                if let Some(gone) = second {
                    self.cores[q].second.as_mut().unwrap().remove(line, true);
                    self.one(q, "l2_tag_write");
                    self.second_gone(q, gone, in_data);
                }
            }
        }
        if is_dirty { 2 } else { 1 }
    }

    /// A line has left the second level; the data cache had it dirty.
    pub(super) fn second_gone(&mut self, p: usize, gone: Line, dirty_above: bool) {
        self.one(p, "l2_evict");
        let prefix = if gone.marked { "l2_evict_prefetched" } else { "l2_evict_demand" };
        self.state(p, prefix, if dirty_above { M } else { gone.state });
    }

    pub(super) fn read_system(
        &mut self,
        p: usize,
        line: u64,
        who: Who,
        memory: MemoryType,
    ) -> (LineState, Snoop) {
        let (ask, request) = match who {
            Who::Code => (Ask::Share, Request::ReadCode),
            Who::Load | Who::Walk | Who::Asks => (Ask::Share, Request::ReadData),
            Who::Store | Who::Locked | Who::AsksToWrite => (Ask::Take, Request::ReadForOwnership),
            Who::Whole(_) => {
                // Nothing is read: the others' copies go, and theirs is not wanted if it is newer.
                let snoop = self.ask_all(Some(p), line, Ask::All);
                let at = line * self.bytes();
                self.send(Some(p), Request::Invalidate, at, self.bytes(), false, snoop);
                self.request_type(p, memory);
                return (M, snoop);
            }
        };
        let snoop = self.ask_all(Some(p), line, ask);
        let at = line * self.bytes();
        self.cycles += self.send(Some(p), request, at, self.bytes(), false, snoop);
        let state = match ask {
            Ask::Take => M,
            _ if snoop == Snoop::Miss && memory == MemoryType::WriteBack => E,
            _ => S,
        };
        self.state(p, "system_read", state);
        self.request_type(p, memory);
        (state, snoop)
    }

    /// The same for one that the second level was asked for. The state in which it holds it.
    pub(super) fn read_missed(
        &mut self,
        p: usize,
        line: u64,
        who: Who,
        memory: MemoryType,
    ) -> LineState {
        let (state, snoop) = self.read_system(p, line, who, memory);
        let what = match who {
            Who::Code => "ifetch",
            Who::Load | Who::Walk | Who::Asks => "load",
            Who::Store | Who::Locked | Who::AsksToWrite => "store",
            Who::Whole(_) => return state,
        };
        let from = if snoop == Snoop::Miss { "memory" } else { "cache" };
        self.one(p, &format!("l2_miss_{what}_from_{from}"));
        if who == Who::AsksToWrite { E } else { state }
    }

    /// Asks the others to drop a line that is here, to write it. The state it has after the write.
    pub(super) fn upgrade(&mut self, p: usize, line: u64) -> LineState {
        let snoop = self.ask_all(Some(p), line, Ask::Upgrade);
        if snoop == Snoop::HitDirty {
            self.one(p, "system_read_modified");
        }
        self.one(p, "system_request_wb");
        let at = line * self.bytes();
        if self.g.shared_write == SharedWrite::WriteThrough {
            self.one(p, "system_write_qword");
            self.cycles += self.send(Some(p), Request::WritePartial, at, 8, false, snoop);
            return E;
        }
        self.cycles += self.send(Some(p), Request::Invalidate, at, self.bytes(), false, snoop);
        M
    }
}
