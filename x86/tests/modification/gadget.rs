//! Pieces of code that overwrite code, jump about in it, and make the difference seen.
//!
//! Each is at most [`SLOT`] bytes long and may begin at any slot. eDI holds an address in the
//! programs, eSI one of bytes to copy; both are only ever loaded with such, unless something else has
//! been written over a piece. What becomes of that is as welcome.

use crate::guest::{MARKED, Mode, Place, SLOT, TABLE_ALIAS, private};
use crate::random::Random;

/// First vector of the kernel's services.
pub(crate) const SERVICES: u8 = 0x30;
/// Number of them.
pub(crate) const SERVICE_COUNT: u8 = 6;

/// One-byte instructions, and some that swallow bytes behind them.
const OPCODES: [u8; 16] = [
    0x90, 0x40, 0x48, 0x43, 0xf8, 0xf9, 0xf5, 0x98, 0x99, 0x04, 0x05, 0xb0, 0xb8, 0xeb, 0xc3, 0x66,
];

/// The encoder of one piece.
pub(crate) struct Gadget<'a> {
    place: &'a Place,
    random: &'a mut Random,
    bytes: Vec<u8>,
}

impl Gadget<'_> {
    /// A random piece, padded to a slot.
    pub(crate) fn random(place: &Place, random: &mut Random) -> [u8; SLOT as usize] {
        loop {
            let mut gadget = Gadget { place, random, bytes: Vec::new() };
            gadget.fill();
            if gadget.bytes.len() > SLOT as usize {
                continue;
            }
            let mut slot = [0x90; SLOT as usize];
            slot[..gadget.bytes.len()].copy_from_slice(&gadget.bytes);
            return slot;
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The prefix for 32-bit operands.
    fn wide(&mut self) {
        if self.place.mode == Mode::Real {
            self.put(&[0x66]);
        }
    }

    fn immediate(&mut self) {
        let value = self.random.next() as u32;
        self.put(&value.to_le_bytes());
    }

    /// ModRM and displacement of [eDI + displacement].
    fn at_di(&mut self, reg: u8, displacement: u8) {
        let rm = if self.place.mode == Mode::Real { 5 } else { 7 };
        self.put(&[0x40 | reg << 3 | rm, displacement]);
    }

    fn at_si(&mut self, reg: u8, displacement: u8) {
        let rm = if self.place.mode == Mode::Real { 4 } else { 6 };
        self.put(&[0x40 | reg << 3 | rm, displacement]);
    }

    /// MOV of an address to a register.
    fn load(&mut self, register: u8, address: u64) {
        self.put(&[0xb8 | register]);
        let len = if self.place.mode == Mode::Real { 2 } else { 4 };
        self.put(&address.to_le_bytes()[..len]);
    }

    /// A displacement to the beginning of a slot `slots` away, for a branch that ends with it.
    fn to_slot(&self, slots: i64, bytes: usize) -> i64 {
        slots * SLOT as i64 - (self.bytes.len() + bytes) as i64
    }

    /// A near displacement, mostly within a page or two.
    fn near(&mut self) {
        let slots = match self.random.below(4) {
            0 => self.random.below(2048) as i64 - 1024,
            _ => self.random.below(300) as i64 - 150,
        };
        let len = if self.place.mode == Mode::Real { 2 } else { 4 };
        let displacement = self.to_slot(slots, len);
        self.put(&displacement.to_le_bytes()[..len]);
    }

    fn short(&mut self) {
        let slots = self.random.below(14) as i64 - 7;
        let displacement = self.to_slot(slots, 1);
        self.put(&[displacement as u8]);
    }

    /// Puts the address behind this instruction into eDI.
    fn own_address(&mut self) {
        let len = if self.place.mode == Mode::Real { 2 } else { 4 };
        self.put(&[0xe8]);
        self.put(&[0; 4][..len]);
        self.put(&[0x5f]);
    }

    fn restore_stack(&mut self) {
        self.load(4, self.place.stack());
    }

    fn fill(&mut self) {
        let displacement = self.random.below(20) as u8;
        match self.random.below(40) {
            0..=2 => {
                let opcode = self.random.one(&[0x05, 0x2d, 0x35, 0x0d, 0x25, 0x69]);
                self.wide();
                if opcode == 0x69 {
                    self.put(&[opcode, 0xc0]);
                } else {
                    self.put(&[opcode]);
                }
                self.immediate();
            }
            3 => {
                let register = self.random.below(4) as u8;
                self.wide();
                self.put(&[0xb8 | register]);
                self.immediate();
            }
            4..=6 => {
                let target = self.place.target(self.random);
                self.load(7, target);
            }
            7 => {
                let source = self.place.source(self.random);
                self.load(6, source);
            }
            8 => {
                self.wide();
                self.put(&[0xc7]);
                self.at_di(0, displacement);
                self.immediate();
            }
            9 | 10 => {
                let opcode = self.random.one(&OPCODES);
                self.put(&[0xc6]);
                self.at_di(0, displacement);
                self.put(&[opcode]);
            }
            11 | 12 => {
                // MOVQ of a whole slot.
                self.put(&[0x0f, 0x6f]);
                self.at_si(0, 0);
                self.put(&[0x0f, 0x7f]);
                self.at_di(0, 0);
                if self.random.below(2) == 0 {
                    self.bytes.clear();
                    self.put(&[0x0f, 0x10]);
                    self.at_si(1, 0);
                    self.put(&[0x0f, 0x11]);
                    self.at_di(1, 0);
                }
            }
            13 => self.modify(displacement),
            14 => {
                self.wide();
                self.put(&[0x8b]);
                self.at_di(0, 0);
                self.wide();
                self.put(&[0x8b]);
                self.at_di(2, 4);
                if self.random.below(2) == 0 {
                    self.put(&[0xf0]);
                }
                self.put(&[0x0f, 0xc7]);
                self.at_di(1, 0);
            }
            15 | 16 => self.string(),
            17 => self.through_stack(displacement),
            18 => self.image(displacement),
            19 | 20 => {
                self.put(&[0xeb]);
                self.short();
            }
            21 | 22 => {
                let condition = self.random.below(20) as u8;
                // Jcc, LOOPNE, LOOPE, LOOP, JCXZ.
                self.put(&[if condition < 16 { 0x70 | condition } else { 0xd0 | condition }]);
                self.short();
            }
            23 => {
                let opcode = self.random.one(&[0xe9, 0xe8]);
                self.put(&[opcode]);
                self.near();
            }
            24 => {
                let condition = self.random.below(16) as u8;
                self.put(&[0x0f, 0x80 | condition]);
                self.near();
            }
            25 => {
                // The other operand size: cut to 16 bits, or to 32.
                let opcode = self.random.one(&[0xe9, 0xe8, 0xeb]);
                let slots = self.random.below(60) as i64 - 30;
                let real = self.place.mode == Mode::Real;
                let len = match opcode {
                    0xeb => 1,
                    _ if real => 4,
                    _ => 2,
                };
                self.put(&[0x66, opcode]);
                let displacement = self.to_slot(slots, len);
                self.put(&displacement.to_le_bytes()[..len]);
            }
            26 => {
                let modrm = self.random.one(&[0xe7, 0xd7]);
                self.put(&[0xff, modrm]);
            }
            27 => {
                let ret = self.random.one(&[&[0xc3][..], &[0xc2, 4, 0]]);
                self.put(ret);
            }
            28 => self.far(),
            29 | 30 => {
                let service = SERVICES + self.random.below(u64::from(SERVICE_COUNT)) as u8;
                self.put(&[0xcd, service]);
            }
            31 => self.marked(),
            32 if self.place.mode.paged() => {
                let edge = self.place.private(private::SUPERVISOR) - self.random.below(4);
                self.load(7, edge);
                self.put(&[0xff, 0xe7]);
            }
            33 => {
                let len = self.random.below(SLOT) as usize + 1;
                for _ in 0..len {
                    let byte = self.random.next() as u8;
                    self.put(&[byte]);
                }
            }
            34 | 35 => {
                // The next instruction, or the one after.
                self.own_address();
                let opcode = self.random.one(&OPCODES);
                self.put(&[0xc6]);
                let behind = self.random.below(12) as u8;
                self.at_di(0, behind);
                self.put(&[opcode, 0x40]);
            }
            36 => {
                self.own_address();
                self.wide();
                self.put(&[0xc7]);
                let behind = self.random.below(16) as u8;
                self.at_di(0, behind);
                self.immediate();
            }
            37 => self.put(&[0x0f, 0x31]),
            38 => {
                let len = self.random.below(15) as usize;
                let prefix = self.random.one(&[0x66, 0xf2, 0x3e]);
                self.put(&vec![prefix; len]);
                self.put(&[0x40]);
            }
            _ => {
                let bytes: &[u8] = self.random.one(&[
                    &[0x9d],
                    &[0x9c],
                    &[0xfb],
                    &[0xfa],
                    &[0xf4],
                    &[0xcc],
                    &[0xcf],
                    &[0x0f, 0xa2],
                    &[0x0f, 0x01, 0x3d],
                ]);
                self.put(bytes);
            }
        }
    }

    /// A read-modify-write of code.
    fn modify(&mut self, displacement: u8) {
        if self.random.below(2) == 0 {
            self.put(&[0xf0]);
        }
        match self.random.below(8) {
            0 => {
                self.wide();
                self.put(&[0x87]);
                self.at_di(0, displacement);
            }
            1 => {
                self.wide();
                self.put(&[0x0f, 0xc1]);
                self.at_di(3, displacement);
            }
            2 => {
                self.put(&[0x80]);
                let operation = self.random.below(7) as u8;
                self.at_di(operation, displacement);
                let value = self.random.next() as u8;
                self.put(&[value]);
            }
            3 => {
                self.put(&[0xfe]);
                let operation = self.random.below(2) as u8;
                self.at_di(operation, displacement);
            }
            4 => {
                self.wide();
                self.put(&[0xf7]);
                let operation = self.random.one(&[2, 3]);
                self.at_di(operation, displacement);
            }
            5 => {
                self.wide();
                self.put(&[0x0f, 0xba]);
                let operation = self.random.one(&[5, 6, 7]);
                self.at_di(operation, displacement);
                let bit = self.random.below(32) as u8;
                self.put(&[bit]);
            }
            6 => {
                self.wide();
                self.put(&[0x0f, 0xb1]);
                self.at_di(1, displacement);
            }
            _ => {
                self.put(&[0x0f, 0x90]);
                self.at_di(0, displacement);
            }
        }
    }

    /// REP MOVS, REP STOS, MOVS, STOS, in both directions.
    fn string(&mut self) {
        let direction = self.random.one(&[0xfc, 0xfc, 0xfc, 0xfd]);
        let count = self.random.below(40) as u8 + 1;
        let opcode = self.random.one(&[0xa4, 0xa4, 0xa5, 0xaa, 0xab, 0xa6]);
        self.put(&[direction, 0x31, 0xc9, 0xb1, count]);
        if opcode == 0xaa {
            self.put(&[0xb0, 0x90]);
        }
        if self.random.below(8) != 0 {
            self.put(&[0xf3]);
        }
        self.put(&[opcode, 0xfc]);
    }

    /// A stack in the code.
    fn through_stack(&mut self, displacement: u8) {
        self.put(&[0x8d]);
        self.at_di(4, displacement);
        match self.random.below(5) {
            0 => {
                self.put(&[0x68]);
                let len = if self.place.mode == Mode::Real { 2 } else { 4 };
                let value = self.random.next();
                self.put(&value.to_le_bytes()[..len]);
            }
            1 => self.put(&[0x60]),
            2 => self.put(&[0xc8, 4, 0, 0]),
            3 => {
                self.put(&[0xe8]);
                self.near();
                return;
            }
            _ => {
                self.put(&[0x50, 0x9c, 0x8f]);
                self.at_di(0, displacement);
            }
        }
        self.restore_stack();
    }

    /// What stores more than a word.
    fn image(&mut self, displacement: u8) {
        let (opcode, reg): (&[u8], u8) = self.random.one(&[
            (&[0x0f, 0xae], 0), // FXSAVE
            (&[0xdd], 6),       // FNSAVE
            (&[0xd9], 6),       // FNSTENV
            (&[0xdb], 7),       // FSTP m80
            (&[0xdb], 2),       // FIST
            (&[0xdf], 6),       // FBSTP
            (&[0x0f, 0x01], 0), // SGDT
            (&[0x0f, 0xae], 3), // STMXCSR
            (&[0x0f, 0xc3], 0), // MOVNTI
            (&[0x0f, 0xe7], 1), // MOVNTQ
            (&[0x0f, 0x2b], 1), // MOVNTPS
        ]);
        if opcode == [0x0f, 0xae] && reg == 0 {
            self.put(&[0x83, 0xe7, 0xf0]);
            self.put(opcode);
            self.at_di(reg, 0);
            return;
        }
        if self.random.below(6) == 0 {
            // MASKMOVQ
            self.put(&[0x0f, 0xf7, 0xc1]);
            return;
        }
        self.put(opcode);
        self.at_di(reg, displacement);
    }

    /// A far jump, or the same by RETF or IRET.
    fn far(&mut self) {
        let (ip, selector) = self.place.entry_point(self.random);
        if self.place.mode == Mode::Long {
            // PUSH of the offset, then RETFQ finds the selector that was pushed before.
            self.put(&[0x6a, selector as u8, 0x68]);
            self.put(&(ip as u32).to_le_bytes());
            self.put(&[0x48, 0xcb]);
            return;
        }
        let len = if self.place.mode == Mode::Real { 2 } else { 4 };
        if self.random.below(2) == 0 {
            self.put(&[0xea]);
            self.put(&ip.to_le_bytes()[..len]);
            self.put(&selector.to_le_bytes());
            return;
        }
        let iret = self.random.below(2) == 0;
        if iret {
            self.put(&[0x9c]);
        }
        self.put(&[0x68]);
        self.put(&u64::from(selector).to_le_bytes()[..len]);
        self.put(&[0x68]);
        self.put(&ip.to_le_bytes()[..len]);
        self.put(&[if iret { 0xcf } else { 0xcb }]);
    }

    /// An access that sets a bit in a page-table entry, and a call of that entry.
    fn marked(&mut self) {
        if !self.place.mode.paged() {
            return self.put(&[0x90]);
        }
        if self.random.below(4) == 0 {
            let page = self.place.marked() + 7 * 4096;
            self.load(7, page + MARKED + 7 * self.place.mode.entry() - 1);
            return self.put(&[0xff, 0xd7]);
        }
        let entry = self.random.below(7);
        let address = self.place.marked() + (entry + 1) * 4096;
        let opcode = self.random.one(&[0xa1, 0xa3]);
        let code = TABLE_ALIAS + MARKED + (entry + 1) * self.place.mode.entry() - 1;
        if self.random.below(2) == 0 {
            let len = if self.place.mode == Mode::Long { 8 } else { 4 };
            self.put(&[opcode]);
            self.put(&address.to_le_bytes()[..len]);
        }
        self.load(7, code);
        self.put(&[0xff, 0xd7]);
    }
}
