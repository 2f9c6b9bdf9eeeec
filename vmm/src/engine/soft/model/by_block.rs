//! What pipelines know of the instructions of translated blocks: prepared once for all their executions.

use x86_cpu::block::Code;
use x86_cpu::insn::Insn;

/// Whose blocks execution goes through: blocks of different caches may have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine::soft) enum Cache {
    /// Those of the models.
    Models,
    /// Those of the models where pipelines keep the time.
    Timed,
    /// Those of the recorder with the models.
    Recorded,
    /// The same where pipelines keep the time.
    RecordedAndTimed,
}

impl Cache {
    /// How many there are.
    const COUNT: usize = Self::RecordedAndTimed as usize + 1;
}

/// A `T` for each instruction of the blocks that are in caches of translations.
pub(super) struct ByBlock<T> {
    /// By cache of translations, and by the block's place in it.
    blocks: [Vec<Block<T>>; Cache::COUNT],
    /// The cache that is executed from, and the place of the running block in it.
    cache: Cache,
    place: usize,
}

/// What is known of the instructions of a block.
struct Block<T> {
    /// [`Code::serial`]; 0 if there has been none.
    serial: u64,
    instructions: Box<[T]>,
}

impl<T> Default for Block<T> {
    fn default() -> Self {
        Self { serial: 0, instructions: Box::default() }
    }
}

impl<T> ByBlock<T> {
    /// Nothing is known.
    pub(super) fn new() -> Self {
        Self { blocks: Default::default(), cache: Cache::Models, place: 0 }
    }

    /// Blocks come from this cache.
    pub(super) fn choose(&mut self, cache: Cache) {
        self.cache = cache;
    }

    /// A block is entered, of whose instructions `prepare` says what is known, if that is not known yet.
    #[inline(always)]
    pub(super) fn entered(&mut self, block: &impl Code, prepare: impl FnOnce() -> Box<[T]>) {
        self.note(block.place(), block.serial(), prepare);
    }

    #[inline(always)]
    fn note(&mut self, place: usize, serial: u64, prepare: impl FnOnce() -> Box<[T]>) {
        self.place = place;
        let known = self.blocks[self.cache as usize].get(place);
        if known.is_none_or(|known| known.serial != serial) {
            self.put(Block { serial, instructions: prepare() });
        }
    }

    #[cold]
    fn put(&mut self, block: Block<T>) {
        let blocks = &mut self.blocks[self.cache as usize];
        if self.place >= blocks.len() {
            blocks.resize_with(self.place + 1, Block::default);
        }
        blocks[self.place] = block;
    }

    /// A block that has been entered, and is still there, runs again from somewhere behind its beginning.
    #[inline(always)]
    pub(super) fn goes_on_in(&mut self, block: &impl Code) {
        self.place = block.place();
    }

    /// What is known of an instruction of the running block.
    #[inline(always)]
    pub(super) fn instruction(&self, insn: &Insn) -> Option<&T> {
        let block = self.blocks[self.cache as usize].get(self.place)?;
        block.instructions.get(usize::from(insn.index))
    }
}

#[cfg(test)]
mod tests {
    use x86_cpu::effects::Mode;
    use x86_cpu::features::Features;
    use x86_cpu::mode::CodeSize;

    use super::*;

    /// A block is found by cache, place and serial number, and prepared when it was not there last.
    #[test]
    fn blocks_are_prepared_once() {
        let (first, second) = {
            let mode = Mode::new(CodeSize::Bits32);
            let (nop, _) = Insn::decode(Features::K8, mode, &[0x90]).expect("NOP");
            (nop, Insn { index: 1, ..nop })
        };
        let (mut blocks, mut times) = (ByBlock::new(), 0);
        let expected = [
            (Cache::Timed, 3, 1, 1),
            (Cache::Timed, 3, 1, 1),
            (Cache::Timed, 0, 2, 2),
            (Cache::Timed, 3, 1, 2),
            (Cache::Models, 3, 1, 3),
            (Cache::Timed, 3, 1, 3),
            (Cache::Timed, 3, 5, 4),
        ];
        for (cache, place, serial, prepared) in expected {
            blocks.choose(cache);
            blocks.note(place, serial, || {
                times += 1;
                [(cache, place, serial)].into()
            });
            assert_eq!(blocks.instruction(&first), Some(&(cache, place, serial)));
            assert_eq!(blocks.instruction(&second), None);
            assert_eq!(times, prepared, "{cache:?} {place} {serial}");
        }
    }
}
