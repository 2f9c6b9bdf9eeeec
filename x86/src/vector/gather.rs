//! Gathers and scatters, and their prefetches.
//!
//! One execution handles the element of the lowest lane that is active and all others in its line of 64
//! bytes, from the lowest lane on, and clears their bits in the mask; software repeats it until the mask is
//! empty. An element that faults leaves those before it done and their bits clear. That an execution is one
//! line is what measurements of gathers say; which line, none does.

use super::{
    convert::{down, stored_bytes, up},
    element::{Element, Lanes},
    float::{flag, modes},
    mvex::Mvex,
    operand::{lane, load_element, store_element},
    state::{Zmm, active, ready},
};
use crate::{
    cpu::Cpu,
    insn::Insn,
    observe::{Cx, Direction, Observer},
    operation::Operation,
    softfloat::Context,
    stop::{Exec, Stop},
};

/// The elements of one execution: the linear address of each lane that is active and in the first one's line.
struct Line {
    /// By lane.
    addresses: [Option<u64>; 16],
    /// The lanes that are there.
    lanes: u16,
}

impl Line {
    fn of(cpu: &Cpu, insn: &Insn, active: u16, write: bool) -> Exec<Self> {
        let indices = cpu.vector.zmm[usize::from(Mvex::of(insn).index())];
        let common = cpu.effective(&insn.mem);
        let mut line = Self { addresses: [None; 16], lanes: 0 };
        let mut number = None;
        for n in (0..16).filter(|&n| active >> n & 1 != 0) {
            let index = (i64::from(indices[n] as i32) << insn.mem.scale) as u64;
            let offset = common.wrapping_add(index) & insn.mem.mask.value();
            let linear = linear_of(cpu, insn, offset, write)?;
            if *number.get_or_insert(linear / 64) == linear / 64 {
                line.addresses[n] = Some(linear);
                line.lanes |= 1 << n;
            }
        }
        Ok(line)
    }

    /// The lanes and their addresses, the lowest lane first.
    fn elements(&self) -> impl Iterator<Item = (usize, u64)> {
        self.addresses.iter().enumerate().filter_map(|(n, &address)| Some((n, address?)))
    }
}

/// The linear address of an element at `offset`.
fn linear_of(cpu: &Cpu, insn: &Insn, offset: u64, write: bool) -> Exec<u64> {
    let at = crate::insn::Mem { disp: offset as i64, seg: insn.mem.seg, ..crate::insn::Mem::NONE };
    cpu.linear(&at, insn.mem_bytes.into(), write)
}

/// Clears the bits of the lanes that are done; those that no lane has go with them.
fn finish(cpu: &mut Cpu, insn: &Insn, done: u16) {
    let mask = Mvex::of(insn).mask();
    let unused = match insn.op.lanes() {
        Lanes::Eight => 0xff00,
        Lanes::Sixteen => 0,
    };
    let left = cpu.mask(mask) & !done & !unused;
    cpu.set_mask(mask, left);
}

/// #GP(0) unless an element lies on a multiple of its size.
fn check(linear: u64, size: usize) -> Exec<()> {
    if linear & (size as u64 - 1) != 0 { Err(Stop::GP0) } else { Ok(()) }
}

fn gather<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    ready(cpu)?;
    let (mvex, element) = (Mvex::of(insn), insn.op.element());
    let size = stored_bytes(element, mvex.code());
    let line = Line::of(cpu, insn, active(cpu, insn), false)?;
    let mut flags = modes(cpu, mvex);
    for (n, linear) in line.elements() {
        let loaded =
            check(linear, size).and_then(|()| load_element(cpu, cx, &insn.mem, linear, size));
        let value = loaded.inspect_err(|_| flag(cpu, mvex, &flags))?;
        let value = up(element, mvex.code(), value, &mut flags);
        set_lane(&mut cpu.vector.zmm[usize::from(insn.dst & 31)], element, n, value);
        let left = cpu.mask(mvex.mask()) & !(1 << n);
        cpu.set_mask(mvex.mask(), left);
    }
    if let Some((_, linear)) = line.elements().next() {
        cpu.count_vector_load(cx, linear, size as u64);
    }
    flag(cpu, mvex, &flags);
    finish(cpu, insn, line.lanes);
    cx.observer.vector_elements(line.lanes.count_ones());
    Ok(())
}

fn set_lane(register: &mut Zmm, element: Element, n: usize, value: u64) {
    match element {
        Element::Quadword => {
            register[2 * n] = value as u32;
            register[2 * n + 1] = (value >> 32) as u32;
        }
        _ => register[n] = value as u32,
    }
}

fn scatter<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    ready(cpu)?;
    let (mvex, element) = (Mvex::of(insn), insn.op.element());
    let size = stored_bytes(element, mvex.code());
    let line = Line::of(cpu, insn, active(cpu, insn), true)?;
    let value = cpu.vector.zmm[usize::from(insn.src & 31)];
    let mut flags: Context = modes(cpu, mvex);
    for (n, linear) in line.elements() {
        let mut with_this = flags;
        let stored = down(element, mvex.code(), lane(&value, element, n), &mut with_this);
        let result = check(linear, size)
            .and_then(|()| store_element(cpu, cx, &insn.mem, linear, size, stored));
        result.inspect_err(|_| flag(cpu, mvex, &flags))?;
        flags = with_this;
        let left = cpu.mask(mvex.mask()) & !(1 << n);
        cpu.set_mask(mvex.mask(), left);
    }
    if let Some((_, linear)) = line.elements().next() {
        cpu.count_vector_store(cx, linear, size as u64);
    }
    flag(cpu, mvex, &flags);
    finish(cpu, insn, line.lanes);
    cx.observer.vector_elements(line.lanes.count_ones());
    Ok(())
}

/// VGATHERPF and VSCATTERPF, which access no memory and do not fault: they name the line that a gather would
/// have handled, and the bits of its lanes are cleared. The hints do neither.
fn prefetch<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    use Operation as Op;
    ready(cpu)?;
    let active = active(cpu, insn);
    let line = Line::of(cpu, insn, active, false)?;
    if !matches!(
        insn.op,
        Op::Vgatherpf0hintdps
            | Op::Vgatherpf0hintdpd
            | Op::Vscatterpf0hintdps
            | Op::Vscatterpf0hintdpd
    ) {
        if let Some((_, linear)) = line.elements().next() {
            cpu.tell(cx, linear, 1, 1, Direction::Touch);
        }
        finish(cpu, insn, line.lanes);
    }
    cx.observer.vector_elements(line.lanes.count_ones());
    Ok(())
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<crate::insn::Handler<O>> {
    use Operation as Op;
    Some(match insn.op {
        Op::Vpgatherdd | Op::Vpgatherdq | Op::Vgatherdps | Op::Vgatherdpd => gather,
        Op::Vpscatterdd | Op::Vpscatterdq | Op::Vscatterdps | Op::Vscatterdpd => scatter,
        Op::Vgatherpf0dps
        | Op::Vgatherpf1dps
        | Op::Vgatherpf0hintdps
        | Op::Vgatherpf0hintdpd
        | Op::Vscatterpf0dps
        | Op::Vscatterpf1dps
        | Op::Vscatterpf0hintdps
        | Op::Vscatterpf0hintdpd => prefetch,
        _ => return None,
    })
}
