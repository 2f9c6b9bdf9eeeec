//! A dump as text: a line a fact. Processors of which the same is to be said share the lines.

use super::{Activity, DebugDump, Delivery, Exception, Place, Undefined, VcpuDump};
use crate::msr_owners::named;
use crate::wording::{listed, numbers};

/// Of so many groups of processors the exceptions are printed.
const DETAILED: usize = 8;

/// Processors of which the same is to be said.
struct Group {
    ids: Vec<usize>,
    header: String,
    details: Vec<String>,
}

impl DebugDump {
    /// Lines for people, without the notes. Those that begin with two blanks belong to the processors
    /// before them.
    #[must_use]
    pub fn text(&self) -> Vec<String> {
        let mut groups: Vec<Group> = Vec::new();
        for vcpu in &self.vcpus {
            let (header, details) = (header(vcpu), self.details(vcpu));
            let alike = |group: &&mut Group| group.header == header && group.details == details;
            match groups.iter_mut().find(alike) {
                Some(group) => group.ids.push(vcpu.id),
                None => groups.push(Group { ids: vec![vcpu.id], header, details }),
            }
        }
        let mut lines = Vec::new();
        for (n, Group { ids, header, details }) in groups.into_iter().enumerate() {
            let more =
                if n < DETAILED || details.is_empty() { "" } else { "; more with --debug-dump" };
            lines.push(format!("{}: {header}{more}", numbers(&ids)));
            if n < DETAILED {
                lines.extend(details.into_iter().map(|line| format!("  {line}")));
            }
        }
        if !self.all_exceptions_seen {
            lines.push(
                "exceptions that KVM delivers in the guest are not seen; --engine soft has them all".into(),
            );
        }
        lines
    }

    /// What there is to say of a processor besides where it is.
    fn details(&self, vcpu: &VcpuDump) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(gave_up) = &vcpu.gave_up {
            lines.push(format!(
                "halted {} instructions behind CPUID {:X}h; {} lacks {}: see --isa distro",
                gave_up.instructions_before,
                gave_up.cpuid,
                self.cpu,
                gave_up.lacks.join(", ")
            ));
        }
        let stack = &vcpu.stack;
        let executes = matches!(vcpu.activity, Activity::Executing | Activity::ShutDown);
        if executes && !stack.is_ram {
            let what = match stack.physical {
                None => "no page is mapped".into(),
                Some(physical) if physical == stack.linear => "there is no memory".into(),
                Some(physical) => format!("there is no memory, at physical {physical:x}h"),
            };
            let (ss, rsp, linear) = (stack.ss, stack.rsp, stack.linear);
            lines.push(format!(
                "stack pointer {ss:04x}:{rsp:08x}: the next push is to {linear:x}h, where {what}"
            ));
        }
        self.exceptions(vcpu, &mut lines);
        lines
    }

    /// The exceptions of a processor. Equal ones in a row are one line, and so are those that came of one
    /// that could not be delivered.
    fn exceptions(&self, vcpu: &VcpuDump, lines: &mut Vec<String>) {
        let failed = |e: &Exception| matches!(e.delivery, Delivery::Failed { .. });
        let follows = |a: &Exception, b: &Exception| failed(a) && failed(b) && a.at == b.at;
        let mut last: Option<(String, usize)> = None;
        for chain in vcpu.exceptions.chunk_by(follows) {
            let [first, rest @ ..] = chain else { continue };
            let line = self.exception(first, vcpu);
            match &mut last {
                Some((same, times)) if *same == line && rest.is_empty() => *times += 1,
                _ => lines.extend(last.replace((line, 1)).map(repeated)),
            }
            let then: Vec<_> = rest.iter().map(|e| with_code(&name(e), e.error_code)).collect();
            let then: Vec<_> = then.iter().map(String::as_str).collect();
            if !then.is_empty() {
                lines.extend(last.take().map(repeated));
                lines.push(format!("then {}, not delivered either", listed(&then)));
            }
        }
        lines.extend(last.map(repeated));
    }

    fn exception(&self, exception: &Exception, vcpu: &VcpuDump) -> String {
        let Exception { error_code, cr2, at, delivery, msr, undefined, .. } = exception;
        let mut line = with_code(&name(exception), *error_code);
        if let Some(at) = at {
            line += &format!(" at {}", place(at));
        }
        if let Some(cr2) = cr2 {
            line += &format!(", CR2 {cr2:x}h");
        }
        if let Some(msr) = msr {
            let access = match msr.written {
                Some(value) => format!("WRMSR {:X}h = {value:x}h", msr.index),
                None => format!("RDMSR {:X}h", msr.index),
            };
            line += &format!(": {access}: {}", self.owners(msr));
        }
        // The instruction itself is in the line above, if the processor is there.
        if let Some(undefined) = undefined.as_ref()
            && (!undefined.needs.is_empty() || *at != Some(vcpu.at.clone()))
        {
            line += &self.undefined(undefined);
        }
        match delivery {
            Delivery::Delivered | Delivery::Unseen => {}
            Delivery::Failed { why: Some(why), .. } => line += &format!("; not delivered: {why}"),
            Delivery::Failed { name, error_code, why: None, .. } => {
                line += &format!("; not delivered, for {}", with_code(name, *error_code));
            }
        }
        line
    }

    /// Who has a register.
    fn owners(&self, msr: &super::RefusedMsr) -> String {
        let index = msr.index;
        if msr.owners.is_empty() {
            return format!("no processor here has {index:X}h");
        }
        if let Some(own) = msr.owners.iter().find(|owner| owner.cpus.contains(&self.cpu)) {
            let what = if msr.written.is_some() { "take that value" } else { "let itself be read" };
            return format!("{index:X}h is {}, which does not {what}", own.name);
        }
        format!("{index:X}h is {}; this is {}", named(&msr.owners), self.cpu)
    }

    fn undefined(&self, undefined: &Undefined) -> String {
        let Undefined { instruction, needs, with_distro } = undefined;
        let mut text = format!(": {}", instruction.text);
        if !needs.is_empty() {
            text += &format!(" needs {}, which {} lacks", needs.join(" and "), self.cpu);
        }
        if *with_distro {
            text += ": see --isa distro";
        }
        text
    }
}

/// What an exception is called.
fn name(exception: &Exception) -> String {
    match exception.name {
        "#?" => format!("vector {}", exception.vector),
        name => name.into(),
    }
}

fn repeated((line, times): (String, usize)) -> String {
    if times == 1 { line } else { format!("{line} ({times} times)") }
}

/// Where a processor is, and in which mode.
fn header(vcpu: &VcpuDump) -> String {
    let VcpuDump { at, cpl, mode, interrupts_enabled, .. } = vcpu;
    let place = place(at);
    let flag = if *interrupts_enabled { "IF set" } else { "IF clear" };
    match vcpu.activity {
        Activity::WaitingForStartup => "waiting for a start-up IPI".into(),
        Activity::Halted if *interrupts_enabled => {
            format!(
                "halted by HLT, IF set: waiting for an interrupt; CPL {cpl}, {mode}, next {place}"
            )
        }
        Activity::Halted => format!(
            "halted by HLT with IF clear: no interrupt wakes it; CPL {cpl}, {mode}, next {place}"
        ),
        Activity::Executing | Activity::ShutDown => {
            let instruction = match &vcpu.instruction {
                Some(instruction) => instruction.text.as_str(),
                None => "no RAM there",
            };
            format!("at {place}: {instruction}; CPL {cpl}, {mode}, {flag}")
        }
    }
}

/// CS:RIP, with as many digits as the address has, and the symbol.
fn place(at: &Place) -> String {
    let Place { cs, rip, symbol } = at;
    let digits = match rip {
        0..=0xFFFF => 4,
        0x1_0000..=0xFFFF_FFFF => 8,
        _ => 16,
    };
    let symbol = symbol.as_ref().map_or_else(String::new, |symbol| format!(" <{symbol}>"));
    format!("{cs:04x}:{rip:0digits$x}{symbol}")
}

fn with_code(name: &str, code: Option<u64>) -> String {
    code.map_or_else(|| name.into(), |code| format!("{name}({code:x}h)"))
}
