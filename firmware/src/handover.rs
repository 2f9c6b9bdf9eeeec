//! The handover block: what the VMM tells the ROM.

use crate::map::{self, HANDOVER, field, register};

/// Operating mode in which the payload begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Real mode.
    Real,
    /// 32-bit protected mode, paging off.
    Protected,
    /// 64-bit mode.
    Long,
}

/// Selectors. Outside real mode they are those of the GDT in [`Handover::gdtr`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segments {
    /// CS.
    pub cs: u16,
    /// DS, ES, FS and GS.
    pub data: u16,
    /// SS.
    pub ss: u16,
    /// TR; not in real mode, where it stays as after power-up. Its descriptor is busy already.
    pub tr: u16,
}

/// GDTR or IDTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Linear address.
    pub base: u64,
    /// Offset of the last byte.
    pub limit: u16,
}

/// A register that the power-on self-test reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmuRegister<'a> {
    /// ECX of RDMSR.
    pub index: u32,
    /// The manual's name, up to 31 bytes of ASCII; the console shows no more.
    pub name: &'a str,
    /// Value after power-up; `None` if RDMSR raises #GP(0).
    pub reset: Option<u64>,
}

/// Everything that the ROM needs to know. All addresses are below 4 GiB, but [`Self::rip`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover<'a> {
    /// The machine's name on the console, ASCII.
    pub title: &'a str,
    /// Processors, 1 to 254. Their local APIC identifiers are 0, 1 and so on.
    pub processors: u32,
    /// What the self-test reads on each processor.
    pub registers: Vec<PmuRegister<'a>>,
    /// Model-specific registers to set on each processor, index and value, in this order.
    pub msrs: Vec<(u32, u64)>,
    /// Mode of the payload.
    pub mode: Mode,
    /// First instruction: the offset in CS.
    pub rip: u64,
    /// RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8-R15. Outside 64-bit mode the lower halves of the
    /// first eight; the others stay zero.
    pub gpr: [u64; 16],
    /// Selectors.
    pub segments: Segments,
    /// GDTR.
    pub gdtr: Table,
    /// IDTR.
    pub idtr: Table,
    /// CR0.
    pub cr0: u32,
    /// CR3; of no meaning but in 64-bit mode, as EFER.
    pub cr3: u32,
    /// CR4; zero in real mode.
    pub cr4: u32,
    /// EFER, without LMA, which sets itself.
    pub efer: u32,
}

impl Handover<'_> {
    /// The block with all that it points to, for guest-physical address [`HANDOVER`]. There is room
    /// for [`map::HANDOVER_SIZE`] bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut block = Block(vec![0; field::END as usize]);
        let registers: Vec<u8> = self.registers.iter().flat_map(row).collect();
        let msrs: Vec<u8> = self
            .msrs
            .iter()
            .flat_map(|&(index, value)| [u64::from(index), value])
            .flat_map(u64::to_le_bytes)
            .collect();
        let mode = match self.mode {
            Mode::Real => map::REAL,
            Mode::Protected => map::PROTECTED,
            Mode::Long => map::LONG,
        };
        block.put(field::MODE, mode.to_le_bytes());
        block.put(field::PROCESSORS, self.processors.to_le_bytes());
        block.point(field::REGISTERS, &registers);
        block.put(field::REGISTER_COUNT, count(&self.registers));
        block.point(field::MSRS, &msrs);
        block.put(field::MSR_COUNT, count(&self.msrs));
        block.point(field::TITLE, &[self.title.as_bytes(), b"\0"].concat());
        block.put(field::CS, self.segments.cs.to_le_bytes());
        block.put(field::DATA, self.segments.data.to_le_bytes());
        block.put(field::TR, self.segments.tr.to_le_bytes());
        block.put(field::CR0, self.cr0.to_le_bytes());
        block.put(field::CR3, self.cr3.to_le_bytes());
        block.put(field::CR4, self.cr4.to_le_bytes());
        block.put(field::EFER, self.efer.to_le_bytes());
        for (at, table) in [(field::GDTR, self.gdtr), (field::IDTR, self.idtr)] {
            block.put(at, table.limit.to_le_bytes());
            block.put(at + 2, table.base.to_le_bytes());
        }
        block.put(field::RIP, self.rip.to_le_bytes());
        // A far pointer is an offset and, behind it, a selector.
        block.put(field::FAR32, (self.rip as u32).to_le_bytes());
        block.put(field::FAR32 + 4, self.segments.cs.to_le_bytes());
        block.put(field::FAR16, (self.rip as u16).to_le_bytes());
        block.put(field::FAR16 + 2, self.segments.cs.to_le_bytes());
        block.put(field::STACK, (self.gpr[4] as u32).to_le_bytes());
        block.put(field::STACK + 4, self.segments.ss.to_le_bytes());
        for (at, value) in (field::GPR..).step_by(8).zip(self.gpr) {
            block.put(at, value.to_le_bytes());
        }
        block.0
    }
}

fn count<T>(rows: &[T]) -> [u8; 4] {
    (rows.len() as u32).to_le_bytes()
}

/// A row of the self-test.
fn row(from: &PmuRegister<'_>) -> Vec<u8> {
    let mut row = Block(vec![0; register::SIZE as usize]);
    row.put(register::INDEX, from.index.to_le_bytes());
    row.put(register::FAULTS, u32::from(from.reset.is_none()).to_le_bytes());
    row.put(register::RESET, from.reset.unwrap_or(0).to_le_bytes());
    // A NUL stays behind the name.
    let room = register::NAME as usize..register::SIZE as usize - 1;
    for (to, byte) in row.0[room].iter_mut().zip(from.name.bytes()) {
        *to = byte;
    }
    row.0
}

/// Bytes under construction.
struct Block(Vec<u8>);

impl Block {
    fn put<const N: usize>(&mut self, at: u64, bytes: [u8; N]) {
        self.0[at as usize..at as usize + N].copy_from_slice(&bytes);
    }

    /// Appends `bytes` and puts their address at `at`.
    fn point(&mut self, at: u64, bytes: &[u8]) {
        let address = HANDOVER + self.0.len() as u64;
        self.put(at, (address as u32).to_le_bytes());
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IMAGE;

    /// Offsets of the README.
    #[test]
    fn the_block_is_laid_out_as_documented() {
        let mut gpr = [0; 16];
        gpr[4] = 0xF000;
        gpr[15] = 0x1122_3344_5566_7788;
        let block = Handover {
            title: "t",
            processors: 3,
            registers: vec![
                PmuRegister { index: 0x2E, name: "A", reset: None },
                PmuRegister { index: 0x2F, name: &"B".repeat(40), reset: Some(5) },
            ],
            msrs: vec![(0x2FF, 0xC06)],
            mode: Mode::Long,
            rip: 0x10_0200,
            gpr,
            segments: Segments { cs: 0x10, data: 0x18, ss: 0x19, tr: 0x20 },
            gdtr: Table { base: 0x500, limit: 0x2F },
            idtr: Table::default(),
            cr0: 0x8000_0011,
            cr3: 0x9000,
            cr4: 0x20,
            efer: 0x100,
        }
        .bytes();
        let half = |at: usize| u16::from_le_bytes([block[at], block[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let quad = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        assert_eq!((word(0), word(4)), (2, 3));
        assert_eq!((word(0x08), word(0x0C)), (0xF_2100, 2));
        assert_eq!((word(0x10), word(0x14)), (0xF_2160, 1));
        assert_eq!(word(0x18), 0xF_2170);
        assert_eq!((half(0x20), half(0x22), half(0x24)), (0x10, 0x18, 0x20));
        assert_eq!(
            (word(0x28), word(0x2C), word(0x30), word(0x34)),
            (0x8000_0011, 0x9000, 0x20, 0x100)
        );
        assert_eq!((half(0x40), quad(0x42)), (0x2F, 0x500));
        assert_eq!((quad(0x60), word(0x68), half(0x6C)), (0x10_0200, 0x10_0200, 0x10));
        assert_eq!((half(0x70), half(0x72)), (0x0200, 0x10));
        assert_eq!((word(0x78), half(0x7C)), (0xF000, 0x19));
        assert_eq!(quad(0xF8), 0x1122_3344_5566_7788);
        assert_eq!((word(0x100), word(0x104), &block[0x110..0x112]), (0x2E, 1, &b"A\0"[..]));
        assert_eq!((word(0x130), word(0x134), quad(0x138)), (0x2F, 0, 5));
        // A name that is too long ends in time.
        assert_eq!((block[0x15E], block[0x15F]), (b'B', 0));
        assert_eq!((quad(0x160), quad(0x168)), (0x2FF, 0xC06));
        assert_eq!(&block[0x170..0x172], b"t\0");
    }

    /// SDM volume 3, "First Instruction Executed": FFFF_FFF0h, 16 bytes below the end of the ROM;
    /// here a near jump.
    #[test]
    fn the_reset_vector_is_in_the_rom() {
        assert_eq!(IMAGE.len(), 4096);
        assert_eq!(IMAGE[0xFF0], 0xE9);
    }
}
