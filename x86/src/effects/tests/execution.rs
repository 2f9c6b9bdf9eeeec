//! The effects against the handlers: nothing else changes, and nothing else matters.
//!
//! Each instruction is executed in a random state, and again in one that differs in all that is no
//! input of it. What it does not write must be as before, and what it writes the same both times.

use super::{
    CODES,
    encodings::{self, Random},
    lowering,
};
use crate::{
    bus::unconnected::Unconnected,
    cpu::Cpu,
    descriptor::Segment,
    effects::{Effects, FlagSet, Mode, Register, RegisterSet},
    features::Features,
    handler::handler,
    insn::{BLOCK_BASE, Form, Insn, seg},
    lower::lower_bytes,
    mode::CodeSize,
    observe::{Cx, Plain},
    operation::Operation as O,
    ram::{Ram, Region},
    softfloat::F80,
    vector::Zmm,
    x87::{ENV_SIZE_32, EnvFormat},
};

/// SSE and the vector unit of Knights Corner, which stand side by side.
const FEATURES: Features = Features { vpu: true, ..Features::K8 };
const RAM_BYTES: usize = 0x2_0000;
const CODE: u64 = 0x100;
/// Exception flags, summary and busy; TOP; condition codes.
const EXCEPTIONS: u16 = 0x80ff;
const TOP: u16 = 0x3800;
const CODES_IN_STATUS: u16 = 0x4700;

/// All that the instructions here work on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    general: [u64; 16],
    xmm: [u128; 16],
    zmm: [Zmm; 32],
    masks: [u16; 8],
    mxcsr: u32,
    /// Counted from the first and not from the top.
    x87: [F80; 8],
    /// As FSTENV stores it.
    environment: [u8; ENV_SIZE_32],
    rflags: u64,
}

impl State {
    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.environment[at], self.environment[at + 1]])
    }

    fn set_word(&mut self, at: usize, word: u16) {
        self.environment[at..at + 2].copy_from_slice(&word.to_le_bytes());
    }

    /// Registers that hold addresses in RAM, flags, and x87 and SSE exceptions masked.
    fn random(random: &mut Random, code: CodeSize) -> Self {
        let count = if code == CodeSize::Bits64 { 16 } else { 8 };
        let mut state = Self {
            general: [0; 16],
            xmm: std::array::from_fn(|_| {
                u128::from(random.next()) << 64 | u128::from(random.next())
            }),
            zmm: std::array::from_fn(|_| random_elements(random)),
            masks: std::array::from_fn(|_| random.next() as u16),
            mxcsr: 0x1f80 | random.next() as u32 & 0x603f,
            x87: std::array::from_fn(|_| {
                F80::new(0x3ff0 + (random.next() & 31) as u16, random.next() | 1 << 63)
            }),
            environment: [0; ENV_SIZE_32],
            rflags: 2 | random.next() & (FlagSet::ARITHMETIC.rflags() | FlagSet::DF.rflags()),
        };
        // What the vector unit accesses has to be aligned.
        let aligned = if random.next() & 0x100 == 0 { !0x3f } else { !0 };
        for register in &mut state.general[..count] {
            *register = 0x1000 + (random.next() & 0xfff & aligned);
        }
        state.set_word(0, 0x7f | random.next() as u16 & 0xf00);
        // ST(7) is empty, so that something can be pushed.
        let top = random.next() as u16 & 7;
        state.set_word(4, random.next() as u16 & CODES_IN_STATUS | top << 11);
        state.set_word(8, 3 << (2 * ((top + 7) & 7)));
        state
    }

    /// The same with other values in all that is no input.
    fn perturbed(&self, effects: &Effects, random: &mut Random, code: CodeSize) -> Self {
        let other = Self::random(random, code);
        let inputs = effects.inputs();
        let mut state = *self;
        for n in 0..16 {
            if !inputs.contains(Register::General(n)) {
                state.general[usize::from(n)] = other.general[usize::from(n)];
            }
            if !inputs.contains(Register::Xmm(n)) {
                state.xmm[usize::from(n)] = other.xmm[usize::from(n)];
            }
        }
        for n in 0..32 {
            if !inputs.contains(Register::Zmm(n)) {
                state.zmm[usize::from(n)] = other.zmm[usize::from(n)];
            }
        }
        for n in 0..8 {
            if !inputs.contains(Register::Mask(n)) {
                state.masks[usize::from(n)] = other.masks[usize::from(n)];
            }
        }
        let entries = self.physical(inputs);
        for (n, entry) in state.x87.iter_mut().enumerate() {
            if !entries[n] {
                *entry = other.x87[n];
            }
        }
        if !inputs.contains(Register::Mxcsr) {
            state.mxcsr = other.mxcsr;
        }
        if !inputs.contains(Register::X87Control) {
            state.set_word(0, other.word(0));
        }
        let flags = effects.flags.read.union(effects.flags.conditional);
        let status = flags.x87_status() | !CODES_IN_STATUS;
        state.set_word(4, self.word(4) & status | other.word(4) & !status);
        let kept = flags.rflags();
        state.rflags = self.rflags & kept | other.rflags & !kept;
        state
    }

    /// Which x87 registers, counted from the first, are in a set.
    fn physical(&self, set: RegisterSet) -> [bool; 8] {
        let top = self.word(4) >> 11 & 7;
        std::array::from_fn(|n| {
            let entry = Register::X87((n as u8).wrapping_sub(top as u8) & 7);
            set.contains(entry) || set.contains(Register::Mmx(n as u8))
        })
    }

    /// Where it differs from `before` though nothing there is written.
    fn strays(&self, before: &Self, effects: &Effects) -> Vec<String> {
        let mut strays = Vec::new();
        let mut look = |written: bool, same: bool, what: String| {
            if !written && !same {
                strays.push(what);
            }
        };
        let written = |register| effects.written.contains(register);
        for n in 0..16u8 {
            let at = usize::from(n);
            let same = self.general[at] == before.general[at];
            look(written(Register::General(n)), same, Register::General(n).to_string());
            look(written(Register::Xmm(n)), self.xmm[at] == before.xmm[at], format!("XMM{n}"));
        }
        for n in 0..32u8 {
            let at = usize::from(n);
            look(written(Register::Zmm(n)), self.zmm[at] == before.zmm[at], format!("ZMM{n}"));
        }
        for n in 0..8u8 {
            let at = usize::from(n);
            look(written(Register::Mask(n)), self.masks[at] == before.masks[at], format!("k{n}"));
        }
        for (n, written) in before.physical(effects.written).into_iter().enumerate() {
            look(written, self.x87[n] == before.x87[n], format!("x87 register {n}"));
        }
        look(written(Register::Mxcsr), self.mxcsr == before.mxcsr, "MXCSR".into());
        for (register, at, bits) in [
            (Register::X87Control, 0, u16::MAX),
            (Register::X87Status, 4, EXCEPTIONS),
            (Register::X87Top, 4, TOP),
        ] {
            let same = (self.word(at) ^ before.word(at)) & bits == 0;
            look(written(register), same, register.to_string());
        }
        // The tag of an entry goes with the entry.
        let entries = before.physical(effects.written);
        let same = (0..8).all(|n| entries[n] || self.empty()[n] == before.empty()[n]);
        look(written(Register::X87Tags), same, "tags".into());
        let same = self.environment[12..] == before.environment[12..];
        look(written(Register::X87Pointers), same, "x87 pointers".into());
        let changed = effects.flags.changed();
        let same = (self.rflags ^ before.rflags) & !changed.rflags() == 0;
        look(false, same, "flags".into());
        let codes = CODES_IN_STATUS & !changed.x87_status();
        look(false, (self.word(4) ^ before.word(4)) & codes == 0, "condition codes".into());
        strays
    }

    /// Which x87 registers are empty: of the tag word the rest says what is in the registers.
    fn empty(&self) -> [bool; 8] {
        std::array::from_fn(|n| self.word(8) >> (2 * n) & 3 == 3)
    }

    /// What of it is written with a value that the manuals define; zeros elsewhere. The x87 pointers
    /// depend on where the instruction is.
    fn defined(&self, before: &Self, effects: &Effects) -> Self {
        let mut defined = *self;
        for n in 0..16u8 {
            if !effects.written.contains(Register::General(n)) {
                defined.general[usize::from(n)] = 0;
            }
            if !effects.written.contains(Register::Xmm(n)) {
                defined.xmm[usize::from(n)] = 0;
            }
        }
        for n in 0..32u8 {
            if !effects.written.contains(Register::Zmm(n)) {
                defined.zmm[usize::from(n)] = [0; 16];
            }
        }
        for n in 0..8u8 {
            if !effects.written.contains(Register::Mask(n)) {
                defined.masks[usize::from(n)] = 0;
            }
        }
        for (n, written) in before.physical(effects.written).into_iter().enumerate() {
            if !written {
                defined.x87[n] = F80::ZERO;
            }
        }
        if !effects.written.contains(Register::Mxcsr) {
            defined.mxcsr = 0;
        }
        if !effects.written.contains(Register::X87Control) {
            defined.set_word(0, 0);
        }
        let codes = effects.flags.written.x87_status();
        defined.set_word(4, self.word(4) & (codes | !CODES_IN_STATUS));
        defined.rflags &= effects.flags.written.rflags();
        defined.environment[12..].fill(0);
        defined
    }
}

/// Elements that are numbers of all kinds, and small integers, which as indices stay inside of memory.
fn random_elements(random: &mut Random) -> Zmm {
    let small = random.next() & 0x30 == 0;
    std::array::from_fn(|_| {
        let bits = random.next();
        match bits & 7 {
            _ if small => bits as u32 & 0xffc,
            0 => bits as u32 & 0x807f_ffff,
            1 => bits as u32 | 0x7f80_0000,
            _ => bits as u32 & 0x83ff_ffff | 0x3c00_0000,
        }
    })
}

/// A processor with some RAM, paging and privileges out of the way.
struct Machine {
    cpu: Cpu,
    ram: Ram,
    /// What `ram` points to.
    _memory: Vec<u8>,
}

impl Machine {
    fn new(code: CodeSize) -> Self {
        let mut memory = vec![0u8; RAM_BYTES];
        let region = Region { gpa: 0, len: RAM_BYTES as u64, host: memory.as_mut_ptr() };
        #[allow(unsafe_code, reason = "the only way to make a Ram")]
        // SAFETY: the vector lives beside the `Ram`, keeps its buffer, and nothing else accesses it.
        let ram = unsafe { Ram::new(&[region]) };
        let mut cpu = Cpu::new(FEATURES);
        let (size, protected, efer) = match code {
            CodeSize::Bits16 => (0, 0, 0),
            CodeSize::Bits32 => (Segment::BIG, 1, 0),
            CodeSize::Bits64 => (Segment::LONG, 1, 0x500),
        };
        for n in 0..6 {
            let (kind, more) = if n == seg::CS { (11, size) } else { (3, size & Segment::BIG) };
            let limit = if code == CodeSize::Bits16 { 0xffff } else { u32::MAX };
            let attributes = kind | Segment::S | Segment::PRESENT | more;
            cpu.set_segment(n, Segment { selector: 8, base: 0, limit, attributes });
        }
        // OSFXSR and OSXMMEXCPT.
        cpu.set_control(protected, 0, 0x600, efer);
        cpu.deadline = u64::MAX;
        cpu.retire_until = u64::MAX;
        Self { cpu, ram, _memory: memory }
    }

    fn set(&mut self, state: &State) {
        for (n, &value) in (0..).zip(&state.general) {
            self.cpu.set_gpr(n, value);
        }
        self.cpu.simd.xmm = state.xmm;
        self.cpu.simd.mxcsr = state.mxcsr;
        self.cpu.vector.zmm = state.zmm;
        self.cpu.vector.k = state.masks;
        self.cpu.fpu.st = state.x87;
        self.cpu.fpu.set_environment(EnvFormat::Protected32, &state.environment);
        self.cpu.set_rflags(state.rflags);
        self.cpu.rip = CODE;
        self.cpu.regs[usize::from(BLOCK_BASE)] = CODE;
    }

    fn get(&self) -> State {
        State {
            general: std::array::from_fn(|n| self.cpu.gpr(n as u8)),
            xmm: self.cpu.simd.xmm,
            zmm: self.cpu.vector.zmm,
            masks: self.cpu.vector.k,
            mxcsr: self.cpu.simd.mxcsr,
            x87: self.cpu.fpu.st,
            environment: self.cpu.fpu.environment(EnvFormat::Protected32),
            rflags: self.cpu.rflags(),
        }
    }

    /// Where the memory operands are; `None` if one is not in RAM, or not all of it in a row.
    fn operands(&self, effects: &Effects) -> Option<Vec<(u64, usize)>> {
        let place = |operand: &crate::effects::MemoryOperand| {
            let (at, bytes) = (self.cpu.effective(&operand.mem), operand.total_bytes() as usize);
            let end = at.checked_add(bytes as u64 + 0x100)?;
            (end < RAM_BYTES.min(1 + operand.mem.mask.value() as usize) as u64)
                .then_some((at, bytes))
        };
        effects.memory.iter().map(place).collect()
    }

    /// Executes the instruction in `state`, with the same bytes in its memory operands each time: what
    /// it leaves, if it completes.
    fn execute(
        &mut self,
        state: &State,
        insn: &Insn,
        effects: &Effects,
    ) -> Option<(State, Vec<u8>)> {
        self.set(state);
        let operands = self.operands(effects)?;
        for &(at, bytes) in &operands {
            let fill: Vec<u8> = (0..bytes).map(|n| (n * 37 + 5) as u8 & 0x7f).collect();
            assert!(self.ram.write_bytes(at, &fill));
        }
        let mut cx = Cx { bus: &mut Unconnected::default(), ram: &self.ram, observer: Plain };
        handler(insn)(&mut self.cpu, &mut cx, insn).ok()?;
        let mut memory = Vec::new();
        for &(at, bytes) in &operands {
            let mut found = vec![0; bytes];
            assert!(self.ram.read_bytes(at, &mut found));
            memory.extend(found);
        }
        Some((self.get(), memory))
    }
}

/// Whether only registers and memory that are compared here play a part.
fn is_simple(insn: &Insn, effects: &Effects) -> bool {
    let system = |register: Register| {
        use Register as R;
        matches!(
            register,
            R::Segment(_)
                | R::Control(_)
                | R::Debug(_)
                | R::Gdtr
                | R::Idtr
                | R::Ldtr
                | R::Tr
                | R::ModelSpecific
        )
    };
    let flags = FlagSet::ARITHMETIC.union(FlagSet::DF).union(FlagSet::CONDITION_CODES);
    let elsewhere =
        matches!(insn.op, O::Bt | O::Bts | O::Btr | O::Btc) && insn.form == Form::MemReg;
    let ports = matches!(insn.op, O::In | O::Out | O::Ins | O::Outs);
    !(effects.open_ended
        || effects.written.iter().any(system)
        || !flags.contains(effects.flags.changed())
        || effects.memory.iter().any(|operand| operand.repeated)
        || elsewhere
        || ports)
}

#[test]
fn nothing_else_changes_or_matters() {
    let mut random = Random::new(0x5851_f42d_4c95_7f2d);
    let mut executed = 0;
    let mut wrong = std::collections::BTreeMap::new();
    for code in CODES {
        let l = lowering(FEATURES, code);
        let mut machine = Machine::new(code);
        let mut check = |bytes: &[u8]| {
            let Some((i, insn)) = lower_bytes(&l, bytes) else { return };
            let effects = insn.effects(Mode::new(code));
            if !is_simple(&insn, &effects) {
                return;
            }
            machine.set(&State::random(&mut random, code));
            let before = machine.get();
            let other = before.perturbed(&effects, &mut random, code);
            let Some((after, memory)) = machine.execute(&before, &insn, &effects) else {
                return;
            };
            let mut note = |what: &str, list: Vec<String>| {
                if !list.is_empty() {
                    let text = format!("{code:?} {:?} {bytes:02x?} {what} {list:?}", i.code());
                    wrong.entry((insn.op, what.to_string())).or_insert(text);
                }
            };
            executed += 1;
            note("also changes", after.strays(&before, &effects));
            let Some((again, memory_again)) = machine.execute(&other, &insn, &effects) else {
                note("also depends on something", vec!["to complete".into()]);
                return;
            };
            let (one, other) = (after.defined(&before, &effects), again.defined(&before, &effects));
            note("depends on something else", one.strays(&other, &Effects::NONE));
            if memory != memory_again {
                note("depends on something else", vec!["in memory".into()]);
            }
        };
        encodings::all(true, &mut check);
        if code == CodeSize::Bits64 {
            encodings::of_vector_unit(&mut check);
        }
    }
    let wrong: Vec<String> = wrong.into_values().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(executed > 50_000, "{executed}");
}
