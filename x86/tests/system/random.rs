//! System instructions on random descriptor tables, stacks and registers: nothing panics, and the
//! privilege level stays the one in CS.

use x86_cpu::cpu::Cpu;
use x86_cpu::descriptor::DescriptorTable;

use crate::machine::*;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 20) as usize % n
    }

    fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A selector that often names a descriptor of the test.
    fn selector(&mut self) -> u16 {
        (self.below(24) * 8 + self.below(8)) as u16
    }

    /// Numbers near the edges as often as others.
    fn word(&mut self) -> u64 {
        match self.below(8) {
            0 => u64::MAX - self.below(20) as u64,
            1 => 0x7fff_ffff_fff0 + self.below(32) as u64,
            2 => 0xffff_fff0 + self.below(32) as u64,
            3 => self.below(0x20) as u64,
            4 => u64::from(self.selector()),
            _ => DATA + self.below(0x1000) as u64,
        }
    }

    /// A descriptor or gate of any type, most of them plausible.
    fn descriptor(&mut self) -> u64 {
        let present = if self.below(8) != 0 { 0x80 } else { 0 };
        let access = present | self.below(0x80) as u64;
        if self.below(2) == 0 {
            let selector = self.selector();
            gate(selector, CODE + self.below(0x100) as u64, self.below(32) as u64, access)
        } else {
            let base = self.one(&[0, 0, TSS, 0xffff_f000]);
            let limit = self.one(&[0, 0x67, 0xfff, 0xf_ffff, 0xf_ffff]);
            descriptor(base, limit, access, self.below(16) as u64)
        }
    }
}

const OPCODES: [&[u8]; 40] = [
    &[0xcf],
    &[0x48, 0xcf],
    &[0x66, 0xcf],
    &[0xcb],
    &[0x48, 0xcb],
    &[0xca, 8, 0],
    &[0xcd, 0x10],
    &[0xcc],
    &[0xce],
    &[0xf1],
    &[0xff, 0x2b],
    &[0xff, 0x1b],
    &[0x66, 0xff, 0x2b],
    &[0x66, 0xff, 0x1b],
    &[0x8e, 0xd8],
    &[0x8e, 0xd0],
    &[0x8e, 0xe0],
    &[0x8e, 0xe8],
    &[0x8e, 0xc0],
    &[0x0f, 0x00, 0xd8],
    &[0x0f, 0x00, 0xd0],
    &[0x0f, 0x00, 0xe0],
    &[0x0f, 0x00, 0xe8],
    &[0x0f, 0x02, 0xc8],
    &[0x0f, 0x03, 0xc8],
    &[0x63, 0xc8],
    &[0x0f, 0x05],
    &[0x0f, 0x07],
    &[0x0f, 0x34],
    &[0x0f, 0x35],
    &[0x9d],
    &[0x9c],
    &[0xfb],
    &[0xfa],
    &[0x6c],
    &[0xf3, 0x6e],
    &[0x17],
    &[0x0f, 0xa1],
    &[0x0f, 0xb2, 0x03],
    &[0x0f, 0x0b],
];

/// RPL of CS against CPL.
fn privilege_is_consistent(cpu: &Cpu) -> bool {
    let cs = cpu.segment(CS).selector;
    if cpu.rflags() & VM != 0 { cpu.cpl() == 3 } else { cs & 3 == u16::from(cpu.cpl()) }
}

#[test]
fn nothing_panics() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut exceptions, mut far) = (0, 0);
    for case in 0..4000 {
        let mut m = match random.below(4) {
            0 => Machine::protected(),
            1 => Machine::long(),
            2 => Machine::protected().at_user(),
            _ => Machine::long().at_user(),
        };
        for n in 9..24 {
            m.set_descriptor(n * 8, random.descriptor());
        }
        for vector in 0..32 {
            if random.below(4) == 0 {
                m.write_u64(IDT + 8 * vector, random.descriptor());
            }
        }
        for n in 0..64 {
            let word = random.word();
            m.write_u64(DATA + 8 * n, word);
        }
        if random.below(3) == 0 {
            for n in 0..13 {
                let word = random.word();
                m.write_u64(TSS + 8 * n, word);
            }
        }
        for n in 0..16 {
            let word = random.word();
            m.cpu.set_gpr(n, word);
        }
        m.cpu.set_gpr(3, DATA + 8 * random.below(32) as u64);
        if random.below(4) != 0 {
            m.cpu.set_gpr(RSP, DATA + 8 * random.below(32) as u64);
        }
        m.cpu.set_rflags(random.one(&[2, 2 | NT, 2 | TF, 2 | IF | 3 << 12]));
        m.cpu.ldtr.base = random.word();
        m.cpu.msrs.star = random.next();
        m.cpu.msrs.lstar = random.word();
        m.cpu.msrs.sysenter_cs = u64::from(random.selector());
        m.cpu.msrs.sysenter_eip = random.word();
        if random.below(8) == 0 {
            m.cpu.tr.limit = random.below(0x70) as u32;
        }
        if random.below(8) == 0 {
            m.cpu.gdtr = DescriptorTable { base: random.word(), limit: random.next() as u16 };
        }
        for n in 0..8 {
            let code = random.one(&OPCODES);
            m.write(CODE + 4 * n, &[0x90; 4]);
            m.write(CODE + 4 * n, code);
        }
        m.cpu.rip = CODE;
        for step in 0..6 {
            let until = m.cpu.time + 1;
            m.run_until(until);
            assert!(privilege_is_consistent(&m.cpu), "case {case}, step {step}");
        }
        exceptions += m.facts.exceptions;
        far += m.facts.far;
    }
    // The cases are not all the same.
    assert!(exceptions > 1000 && far > 250, "{exceptions} exceptions, {far} far transfers");
}
