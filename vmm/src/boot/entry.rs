//! The processor state in which a payload begins.

use vm_memory::{Bytes, GuestAddress};

use super::error::{BootError, Result};
use super::layout;
use super::memory::GuestRam;

/// Operating mode at the first instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Real mode.
    Real,
    /// 32-bit protected mode, paging off.
    Protected32,
    /// 64-bit mode, the first 4 GiB mapped one to one with 2 MiB pages.
    Long,
}

/// A segment register with its hidden part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Visible selector.
    pub selector: u16,
    /// Base address.
    pub base: u64,
    /// Limit in bytes, already scaled by the granularity.
    pub limit: u32,
    /// Bits 47:40 of the descriptor (type, S, DPL, P) in 7:0 and bits 55:52 (AVL, L, D/B, G)
    /// in 15:12; 11:8 are zero. AMD64 volume 2 section 4.7.
    pub attributes: u16,
}

/// GDTR or IDTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableRegister {
    /// Linear address.
    pub base: u64,
    /// Offset of the last byte.
    pub limit: u16,
}

/// Register state at the first instruction; what is not here is as after reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Operating mode, implied by the control registers and CS; for messages.
    pub mode: Mode,
    /// RIP.
    pub rip: u64,
    /// RFLAGS: bit 1 only, interrupts disabled.
    pub rflags: u64,
    /// RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8-R15, in the order of their encodings.
    pub gpr: [u64; 16],
    /// CS.
    pub cs: Segment,
    /// DS, ES, FS, GS: all alike in every boot protocol.
    pub data: Segment,
    /// SS.
    pub ss: Segment,
    /// LDTR.
    pub ldtr: Segment,
    /// TR.
    pub tr: Segment,
    /// GDTR.
    pub gdtr: TableRegister,
    /// IDTR.
    pub idtr: TableRegister,
    /// CR0.
    pub cr0: u64,
    /// CR3.
    pub cr3: u64,
    /// CR4.
    pub cr4: u64,
    /// EFER.
    pub efer: u64,
}

/// Index of RAX in [`Entry::gpr`].
pub const RAX: usize = 0;
/// Index of RBX in [`Entry::gpr`].
pub const RBX: usize = 3;
/// Index of RSP in [`Entry::gpr`].
pub const RSP: usize = 4;
/// Index of RSI in [`Entry::gpr`].
pub const RSI: usize = 6;

const CR0_PE: u64 = 1 << 0;
const CR0_ET: u64 = 1 << 4;
const CR0_PG: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LME: u64 = 1 << 8;
const EFER_LMA: u64 = 1 << 10;

/// The selectors of the flat code and data segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selectors {
    /// 10h and 18h, which the Linux boot protocol asks for (Documentation/arch/x86/boot.rst, "32-bit
    /// boot protocol": `__BOOT_CS` and `__BOOT_DS`).
    Linux,
    /// 8 and 10h, which multiboot kernels find though their specification names none: GRUB's.
    Multiboot,
}

impl Selectors {
    /// Code and data.
    const fn both(self) -> (u16, u16) {
        match self {
            Self::Linux => (0x10, 0x18),
            Self::Multiboot => (8, 0x10),
        }
    }
}

/// The TSS behind the segments.
const BOOT_TR: u16 = 0x20;

const CODE32: u16 = 0xC09B; // G, D, present, execute/read, accessed
const CODE64: u16 = 0xA09B; // G, L, present, execute/read, accessed
const DATA: u16 = 0xC093; // G, B, present, read/write, accessed
const TSS_BUSY: u16 = 0x008B; // present, busy 32/64-bit TSS
const REAL_CODE: u16 = 0x009B;
const REAL_DATA: u16 = 0x0093;
const LDT: u16 = 0x0082;
const TSS_LIMIT: u32 = 0x67;

impl Entry {
    /// Real mode at `address`, which is below 1 MiB: CS = address / 16, IP = address modulo 16,
    /// data segments zero, stack at 9000h:F000h, IDT at zero.
    pub fn real(address: u32) -> Self {
        let selector = (address >> 4) as u16;
        let segment = |selector: u16, attributes| Segment {
            selector,
            base: u64::from(selector) << 4,
            limit: 0xFFFF,
            attributes,
        };
        let stack_segment = ((layout::STACK_END - 1) >> 16 << 12) as u16;
        let mut gpr = [0; 16];
        gpr[RSP] = layout::STACK_END - (u64::from(stack_segment) << 4);
        Self {
            mode: Mode::Real,
            rip: u64::from(address & 0xF),
            rflags: 2,
            gpr,
            cs: segment(selector, REAL_CODE),
            data: segment(0, REAL_DATA),
            ss: segment(stack_segment, REAL_DATA),
            ldtr: Segment { limit: 0xFFFF, attributes: LDT, ..Segment::default() },
            tr: Segment { limit: 0xFFFF, attributes: TSS_BUSY, ..Segment::default() },
            gdtr: TableRegister { base: 0, limit: 0xFFFF },
            // AMD64 volume 2 section 14.1.5: the real-mode vector table.
            idtr: TableRegister { base: 0, limit: 0x3FF },
            cr0: CR0_ET,
            cr3: 0,
            cr4: 0,
            efer: 0,
        }
    }

    /// 32-bit protected mode at `eip` with flat segments; writes the GDT.
    ///
    /// # Errors
    /// If guest memory has no room for the GDT.
    pub fn protected32(memory: &GuestRam, eip: u32, selectors: Selectors) -> Result<Self> {
        write_gdt(memory, CODE32, selectors)?;
        Ok(Self::flat(Mode::Protected32, u64::from(eip), CODE32, selectors))
    }

    /// 64-bit mode at `rip` with flat segments; writes the GDT and page tables that map the first
    /// 4 GiB one to one.
    ///
    /// # Errors
    /// If guest memory has no room for the tables.
    pub fn long(memory: &GuestRam, rip: u64) -> Result<Self> {
        write_gdt(memory, CODE64, Selectors::Linux)?;
        write_page_tables(memory)?;
        let mut entry = Self::flat(Mode::Long, rip, CODE64, Selectors::Linux);
        entry.cr0 |= CR0_PG;
        entry.cr3 = layout::PAGE_TABLES;
        entry.cr4 = CR4_PAE;
        entry.efer = EFER_LME | EFER_LMA;
        Ok(entry)
    }

    fn flat(mode: Mode, rip: u64, code: u16, selectors: Selectors) -> Self {
        let (code_selector, data_selector) = selectors.both();
        let mut gpr = [0; 16];
        gpr[RSP] = layout::STACK_END;
        let segment =
            |selector, attributes| Segment { selector, base: 0, limit: 0xFFFF_FFFF, attributes };
        Self {
            mode,
            rip,
            rflags: 2,
            gpr,
            cs: segment(code_selector, code),
            data: segment(data_selector, DATA),
            ss: segment(data_selector, DATA),
            ldtr: Segment { limit: 0xFFFF, attributes: LDT, ..Segment::default() },
            tr: Segment { selector: BOOT_TR, base: 0, limit: TSS_LIMIT, attributes: TSS_BUSY },
            gdtr: TableRegister { base: layout::GDT, limit: layout::GDT_SIZE as u16 - 1 },
            // No handler is there: an exception before the payload's own LIDT shuts down.
            idtr: TableRegister { base: 0, limit: 0 },
            cr0: CR0_PE | CR0_ET,
            cr3: 0,
            cr4: 0,
            efer: 0,
        }
    }
}

fn descriptor(attributes: u16, limit: u32) -> u64 {
    let limit = if attributes & 0x8000 != 0 { limit >> 12 } else { limit };
    u64::from(limit & 0xFFFF)
        | u64::from(attributes) << 40
        | u64::from(limit & 0xF_0000) << (48 - 16)
}

fn write_gdt(memory: &GuestRam, code: u16, selectors: Selectors) -> Result<()> {
    let (code_selector, data_selector) = selectors.both();
    // The last is the upper half of the TSS descriptor in long mode.
    let mut table = [0; layout::GDT_SIZE as usize / 8];
    let mut put = |selector: u16, descriptor| table[usize::from(selector) / 8] = descriptor;
    put(code_selector, descriptor(code, 0xFFFF_FFFF));
    put(data_selector, descriptor(DATA, 0xFFFF_FFFF));
    put(BOOT_TR, descriptor(TSS_BUSY, TSS_LIMIT));
    write(memory, layout::GDT, &table.map(u64::to_le_bytes).concat(), "GDT")
}

fn write_page_tables(memory: &GuestRam) -> Result<()> {
    const PRESENT_WRITABLE: u64 = 3;
    const LARGE: u64 = 1 << 7;
    let pdpt = layout::PAGE_TABLES + 0x1000;
    let directories = layout::PAGE_TABLES + 0x2000;
    let mut table = vec![0u64; 6 * 512];
    table[0] = pdpt | PRESENT_WRITABLE;
    for gib in 0..4 {
        table[512 + gib] = (directories + 0x1000 * gib as u64) | PRESENT_WRITABLE;
    }
    for page in 0..4 * 512 {
        table[1024 + page] = (page as u64) << 21 | LARGE | PRESENT_WRITABLE;
    }
    let bytes: Vec<u8> = table.iter().flat_map(|e| e.to_le_bytes()).collect();
    write(memory, layout::PAGE_TABLES, &bytes, "page tables")
}

/// Writes `bytes` at `address`.
///
/// # Errors
/// If the range is not all RAM; `what` names it.
pub fn write(memory: &GuestRam, address: u64, bytes: &[u8], what: &str) -> Result<()> {
    memory.write_slice(bytes, GuestAddress(address)).map_err(|_| BootError::DoesNotFit {
        what: what.into(),
        size: bytes.len() as u64,
        place: format!("guest memory at {address:#x}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ram() -> GuestRam {
        GuestRam::from_ranges(&[(GuestAddress(0), 2 << 20)]).unwrap()
    }

    fn quad(memory: &GuestRam, address: u64) -> u64 {
        memory.read_obj(GuestAddress(address)).unwrap()
    }

    /// AMD64 volume 2 section 4.7: flat descriptors, byte by byte.
    #[test]
    fn flat_descriptors() {
        let memory = ram();
        for (selectors, code) in [(Selectors::Linux, 0x10), (Selectors::Multiboot, 8)] {
            let entry = Entry::protected32(&memory, 0x10_0000, selectors).unwrap();
            let found = (entry.cs.selector, entry.data.selector, entry.ss.selector);
            assert_eq!(found, (code, code + 8, code + 8));
            let at = |selector: u16| quad(&memory, 0x500 + u64::from(selector));
            assert_eq!(at(code), 0x00CF_9B00_0000_FFFF);
            assert_eq!(at(code + 8), 0x00CF_9300_0000_FFFF);
            assert_eq!((at(0), at(0x20)), (0, 0x0000_8B00_0000_0067));
        }
        Entry::long(&memory, 0x10_0200).unwrap();
        assert_eq!(quad(&memory, 0x510), 0x00AF_9B00_0000_FFFF);
    }

    /// AMD64 volume 2 section 5.3: PML4E -> PDPTE -> 2 MiB PDE, one to one.
    #[test]
    fn the_page_tables_map_four_gib_one_to_one() {
        let memory = ram();
        let entry = Entry::long(&memory, 0).unwrap();
        assert_eq!((entry.cr0, entry.cr4, entry.efer), (0x8000_0011, 0x20, 0x500));
        for linear in [0u64, 0x1F_FFFF, 0x20_0000, 0x1234_5678, 0xFEE0_0020, 0xFFFF_FFFF] {
            let pml4e = quad(&memory, entry.cr3 + 8 * (linear >> 39));
            let pdpte = quad(&memory, (pml4e & !0xFFF) + 8 * (linear >> 30 & 511));
            let pde = quad(&memory, (pdpte & !0xFFF) + 8 * (linear >> 21 & 511));
            assert_eq!((pml4e & 0xFFF, pdpte & 0xFFF, pde & 0xFFF), (3, 3, 0x83));
            assert_eq!((pde & !0x1F_FFFF) + (linear & 0x1F_FFFF), linear);
        }
        // 4 GiB and beyond are not mapped.
        let pml4e = quad(&memory, entry.cr3);
        assert_eq!(quad(&memory, (pml4e & !0xFFF) + 8 * 4), 0);
    }

    #[test]
    fn real_mode_splits_the_address() {
        let entry = Entry::real(0x7C05);
        assert_eq!((entry.cs.selector, entry.cs.base, entry.rip), (0x7C0, 0x7C00, 5));
        assert_eq!(entry.cs.base + entry.rip, 0x7C05);
        assert_eq!((entry.ss.selector, entry.gpr[RSP]), (0x9000, 0xF000));
        assert_eq!(entry.cr0 & 1, 0);
    }
}
