//! What a pipeline is saved as, and loaded from.

use super::super::{core::Decoders, dispatch::capacity};
use super::Pipeline;
use crate::state::{Cycles, State, Visitor};

/// No operation of a pipeline has a cycle so far behind its last dispatch: more than any access takes. What
/// is waited for cycle by cycle is waited for no longer.
const REACH: u64 = 1 << 28;

impl State for Pipeline {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self {
            core,
            lanes: _,
            front,
            units,
            room,
            memory,
            retirement,
            ready,
            partial,
            partial_retired,
            zeroed,
            top,
            folded,
            dispatched,
            in_cycle,
            places,
            place,
            hold,
            hold_for,
            segment,
            segments,
        } = self;
        visitor.name("out_of_order::Pipeline");
        visitor.cycles(dispatched.cycles());
        let latest = *visitor.latest();
        *visitor.latest() = *dispatched + REACH;
        for cycles in
            [&mut ready[..], partial_retired, places, segments, hold.cycles(), segment.cycles()]
        {
            visitor.cycles(cycles);
        }
        for registers in [partial, zeroed] {
            registers.visit(visitor);
        }
        for number in [&mut *top, &mut *in_cycle] {
            number.visit(visitor);
        }
        visitor.check(*top < 8 && *in_cycle <= core.width);
        folded.visit(visitor);
        visitor.index(place, core.reorder_buffer.into());
        hold_for.visit(visitor);
        front.visit(visitor);
        let positions = match core.decoders {
            Decoders::Lines { .. } => core.width,
            Decoders::Template { count, .. } => count,
        };
        visitor.check(front.position <= positions);
        units.visit(visitor);
        room.visit(visitor, capacity(core));
        memory.visit(visitor);
        retirement.visit(visitor);
        *visitor.latest() = latest;
    }
}
