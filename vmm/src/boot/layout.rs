//! The physical address map and the ports that firmware tables promise to the guest.
//!
//! | from | to | what |
//! |---|---|---|
//! | `0000_0400h` | `0000_04FFh` | BIOS data area: COM1 port, EBDA segment, memory size |
//! | `0000_0500h` | `0000_052Fh` | GDT of the boot protocols |
//! | `0000_6000h` | `0000_6FFFh` | PVH start information |
//! | `0000_7000h` | `0000_7FFFh` | Linux zero page (`struct boot_params`) |
//! | `0000_9000h` | `0000_EFFFh` | page tables of the 64-bit entries: the first 4 GiB, one to one |
//! | `0001_0000h` | `0001_FFFFh` | multiboot information, unless a kernel lies there: then the next 64 KiB |
//! | `0002_0000h` | `0002_FFFFh` | command line |
//! | `0009_E000h` | `0009_EFFFh` | stack on entry |
//! | `0009_FC00h` | `0009_FFFFh` | EBDA |
//! | `000E_0000h` | `000E_FFFFh` | ACPI tables |
//! | `000F_0000h` | `000F_0FFFh` | RSDP and MP floating pointer |
//! | `000F_1000h` | `000F_3FFFh` | the boot ROM's copy, handover block, variables and stacks |
//! | `000F_4000h` | `000F_5FFFh` | MP configuration table |
//! | `0010_0000h` | end of low RAM | payload; the initrd at the top |
//! | `C000_0000h` | `FFFF_FFFFh` | hole for I/O APIC, local APIC and ROM |
//! | `FFFF_F000h` | `FFFF_FFFFh` | the boot ROM, if that starts the payload |
//! | `1_0000_0000h` | | the rest of RAM |

use std::ops::Range;

/// End of conventional memory: 639 KiB, as the BIOS data area says it.
pub const LOW_RAM_END: u64 = 0x9_FC00;
/// Extended BIOS data area, 1 KiB below 640 KiB.
pub const EBDA: u64 = 0x9_FC00;
/// First byte of the range that firmware keeps for its tables.
pub const FIRMWARE: u64 = 0xE_0000;
/// Start of extended memory.
pub const HIGH_RAM: u64 = 0x10_0000;
/// Start of the hole below 4 GiB: low RAM never reaches beyond.
pub const HOLE: u64 = 0xC000_0000;
/// End of the hole; RAM that the hole displaced continues here.
pub const HOLE_END: u64 = 0x1_0000_0000;

/// BIOS data area: word with the I/O port of COM1.
pub const BDA_COM1: u64 = 0x400;
/// BIOS data area: word with the segment of the EBDA.
pub const BDA_EBDA_SEGMENT: u64 = 0x40E;
/// BIOS data area: word with the size of conventional memory in KiB.
pub const BDA_MEMORY_KIB: u64 = 0x413;

/// GDT of the boot protocols.
pub const GDT: u64 = 0x500;
/// Its size in bytes.
pub const GDT_SIZE: u64 = 0x30;
/// PVH `hvm_start_info`; its module list and memory map follow in the same page.
pub const PVH_START_INFO: u64 = 0x6000;
/// Linux `boot_params`.
pub const ZERO_PAGE: u64 = 0x7000;
/// Top-level page table of the 64-bit entries, followed by one page-directory-pointer table and
/// four page directories.
pub const PAGE_TABLES: u64 = 0x9000;
/// Bytes for these tables.
pub const PAGE_TABLES_SIZE: u64 = 0x6000;
/// Multiboot information structure, where no kernel lies there; module list, memory map and strings
/// follow.
pub const MULTIBOOT_INFO: u64 = 0x1_0000;
/// Bytes available for multiboot information.
pub const MULTIBOOT_INFO_SIZE: u64 = 0x1_0000;
/// Command line of every boot protocol.
pub const COMMAND_LINE: u64 = 0x2_0000;
/// Bytes available for the command line, with its NUL.
pub const COMMAND_LINE_SIZE: u64 = 0x1_0000;
/// End of the stack with which a payload begins.
pub const STACK_END: u64 = 0x9_F000;
/// Its size in bytes.
pub const STACK_SIZE: u64 = 0x1000;

/// A range below 1 MiB in which the payload finds something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What, for messages.
    pub what: &'static str,
    /// First byte.
    pub start: u64,
    /// Length in bytes.
    pub size: u64,
}

impl Taken {
    /// Whether a byte of `range` is in it.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.start < range.end && range.start < self.start + self.size
    }
}

/// What is in low memory for every protocol that loads to where a file says.
pub const TAKEN: [Taken; 3] = [
    Taken { what: "BIOS data area", start: 0x400, size: 0x100 },
    Taken { what: "GDT on entry", start: GDT, size: GDT_SIZE },
    Taken { what: "stack on entry", start: STACK_END - STACK_SIZE, size: STACK_SIZE },
];

/// ACPI tables other than the RSDP.
pub const ACPI_TABLES: u64 = 0xE_0000;
/// Bytes available for ACPI tables.
pub const ACPI_TABLES_SIZE: u64 = 0x1_0000;
/// ACPI root pointer; 16-byte aligned inside E0000h-FFFFFh, where ACPI 2.0 section 5.2.5.1 looks.
pub const RSDP: u64 = 0xF_0000;
/// MP floating pointer; 16-byte aligned inside F0000h-FFFFFh (MP specification 1.4 section 4.1).
pub const MP_POINTER: u64 = 0xF_0040;
/// MP configuration table.
pub const MP_TABLE: u64 = 0xF_4000;
/// Bytes available for the MP configuration table: 20 for each processor, less than 300 for all else.
pub const MP_TABLE_SIZE: u64 = 0x2000;

/// I/O APIC, one page.
pub const IO_APIC: u32 = 0xFEC0_0000;
/// Local APICs, one page, at the reset value of `APIC_BASE`.
pub const LOCAL_APIC: u32 = 0xFEE0_0000;

/// PM1a event block: status and enable word.
pub const PM1A_EVENT_PORT: u16 = 0x600;
/// PM1a control word.
pub const PM1A_CONTROL_PORT: u16 = 0x604;
/// SMI command port.
pub const SMI_COMMAND_PORT: u16 = 0xB2;
/// Value that sets `SCI_EN` when written to [`SMI_COMMAND_PORT`].
pub const ACPI_ENABLE: u8 = 0xF1;
/// Value that clears `SCI_EN` when written to [`SMI_COMMAND_PORT`].
pub const ACPI_DISABLE: u8 = 0xF0;
/// Power-management timer, 32 bits wide, 3.579545 MHz.
pub const PM_TIMER_PORT: u16 = 0x608;
/// Reset control register.
pub const RESET_PORT: u16 = 0xCF9;
/// Value that resets the machine when written to [`RESET_PORT`].
pub const RESET_VALUE: u8 = 6;
/// `SLP_TYP` of S5, soft off.
pub const S5_SLEEP_TYPE: u8 = 5;
/// ISA interrupt of the system control interrupt.
pub const SCI_IRQ: u8 = 9;
/// I/O APIC pin of the timer; ISA interrupt 0 is wired there and not to pin 0.
pub const TIMER_PIN: u8 = 2;
/// First console port.
pub const COM1_PORT: u16 = 0x3F8;
/// ISA interrupt of the first console.
pub const COM1_IRQ: u8 = 4;
/// First port of the real-time clock.
pub const RTC_PORT: u16 = 0x70;
/// ISA interrupt of the real-time clock.
pub const RTC_IRQ: u8 = 8;

/// APIC identifier of the I/O APIC: the first one behind the processors'.
///
/// Where local APICs and I/O APIC share a bus, no two may have the same, and kernels of such processors
/// look for one that is free. Where they do not, it does not matter.
pub const fn io_apic_id(cpus: u8) -> u8 {
    cpus
}
