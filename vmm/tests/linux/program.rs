//! A static program of which every instruction is known.
//!
//! ```text
//!         mov  ecx, ITERATIONS
//! again:                                   61 instructions, 12 of them branches
//!         10 x { add rax, 3; xor rdx, rax; rol rdx, 5; lea rbx, [rdx+1]; jmp next }
//!         test ecx, ecx
//!         jz   exit                        never taken
//!         7 x nop
//!         dec  ecx
//!         jnz  again
//! exit:   mov  eax, 60
//!         xor  edi, edi
//!         syscall
//! ```

use crate::harness::{Verdict, tests};
use iced_x86::code_asm::{CodeAssembler, eax, ecx, edi, ptr, rax, rbx, rdx};
use iced_x86::{Decoder, DecoderOptions};

tests!(positions_are_those_of_a_hand_count);

/// Rounds of the loop.
pub(crate) const ITERATIONS: u64 = 300_000;
/// Instructions of a round: 10 * 5 + 2 + 7 + 2.
pub(crate) const ROUND: u64 = 61;
/// Instructions: the first, the loop, the last three.
pub(crate) const INSTRUCTIONS: u64 = 1 + ROUND * ITERATIONS + 3;
/// Branches: ten JMP, JZ and JNZ a round, and SYSCALL, which is a far transfer.
pub(crate) const BRANCHES: u64 = 12 * ITERATIONS + 1;
/// Where the program lies: no other program of the guest lies there.
pub(crate) const BASE: u64 = 0x20_0000_0000;
/// Size of the ELF header and of one program header.
pub(crate) const HEADERS: u64 = 64 + 56;
/// Address of the first instruction.
pub(crate) const START: u64 = BASE + HEADERS;

fn code() -> Vec<u8> {
    let assemble = || -> Result<Vec<u8>, iced_x86::IcedError> {
        let mut a = CodeAssembler::new(64)?;
        let (mut again, mut exit) = (a.create_label(), a.create_label());
        a.mov(ecx, ITERATIONS as u32)?;
        a.set_label(&mut again)?;
        for _ in 0..10 {
            let mut next = a.create_label();
            a.add(rax, 3)?;
            a.xor(rdx, rax)?;
            a.rol(rdx, 5)?;
            a.lea(rbx, ptr(rdx + 1))?;
            a.jmp(next)?;
            a.set_label(&mut next)?;
            a.zero_bytes()?;
        }
        a.test(ecx, ecx)?;
        a.jz(exit)?;
        for _ in 0..7 {
            a.nop()?;
        }
        a.dec(ecx)?;
        a.jnz(again)?;
        a.set_label(&mut exit)?;
        a.mov(eax, 60)?;
        a.xor(edi, edi)?;
        a.syscall()?;
        a.assemble(START)
    };
    assemble().expect("the program assembles")
}

/// The program as an ELF64 executable.
pub(crate) fn elf() -> Vec<u8> {
    elf_of(&code())
}

/// Code for [`START`] as an ELF64 executable with one segment, readable and executable.
pub(crate) fn elf_of(code: &[u8]) -> Vec<u8> {
    elf_at(BASE, code)
}

/// Code for [`HEADERS`] behind `base` as an ELF64 executable with one segment, readable and executable.
pub(crate) fn elf_at(base: u64, code: &[u8]) -> Vec<u8> {
    let size = HEADERS + code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    let half = |elf: &mut Vec<u8>, value: u16| elf.extend(value.to_le_bytes());
    let word = |elf: &mut Vec<u8>, value: u32| elf.extend(value.to_le_bytes());
    let quad = |elf: &mut Vec<u8>, value: u64| elf.extend(value.to_le_bytes());
    half(&mut elf, 2); // ET_EXEC
    half(&mut elf, 62); // EM_X86_64
    word(&mut elf, 1);
    quad(&mut elf, base + HEADERS);
    quad(&mut elf, 64); // program headers
    quad(&mut elf, 0);
    word(&mut elf, 0);
    // Size of this header, of a program header, their number; no sections.
    for value in [64, 56, 1, 0, 0, 0] {
        half(&mut elf, value);
    }
    word(&mut elf, 1); // PT_LOAD
    word(&mut elf, 5); // readable, executable
    for value in [0, base, base, size, size, 0x1000] {
        quad(&mut elf, value);
    }
    elf.extend(code);
    elf
}

/// The program's instructions by address.
pub(crate) struct Layout {
    addresses: Vec<u64>,
}

impl Layout {
    /// Decodes the program.
    pub(crate) fn new() -> Self {
        let code = code();
        let decoder = Decoder::with_ip(64, &code, START, DecoderOptions::NONE);
        let addresses: Vec<_> = decoder.into_iter().map(|insn| insn.ip()).collect();
        assert_eq!(addresses.len() as u64, 1 + ROUND + 3);
        Self { addresses }
    }

    /// The address of the instruction that is executed after `executed` others.
    pub(crate) fn address(&self, executed: u64) -> u64 {
        let index = match executed {
            0 => 0,
            n if n <= ROUND * ITERATIONS => 1 + (n - 1) % ROUND,
            n => n - ROUND * (ITERATIONS - 1),
        };
        self.addresses[index as usize]
    }

    /// How many instructions the program has executed when it is at `rip` with `left` rounds to go;
    /// `None` if that is not in the program.
    pub(crate) fn executed(&self, rip: u64, left: u32) -> Option<u64> {
        let index = self.addresses.binary_search(&rip).ok()? as u64;
        let left = u64::from(left);
        Some(match index {
            0 => 0,
            // JNZ comes after the DEC of its round.
            ROUND => ROUND * (ITERATIONS - left),
            n if n < ROUND => ROUND * (ITERATIONS - left) + n,
            n => ROUND * (ITERATIONS - 1) + n,
        })
    }
}

fn positions_are_those_of_a_hand_count() -> Verdict {
    let layout = Layout::new();
    // mov ecx; first of the loop; JNZ, the 61st of the loop; the loop again; the three of the end.
    assert_eq!(layout.address(0), START);
    assert_eq!(layout.executed(layout.addresses[1], 300_000), Some(1));
    assert_eq!(layout.executed(layout.addresses[61], 299_999), Some(61));
    assert_eq!(layout.address(62), layout.addresses[1]);
    assert_eq!(layout.executed(layout.addresses[1], 299_999), Some(62));
    assert_eq!(layout.address(18_300_000), layout.addresses[61]);
    assert_eq!(layout.address(18_300_001), layout.addresses[62]);
    assert_eq!(layout.executed(layout.addresses[64], 0), Some(18_300_003));
    assert_eq!((INSTRUCTIONS, BRANCHES), (18_300_004, 3_600_001));
    Ok(())
}
