//! Each rule of pairing, with an example that pairs and one that does not.
//!
//! Numbers of rules and most examples are of Agner Fog, "How to optimize for the Pentium family of
//! microprocessors", chapter 10.1.

use super::check;

/// Two instructions of a clock each: a pair takes one clock, others two.
#[track_caller]
fn pair(program: &str) {
    check(program, 1, 1);
}

#[track_caller]
fn alone(program: &str) {
    check(program, 2, 0);
}

#[test]
fn either_pipe() {
    for first in ["MOV EAX, EBX", "ADD EAX, 1", "LEA EAX, [EBX]", "NOP", "DEC EAX", "TEST EAX, EAX"]
    {
        for second in ["MOV ECX, EDX", "XOR ECX, EDX", "LEA ECX, [EDX]", "NOP", "INC EDX"] {
            pair(&format!("{first}; {second}"));
        }
    }
    // BSWAP takes one clock and does not pair.
    alone("BSWAP EAX; NOP");
    alone("NOP; BSWAP EAX");
}

#[test]
fn test_pairs_in_some_encodings() {
    pair("NOP; TEST ECX, ECX");
    pair("NOP; TEST EAX, 5");
    alone("NOP; TEST EDX, 5");
    alone("TEST EDX, 5; NOP");
}

#[test]
fn u_pipe_only() {
    for first in
        ["ADC EAX, EBX", "SBB EAX, 5", "SHR EAX, 4", "SAR EAX, 1", "ROL EAX, 1", "RCR EAX, 1"]
    {
        pair(&format!("{first}; MOV ECX, EDX"));
        alone(&format!("MOV ECX, EDX; {first}"));
    }
    // Rotations pair by one only; by CL a shift takes four clocks and does not pair.
    alone("ROL EAX, 4; MOV ECX, EDX");
    check("SHR EAX, CL; MOV EBX, EDX", 5, 0);
}

#[test]
fn v_pipe_only() {
    pair("MOV EAX, EBX; JMP 5");
    pair("MOV EAX, EBX; CALL 5");
    pair("MOV EAX, EBX; JA 5");
    alone("JA 5; MOV EAX, EBX");
}

#[test]
fn rule_2_registers() {
    alone("MOV EAX, EBX; MOV ECX, EAX"); // read after write
    alone("MOV EAX, 1; MOV EAX, 2"); // write after write
    pair("MOV EBX, EAX; MOV EAX, 2"); // write after read
    pair("MOV EBX, EAX; MOV ECX, EAX"); // read after read
    pair("MOV EBX, EAX; INC EAX"); // read and write after read
}

#[test]
fn rule_3_parts_count_as_the_whole() {
    alone("MOV AL, BL; MOV AH, 0");
    pair("MOV AL, BL; MOV CH, 0");
}

#[test]
fn rule_4_both_write_flags() {
    pair("SHR EAX, 4; INC EBX");
    alone("SHR EAX, 4; ADC EBX, 0"); // ADC reads them
}

#[test]
fn rule_5_flags_and_a_conditional_jump() {
    pair("CMP EAX, 2; JA 5");
    // SBB reads them as well, and is not a jump.
    alone("CMP EAX, 2; SBB EBX, EBX");
}

#[test]
fn rule_6_stack_pointer() {
    pair("PUSH EAX; PUSH EBX");
    pair("PUSH EAX; CALL 5");
    pair("POP EAX; POP EBX");
    alone("PUSH EAX; POP EBX");
    // The second reads ESP, and is no push.
    alone("PUSH EAX; MOV EBX, ESP");
}

#[test]
fn rule_7_prefixes() {
    // A prefix delays the entry into the FIFO, so the instruction before has to take longer than that.
    let slow = "BSWAP EAX; BSWAP EAX; BSWAP EAX; BSWAP EAX; BSWAP EAX; BSWAP EAX; NOP";
    check(&format!("{slow}; O16 MOV EAX, EBX"), 7, 1);
    check(&format!("{slow}; FS MOV EAX, [EBX]"), 8, 0);
    check(&format!("{slow}; BSWAP ECX; FS MOV EAX, [EBX]; NOP"), 9, 1);
}

#[test]
fn rule_8_displacement_and_immediate() {
    pair("NOP; MOV [EBX+8], EAX");
    pair("NOP; MOV [EBX], 1");
    pair("MOV [EBX+8], 1; NOP"); // in the U pipe, on the processor with MMX technology
    alone("NOP; MOV [EBX+8], 1");
}

#[test]
fn mmx_units() {
    pair("PADDW MM0, MM1; PADDW MM2, MM3");
    pair("PADDW MM0, MM1; PSLLW MM2, MM3");
    pair("PMULLW MM0, MM1; PSLLW MM2, MM3");
    alone("PSLLW MM0, MM1; PACKSSWB MM2, MM3"); // one shifter
    alone("PMULLW MM0, MM1; PMADDWD MM2, MM3"); // one multiplier
    alone("PADDW MM0, MM1; PADDW MM2, MM0"); // dependent
    alone("EMMS; PADDW MM2, MM3");
    alone("PADDW MM2, MM3; EMMS");
}

#[test]
fn mmx_with_memory_or_general_registers() {
    pair("MOVQ MM0, [EBX]; PADDW MM2, MM3");
    alone("PADDW MM2, MM3; MOVQ MM0, [EBX]"); // U pipe only
    alone("PADDW MM2, MM3; MOVD MM0, EBX");
    pair("PADDW MM2, MM3; MOV EAX, EBX");
    pair("MOV EAX, EBX; PADDW MM2, MM3");
    alone("MOVQ MM0, [EBX]; MOV EAX, ECX"); // not beside others
    alone("MOVD MM0, EBX; MOV EAX, ECX");
}

#[test]
fn fxch() {
    check("FADD ST1; FXCH ST2", 1, 1);
    check("FLD [EBX]; FXCH ST1", 1, 1);
    check("FST ST3; FXCH ST1", 2, 0);
    check("FXCH ST1; FXCH ST2", 2, 0);
    alone("FLD [EBX]; MOV EAX, ECX"); // with nothing else
}

#[test]
fn long_instructions() {
    let mut program = super::assemble("BSWAP EAX; BSWAP EAX; BSWAP EAX; BSWAP EAX; NOP; NOP");
    program[5].instruction.length = 7;
    let (clocks, mut occurrences) = super::execute(&program);
    assert_eq!((clocks, super::count(&mut occurrences, pmu_model::Signal::PairV)), (5, 1));
    program[5].instruction.length = 8;
    let (clocks, mut occurrences) = super::execute(&program);
    assert_eq!((clocks, super::count(&mut occurrences, pmu_model::Signal::PairV)), (6, 0));
}
