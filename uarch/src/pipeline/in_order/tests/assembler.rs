//! Writes instructions as text: `ADD EAX, [EBX+4]; JA`.
//!
//! All registers are zero but ESP, so that the displacement is the address. It knows what the tests need
//! and no more, and is written against the instruction set, not against the model.

use super::super::{Access, Execution, Outcome};
use crate::{
    part::{
        in_order_table::{Form, Place, Source},
        p55c_pipeline::timing,
    },
    pipeline::{Branch, Instruction, MemoryUse, Prefixes, Registers},
};

/// An instruction, and what happened when it executed.
#[derive(Clone, Debug)]
pub(super) struct Assembled {
    pub(super) text: String,
    pub(super) instruction: Instruction,
    pub(super) accesses: Vec<Access>,
    pub(super) happened: Execution<'static>,
}

#[derive(Clone, Copy, PartialEq)]
enum Operand {
    General(u8),
    Mmx(u8),
    X87(u8),
    Immediate,
    Memory { registers: Registers, displacement: u64 },
}

/// Assembles instructions separated by semicolons.
pub(super) fn assemble(program: &str) -> Vec<Assembled> {
    let mut esp = 0x8000;
    program.split(';').map(|line| instruction(line.trim(), &mut esp)).collect()
}

fn instruction(line: &str, esp: &mut u64) -> Assembled {
    let mut prefixes = Prefixes::NONE;
    let mut rest = line;
    loop {
        let (word, tail) = rest.split_once(' ').unwrap_or((rest, ""));
        match word {
            "O16" | "A16" => prefixes.size += 1,
            "FS" | "REP" => prefixes.other += 1,
            "LOCK" => {
                prefixes.other += 1;
                prefixes.lock = true;
            }
            _ => break,
        }
        rest = tail;
    }
    let (mnemonic, operands) = rest.split_once(' ').unwrap_or((rest, ""));
    let operands: Vec<Operand> =
        operands.split(',').filter(|o| !o.is_empty()).map(operand).collect();
    let name = match mnemonic {
        "JA" | "JNZ" => "Jcc".to_string(),
        other => other[..1].to_string() + &other[1..].to_lowercase(),
    };
    let memory = memory_use(mnemonic, &operands);
    let explicit = operands.iter().any(|o| matches!(o, Operand::Memory { .. }));
    let form = Form {
        place: match (explicit, memory) {
            (false, _) | (_, MemoryUse::None) => Place::Register,
            (_, MemoryUse::Load) => Place::Load,
            (_, MemoryUse::Store | MemoryUse::Modify) => Place::Store,
        },
        source: match operands.last() {
            Some(Operand::Immediate) if line.ends_with(", 1") => Source::One,
            Some(Operand::Immediate) if line.starts_with("TEST EAX") => {
                Source::AccumulatorImmediate
            }
            Some(Operand::Immediate) => Source::Immediate,
            Some(Operand::General(1)) if line.ends_with("CL") => Source::Count,
            _ => Source::Plain,
        },
        bits: 32,
    };
    let timing = timing(&name, form).unwrap_or_else(|| panic!("{line}: no timing"));
    let mut i = Instruction { prefixes, memory, ..Instruction::new(timing) };
    i.length = 2;
    for (n, &operand) in operands.iter().enumerate() {
        describe(&mut i, mnemonic, n, operand);
    }
    i.displacement_and_immediate = operands.contains(&Operand::Immediate)
        && operands.iter().any(|o| matches!(o, Operand::Memory { displacement: 1.., .. }));
    flags(&mut i, mnemonic);
    stack(&mut i, mnemonic, &operands);
    x87(&mut i, mnemonic, &operands);
    let accesses = accesses(&i, mnemonic, &operands, esp);
    Assembled { text: line.to_string(), instruction: i, accesses, happened: Execution::default() }
}

fn operand(text: &str) -> Operand {
    let text = text.trim();
    if let Some(inside) = text.strip_prefix('[') {
        let mut registers = Registers::NONE;
        let mut displacement = 0;
        for term in inside.trim_end_matches(']').split('+') {
            match general(term) {
                Some(register) => registers = registers.union(Registers::general(register)),
                None => displacement = term.parse().unwrap(),
            }
        }
        return Operand::Memory { registers, displacement };
    }
    if let Some(register) = general(text) {
        return Operand::General(register);
    }
    if let Some(number) = text.strip_prefix("MM") {
        return Operand::Mmx(number.parse().unwrap());
    }
    if let Some(number) = text.strip_prefix("ST") {
        return Operand::X87(number.parse().unwrap());
    }
    text.parse::<i64>().unwrap_or_else(|_| panic!("operand {text}"));
    Operand::Immediate
}

fn general(name: &str) -> Option<u8> {
    const NAMES: [[&str; 3]; 8] = [
        ["EAX", "AL", "AH"],
        ["ECX", "CL", "CH"],
        ["EDX", "DL", "DH"],
        ["EBX", "BL", "BH"],
        ["ESP", "SP", ""],
        ["EBP", "BP", ""],
        ["ESI", "SI", ""],
        ["EDI", "DI", ""],
    ];
    NAMES.iter().position(|names| names.contains(&name) && !name.is_empty()).map(|n| n as u8)
}

fn memory_use(mnemonic: &str, operands: &[Operand]) -> MemoryUse {
    let place = operands.iter().position(|o| matches!(o, Operand::Memory { .. }));
    match (mnemonic, place) {
        ("PUSH" | "CALL", None) => MemoryUse::Store,
        ("POP" | "RET", None) => MemoryUse::Load,
        (_, None) | ("LEA", _) => MemoryUse::None,
        ("MOV" | "MOVQ" | "MOVD" | "FST" | "FSTP" | "FISTP", Some(0)) => MemoryUse::Store,
        ("CMP" | "TEST", _) | (_, Some(1)) => MemoryUse::Load,
        (m, _) if m.starts_with('F') => MemoryUse::Load,
        _ => MemoryUse::Modify,
    }
}

fn describe(i: &mut Instruction, mnemonic: &str, place: usize, operand: Operand) {
    let register = match operand {
        Operand::General(n) => Registers::general(n),
        Operand::Mmx(n) => Registers::mmx(n),
        Operand::X87(_) | Operand::Immediate => return,
        Operand::Memory { registers, .. } => {
            i.reads = i.reads.union(registers);
            i.address = i.address.union(registers);
            return;
        }
    };
    let moves = ["MOV", "MOVQ", "MOVD", "LEA", "POP"].contains(&mnemonic);
    let only_reads = ["CMP", "TEST", "PUSH"].contains(&mnemonic);
    if place > 0 || !moves {
        i.reads = i.reads.union(register);
    }
    if place == 0 && !only_reads {
        i.writes = i.writes.union(register);
    }
}

fn flags(i: &mut Instruction, mnemonic: &str) {
    let none = ["MOV", "LEA", "PUSH", "POP", "NOP", "CALL", "JMP", "RET", "BSWAP", "JA", "JNZ"];
    if i.timing.unit == super::super::Unit::Integer && !none.contains(&mnemonic) {
        i.writes = i.writes.union(Registers::FLAGS);
    }
    if ["ADC", "SBB", "JA", "JNZ", "RCL", "RCR"].contains(&mnemonic) {
        i.reads = i.reads.union(Registers::FLAGS);
    }
    i.branch = match mnemonic {
        "JA" | "JNZ" => Branch::Conditional,
        "JMP" | "CALL" | "RET" => Branch::Unconditional,
        _ => Branch::None,
    };
    i.serialises = mnemonic == "CPUID";
}

fn stack(i: &mut Instruction, mnemonic: &str, operands: &[Operand]) {
    if ["PUSH", "POP", "CALL", "RET"].contains(&mnemonic) {
        i.reads = i.reads.union(Registers::STACK_POINTER);
        i.writes = i.writes.union(Registers::STACK_POINTER);
        i.address = i.address.union(Registers::STACK_POINTER);
        i.predicts_stack_pointer = mnemonic != "RET" || operands.is_empty();
    }
}

fn x87(i: &mut Instruction, mnemonic: &str, operands: &[Operand]) {
    if !mnemonic.starts_with('F') {
        return;
    }
    let top = Registers::x87(0);
    let other = match operands.first() {
        Some(&Operand::X87(n)) => n,
        _ => 0,
    };
    match mnemonic {
        "FXCH" => i.exchanges = Some(other),
        "FLD" | "FILD" => {
            if operands.iter().any(|o| matches!(o, Operand::X87(_))) {
                i.reads = Registers::x87(other);
            }
            i.writes = Registers::x87(7);
            i.x87_pops = -1;
        }
        "FST" | "FSTP" | "FISTP" => {
            i.reads = i.reads.union(top);
            i.x87_pops = i8::from(mnemonic != "FST");
        }
        _ => {
            i.reads = i.reads.union(top).union(Registers::x87(other));
            i.writes = top;
        }
    }
}

fn accesses(i: &Instruction, mnemonic: &str, operands: &[Operand], esp: &mut u64) -> Vec<Access> {
    let address = match (mnemonic, operands.iter().find(|o| matches!(o, Operand::Memory { .. }))) {
        (_, Some(&Operand::Memory { displacement, .. })) => displacement,
        ("PUSH" | "CALL", _) => {
            *esp -= 4;
            *esp
        }
        ("POP" | "RET", _) => {
            *esp += 4;
            *esp - 4
        }
        _ => 0,
    };
    let bytes = if operands.iter().any(|o| matches!(o, Operand::Mmx(_))) { 8 } else { 4 };
    let load = Access::hit(address, bytes, Outcome::Hit);
    let store = Access::hit(address, bytes, Outcome::Owned);
    match i.memory {
        MemoryUse::None => vec![],
        MemoryUse::Load => vec![load],
        MemoryUse::Store => vec![store],
        MemoryUse::Modify => vec![load, store],
    }
}
