//! The first-level instruction cache: an array of lines that is quick to say that it does not have a line of data.

use std::ops::{Deref, DerefMut};

use super::array::{Displaced, Line, LineArray};
use super::geometry::ArrayGeometry;
use crate::state::{State, Visitor};

/// The lines of the instruction cache.
///
/// Each miss of the data cache has to know whether it has the line. It mostly has none of its page.
#[derive(Clone, Debug)]
pub(super) struct CodeArray {
    array: LineArray,
    pages: Pages,
}

impl CodeArray {
    /// An empty one, as [`LineArray::new`].
    pub(super) fn new(geometry: &ArrayGeometry) -> Self {
        Self { array: LineArray::new(geometry), pages: Pages::default() }
    }

    /// As [`LineArray::fill`].
    pub(super) fn fill(&mut self, line: Line) -> Displaced {
        self.pages.add(line.number);
        self.array.fill(line)
    }

    /// Whether it has a line that is accessed as data.
    #[inline(always)]
    pub(super) fn has_data(&self, line: u64) -> bool {
        self.pages.may_have(line) && self.array.search(line).is_some()
    }
}

impl Deref for CodeArray {
    type Target = LineArray;

    #[inline(always)]
    fn deref(&self) -> &LineArray {
        &self.array
    }
}

/// To do anything but put in a line.
impl DerefMut for CodeArray {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut LineArray {
        &mut self.array
    }
}

impl State for CodeArray {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { array, pages } = self;
        array.visit(visitor);
        if V::LOADS {
            *pages = Pages::default();
            array.lines().for_each(|line| pages.add(line.number));
        }
    }
}

/// The pages, of 64 lines each, of which lines have been put in: a bit for all whose numbers have the same low bits.
#[derive(Clone, Debug)]
struct Pages([u64; 64]);

impl Default for Pages {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl Pages {
    /// Where the bit of a line's page is.
    #[inline(always)]
    fn place(line: u64) -> (usize, u64) {
        ((line >> 12) as usize % 64, 1 << (line >> 6 & 63))
    }

    fn add(&mut self, line: u64) {
        let (word, bit) = Self::place(line);
        self.0[word] |= bit;
    }

    #[inline(always)]
    fn may_have(&self, line: u64) -> bool {
        let (word, bit) = Self::place(line);
        self.0[word] & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::geometry::Replacement;
    use crate::cache::state::LineState;
    use crate::state::{Loader, Saver};

    /// Lines of few pages in few sets are put in, taken out and looked for, and all is saved and loaded by another: it
    /// has a line if one of the array's is that.
    #[test]
    fn it_has_the_lines_that_the_array_has() {
        let geometry = ArrayGeometry { sets: 4, ways: 2, replacement: Replacement::Lru };
        let mut code = CodeArray::new(&geometry);
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        let mut below = |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % n
        };
        let mut found = [0, 0];
        for step in 0..20_000 {
            // Pages beside each other, and one that has the bit of the first.
            let number = [0, 0x40, 0x1000, 0x4_0000][below(4) as usize] + below(6);
            let there = code.lines().any(|line| line.number == number);
            assert_eq!(code.has_data(number), there, "line {number:#x}, step {step}");
            found[usize::from(there)] += 1;
            match (code.find(number), below(4)) {
                (None, 0) => {
                    code.fill(Line { number, state: LineState::Shared, marked: false });
                }
                (Some(slot), 0) => code.remove(slot),
                (Some(slot), 1) => code.take(slot),
                _ => {}
            }
            if below(500) == 0 {
                let mut bytes = Vec::new();
                code.visit(&mut Saver::new(&mut bytes));
                code = CodeArray::new(&geometry);
                let mut loader = Loader::new(&bytes);
                code.visit(&mut loader);
                loader.finish().unwrap();
            }
        }
        assert!(found[0] > 2_000 && found[1] > 2_000, "{found:?}");
    }
}
