//! It says where and why it stopped, and why a counter did not count: ways to fail, each with its cause in
//! one line.

use super::*;

use iced_x86::IcedError;
use iced_x86::code_asm::{al, dword_ptr, eax, ecx};
use vpmu::program::{LAPIC, Program};

tests!(
    a_64bit_kernel_on_a_processor_without_long_mode,
    a_kernel_that_checks_the_processor_and_gives_up,
    an_instruction_that_the_processor_lacks,
    a_register_of_another_processor,
    no_idt,
    a_stack_in_nowhere,
    hlt_with_if_clear,
    an_event_that_is_selected_and_not_enabled,
    usr_at_cpl_0,
    an_event_on_the_wrong_counter,
    an_event_that_counts_nothing,
    lvtpc_masked,
    lvtpc_masked_by_delivery,
    lvtpc_never_written,
    what_counts_has_no_notes,
    the_dump_is_written_as_json,
    the_dump_on_kvm,
);

const USAGE: i32 = 2;
const TRIPLE_FAULT: i32 = 126;
/// A guest writes 0 to the debug-exit port.
const DONE: i32 = 1;

// Bits of an event select (AMD 26094, section 10.2; Intel SDM volume 3, "PerfEvtSel0 and PerfEvtSel1 MSRs").
const USR: u64 = 1 << 16;
const OS: u64 = 1 << 17;
const INT: u64 = 1 << 20;
const EN: u64 = 1 << 22;
/// Offset of LVTPC in the local APIC's page, and its mask bit (AMD64 APM volume 2, section 16.4.3).
const LVTPC: i32 = 0x340;
const MASKED: u32 = 1 << 16;

/// Runs a guest on the software engine as `options` say; what the run says, with its status.
fn stopped(name: &str, code: &[u8], address: u64, options: &[&str]) -> (String, Option<i32>) {
    let options = [&["--engine", "soft"], options].concat();
    let run = finish(&mut vpmu(&format!("stopped-{name}"), code, address, &options));
    (String::from_utf8_lossy(&run.stderr).into_owned(), run.status.code())
}

/// The same with a kernel.
fn kernel(name: &str, bytes: &[u8], options: &[&str]) -> (String, Option<i32>) {
    let path = payload(&format!("stopped-{name}"), bytes);
    let mut command = Command::new(VPMU);
    command.args(["run", "--mem", "64M", "--stats", "none", "--kernel"]).arg(&path).args(options);
    let run = finish(&mut command);
    let text = String::from_utf8_lossy(&run.stderr).replace(&*path.to_string_lossy(), "KERNEL");
    (text, run.status.code())
}

/// What a run says of a program that ends by itself, without "vpmu: note: ".
fn notes(
    name: &str,
    options: &[&str],
    build: impl FnOnce(&mut Program) -> Result<(), IcedError>,
) -> Vec<String> {
    let assemble = || -> Result<_, IcedError> {
        let mut program = Program::new()?;
        build(&mut program)?;
        program.mov(al, 0)?;
        program.out(0xF4, al)?;
        program.finish()
    };
    let image = assemble().expect("the program assembles");
    let (text, status) = stopped(name, &image.bytes, image.load_address, options);
    assert_eq!(status, Some(DONE), "{text}");
    let note = |line: &str| line.strip_prefix("vpmu: note: ").map(Into::into);
    text.lines().map(|line| note(line).unwrap_or_else(|| panic!("{text}"))).collect()
}

/// A bzImage by the 32-bit boot protocol 2.15, with the 64-bit entry point (bit 0 of xloadflags); offsets
/// from boot.rst's table of the real-mode header.
fn bzimage() -> Vec<u8> {
    let mut file = vec![0xF4; 1024 + 4096];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0; 1024]);
    put(0x1F1, &[1]); // setup_sects
    put(0x1F4, &256_u32.to_le_bytes()); // syssize, in 16-byte units
    put(0x1FE, &[0x55, 0xAA]);
    put(0x202, b"HdrS");
    put(0x206, &0x020F_u16.to_le_bytes());
    put(0x211, &[1]); // loadflags: LOADED_HIGH
    put(0x214, &0x10_0000_u32.to_le_bytes()); // code32_start
    put(0x236, &1_u16.to_le_bytes()); // xloadflags: XLF_KERNEL_64
    put(0x238, &2047_u32.to_le_bytes()); // cmdline_size
    put(0x258, &0x100_0000_u64.to_le_bytes()); // pref_address
    put(0x260, &0x20_0000_u32.to_le_bytes()); // init_size
    file
}

/// An ELF64 for x86-64 with one segment of 16 bytes: HLT. System V ABI, chapters 4 and 5.
fn elf64() -> Vec<u8> {
    let word = |value: u64| value.to_le_bytes();
    let header = [
        &[0x7F, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[2, 0, 62, 0, 1, 0, 0, 0],
        &[word(0x20_0078), word(64), word(0)].concat(),
        &[0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, 5, 0, 0, 0],
        &[word(0), word(0x20_0000), word(0x20_0000), word(136), word(136), word(4096)].concat(),
    ];
    [&header.concat()[..], &[0xF4; 16]].concat()
}

/// A multiboot kernel of this code (Multiboot 0.6.96, section 3.1): bit 16 of the flags says that the
/// addresses follow, all of them of the header at 200000h; the code is behind it.
fn multiboot(code: &[u8]) -> Vec<u8> {
    const HEADER: [u32; 8] = [
        0x1BAD_B002,
        1 << 16,
        0_u32.wrapping_sub(0x1BAD_B002).wrapping_sub(1 << 16),
        0x20_0000,
        0x20_0000,
        0,
        0,
        0x20_0020,
    ];
    [&HEADER.map(u32::to_le_bytes).concat(), code].concat()
}

fn a_64bit_kernel_on_a_processor_without_long_mode() -> Verdict {
    let text =
        "vpmu: KERNEL: a 64-bit kernel, which p6 cannot run, by either entry; see --isa distro\n";
    for entry in ["auto", "32", "64"] {
        let said = kernel("bzimage", &bzimage(), &["--cpu", "p6", "--entry", entry]);
        assert_eq!((said.0.as_str(), said.1), (text, Some(USAGE)), "{entry}");
        let said = kernel("elf64", &elf64(), &["--cpu", "p6", "--entry", entry]);
        assert_eq!(said.1, Some(USAGE), "{}", said.0);
        assert!(said.0.ends_with("; see --isa distro\n") && said.0.contains("p6"), "{}", said.0);
    }
    // With it they run.
    for bytes in [bzimage(), elf64()] {
        let (text, status) = kernel("with-distro", &bytes, &["--cpu", "p6", "--isa", "distro"]);
        assert_eq!(status, Some(HALTED.1), "{text}");
    }
    Ok(())
}

/// MOV EAX, 80000001h; CPUID; two NOP; CLI; HLT: three instructions from CPUID to HLT. A Pentium III has
/// neither SSE2 nor long mode.
fn a_kernel_that_checks_the_processor_and_gives_up() -> Verdict {
    let code = [0xB8, 1, 0, 0, 0x80, 0x0F, 0xA2, 0x90, 0x90, 0xFA, 0xF4];
    let (text, status) = kernel("gives-up", &multiboot(&code), &["--cpu", "p6"]);
    assert_eq!(status, Some(HALTED.1), "{text}");
    let why = "vpmu:   halted 3 instructions behind CPUID 80000001h; p6 lacks SSE2, ";
    let line = text.lines().find(|line| line.starts_with(why));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains(", LM") && line.ends_with(": see --isa distro"), "{line}");
    // A processor that has all of it, and a kernel that does much between.
    let (text, _) = kernel("has-all", &multiboot(&code), &["--cpu", "k8"]);
    assert!(!text.contains("CPUID"), "{text}");
    // MOV ECX, 1000; LOOP to itself.
    let much = [&code[..7], &[0xB9, 0xE8, 3, 0, 0, 0xE2, 0xFE], &code[9..]].concat();
    let (text, _) = kernel("does-much", &multiboot(&much), &["--cpu", "p6"]);
    assert!(!text.contains("CPUID"), "{text}");
    Ok(())
}

/// CMOVE EAX, ECX on a Pentium.
fn an_instruction_that_the_processor_lacks() -> Verdict {
    let (text, status) = stopped("cmov", &[0x0F, 0x44, 0xC1], 0x10_0000, &["--cpu", "p55c"]);
    let line = "vpmu:   #UD at 0010:00100000: cmove eax, ecx needs CMOV, which p55c lacks: see --isa distro; \
                not delivered: ";
    assert!(text.lines().any(|said| said.starts_with(line)), "{text}");
    assert_eq!(status, Some(TRIPLE_FAULT));
    Ok(())
}

/// PerfEvtSel0 of K7 and K8 on a Pentium III; that of the P6 family on a K8; a register of no processor,
/// with RDMSR. WRMSR is the fourth instruction, at 10000Fh; RDMSR the second.
fn a_register_of_another_processor() -> Verdict {
    let wrmsr = |index: u32| {
        let mov = |opcode: u8, value: u32| [&[opcode][..], &value.to_le_bytes()].concat();
        [mov(0xB9, index), mov(0xB8, 0x53_0076), mov(0xBA, 0), vec![0x0F, 0x30]].concat()
    };
    for (cpu, index, why) in [
        ("p6", 0xC001_0000, "C0010000h is PerfEvtSel0 of k7 and k8; this is p6"),
        ("k8", 0x186, "186h is PerfEvtSel0 of ppro, pii, p6 and pm; this is k8"),
    ] {
        let (text, status) = stopped(cpu, &wrmsr(index), 0x10_0000, &["--cpu", cpu]);
        let line = format!(
            "vpmu:   #GP(0h) at 0010:0010000f: WRMSR {index:X}h = 530076h: {why}; not delivered: "
        );
        assert!(text.lines().any(|said| said.starts_with(&line)), "{text}");
        assert_eq!(status, Some(TRIPLE_FAULT));
    }
    let rdmsr = [0xB9, 0x23, 0x10, 0x01, 0xC0, 0x0F, 0x32];
    let (text, _) = stopped("rdmsr", &rdmsr, 0x10_0000, &[]);
    let line =
        "vpmu:   #GP(0h) at 0010:00100005: RDMSR C0011023h: no processor here has C0011023h; ";
    assert!(text.lines().any(|said| said.starts_with(line)), "{text}");
    // Bit 63 of EFER is reserved.
    let efer = [0xB9, 0x80, 0, 0, 0xC0, 0xBA, 0, 0, 0, 0x80, 0x0F, 0x30];
    let (text, _) = stopped("efer", &efer, 0x10_0000, &[]);
    let line = "vpmu:   #GP(0h) at 0010:0010000a: WRMSR C0000080h = 8000000000000000h: C0000080h is EFER, \
                which does not take that value; ";
    assert!(text.lines().any(|said| said.starts_with(line)), "{text}");
    Ok(())
}

/// UD2 in protected mode without an interrupt table: #UD is vector 6. The error code of the #GP on its way
/// has the vector times 8, IDT (2) and EXT (1): AMD64 APM volume 2, "Error Codes".
fn no_idt() -> Verdict {
    let (text, status) = stopped("no-idt", &[0x0F, 0x0B], 0x10_0000, &[]);
    let expected = "\
vpmu: triple fault on processor 0
vpmu: vcpu 0: at 0010:00100000: ud2; CPL 0, 32-bit protected mode, IF clear
vpmu:   #UD at 0010:00100000; not delivered: the IDT, base 0h and limit 0h, has no entry 6
vpmu:   then #GP(33h) and #DF(0h), not delivered either
";
    assert_eq!((text.as_str(), status), (expected, Some(TRIPLE_FAULT)));
    Ok(())
}

/// A stack at D0000000h, where nothing is: CALL loses its return address, and RET goes astray. ESP is then as
/// before, so that the next push would be four bytes below.
fn a_stack_in_nowhere() -> Verdict {
    // MOV ESP, D0000000h; CALL to the RET.
    let code = [0xBC, 0, 0, 0, 0xD0, 0xE8, 0, 0, 0, 0, 0xC3];
    let (text, status) = stopped("stack", &code, 0x10_0000, &[]);
    let line = "vpmu:   stack pointer 0018:d0000000: the next push is to cffffffch, where there is no memory";
    assert!(text.lines().any(|said| said == line), "{text}");
    assert_eq!(status, Some(TRIPLE_FAULT));
    // One in RAM is not mentioned.
    let (text, _) = stopped("no-stack", &[0xBC, 0, 0, 0x20, 0, 0x0F, 0x0B], 0x10_0000, &[]);
    assert!(text.contains("triple fault") && !text.contains("stack"), "{text}");
    Ok(())
}

/// CLI; HLT in real mode. A flat payload below 1 MiB begins at its address / 16 in CS.
fn hlt_with_if_clear() -> Verdict {
    let (text, status) = stopped("hlt", HALT, 0x7C00, &["--smp", "4"]);
    let expected = "\
vpmu: every processor is halted for good
vpmu: vcpu 0: halted by HLT with IF clear: no interrupt wakes it; CPL 0, real mode, next 07c0:0002
vpmu: vcpus 1-3: waiting for a start-up IPI
";
    assert_eq!((text.as_str(), status), (expected, Some(HALTED.1)));
    // STI; HLT, and nothing that would wake it.
    let (text, _) = stopped("sti", IDLE, 0x7C00, &[]);
    let line = "vpmu: vcpu 0: halted by HLT, IF set: waiting for an interrupt; CPL 0, real mode, \
                next 07c0:0002";
    assert!(text.lines().any(|said| said == line), "{text}");
    Ok(())
}

/// C0h is retired instructions of K8 and of the P6 family, 16h of Knights Corner.
fn an_event_that_is_selected_and_not_enabled() -> Verdict {
    let found = notes("en-k8", &["--cpu", "k8"], |p| p.write_msr(0xC001_0000, USR | OS | 0xC0));
    let expected = "vcpu 0: counter 0 was set to RETIRED_INSTRUCTIONS and never enabled: EN, bit 22 of \
                    PerfEvtSel0, was clear (AMD BKDG 26094, section 10.2)";
    assert_eq!(found, [expected]);
    // EN of PerfEvtSel1 does nothing.
    let found = notes("en-p6", &["--cpu", "p6"], |p| p.write_msr(0x187, USR | OS | EN | 0xC0));
    let expected = "vcpu 0: counter 1 was set to INST_RETIRED and never enabled: EN, bit 22 of \
                    PerfEvtSel0, was clear (Intel SDM volume 3, \"PerfEvtSel0 and PerfEvtSel1 MSRs\")";
    assert_eq!(found, [expected]);
    let found = notes("en-knc", &["--cpu", "knc"], |p| p.write_msr(0x28, USR | OS | EN | 0x16));
    let expected = "vcpu 0: counter 0 was set to INSTRUCTIONS_EXECUTED and never enabled: bit 0 of \
                    IA32_PERF_GLOBAL_CTRL was clear (Intel 327357-001, section 1.4.3)";
    assert_eq!(found, [expected]);
    // Neither USR nor OS.
    let found = notes("level-k8", &["--cpu", "k8"], |p| p.write_msr(0xC001_0003, EN | 0xC0));
    assert_eq!(found.len(), 1, "{found:?}");
    let expected = "never enabled: USR and OS, bits 16 and 17 of PerfEvtSel3, were clear (AMD BKDG";
    assert!(found[0].contains(expected), "{found:?}");
    Ok(())
}

fn usr_at_cpl_0() -> Verdict {
    let found = notes("usr", &["--cpu", "k8"], |p| {
        p.write_msr(0xC001_0000, USR | EN | 0xC0)?;
        p.nop()
    });
    let expected = "vcpu 0: counter 0, RETIRED_INSTRUCTIONS:u, counts at CPL 1, 2 and 3, and only CPL 0 ran \
                    while it was enabled (AMD BKDG 26094, section 10.2)";
    assert_eq!(found, [expected]);
    Ok(())
}

/// FLOPS, C1h, is counted by counter 0 alone (Intel MMX Technology manual, table 6-2).
fn an_event_on_the_wrong_counter() -> Verdict {
    let found = notes("wrong-counter", &["--cpu", "p6"], |p| {
        p.write_msr(0x187, USR | OS | 0xC1)?;
        p.write_msr(0x186, USR | OS | EN | 0xC0)?;
        p.nop()
    });
    let expected = "vcpu 0: event C1h FLOPS on counter 1 counts nothing: only counter 0 can count it \
                    (Intel MMX Technology manual, chapter 6, Table 6-2)";
    assert_eq!(found, [expected]);
    Ok(())
}

/// What perf writes for raw events (Linux, arch/x86/events/core.c: USR, OS, INT, then EN): 4Ah, errors of
/// memory, which there are none of, and 1Fh, which is reserved. LVTPC is perf's NMI.
fn an_event_that_counts_nothing() -> Verdict {
    let perf = |p: &mut Program, event: u64| {
        p.write_lapic(LVTPC, 0x400)?;
        p.write_msr(0xC001_0000, USR | OS | INT | EN | event)
    };
    // Also where nothing else is printed.
    let found = notes("absent", &["--cpu", "k8", "--stats", "none"], |p| perf(p, 0x4A));
    assert_eq!(found.len(), 1, "{found:?}");
    let (head, tail) = (
        "vcpu 0: event 4Ah ",
        ": absent in this machine, counts zero (AMD BKDG 26094, section 10.2",
    );
    assert!(found[0].starts_with(head) && found[0].contains(tail), "{found:?}");
    let found = notes("reserved", &["--cpu", "k8", "--smp", "2"], |p| perf(p, 0x1F));
    let expected = "vcpu 0: event 1Fh: reserved, counts nothing (AMD BKDG 26094, section 10.2)";
    assert_eq!(found, [expected]);
    Ok(())
}

/// Counter 0 overflows with the third instruction behind WRMSR, and then with the third behind each of two
/// more: MOV, MOV, MOV, WRMSR, as [`Program::write_msr`] has them.
fn overflow(p: &mut Program, times: usize) -> Result<(), IcedError> {
    p.write_msr(0xC001_0004, 3_u64.wrapping_neg())?;
    p.write_msr(0xC001_0000, OS | INT | EN | 0xC0)?;
    for _ in 0..times {
        p.mov(ecx, 0xC001_0004_u32)?;
        p.write_msr(0xC001_0004, 3_u64.wrapping_neg())?;
    }
    p.write_msr(0xC001_0000, 0)
}

fn lvtpc_masked() -> Verdict {
    let found = notes("masked", &["--cpu", "k8"], |p| {
        p.write_lapic(LVTPC, MASKED | 0x400)?;
        overflow(p, 0)
    });
    let expected = "vcpu 0: 1 interrupt of a counter was lost: LVTPC was masked (AMD64 APM volume 2, section \
                    16.4.3)";
    assert_eq!(found, [expected]);
    Ok(())
}

/// With --lvtpc-automask on, the first interrupt masks LVTPC and is held back by IF; the second is lost.
fn lvtpc_masked_by_delivery() -> Verdict {
    let found = notes("automask", &["--cpu", "k8", "--lvtpc-automask", "on"], |p| {
        p.write_lapic(LVTPC, 0x40)?;
        overflow(p, 1)
    });
    let expected = "vcpu 0: 1 interrupt of a counter was lost: the delivery of one before had masked LVTPC, \
                    and the guest had not unmasked it (AMD64 APM volume 2, section 16.4.3)";
    assert_eq!(found, [expected]);
    Ok(())
}

fn lvtpc_never_written() -> Verdict {
    let found = notes("never-written", &["--cpu", "k8"], |p| overflow(p, 0));
    let expected = "vcpu 0: INT is set for counter 0, and LVTPC was never written, so that it is masked as \
                    after reset; 1 interrupt of a counter was lost (AMD64 APM volume 2, section 16.4.3)";
    assert_eq!(found, [expected]);
    Ok(())
}

/// An event at the level that runs, on a counter that can count it, with its interrupt delivered to an LVTPC
/// that is not masked; a counter of which nothing is asked; an event select that is cleared.
fn what_counts_has_no_notes() -> Verdict {
    for cpu in ["k7", "k8"] {
        let found = notes(&format!("good-{cpu}"), &["--cpu", cpu], |p| {
            p.write_lapic(LVTPC, 0x40)?;
            p.write_msr(0xC001_0001, 0)?;
            overflow(p, 0)
        });
        assert_eq!(found, [""; 0], "{cpu}");
    }
    let found = notes("good-p6", &["--cpu", "p6"], |p| {
        p.write_msr(0x187, OS | 0xC0)?;
        p.write_msr(0x186, OS | EN | 0xC0)?;
        p.mov(eax, dword_ptr(LAPIC + 0x20))
    });
    assert_eq!(found, [""; 0]);
    Ok(())
}

/// The fields that `docs/debug-dump.md` names, of a triple fault; and equal runs write equal bytes.
fn the_dump_is_written_as_json() -> Verdict {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let dump = |n: usize| {
        let path = folder.join(format!("dump-{n}-{}.json", std::process::id()));
        let option = path.display().to_string();
        // MOV ESP, 200000h; INC ECX; UD2.
        let code = [0xBC, 0, 0, 0x20, 0, 0x41, 0x0F, 0x0B];
        let options = ["--debug-dump", &option, "--smp", "3"];
        let (text, status) = stopped("json", &code, 0x10_0000, &options);
        assert_eq!(status, Some(TRIPLE_FAULT), "{text}");
        let text = std::fs::read_to_string(&path).expect("a dump");
        std::fs::remove_file(path).expect("the dump is ours");
        text
    };
    let text = dump(0);
    assert_eq!(text, dump(1));
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(json["schema"], 1);
    assert_eq!((&json["cpu"], &json["engine"]), (&"k8".into(), &"soft".into()));
    assert_eq!((&json["end"], &json["status"]), (&"triple-fault".into(), &126.into()));
    assert_eq!(json["all_exceptions_seen"], true);
    let vcpu = &json["vcpus"][0];
    assert_eq!(vcpu["activity"], "shut-down");
    let at = serde_json::json!({ "cs": "0x10", "rip": "0x100006" });
    assert_eq!(vcpu["at"], at);
    assert_eq!(vcpu["instruction"], serde_json::json!({ "bytes": "0f 0b", "text": "ud2" }));
    assert_eq!((&vcpu["cpl"], &vcpu["instructions"]), (&0.into(), &2.into()));
    assert_eq!(vcpu["mode"], "32-bit protected mode");
    assert_eq!(vcpu["interrupts_enabled"], false);
    assert_eq!(
        (&vcpu["stack"]["physical"], &vcpu["stack"]["is_ram"]),
        (&"0x1ffffc".into(), &true.into())
    );
    assert_eq!(vcpu["registers"]["gpr"][1], "0x1");
    let vectors: Vec<_> = (0..3).map(|n| &vcpu["exceptions"][n]["name"]).collect();
    assert_eq!(vectors, ["#UD", "#GP", "#DF"]);
    assert_eq!(vcpu["exceptions"][0]["at"], at);
    assert_eq!(vcpu["exceptions"][1]["error_code"], "0x33");
    assert_eq!(vcpu["exceptions"][0]["delivery"]["failed"]["name"], "#GP");
    assert_eq!(json["vcpus"][2]["activity"], "waiting-for-startup");
    assert_eq!(json["notes"], serde_json::json!([]));
    Ok(())
}

/// On KVM what is not seen is said, and the triple fault and refused registers are there.
fn the_dump_on_kvm() -> Verdict {
    kvm()?;
    // MOV ECX, C0011023h; RDMSR.
    let code = [0xB9, 0x23, 0x10, 0x01, 0xC0, 0x0F, 0x32];
    let run = finish(&mut vpmu("stopped-kvm", &code, 0x10_0000, &["--engine", "kvm"]));
    let text = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(TRIPLE_FAULT), "{text}");
    let last =
        "vpmu: exceptions that KVM delivers in the guest are not seen; --engine soft has them all";
    assert_eq!(text.lines().last(), Some(last), "{text}");
    let line = "#GP(0h): RDMSR C0011023h: no processor here has C0011023h";
    assert!(text.lines().any(|said| said.contains(line)), "{text}");
    assert!(text.contains("vpmu: vcpu 0: at 0010:00100005: rdmsr; CPL 0"), "{text}");
    Ok(())
}
