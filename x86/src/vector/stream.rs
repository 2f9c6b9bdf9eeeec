//! Streams of packed elements: VLOADUNPACKL and VLOADUNPACKH, VPACKSTOREL and VPACKSTOREH.
//!
//! In memory there is an element for each lane that is active, one behind the other, in the order of the
//! lanes and from the operand's address on. The low form transfers those before the next boundary of 64 bytes
//! above that address, the high form, whose operand is 64 bytes further on, the others: together they
//! transfer a stream that begins anywhere, and each accesses one line.

use super::{
    convert::{down, stored_bytes, up},
    element::Element,
    float::{flag, modes},
    mvex::Mvex,
    operand::{lane, load_element, store_element},
    state::{active, of_quadwords, ready, write},
};
use crate::{
    cpu::Cpu,
    insn::{Handler, Insn},
    observe::{Cx, Observer},
    operation::Operation as Op,
    stop::{Exec, Stop},
};

const LINE: u64 = 64;

/// The part of a stream that an instruction transfers.
struct Part {
    /// The linear address of each lane; `None` if it is not transferred.
    addresses: [Option<u64>; 16],
    /// The lanes that are.
    lanes: u16,
}

impl Part {
    fn of(cpu: &Cpu, insn: &Insn, size: u64, write: bool) -> Exec<Self> {
        let linear = cpu.linear(&insn.mem, size, write)?;
        if linear & (size - 1) != 0 {
            return Err(Stop::GP0);
        }
        let high = is_high(insn.op);
        let start = if high { linear.wrapping_sub(LINE) } else { linear };
        let before_boundary = LINE - start % LINE;
        let mut part = Self { addresses: [None; 16], lanes: 0 };
        let active = active(cpu, insn);
        for (place, n) in (0..16).filter(|&n| active >> n & 1 != 0).enumerate() {
            let offset = place as u64 * size;
            if (offset >= before_boundary) == high {
                part.addresses[n] = Some(start.wrapping_add(offset));
                part.lanes |= 1 << n;
            }
        }
        Ok(part)
    }

    /// The lanes and their addresses, the lowest lane first.
    fn elements(&self) -> impl Iterator<Item = (usize, u64)> {
        self.addresses.iter().enumerate().filter_map(|(n, &address)| Some((n, address?)))
    }
}

const fn is_high(op: Op) -> bool {
    matches!(
        op,
        Op::Vloadunpackhd
            | Op::Vloadunpackhq
            | Op::Vloadunpackhps
            | Op::Vloadunpackhpd
            | Op::Vpackstorehd
            | Op::Vpackstorehq
            | Op::Vpackstorehps
            | Op::Vpackstorehpd
    )
}

fn unpack<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    ready(cpu)?;
    let (mvex, element) = (Mvex::of(insn), insn.op.element());
    let size = stored_bytes(element, mvex.code());
    let part = Part::of(cpu, insn, size as u64, false)?;
    let mut flags = modes(cpu, mvex);
    let mut values = [0; 16];
    for (n, linear) in part.elements() {
        let loaded = load_element(cpu, cx, &insn.mem, linear, size)?;
        values[n] = up(element, mvex.code(), loaded, &mut flags);
    }
    let value = match element {
        Element::Quadword => of_quadwords(std::array::from_fn(|n| values[n])),
        _ => values.map(|value| value as u32),
    };
    write(cpu, insn.dst, insn.op.lanes(), part.lanes, &value);
    if let Some((_, linear)) = part.elements().next() {
        cpu.count_vector_load(cx, linear, u64::from(part.lanes.count_ones()) * size as u64);
    }
    flag(cpu, mvex, &flags);
    cx.observer.vector_elements(part.lanes.count_ones());
    Ok(())
}

fn pack<O: Observer>(cpu: &mut Cpu, cx: &mut Cx<'_, O>, insn: &Insn) -> Exec<()> {
    ready(cpu)?;
    let (mvex, element) = (Mvex::of(insn), insn.op.element());
    let size = stored_bytes(element, mvex.code());
    let part = Part::of(cpu, insn, size as u64, true)?;
    let value = cpu.vector.zmm[usize::from(insn.src & 31)];
    let mut flags = modes(cpu, mvex);
    for (n, linear) in part.elements() {
        let stored = down(element, mvex.code(), lane(&value, element, n), &mut flags);
        store_element(cpu, cx, &insn.mem, linear, size, stored)?;
    }
    if let Some((_, linear)) = part.elements().next() {
        cpu.count_vector_store(cx, linear, u64::from(part.lanes.count_ones()) * size as u64);
    }
    flag(cpu, mvex, &flags);
    cx.observer.vector_elements(part.lanes.count_ones());
    Ok(())
}

/// The handlers of the instructions of this file.
pub(super) fn handler<O: Observer>(insn: &Insn) -> Option<Handler<O>> {
    Some(match insn.op {
        Op::Vloadunpackhd
        | Op::Vloadunpackhq
        | Op::Vloadunpackhps
        | Op::Vloadunpackhpd
        | Op::Vloadunpackld
        | Op::Vloadunpacklq
        | Op::Vloadunpacklps
        | Op::Vloadunpacklpd => unpack,
        Op::Vpackstorehd
        | Op::Vpackstorehq
        | Op::Vpackstorehps
        | Op::Vpackstorehpd
        | Op::Vpackstoreld
        | Op::Vpackstorelq
        | Op::Vpackstorelps
        | Op::Vpackstorelpd => pack,
        _ => return None,
    })
}
