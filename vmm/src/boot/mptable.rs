//! The MP configuration table, for kernels that know no ACPI.
//!
//! Source: Intel MultiProcessor Specification 1.4, chapter 4.

use super::entry;
use super::error::Result;
use super::layout;
use super::memory::GuestRam;
use crate::platform::Platform;

// Entry types, table 4-3.
const PROCESSOR: u8 = 0;
const BUS: u8 = 1;
const IO_APIC: u8 = 2;
const IO_INTERRUPT: u8 = 3;
const LOCAL_INTERRUPT: u8 = 4;

// Interrupt types, table 4-11.
const INT: u8 = 0;
const NMI: u8 = 1;
const EXT_INT: u8 = 3;

const ISA_BUS: u8 = 0;
const CONFORMS: u16 = 0;
const ACTIVE_HIGH_LEVEL: u16 = 0b11_01;
const ALL_LOCAL_APICS: u8 = 0xFF;
const LOCAL_APIC_VERSION: u8 = 0x10;
const IO_APIC_VERSION: u8 = 0x11;

/// Writes the floating pointer and the configuration table for `cpus` processors.
///
/// # Errors
/// If guest memory does not reach that far.
pub fn write(memory: &GuestRam, platform: &Platform, cpus: u8) -> Result<()> {
    entry::write(memory, layout::MP_TABLE, &table(platform, cpus), "MP table")?;
    entry::write(memory, layout::MP_POINTER, &pointer(), "MP floating pointer")
}

/// Floating pointer structure, section 4.1.
fn pointer() -> Vec<u8> {
    let mut bytes = b"_MP_".to_vec();
    bytes.extend((layout::MP_TABLE as u32).to_le_bytes());
    bytes.extend([1, 4, 0]); // 16 bytes, version 1.4, checksum
    bytes.extend([0; 5]); // configuration table present, no IMCR
    set_checksum(&mut bytes, 10);
    bytes
}

fn table(platform: &Platform, cpus: u8) -> Vec<u8> {
    let (signature, features) = platform.signature();
    let io_apic = layout::io_apic_id(cpus);
    let mut entries: Vec<Vec<u8>> = Vec::new();
    for cpu in 0..cpus {
        let boot = if cpu == 0 { 2 } else { 0 };
        let mut row = vec![PROCESSOR, cpu, LOCAL_APIC_VERSION, 1 | boot];
        row.extend(signature.to_le_bytes());
        row.extend(features.to_le_bytes());
        row.extend([0; 8]);
        entries.push(row);
    }
    entries.push([&[BUS, ISA_BUS], &b"ISA   "[..]].concat());
    let mut row = vec![IO_APIC, io_apic, IO_APIC_VERSION, 1];
    row.extend(layout::IO_APIC.to_le_bytes());
    entries.push(row);
    // ISA interrupt 2 is the cascade of the 8259 pair; its pin carries the timer.
    for irq in (0..16).filter(|irq| *irq != 2) {
        let pin = if irq == 0 { layout::TIMER_PIN } else { irq };
        let flags = if irq == layout::SCI_IRQ { ACTIVE_HIGH_LEVEL } else { CONFORMS };
        entries.push(interrupt(IO_INTERRUPT, INT, flags, irq, io_apic, pin));
    }
    entries.push(interrupt(LOCAL_INTERRUPT, EXT_INT, CONFORMS, 0, 0, 0));
    entries.push(interrupt(LOCAL_INTERRUPT, NMI, CONFORMS, 0, ALL_LOCAL_APICS, 1));

    let body = entries.concat();
    let mut bytes = b"PCMP".to_vec();
    bytes.extend((44 + body.len() as u16).to_le_bytes());
    bytes.extend([4, 0]); // version 1.4, checksum
    bytes.extend(b"VPMU    ");
    bytes.extend(b"VPMUPC      ");
    bytes.extend([0; 6]); // no OEM table
    bytes.extend((entries.len() as u16).to_le_bytes());
    bytes.extend(layout::LOCAL_APIC.to_le_bytes());
    bytes.extend([0; 4]); // no extended entries
    bytes.extend(body);
    set_checksum(&mut bytes, 7);
    bytes
}

/// I/O or local interrupt assignment, sections 4.3.4 and 4.3.5.
fn interrupt(entry: u8, kind: u8, flags: u16, irq: u8, apic: u8, pin: u8) -> Vec<u8> {
    let [low, high] = flags.to_le_bytes();
    vec![entry, kind, low, high, ISA_BUS, irq, apic, pin]
}

fn set_checksum(bytes: &mut [u8], at: usize) {
    bytes[at] = bytes.iter().fold(0u8, |sum, b| sum.wrapping_sub(*b));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::platform::K8;

    fn sum(bytes: &[u8]) -> u8 {
        bytes.iter().fold(0, |s, b| s.wrapping_add(*b))
    }

    #[test]
    fn the_pointer_leads_to_the_table() {
        let pointer = pointer();
        assert_eq!((pointer.len(), sum(&pointer)), (16, 0));
        assert_eq!(pointer[..10], *b"_MP_\x00\x40\x0F\x00\x01\x04");
    }

    /// Header of section 4.2, then 20 bytes a processor and 8 for every other entry.
    #[test]
    fn the_table_of_two_processors() {
        let table = table(&K8, 2);
        assert_eq!(sum(&table), 0);
        assert_eq!(&table[..4], b"PCMP");
        // 2 processors, bus, I/O APIC, 15 + 2 interrupts.
        assert_eq!(u16::from_le_bytes([table[34], table[35]]), 21);
        assert_eq!(table.len(), 44 + 2 * 20 + 19 * 8);
        assert_eq!(u16::from_le_bytes([table[4], table[5]]), table.len() as u16);
        assert_eq!(table[36..40], [0, 0, 0xE0, 0xFE]);
        // Boot processor: type, APIC 0, version, enabled + BSP, signature 00020F51h.
        assert_eq!(table[44..52], [0, 0, 0x10, 3, 0x51, 0x0F, 0x02, 0x00]);
        assert_eq!(table[64..68], [0, 1, 0x10, 1]);
        assert_eq!(&table[84..92], b"\x01\x00ISA   ");
        assert_eq!(table[92..100], [2, 2, 0x11, 1, 0, 0, 0xC0, 0xFE]);
        assert_eq!(table[100..108], [3, 0, 0, 0, 0, 0, 2, 2]); // timer on pin 2
        assert_eq!(table[108..116], [3, 0, 0, 0, 0, 1, 2, 1]);
        // Interrupts 0, 1, 3, 4, 5, 6, 7, 8 come before the SCI.
        assert_eq!(table[164..172], [3, 0, 0x0D, 0, 0, 9, 2, 9]);
        assert_eq!(table[220..228], [4, 3, 0, 0, 0, 0, 0, 0]);
        assert_eq!(table[228..236], [4, 1, 0, 0, 0, 0, 0xFF, 1]);
    }

    /// Length and count of entries are words of their own; the I/O APIC follows the last processor.
    #[test]
    fn the_table_of_as_many_as_there_can_be() {
        let table = table(&K8, 254);
        assert_eq!(sum(&table), 0);
        assert_eq!(table.len(), 44 + 254 * 20 + 19 * 8);
        assert!(table.len() as u64 <= layout::MP_TABLE_SIZE);
        assert_eq!(table[4..6], (table.len() as u16).to_le_bytes());
        assert_eq!(table[34..36], [273_u16 as u8, (273_u16 >> 8) as u8]);
        let last = 44 + 253 * 20;
        assert_eq!(table[last..last + 4], [0, 253, 0x10, 1]);
        assert_eq!(table[last + 28..last + 32], [2, 254, 0x11, 1]);
        assert_eq!(table[last + 36..last + 44], [3, 0, 0, 0, 0, 0, 254, 2]);
    }
}
