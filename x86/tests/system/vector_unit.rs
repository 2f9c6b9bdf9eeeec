//! The vector unit of Knights Corner in programs: loops over gathers, page faults, and what is counted. Bytes
//! are assembled by hand from XED's definition of the instructions; counts are by the rules of `Facts` and
//! `Class`.

use x86_cpu::{class::Class, features::Features, observe::Facts, run::Exit};

use crate::machine::*;

/// Without SSE, as the part is.
const PART: Features =
    Features { vpu: true, sse: false, sse2: false, sse3: false, mmx: false, ..Features::K8 };
/// The first byte of linear memory that is not mapped.
const UNMAPPED: u64 = 0x20_0000;
const HLT: u8 = 0xf4;
const PF: u64 = 14;

/// kmov k1, eax
const KMOV_K1_EAX: &[u8] = &[0xc5, 0xf8, 0x92, 0xc8];
/// vmovaps zmm1, [rsi]; vaddps zmm1, zmm1, [rsi]; vmovaps [rsi+64]{k1}, zmm1
const LOAD: &[u8] = &[0x62, 0xf1, 0x78, 0x08, 0x28, 0x0e];
const ADD: &[u8] = &[0x62, 0xf1, 0x70, 0x08, 0x58, 0x0e];
const STORE_MASKED: &[u8] = &[0x62, 0xf1, 0x78, 0x09, 0x29, 0x4e, 0x01];
/// vpgatherdd zmm1{k1}, [rsi+zmm5*4], 7 bytes; jknzd k1, back to its beginning, 5 bytes.
const GATHER: &[u8] = &[0x62, 0xf2, 0x79, 0x09, 0x90, 0x0c, 0xae];
const AGAIN: &[u8] = &[0xc4, 0xe0, 0x70, 0x75, 0xf4];

fn machine() -> Machine {
    let mut m = Machine::long();
    m.cpu.features = PART;
    // DUE, which the processor of a machine with SSE does not have after reset.
    m.cpu.set_vxcsr(1 << 21);
    m.cpu.set_gpr(RSI, DATA);
    m
}

/// Runs a program and a HLT: what was counted.
fn run(m: &mut Machine, program: &[&[u8]]) -> Facts {
    let bytes = [program.concat(), vec![HLT]].concat();
    m.write(CODE, &bytes);
    m.cpu.rip = CODE;
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, CODE + bytes.len() as u64, "the program faulted");
    m.facts
}

fn of_class(mut facts: Facts, class: Class) -> u64 {
    *facts.of_class(class).expect("a class")
}

fn words(values: [u32; 16]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (four, value) in bytes.chunks_mut(4).zip(values) {
        four.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// Indices n * 8 of doublewords: two elements in each of eight lines, and so eight executions of the gather.
#[test]
fn a_loop_over_a_gather() {
    let mut m = machine();
    for n in 0..128 {
        m.write_u32(DATA + 4 * n, 7 * n as u32);
    }
    m.cpu.set_gpr(RAX, 0xffff);
    m.cpu.set_zmm(5, words(std::array::from_fn(|n| 8 * n as u32)));
    let facts = run(&mut m, &[KMOV_K1_EAX, GATHER, AGAIN]);
    assert_eq!(m.cpu.zmm(1), words(std::array::from_fn(|n| 56 * n as u32)));
    assert_eq!(m.cpu.mask(1), 0);
    assert_eq!((facts.vector_loads, facts.vector_stores, facts.vector_elements), (8, 0, 16));
    assert_eq!((facts.loads, facts.stores, facts.misaligned), (8, 0, 0));
    assert_eq!((facts.branches, facts.taken), (8, 7));
    // KMOV and eight gathers; JKNZD is none.
    assert_eq!(of_class(facts, Class::VPU), 9);
}

/// A load, an addition with an operand in memory and a store under a mask: one line each, and 16, 16 and 3
/// elements.
#[test]
fn lines_and_elements() {
    let mut m = machine();
    m.write(DATA, &words([1f32.to_bits(); 16]));
    m.cpu.set_gpr(RAX, 0x0111);
    let facts = run(&mut m, &[KMOV_K1_EAX, LOAD, ADD, STORE_MASKED]);
    let stored: [u32; 16] = std::array::from_fn(|n| m.read_u32(DATA + 64 + 4 * n as u64));
    let want = |n| if 0x0111 >> n & 1 != 0 { 2f32.to_bits() } else { 0 };
    assert_eq!(stored, std::array::from_fn(want));
    assert_eq!((facts.vector_loads, facts.vector_stores, facts.vector_elements), (2, 1, 35));
    assert_eq!((facts.loads, facts.stores), (2, 1));
    assert_eq!(of_class(facts, Class::VPU), 4);
}

/// A page that is absent: #PF with its address, nothing changed and nothing counted; not with a mask of zero.
#[test]
fn page_faults() {
    for (bytes, accessed) in [(ADD, UNMAPPED), (STORE_MASKED, UNMAPPED + 64)] {
        let mut m = machine();
        m.cpu.set_gpr(RSI, UNMAPPED);
        m.cpu.set_mask(1, 0x0001);
        m.cpu.set_zmm(1, words([5; 16]));
        m.write(CODE, bytes);
        m.cpu.rip = CODE;
        assert_eq!(m.vector(), PF);
        assert_eq!(m.cpu.cr2, accessed);
        assert_eq!(m.cpu.zmm(1), words([5; 16]));
        assert_eq!((m.facts.vector_loads, m.facts.vector_stores), (0, 0));
        assert_eq!(m.facts.vector_elements, 0);
    }
    let mut m = machine();
    m.cpu.set_gpr(RSI, UNMAPPED);
    let facts = run(&mut m, &[STORE_MASKED]);
    assert_eq!((facts.stores, facts.vector_elements, of_class(facts, Class::VPU)), (0, 0, 1));
}

/// The elements before the one whose page is absent are done, and the handler finds the others in the mask.
#[test]
fn a_gather_faults_at_the_element() {
    let mut m = machine();
    m.write_u32(DATA, 11);
    let mut indices = [0; 16];
    indices[1] = ((UNMAPPED - DATA) / 4) as u32;
    m.cpu.set_zmm(5, words(indices));
    m.cpu.set_mask(1, 0x0003);
    m.write(CODE, &[GATHER, AGAIN].concat());
    m.cpu.rip = CODE;
    assert_eq!(m.vector(), PF);
    assert_eq!((m.cpu.cr2, m.cpu.mask(1)), (UNMAPPED, 0x0002));
    assert_eq!(m.cpu.zmm(1)[..8], [11, 0, 0, 0, 0, 0, 0, 0]);
    // The address of the gather, on the handler's stack behind the error code.
    assert_eq!(m.stack(1), CODE);
}

/// Code that a vector store overwrites is executed as it is then.
#[test]
fn a_store_over_code() {
    let mut m = machine();
    // vmovaps [rip + 57], zmm1 at a boundary of 64 bytes: writes the line of 64 bytes behind it.
    let at = CODE & !63;
    let store = [0x62, 0xf1, 0x78, 0x08, 0x29, 0x0d, 54, 0, 0, 0];
    let mut line = [0x90; 64];
    line[63] = HLT;
    m.write(at, &store);
    m.write(at + 10, &[0x90; 54]);
    // Before, the next line is UD2.
    m.write(at + 64, &[0x0f, 0x0b]);
    m.cpu.set_zmm(1, line);
    m.cpu.rip = at;
    assert_eq!(m.run(), Exit::Halt);
    assert_eq!(m.cpu.rip, at + 128);
}

/// On a part without the unit each of these is undefined.
#[test]
fn a_part_without_the_unit() {
    for bytes in [KMOV_K1_EAX, LOAD, ADD, STORE_MASKED, GATHER, AGAIN] {
        let mut m = machine();
        m.cpu.features = Features { knc: true, ..Features::K8 };
        m.write(CODE, bytes);
        m.cpu.rip = CODE;
        assert_eq!(m.vector(), 6, "{bytes:02x?}");
    }
}
