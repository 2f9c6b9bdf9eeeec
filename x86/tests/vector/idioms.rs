//! What programs use the instructions for, executed by the reference and by the processor: sequences whose
//! outcome is known without the definition of each instruction.

use crate::{
    case::{Address, End, Operand, Vector},
    encode::{Fault, encode},
    machine::{CODE, Machine},
    random::Random,
    reference, rows,
    state::{ARENA, Arena, Registers, load},
};

/// Where the operands of these programs are: page 1 of the arena.
const DATA: u64 = ARENA + 0x1000;
/// The pointer to them, RBX.
const POINTER: u8 = 3;
/// The rounding field of VXCSR is zero (to nearest), and DUE is set.
const VXCSR: u32 = 1 << 21;

/// Executes instructions one after the other.
struct Program {
    /// `None` for the reference.
    machine: Option<Machine>,
    r: Registers,
    arena: Arena,
}

impl Program {
    /// One for the reference and one for the processor.
    fn both() -> [Self; 2] {
        [None, Some(Machine::new())].map(|machine| Self {
            machine,
            r: Registers {
                zmm: [[0; 64]; 32],
                k: [0; 8],
                vxcsr: VXCSR,
                gpr: [0; 16],
                bases: [0; 2],
                rflags: 2,
                rip: CODE,
                task_switched: false,
            },
            arena: Arena::new(),
        })
    }

    /// Executes an instruction, which may not fault.
    fn run(&mut self, mut c: Vector) {
        c.bytes = encode(&c, Fault::None, true);
        self.r.rip = CODE;
        let next = CODE + c.bytes.len() as u64;
        if let Some(machine) = &mut self.machine {
            machine.write(CODE, &c.bytes);
            machine.write(ARENA, &self.arena.bytes);
            machine.load(&self.r);
            let (r, fault) = machine.execute(false);
            assert_eq!(fault, None, "{c:?}");
            assert_eq!(r.rip, next);
            self.r = r;
            machine.read(ARENA, &mut self.arena.bytes);
        } else {
            let expected = reference::execute(&c, &mut self.r, &mut self.arena, next);
            assert_eq!(expected.end, End::Retires, "{c:?}");
        }
    }

    fn set(&mut self, register: u8, lanes: [u32; 16]) {
        for (n, lane) in lanes.into_iter().enumerate() {
            self.r.set_lane(register, 4, n, u64::from(lane));
        }
    }

    fn get(&self, register: u8) -> [u32; 16] {
        std::array::from_fn(|n| self.r.lane(register, 4, n) as u32)
    }
}

/// An instruction by name: destination, vvvv operand and last operand, mask.
fn of(name: &str, reg: u8, v: u8, operand: Operand, aaa: u8) -> Vector {
    let memory = matches!(operand, Operand::Memory(_));
    let row = rows::rows()
        .into_iter()
        .find(|row| row.name == name && (memory || row.takes_register()))
        .expect("an instruction of this name");
    Vector {
        row,
        reg,
        v,
        operand,
        aaa,
        e: false,
        sss: 0,
        immediate: 0,
        bytes: Vec::new(),
        reserved: false,
    }
}

fn registers(name: &str, reg: u8, v: u8, last: u8) -> Vector {
    of(name, reg, v, Operand::Register(last), 0)
}

fn at(displacement: i32, index: Option<u8>) -> Operand {
    Operand::Memory(Address {
        base: Some(POINTER),
        index,
        scale: if index.is_some() { 4 } else { 1 },
        displacement,
        segment: None,
        narrow: false,
        relative: false,
    })
}

/// Masks that are worth trying, and some more.
fn masks() -> Vec<u16> {
    let mut random = Random::new(5);
    let mut masks = vec![0, 1, 0x8000, 0xffff, 0x5555, 0xff00];
    masks.extend((0..12).map(|_| random.next() as u16));
    masks
}

fn words(random: &mut Random) -> [u32; 16] {
    std::array::from_fn(|_| random.next() as u32)
}

/// A pair of VLOADUNPACK loads a vector from anywhere, and the lanes of a mask from a packed array.
#[test]
fn a_pair_of_unpacking_loads_is_an_unaligned_load() {
    for mut p in Program::both() {
        let mut random = Random::new(1);
        for offset in 0..16usize {
            for mask in masks() {
                let old = words(&mut random);
                p.set(1, old);
                p.r.k[1] = mask;
                random.fill(&mut p.arena.bytes[0x1000..0x1100]);
                p.r.gpr[usize::from(POINTER)] = DATA + 4 * offset as u64;
                p.run(of("vloadunpackld", 1, 0, at(0, None), 1));
                p.run(of("vloadunpackhd", 1, 0, at(64, None), 1));
                let mut array = (offset..).map(|n| load(&p.arena.bytes, 4, 0x1000 + 4 * n) as u32);
                let expected: [u32; 16] = std::array::from_fn(|n| {
                    if mask >> n & 1 != 0 { array.next().unwrap() } else { old[n] }
                });
                assert_eq!(p.get(1), expected, "{offset} {mask:04x}");
            }
        }
    }
}

/// A pair of VPACKSTORE stores the lanes of a mask one behind the other, and nothing else.
#[test]
fn a_pair_of_packing_stores_compresses_a_vector() {
    for mut p in Program::both() {
        let mut random = Random::new(2);
        for offset in 0..16usize {
            for mask in masks() {
                let lanes = words(&mut random);
                p.set(1, lanes);
                p.r.k[1] = mask;
                random.fill(&mut p.arena.bytes[0x1000..0x1100]);
                let mut expected = p.arena.bytes.clone();
                p.r.gpr[usize::from(POINTER)] = DATA + 4 * offset as u64;
                p.run(of("vpackstoreld", 1, 0, at(0, None), 1));
                p.run(of("vpackstorehd", 1, 0, at(64, None), 1));
                let mut to = 0x1000 + 4 * offset;
                for (_, lane) in lanes.iter().enumerate().filter(|(n, _)| mask >> n & 1 != 0) {
                    expected[to..to + 4].copy_from_slice(&lane.to_le_bytes());
                    to += 4;
                }
                assert!(p.arena.bytes == expected, "{offset} {mask:04x}");
            }
        }
    }
}

/// A gather in a loop until the mask is empty takes all elements, a cache line each time.
#[test]
fn a_loop_of_gathers_takes_all_elements() {
    for mut p in Program::both() {
        let mut random = Random::new(3);
        random.fill(&mut p.arena.bytes[0x1000..0x2000]);
        p.r.gpr[usize::from(POINTER)] = DATA;
        for mask in masks() {
            let old = words(&mut random);
            let indices: [u32; 16] = std::array::from_fn(|_| random.below(64) as u32);
            p.set(1, old);
            p.set(2, indices);
            p.r.k[1] = mask;
            let mut executions = 0;
            while p.r.k[1] != 0 {
                let before = p.r.k[1];
                p.run(of("vpgatherdd", 1, 0, at(0, Some(2)), 1));
                assert!(p.r.k[1] & before == p.r.k[1] && p.r.k[1] != before);
                executions += 1;
            }
            let active = |n: usize| mask >> n & 1 != 0;
            let lines: std::collections::BTreeSet<_> =
                (0..16).filter(|&n| active(n)).map(|n| indices[n] / 16).collect();
            assert_eq!(executions, lines.len());
            let expected: [u32; 16] = std::array::from_fn(|n| {
                let element = load(&p.arena.bytes, 4, 0x1000 + 4 * indices[n] as usize) as u32;
                if active(n) { element } else { old[n] }
            });
            assert_eq!(p.get(1), expected, "{mask:04x}");
        }
    }
}

/// The same of scatters. Of elements with one address the highest is there in the end.
#[test]
fn a_loop_of_scatters_stores_all_elements() {
    for mut p in Program::both() {
        let mut random = Random::new(4);
        p.r.gpr[usize::from(POINTER)] = DATA;
        for mask in masks() {
            let lanes = words(&mut random);
            let indices: [u32; 16] = std::array::from_fn(|_| random.below(40) as u32);
            p.set(1, lanes);
            p.set(2, indices);
            p.r.k[1] = mask;
            let mut expected = p.arena.bytes.clone();
            for n in (0..16).filter(|n| mask >> n & 1 != 0) {
                let to = 0x1000 + 4 * indices[n] as usize;
                expected[to..to + 4].copy_from_slice(&lanes[n].to_le_bytes());
            }
            for _ in 0..16 {
                p.run(of("vpscatterdd", 1, 0, at(0, Some(2)), 1));
            }
            assert_eq!(p.r.k[1], 0);
            assert!(p.arena.bytes == expected, "{mask:04x}");
        }
    }
}

/// Of two 64-bit integers.
type Operation = fn(u64, u64) -> u64;

/// Carries and borrows through mask registers: 64-bit arithmetic in two halves.
#[test]
fn carries_make_wider_integers() {
    for mut p in Program::both() {
        let mut random = Random::new(6);
        for _ in 0..40 {
            let a: [u64; 16] = std::array::from_fn(|_| random.next() << 32 | random.integer());
            let b: [u64; 16] = std::array::from_fn(|_| random.next() << 32 | random.integer());
            let rows: [(&str, &str, Operation); 3] = [
                ("vpaddsetcd", "vpadcd", u64::wrapping_add),
                ("vpsubsetbd", "vpsbbd", u64::wrapping_sub),
                ("vpsubrsetbd", "vpsbbrd", |a, b| b.wrapping_sub(a)),
            ];
            for (low, high, expected) in rows {
                p.set(1, a.map(|a| a as u32));
                p.set(2, a.map(|a| (a >> 32) as u32));
                p.set(3, b.map(|b| b as u32));
                p.set(4, b.map(|b| (b >> 32) as u32));
                p.run(registers(low, 1, 5, 3));
                p.run(registers(high, 2, 5, 4));
                let (low, high) = (p.get(1), p.get(2));
                let sums: [u64; 16] =
                    std::array::from_fn(|n| u64::from(high[n]) << 32 | u64::from(low[n]));
                assert_eq!(sums, std::array::from_fn(|n| expected(a[n], b[n])));
            }
        }
    }
}

/// The sum of four neighbours comes into each by two swizzles, that of all by two permutations more.
#[test]
fn swizzles_and_permutations_reduce() {
    for mut p in Program::both() {
        let lanes = words(&mut Random::new(8));
        let sum = lanes.iter().fold(0u32, |sum, &lane| sum.wrapping_add(lane));
        p.set(1, lanes);
        // {cdab} and {badc}
        for sss in [1, 2] {
            p.run(Vector { sss, ..registers("vpaddd", 1, 1, 1) });
        }
        // Neighbouring quarters, then halves.
        for immediate in [0b10_11_00_01, 0b01_00_11_10] {
            p.run(Vector { immediate, ..registers("vpermf32x4", 2, 0, 1) });
            p.run(registers("vpaddd", 1, 1, 2));
        }
        assert_eq!(p.get(1), [sum; 16]);
    }
}

/// The power of two as Intel's compiler computes it: fixed point, approximation, and NaNs put back. Its
/// documents give 1.014 units in the last place for the whole; the bound for fixed point holds where its 24
/// bits are enough.
#[test]
fn the_sequence_for_exp2_is_as_good_as_documented() {
    for mut p in Program::both() {
        let mut random = Random::new(9);
        for _ in 0..200 {
            let mut lanes: [f32; 16] = std::array::from_fn(|_| {
                let sign = if random.once_in(2) { -1.0 } else { 1.0 };
                sign * (random.below(1 << 24) as f32) / 2f32.powi(17 + random.below(10) as i32)
            });
            lanes[3] = f32::NAN;
            lanes[5] = 200.0;
            lanes[7] = -1000.0;
            lanes[9] = f32::INFINITY;
            lanes[11] = f32::NEG_INFINITY;
            p.set(1, lanes.map(f32::to_bits));
            p.set(3, [0; 16]);
            p.run(Vector { immediate: 0x50, ..registers("vcvtfxpntps2dq", 2, 0, 1) });
            p.run(registers("vexp223ps", 2, 0, 2));
            p.run(Vector { sss: 4, ..registers("vfixupnanps", 2, 1, 3) });
            let results = p.get(2).map(f32::from_bits);
            for (x, result) in lanes.into_iter().zip(results) {
                let exact = f64::from(x).exp2();
                let told = format!("{x} {result}");
                if x.is_nan() {
                    assert!(result.is_nan(), "{told}");
                } else if x >= 128.0 {
                    assert_eq!(result, f32::INFINITY, "{told}");
                } else if x < -126.0 {
                    assert_eq!(result, 0.0, "{told}");
                } else {
                    let unit = 2f64.powi(exact.log2().floor() as i32 - 23);
                    let error = (f64::from(result) - exact).abs() / unit;
                    assert!(error <= 1.014, "{told}: {error}");
                }
            }
        }
    }
}
