//! Who may have a line: what the tag directories of a part of many cores know, so that a miss need not ask every
//! core.

use super::geometry::{ArrayGeometry, CacheGeometry, Coherence, Inclusion};

/// Entries for each line that a second level has room for: one in eight is in use at most, so that two of the lines in
/// caches are seldom in one entry.
const ENTRIES_A_LINE: usize = 8;
/// log2 of the lines of a page, whose entries are together: they are mostly asked for one after the other.
const PAGE_LINES_LOG2: u32 = 6;

/// The cores that may have a line in their second level.
///
/// It follows from what the second levels hold. Lines share entries, so that a core may be named that has another line,
/// but none that has this one is left out. In which of the part's directories a line is, by a hash of its address,
/// makes no difference here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TagDirectory {
    /// Of the lines that share an entry, each counted once for each core that has it: how many there are, of which
    /// [`UNCOUNTED`] stays; and the exclusive or of the numbers of those cores. If there is one, it is that core's. A
    /// power of two of them.
    entries: Box<[[u8; 2]]>,
    /// 64 less log2 of the pages that there are entries for.
    shift: u32,
}

/// So many lines or more: how many there are has been forgotten.
const UNCOUNTED: u8 = u8::MAX;

/// The cores that may have a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holders {
    /// None.
    None,
    /// No other than the one of this number.
    One(usize),
    /// Any.
    Any,
}

impl TagDirectory {
    /// That of so many cores, if the part has such directories, all that its cores have is in their second levels, and
    /// a miss of one may concern another.
    ///
    /// # Panics
    ///
    /// If there are more than 256 cores.
    pub(super) fn of(geometry: &CacheGeometry, cores: usize) -> Option<Self> {
        let second =
            geometry.second_level.filter(|second| second.inclusion == Inclusion::Inclusive)?;
        if geometry.coherence != Coherence::TagDirectories || cores == 1 {
            return None;
        }
        assert!(cores <= 256, "{cores} cores with directories of their tags");
        let ArrayGeometry { sets, ways, .. } = second.array;
        let pages = (sets as usize * ways as usize * cores * ENTRIES_A_LINE) >> PAGE_LINES_LOG2;
        let pages = pages.next_power_of_two().max(2);
        // Zeros, for which the host gives memory as they are written.
        let entries = vec![[0; 2]; pages << PAGE_LINES_LOG2].into();
        Some(Self { entries, shift: u64::BITS - pages.ilog2() })
    }

    /// The cores that may have a line.
    #[inline(always)]
    pub(super) fn holders(&self, line: u64) -> Holders {
        match self.entries[self.place(line)] {
            [0, _] => Holders::None,
            [1, core] => Holders::One(core.into()),
            _ => Holders::Any,
        }
    }

    /// The second level of a core has got a line.
    #[inline(always)]
    pub(super) fn enter(&mut self, core: usize, line: u64) {
        let [count, cores] = &mut self.entries[self.place(line)];
        *count = count.saturating_add(1);
        *cores ^= core as u8;
    }

    /// It has lost a line that it had got.
    #[inline(always)]
    pub(super) fn leave(&mut self, core: usize, line: u64) {
        let [count, cores] = &mut self.entries[self.place(line)];
        if *count != UNCOUNTED {
            *count -= 1;
        }
        *cores ^= core as u8;
    }

    /// Where the entry of a line is.
    #[inline(always)]
    fn place(&self, line: u64) -> usize {
        /// 2^64 divided by the golden ratio (Knuth, "The Art of Computer Programming", volume 3, section 6.4).
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        // Twice, so that arrays are told apart however far one is from the next.
        let page = (line >> PAGE_LINES_LOG2).wrapping_mul(GOLDEN);
        let page = (page ^ page >> 32).wrapping_mul(GOLDEN) >> self.shift;
        let within = line & ((1 << PAGE_LINES_LOG2) - 1);
        (page << PAGE_LINES_LOG2 | within) as usize
    }
}
