//! What a run did, as a table for people or as JSON.

use std::fmt::Write as _;

use pmu_model::explain::selection_words;
use pmu_model::{
    Availability, CounterStats, EventDef, Fidelity, Personality, PmiRule, Pmu, RdpmcCaller, Select,
    Selected, Selection, Tally,
};
use serde::Serialize;
use x86_cpu::block::Translated;

use crate::engine::kvm::host_events;
use crate::engine::soft::Vcpu;
use crate::engine::{ASKED_FOR, Count};
use crate::error::{Error, Result};
use crate::machine::{End, Machine};
use crate::notes::Note;

/// The statistics of a run. Fields are in the order in which they are printed. Without KVM nothing in
/// it depends on the host.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// Personality.
    pub cpu: &'static str,
    /// What executed the guest.
    pub engine: &'static str,
    /// Why that.
    pub engine_reason: String,
    /// What the counters counted by.
    pub counting: Count,
    /// Whose clock virtual time is on the software engine: `auto`, `model` or `flat`; none without models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<&'static str>,
    /// When the models of the micro-architecture are told of execution: `counting` or `always`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm: Option<&'static str>,
    /// How the run ended, in one word.
    pub end: &'static str,
    /// Exit status that stands for it.
    pub status: u8,
    /// Processor clock in Hz.
    pub clock_hz: u64,
    /// Virtual time in cycles.
    pub cycles: u64,
    /// The code that the software engine has translated.
    pub translated: TranslatedSummary,
    /// The processors.
    pub vcpus: Vec<VcpuSummary>,
    /// Why counters did not count, or their interrupts did not come.
    pub notes: Vec<Note>,
}

/// Blocks of translated code, for plain, counted and recorded execution together. One that is executed
/// both counted and not is translated for each.
#[derive(Debug, Serialize)]
pub struct TranslatedSummary {
    /// How many were translated: each when it was executed first, and again when it was executed after
    /// it had been dropped. Code in no RAM is translated each time, and so is all with `--no-cache`.
    pub blocks: u64,
    /// Of these, dropped because code was overwritten.
    pub overwritten: u64,
}

/// The statistics of one processor.
#[derive(Debug, Serialize)]
pub struct VcpuSummary {
    /// Its number.
    pub id: usize,
    /// Instructions retired; on KVM those that the software CPU executed.
    pub instructions: u64,
    /// Cycles not halted; likewise.
    pub cycles: u64,
    /// Cycles halted; likewise.
    pub halted_cycles: u64,
    /// Cycles that passed while KVM executed it.
    #[serde(skip_serializing_if = "is_zero")]
    pub native_cycles: u64,
    /// Its counters.
    pub counters: Vec<CounterSummary>,
    /// Events that a counter was enabled with and that count zero, wholly or in part.
    pub uncounted: Vec<Uncounted>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// The use of one counter.
#[derive(Debug, Serialize)]
pub struct CounterSummary {
    /// Its number.
    pub index: usize,
    /// What it is programmed to at the end: its event select without `EN`, or its half of CESR.
    pub select: u64,
    /// Whether it counts at the end.
    pub enabled: bool,
    /// Value at the end.
    pub value: u64,
    /// What it was programmed to count, in the order of first use.
    pub selections: Vec<SelectionSummary>,
    /// What it counted under further selections.
    pub others: Tally,
}

/// What a counter did under one selection.
#[derive(Debug, Serialize)]
pub struct SelectionSummary {
    /// Event select without `EN`, or half of CESR.
    pub select: u64,
    /// The same in words.
    pub words: String,
    /// How often the counter's PM pin toggled, where that is all that it can do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin_toggles: Option<u64>,
    /// How well the host's event matches, if it is the host that counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostMatch>,
    /// Counts.
    #[serde(flatten)]
    pub tally: Tally,
}

/// How well an event of the host stands for one of the personality.
#[derive(Debug, Serialize)]
pub struct HostMatch {
    /// In one word.
    pub fidelity: Fidelity,
    /// Why no better; empty if exact.
    pub note: &'static str,
}

/// An event that does not wholly count.
#[derive(Debug, Serialize)]
pub struct Uncounted {
    /// Event code.
    pub code: u8,
    /// Name; empty for a reserved code.
    pub event: &'static str,
    /// Why.
    pub reason: &'static str,
}

impl Summary {
    /// The statistics of a machine that has run.
    #[must_use]
    pub fn new(personality: &'static Personality, machine: &Machine, end: End) -> Self {
        let vcpus = machine.vcpus().iter().enumerate();
        let Translated { blocks, overwritten } = machine.translated();
        Self {
            cpu: personality.name,
            engine: machine.choice().engine,
            engine_reason: machine.choice().reason.clone(),
            counting: machine.count(),
            timing: machine.timing().map(|(timing, _)| timing.name()),
            warm: machine.timing().map(|(_, warm)| warm.name()),
            end: end.name(),
            status: end.status(),
            clock_hz: machine.clock_hz(),
            cycles: machine.time(),
            translated: TranslatedSummary { blocks, overwritten },
            vcpus: vcpus
                .map(|(id, vcpu)| vcpu_summary(personality, machine.count(), id, vcpu))
                .collect(),
            notes: Note::all(machine),
        }
    }

    /// As JSON.
    ///
    /// # Errors
    /// Never in practice: all keys are strings.
    pub fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|e| Error::Host(e.to_string()).because(e))
    }

    /// As a table.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        let microseconds = u128::from(self.cycles) * 1_000_000 / u128::from(self.clock_hz.max(1));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}: {} (status {}) after {}.{:06} s of virtual time",
            self.cpu,
            self.end,
            self.status,
            microseconds / 1_000_000,
            microseconds % 1_000_000
        );
        // An engine that was asked for is not mentioned, unless it is not the default.
        if self.engine != "soft" || self.engine_reason != ASKED_FOR {
            let _ = writeln!(text, "engine: {} ({})", self.engine, self.engine_reason);
        }
        match self.counting {
            Count::Exact => {}
            Count::Host => text
                .push_str("counting: host (by the host's counters, while the guest runs on KVM)\n"),
            Count::Off => text.push_str("counting: off (all counters stood still)\n"),
        }
        if let (Some(timing), Some(warm)) = (self.timing, self.warm)
            && (timing, warm) != ("auto", "counting")
        {
            let _ = writeln!(text, "timing: {timing}, warm: {warm}");
        }
        let TranslatedSummary { blocks, overwritten } = self.translated;
        let _ = writeln!(
            text,
            "translated: {blocks} blocks, {overwritten} of them dropped when code was overwritten"
        );
        for vcpu in &self.vcpus {
            write_vcpu(&mut text, self.counting, vcpu);
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }
}

fn write_vcpu(text: &mut String, counting: Count, vcpu: &VcpuSummary) {
    let VcpuSummary { id, instructions, cycles, halted_cycles, native_cycles, .. } = vcpu;
    let _ = write!(
        text,
        "vcpu {id}: {instructions} instructions, {cycles} cycles, {halted_cycles} halted"
    );
    if *native_cycles > 0 {
        let counted = if counting == Count::Host { "" } else { ", not counted" };
        let _ = write!(text, "; {native_cycles} cycles on the host's processor{counted}");
    }
    text.push('\n');
    if vcpu.counters.iter().any(|counter| !counter.selections.is_empty()) {
        let _ = writeln!(
            text,
            "  ctr {:>20} {:>16} {:>9} {:>9}  event",
            "count", "enabled cycles", "overflows", "pmis"
        );
    }
    for counter in &vcpu.counters {
        for selection in &counter.selections {
            write_row(text, counter.index, &selection.tally, &selection.words);
            if let Some(toggles) = selection.pin_toggles {
                let _ = writeln!(text, "      pin PM{} toggled {toggles} times", counter.index);
            }
            if let Some(HostMatch { fidelity, note }) = &selection.host {
                let sep = if note.is_empty() { "" } else { ": " };
                let _ = writeln!(text, "      {} on the host{sep}{note}", fidelity.name());
            }
        }
        if counter.others != Tally::default() {
            write_row(text, counter.index, &counter.others, "(further selections)");
        }
        if !counter.selections.is_empty() {
            let _ = writeln!(
                text,
                "  {:>3} ends as {:#014x}, select {:#x}, {}",
                counter.index,
                counter.value,
                counter.select,
                if counter.enabled { "enabled" } else { "disabled" }
            );
        }
    }
}

fn write_row(text: &mut String, counter: usize, tally: &Tally, words: &str) {
    let Tally { count, overflows, pmis, enabled_cycles } = tally;
    let _ = writeln!(
        text,
        "  {counter:>3} {count:>20} {enabled_cycles:>16} {overflows:>9} {pmis:>9}  {words}"
    );
}

fn vcpu_summary(
    personality: &'static Personality,
    counting: Count,
    id: usize,
    vcpu: &Vcpu,
) -> VcpuSummary {
    VcpuSummary {
        id,
        instructions: vcpu.cpu.retired(),
        cycles: vcpu.cpu.time - vcpu.halted_cycles - vcpu.native_cycles,
        halted_cycles: vcpu.halted_cycles,
        native_cycles: vcpu.native_cycles,
        counters: (0..personality.counters)
            .map(|index| counter_summary(personality, counting, index, &vcpu.pmu))
            .collect(),
        uncounted: uncounted_by(counting, personality, &vcpu.pmu),
    }
}

fn counter_summary(
    personality: &'static Personality,
    counting: Count,
    index: usize,
    pmu: &Pmu,
) -> CounterSummary {
    let stats = pmu.counter_stats(index);
    let selections = stats.as_ref().map_or(&[][..], CounterStats::selections);
    CounterSummary {
        index,
        select: pmu.select(index).map_or(0, |select| select.word),
        enabled: pmu.select(index).is_some_and(|select| select.enabled),
        // The owner reads as the kernel would.
        value: u32::try_from(index)
            .ok()
            .and_then(|index| pmu.rdpmc(index, RdpmcCaller::default()).ok())
            .unwrap_or(0),
        selections: selections
            .iter()
            .map(|selection| SelectionSummary {
                select: selection.word,
                words: selection_words(personality, index, selection.word),
                host: host_match(counting, personality, index, selection),
                pin_toggles: pin_toggles(personality, index, selection),
                tally: selection.tally,
            })
            .collect(),
        others: stats.as_ref().map(CounterStats::others).unwrap_or_default(),
    }
}

/// The toggles of the pin under one selection, of a processor whose counters cannot interrupt.
fn pin_toggles(
    personality: &'static Personality,
    counter: usize,
    selection: &Selection,
) -> Option<u64> {
    let select = Select::from_word(personality, selection.word, counter);
    (personality.pmi == PmiRule::PinsOnly).then(|| selection.tally.pin_toggles(&select))
}

/// How well the host's event matches that was counted under one selection; `None` if it was not.
fn host_match(
    counting: Count,
    personality: &'static Personality,
    counter: usize,
    selection: &Selection,
) -> Option<HostMatch> {
    let select = Select::from_word(personality, selection.word, counter);
    let row = host_events::find(host_events::TABLE, personality, counter, &select)
        .filter(|_| counting == Count::Host)?;
    Some(HostMatch { fidelity: row.fidelity, note: row.note })
}

/// The reason of an event with a unit mask that it does not have, or on a counter that cannot count it.
pub(crate) const NOT_HERE: &str = "not on this counter or unit mask";

/// What was enabled and does not count, all of it or in part.
pub(crate) fn uncounted_by(
    counting: Count,
    personality: &'static Personality,
    pmu: &Pmu,
) -> Vec<Uncounted> {
    let reason = match counting {
        Count::Exact => {
            return pmu.uncounted().iter().map(|what| uncounted(personality, pmu, what)).collect();
        }
        Count::Host => "on the host, no event means the same: counts zero",
        Count::Off => "counting is off: counts zero",
    };
    let mut rows: Vec<Uncounted> = Vec::new();
    for counter in 0..personality.counters {
        let stats = pmu.counter_stats(counter);
        for selection in stats.as_ref().map_or(&[][..], CounterStats::selections) {
            let select = Select::from_word(personality, selection.word, counter);
            let event = personality.event(select.event, select.umask, counter);
            let name = event.map_or("", |event| event.name);
            let counts = host_match(counting, personality, counter, selection).is_some();
            if !counts && !rows.iter().any(|row| (row.code, row.event) == (select.event, name)) {
                rows.push(Uncounted { code: select.event, event: name, reason });
            }
        }
    }
    rows
}

fn uncounted(personality: &'static Personality, pmu: &Pmu, selected: Selected) -> Uncounted {
    let live = pmu.live();
    let event = selected.event(personality);
    let of_masks = |event: &'static EventDef| {
        let masks = selected_masks(personality, pmu, event);
        let mut of_masks = masks.map(|mask| event.availability_of(mask, live));
        of_masks.find(|&of_mask| of_mask != Availability::Live)
    };
    let reason = match event.map(|event| (event.availability(live), of_masks(event))) {
        None => "reserved, counts nothing",
        Some((Availability::Pending, _)) => "pending in this version, counts zero",
        Some((Availability::Absent, _)) => "absent in this machine, counts zero",
        Some((_, Some(Availability::Pending))) => {
            "pending in this version with this unit mask, counts zero"
        }
        Some((_, Some(Availability::Absent))) => {
            "absent in this machine with this unit mask, counts zero"
        }
        Some((Availability::Partial, _) | (_, Some(Availability::Partial))) => {
            "some unit masks are pending in this version, count zero"
        }
        Some(_) => NOT_HERE,
    };
    Uncounted {
        code: selected.code(personality),
        event: event.map_or("", |event| event.name),
        reason,
    }
}

/// The unit masks that an event was enabled with.
fn selected_masks(
    personality: &'static Personality,
    pmu: &Pmu,
    event: &'static EventDef,
) -> impl Iterator<Item = u8> {
    (0..personality.counters).flat_map(move |counter| {
        let stats = pmu.counter_stats(counter);
        let selections = stats.as_ref().map_or(&[][..], CounterStats::selections);
        let selects = selections
            .iter()
            .map(|selection| Select::from_word(personality, selection.word, counter))
            .filter(|select| {
                let row = personality.event(select.event, select.umask, counter);
                row.is_some_and(|row| std::ptr::eq(row, event))
            });
        selects.map(|select| select.umask).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use pmu_model::Tier;

    use super::*;
    use crate::boot::memory::RamLayout;
    use crate::boot::{Image, Payload};
    use crate::config::Config;
    use crate::console::Console;
    use crate::engine::soft::TIER;
    use crate::truth::record::Recorder;

    /// A loop that patches a function in another page five times and calls it: the first time there is
    /// no code yet, the other four drop the function. Translated are the function five times and once
    /// CLI to CALL, DEC with JNZ, MOV with CALL, the CALL on which the guest goes on behind a patch, and
    /// HLT; by the recorder as well.
    #[test]
    fn what_was_translated_is_said_whoever_executed() {
        let mut code = vec![
            0xFA, // 7C00h: CLI
            0xB9, 5, 0, // MOV CX, 5
            0x89, 0x0E, 0x01, 0x90, // 7C04h: MOV [9001h], CX
            0xE8, 0xF5, 0x13, // CALL 9000h
            0x49, // 7C0Bh: DEC CX
            0x75, 0xF6, // JNZ 7C04h
            0xF4, // HLT
        ];
        code.resize(0x1400, 0);
        // 9000h: MOV AX, 0; RET
        code.extend([0xB8, 0, 0, 0xC3]);
        let image = Image { name: "test".into(), bytes: code };
        let ram = RamLayout::new(2 << 20, None).unwrap();
        let payload = Payload::Flat { image, address: 0x7C00 };
        let config = Config::new("k8", ram, payload).unwrap();
        for recorded in [false, true] {
            let mut machine = Machine::new(&config).unwrap();
            if recorded {
                let recorder = Recorder::new(config.personality, "instructions").unwrap();
                machine.record(recorder).unwrap();
            }
            let mut console = Console::to("nowhere".into(), Box::new(std::io::sink()));
            let end = machine.run(config.limits, &mut console).unwrap();
            assert_eq!((end, machine.vcpus()[0].cpu.gpr(0) & 0xFFFF), (End::Halted, 1));
            assert_eq!(machine.recorded().unwrap().is_some(), recorded);
            let summary = Summary::new(config.personality, &machine, end);
            let json: serde_json::Value = serde_json::from_str(&summary.json().unwrap()).unwrap();
            let expected = serde_json::json!({ "blocks": 5 + 5, "overwritten": 4 });
            assert_eq!(json["translated"], expected, "recorded: {recorded}");
            let line = "translated: 10 blocks, 4 of them dropped when code was overwritten\n";
            assert!(summary.table().contains(line), "{}", summary.table());
        }
    }

    /// Section 10.2: C0h with E (bit 18), 41h (a cache) and 76h, with EN, OS and USR. Of these, hosts
    /// have cycles.
    #[test]
    fn what_the_host_does_not_count_is_named_and_the_rest_judged() {
        let k8 = Personality::by_name("k8").unwrap();
        let mut pmu = Pmu::without_demand(k8);
        for (index, value) in (0xC001_0000..).zip([0x47_00C0, 0x43_0041, 0x43_0076]) {
            pmu.write_msr(index, value);
        }
        let codes = |counting| {
            uncounted_by(counting, k8, &pmu).iter().map(|row| row.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(Count::Host), [0xC0, 0x41]);
        assert_eq!(codes(Count::Off), [0xC0, 0x41, 0x76]);
        let fidelity = |counting, index| {
            let summary = counter_summary(k8, counting, index, &pmu);
            summary.selections[0].host.as_ref().map(|host| host.fidelity)
        };
        assert_eq!(fidelity(Count::Host, 2), Some(Fidelity::Modelled));
        assert_eq!((fidelity(Count::Host, 0), fidelity(Count::Off, 2)), (None, None));
    }

    /// Section 10.2: C1h needs a pipeline, which the instruction set alone has not; 4Ah is errors of memory;
    /// C2h has no unit mask.
    #[test]
    fn what_does_not_count_is_named() {
        let k8 = Personality::by_name("k8").unwrap();
        let row =
            |code| Selected::Row(k8.events.iter().position(|event| event.code == code).unwrap());
        let pmu = Pmu::new(k8, k8.live.of(Tier::InstructionSet));
        let reason = |selected| uncounted(k8, &pmu, selected).reason;
        assert_eq!(reason(row(0xC1)), "pending in this version, counts zero");
        assert_eq!(reason(row(0x4A)), "absent in this machine, counts zero");
        assert_eq!(reason(Selected::Reserved(0x1F)), "reserved, counts nothing");
        assert_eq!(selection_words(k8, 0, 0x11_00C2), "RETIRED_BRANCH_INSTRUCTIONS:u:int");
    }

    /// Section 10.2: of 43h, refills in state Invalid (mask 01h) occur nowhere, those in state Shared count.
    /// 4Ch has unit mask 02h only.
    #[test]
    fn an_absent_unit_mask_of_a_live_event_is_named() {
        let k8 = Personality::by_name("k8").unwrap();
        let notes = |value| {
            let mut pmu = Pmu::new(k8, k8.live.of(TIER));
            pmu.write_msr(0xC001_0000, value);
            let rows = uncounted_by(Count::Exact, k8, &pmu);
            rows.iter().map(|row| (row.code, row.reason)).collect::<Vec<_>>()
        };
        let absent = "absent in this machine with this unit mask, counts zero";
        assert_eq!(notes(0x43_0143), [(0x43, absent)]);
        assert_eq!(notes(0x43_0243), []);
        assert_eq!(notes(0x43_014C), [(0x4C, "not on this counter or unit mask")]);
    }
}
