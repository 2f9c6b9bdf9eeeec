//! The observer of the models, which whoever executes has for so long.

use std::ops::{Deref, DerefMut};

use super::ModelObserver;

/// What is told of execution. What executes has it for so long, which may be an instruction.
pub(in crate::engine::soft) struct Lent(Option<ModelObserver>);

impl Lent {
    const IS_BACK: &str = "nothing is executed that has it";

    /// An observer that nobody has.
    pub(super) fn new(observer: ModelObserver) -> Self {
        Self(Some(observer))
    }

    /// It is with who executes from now on.
    ///
    /// # Panics
    ///
    /// If it is already.
    pub(in crate::engine::soft) fn lend(&mut self) -> ModelObserver {
        self.0.take().expect(Self::IS_BACK)
    }

    /// It is back.
    pub(in crate::engine::soft) fn take_back(&mut self, observer: ModelObserver) {
        self.0 = Some(observer);
    }
}

impl Deref for Lent {
    type Target = ModelObserver;

    #[inline(always)]
    fn deref(&self) -> &ModelObserver {
        self.0.as_ref().expect(Self::IS_BACK)
    }
}

impl DerefMut for Lent {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ModelObserver {
        self.0.as_mut().expect(Self::IS_BACK)
    }
}
