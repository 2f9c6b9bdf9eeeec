//! The software CPU's state in KVM's structures and back, over random states of every mode.

use x86_cpu::features::Features;
use x86_cpu::x87::Fpu;

use super::*;

/// Numbers without a pattern, the same in every run.
pub(in crate::engine::kvm) struct Random(pub(in crate::engine::kvm) u64);

impl Random {
    pub(in crate::engine::kvm) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bit(&mut self) -> bool {
        self.next() >> 40 & 1 != 0
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 20) % n
    }

    /// A canonical address with 48 bits (AMD64 APM volume 2, section 5.3.1).
    fn canonical(&mut self) -> u64 {
        ((self.next() << 16) as i64 >> 16) as u64
    }
}

/// All of the software CPU's state that an instruction could ever see.
#[derive(Debug, PartialEq)]
pub(in crate::engine::kvm) struct Snapshot {
    rip: u64,
    gprs: [u64; 16],
    rflags: u64,
    cpl: u8,
    segments: [Segment; 6],
    ldtr: Segment,
    tr: Segment,
    gdtr: DescriptorTable,
    idtr: DescriptorTable,
    control: [u64; 5],
    pdptes: [u64; 4],
    debug: DebugRegisters,
    msrs: CoreMsrs,
    fpu: Fpu,
    xmm: [u128; 16],
    mxcsr: u32,
    shadow: Shadow,
    nmi_blocked: bool,
}

pub(in crate::engine::kvm) fn snapshot(cpu: &Cpu) -> Snapshot {
    Snapshot {
        rip: cpu.rip,
        gprs: std::array::from_fn(|n| cpu.gpr(n as u8)),
        rflags: cpu.rflags(),
        cpl: cpu.cpl(),
        segments: std::array::from_fn(|n| *cpu.segment(n as u8)),
        ldtr: cpu.ldtr,
        tr: cpu.tr,
        gdtr: cpu.gdtr,
        idtr: cpu.idtr,
        control: [cpu.cr0(), cpu.cr2, cpu.cr3(), cpu.cr4(), cpu.efer()],
        pdptes: cpu.pdptes(),
        debug: cpu.debug_registers(),
        msrs: cpu.msrs,
        fpu: cpu.fpu,
        xmm: cpu.simd.xmm,
        mxcsr: cpu.simd.mxcsr,
        shadow: cpu.shadow(),
        nmi_blocked: cpu.nmi_blocked(),
    }
}

/// Modes of operation (AMD64 APM volume 2, table 1-1), by CR0, CR4, EFER and CS attributes.
const MODES: [(u64, u64, u64, u16); 6] = [
    // Real; protected without paging; 32-bit paging; PAE.
    (0x10, 0, 0, 0x009b),
    (0x11, 0, 0, 0xc09b),
    (0x8001_0011, 0x10, 0, 0xc09b),
    (0x8001_0011, 0x20, 0x800, 0xc09b),
    // 64-bit, compatibility.
    (0x8005_0033, 0x620, 0xd01, 0xa09b),
    (0x8005_0033, 0x620, 0xd01, 0xc09b),
];

/// A processor in a random state that is possible.
pub(in crate::engine::kvm) fn random_cpu(random: &mut Random) -> Cpu {
    let mut cpu = Cpu::new(Features::K8);
    let (cr0, cr4, efer, cs) = MODES[random.below(MODES.len() as u64) as usize];
    let long = efer & 0x400 != 0;
    let mut flags = random.next() & 0x003d_7fd5 | 2;
    let v8086 = cr0 & 1 != 0 && !long && random.below(4) == 0;
    let cpl = match () {
        () if v8086 => 3,
        () if cr0 & 1 == 0 => 0,
        () => [0, 3][random.below(2) as usize],
    };
    if v8086 {
        flags |= VM;
    }
    cpu.set_pdptes(if cr0 >> 31 & cr4 >> 5 & 1 != 0 && !long {
        // Present, page-aligned, within 36 bits.
        std::array::from_fn(|_| random.next() & 0xf_ffff_f000 | 1)
    } else {
        [0; 4]
    });
    cpu.set_control(cr0, random.next() & 0xffff_f000, cr4, efer);
    cpu.cr2 = random.canonical();
    let attributes = |n: u8, random: &mut Random| match n {
        _ if v8086 => 0xf3,
        seg::CS => cs | u16::from(cpl) << 5,
        seg::SS => 0xc093 | u16::from(cpl) << 5,
        _ if cr0 & 1 == 0 => 0x93,
        _ => [0xc0f3, 0xc0f1, 0xcfff & 0xf0ff, 0][random.below(4) as usize],
    };
    for n in 0..6 {
        let attributes = attributes(n, random);
        let selector = if attributes == 0 { 0 } else { random.next() as u16 & !3 | u16::from(cpl) };
        let (base, limit) = match () {
            () if v8086 => (u64::from(selector) << 4, 0xffff),
            () if attributes & 0x8000 == 0 => (random.next() & 0xf_fff0, 0xffff),
            () if long && n >= seg::FS => (random.canonical(), u32::MAX),
            () if long => (0, u32::MAX),
            () => (random.next() & 0xffff_ffff, random.next() as u32 | 0xf_ffff),
        };
        cpu.set_segment(n, Segment { selector, base, limit, attributes });
    }
    let base = if long { random.canonical() } else { random.next() & 0xffff_ffff };
    let ldt =
        Segment { selector: random.next() as u16 & !7, base, limit: 0xffff, attributes: 0x82 };
    cpu.ldtr = if random.bit() { ldt } else { Segment::default() };
    cpu.tr = Segment { selector: 0x40, base, limit: 0x67, attributes: 0x8b };
    cpu.gdtr = DescriptorTable { base: random.canonical(), limit: random.next() as u16 };
    cpu.idtr = DescriptorTable { base: random.canonical(), limit: random.next() as u16 };
    for n in 0..16 {
        cpu.set_gpr(n, random.next());
    }
    cpu.rip = if long { random.canonical() } else { random.next() & 0xffff };
    cpu.set_rflags(flags);
    cpu.set_cpl(cpl);
    cpu.set_debug_registers(&DebugRegisters {
        addresses: std::array::from_fn(|_| random.canonical()),
        status: random.next() & 0xffff_ffff,
        // General detection would make the next access of the registers trap.
        control: random.next() & 0xffff_ffff & !(1 << 13),
    });
    cpu.msrs = CoreMsrs {
        star: random.next(),
        lstar: random.canonical(),
        cstar: random.canonical(),
        sfmask: random.next() & 0xffff_ffff,
        kernel_gs_base: random.canonical(),
        sysenter_cs: random.next() & 0xffff,
        sysenter_esp: random.canonical(),
        sysenter_eip: random.canonical(),
    };
    let mut image = [0; FXSAVE_SIZE];
    image.fill_with(|| random.next() as u8);
    cpu.fpu.fxrstor(&image, true, false);
    cpu.fpu.fip = random.canonical();
    cpu.fpu.fdp = random.canonical();
    cpu.fpu.fop = random.next() as u16 & 0x7ff;
    cpu.simd.xmm =
        std::array::from_fn(|_| u128::from(random.next()) << 64 | u128::from(random.next()));
    cpu.simd.mxcsr = random.next() as u32 & 0xffff;
    cpu.set_shadow([Shadow::None, Shadow::Sti, Shadow::MovSs][random.below(3) as usize]);
    cpu.set_nmi_blocked(random.bit());
    cpu
}

/// Everything is in KVM's structures: a processor fresh from reset becomes the same.
#[test]
fn another_processor_takes_the_state_over() {
    let mut random = Random(0x1234_5678_9abc_def1);
    for _ in 0..2000 {
        let cpu = random_cpu(&mut random);
        let mut state = State::default();
        state.set_from_cpu(&cpu);
        let mut other = Cpu::new(Features::K8);
        state.to_cpu(&mut other);
        assert_eq!(snapshot(&other), snapshot(&cpu));
    }
}

/// Back on the processor that the state came from, even what KVM has no place for is as it was.
#[test]
fn there_and_back_nothing_has_changed() {
    let mut random = Random(0x0fed_cba9_8765_4321);
    for _ in 0..2000 {
        let mut cpu = random_cpu(&mut random);
        cpu.fpu.fcs = random.next() as u16;
        cpu.fpu.fds = random.next() as u16;
        // SYSRET leaves the old DPL in SS (APM volume 3, "SYSRET"); a segment may be absent.
        let ss = *cpu.segment(seg::SS);
        cpu.set_segment(seg::SS, Segment { attributes: ss.attributes & !0x60, ..ss });
        let before = snapshot(&cpu);
        let mut state = State::default();
        state.set_from_cpu(&cpu);
        state.to_cpu(&mut cpu);
        assert_eq!(snapshot(&cpu), before);
    }
}

/// A host by AMD gives opcode and addresses of the last x87 instruction back as zeros if no exception
/// is pending (AMD64 APM volume 2, section 11.4.4). They are the guest's still, unless it has
/// executed another one.
#[test]
fn x87_pointers_outlast_a_host_that_drops_them() {
    let mut cpu = Cpu::new(Features::K8);
    (cpu.fpu.fip, cpu.fpu.fdp, cpu.fpu.fop) = (0x1234, 0x5678, 0x1D9);
    let mut state = State::default();
    state.set_from_cpu(&cpu);
    // FXSAVE: FOP at 6, RIP at 8, RDP at 16.
    state.xsave[1] &= 0xFFFF;
    state.xsave[2..6].fill(0);
    let before = snapshot(&cpu);
    state.to_cpu(&mut cpu);
    assert_eq!(snapshot(&cpu), before);
    // ST0 at 32: the guest has loaded another number.
    state.xsave[8] ^= 1;
    state.to_cpu(&mut cpu);
    assert_eq!((cpu.fpu.fip, cpu.fpu.fdp, cpu.fpu.fop), (0, 0, 0));
}

/// And KVM's structures come back as they were.
#[test]
fn kvm_gets_back_what_it_gave() {
    let mut random = Random(0x3141_5926_5358_9793);
    for _ in 0..2000 {
        let mut state = State::default();
        state.set_from_cpu(&random_cpu(&mut random));
        // What only KVM has: CR8, APIC base, an NMI that waits, AVX registers.
        state.sregs.cr8 = random.next() & 15;
        state.sregs.apic_base = 0xfee0_0900;
        state.events.nmi.pending = random.bit().into();
        state.xsave[150] = random.next() as u32;
        state.xsave[XSTATE_BV_WORD] = 7;
        let mut cpu = Cpu::new(Features::K8);
        state.to_cpu(&mut cpu);
        let mut back = state.clone();
        back.set_from_cpu(&cpu);
        assert_eq!(back, state);
    }
}

/// The fields of KVM's structures, by hand (KVM API documentation, `KVM_GET_SREGS`; APM volume 2,
/// figures 4-20 and 11-9).
#[test]
fn the_places_in_kvms_structures() {
    let mut cpu = Cpu::new(Features::K8);
    cpu.set_control(0x8000_0011, 0x1000, 0x20, 0x500);
    let code = Segment { selector: 0x10, base: 0, limit: u32::MAX, attributes: 0xa09b };
    cpu.set_segment(seg::CS, code);
    cpu.set_segment(seg::SS, Segment::default());
    cpu.set_cpl(3);
    cpu.set_gpr(3, 0xb);
    cpu.set_gpr(4, 0x5);
    cpu.fpu.init();
    cpu.fpu.fip = 0x1122_3344_5566_7788;
    cpu.fpu.set_mmx(0, 0x0102_0304_0506_0708);
    cpu.simd.mxcsr = 0x1f80;
    cpu.simd.xmm[1] = 0xf << 96 | 1;
    let mut state = State::default();
    state.set_from_cpu(&cpu);
    let expected = kvm_segment {
        limit: u32::MAX,
        selector: 0x10,
        type_: 11,
        present: 1,
        s: 1,
        l: 1,
        g: 1,
        ..kvm_segment::default()
    };
    assert_eq!(state.sregs.cs, expected);
    let null = kvm_segment { dpl: 3, unusable: 1, ..kvm_segment::default() };
    assert_eq!(state.sregs.ss, null);
    assert_eq!((state.regs.rbx, state.regs.rsp), (0xb, 0x5));
    // Bytes 0 control word, 8 FIP, 24 MXCSR, 32 ST0, 160 XMM0, 512 XSTATE_BV.
    let at = |byte: usize| state.xsave[byte / 4];
    assert_eq!((at(0), at(8), at(12)), (0x037f, 0x5566_7788, 0x1122_3344));
    assert_eq!((at(24), at(32), at(36), at(40)), (0x1f80, 0x0506_0708, 0x0102_0304, 0xffff));
    assert_eq!((at(160), at(176), at(188), at(512)), (0, 1, 0xf, 3));
}

/// Bit 21 of MXCSR, DUE of Knights Corner, is in no host's: KVM does not get it, and it stays.
#[test]
fn bits_of_mxcsr_that_no_host_has() {
    let mut cpu = Cpu::new(Features::K8);
    cpu.simd.mxcsr = 0x0020_1fa0;
    let mut state = State::default();
    state.set_from_cpu(&cpu);
    assert_eq!(state.xsave[24 / 4], 0x1fa0);
    state.xsave[24 / 4] = 0x5f81;
    state.to_cpu(&mut cpu);
    assert_eq!(cpu.simd.mxcsr, 0x0020_5f81);
}
