//! What is known of interrupts by their vectors, and what becomes of what cannot be written.

use std::path::Path;

use iced_x86::IcedError;
use iced_x86::code_asm::{dx, eax, edx};
use pmu_model::Personality;

use super::*;
use crate::boot::Payload;
use crate::console::Console;
use crate::devices::debug_exit::DEBUG_EXIT;
use crate::machine::{End, Machine};
use crate::program::{Image, Program};
use crate::snapshot::Snapshot;
use crate::turns::tests::machine;

fn subject() -> Subject {
    let personality = Personality::by_name("k8").unwrap();
    Subject { personality, clock_hz: 2_000_000_000, vcpus: 2 }
}

const AT: At = At { time: 3, code: None, retired: None };

/// The file's ending says how, unless the command line does.
#[test]
fn the_form_follows_from_the_name() {
    for (name, form) in [
        ("trace.jsonl", Form::Json),
        ("trace.json", Form::Perfetto),
        ("trace.txt", Form::Text),
        ("trace", Form::Text),
        (".json", Form::Text),
        ("-", Form::Text),
    ] {
        assert_eq!(Form::of(Path::new(name)), form, "{name}");
    }
}

/// A device that is always full takes nothing: that is told at the end.
#[test]
fn what_cannot_be_written_is_told_at_the_end() {
    let asked = Asked { path: Path::new("/dev/full"), form: Form::Text, kinds: &[] };
    let mut tracer = Tracer::new(&asked, subject(), &Stop::new().unwrap()).unwrap();
    for _ in 0..10_000 {
        tracer.report(0, AT, Act::Eoi { vector: 0x40 });
    }
    let error = tracer.finish().unwrap_err();
    assert_eq!(error.status(), 6);
    assert!(error.to_string().starts_with("cannot write /dev/full: No space left"), "{error}");
}

/// K8's PerfEvtSel0 and PerfCtr0 (BKDG, "Performance Event-Select Register"): retired instructions at all levels, with an
/// interrupt. Local APIC: EOI and LVTPC.
const SELECT: u32 = 0xC001_0000;
const COUNTER: u32 = 0xC001_0004;
const COUNTS: u64 = 0xC0 | 3 << 16 | 1 << 20 | 1 << 22;
const EOI: i32 = 0xB0;
const LVTPC: i32 = 0x340;

/// A counter overflows while interrupts are disabled, and again, with an NMI.
fn interrupted_guest() -> std::result::Result<Image, IcedError> {
    let mut program = Program::new()?;
    let p = &mut program;
    let mut first = p.create_label();
    p.jmp(first)?;
    let interrupt = p.here()?;
    p.gate(0x40, interrupt, 0);
    p.nop()?;
    p.write_lapic(EOI, 0)?;
    p.iretd()?;
    let nmi = p.here()?;
    p.gate(2, nmi, 0);
    p.nop()?;
    p.iretd()?;
    p.place(&mut first)?;
    for lvtpc in [0x40, 4 << 8] {
        p.cli()?;
        p.write_lapic(LVTPC, lvtpc)?;
        p.write_msr(COUNTER, 10_u64.wrapping_neg())?;
        p.write_msr(SELECT, COUNTS)?;
        for _ in 0..20 {
            p.nop()?;
        }
        p.sti()?;
        for _ in 0..20 {
            p.nop()?;
        }
        p.write_msr(SELECT, 0)?;
    }
    p.mov(edx, u32::from(DEBUG_EXIT))?;
    p.xor(eax, eax)?;
    p.out(dx, eax)?;
    program.finish()
}

/// Runs a machine to its end or behind so many instructions: what is traced meanwhile, but for who has the processor.
fn traced(machine: &mut Machine, name: &str, instructions: Option<u64>) -> (End, Vec<String>) {
    let path = std::env::temp_dir().join(format!("vpmu-{name}-{}", std::process::id()));
    let kinds = [Kind::Msr, Kind::Overflow, Kind::Pmi, Kind::Lvtpc, Kind::Eoi];
    let asked = Asked { path: &path, form: Form::Json, kinds: &kinds };
    let stop = Stop::new().unwrap();
    let subject = machine.subject(machine.vcpus()[0].pmu.personality());
    machine.trace(Tracer::new(&asked, subject, &stop).unwrap());
    let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
    let end = machine.run_until(&stop, instructions, &mut console).unwrap();
    machine.end_trace().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    (end, text.lines().map(str::to_owned).collect())
}

/// Behind every instruction, a machine that is made of a snapshot goes on with a trace of its own: both have what one has
/// of the run that was not cut, with the delivery of an interrupt that was sent before the cut, and with its end.
#[test]
fn a_trace_goes_on_from_a_snapshot() {
    let image = interrupted_guest().unwrap();
    let (end, whole) = traced(&mut machine("k8", 1, &image.bytes), "whole", None);
    assert_eq!(end, End::Exit(1));
    let of = |act: &str| whole.iter().filter(|line| line.contains(act)).count();
    let acts = ["\"sent\"", "\"delivered\"", "\"eoi\",\"vector\":64"];
    assert_eq!(acts.map(of), [2, 2, 1], "{whole:#?}");
    let mut between = 0;
    for cut in 1.. {
        let mut one = machine("k8", 1, &image.bytes);
        let (end, mut acts) = traced(&mut one, "first", Some(cut));
        if end != End::Instructions {
            break;
        }
        between += u32::from(one.board.chipset.irq.lapic(0).has_untaken_pmi());
        let snapshot = Snapshot::from_bytes(&one.snapshot().to_bytes()).unwrap();
        let config = snapshot.identity.clone().config(Payload::Snapshot(snapshot)).unwrap();
        let (_, later) = traced(&mut Machine::new(&config).unwrap(), "later", None);
        acts.extend(later);
        assert!(acts == whole, "cut behind {cut}: {acts:#?}");
    }
    assert!(between > 10, "cut between sent and delivered: {between}");
}
