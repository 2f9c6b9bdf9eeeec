//! Sequences of which the clocks are published or can be counted by hand: addresses, memory operands,
//! branches, x87 and MMX latencies, the FIFO.

use pmu_model::Signal;

use super::{assemble, check, count, execute, run};

/// Clocks of a program, and how often it fires a signal.
#[track_caller]
fn fires(program: &str, clocks: u64, signal: Signal, times: u64) {
    let (took, mut occurrences) = run(program);
    assert_eq!((took, count(&mut occurrences, signal)), (clocks, times), "{program}");
}

/// Agner Fog, chapter 9.
#[test]
fn address_generation_interlocks() {
    fires("ADD EBX, 4; MOV EAX, [EBX]", 3, Signal::StallAgi, 1);
    fires("INC ESI; LEA EAX, [EBX+ESI]", 3, Signal::StallAgi, 1);
    // One clock between is enough, whichever pipes they are in.
    fires("ADD EBX, 4; BSWAP ECX; MOV EAX, [EBX]", 3, Signal::StallAgi, 0);
    fires("ADD ESP, 4; POP ESI", 3, Signal::StallAgi, 1);
    fires("MOV ESP, EBP; RET", 4, Signal::StallAgi, 1);
    fires("POP EAX; POP ESI", 1, Signal::StallAgi, 0);
    fires("PUSH EAX; PUSH ECX; PUSH EDX; PUSH EBX", 2, Signal::StallAgi, 0);
    fires("CALL 5; MOV EAX, [ESP+8]", 2, Signal::StallAgi, 0);
    fires("RET; POP EAX", 3, Signal::StallAgi, 0);
    fires("RET 8; POP EAX", 5, Signal::StallAgi, 1);
    // POP EBX writes EBX as any instruction does.
    fires("POP EBX; MOV EAX, [EBX]", 3, Signal::StallAgi, 1);
}

/// An address that the V instruction waits for keeps both back, and so does one of the U instruction; each
/// pipe is counted.
#[test]
fn interlocks_of_pairs() {
    let before = "INC EBX; INC ESI";
    fires(&format!("{before}; NOP; MOV EAX, [EBX]"), 3, Signal::StallAgi, 1);
    fires(&format!("{before}; MOV EAX, [EBX+4]; NOP"), 3, Signal::StallAgi, 1);
    fires(&format!("{before}; MOV EAX, [EBX+4]; MOV ECX, [ESI+8]"), 3, Signal::StallAgi, 2);
}

/// Abrash, "Graphics Programming Black Book", chapter 19: what has to come first is put first.
#[test]
fn reordering_avoids_an_interlock() {
    check("MOV EAX, EDX; INC ESI; MOV ECX, [ESI+4]; MOV EBP, EDI", 3, 2);
    check("INC ESI; MOV EAX, EDX; MOV EBP, EDI; NOP; MOV ECX, [ESI+4]", 3, 2);
    check("MOV ECX, [ESI+8]; INC ESI; MOV EAX, EDX; MOV EBP, EDI", 2, 2);
}

/// Agner Fog, chapter 10.2, rule 4, and Abrash, chapter 20: an operand in memory.
#[test]
fn memory_operands() {
    check("MOV EAX, [EBX]", 1, 0);
    check("MOV [EBX], EAX", 1, 0);
    check("ADD EAX, [EBX]", 2, 0);
    check("ADD [EBX], EAX", 3, 0);
    check("CMP [EBX], EAX", 2, 0);
    // Rows of the table: register, read/modify and read/modify/write in the U pipe.
    check("MOV EAX, EBX; MOV ECX, EDX", 1, 1);
    check("MOV EAX, EBX; ADD ECX, [EDX]", 2, 1);
    check("MOV EAX, EBX; ADD [EDX], ECX", 3, 1);
    check("ADD EAX, [EBX]; MOV ECX, EDX", 2, 1);
    check("ADD EAX, [EBX+4]; ADD ECX, [EDX]", 2, 1);
    check("ADD EAX, [EBX+4]; ADD [EDX], ECX", 3, 1);
    check("ADD [EBX+4], EAX; MOV ECX, EDX", 3, 1);
    check("ADD [EBX+4], EAX; ADD ECX, [EDX]", 4, 1);
    check("ADD [EBX+4], EAX; ADD [EDX], ECX", 5, 1);
}

/// Abrash, chapter 20: read/modify/write instructions taken apart and interleaved take 1.5 clocks each.
#[test]
fn interleaved_parts_of_read_modify_write() {
    check("ADD [EBX], EDX; BSWAP EDI; ADD [EBX+4], EDX", 7, 0);
    check(
        "MOV EAX, [EBX]; MOV ECX, [EBX+4]; ADD EAX, EDX; ADD ECX, EDX; \
         MOV [EBX], EAX; MOV [EBX+4], ECX",
        3,
        3,
    );
}

/// A program whose last instruction but one was predicted wrongly: clocks, and flushes found late.
#[track_caller]
fn mispredicted(text: &str, clocks: u64, late: u64) {
    let mut program = assemble(text);
    let branch = program.len() - 2;
    program[branch].happened.mispredicted = true;
    let (took, mut occurrences) = execute(&program);
    assert_eq!(took, clocks, "{text}");
    assert_eq!(count(&mut occurrences, Signal::FlushMispredictWb), late, "{text}");
}

/// Agner Fog, chapter 22.2.2: a conditional jump loses four clocks in the U pipe and five in the V pipe,
/// others four. Before and after it are a clock each.
#[test]
fn wrong_predictions() {
    mispredicted("BSWAP EAX; JA 5; NOP", 2 + 4 + 1, 0);
    mispredicted("CMP EAX, 2; JA 5; NOP", 1 + 5 + 1, 1);
    mispredicted("MOV EAX, 2; JMP 5; NOP", 1 + 4 + 1, 0);
    mispredicted("RET; NOP", 2 + 4 + 1, 0);
    // The address has been computed long since, and RET n holds up nothing.
    mispredicted("RET 8; POP EAX", 3 + 4 + 1, 0);
}

/// A branch that is predicted well costs its clock: a loop of one pair takes one.
#[test]
fn right_predictions() {
    let mut program = vec![];
    for _ in 0..10 {
        program.extend(assemble("DEC ECX; JNZ 5"));
        program.last_mut().unwrap().happened.taken = true;
    }
    let (clocks, mut occurrences) = execute(&program);
    assert_eq!((clocks, count(&mut occurrences, Signal::PairV)), (10, 10));
}

/// Agner Fog, chapter 28.2.
#[test]
fn x87_latencies() {
    fires("FADD ST1; MOV EAX, EBX", 2, Signal::StallFpu, 0);
    fires("FADD ST1; FADD ST1", 4, Signal::StallFpu, 2);
    // FXCH brings another entry to the top, so that the second addition waits for nothing.
    fires("FADD ST1; FXCH ST2; FADD ST3", 2, Signal::StallFpu, 0);
    // The result is in ST(2) now.
    fires("FADD ST1; FXCH ST2; FADD ST2", 4, Signal::StallFpu, 2);
    // A multiplication behind a multiplication begins a clock later.
    fires("FMUL ST1; FXCH ST2; FMUL ST3", 3, Signal::StallFpu, 1);
    fires("FMUL ST1; FXCH ST2; FADD ST3", 2, Signal::StallFpu, 0);
    // A value that is stored has to be there a clock before.
    fires("FADD ST1; FSTP [EBX]", 6, Signal::StallFpu, 3);
    fires("FLD [EBX]; FSTP [EBX+8]", 4, Signal::StallFpu, 1);
    // FDIV takes 39 clocks, of which 38 overlap with integer instructions and 2 with others.
    fires("FDIV ST1; MOV EAX, EBX", 2, Signal::StallFpu, 0);
    fires("FDIV ST1; FLD [EBX]", 38, Signal::StallFpu, 36);
    fires("FDIV ST1; FADD ST1", 40, Signal::StallFpu, 38);
    fires("FSQRT; FLD [EBX]", 69, Signal::StallFpu, 67);
    // FILD takes three, of which two overlap; FIST six, of which none does.
    fires("FILD [EBX]; MOV EAX, EBX", 2, Signal::StallFpu, 0);
    fires("FISTP [EBX]; MOV EAX, EBX", 7, Signal::StallFpu, 0);
}

/// A push moves the entries of the stack down, a pop up.
#[test]
fn x87_stack() {
    // The sum is in ST(1) behind the push: the second addition does not need it, the third does.
    fires("FADD ST1; FLD [EBX]; FADD ST2", 3, Signal::StallFpu, 0);
    fires("FADD ST1; FLD [EBX]; FADD ST1", 4, Signal::StallFpu, 1);
    // FSTP ST(3) writes nothing that is waited for; the sum was popped by it.
    fires("FADD ST1; FSTP [EBX]; FADD ST1", 7, Signal::StallFpu, 3);
}

#[test]
fn precision_shortens_divisions() {
    use super::super::Precision;
    // Agner Fog, chapter 28.2: 19, 33 and 39 clocks.
    for (precision, clocks) in
        [(Precision::Single, 19), (Precision::Double, 33), (Precision::Extended, 39)]
    {
        let mut program = assemble("FDIV ST1; FADD ST1");
        program[0].happened.precision = precision;
        assert_eq!(execute(&program).0, clocks + 1);
    }
}

/// Agner Fog, chapter 10.2, rule 6.
#[test]
fn fxch_before_an_integer_instruction() {
    check("FADD ST1; FXCH ST2; MOV EAX, EBX", 3, 1);
    check("FADD ST1; FXCH ST2; FLD [EBX]", 2, 1);
    check("FADD ST1; MOV EAX, EBX", 2, 0);
}

/// Intel SDM volume 3, event 38h: the interlock counts two if the result is used in the next clock, and
/// one if a clock later.
#[test]
fn mmx_latencies() {
    fires("PMULLW MM0, MM1; PADDW MM2, MM0", 4, Signal::StallMmxMultiply, 2);
    fires("PMULLW MM0, MM1; BSWAP EAX; PADDW MM2, MM0", 4, Signal::StallMmxMultiply, 1);
    fires("PMULLW MM0, MM1; PADDW MM2, MM3; PADDW MM4, MM0", 4, Signal::StallMmxMultiply, 2);
    fires("PADDW MM0, MM1; PADDW MM2, MM0", 2, Signal::StallMmxMultiply, 0);
    // One multiplication a clock.
    fires("PMULLW MM0, MM1; PMULLW MM2, MM3; PMULLW MM4, MM5", 3, Signal::StallMmxMultiply, 0);
    // The V instruction keeps its pair back, and the results of both come so much later.
    fires(
        "PMULLW MM0, MM1; BSWAP EAX; PSLLW MM5, MM6; PADDW MM2, MM0",
        4,
        Signal::StallMmxMultiply,
        1,
    );
}

#[test]
fn mmx_stores() {
    fires("PADDW MM0, MM1; MOVQ [EBX], MM0", 3, Signal::StallMmxStoreData, 1);
    fires("PADDW MM0, MM1; BSWAP EAX; MOVQ [EBX], MM0", 3, Signal::StallMmxStoreData, 0);
    fires("PADDW MM0, MM1; MOVQ [EBX], MM2", 2, Signal::StallMmxStoreData, 0);
    fires("PMULLW MM0, MM1; MOVQ [EBX], MM0", 5, Signal::StallMmxStoreData, 3);
}

#[test]
fn mmx_pipes() {
    let (_, mut occurrences) =
        run("PADDW MM0, MM1; PADDW MM2, MM3; PADDW MM4, MM5; MOV EAX, EBX; EMMS");
    assert_eq!(count(&mut occurrences, Signal::MmxPipeU), 3);
    assert_eq!(count(&mut occurrences, Signal::MmxPipeV), 1);
}

#[test]
fn from_mmx_to_x87() {
    check("EMMS; FLD [EBX]; FLD [EBX]", 1 + 50 + 1 + 1, 0);
    check("FLD [EBX]; PADDW MM0, MM1", 2, 0);
}

/// Clocks of table rows that do not pair.
#[test]
fn instructions_that_do_not_pair() {
    check("DIV ECX; NOP", 42, 0);
    check("IDIV ECX; NOP", 47, 0);
    check("MUL ECX; NOP", 11, 0);
    check("MOVZX EAX, BL; NOP", 4, 0);
    check("SHR EAX, CL; NOP", 5, 0);
}

#[test]
fn lock() {
    // The prefix is hidden behind what comes before.
    check("DIV ECX; LOCK ADD [EBX], EAX", 41 + 3 + 5, 0);
}

/// The figures of the part: a prefix delays the entry into the FIFO by one clock, 66h and
/// 67h by two, and that is seen only if nothing else takes as long.
#[test]
fn prefixes_take_time() {
    check("NOP; FS MOV EAX, [EBX]", 3, 0);
    check("NOP; O16 MOV EAX, EBX", 4, 0);
    check("NOP; O16 A16 MOV EAX, [EBX]", 6, 0);
    check("DIV ECX; O16 MOV EAX, EBX", 42, 0);
}

/// Intel SDM volume 3, event 33h: clocks in which D1 can take nothing, and those in which it can take
/// only one.
#[test]
fn starvation() {
    // The pipeline is filled first: two clocks from fetch to D1.
    let (_, mut occurrences) = run("NOP; NOP; NOP; NOP");
    assert_eq!(count(&mut occurrences, Signal::StallD1FifoEmpty), 2);
    assert_eq!(count(&mut occurrences, Signal::StallD1OneInFifo), 0);
    // The prefix keeps its instruction out for two clocks more than D1 waits for it.
    let (_, mut occurrences) = run("NOP; NOP; O16 MOV EAX, EBX; NOP");
    assert_eq!(count(&mut occurrences, Signal::StallD1FifoEmpty), 2 + 2);
    assert_eq!(count(&mut occurrences, Signal::StallD1OneInFifo), 0);
    // Another prefix keeps it out for one: D1 takes the first alone.
    let (_, mut occurrences) = run("NOP; FS MOV EAX, [EBX]");
    assert_eq!(count(&mut occurrences, Signal::StallD1OneInFifo), 1);
    // Fetch that takes long is seen when the FIFO has run dry.
    let mut program = assemble("NOP; NOP; NOP; NOP");
    program[2].happened.fetch = 10;
    let (clocks, mut occurrences) = execute(&program);
    assert_eq!(clocks, 12);
    assert_eq!(count(&mut occurrences, Signal::StallD1FifoEmpty), 2 + 10);
    assert_eq!(count(&mut occurrences, Signal::StallIfetch), 10);
}

/// The FIFO holds four instructions; what is behind them is not fetched before.
#[test]
fn fifo_is_four_deep() {
    let after = |instructions: usize| {
        let mut program = assemble("DIV ECX");
        program.extend(assemble(&vec!["BSWAP EAX"; instructions].join("; ")));
        program.last_mut().unwrap().happened.fetch = 20;
        execute(&program).0 - 41 - instructions as u64
    };
    // In D1, D2 and the FIFO are six instructions when DIV executes. A seventh enters when the first of
    // them leaves, so that its fetch is seen.
    assert_eq!(after(6), 0);
    assert!(after(8) > 0);
}

#[test]
fn serialising_instructions_refill_the_pipeline() {
    let (clocks, _) = run("CPUID; NOP");
    assert_eq!(clocks, 14 + 4 + 1);
}

#[test]
fn deliveries_flush_the_pipeline() {
    let mut pipeline = super::Pipeline::new(&super::P55C);
    let mut occurrences = crate::occurrences::Occurrences::default();
    let nop = &assemble("NOP")[0];
    pipeline.retire(&mut occurrences, &nop.instruction, &nop.execution());
    assert_eq!(pipeline.deliver(), 30);
    // The next is not its pair, and executes when the pipeline has been filled.
    assert_eq!(pipeline.retire(&mut occurrences, &nop.instruction, &nop.execution()), 4 + 1);
    assert_eq!(count(&mut occurrences, Signal::PairV), 0);
}

/// Four clocks and one an iteration, by the part's table.
#[test]
fn repeated_instructions() {
    let mut program = assemble("REP MOVS; NOP");
    program[0].happened.iterations = 10;
    // The prefix keeps the first instruction out of the FIFO for a clock.
    assert_eq!(execute(&program).0, 1 + 4 + 10 + 1);
}

#[test]
fn nothing_pairs_across_idle_time() {
    let mut pipeline = super::Pipeline::new(&super::P55C);
    let mut occurrences = crate::occurrences::Occurrences::default();
    let nop = &assemble("NOP")[0];
    pipeline.retire(&mut occurrences, &nop.instruction, &nop.execution());
    pipeline.idle(100);
    assert_eq!(pipeline.clock(), 4 + 1 + 100);
    assert_eq!(pipeline.retire(&mut occurrences, &nop.instruction, &nop.execution()), 4 + 1);
    assert_eq!(count(&mut occurrences, Signal::PairV), 0);
}
