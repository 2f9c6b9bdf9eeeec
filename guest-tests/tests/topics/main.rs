//! Bare-metal guests, one topic a file. Each programs the PMU as a driver would, and each
//! expectation is counted by hand beside the guest it belongs to.
//!
//! A topic is a function over the part; [`on_every_part`] makes a test of it for every engine and
//! part, called as in `overflow::soft::k8::counters_are_independent`. What does not apply to a part is listed in
//! [`applicability`].

/// Makes tests of topics: a module an engine, in it a module a part, in it one test a topic.
macro_rules! on_every_part {
    ($($topic:ident),+ $(,)?) => {
        on_every_part!(@engines (soft kvm) ($($topic)+));
    };
    (@engines ($($engine:ident)+) $topics:tt) => {
        $(
            mod $engine {
                on_every_part!(@parts (p55c ppro pii p6 pm k7 k8 knc) $topics);
            }
        )+
    };
    (@parts ($($part:ident)+) $topics:tt) => {
        $(
            mod $part {
                on_every_part!(@tests $topics);
            }
        )+
    };
    (@tests ($($topic:ident)+)) => {
        $(
            #[test]
            fn $topic() -> guest_tests::Result {
                crate::applicability::test(module_path!(), stringify!($topic), super::super::$topic)
            }
        )+
    };
}

mod applicability;
mod branches;
mod breakpoints;
mod classes;
mod cycles;
mod demo;
mod firmware;
mod lvtpc;
mod overflow;
mod p55c;
mod p6;
mod pmi;
mod privilege;
mod rdpmc;
mod registers;
mod silent;
mod skid;
mod threads;
