//! Accesses around the ends of pages, against memory that is a number of bytes by linear address.

use std::collections::BTreeMap;

use super::*;
use crate::{
    bus::unconnected::Unconnected,
    control_registers::cr0,
    features::Features,
    observe::Plain,
    ram::{Ram, Region},
};

/// Linear pages that follow each other at a boundary of 4 MiB, where the software TLB's entries begin
/// again; in pairs 4 MiB apart, which have the same entries; and the last and the first one.
const PAGES: [u64; 10] = [
    0x003f_f000,
    0x0040_0000,
    0x007f_f000,
    0x0080_0000,
    0x0001_1000,
    0x0001_2000,
    0x0041_1000,
    0x0041_2000,
    0xffff_f000,
    0x0000_0000,
];
/// The page directory, then the page tables of PDEs 0, 1, 2 and 3ffh, then a frame for each page, of
/// which no two neighbours are neighbours.
const TABLES: [u64; 4] = [0, 1, 2, 0x3ff];
const FRAMES: u64 = 0x5000;
const RAM_BYTES: usize = 0x5000 + 2 * PAGES.len() * PAGE as usize;
/// Present, writable, accessed and dirty.
const ENTRY: u32 = 0x63;

struct Machine {
    cpu: Cpu,
    ram: Ram,
    /// What each byte of the pages holds, by linear address.
    expected: BTreeMap<u64, u8>,
    /// What `ram` points to.
    _memory: Vec<u8>,
}

impl Machine {
    /// 32-bit paging, and a different byte everywhere.
    fn new() -> Self {
        let mut memory = vec![0_u8; RAM_BYTES];
        let region = Region { gpa: 0, len: RAM_BYTES as u64, host: memory.as_mut_ptr() };
        #[allow(unsafe_code, reason = "the only way to make a Ram")]
        // SAFETY: the vector lives beside the `Ram`, keeps its buffer, and nothing else accesses it.
        let ram = unsafe { Ram::new(&[region]) };
        for (n, pde) in (1..).zip(TABLES) {
            ram.write_u32(pde * 4, (n << 12) | ENTRY);
        }
        let mut expected = BTreeMap::new();
        for (n, page) in (0_u64..).zip(PAGES) {
            let table = TABLES.iter().position(|&pde| pde == page >> 22).unwrap() as u64 + 1;
            let frame = FRAMES + n * 2 * PAGE;
            ram.write_u32(table * 0x1000 + (page >> 12 & 0x3ff) * 4, frame as u32 | ENTRY);
            for offset in 0..PAGE {
                let byte = (offset ^ offset >> 8 ^ n << 5) as u8;
                assert!(ram.write_bytes(frame + offset, &[byte]));
                expected.insert(page + offset, byte);
            }
        }
        let mut cpu = Cpu::new(Features::K8);
        cpu.set_control(cr0::PG | 1, 0, 0, 0);
        Self { cpu, ram, expected, _memory: memory }
    }

    /// Loads, stores or modifies a word, and compares.
    fn access<T: Word>(&mut self, linear: u64, what: u64, value: u64) {
        let mut bus = Unconnected::default();
        let mut cx = Cx { bus: &mut bus, ram: &self.ram, observer: Plain };
        let bytes = (0..T::BYTES as u64).map(|n| linear.wrapping_add(n) & 0xffff_ffff);
        let held = bytes.clone().rev().fold(0, |sum, at| sum << 8 | u64::from(self.expected[&at]));
        let held = T::from_u64(held);
        let written = match what {
            0 => {
                assert_eq!(self.cpu.load::<_, T>(&mut cx, linear), Ok(held), "{linear:x}");
                return;
            }
            1 => {
                assert_eq!(self.cpu.store(&mut cx, linear, T::from_u64(value)), Ok(()));
                value
            }
            _ => {
                let mem = Mem { disp: linear as i64, ..Mem::NONE };
                let change = |_: &mut Cpu, old: T| {
                    assert_eq!(old, held, "{linear:x}");
                    T::from_u64(!old.to_u64())
                };
                assert_eq!(self.cpu.modify_mem(&mut cx, &mem, change), Ok(()));
                !held.to_u64()
            }
        };
        for (at, byte) in bytes.zip(written.to_le_bytes()) {
            self.expected.insert(at, byte);
        }
    }
}

/// Whichever of two neighbouring pages and of pages with the same entries the TLB holds, a word is read
/// from and written to all the pages that it lies in.
#[test]
fn words_across_pages_are_whole() {
    let mut machine = Machine::new();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 20) % n
    };
    for round in 0..200_000 {
        let page = PAGES[2 * below(PAGES.len() as u64 / 2) as usize];
        // From 12 bytes before the boundary to 4 behind it.
        let linear = (page + PAGE - 12 + below(16)) & 0xffff_ffff;
        let (what, value) = (below(3), below(u64::MAX));
        match below(4) {
            0 => machine.access::<u8>(linear, what, value),
            1 => machine.access::<u16>(linear, what, value),
            2 => machine.access::<u32>(linear, what, value),
            _ => machine.access::<u64>(linear, what, value),
        }
        if round % 61 == 0 {
            machine.cpu.tlb.flush_page(linear);
        }
    }
    for (n, page) in (0_u64..).zip(PAGES) {
        for offset in 0..PAGE {
            let mut byte = [0];
            assert!(machine.ram.read_bytes(FRAMES + n * 2 * PAGE + offset, &mut byte));
            assert_eq!(byte[0], machine.expected[&(page + offset)], "{page:x} {offset:x}");
        }
    }
}
