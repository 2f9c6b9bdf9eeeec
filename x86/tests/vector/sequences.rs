//! Several instructions in a row, in one block of the processor's translations: what one leaves the next
//! finds.

use crate::{
    case::End,
    catalogue::{Row, What},
    generate,
    machine::{CODE, Machine},
    masks,
    random::Random,
    reference, rows,
    state::Arena,
};

/// Instructions of a sequence.
const LENGTH: usize = 24;

/// Instructions whose result is known to the last bit.
fn is_exact(row: &Row) -> bool {
    let approximated =
        matches!(row.what, What::Exp2 | What::Log2 | What::Reciprocal | What::ReciprocalRoot);
    row.takes_register() && !approximated
}

/// Those of the mask instructions that go on with the next instruction, whatever their operands.
fn is_plain(row: &masks::Row) -> bool {
    use masks::What::{Concatenate, Extract, FromRegister, Mask, Test, ToRegister};
    matches!(row.what, Mask(_) | Test | FromRegister | ToRegister | Concatenate(_) | Extract)
}

#[test]
fn sequences_do_what_their_instructions_do() {
    let vectors: Vec<_> = rows::rows().into_iter().filter(is_exact).collect();
    let masks: Vec<_> = masks::rows().into_iter().filter(is_plain).collect();
    let mut machine = Machine::new();
    let mut arena = Arena::new();
    for seed in 0..15_000 {
        let mut random = Random::new(seed);
        let mut r = generate::registers(&mut random);
        r.task_switched = false;
        r.vxcsr |= 1 << 21;
        for vector in &mut r.zmm {
            *vector = random.vector();
        }
        // Where other instructions were before.
        r.rip = CODE + random.below(4) * 0x100;
        let before = r.clone();
        let mut code = Vec::new();
        let mut told = String::new();
        for _ in 0..LENGTH {
            let next = |code: &Vec<u8>| before.rip + code.len() as u64;
            if random.once_in(3) {
                let c = masks::Case::random(random.pick_of(&masks), &mut random);
                if c.is_valid() {
                    code.extend(&c.bytes);
                    c.execute(&mut r, next(&code));
                    told += &format!(" {}", c.row.name);
                }
                continue;
            }
            let c = generate::of_registers(random.pick_of(&vectors), &mut random);
            if c.is_valid() {
                code.extend(&c.bytes);
                let expected = reference::execute(&c, &mut r, &mut arena, next(&code));
                assert_eq!(expected.end, End::Retires);
                told += &format!(" {}", c.row.name);
            }
        }
        r.rip = before.rip + code.len() as u64;
        code.push(0xf4);
        machine.write(before.rip, &code);
        machine.load(&before);
        let actual = machine.run_to(r.rip);
        assert!(actual == r, "seed {seed}: {told}: {code:02x?}");
    }
}
