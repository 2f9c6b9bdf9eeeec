//! The commands that gdb's `monitor` passes on.

use std::fmt::Write;
use std::path::Path;

use pmu_model::explain::{find_register, register_number};
use pmu_model::{Access, MsrAccess};

use super::symbol_file;
use super::target::Session;
use crate::explain;
use crate::msr::APIC_BASE;

const HELP: &str = "\
monitor pmu [CPU]                   the registers of the PMU, in words
monitor msr read REGISTER [CPU]     a model-specific register, by the PMU's name or a hexadecimal number
monitor msr write REGISTER VALUE [CPU]
monitor break overflow              stop behind the instruction at which a counter overflows
monitor break pmi                   stop before the first instruction of a counter's interrupt's handler
monitor break msr REGISTER [write]  stop behind RDMSR and WRMSR of a register, or behind WRMSR alone
monitor break                       what it stops at, and what it stopped at last
monitor delete [overflow|pmi|msr REGISTER]  do so no longer
monitor save FILE                   write a snapshot, for --load
monitor symbols FILE                write the symbols of the Linux kernel that runs, for symbol-file
CPU is a processor's number from 0: that of gdb's thread less one; by default of the one that stopped last.
";

/// What came of a command: what there is to say.
type Done = Result<String, String>;

impl Session<'_> {
    /// Does what a command asks for; what there is to say of it.
    pub(super) fn monitor(&mut self, command: &str) -> String {
        let words: Vec<_> = command.split_whitespace().collect();
        let done = match words[..] {
            [] | ["help"] => Ok(HELP.to_owned()),
            ["pmu", ref cpu @ ..] => self.processor(cpu).and_then(|id| self.pmu(id)),
            ["msr", "read", register, ref cpu @ ..] => {
                self.processor(cpu).and_then(|id| self.read_msr(register, id))
            }
            ["msr", "write", register, value, ref cpu @ ..] => {
                self.processor(cpu).and_then(|id| self.write_msr(register, value, id))
            }
            ["break"] => Ok(self.breaks()),
            ["break", ref what @ ..] => self.stop_at(what, true),
            ["delete"] => {
                self.machine.stop_at_no_act();
                Ok(String::new())
            }
            ["delete", ref what @ ..] => self.stop_at(what, false),
            ["save", path] => self.save(path),
            ["symbols", path] => self.symbols(path),
            _ => Err("unknown; monitor help lists the commands".to_owned()),
        };
        done.unwrap_or_else(|error| format!("{command}: {error}\n"))
    }

    /// The processor that is meant by what is left of a command.
    fn processor(&self, words: &[&str]) -> Result<usize, String> {
        let all = self.machine.vcpus.len();
        match *words {
            [] => Ok(self.reported),
            [number] => number
                .parse()
                .ok()
                .filter(|&id| id < all)
                .ok_or_else(|| format!("{number}: the processors are 0 to {}", all - 1)),
            _ => Err("too many words; monitor help lists the commands".into()),
        }
    }

    fn pmu(&self, id: usize) -> Done {
        let vcpu = &self.machine.vcpus[id];
        let personality = vcpu.pmu.personality();
        let mut text = format!("processor {id}:\n");
        for register in personality.registers.iter().filter(|r| r.access != Access::WriteOnly) {
            let MsrAccess::Done(value) = vcpu.pmu.read_msr(register.msr) else { continue };
            if value == 0 {
                // Writing to a string does not fail.
                let _ = writeln!(text, "{} (MSR {:08X}h) = 0", register.name, register.msr);
                continue;
            }
            let words = explain::decode(personality, register.name, &format!("{value:x}"));
            text.push_str(&words.unwrap_or_else(|error| format!("{}: {error}\n", register.name)));
        }
        let lapic = self.machine.board.chipset.irq.lapic(id);
        if lapic.has_lvtpc() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "LVTPC = {:#x}", lapic.lvtpc());
        }
        Ok(text)
    }

    /// The index of a register that is named.
    fn index(&self, register: &str) -> Result<u32, String> {
        let personality = self.machine.vcpus[0].pmu.personality();
        find_register(personality, register)
            .map(|register| register.msr)
            .or_else(|| register_number(register))
            .ok_or_else(|| {
                format!("{register} is no register of the PMU, and no hexadecimal number")
            })
    }

    fn read_msr(&mut self, register: &str, id: usize) -> Done {
        let index = self.index(register)?;
        let machine = &mut *self.machine;
        let vcpu = &mut machine.vcpus[id];
        let passcode = vcpu.bank.passcode(index).unwrap_or(0);
        let time = vcpu.cpu.time;
        let outside = |space: crate::msr::MsrSpace<'_>| space.read(time, index, passcode).ok();
        let value = match vcpu.cpu.core_msr(index) {
            Some(value) => Some(value),
            None => outside(vcpu.msrs(&mut machine.board)),
        };
        let value = value.ok_or("RDMSR would raise #GP")?;
        Ok(format!("{index:X}h = {value:#x}\n"))
    }

    fn write_msr(&mut self, register: &str, value: &str, id: usize) -> Done {
        let index = self.index(register)?;
        if index == APIC_BASE {
            return Err("where the local APIC is, only the guest says".into());
        }
        let digits = value.trim_start_matches("0x");
        let value = u64::from_str_radix(digits, 16)
            .map_err(|_| format!("{value} is no hexadecimal number of 64 bits"))?;
        self.forget().map_err(|error| error.to_string())?;
        let machine = &mut *self.machine;
        let vcpu = &mut machine.vcpus[id];
        let passcode = vcpu.bank.passcode(index).unwrap_or(0);
        let time = vcpu.cpu.time;
        let is_written = match vcpu.cpu.set_core_msr(index, value) {
            Some(is_written) => is_written,
            None => vcpu.msrs(&mut machine.board).write(time, index, value, passcode).is_ok(),
        };
        machine.soft.look_at(&machine.vcpus[id]);
        machine.roster.stir(id);
        if is_written { self.read_msr(register, id) } else { Err("WRMSR would raise #GP".into()) }
    }

    fn breaks(&mut self) -> String {
        let mut text = String::new();
        if let Some(tracer) = &self.machine.board.tracer {
            let stops = &tracer.stops;
            let [overflow, pmi] =
                [("overflow", stops.overflows), ("pmi", stops.interrupts)].map(|(name, is_set)| {
                    if is_set { format!("break {name}\n") } else { String::new() }
                });
            text = overflow + &pmi;
            for (index, only_writes) in &stops.registers {
                let more = if *only_writes { " write" } else { "" };
                // Writing to a string does not fail.
                let _ = writeln!(text, "break msr {index:X}{more}");
            }
        }
        if let Some(act) = &self.last_act {
            let _ = writeln!(text, "stopped last behind: processor {}: {}", act.vcpu, act.words);
        }
        text
    }

    /// Stops at acts, or no longer.
    fn stop_at(&mut self, what: &[&str], stops: bool) -> Done {
        match *what {
            ["overflow"] => self.machine.act_stops().overflows = stops,
            ["pmi"] => self.machine.act_stops().interrupts = stops,
            ["msr", register, ref access @ ..] if matches!(access, [] | ["write"]) => {
                let index = self.index(register)?;
                if self.machine.vcpus[0].cpu.core_msr(index).is_some() {
                    return Err("not of a register of the processor core".into());
                }
                let registers = &mut self.machine.act_stops().registers;
                if stops {
                    registers.insert(index, !access.is_empty());
                } else {
                    registers.remove(&index);
                }
            }
            _ => return Err("expected overflow, pmi, or msr REGISTER [write]".into()),
        }
        if self.machine.act_stops().is_empty() {
            self.machine.stop_at_no_act();
        }
        Ok(String::new())
    }

    fn save(&mut self, path: &str) -> Done {
        self.machine.snapshot().write(Path::new(path)).map_err(|error| error.to_string())?;
        Ok(format!("{path}: at {} instructions\n", self.machine.retired()))
    }

    fn symbols(&mut self, path: &str) -> Done {
        let count = symbol_file::write(self.machine, Path::new(path))?;
        Ok(format!("{path}: {count} symbols\n"))
    }
}
