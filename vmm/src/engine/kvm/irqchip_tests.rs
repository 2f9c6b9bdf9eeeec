//! Controllers into this host's kernel and out of it, and what a PMI means there.

use kvm_ioctls::Kvm;

use super::*;
use crate::engine::kvm::state::tests::Random;
use crate::irq::lapic::LapicConfig;

const CLOCK_HZ: u64 = 1_000_000_000;
const VCPUS: u8 = 2;

/// A machine with its controllers in the kernel.
fn machine() -> (VmFd, Vec<VcpuFd>) {
    let vm = Kvm::new().and_then(|kvm| kvm.create_vm()).expect("this test needs /dev/kvm");
    vm.set_tss_address(0xFFFB_D000).unwrap();
    create(&vm).unwrap();
    let vcpus: Vec<_> = (0..u64::from(VCPUS)).map(|id| vm.create_vcpu(id).unwrap()).collect();
    for vcpu in &vcpus {
        set_activity(vcpu, Activity::Runs).unwrap();
    }
    (vm, vcpus)
}

fn controllers() -> Interrupts {
    let config = |id| LapicConfig {
        id,
        bsp: id == 0,
        version: LOCAL_APIC.version,
        max_lvt: LOCAL_APIC.max_lvt,
        base_msr: true,
        physical_bits: 36,
        lvtpc_auto_mask: false,
        clock_hz: CLOCK_HZ,
        timer_hz: LOCAL_APIC.timer_hz,
    };
    Interrupts::new(&(0..VCPUS).map(config).collect::<Vec<_>>())
}

/// What a guest could have done, in any order. Timers get counts that do not expire within a second.
fn random_controllers(random: &mut Random) -> Interrupts {
    let mut irq = controllers();
    let now = 0;
    for vcpu in 0..usize::from(VCPUS) {
        irq.lapic_write(vcpu, 0xF0, 0x1FF, now);
        let mode = random.next() as u32 & 0x2_00FF;
        irq.lapic_write(vcpu, 0x320, mode, now);
        irq.lapic_write(vcpu, 0x3E0, random.next() as u32, now);
        if random.next() >> 20 & 1 != 0 {
            irq.lapic_write(vcpu, 0x380, random.next() as u32 | 1 << 31, now);
        }
        // Thermal, performance, LINT0, LINT1, error; LDR, DFR, TPR.
        for offset in [0x330, 0x340, 0x350, 0x360, 0x370, 0xD0, 0xE0, 0x80] {
            irq.lapic_write(vcpu, offset, random.next() as u32, now);
        }
    }
    // The 8259A pair: initialised half of the time, with any mask, ELCR and OCW2 and OCW3.
    for chip in [crate::irq::pic::Chip::Master, crate::irq::pic::Chip::Slave] {
        if random.next() >> 20 & 1 != 0 {
            irq.pic_write(chip, false, 0x11);
            for _ in 0..random.next() >> 20 & 3 {
                irq.pic_write(chip, true, random.next() as u8);
            }
        }
        irq.pic_write(chip, true, random.next() as u8);
        irq.set_elcr(chip, random.next() as u8);
        irq.pic_write(chip, false, random.next() as u8 & 0xE7);
        irq.pic_write(chip, false, random.next() as u8 & 0xE3 | 8);
    }
    // The I/O APIC: to either processor by its identifier.
    for pin in 1..24 {
        let vector = 16 + (random.next() >> 20) as u32 % 240;
        let bits = random.next() as u32 & 0x1_A000;
        irq.ioapic_write(0, 0x11 + 2 * pin);
        irq.ioapic_write(0x10, (random.next() as u32 & 1) << 24);
        irq.ioapic_write(0, 0x10 + 2 * pin);
        irq.ioapic_write(0x10, vector | bits);
    }
    for _ in 0..8 {
        let vcpu = random.next() as usize >> 20 & 1;
        let vector = 32 + (random.next() >> 20) as u32 % 224;
        // To itself, and taken half of the time.
        irq.lapic_write(vcpu, 0x300, 1 << 18 | vector, now);
        if random.next() >> 20 & 1 != 0 && irq.pending(vcpu).interrupt {
            irq.acknowledge(vcpu);
        }
        let line = 1 + (random.next() >> 20) as u8 % 15;
        irq.set_gsi(line, random.next() >> 20 & 1 != 0);
    }
    for vcpu in 0..usize::from(VCPUS) {
        // NMIs are the owner's to move. A write to ESR has it say all errors.
        irq.take_nmi(vcpu);
        irq.lapic_write(vcpu, 0x280, 0, now);
    }
    irq
}

const CURRENT_COUNT: usize = 0x39;

/// The registers of the controllers, and the current counts apart.
fn registers(irq: &Interrupts) -> (Vec<LapicPage>, SharedRegisters, Vec<u32>, Vec<bool>) {
    let vcpus = 0..usize::from(VCPUS);
    let mut pages: Vec<_> = vcpus.clone().map(|n| irq.lapic(n).page_registers(0)).collect();
    let counts = pages.iter_mut().map(|page| std::mem::take(&mut page[CURRENT_COUNT])).collect();
    let pending = vcpus.map(|n| irq.pending(n).interrupt).collect();
    (pages, irq.clone().move_to_kernel(), counts, pending)
}

/// Moved there and back, every register is as it was; the timers have gone on.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn nothing_is_lost_on_the_way() {
    let (vm, mut vcpus) = machine();
    kick::prepare().unwrap();
    for vcpu in &mut vcpus {
        vcpu.set_sync_valid_reg(kvm_ioctls::SyncReg::SystemRegister);
        kick::take_signals_in_guest(vcpu).unwrap();
    }
    let mut irqchip = Irqchip::new(&vm);
    let mut random = Random(0x3141_5926_5358_9793);
    let (mut timers, mut levels, mut cascades) = (0, 0, 0);
    for n in 0..200 {
        let mut irq = random_controllers(&mut random);
        let before = registers(&irq);
        timers += before.2.iter().filter(|&&count| count != 0).count();
        levels += before.1.ioapic.levels.count_ones();
        cascades += u32::from(before.1.pic[0].irr & 4 != 0);

        let (shared, lines) = (irq.move_to_kernel(), irq.lines());
        for (id, vcpu) in vcpus.iter().enumerate() {
            set_lapic(vcpu, irq.lapic(id), 0).unwrap();
        }
        irqchip.give(&shared, lines).unwrap();

        // To controllers that are in another state; the lines are the devices'.
        let mut irq = random_controllers(&mut random);
        irq.move_to_kernel();
        (0..24).for_each(|line| irq.set_gsi(line, lines >> line & 1 != 0));
        irq.take_wires();
        for (id, vcpu) in vcpus.iter_mut().enumerate() {
            let (activity, page) = save_lapic(vcpu).unwrap();
            assert_eq!(activity, Activity::Runs, "state {n}");
            let base = vcpu.sync_regs().sregs.apic_base;
            assert_eq!(base, irq.lapic(id).base());
            irq.lapic_mut(id).set_page_registers(&page, base, 0);
        }
        irqchip.take(&mut irq).unwrap();
        let after = registers(&irq);
        assert_eq!(after.0, before.0, "state {n}");
        assert_eq!(after.1, before.1, "state {n}");
        assert_eq!(after.3, before.3, "state {n}");
        for (after, before) in after.2.iter().zip(&before.2) {
            // Two seconds at most.
            assert!(before - after < 2_000_000_000, "state {n}: {before:#x} to {after:#x}");
            assert_eq!(*after == 0, *before == 0, "state {n}");
        }
    }
    assert!(timers > 50 && levels > 200 && cascades > 20, "{timers}, {levels}, {cascades}");
}

/// A one-shot timer (SDM Vol. 3A, "APIC Timer") that expires while the processor is not in the guest
/// has its interrupt in IRR, once; one that has expired before does not expire again.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_timer_that_expires_on_the_way_is_seen_once() {
    const VECTOR: u32 = 0x41;
    const ONE_MILLISECOND: u32 = 1_000_000;
    let irr = |page: &LapicPage| page[0x20 + VECTOR as usize / 32] >> (VECTOR % 32) & 1;
    let (_vm, mut vcpus) = machine();
    kick::prepare().unwrap();
    let vcpu = &mut vcpus[0];
    vcpu.set_sync_valid_reg(kvm_ioctls::SyncReg::SystemRegister);
    kick::take_signals_in_guest(vcpu).unwrap();
    let mut irq = controllers();
    irq.lapic_write(0, 0xF0, 0x1FF, 0);
    irq.lapic_write(0, 0x320, VECTOR, 0);
    irq.lapic_write(0, 0x3E0, 0xB, 0); // divide by 1
    irq.lapic_write(0, 0x380, ONE_MILLISECOND, 0);
    set_lapic(vcpu, irq.lapic(0), 0).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(3));
    let (_, page) = save_lapic(vcpu).unwrap();
    assert_eq!(irr(&page), 1);

    let base = irq.lapic(0).base();
    irq.lapic_mut(0).set_page_registers(&page, base, 0);
    // Taken and ended.
    assert_eq!(u32::from(irq.acknowledge(0)), VECTOR);
    irq.lapic_write(0, 0xB0, 0, 0);
    assert_eq!(irq.lapic_read(0, 0x380, 0), ONE_MILLISECOND);
    set_lapic(vcpu, irq.lapic(0), 0).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(3));
    let (_, page) = save_lapic(vcpu).unwrap();
    assert_eq!(irr(&page), 0);
    irq.lapic_mut(0).set_page_registers(&page, base, 0);
    assert_eq!((irq.pending(0).interrupt, irq.next_deadline()), (false, None));
    assert_eq!(irq.lapic_read(0, 0x380, 0), ONE_MILLISECOND);
}

/// SDM Vol. 3A, "Local Vector Table": mask bit 16, delivery mode bits 10:8, vector bits 7:0; vectors
/// below 16 are illegal.
#[test]
fn lvtpc_says_what_a_pmi_is() {
    for (lvtpc, expected) in [
        (0x0001_0000, Pmi::Lost),
        (0x0001_0050, Pmi::Lost),
        (0x0001_0400, Pmi::Lost),
        (0x0000_0400, Pmi::Nmi),
        (0x0000_0402, Pmi::Nmi),
        (0x0000_0050, Pmi::Fixed(0x50)),
        (0x0000_0010, Pmi::Fixed(0x10)),
        (0x0000_00FF, Pmi::Fixed(0xFF)),
        (0x0000_000F, Pmi::Lost),
        // SMI, INIT, ExtINT, and the reserved lowest priority.
        (0x0000_0200, Pmi::Lost),
        (0x0000_0500, Pmi::Lost),
        (0x0000_0700, Pmi::Lost),
        (0x0000_0150, Pmi::Lost),
    ] {
        assert_eq!(route(lvtpc), expected, "{lvtpc:#x}");
    }
}

/// In the kernel: the vector is in IRR of this processor alone, or an NMI waits.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_pmi_reaches_its_processor() {
    let (vm, vcpus) = machine();
    let irqchip = Irqchip::new(&vm);
    let mut irq = controllers();
    for (id, vcpu) in vcpus.iter().enumerate() {
        irq.lapic_write(id, 0xF0, 0x1FF, 0);
        irq.lapic_write(id, 0x340, 0x50, 0);
        set_lapic(vcpu, irq.lapic(id), 0).unwrap();
    }
    irqchip.pmi(&vcpus[1]).unwrap();
    let irr = |id: usize| lapic_page(&vcpus[id]).unwrap()[0x22];
    assert_eq!((irr(0), irr(1)), (0, 1 << (0x50 - 0x40)));
    let nmi = |id: usize| vcpus[id].get_vcpu_events().unwrap().nmi.pending;
    assert_eq!((nmi(0), nmi(1)), (0, 0));

    irq.lapic_write(0, 0x340, 0x400, 0);
    set_lapic(&vcpus[0], irq.lapic(0), 0).unwrap();
    irqchip.pmi(&vcpus[0]).unwrap();
    assert_eq!((nmi(0), nmi(1)), (1, 0));

    irq.lapic_write(1, 0x340, 0x1_0060, 0);
    set_lapic(&vcpus[1], irq.lapic(1), 0).unwrap();
    irqchip.pmi(&vcpus[1]).unwrap();
    assert_eq!(lapic_page(&vcpus[1]).unwrap()[0x23], 0);
}

/// The interrupt source override of the PIT: IRQ0 of the 8259A, pin 2 of the I/O APIC. The other
/// lines of the ISA bus are the same on both; 16 to 23 are on the I/O APIC alone.
#[test]
fn lines_lead_where_the_firmware_tables_say() {
    let of = |line| {
        routes(line)
            .map(|entry| {
                // SAFETY: `routes` fills this member of the union.
                let to = unsafe { entry.u.irqchip };
                (to.irqchip, to.pin)
            })
            .collect::<Vec<_>>()
    };
    let (master, slave, ioapic) = (0, 1, 2);
    assert_eq!(of(0), []);
    assert_eq!(of(1), [(master, 1), (ioapic, 1)]);
    assert_eq!(of(2), [(master, 0), (ioapic, 2)]);
    assert_eq!(of(4), [(master, 4), (ioapic, 4)]);
    assert_eq!(of(8), [(slave, 0), (ioapic, 8)]);
    assert_eq!(of(12), [(slave, 4), (ioapic, 12)]);
    assert_eq!(of(16), [(ioapic, 16)]);
    assert_eq!(of(23), [(ioapic, 23)]);
}
