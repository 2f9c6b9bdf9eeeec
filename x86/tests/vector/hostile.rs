//! Instructions and addresses that no program would use. Whatever a guest does, the processor retires the
//! instruction or raises an exception, and what faults has changed nothing.

use crate::{
    catalogue::{Form, Row},
    encode::is_indexed,
    generate,
    machine::{DEVICE, Machine},
    masks,
    random::Random,
    rows,
    state::{ARENA, Arena, Registers},
};

/// Addresses at the ends of everything: the address space, its canonical halves, 32 bits, pages, memory.
const PLACES: [u64; 12] = [
    0,
    0x5_f000,
    ARENA,
    ARENA + 0x5000,
    DEVICE,
    DEVICE + 0x1000,
    1 << 31,
    1 << 32,
    1 << 47,
    0xffff_8000_0000_0000,
    1 << 63,
    u64::MAX,
];

fn place(random: &mut Random) -> u64 {
    let near = random.pick(&[0, 1, 4, 16, 63, 64, 65, 128, 0x1000]);
    let place = random.pick(&PLACES);
    let place = if random.once_in(2) { place.wrapping_add(near) } else { place.wrapping_sub(near) };
    if random.once_in(8) { random.next() } else { place }
}

/// Registers that lead to such places.
fn registers(random: &mut Random) -> Registers {
    let mut r = generate::registers(random);
    r.gpr = std::array::from_fn(|_| place(random));
    r.bases = std::array::from_fn(|_| if random.once_in(2) { 0 } else { place(random) });
    for vector in &mut r.zmm {
        *vector = random.vector();
    }
    r
}

/// Bytes that begin as an instruction of the unit does.
fn bytes(
    rows: &[Row],
    masks: &[masks::Row],
    arena: &mut Arena,
    random: &mut Random,
) -> (Vec<u8>, bool) {
    let mut elsewhere = generate::registers(random);
    let (mut bytes, indexed) = if random.once_in(5) {
        (masks::Case::random(random.pick_of(masks), random).bytes, false)
    } else {
        let row = random.pick_of(rows);
        let c = generate::vector(row, &mut elsewhere, arena, random);
        (c.bytes, is_indexed(row.form) || row.form == Form::Line)
    };
    if random.once_in(4) {
        let n = random.below(bytes.len() as u64) as usize;
        bytes[n] ^= 1 << random.below(8);
        // It may be one that finishes elements now.
        return (bytes, true);
    }
    (bytes, indexed)
}

#[test]
fn nothing_that_a_guest_does_ends_otherwise() {
    let rows = rows::rows();
    let masks = masks::rows();
    let mut arena = Arena::new();
    let mut ends = std::collections::BTreeMap::<Option<u8>, u32>::new();
    for round in 0..300 {
        // A machine for a few cases: they may write to its tables.
        let mut machine = Machine::new();
        let mut random = Random::new(round);
        for case in 0..300 {
            // DELAY may have waited for as long as time has numbers.
            if machine.time() > 1 << 62 {
                break;
            }
            let before = registers(&mut random);
            let (bytes, may_finish_elements) = bytes(&rows, &masks, &mut arena, &mut random);
            machine.load(&before);
            machine.write(before.rip, &bytes);
            let (after, fault) = machine.execute(false);
            *ends.entry(fault.map(|fault| fault.vector)).or_default() += 1;
            if fault.is_some() && !may_finish_elements {
                assert!(after == before, "round {round}, case {case}: {bytes:02x?} {fault:x?}");
            }
        }
    }
    // All kinds of ends are there.
    for end in [None, Some(6), Some(7), Some(12), Some(13), Some(14)] {
        assert!(ends.get(&end).is_some_and(|&times| times >= 100), "{ends:?}");
    }
}
