//! The decoder's tables as the oracle.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{
    Code, CpuidFeature, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register as Named, RflagsBits, UsedMemory,
};

use super::{
    CODES,
    differences::{KNOWN, Known},
    encodings::{self, Random},
    instruction_sets, lowering,
};
use crate::{
    effects::{Access, FlagSet, MemoryOperand, Mode, Register, RegisterSet},
    insn::{BLOCK_BASE, Insn, ZERO, seg},
    lower::{Lowering, lower_bytes},
    mode::CodeSize,
    operation::{Family, Operation},
};

/// In what the effects and the oracle may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Aspect {
    Read,
    Written,
    Conditional,
    FlagsRead,
    FlagsWritten,
    FlagsCleared,
    FlagsSet,
    FlagsUndefined,
    Memory,
    Pops,
}

/// The register of a name; `None` for those that have no like among the effects.
fn register(named: Named) -> Option<Register> {
    let n = named.number() as u8;
    Some(match named.full_register() {
        full if full.is_gpr() => Register::General(full.number() as u8),
        _ if named.is_segment_register() => Register::Segment(n),
        _ if named.is_cr() => Register::Control(n),
        _ if named.is_dr() => Register::Debug(n),
        _ if named.is_st() => Register::X87(n),
        _ if named.is_mm() => Register::Mmx(n),
        _ if named.is_xmm() => Register::Xmm(n),
        _ => return None,
    })
}

/// The registers that the oracle knows.
fn known_registers(set: RegisterSet) -> RegisterSet {
    set.iter().filter(|register| *register < Register::InstructionPointer).collect()
}

fn flag_set(bits: u32) -> FlagSet {
    let places = [
        (RflagsBits::OF, FlagSet::OF),
        (RflagsBits::SF, FlagSet::SF),
        (RflagsBits::ZF, FlagSet::ZF),
        (RflagsBits::AF, FlagSet::AF),
        (RflagsBits::CF, FlagSet::CF),
        (RflagsBits::PF, FlagSet::PF),
        (RflagsBits::DF, FlagSet::DF),
        (RflagsBits::IF, FlagSet::IF),
        (RflagsBits::AC, FlagSet::AC),
        (RflagsBits::C0, FlagSet::C0),
        (RflagsBits::C1, FlagSet::C1),
        (RflagsBits::C2, FlagSet::C2),
        (RflagsBits::C3, FlagSet::C3),
    ];
    let chosen = places.into_iter().filter(|&(bit, _)| bits & bit != 0);
    chosen.fold(FlagSet::EMPTY, |set, (_, flag)| set.union(flag))
}

/// The flags that the oracle knows.
fn known_flags(set: FlagSet) -> FlagSet {
    set.intersection(flag_set(u32::MAX))
}

/// A memory access as both have it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Accessed {
    how: &'static str,
    bytes: usize,
    segment: Option<Named>,
    base: Option<Register>,
    index: Option<Register>,
    scale: u32,
    displacement: u64,
}

impl std::fmt::Debug for Accessed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { how, bytes, segment, base, index, scale, displacement } = self;
        write!(f, "{how} {bytes} {segment:?}:{base:?}+{index:?}*{scale}+{displacement:x}")
    }
}

/// The segment register of a name, as far as it matters: in 64-bit mode only FS and GS do.
fn segment(named: Named, code: CodeSize) -> Option<Named> {
    match named {
        Named::None => None,
        Named::FS | Named::GS => Some(named),
        other => (code != CodeSize::Bits64).then_some(other),
    }
}

fn base_or_index(named: Named) -> Option<Register> {
    if named == Named::None || named.is_ip() { None } else { register(named) }
}

fn theirs(memory: &UsedMemory, code: CodeSize) -> Accessed {
    let mask = match memory.address_size() {
        iced_x86::CodeSize::Code16 => 0xffff,
        iced_x86::CodeSize::Code32 => 0xffff_ffff,
        _ => u64::MAX,
    };
    Accessed {
        how: match memory.access() {
            OpAccess::Read => "read",
            OpAccess::CondRead => "may read",
            OpAccess::Write => "write",
            OpAccess::CondWrite => "may write",
            OpAccess::ReadWrite | OpAccess::ReadCondWrite => "read and write",
            OpAccess::NoMemAccess => "address",
            OpAccess::None => "none",
        },
        bytes: memory.memory_size().size(),
        segment: segment(memory.segment(), code),
        base: base_or_index(memory.base()),
        index: base_or_index(memory.index()),
        scale: memory.scale(),
        displacement: memory.displacement() & mask,
    }
}

/// The operand of which the oracle knows only that it is not accessed.
fn not_accessed(i: &Instruction, insn: &Insn, code: CodeSize) -> Accessed {
    let lea = i.mnemonic() == Mnemonic::Lea;
    Accessed {
        how: "address",
        bytes: i.memory_size().size(),
        segment: if lea { None } else { segment(i.memory_segment(), code) },
        base: base_or_index(i.memory_base()),
        index: base_or_index(i.memory_index()),
        scale: i.memory_index_scale(),
        displacement: i.memory_displacement64() & insn.mem.mask.value(),
    }
}

/// The accesses of an operand. To elements that are repeated the oracle gives no size.
fn ours(operand: &MemoryOperand) -> impl Iterator<Item = Accessed> {
    let mem = operand.mem;
    let how = match (operand.access, operand.conditional) {
        (Access::Read, false) => "read",
        (Access::Read, true) => "may read",
        (Access::Write, false) => "write",
        (Access::Write, true) => "may write",
        (Access::ReadWrite, _) => "read and write",
        (Access::Address | Access::Cache, _) => "address",
    };
    let segment = match mem.seg {
        seg::ES => Some(Named::ES),
        seg::CS => Some(Named::CS),
        seg::SS => Some(Named::SS),
        seg::DS => Some(Named::DS),
        seg::FS | seg::FS_BASE => Some(Named::FS),
        seg::GS | seg::GS_BASE => Some(Named::GS),
        _ => None,
    };
    let of = |n| (n != ZERO && n != BLOCK_BASE).then(|| Register::general(n));
    let (bytes, repeated) = (operand.bytes, operand.repeated);
    (0..operand.count).map(move |n| Accessed {
        how,
        bytes: if repeated { 0 } else { usize::from(bytes) },
        segment,
        base: of(mem.base),
        index: of(mem.index),
        scale: 1 << mem.scale,
        displacement: (mem.disp + i64::from(n) * i64::from(bytes)) as u64 & mem.mask.value(),
    })
}

/// The first access of an instruction of the vector unit as the oracle has it, which does not know that a
/// mask may keep an operand from being read, or a stream from being stored, nor how many elements there are.
fn as_named(mut access: Accessed, insn: &Insn) -> Accessed {
    let packs = format!("{:?}", insn.op).starts_with("Vpackstore");
    access.how = match access.how {
        "may read" => "read",
        "may write" if packs => "write",
        how => how,
    };
    access
}

/// A difference: in what, what only the effects have, and what only the oracle has.
struct Difference {
    aspect: Aspect,
    here: Vec<String>,
    there: Vec<String>,
}

impl Difference {
    fn of_registers(aspect: Aspect, here: RegisterSet, there: RegisterSet) -> Self {
        let names = |set: RegisterSet| set.iter().map(|register| register.to_string()).collect();
        Self { aspect, here: names(here.without(there)), there: names(there.without(here)) }
    }

    fn of_flags(aspect: Aspect, here: FlagSet, there: FlagSet) -> Self {
        let names = |set: FlagSet| {
            set.iter().map(|flag| format!("{flag:?}").trim_matches(['{', '}']).into()).collect()
        };
        Self { aspect, here: names(here.without(there)), there: names(there.without(here)) }
    }

    /// What one has and the other has not, each access as often as it occurs.
    fn of_memory(mut here: Vec<Accessed>, there: &[Accessed]) -> Self {
        let mut only_there = Vec::new();
        for access in there {
            match here.iter().position(|other| other == access) {
                Some(at) => drop(here.swap_remove(at)),
                None => only_there.push(format!("{access:?}")),
            }
        }
        let here = here.iter().map(|access| format!("{access:?}")).collect();
        Self { aspect: Aspect::Memory, here, there: only_there }
    }

    /// Whether `known` is about it.
    fn is(&self, operation: Operation, i: &Instruction, known: &Known) -> bool {
        // An access to memory is known by how it is made.
        let all_in = |found: &[String], listed: &[&str]| {
            found.iter().all(|found| {
                listed.iter().any(|&name| match self.aspect {
                    Aspect::Memory => found.starts_with(name),
                    _ => found == name,
                })
            })
        };
        known.aspect == self.aspect
            && known.operations.contains(&operation)
            && (known.when)(i)
            && all_in(&self.here, known.here)
            && all_in(&self.there, known.there)
    }
}

/// Compares the effects of an instruction with the oracle's.
fn compare(
    factory: &mut InstructionInfoFactory,
    i: &Instruction,
    insn: &Insn,
    code: CodeSize,
) -> Vec<Difference> {
    let effects = insn.effects(Mode::new(code));
    let info = factory.info(i);
    let mut differences = Vec::new();
    let none = RegisterSet::EMPTY;
    let (mut read, mut written, mut always) = (none, none, none);
    for used in info.used_registers() {
        let Some(register) = register(used.register()) else { continue };
        use OpAccess as A;
        if matches!(used.access(), A::Read | A::CondRead | A::ReadWrite | A::ReadCondWrite) {
            read.insert(register);
        }
        if matches!(used.access(), A::Write | A::CondWrite | A::ReadWrite | A::ReadCondWrite) {
            written.insert(register);
        }
        if matches!(used.access(), A::Write | A::ReadWrite) {
            always.insert(register);
        }
    }
    // To the oracle a vector register is read when a part of it is written; a general register is not.
    let vectors =
        RegisterSet::range(Register::Xmm(0), 16).union(RegisterSet::range(Register::Mmx(0), 8));
    let kept = effects.partial.intersection(vectors);
    for (aspect, here, there) in [
        (Aspect::Read, effects.read.union(kept), read),
        (Aspect::Written, effects.written, written),
        (Aspect::Conditional, effects.conditional, written.without(always)),
    ] {
        let here = known_registers(here);
        if here != there {
            differences.push(Difference::of_registers(aspect, here, there));
        }
    }
    let f = &effects.flags;
    for (aspect, here, there) in [
        (Aspect::FlagsRead, f.read, i.rflags_read()),
        (Aspect::FlagsWritten, f.written.without(f.cleared).without(f.set), i.rflags_written()),
        (Aspect::FlagsCleared, f.cleared, i.rflags_cleared()),
        (Aspect::FlagsSet, f.set, i.rflags_set()),
        (Aspect::FlagsUndefined, f.undefined, i.rflags_undefined()),
    ] {
        let (here, there) = (known_flags(here), flag_set(there));
        if here != there {
            differences.push(Difference::of_flags(aspect, here, there));
        }
    }
    let mut here: Vec<_> = effects.memory.iter().flat_map(ours).collect();
    if insn.op.family() == Family::Vector {
        here = here.into_iter().take(1).map(|access| as_named(access, insn)).collect();
    }
    let mut there: Vec<_> = info.used_memory().iter().map(|m| theirs(m, code)).collect();
    let untouched =
        |n| i.op_kind(n) == OpKind::Memory && info.op_access(n) == OpAccess::NoMemAccess;
    if (0..i.op_count()).any(untouched) {
        there.retain(|access| access.how != "address");
        there.push(not_accessed(i, insn, code));
    }
    if here != there {
        let difference = Difference::of_memory(here, &there);
        if !(difference.here.is_empty() && difference.there.is_empty()) {
            differences.push(difference);
        }
    }
    let pops = i.fpu_stack_increment_info();
    let (here, there) = (effects.x87_pops, pops.increment());
    if i32::from(here) != there {
        let (here, there) = (vec![here.to_string()], vec![there.to_string()]);
        differences.push(Difference { aspect: Aspect::Pops, here, there });
    }
    differences
}

/// What has been compared and found.
struct Comparison {
    factory: InstructionInfoFactory,
    /// How many instructions.
    compared: u64,
    operations: BTreeSet<Operation>,
    codes: BTreeSet<Code>,
    /// Which operations each known difference has occurred in.
    occurred: Vec<BTreeSet<Operation>>,
    /// Differences that are not known, with an example of each.
    unknown: BTreeMap<(Operation, Aspect), String>,
}

impl Comparison {
    fn new() -> Self {
        Self {
            factory: InstructionInfoFactory::new(),
            compared: 0,
            operations: BTreeSet::new(),
            codes: BTreeSet::new(),
            occurred: vec![BTreeSet::new(); KNOWN.len()],
            unknown: BTreeMap::new(),
        }
    }

    /// Compares the instruction that `bytes` begin with, if there is one.
    fn compare(&mut self, l: &Lowering, bytes: &[u8]) {
        let Some((i, insn)) = lower_bytes(l, bytes) else { return };
        self.operations.insert(insn.op);
        self.compared += 1;
        if matches!(insn.op, Operation::Invalid | Operation::TooLong) {
            let nothing = insn.effects(Mode::new(l.code));
            assert!(nothing.read.is_empty() && nothing.written.is_empty());
            return;
        }
        self.codes.insert(i.code());
        for difference in compare(&mut self.factory, &i, &insn, l.code) {
            match KNOWN.iter().position(|known| difference.is(insn.op, &i, known)) {
                Some(known) => {
                    self.occurred[known].insert(insn.op);
                }
                None => {
                    let Difference { aspect, here, there } = difference;
                    let text = || {
                        format!(
                            "{:?} {:?} {bytes:02x?}: only the effects have {here:?}, only the oracle {there:?}",
                            l.code,
                            i.code(),
                        )
                    };
                    self.unknown.entry((insn.op, aspect)).or_insert_with(text);
                }
            }
        }
    }

    fn assert_nothing_unknown(&self) {
        let lines: Vec<String> = self
            .unknown
            .iter()
            .map(|((operation, aspect), text)| format!("{operation:?} {aspect:?} {text}"))
            .collect();
        assert!(lines.is_empty(), "{}", lines.join("\n"));
    }
}

/// Whether some personality executes an instruction that needs `feature`.
fn executed(feature: CpuidFeature) -> bool {
    use CpuidFeature as F;
    [
        F::INTEL8086,
        F::INTEL186,
        F::INTEL286,
        F::INTEL386,
        F::INTEL486,
        F::FPU,
        F::FPU287,
        F::FPU387,
        F::CPUID,
        F::SMM,
        F::PAUSE,
        F::MULTIBYTENOP,
        F::CMOV,
        F::TSC,
        F::MSR,
        F::RDPMC,
        F::CX8,
        F::CMPXCHG16B,
        F::SEP,
        F::SYSCALL,
        F::X64,
        F::MMX,
        F::D3NOW,
        F::D3NOWEXT,
        F::PREFETCHW,
        F::FXSR,
        F::CLFSH,
        F::SSE,
        F::SSE2,
        F::SSE3,
        F::KNC,
    ]
    .contains(&feature)
}

/// Whether a code of the decoder's is not one instruction, or not one to any personality.
fn is_none(code: Code) -> bool {
    use Code as C;
    matches!(
        code,
        C::INVALID
            | C::DeclareByte
            | C::DeclareWord
            | C::DeclareDword
            | C::DeclareQword
            | C::Zero_bytes
            // With FWAIT before it.
            | C::Fstenv_m14byte
            | C::Fstenv_m28byte
            | C::Fstcw_m2byte
            | C::Feni
            | C::Fdisi
            | C::Fclex
            | C::Finit
            | C::Fsetpm
            | C::Fsave_m94byte
            | C::Fsave_m108byte
            | C::Fstsw_m2byte
            | C::Fstsw_AX
            // Where the group exists its members are prefetches, where it does not they raise #UD.
            | C::Reservednop_rm16_r16_0F0D
            | C::Reservednop_rm32_r32_0F0D
            | C::Reservednop_rm64_r64_0F0D
    ) || code.mnemonic() == Mnemonic::Undoc
}

/// All opcodes with all operands, in all code sizes.
#[test]
fn all_encodings() {
    let mut comparison = Comparison::new();
    for (n, features) in instruction_sets().into_iter().enumerate() {
        for code in CODES {
            let l = lowering(features, code);
            encodings::all(n > 0, |bytes| comparison.compare(&l, bytes));
            if features.vpu && code == CodeSize::Bits64 {
                encodings::of_vector_unit(|bytes| comparison.compare(&l, bytes));
            }
        }
    }
    comparison.assert_nothing_unknown();
    for (known, occurred) in KNOWN.iter().zip(&comparison.occurred) {
        for operation in known.operations {
            let Known { aspect, why, .. } = known;
            assert!(occurred.contains(operation), "{operation:?} {aspect:?} no more: {why}");
        }
    }
    // Sixteen bytes are needed for the one; the 287's FRSTPM has no encoding that the decoder knows
    // without being asked.
    let unseen: Vec<_> =
        Operation::ALL.iter().filter(|op| !comparison.operations.contains(op)).collect();
    assert_eq!(unseen, [&Operation::TooLong, &Operation::Frstpm]);
    let unseen: Vec<Code> = Code::values()
        .filter(|&code| {
            !is_none(code) && code.cpuid_features().iter().all(|&feature| executed(feature))
        })
        .filter(|code| !comparison.codes.contains(code))
        .collect();
    assert_eq!(unseen, []);
    assert!(comparison.compared > 2_000_000, "{}", comparison.compared);
}

/// A million random encodings.
#[test]
fn random_encodings() {
    let mut comparison = Comparison::new();
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let lowerings: Vec<Lowering> = instruction_sets()
        .into_iter()
        .flat_map(|features| CODES.map(|code| lowering(features, code)))
        .collect();
    for n in 0..1_000_000 {
        let bytes = encodings::any(&mut random);
        comparison.compare(&lowerings[n % lowerings.len()], &bytes);
    }
    comparison.assert_nothing_unknown();
    assert!(comparison.compared > 900_000, "{}", comparison.compared);
}
