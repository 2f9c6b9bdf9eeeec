//! `--trace`: guests whose acts are known line for line, by hand; the forms; and that tracing changes nothing.
//!
//! K8: AMD BKDG 26094, section 10.2. PerfEvtSel0 is MSR C001_0000h, PerfCtr0 C001_0004h; event C0h counts
//! retired instructions; bits 16 USR, 17 OS, 20 INT, 22 EN. P6: Intel SDM volume 3, MSRs 186h and C1h.

use iced_x86::IcedError;
use iced_x86::code_asm::ecx;
use serde_json::Value;
use vpmu::program::{Image, Program};

use super::*;

tests!(
    an_interrupt_is_followed_from_lvtpc_to_eoi,
    on_kvm_as_well,
    a_masked_lvtpc_loses_the_interrupt,
    three_overflows_make_two_nmis,
    the_pentium_has_pins,
    knights_corner_has_spflt_and_a_status,
    what_is_refused_is_there,
    json_lines_have_the_same_acts,
    the_trace_event_format_is_kept_to,
    a_run_that_is_cut_off_leaves_a_whole_trace,
    nothing_else_changes,
    kinds_are_chosen,
    what_cannot_be_is_one_line,
);

const EVTSEL0: u32 = 0xC001_0000;
const PERFCTR0: u32 = 0xC001_0004;
/// C0h, USR, OS, INT, EN.
const RETIRED: u64 = 0x0053_00C0;
/// Ten more overflow a counter of 48 bits.
const TEN: u64 = (1 << 48) - 10;

const LVTPC: i32 = 0x340;
const EOI: i32 = 0xB0;
const VECTOR: u8 = 0x50;
const NMI: u8 = 2;

/// An act: CPL, RIP, instructions before it, and its words.
type Expected<'a> = (u8, u64, u64, &'a str);

/// A line of a trace.
#[derive(Debug)]
struct Line {
    cycles: u64,
    cpl: Option<u8>,
    rip: Option<u64>,
    retired: Option<u64>,
    words: String,
}

/// What assembles a guest.
type Assemble = fn() -> Result<Image, IcedError>;

/// A file for this process alone.
fn file(name: &str) -> PathBuf {
    let name = format!("trace-{}-{name}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a program with `--trace` and these options; the trace and the status.
fn trace(name: &str, image: &Image, options: &[&str]) -> (String, Option<i32>) {
    let path = file(name);
    let path_text = path.to_str().expect("UTF-8");
    let all = [&["--trace", path_text][..], options].concat();
    let run = finish(&mut vpmu(&format!("trace-{name}"), &image.bytes, image.load_address, &all));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&run.stderr)));
    std::fs::remove_file(path).expect("the trace");
    (text, run.status.code())
}

/// The acts of a trace as text, behind its heading, but for engines.
fn lines(text: &str) -> Vec<Line> {
    let (heading, acts) = text.split_once('\n').expect("a heading");
    assert_eq!(heading.split_whitespace().last(), Some("act"), "{heading}");
    let acts = acts.lines().map(|line| {
        let mut rest = line;
        let mut word = || {
            rest = rest.trim_start();
            let (word, behind) = rest.split_once(' ').expect("a word");
            rest = behind;
            word
        };
        let cycles = word().parse().expect("cycles");
        let [_, vcpu, cpl, code, retired] = [word(), word(), word(), word(), word()];
        assert_eq!(vcpu, "0", "{line}");
        Line {
            cycles,
            cpl: cpl.parse().ok(),
            rip: code.split_once(':').map(|(_, rip)| u64::from_str_radix(rip, 16).expect("RIP")),
            retired: retired.parse().ok(),
            words: rest.trim_start().to_owned(),
        }
    });
    acts.filter(|line| !line.words.starts_with("engine ")).collect()
}

/// Compares acts, with instructions since the first one.
fn compare(found: &[Line], expected: &[Expected<'_>]) {
    let first = found.first().and_then(|line| line.retired).expect("an act");
    let found: Vec<_> = found
        .iter()
        .map(|line| {
            let retired = line.retired.expect("a number") - first;
            (line.cpl.expect("a CPL"), line.rip.expect("RIP"), retired, &line.words[..])
        })
        .collect();
    assert_eq!(found, expected);
}

/// How a part is programmed, and what of that a trace says.
struct Counter {
    cpu: &'static str,
    evtsel: u32,
    perfctr: u32,
    preset: u64,
    select: u64,
    words: [&'static str; 3],
}

const K8: Counter = Counter {
    cpu: "k8",
    evtsel: EVTSEL0,
    perfctr: PERFCTR0,
    preset: TEN,
    select: RETIRED,
    words: [
        "WRMSR PerfCtr0 = 0xfffffffffff6: overflows after 10 more",
        "WRMSR PerfEvtSel0 = 0x5300c0: RETIRED_INSTRUCTIONS:int:en",
        "overflow of counter 0, RETIRED_INSTRUCTIONS:int: now 0x0",
    ],
};
const PARTS: [Counter; 3] = [
    K8,
    Counter { cpu: "k7", ..K8 },
    Counter {
        cpu: "p6",
        evtsel: 0x186,
        perfctr: 0xC1,
        // 32 bits are written, and the sign extended.
        preset: 0xFFFF_FFF6,
        select: RETIRED,
        words: [
            "WRMSR PerfCtr0 = 0xfffffff6: overflows after 10 more",
            "WRMSR PerfEvtSel0 = 0x5300c0: INST_RETIRED:int:en",
            "overflow of counter 0, INST_RETIRED:int: now 0x0",
        ],
    },
];

/// WRMSR with a name for its place: MOV, MOV, MOV, WRMSR.
fn wrmsr(p: &mut Program, name: &str, index: u32, value: u64) -> Result<(), IcedError> {
    use iced_x86::code_asm::{eax, edx};
    p.mov(ecx, index)?;
    p.mov(eax, value as u32)?;
    p.mov(edx, (value >> 32) as u32)?;
    p.mark(name)?;
    p.wrmsr()
}

/// A store to the local APIC with a name for its place: MOV, MOV.
fn lapic(p: &mut Program, name: &str, offset: i32, value: u32) -> Result<(), IcedError> {
    use iced_x86::code_asm::{dword_ptr, edi};
    p.mov(edi, 0xFEE0_0000_u32)?;
    p.mark(name)?;
    p.mov(dword_ptr(edi + offset), value)
}

/// LVTPC is `entry`, unless that is zero; then a counter overflows by STI and nine NOPs of twelve. The handler
/// of [`VECTOR`] clears the event select and ends the interrupt.
fn interrupted(of: &Counter, entry: u32) -> Result<Image, IcedError> {
    let mut p = Program::new()?;
    let mut begin = p.create_label();
    p.jmp(begin)?;
    let handler = p.here()?;
    p.gate(VECTOR, handler, 0);
    wrmsr(&mut p, "stop", of.evtsel, 0)?;
    lapic(&mut p, "end", EOI, 0)?;
    p.iretd()?;
    p.place(&mut begin)?;
    if entry != 0 {
        lapic(&mut p, "lvtpc", LVTPC, entry)?;
    }
    wrmsr(&mut p, "preset", of.perfctr, of.preset)?;
    wrmsr(&mut p, "start", of.evtsel, of.select)?;
    p.sti()?;
    for _ in 0..9 {
        p.nop()?;
    }
    p.mark("tenth")?;
    for _ in 0..3 {
        p.nop()?;
    }
    p.cli()?;
    p.hlt()?;
    p.finish()
}

const SOFT: [&str; 2] = ["--engine", "soft"];

/// The WRMSR that enables the counter is not counted: STI and nine NOPs are ten. The interrupt comes before the
/// tenth NOP; each act is where it was written, so many instructions behind the first as were assembled. An
/// instruction is a cycle, and so is the delivery.
fn an_interrupt_is_followed_from_lvtpc_to_eoi() -> Verdict {
    for part in &PARTS {
        let image = interrupted(part, VECTOR.into()).expect("a program");
        let options = [&SOFT[..], &["--cpu", part.cpu]].concat();
        let (text, status) = trace(&format!("followed-{}", part.cpu), &image, &options);
        assert_eq!(status, Some(HALTED.1));
        let at = |name| image.symbol(name).expect("a place");
        let found = lines(&text);
        let [preset, start, overflow] = part.words;
        compare(
            &found,
            &[
                (0, at("lvtpc"), 0, "LVTPC = 0x50: vector 0x50"),
                (0, at("preset"), 4, preset),
                (0, at("start"), 8, start),
                (0, at("tenth"), 19, overflow),
                (0, at("tenth"), 19, "PMI sent: vector 0x50"),
                (0, at("tenth"), 19, "PMI delivered: vector 0x50"),
                (0, at("stop"), 22, "WRMSR PerfEvtSel0 = 0x0: nothing"),
                (0, at("end"), 24, "EOI of vector 0x50"),
            ],
        );
        let cycles: Vec<_> = found.iter().map(|line| line.cycles - found[0].cycles).collect();
        assert_eq!(cycles, [0, 4, 8, 19, 19, 19, 23, 25]);
    }
    Ok(())
}

/// On KVM the same acts in the same order; which engine has the processor is told, and there is no number of
/// instructions while KVM has it.
fn on_kvm_as_well() -> Verdict {
    kvm()?;
    let image = interrupted(&K8, VECTOR.into()).expect("a program");
    let [soft, kvm] = ["soft", "kvm"].map(|engine| {
        let name = format!("engine-{engine}");
        let (text, status) = trace(&name, &image, &["--engine", engine]);
        assert_eq!(status, Some(HALTED.1), "{text}");
        text
    });
    let words = |text: &str| lines(text).into_iter().map(|line| line.words).collect::<Vec<_>>();
    assert_eq!(words(&soft), words(&kvm));
    let engines: Vec<_> = kvm.lines().filter_map(|line| line.split("engine ").nth(1)).collect();
    assert_eq!(
        engines[..3],
        ["kvm: the run begins", "soft: a counter is enabled", "kvm: no counter is enabled"]
    );
    let at = |name| image.symbol(name);
    let found = lines(&kvm);
    assert_eq!((found[1].rip, found[1].retired), (at("preset"), None));
    assert_eq!((found[2].rip, found[2].retired), (at("start"), None));
    assert_eq!(found[3].rip, at("tenth"));
    assert!(found[3].retired.is_some());
    Ok(())
}

/// "Why did my interrupt not come": LVTPC is masked, by the guest or since reset.
fn a_masked_lvtpc_loses_the_interrupt() -> Verdict {
    for (entry, written, lost) in [
        (0x1_0050, Some("LVTPC = 0x10050: vector 0x50, masked"), "PMI lost: LVTPC is masked"),
        (0, None, "PMI lost: LVTPC is masked as after reset"),
    ] {
        let image = interrupted(&K8, entry).expect("a program");
        let (text, _) = trace(&format!("masked-{entry}"), &image, &SOFT);
        let found: Vec<_> = lines(&text).into_iter().map(|line| line.words).collect();
        let [preset, start, overflow] = K8.words;
        let expected: Vec<_> = written.into_iter().chain([preset, start, overflow, lost]).collect();
        assert_eq!(found, expected);
    }
    Ok(())
}

/// Counters 0 to 2 overflow on one instruction. Their interrupts reach the local APIC an instruction apart: the
/// first NMI is taken at once, the second is latched while that is in service, the third finds it there. IRET lets
/// the second in.
fn three_overflows_make_two_nmis() -> Verdict {
    let image = || {
        let mut p = Program::new()?;
        let mut begin = p.create_label();
        p.jmp(begin)?;
        let handler = p.mark("handler")?;
        p.gate(NMI, handler, 0);
        for name in ["second", "third"] {
            p.nop()?;
            p.mark(name)?;
        }
        p.nop()?;
        p.iretd()?;
        p.place(&mut begin)?;
        lapic(&mut p, "lvtpc", LVTPC, 0x400)?;
        // Each select that follows is counted by those before it: twelve and eight of theirs, and ten of all.
        for counter in 0..3 {
            let before = 4 * (2 - u64::from(counter));
            p.write_msr(PERFCTR0 + counter, TEN - before)?;
        }
        for counter in 0..3 {
            p.write_msr(EVTSEL0 + counter, RETIRED)?;
        }
        for _ in 0..10 {
            p.nop()?;
        }
        p.mark("first")?;
        p.nop()?;
        p.cli()?;
        p.hlt()?;
        p.finish()
    };
    let image: Image = image().map_err(|e: IcedError| e.to_string()).expect("a program");
    let (text, _) = trace("nmis", &image, &[&SOFT[..], &["--trace-only", "overflow,pmi"]].concat());
    let at = |name| image.symbol(name).expect("a place");
    let overflow =
        |counter: u8| format!("overflow of counter {counter}, RETIRED_INSTRUCTIONS:int: now 0x0");
    let overflows = [0, 1, 2].map(overflow);
    compare(
        &lines(&text),
        &[
            (0, at("first"), 0, &overflows[0]),
            (0, at("first"), 0, &overflows[1]),
            (0, at("first"), 0, &overflows[2]),
            (0, at("first"), 0, "PMI sent: NMI"),
            (0, at("first"), 0, "PMI delivered: NMI"),
            (0, at("second"), 1, "PMI sent: NMI"),
            (0, at("third"), 2, "PMI merged: an NMI is latched already"),
            // The third NOP and IRET: back to where the first was taken.
            (0, at("first"), 4, "PMI delivered: NMI"),
        ],
    );
    Ok(())
}

/// Intel SDM volume 3, "Performance Monitoring (Pentium Processors)": CESR is MSR 11h, CTR0 12h; event 16h counts
/// instructions, bit 6 of a half is for CPL 0 to 2. An overflow shows at pin PM0/BP0 and nowhere else.
fn the_pentium_has_pins() -> Verdict {
    let part = Counter {
        cpu: "p55c",
        evtsel: 0x11,
        perfctr: 0x12,
        preset: (1 << 40) - 10,
        select: 0x56,
        words: [""; 3],
    };
    // Its local APIC has no LVTPC; a store there is not one to it.
    let image = interrupted(&part, VECTOR.into()).expect("a program");
    let (text, _) = trace("pins", &image, &[&SOFT[..], &["--cpu", "p55c"]].concat());
    let at = |name| image.symbol(name).expect("a place");
    compare(
        &lines(&text),
        &[
            (0, at("preset"), 0, "WRMSR CTR0 = 0xfffffffff6: overflows after 10 more"),
            (
                0,
                at("start"),
                4,
                "WRMSR CESR = 0x56: counter 0 INSTRUCTIONS_EXECUTED:k, counter 1 off",
            ),
            (
                0,
                at("tenth"),
                15,
                "overflow of counter 0, INSTRUCTIONS_EXECUTED:k: now 0x0; no interrupt: this \
                 processor's counters have pins",
            ),
        ],
    );
    Ok(())
}

/// SPFLT EAX (Intel 327357, 1.4.2): VEX.L0.F2.0F AE /6. MOV, SPFLT.
fn spflt(p: &mut Program, on: bool) -> Result<(), IcedError> {
    use iced_x86::code_asm::eax;
    p.mov(eax, u32::from(on))?;
    p.db(&[0xC5, 0xFB, 0xAE, 0xF0])
}

/// Intel 327357, 1.4.3: IA32_PerfCnt0 20h, IA32_PerfEvtSel0 28h, PERF_SPFLT_CONTROL 2Ch, IA32_PERF_GLOBAL_CTRL
/// 2Fh; event 16h counts instructions. Counter 0 obeys the user preference, which SPFLT sets and clears. It
/// overflows twice: the first sets the status, from which the second does not assert the interrupt again.
fn knights_corner_has_spflt_and_a_status() -> Verdict {
    let image = || {
        let mut p = Program::new()?;
        lapic(&mut p, "lvtpc", LVTPC, 0x1_0050)?;
        p.write_msr(0x2F, 1)?;
        p.write_msr(0x2C, 1)?;
        p.write_msr(0x28, 0x0053_0016)?;
        for _ in 0..2 {
            // NOP and MOV overflow it, before the SPFLT that clears it.
            p.write_msr(0x20, (1 << 40) - 2)?;
            spflt(&mut p, true)?;
            p.nop()?;
            spflt(&mut p, false)?;
        }
        p.cli()?;
        p.hlt()?;
        p.finish()
    };
    let image: Image = image().map_err(|e: IcedError| e.to_string()).expect("a program");
    let (text, _) = trace("knc", &image, &[&SOFT[..], &["--cpu", "knc"]].concat());
    let found: Vec<_> = lines(&text).into_iter().map(|line| line.words).collect();
    let preset = "WRMSR IA32_PerfCnt0 = 0xfffffffffe: overflows after 2 more";
    let [set, cleared] = ["SPFLT: user preference set", "SPFLT: user preference cleared"];
    assert_eq!(
        found,
        [
            "LVTPC = 0x10050: vector 0x50, masked",
            "WRMSR IA32_PERF_GLOBAL_CTRL = 0x1: enables counter 0",
            "WRMSR PERF_SPFLT_CONTROL = 0x1: counter 0 by the user preference, clear",
            "WRMSR IA32_PerfEvtSel0 = 0x530016: INSTRUCTIONS_EXECUTED:int:en",
            preset,
            set,
            "overflow of counter 0, INSTRUCTIONS_EXECUTED:int: now 0x0",
            "PMI lost: LVTPC is masked",
            cleared,
            preset,
            set,
            "overflow of counter 0, INSTRUCTIONS_EXECUTED:int: now 0x0; no interrupt: a bit of \
             IA32_PERF_GLOBAL_STATUS was set before",
            cleared,
        ]
    );
    Ok(())
}

/// RDPMC of a counter that there is not is #GP(0), and so is WRMSR to a read-only register. Without a handler it is
/// the end: the trace is whole.
fn what_is_refused_is_there() -> Verdict {
    let rdpmc = || {
        let mut p = Program::new()?;
        p.mov(ecx, 7)?;
        p.rdpmc()?;
        p.finish()
    };
    let status = || {
        let mut p = Program::new()?;
        p.write_msr(0x2D, 0)?;
        p.finish()
    };
    let read_user = || {
        let mut p = Program::new()?;
        let mut user = p.create_label();
        p.enter(3, user, 2)?;
        p.place(&mut user)?;
        p.mov(ecx, EVTSEL0)?;
        p.rdmsr()?;
        p.finish()
    };
    let programs: [(_, Assemble, _); 3] = [
        ("k8", rdpmc, "RDPMC 0x7: #GP, no such counter"),
        ("knc", status, "WRMSR IA32_PERF_GLOBAL_STATUS = 0x0: #GP, the register is read-only"),
        ("k8", read_user, "RDMSR PerfEvtSel0: #GP, not CPL 0"),
    ];
    for (nth, (cpu, program, words)) in programs.into_iter().enumerate() {
        let image = program().expect("a program");
        let options = [&SOFT[..], &["--cpu", cpu]].concat();
        let (text, status) = trace(&format!("refused-{nth}"), &image, &options);
        assert_eq!(status, Some(126), "a triple fault");
        let found: Vec<_> = lines(&text).into_iter().map(|line| line.words).collect();
        assert_eq!(found, [words]);
    }
    Ok(())
}

/// The same guest, read as JSON: numbers as numbers, values in hexadecimal, and what the text says as well.
fn json_lines_have_the_same_acts() -> Verdict {
    let image = interrupted(&K8, VECTOR.into()).expect("a program");
    let (json, _) = trace("lines.jsonl", &image, &SOFT);
    let (text, _) = trace("lines", &image, &SOFT);
    let acts: Vec<Value> =
        json.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let lines = lines(&text);
    assert_eq!(
        (acts[0]["kind"].as_str(), acts[0]["engine"].as_str()),
        (Some("engine"), Some("soft"))
    );
    assert_eq!(acts.len(), lines.len() + 1);
    for (act, line) in acts[1..].iter().zip(&lines) {
        assert_eq!(act["text"], line.words.as_str());
        assert_eq!(act["cycles"].as_u64(), Some(line.cycles));
        // 2 GHz.
        assert_eq!(act["seconds"].as_f64(), Some(line.cycles as f64 / 2e9));
        assert_eq!(act["retired"].as_u64(), line.retired);
        assert_eq!(act["rip"], format!("{:#x}", line.rip.expect("RIP")));
        assert_eq!(act["cs"], "0x8");
    }
    let kinds: Vec<_> = acts.iter().map(|act| (&act["kind"], &act["act"])).collect();
    let kinds = kinds.iter().map(|(kind, act)| [kind.as_str().unwrap(), act.as_str().unwrap()]);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [
            ["engine", "engine"],
            ["lvtpc", "lvtpc"],
            ["msr", "wrmsr"],
            ["msr", "wrmsr"],
            ["overflow", "overflow"],
            ["pmi", "sent"],
            ["pmi", "delivered"],
            ["msr", "wrmsr"],
            ["eoi", "eoi"],
        ]
    );
    let select = &acts[3]["selections"][0];
    for (name, value) in [
        ("event", Value::from("RETIRED_INSTRUCTIONS")),
        ("code", 0xC0.into()),
        ("umask", 0.into()),
        ("usr", true.into()),
        ("os", true.into()),
        ("edge", false.into()),
        ("inv", false.into()),
        ("cmask", 0.into()),
        ("en", true.into()),
        ("int", true.into()),
    ] {
        assert_eq!(select[name], value, "{name}");
    }
    assert_eq!((&acts[4]["asserts"], &acts[4]["value"]), (&"interrupt".into(), &"0x0".into()));
    assert_eq!(acts[6]["vector"], 0x50);
    Ok(())
}

/// What the Trace Event Format requires of an event, and that slices of a thread nest and end.
fn check_events(text: &str) -> usize {
    let document: Value = serde_json::from_str(text).expect("a JSON document");
    let events = document["traceEvents"].as_array().expect("events");
    let mut open: Vec<(u64, String)> = Vec::new();
    let mut slices = 0;
    for event in events {
        let [name, ph] = ["name", "ph"].map(|key| event[key].as_str().expect("a string"));
        let [_, tid] = ["pid", "tid"].map(|key| event[key].as_u64().expect("a number"));
        if ph != "M" {
            assert!(event["ts"].as_f64().is_some_and(|ts| ts >= 0.0), "{event}");
            assert!(event["cat"].is_string(), "{event}");
        }
        match ph {
            "M" => assert!(event["args"]["name"].is_string(), "{event}"),
            "i" => assert_eq!(event["s"], "t"),
            "C" => assert!(event["args"]["value"].is_i64(), "{event}"),
            "B" => {
                open.push((tid, name.into()));
                slices += 1;
            }
            "E" => {
                let last = open.iter().rposition(|(of, _)| *of == tid).expect("a beginning");
                assert_eq!(open.remove(last).1, name);
            }
            _ => panic!("{event}"),
        }
    }
    assert_eq!(open, []);
    slices
}

fn the_trace_event_format_is_kept_to() -> Verdict {
    let image = interrupted(&K8, VECTOR.into()).expect("a program");
    let (text, _) = trace("events.json", &image, &SOFT);
    assert_eq!(check_events(&text), 1);
    // The counter before, and when it overflows.
    for value in ["-10", "0"] {
        assert!(text.contains(&format!("\"args\":{{\"value\":{value}}}")), "{text}");
    }
    // Without ends there are no slices; without acts it is a document still.
    for (kinds, events) in [("pmi", true), ("spflt", false)] {
        let options = [&SOFT[..], &["--trace-only", kinds]].concat();
        let (text, _) = trace(&format!("events-{kinds}.json"), &image, &options);
        assert_eq!(check_events(&text), 0);
        assert_eq!(text.contains("PMI delivered"), events);
    }
    Ok(())
}

/// The handler of an interrupt that never ends: the slice ends with the trace. By the limit of instructions, of
/// time, and by SIGINT.
fn a_run_that_is_cut_off_leaves_a_whole_trace() -> Verdict {
    let image = || {
        let mut p = Program::new()?;
        let mut begin = p.create_label();
        p.jmp(begin)?;
        let handler = p.here()?;
        p.gate(VECTOR, handler, 0);
        p.jmp(handler)?;
        p.place(&mut begin)?;
        lapic(&mut p, "lvtpc", LVTPC, VECTOR.into())?;
        p.write_msr(PERFCTR0, TEN)?;
        p.write_msr(EVTSEL0, RETIRED)?;
        p.sti()?;
        let here = p.here()?;
        p.jmp(here)?;
        p.finish()
    };
    let image: Image = image().map_err(|e: IcedError| e.to_string()).expect("a program");
    for (name, option, status) in
        [("instructions", ["--max-instructions", "20000"], 122), ("time", ["--timeout", "1"], 124)]
    {
        let options = [&SOFT[..], &option].concat();
        let (text, ended) = trace(&format!("cut-{name}.json"), &image, &options);
        assert_eq!(ended, Some(status));
        assert_eq!(check_events(&text), 1);
    }
    let path = file("cut-signal.json");
    let options = [&SOFT[..], &["--trace", path.to_str().expect("UTF-8")]].concat();
    let mut command = vpmu("trace-cut-signal", &image.bytes, image.load_address, &options);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("the command starts");
    thread::sleep(Duration::from_millis(500));
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(kill.expect("kill").success());
    assert_eq!(wait_for(child).status.code(), Some(130));
    assert_eq!(check_events(&std::fs::read_to_string(&path).expect("the trace")), 1);
    std::fs::remove_file(path).expect("the trace");
    Ok(())
}

/// The demo's output and statistics, but for the options, are the same with a trace and without.
fn nothing_else_changes() -> Verdict {
    for cpu in ["k8", "p55c", "knc"] {
        let path = file(cpu);
        let run = |traced: bool| {
            let mut command = Command::new(VPMU);
            command.args(["run", "--cpu", cpu, "--demo", "sampling", "--stats", "json"]);
            if traced {
                command.arg("--trace").arg(&path);
            }
            let run = finish(&mut command);
            let text = String::from_utf8(run.stdout).expect("UTF-8");
            let (console, statistics) = text.split_once("\n{").expect("statistics");
            let mut statistics: Value =
                serde_json::from_str(&format!("{{{statistics}")).expect("JSON");
            statistics.as_object_mut().expect("an object").remove("options");
            (console.to_owned(), statistics, run.stderr, run.status.code())
        };
        assert_eq!(run(true), run(false), "{cpu}");
        let first = std::fs::read(&path).expect("the trace");
        assert!(first.len() > 500);
        run(true);
        assert!(std::fs::read(&path).expect("the trace") == first, "{cpu}: equal runs");
        std::fs::remove_file(path).expect("the trace");
    }
    Ok(())
}

fn kinds_are_chosen() -> Verdict {
    let image = interrupted(&K8, VECTOR.into()).expect("a program");
    for (kinds, acts) in [("eoi", 1), ("msr,lvtpc", 4), ("pmi", 2), ("rdpmc,spflt,engine", 1)] {
        let options = [&SOFT[..], &["--trace-only", kinds]].concat();
        let (text, _) = trace(&format!("only-{acts}"), &image, &options);
        assert_eq!(text.lines().count(), 1 + acts, "{text}");
    }
    Ok(())
}

/// A kind that there is not, standard output that is taken, a file that cannot be written.
fn what_cannot_be_is_one_line() -> Verdict {
    for (options, says, status) in [
        (
            &["--trace", "x", "--trace-only", "pmu"][..],
            "[possible values: msr, rdpmc, spflt, overflow, pmi, lvtpc, eoi, engine]",
            2,
        ),
        (&["--trace-only", "pmi"], "--trace <FILE>", 2),
        (&["--trace", "-"], "the console is there; see --serial", 2),
        (
            &["--trace", "-", "--serial", "/dev/null", "--stats", "table"],
            "the statistics go there; see --stats-file and --stats none",
            2,
        ),
        (&["--trace", "/nonexistent/trace"], "cannot write /nonexistent/trace: ", HOST),
    ] {
        let options = [&SOFT[..], options].concat();
        let run = finish(&mut vpmu("trace-one-line", HALT, 0x7C00, &options));
        let text = String::from_utf8_lossy(&run.stderr);
        assert_eq!((text.lines().count(), run.status.code()), (1, Some(status)), "{text}");
        assert!(text.contains(says), "{text}");
    }
    let options = [&SOFT[..], &["--trace", "-", "--serial", "/dev/null"]].concat();
    let run = finish(&mut vpmu("trace-standard-output", HALT, 0x7C00, &options));
    assert_eq!(run.stdout.split(|&byte| byte == b'\n').count(), 3, "a heading and the engine");
    Ok(())
}
