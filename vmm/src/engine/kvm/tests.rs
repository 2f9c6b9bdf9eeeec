//! Machines on the host's KVM, from the outside, and what is said to those who cannot have one.

use std::time::{Duration, Instant};

use pmu_model::MsrAccess;

use super::host::{Host, Lacking};
use super::*;
use crate::boot::memory::RamLayout;
use crate::boot::{Image, Payload};
use crate::config::Limits;
use crate::engine::IrqchipKind;
use crate::stop::Watch;
use crate::summary::Summary;

/// Code starts in real mode there.
pub(super) const REAL: u64 = 0x7C00;
/// Code starts in 32-bit protected mode there, without an interrupt table.
pub(super) const PROTECTED: u64 = 0x10_0000;

pub(super) fn config(code: &[u8], address: u64, cpus: u8, timeout: Option<Duration>) -> Config {
    let image = Image { name: "test".into(), bytes: code.to_vec() };
    let ram = RamLayout::new(4 << 20, None).unwrap();
    let config = Config::new("k8", ram, Payload::Flat { image, address }).unwrap();
    let limits = Limits { instructions: None, timeout };
    Config { cpus, engine: EngineKind::Kvm, limits, ..config }
}

fn run(config: &Config) -> (Machine, End) {
    let mut machine = Machine::new(config).unwrap();
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    let end = machine.run(config.limits, &mut console).unwrap();
    (machine, end)
}

/// How a guest ends that should end by itself soon, wherever the interrupt controllers are.
fn end_of(code: &[u8], address: u64, cpus: u8) -> End {
    let [user, kernel] = on_both(&config(code, address, cpus, Some(Duration::from_secs(20))));
    assert_eq!(user.1, kernel.1);
    user.1
}

/// The same guest with the interrupt controllers in this process and in the kernel.
pub(super) fn on_both(config: &Config) -> [(Machine, End); 2] {
    [IrqchipKind::User, IrqchipKind::Kernel]
        .map(|irqchip| run(&Config { irqchip, ..config.clone() }))
}

/// MOV AL, 21; OUT F4h, AL: status 2 * 21 + 1.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn the_debug_exit_port_gives_the_status() {
    assert_eq!(end_of(&[0xB0, 21, 0xE6, 0xF4], REAL, 1), End::Exit(43));
}

/// CLI, HLT. Nothing is programmed that could end it: there is nothing to wait for.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_halt_for_good_is_noticed_at_once() {
    let started = Instant::now();
    assert_eq!(end_of(&[0xFA, 0xF4], REAL, 4), End::Halted);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

/// UD2 without an interrupt table: #UD, double fault, triple fault.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_triple_fault_is_reported() {
    assert_eq!(end_of(&[0x0F, 0x0B], PROTECTED, 1), End::TripleFault(0));
}

/// JMP to itself never leaves the guest; OUT 80h, AL and JMP back leave it all the time.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn the_time_limit_ends_every_loop() {
    for code in [&[0xEB, 0xFE][..], &[0xE6, 0x80, 0xEB, 0xFC]] {
        let started = Instant::now();
        let limit = Duration::from_millis(300);
        for (_, end) in on_both(&config(code, REAL, 2, Some(limit))) {
            assert_eq!(end, End::Timeout);
        }
        // Two runs up to the limit. What comes to it, starting and stopping on a host with other work,
        // has no number; the upper bound only tells a stop from a loop that never ends.
        assert!((2 * limit..20 * limit).contains(&started.elapsed()), "{:?}", started.elapsed());
    }
}

/// An event select with EN (BKDG 26094, section 10.2) counts five NOP, MOV and the WRMSR that ends
/// it, as on the software engine; before and after, the host's processor has the guest.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn what_is_counted_is_counted_exactly() {
    let mov_eax = |value: u32| [&[0x66, 0xB8][..], &value.to_le_bytes()].concat();
    let code = [
        // MOV ECX, C001_0000h; XOR EDX, EDX.
        &[0x66, 0xB9, 0x00, 0x00, 0x01, 0xC0, 0x66, 0x31, 0xD2][..],
        &mov_eax(0x0043_00C0),
        &[0x0F, 0x30, 0x90, 0x90, 0x90, 0x90, 0x90],
        &mov_eax(0),
        // WRMSR; NOP; MOV AL, 0; OUT F4h, AL.
        &[0x0F, 0x30, 0x90, 0xB0, 0x00, 0xE6, 0xF4],
    ];
    let limit = Some(Duration::from_secs(20));
    for (machine, end) in on_both(&config(&code.concat(), REAL, 1, limit)) {
        let vcpu = &machine.vcpus()[0];
        let counter = vcpu.pmu.rdpmc(0, pmu_model::RdpmcCaller::default());
        assert_eq!((end, counter.ok()), (End::Exit(1), Some(7)));
        // The software CPU has executed just these.
        assert_eq!(vcpu.cpu.retired(), 7);
        assert!(vcpu.native_cycles > 0);
    }
}

/// The IRQ0 of the PIT (8254 channel 0, mode 2, a tick every 11932 cycles of 1.193182 MHz: 10 ms)
/// ends HLT, five times; virtual time is real time meanwhile. Setting the mode raises the line once (8254
/// data sheet, mode 2), so four periods pass.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_tick_ends_a_halt() {
    let out = |port: u8, value: u8| [0xB0, value, 0xE6, port];
    let code = [
        &[0xFA, 0x31, 0xC0, 0x8E, 0xD8, 0x8E, 0xD0, 0xBC, 0x00, 0x70][..], // CLI; DS, SS 0; SP 7000h
        &[0xC7, 0x06, 0x20, 0x00, 0x00, 0x7D, 0xC7, 0x06, 0x22, 0x00, 0x00, 0x00], // vector 8: 0:7D00h
        // 8259A: ICW1 to ICW4, vectors from 8, IRQ0 only.
        &[out(0x20, 0x11), out(0x21, 8), out(0x21, 4), out(0x21, 1), out(0x21, 0xFE)].concat(),
        &[out(0x43, 0x34), out(0x40, 0x9C), out(0x40, 0x2E)].concat(),
        &[0xBB, 0x05, 0x00, 0xFB], // MOV BX, 5; STI
        &[0xF4, 0x4B, 0x75, 0xFC], // HLT; DEC BX; JNZ to HLT
        &out(0xF4, 0),
    ];
    let mut code = code.concat();
    code.resize(0x100, 0x90);
    // 7D00h: PUSH AX; MOV AL, 20h; OUT 20h, AL; POP AX; IRET.
    code.extend([0x50, 0xB0, 0x20, 0xE6, 0x20, 0x58, 0xCF]);
    for (machine, end) in on_both(&config(&code, REAL, 1, Some(Duration::from_secs(20)))) {
        assert_eq!(end, End::Exit(1));
        let milliseconds = machine.time() / (machine.clock_hz() / 1000);
        // Four periods at least. How late the host runs the guest has no number; the upper bound only
        // tells ticks from the timeout.
        assert!((40..5_000).contains(&milliseconds), "{milliseconds} ms");
    }
}

/// Linux names a thread by what it was spawned as.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn no_thread_is_left() {
    // The name of a processor that no other test has.
    for (_, end) in on_both(&config(&[0xFA, 0xF4], REAL, 7, None)) {
        assert_eq!(end, End::Halted);
    }
    let is_there = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap();
        let mut names =
            threads.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.any(|name| name.trim() == "vcpu 6")
    };
    // A thread that has been joined is listed until the kernel has cleaned up behind it.
    let started = Instant::now();
    while is_there() {
        assert!(started.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// STI, HLT, JMP back to HLT: maskable interrupts could end it, but nothing is programmed to send one.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_halt_that_nothing_ends_is_noticed() {
    assert_eq!(end_of(&[0xFB, 0xF4, 0xEB, 0xFD], REAL, 2), End::Halted);
}

/// The version register of the local APIC, bits 7:0 and 23:16 (SDM Vol. 3A, "Local APIC Version
/// Register"): the K8's in this process (4_0010h), KVM's in the kernel (5_0014h), whoever executes
/// the MOV EAX, [FEE0_0030h] that reads it.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn the_version_of_the_local_apic_is_the_same_counted_or_not() {
    let read = [0xA1, 0x30, 0x00, 0xE0, 0xFE];
    // SHR EAX, 16; OUT F4h, AL gives twice the highest entry, plus one.
    let leave = [0xC1, 0xE8, 0x10, 0xE6, 0xF4];
    // MOV ECX, C001_0000h; XOR EDX, EDX; MOV EAX, 43_00C0h; WRMSR.
    let count =
        [0xB9, 0x00, 0x00, 0x01, 0xC0, 0x31, 0xD2, 0xB8, 0xC0, 0x00, 0x43, 0x00, 0x0F, 0x30];
    // SHL EAX, 16 before that: twice the version, plus one.
    let version = [0xC1, 0xE0, 0x10];
    let limit = Some(Duration::from_secs(20));
    for counted in [&count[..], &[]] {
        let entries = [counted, &read, &leave].concat();
        let [(_, user), (_, kernel)] = on_both(&config(&entries, PROTECTED, 1, limit));
        assert_eq!((user, kernel), (End::Exit(2 * 4 + 1), End::Exit(2 * 5 + 1)));
        let code = [counted, &read, &version, &leave].concat();
        let [(_, user), (_, kernel)] = on_both(&config(&code, PROTECTED, 1, limit));
        assert_eq!((user, kernel), (End::Exit(2 * 0x10 + 1), End::Exit(2 * 0x14 + 1)));
    }
}

/// An instruction that is executed on the software CPU because KVM's emulator does not have it finds
/// the local APIC where the guest left it: MOVD of 35h to TPR between a store and a load by MOV.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn an_instruction_on_the_software_cpu_reaches_the_local_apic() {
    let code = [
        // MOV EAX, CR4; OR EAX, 200h (OSFXSR); MOV CR4, EAX; MOV EAX, 35h; MOVD XMM0, EAX.
        &[0x0F, 0x20, 0xE0, 0x0D, 0x00, 0x02, 0x00, 0x00, 0x0F, 0x22, 0xE0][..],
        &[0xB8, 0x35, 0x00, 0x00, 0x00, 0x66, 0x0F, 0x6E, 0xC0],
        // MOV [FEE0_0080h], EAX with EAX 0; MOVD [FEE0_0080h], XMM0; MOV EAX, [FEE0_0080h].
        &[0x31, 0xC0, 0xA3, 0x80, 0x00, 0xE0, 0xFE],
        &[0x66, 0x0F, 0x7E, 0x05, 0x80, 0x00, 0xE0, 0xFE],
        &[0xA1, 0x80, 0x00, 0xE0, 0xFE, 0xE6, 0xF4],
    ];
    assert_eq!(end_of(&code.concat(), PROTECTED, 1), End::Exit(2 * 0x35 + 1));
}

/// The software engine has no controllers in the kernel.
#[test]
fn controllers_in_the_kernel_need_kvm() {
    let mut config = config(&[0xFA, 0xF4], REAL, 1, None);
    config.irqchip = IrqchipKind::Kernel;
    config.engine = EngineKind::Soft;
    let error = Machine::new(&config).err().unwrap();
    assert_eq!(error.status(), 2);
    assert_eq!(error.to_string(), "--irqchip kernel needs --engine kvm");
}

/// A host that lacks what they need says which.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn controllers_in_the_kernel_are_asked_for_in_vain() {
    let mut config = config(&[0xFA, 0xF4], REAL, 1, None);
    config.irqchip = IrqchipKind::Kernel;
    let lacking = Lacking { capability: Some(host::Capability::SignalMsi), vcpu: None };
    let host = Host::open_at(std::path::Path::new(host::DEVICE), lacking).unwrap();
    let mut memory = Memory::new(&config.ram, None).unwrap();
    let error = Kvm::new(&host, &config, config.platform, &mut memory).err().unwrap();
    let text = error.to_string();
    assert_eq!(error.status(), 6);
    assert!(text.contains("KVM_CAP_SIGNAL_MSI") && text.contains("--irqchip user"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_limit_of_instructions_is_refused() {
    let mut config = config(&[0xFA, 0xF4], REAL, 1, None);
    config.limits.instructions = Some(1);
    let error = Machine::new(&config).err().unwrap();
    assert_eq!(error.status(), 2);
    assert!(error.to_string().contains("--engine soft"), "{error}");
}

/// Left the choice, the machine takes the other engine and says why.
#[test]
fn a_limit_of_instructions_leads_to_the_software_engine() {
    let mut config = config(&[0xFA, 0xF4], REAL, 1, None);
    config.limits.instructions = Some(1);
    config.engine = EngineKind::Auto;
    let machine = Machine::new(&config).unwrap();
    assert_eq!(machine.choice().engine, "soft");
    assert_ne!(machine.choice().reason, ASKED_FOR);
}

/// The second of two processors.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn a_processor_that_cannot_be_created_is_one_line() {
    let lacking = Lacking { capability: None, vcpu: Some(1) };
    let host = Host::open_at(std::path::Path::new(host::DEVICE), lacking).unwrap();
    let config = config(&[0xFA, 0xF4], REAL, 2, None);
    let mut memory = Memory::new(&config.ram, None).unwrap();
    let error = Kvm::new(&host, &config, config.platform, &mut memory).err().unwrap();
    let text = error.to_string();
    assert_eq!(error.status(), 6);
    assert!(text.starts_with("KVM refuses to create processor 1: "), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

/// MOV ECX, `index`; MOV EAX, MOV EDX, `value`; WRMSR. In 16-bit code, 66h goes before 32-bit operands.
pub(super) fn write_msr(prefix: &[u8], index: u32, value: u64) -> Vec<u8> {
    [(0xB9, index), (0xB8, value as u32), (0xBA, (value >> 32) as u32)]
        .iter()
        .flat_map(|(opcode, operand)| [prefix, &[*opcode], &operand.to_le_bytes()].concat())
        .chain([0x0F, 0x30])
        .collect()
}

/// With counting off, registers keep what is written (BKDG 26094, section 10.2: EN bit 22, INT bit 20,
/// 48 bits, the reserved bits 63:32 of an event select read as zero), RDPMC included, and a counter
/// one short of its overflow stays there. The summary says why all counts are zero. The machine, after
/// that.
fn registers_are_live_and_counters_stand_still(engine: EngineKind) -> Machine {
    const LAST: u64 = (1 << 48) - 1;
    let code = [
        &write_msr(&[0x66], 0xC001_0004, LAST)[..],
        &write_msr(&[0x66], 0xC001_0000, 0x0053_00C0),
        &[0x90; 5],
        // XOR ECX, ECX; RDPMC; MOV EBX, EAX; MOV ESI, EDX; MOV AL, 0; OUT F4h, AL.
        &[0x66, 0x31, 0xC9, 0x0F, 0x33, 0x66, 0x89, 0xC3, 0x66, 0x89, 0xD6, 0xB0, 0x00, 0xE6, 0xF4],
    ];
    let mut config = config(&code.concat(), REAL, 1, Some(Duration::from_secs(20)));
    (config.count, config.engine) = (Count::Off, engine);
    let (machine, end) = run(&config);
    assert_eq!(end, End::Exit(1));
    let vcpu = &machine.vcpus()[0];
    let (ebx, esi) = (vcpu.cpu.gpr(3) as u32, vcpu.cpu.gpr(6) as u32);
    assert_eq!((ebx, esi), (0xFFFF_FFFF, 0xFFFF));
    assert_eq!(vcpu.pmu.read_msr(0xC001_0000), MsrAccess::Done(0x0053_00C0));
    assert_eq!(vcpu.pmu.read_msr(0xC001_0004), MsrAccess::Done(LAST));
    let total = vcpu.pmu.counter_stats(0).unwrap().total();
    assert_eq!((total.count, total.overflows, total.pmis), (0, 0, 0));
    assert!(!vcpu.has_counters_enabled());
    let summary = Summary::new(config.personality, &machine, end);
    let row = &summary.vcpus[0].uncounted[0];
    assert_eq!((row.code, row.event), (0xC0, "RETIRED_INSTRUCTIONS"));
    assert!(summary.json().unwrap().contains("\"counting\": \"off\""));
    assert!(summary.table().contains("counting: off "));
    machine
}

#[test]
fn counting_is_off_on_the_software_engine() {
    registers_are_live_and_counters_stand_still(EngineKind::Soft);
}

/// The software CPU executes the RDPMC and nothing else.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn counting_is_off_on_kvm() {
    let machine = registers_are_live_and_counters_stand_still(EngineKind::Kvm);
    assert_eq!(machine.vcpus()[0].cpu.retired(), 1);
}

/// The other way to count belongs to KVM.
#[test]
fn the_hosts_counters_are_refused_on_the_software_engine() {
    let mut config = config(&[0xF4], REAL, 1, None);
    config.count = Count::Host;
    config.engine = EngineKind::Soft;
    let error = Machine::new(&config).err().unwrap();
    let text = error.to_string();
    assert_eq!(error.status(), 2);
    assert!(text.starts_with("--count host") && text.contains("--engine kvm"), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

/// The whole way of `--count host`, from the WRMSR that enables a counter to the NMI that its overflow
/// brings, with the clock of the thread for the cycles: that is what hosts without a PMU have. LVTPC
/// (SDM volume 3, local vector table): FEE0_0340h, delivery mode 100b is NMI.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
#[cfg_attr(all(host_kvm, not(host_perf)), ignore = "no perf_event_open when this was built")]
fn a_counter_of_the_host_overflows_into_an_nmi() {
    const CODE: u64 = PROTECTED;
    const IDT: u64 = CODE + 0x100;
    const HANDLER: u64 = CODE + 0x200;
    /// Linux boot protocol: `__BOOT_CS`.
    const CODE_SELECTOR: u16 = 0x10;
    /// Nanoseconds to the overflow.
    const PERIOD: u64 = 30_000_000;
    let mut code = [
        // LIDT [pointer], behind the table; MOV DWORD [FEE0_0340h], 400h.
        &[0x0F, 0x01, 0x1D][..],
        &(IDT as u32 + 0x80).to_le_bytes(),
        &[0xC7, 0x05, 0x40, 0x03, 0xE0, 0xFE, 0x00, 0x04, 0x00, 0x00],
        // MOV ESP, below the code.
        &[0xBC],
        &(CODE as u32 - 0x100).to_le_bytes(),
        &write_msr(&[], 0xC001_0004, (1 << 48) - PERIOD),
        &write_msr(&[], 0xC001_0000, 0x0053_0076),
        // JMP to itself.
        &[0xEB, 0xFE],
    ]
    .concat();
    code.resize((IDT - CODE) as usize, 0);
    // Gate 2: present 32-bit interrupt gate, the boot code's segment.
    code.extend([[0; 8]; 2].concat());
    code.extend([(HANDLER as u16).to_le_bytes(), CODE_SELECTOR.to_le_bytes()].concat());
    code.extend([[0x00, 0x8E], ((HANDLER >> 16) as u16).to_le_bytes()].concat());
    code.resize((IDT - CODE) as usize + 0x80, 0);
    code.extend(0x17_u16.to_le_bytes());
    code.extend((IDT as u32).to_le_bytes());
    code.resize((HANDLER - CODE) as usize, 0);
    code.extend(write_msr(&[], 0xC001_0000, 0));
    // MOV AL, 0; OUT F4h, AL.
    code.extend([0xB0, 0x00, 0xE6, 0xF4]);

    let mut config = config(&code, CODE, 1, None);
    config.engine = EngineKind::Soft;
    let mut machine = Machine::new(&config).unwrap();
    machine.vcpus[0].pmu = Count::Host.pmu(config.personality);
    let host = Host::open().unwrap();
    let mut kvm = Kvm::new(&host, &config, config.platform, &mut machine.memory).unwrap();
    kvm.host_events = Some(host_counter::tests::WITH_TASK_CLOCK);
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    let stop = Stop::new().unwrap();
    let watch = Watch::limit(&stop, Duration::from_secs(20)).unwrap();
    let end = kvm.run(&mut machine, &stop, None, &mut console).unwrap();
    drop(watch);
    drop(kvm);

    let vcpu = &machine.vcpus()[0];
    let total = vcpu.pmu.counter_stats(0).unwrap().total();
    assert_eq!((end, total.overflows, total.pmis), (End::Exit(1), 1, 1));
    // What comes after the overflow is the skid.
    let MsrAccess::Done(counter) = vcpu.pmu.read_msr(0xC001_0004) else { panic!("readable") };
    assert_eq!(total.count, PERIOD + counter);
    assert!(machine.time() > 0 && vcpu.cpu.retired() == 0);
}

/// Two counters that overflow at once assert two interrupts, of which the local APIC latches one: the second is sent an
/// instruction later, as on the software engine, so that the handler of the NMI runs twice.
#[test]
#[cfg_attr(not(host_kvm), ignore = "no /dev/kvm when this was built")]
fn interrupts_that_are_asserted_at_once_all_come() {
    use iced_x86::code_asm::{al, dword_ptr, dx, eax, edx};
    use x86_cpu::stops::Stops;

    use crate::program::{DATA, Program};

    const LVTPC: i32 = 0x340;
    const NMI: u32 = 4 << 8;
    let mut program = Program::new().unwrap();
    let make = |p: &mut Program| {
        let mut over = p.create_label();
        p.jmp(over)?;
        let handler = p.here()?;
        p.gate(2, handler, 0);
        p.inc(dword_ptr(DATA))?;
        p.iretd()?;
        p.place(&mut over)?;
        p.write_lapic(LVTPC, NMI)?;
        p.mark("here")?;
        crate::turns::tests::spin(p, 100)?;
        p.mov(eax, dword_ptr(DATA))?;
        p.mov(edx, 0xF4)?;
        p.out(dx, al)
    };
    make(&mut program).unwrap();
    let image = program.finish().unwrap();
    let here = image.symbol("here").unwrap();
    for irqchip in [IrqchipKind::User, IrqchipKind::Kernel] {
        // Status 2 n + 1.
        for (apart, status) in [(true, 5), (false, 3)] {
            let config = Config { irqchip, ..config(&image.bytes, PROTECTED, 1, None) };
            let mut machine = Machine::new(&config).unwrap();
            let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
            let stop = Stop::new().unwrap();
            let _watch = Watch::limit(&stop, Duration::from_secs(20)).unwrap();
            machine.vcpus[0].cpu.set_stops(Some(Stops::new(vec![here], vec![])));
            let end = machine.run_until(&stop, None, &mut console).unwrap();
            assert_eq!(end, End::Debugger(0));
            machine.vcpus[0].cpu.set_stops(None);
            let (vcpu, irq) = (&mut machine.vcpus[0], &mut machine.board.chipset.irq);
            if apart {
                assert!(vcpu.send_apart(2, irq).is_some());
            } else {
                (0..2).for_each(|_| _ = irq.pmi(0));
            }
            let end = machine.run_until(&stop, None, &mut console).unwrap();
            assert_eq!(end, End::Exit(status), "{irqchip:?}");
        }
    }
}
