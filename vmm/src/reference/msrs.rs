//! The page of registers.

use std::fmt::Write;

use pmu_model::{
    Access, EnableRule, InitRule, PerfctrWrite, Personality, PmiRule, Programming, Register,
};

use super::cell;

/// What stands above the sections.
const HEAD: &str = "\
# PMU registers

Every model-specific register of every PMU, with its fields, and the rules that go with them. Made by
`vpmu reference msrs` from the data of `pmu-model`; do not edit. [The events](events.md) are on a page
of their own.

Numbers of registers and values are hexadecimal. *Stored* are the bits that a write changes; the
others are ignored and read as zero, unless they are among those that raise #GP.
";

/// The page: a section for the processors that have the same registers and rules.
pub(super) fn page() -> String {
    let mut text = String::from(HEAD);
    let bodies: Vec<_> = Personality::ALL.iter().map(|p| (*p, body(p))).collect();
    for alike in bodies.chunk_by(|a, b| a.1 == b.1) {
        let names: Vec<_> = alike.iter().map(|(personality, _)| personality.name).collect();
        line(&mut text, format_args!("\n## {}\n", names.join(", ")));
        for (personality, _) in alike {
            let Personality { name, part, source, .. } = personality;
            line(&mut text, format_args!("- **{name}**: {part}. {source}."));
        }
        text.extend(alike.first().map(|(_, body)| body.as_str()));
    }
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{line}");
}

/// Rules, registers and fields of one processor.
fn body(personality: &Personality) -> String {
    let mut text = String::new();
    line(&mut text, format_args!("\n| Rule | |\n|---|---|"));
    for (name, rule) in rules(personality) {
        line(&mut text, format_args!("| {name} | {} |", cell(&rule)));
    }
    line(&mut text, format_args!("\n| MSR | Name | Access | After reset | Stored | #GP |"));
    line(&mut text, format_args!("|---|---|---|---|---|---|"));
    for register in personality.registers {
        let Register { msr, name, access, reset, stored, faulting, .. } = register;
        let access = self::access(*access);
        let faulting = if *faulting == 0 { String::new() } else { format!("`{faulting:X}`") };
        line(
            &mut text,
            format_args!(
                "| `{msr:X}` | {name} | {access} | `{reset:X}` | `{stored:X}` | {faulting} |"
            ),
        );
    }
    let mut registers: Vec<_> = personality.registers.iter().collect();
    while let Some(first) = registers.first().copied() {
        let (alike, others): (Vec<_>, Vec<_>) =
            registers.into_iter().partition(|register| register.fields == first.fields);
        write_fields(&mut text, &alike);
        registers = others;
    }
    text
}

/// The fields of registers that have the same.
fn write_fields(text: &mut String, registers: &[&Register]) {
    let names: Vec<_> = registers.iter().map(|register| register.name).collect();
    line(text, format_args!("\n**{}**\n\n| Bits | Name | Meaning |", names.join(", ")));
    line(text, format_args!("|---|---|---|"));
    for field in registers.first().into_iter().flat_map(|register| register.fields.iter().rev()) {
        let bits = if field.high == field.low {
            field.low.to_string()
        } else {
            format!("{}:{}", field.high, field.low)
        };
        line(text, format_args!("| {bits} | {} | {} |", field.name, cell(field.meaning)));
    }
}

const fn access(access: Access) -> &'static str {
    match access {
        Access::ReadWrite => "read, write",
        Access::ReadOnly => "read; WRMSR raises #GP",
        Access::WriteOnly => "write; RDMSR raises #GP",
    }
}

/// What the registers do, in words.
fn rules(personality: &Personality) -> Vec<(&'static str, String)> {
    let mut rules = vec![
        ("Counters", format!("{}, of {} bits", personality.counters, personality.width)),
        ("Runs while", enable(personality)),
        ("Privilege levels", privilege(personality)),
    ];
    if personality.cmask_max > 0 {
        rules.push(("Threshold", threshold(personality)));
    }
    rules.extend([
        ("Write to a counter", perfctr_write(personality)),
        ("RDPMC", rdpmc(personality)),
        ("Overflow", pmi(personality.pmi).into()),
    ]);
    if personality.pmi != PmiRule::PinsOnly {
        let delivery = if personality.lvtpc_auto_mask {
            "sets the mask bit of LVTPC; the handler has to clear it"
        } else {
            "leaves the mask bit of LVTPC clear"
        };
        rules.push(("Delivery of the interrupt", delivery.into()));
    }
    rules.push(("INIT", init(personality.init).into()));
    if let Some(northbridge) = personality.northbridge {
        let (first, last) = (northbridge.first, northbridge.last);
        let what = format!(
            "codes {first:02X}h to {last:02X}h are counted by hardware that the cores of a node \
             share; cores a node here: {}",
            northbridge.cores_per_node
        );
        rules.push(("Northbridge events", what));
    }
    rules
}

fn enable(personality: &Personality) -> String {
    match (personality.programming, personality.enable) {
        (Programming::Cesr, _) => "its CC field of CESR names a privilege level".into(),
        (Programming::PerfEvtSel, EnableRule::Own) => "EN of its own event select is set".into(),
        (Programming::PerfEvtSel, EnableRule::First) => {
            "EN of the first event select is set, for all counters; EN of the others has no function"
                .into()
        }
        (Programming::PerfEvtSel, EnableRule::Global) => {
            "EN of its event select and its bit of IA32_PERF_GLOBAL_CTRL are set, and, if its bit of \
             PERF_SPFLT_CONTROL is set, USER_PREF too"
                .into()
        }
    }
}

fn privilege(personality: &Personality) -> String {
    let user = personality.usr_min_cpl;
    let range = |low: u8, high: u8| match low == high {
        true => format!("CPL {low}"),
        false => format!("CPL {low} to {high}"),
    };
    let (user, system) = (range(user, 3), range(0, user.saturating_sub(1)));
    match personality.programming {
        Programming::PerfEvtSel => format!("USR counts at {user}, OS at {system}"),
        Programming::Cesr => {
            format!("bit 1 of CC counts at {user}, bit 0 at {system}; bit 2 counts clocks")
        }
    }
}

fn threshold(personality: &Personality) -> String {
    let (max, per_cycle) = (personality.cmask_max, personality.max_events_per_cycle);
    let mut text = String::from(
        "0 adds the events of a clock; n adds 1 in a clock with at least n of them, with INV in one \
         with fewer; INV is ignored with 0",
    );
    if max < u8::MAX {
        let _ = write!(text, "; {} to 255 are reserved", max + 1);
    }
    if per_cycle < u8::MAX {
        let _ = write!(text, "; more than {per_cycle} is never reached");
    }
    text
}

fn perfctr_write(personality: &Personality) -> String {
    let top = personality.width - 1;
    match personality.perfctr_write {
        PerfctrWrite::Whole => format!("sets bits {top}:0; those above are ignored"),
        PerfctrWrite::SignExtended32 => format!(
            "sets bits 31:0; bits {top}:32 become copies of bit 31, those of the operand are ignored"
        ),
    }
}

fn rdpmc(personality: &Personality) -> String {
    let mut text = format!(
        "ECX is 0 to {}; any other, or CR4.PCE clear above CPL 0 in protected mode, raises #GP. \
         EDX:EAX is the counter, extended by zeros",
        personality.counters - 1
    );
    if personality.rdpmc_32bit_in_16bit_code {
        text += "; in 16-bit code only its bits 31:0";
    }
    text
}

const fn pmi(rule: PmiRule) -> &'static str {
    match rule {
        PmiRule::EachOverflow => "asserts LVTPC if INT is set, each overflow once",
        PmiRule::StatusEdge => {
            "sets the counter's bit of IA32_PERF_GLOBAL_STATUS, with INT or without. The overflow that \
             makes the status leave zero asserts LVTPC if its INT is set; those after it do not, until \
             IA32_PERF_GLOBAL_OVF_CTRL has cleared all of the status"
        }
        PmiRule::PinsOnly => {
            "toggles the counter's pin, PM0 or PM1, if PC is set, where else each increment does; it \
             cannot interrupt"
        }
    }
}

const fn init(rule: InitRule) -> &'static str {
    match rule {
        InitRule::Keeps => "leaves every register as it is",
    }
}
