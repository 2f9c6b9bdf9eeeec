//! The handlers: availability, pending exceptions, memory operands and the last-instruction
//! pointers around the operations of [`Fpu`].

use super::{Arith, Constant, EnvFormat, Fpu, MemoryFormat, Source, Transcendental, Unary};
use crate::{
    control_registers::cr0,
    cpu::Cpu,
    flags,
    float_cases::{FloatCases, FloatUnit},
    insn::{Insn, Size, gpr, seg},
    observe::{Cx, FpKind, Observer},
    softfloat::Relation,
    stop::{Exec, Stop, vector},
};

/// In `aux`: pop after the operation.
pub(super) const POP: u8 = 0x10;
/// In `aux`: quiet NaNs do not signal.
pub(super) const QUIET: u8 = 0x20;
/// In `aux`: round toward zero (FISTTP).
pub(super) const TRUNCATE: u8 = 0x40;

const ARITH: [Arith; 8] = [
    Arith::Add,
    Arith::Mul,
    Arith::Sub,
    Arith::SubReverse,
    Arith::Div,
    Arith::DivReverse,
    Arith::Add,
    Arith::Add,
];
const UNARY: [Unary; 4] = [Unary::Sqrt, Unary::RoundToInteger, Unary::Abs, Unary::ChangeSign];
const TRANSCENDENTAL: [Transcendental; 8] = [
    Transcendental::Exp2Minus1,
    Transcendental::YLog2X,
    Transcendental::YLog2XPlus1,
    Transcendental::Tangent,
    Transcendental::Arctangent,
    Transcendental::Sine,
    Transcendental::Cosine,
    Transcendental::SineAndCosine,
];
const CONSTANT: [Constant; 8] = [
    Constant::One,
    Constant::Log2Of10,
    Constant::Log2OfE,
    Constant::Pi,
    Constant::Log10Of2,
    Constant::LnOf2,
    Constant::Zero,
    Constant::Zero,
];
const FORMAT: [MemoryFormat; 8] = [
    MemoryFormat::Single,
    MemoryFormat::Double,
    MemoryFormat::Extended,
    MemoryFormat::Int16,
    MemoryFormat::Int32,
    MemoryFormat::Int64,
    MemoryFormat::Decimal,
    MemoryFormat::Extended,
];

/// The operands of what computes with ST(0), and of what computes with ST(0) and ST(1).
const TOP: Source = Source::St(0);
const TOP_TWO: [Source; 2] = [Source::St(0), Source::St(1)];

fn format(insn: &Insn) -> MemoryFormat {
    FORMAT[usize::from(insn.src & 7)]
}

/// #NM while CR0 has the unit emulated or its state switched away.
#[inline]
fn available<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>) -> Exec<()> {
    if cpu.cr0 & (cr0::EM | cr0::TS) != 0 {
        return Err(Stop::NM);
    }
    cpu.note_fp(cx, FpKind::X87);
    Ok(())
}

/// What a waiting instruction does first: #NM, then [`report_pending`].
#[inline]
fn wait<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>) -> Exec<()> {
    available(cpu, cx)?;
    if cpu.fpu.pending_exception() { report_pending(cpu, cx) } else { Ok(()) }
}

/// An exception is pending at a waiting instruction: #MF, or with CR0.NE clear FERR#, once for each
/// exception (AMD64 APM volume 2, "CR0 Register", NE).
///
/// The platform's interrupt comes before the instruction. If none comes, the processor goes on as
/// under IGNNE# where a real one would stand still.
#[cold]
pub(crate) fn report_pending<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>) -> Exec<()> {
    if cpu.cr0 & cr0::NE != 0 {
        return Err(Stop::fault(vector::MF));
    }
    if !cpu.fpu.assert_ferr() {
        return Ok(());
    }
    cx.bus.ferr();
    cpu.leave.ask();
    Err(Stop::RESTART)
}

/// Records a non-control instruction as the last one.
#[inline]
fn record(cpu: &mut Cpu, insn: &Insn) {
    cpu.fpu.fop = insn.imm as u16;
    cpu.fpu.fip = cpu.rip_at(insn.start());
    cpu.fpu.fcs = cpu.segment(seg::CS).selector;
}

/// Records a non-control instruction and its memory operand.
#[inline]
fn record_memory(cpu: &mut Cpu, insn: &Insn) {
    record(cpu, insn);
    let segment = match insn.mem.seg {
        seg::FLAT => seg::DS,
        seg::FLAT_STACK => seg::SS,
        seg::FS_BASE => seg::FS,
        seg::GS_BASE => seg::GS,
        other => other,
    };
    cpu.fpu.fdp = cpu.effective(&insn.mem);
    cpu.fpu.fds = cpu.segment(segment).selector;
}

/// Reads a memory operand into the low bytes of ten.
fn read<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<[u8; 10]> {
    let mut bytes = [0; 10];
    match format(insn).size() {
        2 => bytes[..2].copy_from_slice(&cpu.load_mem::<O, u16>(cx, &insn.mem)?.to_le_bytes()),
        4 => bytes[..4].copy_from_slice(&cpu.load_mem::<O, u32>(cx, &insn.mem)?.to_le_bytes()),
        8 => bytes[..8].copy_from_slice(&cpu.load_mem::<O, u64>(cx, &insn.mem)?.to_le_bytes()),
        _ => {
            let linear = cpu.linear_in_pieces(&insn.mem, 10, 8, false)?;
            cpu.load_bytes(cx, linear, &mut bytes)?;
        }
    }
    Ok(bytes)
}

fn write<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn, bytes: [u8; 10]) -> Exec<()> {
    let [b0, b1, b2, b3, b4, b5, b6, b7, ..] = bytes;
    match format(insn).size() {
        2 => cpu.store_mem(cx, &insn.mem, u16::from_le_bytes([b0, b1])),
        4 => cpu.store_mem(cx, &insn.mem, u32::from_le_bytes([b0, b1, b2, b3])),
        8 => {
            let value = u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
            cpu.store_mem(cx, &insn.mem, value)
        }
        _ => {
            let linear = cpu.linear_in_pieces(&insn.mem, 10, 8, true)?;
            cpu.store_bytes(cx, linear, &bytes)
        }
    }
}

/// Performs an operation of the unit that computes with `operands` and leaves a result in what is now
/// ST(`result`). Who counts is told what is out of the ordinary about them.
#[inline(always)]
fn compute<O: Observer, R>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    operands: &[Source],
    result: Option<u8>,
    operation: impl FnOnce(&mut Fpu) -> R,
) -> R {
    if !O::COUNTS {
        return operation(&mut cpu.fpu);
    }
    let (outcome, cases) = cpu.fpu.observe(operands, result, operation);
    tell(cx, cases);
    outcome
}

/// Tells who counts what is out of the ordinary about an instruction's numbers.
#[inline(always)]
fn tell<O: Observer>(cx: &mut Cx<'_, O>, cases: FloatCases) {
    if cases != FloatCases::NONE {
        cx.observer.float_cases(FloatUnit::X87, cases);
    }
}

/// FADD to FDIVRP between registers; `aux` is the operation with [`POP`].
pub(super) fn arith<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    wait(cpu, cx)?;
    record(cpu, insn);
    let op = ARITH[usize::from(insn.aux & 7)];
    let (dst, source) = (insn.dst, Source::St(insn.src));
    compute(cpu, cx, &[Source::St(dst), source], Some(dst), |fpu| {
        fpu.arith(op, dst, source, insn.aux & POP != 0);
    });
    Ok(())
}

/// FADD to FIDIVR with a memory operand.
pub(super) fn arith_memory<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    wait(cpu, cx)?;
    let source = Source::from_memory(format(insn), read(cpu, cx, insn)?);
    record_memory(cpu, insn);
    let op = ARITH[usize::from(insn.aux & 7)];
    let operands = [TOP, source];
    compute(cpu, cx, &operands, Some(0), |fpu| fpu.arith(op, 0, source, false));
    Ok(())
}

/// FCOM to FUCOMPP; `aux` is the number of pops with [`QUIET`].
pub(super) fn compare<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    wait(cpu, cx)?;
    record(cpu, insn);
    let source = Source::St(insn.src);
    compute(cpu, cx, &[TOP, source], None, |fpu| {
        fpu.compare(source, insn.aux & QUIET != 0, insn.aux & 3);
    });
    Ok(())
}

/// FCOM to FICOMP with a memory operand.
pub(super) fn compare_memory<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    wait(cpu, cx)?;
    let source = Source::from_memory(format(insn), read(cpu, cx, insn)?);
    record_memory(cpu, insn);
    let operands = [TOP, source];
    compute(cpu, cx, &operands, None, |fpu| fpu.compare(source, false, insn.aux & 3));
    Ok(())
}

/// FCOMI to FUCOMIP: ZF, PF and CF tell the relation; OF, SF and AF are cleared.
pub(super) fn compare_flags<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    wait(cpu, cx)?;
    record(cpu, insn);
    let (quiet, pop) = (insn.aux & QUIET != 0, insn.aux & POP != 0);
    let operands = [TOP, Source::St(insn.src)];
    let relation = compute(cpu, cx, &operands, None, |fpu| fpu.compare_flags(insn.src, quiet, pop));
    cpu.flags.set_rflags(match relation {
        Relation::Greater => 0,
        Relation::Less => flags::CF,
        Relation::Equal => flags::ZF,
        Relation::Unordered => flags::ZF | flags::PF | flags::CF,
    });
    Ok(())
}

/// Runs an operation of the unit that has no operands in memory, cannot fault otherwise, and computes
/// with `operands` for a result in ST(`result`), or none.
#[inline]
fn computing<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    operands: &[Source],
    result: Option<u8>,
    operation: impl FnOnce(&mut Fpu),
) -> Exec<()> {
    wait(cpu, cx)?;
    record(cpu, insn);
    compute(cpu, cx, operands, result, operation);
    Ok(())
}

/// The same of one that moves numbers and does not compute with them.
#[inline]
fn plain<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
    operation: impl FnOnce(&mut Fpu),
) -> Exec<()> {
    wait(cpu, cx)?;
    record(cpu, insn);
    operation(&mut cpu.fpu);
    Ok(())
}

pub(super) fn ftst<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    computing(cpu, cx, insn, &[TOP], None, |fpu| fpu.compare(Source::Integer(0), false, 0))
}

pub(super) fn fxam<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, Fpu::examine)
}

pub(super) fn fxtract<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    computing(cpu, cx, insn, &[TOP], None, Fpu::extract)
}

pub(super) fn fscale<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    computing(cpu, cx, insn, &TOP_TWO, Some(0), Fpu::scale)
}

pub(super) fn fprem<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    computing(cpu, cx, insn, &TOP_TWO, Some(0), |fpu| fpu.remainder(false))
}

pub(super) fn fprem1<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    computing(cpu, cx, insn, &TOP_TWO, Some(0), |fpu| fpu.remainder(true))
}

pub(super) fn fincstp<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, Fpu::increment_top)
}

pub(super) fn fdecstp<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, Fpu::decrement_top)
}

pub(super) fn fnop<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, |_| {})
}

/// FSQRT, FRNDINT, FABS, FCHS by `aux`.
pub(super) fn unary<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    match UNARY[usize::from(insn.aux & 3)] {
        op @ (Unary::Sqrt | Unary::RoundToInteger) => {
            computing(cpu, cx, insn, &[TOP], Some(0), |fpu| fpu.unary(op))
        }
        op @ (Unary::Abs | Unary::ChangeSign) => plain(cpu, cx, insn, |fpu| fpu.unary(op)),
    }
}

/// F2XM1 to FSINCOS by `aux`.
pub(super) fn transcendental<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    let op = TRANSCENDENTAL[usize::from(insn.aux & 7)];
    match op {
        Transcendental::YLog2X | Transcendental::YLog2XPlus1 | Transcendental::Arctangent => {
            computing(cpu, cx, insn, &TOP_TWO, Some(1), |fpu| fpu.transcendental(op))
        }
        _ => computing(cpu, cx, insn, &[TOP], Some(0), |fpu| fpu.transcendental(op)),
    }
}

/// FLD1 to FLDZ by `aux`.
pub(super) fn constant<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, |fpu| fpu.load_constant(CONSTANT[usize::from(insn.aux & 7)]))
}

/// FLD ST(i).
pub(super) fn load<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, |fpu| fpu.load_register(insn.src))
}

/// FST and FSTP to ST(i).
pub(super) fn store<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, |fpu| fpu.store_register(insn.dst, insn.aux & POP != 0))
}

pub(super) fn fxch<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, |fpu| fpu.exchange(insn.src))
}

pub(super) fn ffree<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, |fpu| fpu.free(insn.dst))
}

pub(super) fn ffreep<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    plain(cpu, cx, insn, |fpu| fpu.free_and_pop(insn.dst))
}

/// FCMOVcc; `aux` is the condition code.
pub(super) fn fcmov<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    let condition = cpu.flags.condition(insn.aux);
    plain(cpu, cx, insn, |fpu| fpu.move_if(insn.src, condition))
}

/// FLD, FILD and FBLD from memory.
pub(super) fn load_memory<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    wait(cpu, cx)?;
    let bytes = read(cpu, cx, insn)?;
    record_memory(cpu, insn);
    compute(cpu, cx, &[], None, |fpu| fpu.load(format(insn), bytes));
    Ok(())
}

/// FST to FBSTP to memory.
pub(super) fn store_memory<O: Observer>(
    cpu: &mut Cpu,
    cx: &mut Cx<'_, O>,
    insn: &Insn,
) -> Exec<()> {
    wait(cpu, cx)?;
    // A fault in the store must leave the unit as it was.
    let mut after = cpu.fpu;
    let store =
        |fpu: &mut Fpu| fpu.store(format(insn), insn.aux & TRUNCATE != 0, insn.aux & POP != 0);
    let (stored, cases) = if O::COUNTS {
        after.observe(&[], None, store)
    } else {
        (store(&mut after), FloatCases::NONE)
    };
    if let Some(bytes) = stored {
        write(cpu, cx, insn, bytes)?;
    }
    if O::COUNTS {
        let is_denormal = stored.is_some_and(|bytes| format(insn).is_denormal(bytes));
        tell(cx, cases.with(FloatCases::TINY_RESULT, is_denormal));
    }
    cpu.fpu = after;
    record_memory(cpu, insn);
    Ok(())
}

pub(super) fn fldcw<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    wait(cpu, cx)?;
    let control = cpu.load_mem::<O, u16>(cx, &insn.mem)?;
    cpu.fpu.set_control_word(control);
    Ok(())
}

pub(super) fn fnstcw<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    available(cpu, cx)?;
    let control = cpu.fpu.control_word();
    cpu.store_mem(cx, &insn.mem, control)
}

pub(super) fn fnstsw<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    available(cpu, cx)?;
    let status = cpu.fpu.status_word();
    cpu.store_mem(cx, &insn.mem, status)
}

pub(super) fn fnstsw_ax<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    available(cpu, cx)?;
    let status = cpu.fpu.status_word();
    cpu.set_reg(gpr::RAX, status);
    Ok(())
}

pub(super) fn fnclex<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    available(cpu, cx)?;
    cpu.fpu.clear_exceptions();
    Ok(())
}

pub(super) fn fninit<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    available(cpu, cx)?;
    cpu.fpu.init();
    Ok(())
}

/// Old control instructions that do nothing any more.
pub(super) fn ignored<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    available(cpu, cx)
}

/// FWAIT: unlike the others it looks at MP, and not at EM.
pub(super) fn fwait<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, _: &Insn) -> Exec<()> {
    if cpu.cr0 & (cr0::MP | cr0::TS) == cr0::MP | cr0::TS {
        return Err(Stop::NM);
    }
    if cpu.fpu.pending_exception() { report_pending(cpu, cx) } else { Ok(()) }
}

/// The layout of environments in the current mode.
fn env_format(cpu: &Cpu, insn: &Insn) -> EnvFormat {
    match (cpu.selectors_are_protected(), insn.size == Size::B2) {
        (false, true) => EnvFormat::Real16,
        (true, true) => EnvFormat::Protected16,
        (false, false) => EnvFormat::Real32,
        (true, false) => EnvFormat::Protected32,
    }
}

/// The linear address of an environment or state of `bytes`: on a boundary of the operand size.
fn image_address(cpu: &Cpu, insn: &Insn, bytes: usize, write: bool) -> Exec<u64> {
    cpu.linear_in_pieces(&insn.mem, bytes as u64, insn.size.bytes() as u64, write)
}

pub(super) fn fnstenv<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    available(cpu, cx)?;
    let format = env_format(cpu, insn);
    let image = cpu.fpu.environment(format);
    let linear = image_address(cpu, insn, format.size(), true)?;
    cpu.store_bytes(cx, linear, &image[..format.size()])?;
    cpu.fpu.mask_all();
    Ok(())
}

pub(super) fn fldenv<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    wait(cpu, cx)?;
    let format = env_format(cpu, insn);
    let mut image = [0; EnvFormat::Protected32.size()];
    let linear = image_address(cpu, insn, format.size(), false)?;
    cpu.load_bytes(cx, linear, &mut image[..format.size()])?;
    cpu.fpu.set_environment(format, &image);
    Ok(())
}

pub(super) fn fnsave<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    available(cpu, cx)?;
    let format = env_format(cpu, insn);
    let (size, total) = (format.size(), format.save_size());
    let mut image = [0; EnvFormat::Protected32.save_size()];
    image[..size].copy_from_slice(&cpu.fpu.environment(format)[..size]);
    image[size..total].copy_from_slice(&cpu.fpu.save_registers());
    let linear = image_address(cpu, insn, total, true)?;
    cpu.store_bytes(cx, linear, &image[..total])?;
    cpu.fpu.init();
    Ok(())
}

pub(super) fn frstor<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    wait(cpu, cx)?;
    let format = env_format(cpu, insn);
    let total = format.save_size();
    let mut image = [0; EnvFormat::Protected32.save_size()];
    let linear = image_address(cpu, insn, total, false)?;
    cpu.load_bytes(cx, linear, &mut image[..total])?;
    cpu.fpu.restore(format, &image);
    Ok(())
}
