//! The tables of operations: every instruction that the CPU can execute has a row, and the rows agree with
//! the structure of the part.

mod names;

use uarch::{
    part::pipelines::{K7, K8, P6, PM},
    pipeline::out_of_order::{
        Core, Role, Schedulers,
        table::{Decode, Form, Row, Shape, Variant, Width},
    },
};

/// The parts.
const PARTS: &[(&str, &Core)] = &[("k7", &K7), ("k8", &K8), ("p6", &P6), ("pm", &PM)];

fn shapes() -> impl Iterator<Item = Shape> {
    Form::ALL.into_iter().flat_map(|form| {
        Width::ALL.into_iter().flat_map(move |width| {
            [Variant::Plain, Variant::Long, Variant::Repeated].map(move |variant| Shape {
                form,
                width,
                variant,
            })
        })
    })
}

fn rows(core: &'static Core) -> impl Iterator<Item = &'static Row> {
    core.table.rows.iter().flat_map(|rows| rows.iter())
}

#[test]
fn every_operation_has_a_row_in_every_shape() {
    for &(part, core) in PARTS {
        let mut missing = Vec::new();
        for name in [names::GENERAL, names::X87, names::SIMD].concat() {
            if let Some(shape) = shapes().find(|&shape| core.table.look_up(name, shape).is_none()) {
                missing.push((name, shape));
            }
        }
        assert!(missing.is_empty(), "{part}: {missing:?}");
        let shape = Shape { form: Form::None, width: Width::Bits32, variant: Variant::Plain };
        assert!(core.table.look_up("Delivery", shape).is_some(), "{part}");
    }
}

/// A name in a table that the CPU does not have is never asked for.
#[test]
fn every_name_is_one_of_the_cpus() {
    for &(part, core) in PARTS {
        for name in rows(core).flat_map(|row| row.names) {
            let known = [names::GENERAL, names::X87, names::SIMD, &["Delivery"]]
                .iter()
                .any(|names| names.contains(name));
            assert!(known, "{part}: {name}");
        }
    }
}

/// The first row that fits is taken: one that never is says nothing.
#[test]
fn every_row_is_used() {
    for &(part, core) in PARTS {
        for row in rows(core) {
            let used = row.names.iter().any(|name| {
                shapes().any(|shape| {
                    core.table.look_up(name, shape).is_some_and(|found| std::ptr::eq(found, row))
                })
            });
            assert!(used, "{part}: {:?} {:#x}", row.names, row.forms);
        }
    }
}

#[test]
fn rows_are_consistent() {
    for &(part, core) in PARTS {
        for row in rows(core) {
            let what = format!("{part}: {:?}", row.names);
            assert!(!row.source.is_empty(), "{what}");
            let all = row.operations.iter().chain(row.each);
            // A store needs an address, and it is in the macro-operation with the data or in front.
            let stores: usize = all.clone().map(|operation| usize::from(operation.stores)).sum();
            let data = all
                .clone()
                .flat_map(|operation| operation.parts)
                .filter(|part| part.role == Role::StoreData)
                .count();
            assert_eq!(stores, data, "{what}");
            // More than LS2 or the store buffers have would wait for itself.
            assert!(stores <= 12, "{what}");
            for part in all.flat_map(|operation| operation.parts) {
                let lanes = matches!(core.schedulers, Schedulers::Lanes { .. });
                assert!(lanes || !part.lane && !part.float, "{what}");
                assert!(part.occupancy <= part.latency || part.latency == 0, "{what}");
            }
            if row.decode == Decode::Double {
                assert_eq!(row.steps, 0, "{what}");
            }
        }
    }
}
