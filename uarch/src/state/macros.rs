//! How the state of a type is written down.

/// The [`State`](crate::state::State) of a structure, by its fields, all of which have to be named:
///
/// * `saved`: those that are visited, as their types are.
/// * `cycles`: those that are cycles ([`Visitor::cycles`](crate::state::Visitor::cycles)).
/// * `made`: those that the constructor has made or not ([`visit_made`](crate::state::visit_made)).
/// * `derived`: those that are not part of the state.
///
/// With `then`, a method of that name is called behind them, with the visitor: to check what was loaded, and
/// to work out what follows from it.
///
/// ```
/// use uarch::state::Visitor;
///
/// struct Stack {
///     entries: Vec<u64>,
///     top: usize,
///     depth: usize,
/// }
///
/// uarch::state! {
///     Stack { saved: entries, top; derived: depth; then: check; }
/// }
///
/// impl Stack {
///     fn check<V: Visitor>(&mut self, visitor: &mut V) {
///         visitor.check(self.entries.len() <= self.depth && self.top <= self.entries.len());
///     }
/// }
/// ```
///
/// An enum without fields is written with its variants: `state! { Color: Red, Green }`; what wraps one value:
/// `state! { Wrapper(_) }`.
#[macro_export]
macro_rules! state {
    ($type:ident {
        $(saved: $($saved:ident),+;)?
        $(cycles: $($cycles:ident),+;)?
        $(made: $($made:ident),+;)?
        $(derived: $($derived:ident),+;)?
        $(then: $then:ident;)?
    }) => {
        impl $crate::state::State for $type {
            fn visit<V: $crate::state::Visitor>(&mut self, visitor: &mut V) {
                let Self {
                    $($($saved,)+)?
                    $($($cycles,)+)?
                    $($($made,)+)?
                    $($($derived: _,)+)?
                } = self;
                visitor.name(stringify!($type));
                $($(
                    visitor.name(concat!(stringify!($type), ".", stringify!($saved)));
                    $crate::state::State::visit($saved, visitor);
                )+)?
                $($(
                    visitor.name(concat!(stringify!($type), ".", stringify!($cycles)));
                    visitor.cycles($crate::state::Cycles::cycles($cycles));
                )+)?
                $($(
                    visitor.name(concat!(stringify!($type), ".", stringify!($made)));
                    $crate::state::visit_made(visitor, $made);
                )+)?
                $(
                    visitor.name(stringify!($type));
                    self.$then(visitor);
                )?
            }
        }
    };
    ($type:ident(_)) => {
        impl $crate::state::State for $type {
            fn visit<V: $crate::state::Visitor>(&mut self, visitor: &mut V) {
                let Self(inner) = self;
                $crate::state::State::visit(inner, visitor);
            }
        }
    };
    ($type:ident: $($variant:ident),+ $(,)?) => {
        impl $crate::state::State for $type {
            fn visit<V: $crate::state::Visitor>(&mut self, visitor: &mut V) {
                // All there are, or it does not compile.
                match self {
                    $(Self::$variant)|+ => {}
                }
                let all = [$(Self::$variant),+];
                let is = |one: &Self| std::mem::discriminant(one) == std::mem::discriminant(self);
                let mut number = all.iter().position(is).unwrap_or(0) as u8;
                $crate::state::State::visit(&mut number, visitor);
                match all.into_iter().nth(number.into()) {
                    Some(one) => *self = one,
                    None => visitor.refuse(),
                }
            }
        }
    };
}
