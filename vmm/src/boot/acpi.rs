//! ACPI tables: RSDP, RSDT, XSDT, FADT, FACS, DSDT and MADT.
//!
//! Source: ACPI specification 6.5, chapter 5; section numbers below are of that edition.

use acpi_tables::aml::{
    Device, EISAName, IO, Interrupt, Name, Package, Path, ResourceTemplate, Scope,
};
use acpi_tables::facs::FACS;
use acpi_tables::fadt::{FADTBuilder, Flags};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use acpi_tables::sdt::Sdt;
use acpi_tables::{Aml, AmlSink};

use super::entry;
use super::error::{BootError, Result};
use super::layout;
use super::memory::GuestRam;

const OEM: [u8; 6] = *b"VPMU  ";
const OEM_TABLE: [u8; 8] = *b"VPMUPC  ";
const OEM_REVISION: u32 = 1;
const SDT_HEADER: u32 = 36;

// IA-PC boot architecture flags, table 5.10. The i8042 bit stays clear: port 64h resets the
// machine, but there is no keyboard to find.
const LEGACY_DEVICES: u16 = 1 << 0;
const VGA_NOT_PRESENT: u16 = 1 << 2;
const MSI_NOT_SUPPORTED: u16 = 1 << 3;
const NO_PCIE_ASPM: u16 = 1 << 4;

// MPS INTI flags, table 5.25.
const ACTIVE_HIGH_LEVEL: u16 = 0b11_01;
const CONFORMS: u16 = 0;

/// Writes all tables for `cpus` processors.
///
/// # Errors
/// If they do not fit into their range.
pub fn write(memory: &GuestRam, cpus: u8) -> Result<()> {
    let tables = tables(cpus);
    entry::write(memory, layout::ACPI_TABLES, &tables.body, "ACPI tables")?;
    entry::write(memory, layout::RSDP, &tables.rsdp, "ACPI RSDP")?;
    if tables.body.len() as u64 > layout::ACPI_TABLES_SIZE {
        return Err(BootError::DoesNotFit {
            what: "ACPI tables".into(),
            size: tables.body.len() as u64,
            place: "their 64 KiB".into(),
        });
    }
    Ok(())
}

struct Tables {
    /// For [`layout::RSDP`].
    rsdp: Vec<u8>,
    /// For [`layout::ACPI_TABLES`].
    body: Vec<u8>,
}

fn tables(cpus: u8) -> Tables {
    let mut body = Vec::new();
    let facs = append(&mut body, &FACS::new());
    let dsdt = append(&mut body, &dsdt(cpus));
    let fadt = append(&mut body, &fadt(facs, dsdt));
    let madt = append(&mut body, &madt(cpus));
    let mut rsdt = sdt(*b"RSDT", 1);
    let mut xsdt = sdt(*b"XSDT", 1);
    for address in [fadt, madt] {
        rsdt.append_slice(&address.to_le_bytes());
        xsdt.append_slice(&u64::from(address).to_le_bytes());
    }
    let rsdt = append(&mut body, &rsdt);
    let xsdt = append(&mut body, &xsdt);
    Tables { rsdp: rsdp(rsdt, xsdt), body }
}

/// Appends a table on a 64-byte boundary, which the FACS needs, and returns its physical address.
fn append(body: &mut Vec<u8>, table: &dyn Aml) -> u32 {
    body.resize(body.len().next_multiple_of(64), 0);
    let address = layout::ACPI_TABLES as u32 + body.len() as u32;
    table.to_aml_bytes(body);
    address
}

fn sdt(signature: [u8; 4], revision: u8) -> Sdt {
    Sdt::new(signature, SDT_HEADER, revision, OEM, OEM_TABLE, OEM_REVISION)
}

/// Root system description pointer, section 5.2.5.3.
fn rsdp(rsdt: u32, xsdt: u32) -> Vec<u8> {
    let mut table = Vec::with_capacity(36);
    table.vec(b"RSD PTR \0");
    table.vec(&OEM);
    table.byte(2);
    table.dword(rsdt);
    table.dword(36);
    table.qword(u64::from(xsdt));
    table.dword(0);
    table[8] = checksum(&table[..20]);
    table[32] = checksum(&table);
    table
}

fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0u8, |sum, b| sum.wrapping_sub(*b))
}

/// Fixed ACPI description table, section 5.2.9.
fn fadt(facs: u32, dsdt: u32) -> impl Aml {
    let mut table = FADTBuilder::new(OEM, OEM_TABLE, OEM_REVISION)
        .firmware_ctrl_32(facs)
        .flag(Flags::Wbinvd)
        .flag(Flags::ProcC1)
        .flag(Flags::PwrButton)
        .flag(Flags::SlpButton)
        .flag(Flags::FixRtc)
        .flag(Flags::TmrValExt)
        .flag(Flags::ResetRegSup);
    table.dsdt = dsdt.into();
    table.x_dsdt = u64::from(dsdt).into();
    table.sci_int = u16::from(layout::SCI_IRQ).into();
    table.smi_cmd = u32::from(layout::SMI_COMMAND_PORT).into();
    table.acpi_enable = layout::ACPI_ENABLE;
    table.acpi_disable = layout::ACPI_DISABLE;
    table.pm1a_evt_blk = u32::from(layout::PM1A_EVENT_PORT).into();
    table.pm1a_cnt_blk = u32::from(layout::PM1A_CONTROL_PORT).into();
    table.pm_tmr_blk = u32::from(layout::PM_TIMER_PORT).into();
    table.pm1_evt_len = 4;
    table.pm1_cnt_len = 2;
    table.pm_tmr_len = 4;
    table.x_pm1a_evt_blk = port(layout::PM1A_EVENT_PORT, 32, AccessSize::WordAccess);
    table.x_pm1a_cnt_blk = port(layout::PM1A_CONTROL_PORT, 16, AccessSize::WordAccess);
    table.x_pm_tmr_blk = port(layout::PM_TIMER_PORT, 32, AccessSize::DwordAccess);
    // Latencies above these limits say that there are no C2 and C3.
    table.p_lvl2_lat = 101.into();
    table.p_lvl3_lat = 1001.into();
    // NVRAM offset of the century, where PC firmware keeps it.
    table.century = 0x32;
    table.iapc_boot_arch =
        (LEGACY_DEVICES | VGA_NOT_PRESENT | MSI_NOT_SUPPORTED | NO_PCIE_ASPM).into();
    table.reset_reg = port(layout::RESET_PORT, 8, AccessSize::ByteAccess);
    table.reset_value = layout::RESET_VALUE;
    table.finalize()
}

fn port(address: u16, bits: u8, access: AccessSize) -> GAS {
    GAS::new(AddressSpace::SystemIo, bits, 0, access, u64::from(address))
}

/// Differentiated system description table: soft off, the processors, the console and the clock.
fn dsdt(cpus: u8) -> impl Aml {
    let mut table = sdt(*b"DSDT", 2);
    let sleep = layout::S5_SLEEP_TYPE;
    let zero = 0u8;
    Name::new("_S5_".into(), &Package::new(vec![&sleep, &sleep, &zero, &zero]))
        .to_aml_bytes(&mut table);
    for cpu in 0..cpus {
        let path: Path = format!("_SB_.CP{cpu:02X}").as_str().into();
        Device::new(
            path,
            vec![&Name::new("_HID".into(), &"ACPI0007"), &Name::new("_UID".into(), &cpu)],
        )
        .to_aml_bytes(&mut table);
    }
    let irq = |number: u8| Interrupt::new(true, true, false, false, u32::from(number));
    Scope::new(
        "_SB_".into(),
        vec![
            &Device::new(
                "COM1".into(),
                vec![
                    &Name::new("_HID".into(), &EISAName::new("PNP0501")),
                    &Name::new("_UID".into(), &1u8),
                    &Name::new(
                        "_CRS".into(),
                        &ResourceTemplate::new(vec![
                            &IO::new(layout::COM1_PORT, layout::COM1_PORT, 1, 8),
                            &irq(layout::COM1_IRQ),
                        ]),
                    ),
                ],
            ),
            &Device::new(
                "RTC_".into(),
                vec![
                    &Name::new("_HID".into(), &EISAName::new("PNP0B00")),
                    &Name::new(
                        "_CRS".into(),
                        &ResourceTemplate::new(vec![
                            &IO::new(layout::RTC_PORT, layout::RTC_PORT, 1, 2),
                            &irq(layout::RTC_IRQ),
                        ]),
                    ),
                ],
            ),
        ],
    )
    .to_aml_bytes(&mut table);
    // Single bytes went in through the sink, which leaves the checksum to the end.
    table.update_checksum();
    table
}

/// Multiple APIC description table, section 5.2.12.
fn madt(cpus: u8) -> impl Aml {
    const PCAT_COMPAT: u32 = 1;
    let mut table = sdt(*b"APIC", 4);
    let mut rows = Vec::new();
    rows.dword(layout::LOCAL_APIC);
    rows.dword(PCAT_COMPAT);
    for cpu in 0..cpus {
        rows.vec(&[0, 8, cpu, cpu]); // processor local APIC
        rows.dword(1);
    }
    rows.vec(&[1, 12, layout::io_apic_id(cpus), 0]); // I/O APIC, global interrupts from 0
    rows.dword(layout::IO_APIC);
    rows.dword(0);
    for (irq, pin, flags) in
        [(0, layout::TIMER_PIN, CONFORMS), (layout::SCI_IRQ, layout::SCI_IRQ, ACTIVE_HIGH_LEVEL)]
    {
        rows.vec(&[2, 10, 0, irq]); // interrupt source override, bus 0 = ISA
        rows.dword(u32::from(pin));
        rows.word(flags);
    }
    rows.vec(&[4, 6, 0xFF]); // local APIC NMI: LINT1 of all processors
    rows.word(CONFORMS);
    rows.byte(1);
    table.append_slice(&rows);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm_memory::{Bytes, GuestAddress};

    struct Loaded(GuestRam);

    impl Loaded {
        fn new(cpus: u8) -> Self {
            let memory = GuestRam::from_ranges(&[(GuestAddress(0), 2 << 20)]).unwrap();
            write(&memory, cpus).unwrap();
            Self(memory)
        }
        fn byte(&self, at: u32) -> u8 {
            self.0.read_obj(GuestAddress(at.into())).unwrap()
        }
        fn word(&self, at: u32) -> u16 {
            self.0.read_obj(GuestAddress(at.into())).unwrap()
        }
        fn dword(&self, at: u32) -> u32 {
            self.0.read_obj(GuestAddress(at.into())).unwrap()
        }
        fn bytes(&self, at: u32, size: u32) -> Vec<u8> {
            (at..at + size).map(|a| self.byte(a)).collect()
        }
        /// A table of the XSDT, its sum checked (section 5.2.6).
        fn table(&self, signature: &[u8; 4]) -> u32 {
            let xsdt = self.dword(0xF_0000 + 24);
            assert_eq!(self.sum(xsdt, self.dword(xsdt + 4)), 0);
            let count = (self.dword(xsdt + 4) - 36) / 8;
            (0..count)
                .map(|i| self.dword(xsdt + 36 + 8 * i))
                .find(|at| self.bytes(*at, 4) == signature)
                .inspect(|at| assert_eq!(self.sum(*at, self.dword(at + 4)), 0))
                .unwrap()
        }
        fn sum(&self, at: u32, size: u32) -> u8 {
            self.bytes(at, size).iter().fold(0, |s, b| s.wrapping_add(*b))
        }
    }

    #[test]
    fn the_root_pointers_agree() {
        let acpi = Loaded::new(4);
        assert_eq!(acpi.bytes(0xF_0000, 8), b"RSD PTR ");
        assert_eq!((acpi.sum(0xF_0000, 20), acpi.sum(0xF_0000, 36)), (0, 0));
        assert_eq!(acpi.byte(0xF_000F), 2); // revision
        let (rsdt, xsdt) = (acpi.dword(0xF_0010), acpi.dword(0xF_0018));
        assert_eq!(acpi.bytes(rsdt, 4), b"RSDT");
        assert_eq!(acpi.bytes(xsdt, 4), b"XSDT");
        assert_eq!(acpi.sum(rsdt, acpi.dword(rsdt + 4)), 0);
        for i in 0..2 {
            assert_eq!(acpi.dword(rsdt + 36 + 4 * i), acpi.dword(xsdt + 36 + 8 * i));
        }
    }

    /// Offsets of table 5.9.
    #[test]
    fn the_fixed_hardware() {
        let acpi = Loaded::new(1);
        let fadt = acpi.table(b"FACP");
        assert_eq!(acpi.dword(fadt + 4), 276);
        let facs = acpi.dword(fadt + 36);
        assert_eq!((acpi.bytes(facs, 4), facs % 64), (b"FACS".to_vec(), 0));
        let dsdt = acpi.dword(fadt + 40);
        assert_eq!((acpi.bytes(dsdt, 4), acpi.dword(fadt + 140)), (b"DSDT".to_vec(), dsdt));
        assert_eq!(acpi.sum(dsdt, acpi.dword(dsdt + 4)), 0);
        assert_eq!(acpi.word(fadt + 46), 9); // SCI_INT
        assert_eq!(acpi.dword(fadt + 48), 0xB2); // SMI_CMD
        assert_eq!(acpi.bytes(fadt + 52, 2), [0xF1, 0xF0]); // ACPI_ENABLE, ACPI_DISABLE
        assert_eq!(acpi.dword(fadt + 56), 0x600);
        assert_eq!(acpi.dword(fadt + 64), 0x604);
        assert_eq!(acpi.dword(fadt + 76), 0x608);
        assert_eq!(acpi.bytes(fadt + 88, 4), [4, 2, 0, 4]);
        assert_eq!(acpi.byte(fadt + 108), 0x32); // CENTURY
        assert_eq!(acpi.word(fadt + 109), 0b1_1101); // no i8042
        // WBINVD, PROC_C1, PWR_BUTTON, SLP_BUTTON, FIX_RTC, TMR_VAL_EXT, RESET_REG_SUP;
        // not HW_REDUCED_ACPI (bit 20).
        assert_eq!(acpi.dword(fadt + 112), 0x0575);
        // RESET_REG: I/O space, 8 bits, byte access, CF9h; RESET_VALUE.
        assert_eq!(acpi.bytes(fadt + 116, 13), [1, 8, 0, 1, 0xF9, 0x0C, 0, 0, 0, 0, 0, 0, 6]);
    }

    /// \_S5: NameOp, name, package of 4: byte 5, byte 5, 0, 0 (section 20.2.5).
    #[test]
    fn soft_off_is_sleep_type_5() {
        let acpi = Loaded::new(1);
        let dsdt = acpi.dword(acpi.table(b"FACP") + 40);
        let aml = acpi.bytes(dsdt + 36, acpi.dword(dsdt + 4) - 36);
        let s5 = aml.windows(6).position(|w| w == b"\x08_S5_\x12").unwrap();
        assert_eq!(aml[s5 + 7], 4);
        assert_eq!(aml[s5 + 8..s5 + 12], [0x0A, 5, 0x0A, 5]);
    }

    /// Section 5.2.12: rows in order.
    #[test]
    fn every_interrupt_controller_is_listed() {
        for cpus in [1u8, 2, 8, 244, 254] {
            let acpi = Loaded::new(cpus);
            let madt = acpi.table(b"APIC");
            assert_eq!(acpi.dword(madt + 36), 0xFEE0_0000);
            assert_eq!(acpi.dword(madt + 40), 1); // PCAT_COMPAT
            let mut at = madt + 44;
            for cpu in 0..cpus {
                assert_eq!(acpi.bytes(at, 8), [0, 8, cpu, cpu, 1, 0, 0, 0]);
                at += 8;
            }
            assert_eq!(acpi.bytes(at, 8), [1, 12, cpus, 0, 0, 0, 0xC0, 0xFE]);
            assert_eq!(acpi.bytes(at + 12, 10), [2, 10, 0, 0, 2, 0, 0, 0, 0, 0]);
            assert_eq!(acpi.bytes(at + 22, 10), [2, 10, 0, 9, 9, 0, 0, 0, 0x0D, 0]);
            assert_eq!(acpi.bytes(at + 32, 6), [4, 6, 0xFF, 0, 0, 1]);
            assert_eq!(acpi.dword(madt + 4), at + 38 - madt);
        }
    }
}
