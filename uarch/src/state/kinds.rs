//! The states of what Rust has: numbers, arrays, lists.

use std::collections::VecDeque;
use std::num::NonZeroU16;
use std::ops::Range;

use super::{Area, State, Visitor};

macro_rules! integers {
    ($($integer:ty),*) => {
        $(
            impl State for $integer {
                #[inline]
                fn visit<V: Visitor>(&mut self, visitor: &mut V) {
                    Self::visit_all(std::slice::from_mut(self), visitor);
                }

                #[inline]
                fn visit_all<V: Visitor>(all: &mut [Self], visitor: &mut V) {
                    const BYTES: usize = size_of::<$integer>();
                    match visitor.area(BYTES * all.len()) {
                        Area::Save(area) => {
                            let (places, _) = area.as_chunks_mut::<BYTES>();
                            for (place, one) in places.iter_mut().zip(all) {
                                *place = one.to_le_bytes();
                            }
                        }
                        Area::Load(area) => {
                            let (places, _) = area.as_chunks::<BYTES>();
                            for (one, place) in all.iter_mut().zip(places) {
                                *one = Self::from_le_bytes(*place);
                            }
                        }
                        Area::Refused => {}
                    }
                }
            }
        )*
    };
}

integers!(u8, u16, u32, u64, i8, i16, i32, i64);

/// As 64 bits, whatever the host has.
impl State for usize {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let mut word = *self as u64;
        word.visit(visitor);
        match Self::try_from(word) {
            Ok(word) => *self = word,
            Err(_) => visitor.refuse(),
        }
    }
}

impl State for bool {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let mut byte = u8::from(*self);
        byte.visit(visitor);
        visitor.check(byte <= 1);
        *self = byte == 1;
    }
}

/// 0 is none.
impl State for Option<NonZeroU16> {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let mut number = self.map_or(0, NonZeroU16::get);
        number.visit(visitor);
        *self = NonZeroU16::new(number);
    }
}

impl<T: State> State for [T] {
    #[inline]
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        T::visit_all(self, visitor);
    }
}

impl<T: State, const N: usize> State for [T; N] {
    #[inline]
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        T::visit_all(self, visitor);
    }
}

/// Of an array, as many elements as there are.
impl<T: State + ?Sized> State for Box<T> {
    #[inline]
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        T::visit(self, visitor);
    }
}

impl<A: State, B: State> State for (A, B) {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let (a, b) = self;
        a.visit(visitor);
        b.visit(visitor);
    }
}

impl<A: State, B: State, C: State> State for (A, B, C) {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let (a, b, c) = self;
        a.visit(visitor);
        b.visit(visitor);
        c.visit(visitor);
    }
}

impl<T: State> State for Range<T> {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let Self { start, end } = self;
        start.visit(visitor);
        end.visit(visitor);
    }
}

/// Whether there is one is part of the state. Where the constructor decides that: [`visit_made`].
impl<T: State + Default> State for Option<T> {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        optional(visitor, self, T::default);
    }
}

/// As long as it is. Where there is a most: [`list`].
impl<T: State + Default> State for Vec<T> {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        list(visitor, self, usize::MAX, T::default);
    }
}

/// As [`Vec`].
impl<T: State + Default> State for VecDeque<T> {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        let mut all = Vec::from(std::mem::take(self));
        all.visit(visitor);
        *self = all.into();
    }
}

/// Visits what may be there or not; what is loaded where there was none goes into a blank.
pub fn optional<V: Visitor, T: State>(
    visitor: &mut V,
    optional: &mut Option<T>,
    blank: impl FnOnce() -> T,
) {
    let mut is_there = optional.is_some();
    is_there.visit(visitor);
    if is_there {
        optional.get_or_insert_with(blank).visit(visitor);
    } else {
        *optional = None;
    }
}

/// Visits a list of so many elements at most; what is loaded where there was none goes into a blank.
pub fn list<V: Visitor, T: State>(
    visitor: &mut V,
    list: &mut Vec<T>,
    most: usize,
    blank: impl FnMut() -> T,
) {
    // Each takes a byte at least, so that no more are made than bytes have come.
    let most = most.min(visitor.left());
    let mut length = list.len();
    visitor.index(&mut length, most.saturating_add(1));
    list.resize_with(length, blank);
    T::visit_all(list, visitor);
}

/// Visits what the constructor has made or not, if it has.
pub fn visit_made<V: Visitor, T: State>(visitor: &mut V, made: &mut Option<T>) {
    if let Some(made) = made {
        made.visit(visitor);
    }
}

/// A cycle or several.
pub trait Cycles {
    /// Each of them.
    fn cycles(&mut self) -> &mut [u64];
}

impl Cycles for u64 {
    fn cycles(&mut self) -> &mut [u64] {
        std::slice::from_mut(self)
    }
}

impl<const N: usize> Cycles for [u64; N] {
    fn cycles(&mut self) -> &mut [u64] {
        self
    }
}

impl Cycles for Box<[u64]> {
    fn cycles(&mut self) -> &mut [u64] {
        self
    }
}

#[cfg(test)]
mod tests;
