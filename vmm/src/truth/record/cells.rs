//! What is counted of single instructions, where the executions of a block differ.

use std::ops::Range;

/// A cell for each instruction of each record.
///
/// Most instructions access memory a few times an execution or not at all, and do nothing else that
/// their block does not tell: their cell is one word. Few have a [`Rest`].
#[derive(Default)]
pub(super) struct Cells {
    cells: Vec<Cell>,
    rests: Vec<Rest>,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    /// Accesses that are not in the rest, packed as a [`x86_cpu::observe::Mark`] has them.
    recent: u64,
    /// 1 + the index of its rest; 0 if it has none.
    rest: u32,
}

/// What was counted of an instruction beside the whole executions of its block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rest {
    /// Executions that were not part of a whole execution of the block.
    pub(super) executions: u64,
    pub(super) loads: u64,
    pub(super) stores: u64,
    pub(super) misaligned: u64,
    /// Cycles beyond those of [`super::records::Static::cycles`].
    pub(super) cycles: u64,
}

/// The fields of a [`x86_cpu::observe::Mark`] hold less than 2^21, so that this many executions of
/// [`Cells::add`]'s most accesses each fit.
pub(super) const MOST_RECENT: u32 = 1 << 15;
/// The bits of accesses that are too many for [`Cell::recent`]: 32 or more of a kind.
const TOO_MANY: u64 = !(0x1f | 0x1f << 21 | 0x1f << 42);

impl Rest {
    fn add(&mut self, accesses: u64) {
        const FIELD: u64 = (1 << 21) - 1;
        self.loads += accesses & FIELD;
        self.stores += accesses >> 21 & FIELD;
        self.misaligned += accesses >> 42 & FIELD;
    }
}

impl Cells {
    /// Adds a cell.
    pub(super) fn push(&mut self) {
        self.cells.push(Cell::default());
    }

    /// Number of cells.
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Adds the accesses of one execution, packed as a [`x86_cpu::observe::Mark`] has them.
    #[inline(always)]
    pub(super) fn add(&mut self, cell: usize, accesses: u64) {
        if accesses & TOO_MANY != 0 {
            self.add_many(cell, accesses);
        } else {
            self.cells[cell].recent += accesses;
        }
    }

    #[cold]
    fn add_many(&mut self, cell: usize, accesses: u64) {
        self.rest(cell).add(accesses);
    }

    /// The rest of a cell, to be added to.
    #[cold]
    pub(super) fn rest(&mut self, cell: usize) -> &mut Rest {
        let cell = &mut self.cells[cell];
        if cell.rest == 0 {
            self.rests.push(Rest::default());
            cell.rest = self.rests.len() as u32;
        }
        &mut self.rests[cell.rest as usize - 1]
    }

    /// Makes room for accesses of [`MOST_RECENT`] more executions.
    #[cold]
    pub(super) fn make_room(&mut self, cells: Range<usize>) {
        for cell in cells {
            let recent = std::mem::take(&mut self.cells[cell].recent);
            if recent != 0 {
                self.rest(cell).add(recent);
            }
        }
    }

    /// All that was counted in a cell.
    pub(super) fn get(&self, cell: usize) -> Rest {
        let Cell { recent, rest } = self.cells[cell];
        let rest = (rest as usize).checked_sub(1).map(|at| self.rests[at]);
        let mut all = rest.unwrap_or_default();
        all.add(recent);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accesses(cells: &Cells) -> (u64, u64, u64) {
        let Rest { loads, stores, misaligned, .. } = cells.get(1);
        (loads, stores, misaligned)
    }

    /// Loads are in bits 20:0, stores in 41:21, misaligned accesses in 62:42.
    #[test]
    fn a_cell_adds_up_what_is_packed() {
        let mut cells = Cells::default();
        (0..3).for_each(|_| cells.push());
        cells.add(1, 3 | 2 << 21 | 1 << 42);
        cells.add(1, 31 | 31 << 21 | 31 << 42);
        assert_eq!(accesses(&cells), (34, 33, 32));
        // Too many for the packed form.
        cells.add(1, 1000 | 32 << 21 | 7 << 42);
        assert_eq!(accesses(&cells), (1034, 65, 39));
        cells.rest(2).loads += 5;
        cells.make_room(0..3);
        assert_eq!(accesses(&cells), (1034, 65, 39));
        assert_eq!(cells.get(0), Rest::default());
    }

    /// 2^15 executions of up to 31 accesses of each kind stay below 2^21.
    #[test]
    fn fields_do_not_overflow() {
        let mut cells = Cells::default();
        (0..2).for_each(|_| cells.push());
        for _ in 0..MOST_RECENT {
            cells.add(1, 31 | 31 << 21 | 31 << 42);
        }
        let all = 31 << 15;
        assert_eq!(accesses(&cells), (all, all, all));
    }
}
