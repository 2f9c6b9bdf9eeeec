//! MOVS, CMPS, STOS, LODS and SCAS, alone and repeated.
//!
//! A repeated instruction ends its block. It stops between two iterations when the budget is used up
//! or the owner has to act, with its registers up to date, and is executed again. Each iteration but
//! the last takes the cycles of an iteration, the last those of the instruction itself; so the time at
//! the end does not depend on how often the instruction stopped.

use iced_x86::{Instruction, OpKind, Register};

use super::{by_size, next, size_of_bytes};
use crate::{
    class::Class,
    cpu::Cpu,
    flags::{self, Word},
    insn::{AddrMask, Handler, Insn, Mem, ZERO, gpr},
    lower::{End, Lowered, Lowering},
    observe::{Cx, Direction, Heeded, LINE, Observer},
    operation::Operation,
    ram::{HostPage, PAGE},
    stop::{Exec, Stop},
    timing::AlikeSteps,
};

/// One of the string instructions, with elements of `T`.
///
/// The lowered instruction has the source operand in `mem`, in `dst` how ES is addressed, and in `aux`
/// how it is repeated.
trait StringOperation {
    /// Repeats depend on ZF: CMPS and SCAS.
    const COMPARES: bool = false;
    /// Reads of an element.
    const LOADS: u64;
    /// Writes of an element.
    const STORES: u64;
    /// One element. The index registers move only if it succeeds.
    fn step<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()>;
    /// As many of the next `limit` elements as can be done at once; zero if none.
    #[inline(always)]
    fn run<O: Observer, T: Word>(_: &mut Cpu, _: &Insn, _: u64) -> u64 {
        0
    }
}

/// The destination operand: ES:rDI.
#[inline(always)]
fn destination(insn: &Insn) -> Mem {
    Mem { base: gpr::RDI, seg: insn.dst, ..insn.mem }
}

/// Moves an index register by `elements` elements, in the direction of DF.
#[inline(always)]
fn advance<T: Word>(cpu: &mut Cpu, insn: &Insn, r: u8, elements: u64) {
    let bytes = elements * T::BYTES as u64;
    let index = cpu.reg::<u64>(r);
    let moved = if cpu.system_flags & flags::DF == 0 {
        index.wrapping_add(bytes)
    } else {
        index.wrapping_sub(bytes)
    };
    set_address(cpu, insn, r, moved);
}

/// Writes an index or count register, of which the address size counts.
#[inline(always)]
fn set_address(cpu: &mut Cpu, insn: &Insn, r: u8, value: u64) {
    match insn.mem.mask {
        AddrMask::Bits16 => cpu.set_reg(r, value as u16),
        AddrMask::Bits32 => cpu.set_reg(r, value as u32),
        AddrMask::Bits64 => cpu.set_reg(r, value),
    }
}

#[inline(always)]
fn subtract<T: Word>(cpu: &mut Cpu, a: T, b: T) {
    cpu.flags.set_sub(a, b, T::from_u64(a.to_u64().wrapping_sub(b.to_u64())));
}

/// A stretch of elements in one page.
struct Stretch {
    /// Page number and offset in it.
    linear: u64,
    /// Number of elements.
    elements: u64,
}

impl Stretch {
    /// The elements of `mem` from its address upwards, up to `limit` of them, that are in one page
    /// and inside their segment; `None` if that would not gain anything.
    #[inline(always)]
    fn of<O: Observer, T: Word>(cpu: &Cpu, mem: &Mem, limit: u64, write: bool) -> Option<Self> {
        let size = T::BYTES as u64;
        let linear = cpu.linear(mem, size, write).ok()?;
        // Elements that are not aligned may each have something to report.
        if O::COUNTS && linear & (size - 1) != 0 {
            return None;
        }
        let to_wrap = mem.mask.value() - cpu.effective(mem);
        let in_page = PAGE - (linear & (PAGE - 1));
        let elements = limit.min(in_page / size).min(to_wrap / size);
        if elements < 2 || cpu.linear(mem, elements * size, write).is_err() {
            return None;
        }
        Some(Self { linear, elements })
    }

    fn page(&self) -> u64 {
        self.linear & !(PAGE - 1)
    }

    fn offset(&self) -> usize {
        (self.linear & (PAGE - 1)) as usize
    }
}

struct Movs;
impl StringOperation for Movs {
    const LOADS: u64 = 1;
    const STORES: u64 = 1;
    #[inline(always)]
    fn step<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
        let value = cpu.load_mem::<O, T>(cx, &insn.mem)?;
        cpu.store_mem(cx, &destination(insn), value)?;
        advance::<T>(cpu, insn, gpr::RSI, 1);
        advance::<T>(cpu, insn, gpr::RDI, 1);
        Ok(())
    }

    #[inline(always)]
    fn run<O: Observer, T: Word>(cpu: &mut Cpu, insn: &Insn, limit: u64) -> u64 {
        let to = destination(insn);
        let Some(source) = Stretch::of::<O, T>(cpu, &insn.mem, limit, false) else { return 0 };
        let Some(target) = Stretch::of::<O, T>(cpu, &to, source.elements, true) else {
            return 0;
        };
        let from = *cpu.tlb.entry(cpu.mmu, source.linear);
        let into = *cpu.tlb.entry(cpu.mmu, target.linear);
        if from.read != source.page() || into.write != target.page() {
            return 0;
        }
        // Elements that are written before they are read repeat the ones between.
        let distance =
            (into.gpa() | target.offset() as u64).wrapping_sub(from.gpa() | source.offset() as u64);
        let bytes = target.elements * T::BYTES as u64;
        if distance != 0 && distance < bytes {
            return 0;
        }
        into.host.copy_from(target.offset(), from.host, source.offset(), bytes as usize);
        advance::<T>(cpu, insn, gpr::RSI, target.elements);
        advance::<T>(cpu, insn, gpr::RDI, target.elements);
        target.elements
    }
}

struct Stos;
impl StringOperation for Stos {
    const LOADS: u64 = 0;
    const STORES: u64 = 1;
    #[inline(always)]
    fn step<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
        let value = cpu.reg::<T>(gpr::RAX);
        cpu.store_mem(cx, &destination(insn), value)?;
        advance::<T>(cpu, insn, gpr::RDI, 1);
        Ok(())
    }

    #[inline(always)]
    fn run<O: Observer, T: Word>(cpu: &mut Cpu, insn: &Insn, limit: u64) -> u64 {
        let to = destination(insn);
        let Some(target) = Stretch::of::<O, T>(cpu, &to, limit, true) else { return 0 };
        let into = *cpu.tlb.entry(cpu.mmu, target.linear);
        if into.write != target.page() {
            return 0;
        }
        let value = cpu.reg::<T>(gpr::RAX).to_u64();
        fill::<T>(into.host, target.offset(), target.elements as usize, value);
        advance::<T>(cpu, insn, gpr::RDI, target.elements);
        target.elements
    }
}

/// Writes `value` `elements` times from `offset` on.
fn fill<T: Word>(page: HostPage, offset: usize, elements: usize, value: u64) {
    let bytes = value.to_le_bytes();
    if bytes[..T::BYTES].iter().all(|&byte| byte == bytes[0]) {
        page.fill(offset, elements * T::BYTES, bytes[0]);
        return;
    }
    for n in 0..elements {
        let at = offset + n * T::BYTES;
        match T::BYTES {
            2 => page.write(at, (value as u16).to_le_bytes()),
            4 => page.write(at, (value as u32).to_le_bytes()),
            _ => page.write(at, bytes),
        }
    }
}

struct Lods;
impl StringOperation for Lods {
    const LOADS: u64 = 1;
    const STORES: u64 = 0;
    #[inline(always)]
    fn step<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
        let value = cpu.load_mem::<O, T>(cx, &insn.mem)?;
        cpu.set_reg(gpr::RAX, value);
        advance::<T>(cpu, insn, gpr::RSI, 1);
        Ok(())
    }
}

struct Cmps;
impl StringOperation for Cmps {
    const LOADS: u64 = 2;
    const STORES: u64 = 0;
    const COMPARES: bool = true;
    #[inline(always)]
    fn step<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
        let a = cpu.load_mem::<O, T>(cx, &insn.mem)?;
        let b = cpu.load_mem::<O, T>(cx, &destination(insn))?;
        subtract(cpu, a, b);
        advance::<T>(cpu, insn, gpr::RSI, 1);
        advance::<T>(cpu, insn, gpr::RDI, 1);
        Ok(())
    }
}

struct Scas;
impl StringOperation for Scas {
    const LOADS: u64 = 1;
    const STORES: u64 = 0;
    const COMPARES: bool = true;
    #[inline(always)]
    fn step<O: Observer, T: Word>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
        let b = cpu.load_mem::<O, T>(cx, &destination(insn))?;
        let a = cpu.reg::<T>(gpr::RAX);
        subtract(cpu, a, b);
        advance::<T>(cpu, insn, gpr::RDI, 1);
        Ok(())
    }
}

fn once<O: Observer, P: StringOperation, T: Word>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    P::step::<O, T>(cpu, cx, insn)
}

/// How many elements from these addresses of source and destination on are in lines that the element
/// before them has accessed.
fn in_lines<P: StringOperation, T: Word>([source, target]: [u64; 2]) -> u64 {
    let bytes = T::BYTES as u64;
    let within = |at: u64, accessed: u64| match (accessed, at % LINE) {
        (0, _) => u64::MAX,
        (_, offset) if offset < bytes => 0,
        (_, offset) => (LINE - offset) / bytes,
    };
    within(source, P::LOADS).min(within(target, P::STORES))
}

/// How many elements from these addresses of source and destination on an observer that models allows to be
/// accessed at once.
#[inline(never)]
fn at_once<O: Observer, P: StringOperation, T: Word>(
    cpu: &Cpu,
    cx: &Cx<'_, O>,
    [source, target]: [u64; 2],
) -> u64 {
    let elements = in_lines::<P, T>([source, target]);
    // Only those that write have a way to do several.
    if P::STORES == 0 || elements < 2 {
        return 0;
    }
    let place = |linear: u64| {
        let entry = cpu.tlb.entry(cpu.mmu, linear);
        (linear, entry.gpa() | linear & (PAGE - 1))
    };
    let read = (P::LOADS != 0).then(|| place(source));
    elements.min(cx.observer.elements_at_once(read, Some(place(target))))
}

/// REP, REPE (`WHILE_EQUAL`) and REPNE.
fn repeated<O: Observer, P: StringOperation, T: Word, const WHILE_EQUAL: bool>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let mut count = cpu.reg::<u64>(gpr::RCX) & insn.mem.mask.value();
    if count == 0 {
        return Ok(());
    }
    let flags = cpu.flags;
    let mut first = true;
    loop {
        let bounded = cpu.iterations_left(insn);
        let alike = if O::HEEDS { cpu.iterations_alike::<P>() } else { 0 };
        let left = bounded.saturating_add(alike);
        let stretches = cpu.system_flags & (flags::DF | flags::TF) == 0;
        let mut done = 0;
        // Where the elements that are done at once begin, for observers that are told addresses.
        let mut from = [0; 2];
        if O::SEES_ADDRESSES && stretches {
            from = [&insn.mem, &destination(insn)].map(|m| cpu.linear(m, 1, false).unwrap_or(0));
        }
        if stretches {
            let limit = match O::MODELS {
                true if first => 0,
                true => left.min(at_once::<O, P, T>(cpu, cx, from)),
                false => left,
            };
            done = P::run::<O, T>(cpu, insn, count.min(limit));
        }
        first = false;
        if done == 0 {
            let mark = cx.observer.mark();
            if let Err(stop) = P::step::<O, T>(cpu, cx, insn) {
                cx.observer.roll_back(mark);
                if P::COMPARES && cpu.features.repeat_restores_flags {
                    cpu.flags = flags;
                }
                return Err(stop);
            }
            done = 1;
        } else {
            cx.observer.access(done * P::LOADS, done * P::STORES);
            let [source, target] = from;
            let bytes = T::BYTES as u64;
            if P::LOADS != 0 {
                cpu.tell(cx, source, bytes, done, Direction::Load);
            }
            if P::STORES != 0 {
                cpu.tell(cx, target, bytes, done, Direction::Store);
            }
        }
        cx.observer.commit(cpu, cx.ram, insn);
        cpu.pass_modelled(cx);
        if O::MODELS && cx.observer.is_spent() {
            cpu.leave.ask();
        }
        if alike != 0 {
            cpu.go_on_alike(done.saturating_sub(bounded));
        }
        count -= done;
        set_address(cpu, insn, gpr::RCX, count);
        if count == 0 || P::COMPARES && cpu.flags.zf() != WHILE_EQUAL {
            cpu.iterated(done - 1);
            return Ok(());
        }
        cpu.iterated(done);
        if cpu.stops_between_iterations(insn) && !cpu.goes_on_between_iterations(cx, insn) {
            return Err(cpu.stop_between_iterations());
        }
    }
}

impl Cpu {
    /// How many iterations of the running instruction the budget allows.
    fn iterations_left(&self, insn: &Insn) -> u64 {
        let cycles = self.deadline.saturating_sub(self.now(insn));
        let steps = self.retire_until.saturating_sub(self.retired_before(insn));
        let steps = steps.saturating_add(self.spare_steps);
        match u64::from(self.cycle_costs.iteration) {
            0 => steps,
            each => steps.min(cycles.div_ceil(each)),
        }
    }

    /// How many iterations more may pass, at once, since they are alike to counters: no element's access is heeded.
    fn iterations_alike<P: StringOperation>(&self) -> u64 {
        let reads = if P::LOADS == 0 { Heeded::NOTHING } else { Heeded::LOADS };
        let writes = if P::STORES == 0 { Heeded::NOTHING } else { Heeded::STORES };
        let AlikeSteps { iterations, heeded, .. } = self.alike;
        if iterations && heeded.is_disjoint(reads.with(writes)) { self.alike_left } else { 0 }
    }

    /// Whether a repeated instruction stops between two iterations: the budget is used up, the owner
    /// has to act, or TF traps each iteration. An instruction that has overwritten itself goes on, as
    /// on processors.
    pub(super) fn stops_between_iterations(&self, insn: &Insn) -> bool {
        self.leave.is_asked() && !self.overwrote
            || self.now(insn) >= self.deadline
            || self.retired_before(insn) >= self.retire_until
            || self.system_flags & flags::TF != 0
    }

    /// What a repeated instruction stops with between two iterations: the single-step trap, or
    /// [`Stop::RESTART`]. RF is set in the RFLAGS image of an exception or interrupt that is delivered
    /// here, so that the restarted instruction does not meet its own breakpoint again, and is clear
    /// when the instruction has finished (Intel SDM volume 3, "Instruction-Breakpoint Exception
    /// Condition").
    pub(super) fn stop_between_iterations(&mut self) -> Stop {
        self.system_flags |= flags::RF;
        let stepping = self.system_flags & flags::TF != 0;
        if !stepping {
            return Stop::RESTART;
        }
        self.debug_trap(true).unwrap_or(Stop::RESTART)
    }
}

/// In `aux`: the instruction is not repeated.
const ONCE: u8 = 0;
/// In `aux`: REP or REPE.
const WHILE_EQUAL: u8 = 1;
/// In `aux`: REPNE.
const WHILE_NOT_EQUAL: u8 = 2;

/// Whether a string instruction is repeated.
pub(crate) fn is_repeated(insn: &Insn) -> bool {
    insn.aux != ONCE
}

/// The source operand of a string instruction (unused by those that have none).
fn string_operand(l: &Lowering, i: &Instruction) -> Option<Mem> {
    let mask = (0..i.op_count()).find_map(|n| match i.op_kind(n) {
        OpKind::MemorySegSI | OpKind::MemoryESDI => Some(AddrMask::Bits16),
        OpKind::MemorySegESI | OpKind::MemoryESEDI => Some(AddrMask::Bits32),
        OpKind::MemorySegRSI | OpKind::MemoryESRDI => Some(AddrMask::Bits64),
        _ => None,
    })?;
    let seg = l.segment(l.memory_segment(i));
    Some(Mem { disp: 0, base: gpr::RSI, index: ZERO, scale: 0, seg, mask })
}

/// Lowers the instructions of this file.
pub(super) fn lower(l: &Lowering, i: &Instruction, insn: Insn) -> Option<Lowered> {
    match insn.op {
        Operation::Movs | Operation::Stos | Operation::Lods | Operation::Cmps | Operation::Scas => {
        }
        _ => return None,
    }
    let repeat = match (i.has_rep_prefix(), i.has_repne_prefix()) {
        (true, _) => WHILE_EQUAL,
        (_, true) => WHILE_NOT_EQUAL,
        _ => ONCE,
    };
    let insn = Insn {
        mem: string_operand(l, i)?,
        size: size_of_bytes(i.memory_size().size()),
        dst: l.segment(Register::ES),
        aux: repeat,
        ..insn
    };
    if repeat == ONCE {
        next(insn)
    } else {
        Some(Lowered { insn, class: Class::NONE, end: End::Fall })
    }
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    let handlers = match insn.op {
        Operation::Movs => by_repeat::<O, Movs>(insn.aux),
        Operation::Stos => by_repeat::<O, Stos>(insn.aux),
        Operation::Lods => by_repeat::<O, Lods>(insn.aux),
        Operation::Cmps => by_repeat::<O, Cmps>(insn.aux),
        Operation::Scas => by_repeat::<O, Scas>(insn.aux),
        _ => return None,
    };
    Some(by_size(insn.size, handlers))
}

fn by_repeat<O: Observer, P: StringOperation>(repeat: u8) -> [Handler<O>; 4] {
    match repeat {
        ONCE => [once::<O, P, u8>, once::<O, P, u16>, once::<O, P, u32>, once::<O, P, u64>],
        // Only comparisons tell the two apart.
        WHILE_NOT_EQUAL if P::COMPARES => [
            repeated::<O, P, u8, false>,
            repeated::<O, P, u16, false>,
            repeated::<O, P, u32, false>,
            repeated::<O, P, u64, false>,
        ],
        _ => [
            repeated::<O, P, u8, true>,
            repeated::<O, P, u16, true>,
            repeated::<O, P, u32, true>,
            repeated::<O, P, u64, true>,
        ],
    }
}
