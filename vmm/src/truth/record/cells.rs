//! What is counted of single instructions, where the executions of a block differ.

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

/// In the accesses that are added to a cell, and in no [`x86_cpu::observe::Mark::packed`]: the instruction did
/// more than that, which is counted elsewhere.
pub(super) const MORE: u64 = 1 << 63;
/// A cell is looked at when a field of it has this bit, of which a mark keeps clear as well, or when there
/// is [`MORE`].
const LOOK: u64 = MORE | 1 << 62 | 1 << 41 | 1 << 20;

impl Rest {
    /// Adds the accesses of so many executions, packed as a [`x86_cpu::observe::Mark`] has them.
    pub(super) fn add(&mut self, accesses: u64, times: u64) {
        const FIELD: u64 = (1 << 21) - 1;
        self.loads += (accesses & FIELD) * times;
        self.stores += (accesses >> 21 & FIELD) * times;
        self.misaligned += (accesses >> 42 & FIELD) * times;
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

    /// Adds the accesses of one execution, less than 2^20 of a kind, packed as a
    /// [`x86_cpu::observe::Mark`] has them. Whether the cell is to be looked at ([`Self::make_room`]).
    #[inline(always)]
    #[must_use]
    pub(super) fn add(&mut self, cell: usize, accesses: u64) -> bool {
        let recent = &mut self.cells[cell].recent;
        *recent += accesses;
        *recent & LOOK != 0
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

    /// Makes room for more accesses. Whether there was said to be [`MORE`].
    #[cold]
    pub(super) fn make_room(&mut self, cell: usize) -> bool {
        let recent = std::mem::take(&mut self.cells[cell].recent);
        self.rest(cell).add(recent, 1);
        recent & MORE != 0
    }

    /// All that was counted in a cell.
    pub(super) fn get(&self, cell: usize) -> Rest {
        let Cell { recent, rest } = self.cells[cell];
        let rest = (rest as usize).checked_sub(1).map(|at| self.rests[at]);
        let mut all = rest.unwrap_or_default();
        all.add(recent, 1);
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

    /// Adds as the recorder does: whether there is more.
    fn add(cells: &mut Cells, accesses: u64) -> bool {
        cells.add(1, accesses) && cells.make_room(1)
    }

    /// Loads are in bits 20:0, stores in 41:21, misaligned accesses in 62:42.
    #[test]
    fn a_cell_adds_up_what_is_packed() {
        let mut cells = Cells::default();
        (0..3).for_each(|_| cells.push());
        assert!(!add(&mut cells, 3 | 2 << 21 | 1 << 42));
        assert!(!add(&mut cells, 31 | 31 << 21 | 31 << 42));
        assert_eq!(accesses(&cells), (34, 33, 32));
        assert!(!add(&mut cells, 1000 | 32 << 21 | 7 << 42));
        assert_eq!(accesses(&cells), (1034, 65, 39));
        cells.rest(2).loads += 5;
        assert!(!cells.make_room(1));
        assert_eq!(accesses(&cells), (1034, 65, 39));
        assert_eq!(cells.get(0), Rest::default());
    }

    /// The most accesses that are added at once do not run from one field into the next, however often
    /// and in whatever order.
    #[test]
    fn fields_do_not_overflow() {
        const MOST: u64 = (1 << 20) - 1;
        let mut cells = Cells::default();
        (0..2).for_each(|_| cells.push());
        let (mut sums, mut seed) = ([0; 3], 1u64);
        for _ in 0..10_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let [loads, stores, misaligned] =
                [0, 1, 2].map(|kind| match seed >> (40 + 2 * kind) & 3 {
                    0 => MOST,
                    1 => seed >> 44 & MOST,
                    more => more - 2,
                });
            assert!(!add(&mut cells, loads | stores << 21 | misaligned << 42));
            sums = [sums[0] + loads, sums[1] + stores, sums[2] + misaligned];
        }
        assert_eq!(<[u64; 3]>::from(accesses(&cells)), sums);
    }

    /// That there is more is told once and is no access.
    #[test]
    fn more_is_told_and_not_counted() {
        let mut cells = Cells::default();
        (0..2).for_each(|_| cells.push());
        assert!(!add(&mut cells, 5));
        assert!(add(&mut cells, MORE | 2 | 1 << 42));
        assert!(add(&mut cells, MORE));
        assert!(!add(&mut cells, 1 << 21));
        assert_eq!(accesses(&cells), (7, 1, 1));
    }
}
