//! Memory as an instruction sees it: from an operand to bytes.
//!
//! The fast path is one compare in the software TLB and a host load or store. Everything else
//! (misses, page crossings, MMIO, pages with translated code, watched pages, accesses that have to
//! be aligned) takes the slow path.

use crate::{
    cpu::Cpu,
    descriptor::Segment,
    flags::Word,
    insn::{Insn, Mem, gpr, seg},
    observe::{Access, Cx, Direction, Observer, Target},
    paging::{Intent, Translation},
    ram::{HostPage, PAGE},
    stop::{Exec, Stop, vector},
    tlb::{self, Writes},
};

const SUPERVISOR: usize = 0;

/// Bit of the guest-physical address of a block: its code comes from a device, also where there is RAM
/// at that address. Above the address bits of any processor, so that such blocks and those of RAM have
/// different addresses.
pub(crate) const OF_DEVICE: u64 = 1 << 63;

/// The guest-physical address of an access that the fast path has made, where it is known: all of it is in one
/// page of memory, and its linear address is one that the mode has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known(u64);

impl Known {
    /// It is not known.
    const NOT: Self = Self(u64::MAX);

    #[inline(always)]
    fn of(entry: &tlb::Entry, linear: u64) -> Self {
        Self(entry.gpa() | linear & (PAGE - 1))
    }
}

/// Tells an observer of an access whose place is known, compiled for each direction. It answers as a handler
/// does whose last act it is.
#[inline(never)]
fn tell_known<O: Observer, const READS: bool, const WRITES: bool>(
    cx: &mut Cx<'_, O>,
    linear: u64,
    place: Known,
    bytes: u64,
) -> Exec<()> {
    cx.observer.accessed_page(linear, place.0, bytes as u32, Direction::of(READS, WRITES));
    Ok(())
}

/// The same of the only access of an instruction to an ordinary operand, which has done all else.
#[inline(never)]
fn tell_last<O: Observer, const READS: bool, const WRITES: bool>(
    cx: &mut Cx<'_, O>,
    cpu: &Cpu,
    insn: &Insn,
    linear: u64,
    place: Known,
    bytes: u64,
) -> Exec<()> {
    let direction = Direction::of(READS, WRITES);
    cx.observer.accessed_last(cpu, insn, linear, place.0, bytes as u32, direction);
    Ok(())
}

/// An access that the fast path has made, and that is yet to be counted.
#[derive(Clone, Copy)]
#[must_use]
pub(crate) struct Uncounted {
    linear: u64,
    place: Known,
    bytes: u64,
}

/// Where a byte of guest-physical space is.
#[derive(Clone, Copy)]
struct Place {
    gpa: u64,
    host: Option<HostPage>,
}

#[inline(always)]
fn page_of(linear: u64) -> u64 {
    linear & !(PAGE - 1)
}

#[inline(always)]
fn offset_in_page(linear: u64) -> usize {
    (linear & (PAGE - 1)) as usize
}

#[inline(always)]
fn fits_page<T: Word>(linear: u64) -> bool {
    offset_in_page(linear) <= PAGE as usize - T::BYTES
}

/// The page of the last byte of a word. The TLB's entry for its first byte has that page only if the
/// word lies in one page: neighbouring pages have different entries.
#[inline(always)]
fn page_of_end<T: Word>(linear: u64) -> u64 {
    page_of(linear.wrapping_add(T::BYTES as u64 - 1))
}

/// Bits 63:47 are all equal.
pub(crate) fn is_canonical(linear: u64) -> bool {
    (linear as i64) << 16 >> 16 == linear as i64
}

#[inline(always)]
fn read_host<T: Word>(host: HostPage, offset: usize) -> T {
    match T::BYTES {
        1 => T::from_u64(u64::from(host.read::<1>(offset)[0])),
        2 => T::from_u64(u64::from(u16::from_le_bytes(host.read(offset)))),
        4 => T::from_u64(u64::from(u32::from_le_bytes(host.read(offset)))),
        _ => T::from_u64(u64::from_le_bytes(host.read(offset))),
    }
}

#[inline(always)]
fn write_host<T: Word>(host: HostPage, offset: usize, value: T) {
    let value = value.to_u64();
    match T::BYTES {
        1 => host.write(offset, [value as u8]),
        2 => host.write(offset, (value as u16).to_le_bytes()),
        4 => host.write(offset, (value as u32).to_le_bytes()),
        _ => host.write(offset, value.to_le_bytes()),
    }
}

impl Cpu {
    /// Time at the start of an instruction of the running block.
    #[inline]
    #[must_use]
    pub fn now(&self, insn: &Insn) -> u64 {
        self.time + u64::from(insn.before)
    }

    /// Time at its end.
    pub(crate) fn ends(&self, insn: &Insn) -> u64 {
        self.now(insn) + u64::from(self.cycles_of(insn))
    }

    /// The cycles of an instruction, of a repeated one with its first iteration.
    #[must_use]
    pub fn cycles_of(&self, insn: &Insn) -> u8 {
        (self.cycle_costs.instruction)(insn)
    }

    /// Linear address of the top of the stack.
    #[inline(always)]
    #[must_use]
    pub fn stack_linear(&self) -> u64 {
        let offset = self.regs[usize::from(gpr::RSP)];
        if self.in_64bit() {
            return offset;
        }
        self.segment(seg::SS).base.wrapping_add(offset & self.stack_mask()) & 0xffff_ffff
    }

    /// Instructions retired at the start of an instruction of the running block.
    #[inline]
    pub(crate) fn retired_before(&self, insn: &Insn) -> u64 {
        self.retired + u64::from(insn.index)
    }

    /// The effective address of an operand: the offset in its segment.
    #[inline(always)]
    pub(crate) fn effective(&self, m: &Mem) -> u64 {
        let base = self.regs[usize::from(m.base & 31)];
        let index = self.regs[usize::from(m.index & 31)] << m.scale;
        base.wrapping_add(index).wrapping_add(m.disp as u64) & m.mask.value()
    }

    /// The linear address of a `bytes` wide operand, with the checks of its segment.
    #[inline(always)]
    pub(crate) fn linear(&self, m: &Mem, bytes: u64, write: bool) -> Exec<u64> {
        let offset = self.effective(m);
        if m.seg >= seg::FLAT {
            return Ok(offset.wrapping_add(self.seg_base[usize::from(m.seg & 15)]));
        }
        self.linear_at(m.seg, offset, bytes, write)
    }

    /// The linear address of `offset` in a segment register's segment, with its checks.
    #[inline(never)]
    pub(crate) fn linear_at(&self, n: u8, offset: u64, bytes: u64, write: bool) -> Exec<u64> {
        if self.in_64bit() {
            let base = if n == seg::FS || n == seg::GS { self.segment(n).base } else { 0 };
            let linear = offset.wrapping_add(base);
            if !is_canonical(linear) {
                return Err(if n == seg::SS { Stop::SS0 } else { Stop::GP0 });
            }
            return Ok(linear);
        }
        let segment = self.segment(n);
        let fault = if n == seg::SS { Stop::SS0 } else { Stop::GP0 };
        if self.selectors_are_protected() {
            // A null selector leaves a segment that is not present.
            if !segment.present() {
                return Err(fault);
            }
            let allowed = if write { segment.writable() } else { segment.readable() };
            if !allowed {
                return Err(Stop::GP0);
            }
        }
        let offset = offset & 0xffff_ffff;
        let last = offset + (bytes.max(1) - 1);
        let limit = u64::from(segment.limit);
        let inside = if segment.expands_down() {
            let top = if segment.attributes & Segment::BIG != 0 { 0xffff_ffff } else { 0xffff };
            offset > limit && last <= top
        } else {
            last <= limit
        };
        if inside { Ok(segment.base.wrapping_add(offset) & 0xffff_ffff) } else { Err(fault) }
    }

    /// The linear address of an operand that goes to memory in other pieces than whole words: `bytes`
    /// in all, on a multiple of `boundary` where that is checked. What it is not checked for here is
    /// whether it is mapped.
    pub(crate) fn linear_in_pieces(
        &self,
        m: &Mem,
        bytes: u64,
        boundary: u64,
        write: bool,
    ) -> Exec<u64> {
        let linear = self.linear(m, bytes, write)?;
        self.check_operand(linear, bytes, boundary).map_err(|stop| Self::stack_fault(m, stop))?;
        Ok(linear)
    }

    /// #GP(0) if `bytes` at `linear` are not all at canonical addresses, then #AC(0) as
    /// [`Cpu::check_alignment`].
    fn check_operand(&self, linear: u64, bytes: u64, boundary: u64) -> Exec<()> {
        self.check_canonical(linear, bytes)?;
        self.check_alignment(linear, boundary)
    }

    fn check_canonical(&self, linear: u64, bytes: u64) -> Exec<()> {
        let last = linear.wrapping_add(bytes.max(1) - 1);
        if self.long_mode() && !(is_canonical(linear) && is_canonical(last)) {
            return Err(Stop::GP0);
        }
        Ok(())
    }

    /// A fault of a stack operand with a non-canonical address is #SS(0).
    #[cold]
    pub(crate) fn stack_fault(m: &Mem, stop: Stop) -> Stop {
        if m.seg == seg::FLAT_STACK && stop == Stop::GP0 { Stop::SS0 } else { stop }
    }

    /// Reads a memory operand.
    #[inline(always)]
    pub(crate) fn load_mem<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        m: &Mem,
    ) -> Exec<T> {
        let linear = self.linear(m, T::BYTES as u64, false)?;
        self.load(cx, linear).map_err(|stop| Self::stack_fault(m, stop))
    }

    /// Writes a memory operand.
    #[inline(always)]
    pub(crate) fn store_mem<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        m: &Mem,
        value: T,
    ) -> Exec<()> {
        let linear = self.linear(m, T::BYTES as u64, true)?;
        self.store(cx, linear, value).map_err(|stop| Self::stack_fault(m, stop))
    }

    /// Reads a memory operand, if the fast path does. It takes no call: a handler that does the rest if this does not
    /// in another function has nothing to keep meanwhile.
    #[inline(always)]
    pub(crate) fn load_quickly<T: Word>(&self, m: &Mem) -> Option<(T, Uncounted)> {
        if m.seg < seg::FLAT {
            return None;
        }
        let base = self.seg_base[usize::from(m.seg & 15)];
        self.load_quickly_at(self.effective(m).wrapping_add(base))
    }

    /// The same of a linear address.
    #[inline(always)]
    pub(crate) fn load_quickly_at<T: Word>(&self, linear: u64) -> Option<(T, Uncounted)> {
        let entry = self.tlb.entry(self.mmu, linear);
        if entry.read != page_of_end::<T>(linear) {
            return None;
        }
        let value = read_host(entry.host, offset_in_page(linear));
        Some((value, Uncounted { linear, place: Known::of(entry, linear), bytes: T::BYTES as u64 }))
    }

    /// Writes a memory operand, if the fast path does, as [`Self::load_quickly`] reads one.
    #[inline(always)]
    pub(crate) fn store_quickly<T: Word>(&self, m: &Mem, value: T) -> Option<Uncounted> {
        if m.seg < seg::FLAT {
            return None;
        }
        let base = self.seg_base[usize::from(m.seg & 15)];
        self.store_quickly_at(self.effective(m).wrapping_add(base), value)
    }

    /// The same at a linear address.
    #[inline(always)]
    pub(crate) fn store_quickly_at<T: Word>(&self, linear: u64, value: T) -> Option<Uncounted> {
        let entry = self.tlb.entry(self.mmu, linear);
        if entry.write != page_of_end::<T>(linear) {
            return None;
        }
        write_host(entry.host, offset_in_page(linear), value);
        Some(Uncounted { linear, place: Known::of(entry, linear), bytes: T::BYTES as u64 })
    }

    /// Counts accesses by the fast path.
    #[inline(always)]
    fn count<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        done: Uncounted,
        loads: u64,
        stores: u64,
    ) -> Uncounted {
        cx.observer.access(loads, stores);
        self.count_misaligned(cx, done.linear, done.bytes, loads, stores);
        done
    }

    /// Counts a read by the fast path: the last act of a handler, which answers this.
    #[inline(always)]
    pub(crate) fn loaded<O: Observer>(&self, cx: &mut Cx<'_, O>, done: Uncounted) -> Exec<()> {
        let Uncounted { linear, place, bytes } = self.count(cx, done, 1, 0);
        if O::SEES_ADDRESSES {
            return tell_known::<O, true, false>(cx, linear, place, bytes);
        }
        Ok(())
    }

    /// The same of a write.
    #[inline(always)]
    pub(crate) fn stored<O: Observer>(&self, cx: &mut Cx<'_, O>, done: Uncounted) -> Exec<()> {
        let Uncounted { linear, place, bytes } = self.count(cx, done, 0, 1);
        if O::SEES_ADDRESSES {
            return tell_known::<O, false, true>(cx, linear, place, bytes);
        }
        Ok(())
    }

    /// As [`Self::loaded`], of the only access of an instruction, to an operand that it names: it may miss, where the
    /// stack hardly does.
    #[inline(always)]
    pub(crate) fn loaded_operand<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        insn: &Insn,
        done: Uncounted,
    ) -> Exec<()> {
        let Uncounted { linear, place, bytes } = self.count(cx, done, 1, 0);
        if O::SEES_ADDRESSES {
            return tell_last::<O, true, false>(cx, self, insn, linear, place, bytes);
        }
        Ok(())
    }

    /// The same of a write.
    #[inline(always)]
    pub(crate) fn stored_operand<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        insn: &Insn,
        done: Uncounted,
    ) -> Exec<()> {
        let Uncounted { linear, place, bytes } = self.count(cx, done, 0, 1);
        if O::SEES_ADDRESSES {
            return tell_last::<O, false, true>(cx, self, insn, linear, place, bytes);
        }
        Ok(())
    }

    /// Reads a memory operand and writes it back changed. `change` runs only when the write will
    /// succeed.
    #[inline(always)]
    pub(crate) fn modify_mem<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        m: &Mem,
        change: impl FnOnce(&mut Self, T) -> T,
    ) -> Exec<()> {
        let linear = self.linear(m, T::BYTES as u64, true)?;
        let entry = self.tlb.entry(self.mmu, linear);
        if entry.write == page_of_end::<T>(linear) {
            cx.observer.access(1, 1);
            self.count_misaligned(cx, linear, T::BYTES as u64, 1, 1);
            let place = Known::of(entry, linear);
            self.tell_at(cx, linear, place, T::BYTES as u64, Direction::Modify);
            let (host, at) = (entry.host, offset_in_page(linear));
            let value = change(self, read_host(host, at));
            write_host(host, at, value);
            return Ok(());
        }
        let size = T::BYTES as u64;
        self.check_operand(linear, size, size).map_err(|stop| Self::stack_fault(m, stop))?;
        self.probe_write(cx, linear, size)?;
        self.count_modify(cx, linear, T::BYTES as u64);
        let old = self.load_slow(cx, linear, self.mmu)?;
        let new = change(self, old);
        self.store_slow(cx, linear, self.mmu, new)
    }

    /// Reads linear memory at the current privilege.
    #[inline(always)]
    pub(crate) fn load<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
    ) -> Exec<T> {
        let entry = self.tlb.entry(self.mmu, linear);
        let (value, place) = if entry.read == page_of_end::<T>(linear) {
            (read_host(entry.host, offset_in_page(linear)), Known::of(entry, linear))
        } else {
            (self.load_slow(cx, linear, self.mmu)?, Known::NOT)
        };
        cx.observer.access(1, 0);
        self.count_misaligned(cx, linear, T::BYTES as u64, 1, 0);
        self.tell_at(cx, linear, place, T::BYTES as u64, Direction::Load);
        Ok(value)
    }

    /// Reads linear memory at the current privilege as a part of an access that the caller counts.
    #[inline(always)]
    pub(crate) fn load_part<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
    ) -> Exec<T> {
        let entry = self.tlb.entry(self.mmu, linear);
        if entry.read == page_of_end::<T>(linear) {
            return Ok(read_host(entry.host, offset_in_page(linear)));
        }
        self.load_slow(cx, linear, self.mmu)
    }

    /// Writes linear memory at the current privilege.
    #[inline(always)]
    pub(crate) fn store<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        value: T,
    ) -> Exec<()> {
        let entry = self.tlb.entry(self.mmu, linear);
        let place = if entry.write == page_of_end::<T>(linear) {
            write_host(entry.host, offset_in_page(linear), value);
            Known::of(entry, linear)
        } else {
            self.store_slow(cx, linear, self.mmu, value)?;
            Known::NOT
        };
        cx.observer.access(0, 1);
        self.count_misaligned(cx, linear, T::BYTES as u64, 0, 1);
        self.tell_at(cx, linear, place, T::BYTES as u64, Direction::Store);
        Ok(())
    }

    /// Writes linear memory at the current privilege as a part of an access that the caller counts.
    #[inline(always)]
    pub(crate) fn store_part<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        value: T,
    ) -> Exec<()> {
        let entry = self.tlb.entry(self.mmu, linear);
        if entry.write == page_of_end::<T>(linear) {
            write_host(entry.host, offset_in_page(linear), value);
            return Ok(());
        }
        self.store_slow(cx, linear, self.mmu, value)
    }

    /// Reads a descriptor table, a task-state segment or an interrupt table: with supervisor
    /// privilege whatever the CPL.
    pub(crate) fn load_system<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
    ) -> Exec<T> {
        self.load_slow(cx, linear, SUPERVISOR)
    }

    /// Writes a descriptor table, a task-state segment or an inner stack with supervisor privilege.
    pub(crate) fn store_system<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        value: T,
    ) -> Exec<()> {
        self.store_slow(cx, linear, SUPERVISOR, value)
    }

    /// #AC(0) if `linear` is no multiple of `boundary`, a power of two, where that is checked
    /// (AMD64 APM volume 2, section 8.2.18; Intel SDM volume 3, "Alignment Requirements by Data
    /// Type").
    ///
    /// Accesses of whole words check it themselves; this is for operands that go to memory as
    /// bytes, and for instructions that do something else first.
    pub(crate) fn check_alignment(&self, linear: u64, boundary: u64) -> Exec<()> {
        if linear & boundary.wrapping_sub(1) != 0 && self.checks_alignment() {
            return Err(Stop::fault_code(vector::AC, 0));
        }
        Ok(())
    }

    /// Reads up to a page of bytes, all or nothing. Their alignment is the caller's concern.
    pub(crate) fn load_bytes<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        out: &mut [u8],
    ) -> Exec<()> {
        let len = out.len();
        self.check_canonical(linear, len as u64)?;
        for (at, piece) in pieces(linear, out) {
            let place = self.translate(cx, at, self.mmu, Intent::Read)?;
            self.look(cx, at, piece.len() as u64, false);
            if let Some(host) = place.host {
                host.read_slice(offset_in_page(at), piece);
                continue;
            }
            for (n, byte) in piece.iter_mut().enumerate() {
                *byte = self.read_device(cx, place.gpa + n as u64, 1) as u8;
            }
        }
        for (at, size) in accesses::<O>(linear, len) {
            self.count_load(cx, at, size);
        }
        Ok(())
    }

    /// Writes up to a page of bytes, all or nothing. Their alignment is the caller's concern.
    pub(crate) fn store_bytes<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: &[u8],
    ) -> Exec<()> {
        self.store_bytes_part(cx, linear, bytes)?;
        for (at, size) in accesses::<O>(linear, bytes.len()) {
            self.count_store(cx, at, size);
        }
        Ok(())
    }

    /// The same as a part of an access that the caller counts.
    pub(crate) fn store_bytes_part<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: &[u8],
    ) -> Exec<()> {
        self.probe_write(cx, linear, bytes.len() as u64)?;
        let mut done = 0;
        while done < bytes.len() {
            let at = linear.wrapping_add(done as u64);
            let place = self.translate(cx, at, self.mmu, Intent::Write)?;
            let len = (PAGE as usize - offset_in_page(at)).min(bytes.len() - done);
            self.wrote(cx, at, place, len as u64);
            let piece = &bytes[done..done + len];
            done += len;
            if let Some(host) = place.host {
                host.write_slice(offset_in_page(at), piece);
                continue;
            }
            self.tell_place(cx);
            for (n, &byte) in piece.iter().enumerate() {
                cx.bus.mmio_write(self.time, place.gpa + n as u64, 1, u64::from(byte));
            }
        }
        Ok(())
    }

    /// Faults as a write of `bytes` would; does nothing else.
    pub(crate) fn probe_write<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: u64,
    ) -> Exec<()> {
        self.check_canonical(linear, bytes)?;
        self.translate(cx, linear, self.mmu, Intent::Write)?;
        let last = linear.wrapping_add(bytes.max(1) - 1);
        if page_of(last) != page_of(linear) {
            self.translate(cx, page_of(last), self.mmu, Intent::Write)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn load_slow<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        mmu: usize,
    ) -> Exec<T> {
        self.check_canonical(linear, T::BYTES as u64)?;
        if mmu != SUPERVISOR {
            self.check_alignment(linear, T::BYTES as u64)?;
        }
        let place = self.translate(cx, linear, mmu, Intent::Read)?;
        if fits_page::<T>(linear) {
            self.look(cx, linear, T::BYTES as u64, false);
            return Ok(match place.host {
                Some(host) => read_host(host, offset_in_page(linear)),
                None => T::from_u64(self.read_device(cx, place.gpa, T::BYTES)),
            });
        }
        let mut value = 0;
        let mut place = place;
        for n in 0..T::BYTES {
            let at = linear.wrapping_add(n as u64);
            if offset_in_page(at) == 0 {
                place = self.translate(cx, at, mmu, Intent::Read)?;
            }
            let byte = match place.host {
                Some(host) => u64::from(host.read::<1>(offset_in_page(at))[0]),
                None => {
                    let gpa = page_of(place.gpa) + offset_in_page(at) as u64;
                    self.read_device(cx, gpa, 1) & 0xff
                }
            };
            value |= byte << (8 * n);
        }
        self.look(cx, linear, T::BYTES as u64, false);
        Ok(T::from_u64(value))
    }

    #[inline(never)]
    fn store_slow<O: Observer, T: Word>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        mmu: usize,
        value: T,
    ) -> Exec<()> {
        self.check_canonical(linear, T::BYTES as u64)?;
        if mmu != SUPERVISOR {
            self.check_alignment(linear, T::BYTES as u64)?;
        }
        let first = self.translate(cx, linear, mmu, Intent::Write)?;
        if fits_page::<T>(linear) {
            self.wrote(cx, linear, first, T::BYTES as u64);
            match first.host {
                Some(host) => write_host(host, offset_in_page(linear), value),
                None => {
                    self.tell_place(cx);
                    cx.bus.mmio_write(self.time, first.gpa, T::BYTES, value.to_u64());
                }
            }
            return Ok(());
        }
        let in_first = PAGE as usize - offset_in_page(linear);
        let boundary = linear.wrapping_add(in_first as u64);
        let second = self.translate(cx, boundary, mmu, Intent::Write)?;
        self.wrote(cx, linear, first, in_first as u64);
        self.wrote(cx, boundary, second, (T::BYTES - in_first) as u64);
        self.tell_place(cx);
        for n in 0..T::BYTES {
            let byte = (value.to_u64() >> (8 * n)) as u8;
            let (place, offset) = if n < in_first {
                (first, offset_in_page(linear) + n)
            } else {
                (second, n - in_first)
            };
            match place.host {
                Some(host) => host.write(offset, [byte]),
                None => {
                    let gpa = page_of(place.gpa) + offset as u64;
                    cx.bus.mmio_write(self.time, gpa, 1, u64::from(byte));
                }
            }
        }
        Ok(())
    }

    /// Reads a device, and has the owner look after it: a local APIC may interrupt because of a register that it
    /// lacks.
    fn read_device<O: Observer>(&mut self, cx: &mut Cx<'_, O>, gpa: u64, size: usize) -> u64 {
        self.accessed_device();
        cx.bus.mmio_read(self.time, gpa, size)
    }

    /// What a write on the slow path has to do besides storing: drop blocks translated from the bytes,
    /// let the owner look after a write to a device, look for data breakpoints.
    fn wrote<O: Observer>(&mut self, cx: &mut Cx<'_, O>, linear: u64, place: Place, bytes: u64) {
        if place.host.is_none() {
            self.accessed_device();
        } else {
            self.note_overwritten(cx.ram.note_write(place.gpa, bytes));
        }
        self.look(cx, linear, bytes, true);
    }

    fn look<O: Observer>(&mut self, cx: &mut Cx<'_, O>, linear: u64, bytes: u64, write: bool) {
        if self.watch.data != 0 {
            self.data_match(cx, linear, bytes, write);
            self.note_watched(linear, bytes, write);
            if self.debug_hits != 0 {
                self.leave_soon();
            }
        }
    }

    /// Counts a read of up to 16 bytes that has succeeded.
    #[inline(always)]
    pub(crate) fn count_load<O: Observer>(&self, cx: &mut Cx<'_, O>, linear: u64, bytes: u64) {
        cx.observer.access(1, 0);
        self.count_misaligned(cx, linear, bytes, 1, 0);
        self.tell(cx, linear, bytes, 1, Direction::Load);
    }

    /// Counts a write of up to 16 bytes that has succeeded.
    #[inline(always)]
    pub(crate) fn count_store<O: Observer>(&self, cx: &mut Cx<'_, O>, linear: u64, bytes: u64) {
        cx.observer.access(0, 1);
        self.count_misaligned(cx, linear, bytes, 0, 1);
        self.tell(cx, linear, bytes, 1, Direction::Store);
    }

    /// Counts a read of the vector unit that has succeeded: in one line, and never misaligned.
    pub(crate) fn count_vector_load<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: u64,
    ) {
        cx.observer.access(1, 0);
        cx.observer.vector_access(1, 0);
        self.tell(cx, linear, bytes, 1, Direction::Load);
    }

    /// Counts a write of the vector unit that has succeeded: in one line, and never misaligned.
    pub(crate) fn count_vector_store<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: u64,
    ) {
        cx.observer.access(0, 1);
        cx.observer.vector_access(0, 1);
        self.tell(cx, linear, bytes, 1, Direction::Store);
    }

    /// Counts a read-modify-write of up to 16 bytes that will succeed.
    #[inline(always)]
    pub(crate) fn count_modify<O: Observer>(&self, cx: &mut Cx<'_, O>, linear: u64, bytes: u64) {
        cx.observer.access(1, 1);
        self.count_misaligned(cx, linear, bytes, 1, 1);
        self.tell(cx, linear, bytes, 1, Direction::Modify);
    }

    /// Tells an observer that is told addresses of an access, or of `elements` consecutive ones.
    #[inline(always)]
    pub(crate) fn tell<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: u64,
        elements: u64,
        direction: Direction,
    ) {
        if O::SEES_ADDRESSES && elements == 1 {
            match direction {
                Direction::Load => self.tell_one::<O, true, false>(cx, linear, bytes),
                Direction::Store => self.tell_one::<O, false, true>(cx, linear, bytes),
                Direction::Modify => self.tell_one::<O, true, true>(cx, linear, bytes),
                Direction::Touch => self.tell_one::<O, false, false>(cx, linear, bytes),
            }
        } else if O::SEES_ADDRESSES {
            self.tell_wherever(cx, self.masked(linear), bytes, elements, direction);
        }
    }

    /// As [`Self::tell`] of an access whose place may be known.
    #[inline(always)]
    fn tell_at<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        place: Known,
        bytes: u64,
        direction: Direction,
    ) {
        if !O::SEES_ADDRESSES {
            return;
        }
        if place == Known::NOT {
            return self.tell(cx, linear, bytes, 1, direction);
        }
        let _done = match direction {
            Direction::Load => tell_known::<O, true, false>(cx, linear, place, bytes),
            Direction::Store => tell_known::<O, false, true>(cx, linear, place, bytes),
            Direction::Modify => tell_known::<O, true, true>(cx, linear, place, bytes),
            Direction::Touch => tell_known::<O, false, false>(cx, linear, place, bytes),
        };
    }

    /// A linear address as the mode has it.
    #[inline(always)]
    fn masked(&self, linear: u64) -> u64 {
        if self.long_mode() { linear } else { linear & 0xffff_ffff }
    }

    /// As [`Self::tell`] of one access, compiled for each direction.
    #[inline(never)]
    fn tell_one<O: Observer, const READS: bool, const WRITES: bool>(
        &self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: u64,
    ) {
        let direction = Direction::of(READS, WRITES);
        let linear = self.masked(linear);
        let last = linear.wrapping_add(bytes - 1);
        // As in `page_of_end`: the entry for the first byte has the last one's page only if that is the
        // first one's.
        let entry = self.tlb.entry(self.mmu, linear);
        if entry.is_of(page_of(last)) && entry.host != HostPage::NONE {
            let physical = entry.gpa() | linear & (PAGE - 1);
            return cx.observer.accessed_page(linear, physical, bytes as u32, direction);
        }
        self.tell_wherever(cx, linear, bytes, 1, direction);
    }

    /// The same of any accesses: to a device, to two pages, to one that the TLB does not have.
    #[cold]
    #[inline(never)]
    fn tell_wherever<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: u64,
        elements: u64,
        direction: Direction,
    ) {
        let Some((physical, target)) = self.locate(cx, linear) else { return };
        let last = linear.wrapping_add(bytes * elements - 1);
        let crosses = page_of(last) != page_of(linear);
        let second = if crosses { self.locate(cx, page_of(last)) } else { None };
        cx.observer.accessed(Access {
            linear,
            physical,
            second_page: second.map(|(physical, _)| physical),
            bytes: bytes as u32,
            elements: elements as u32,
            direction,
            target,
        });
    }

    /// Where a linear address is that has just been accessed.
    fn locate<O: Observer>(&self, cx: &Cx<'_, O>, linear: u64) -> Option<(u64, Target)> {
        let of = |host: bool| if host { Target::Memory } else { Target::Mmio };
        if let Some(entry) = self.tlb.find(self.mmu, linear) {
            let physical = entry.gpa() | linear & (PAGE - 1);
            return Some((physical, of(entry.host != HostPage::NONE)));
        }
        let physical = self.look_up(cx.ram, linear)?.physical;
        Some((physical, of(!cx.bus.claims(physical) && cx.ram.page(physical).is_some())))
    }

    /// Counts what it is to an access, of so many loads and stores, that it is misaligned.
    #[inline(always)]
    fn count_misaligned<O: Observer>(
        &self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        bytes: u64,
        loads: u64,
        stores: u64,
    ) {
        let bytes_at_once = bytes.min(8);
        debug_assert!(bytes_at_once.is_power_of_two());
        // What is on a multiple of its size is misaligned for nobody.
        let may_be_misaligned = linear & (bytes_at_once - 1) != 0;
        if O::COUNTS && may_be_misaligned && self.alignment.is_misaligned(linear, bytes_at_once) {
            cx.observer.misaligned();
            if self.alignment.splits() {
                cx.observer.access(loads, stores);
            }
            if bytes == 16 {
                cx.observer.misaligned();
            }
        }
    }

    /// Finds a byte of linear memory, by the TLB or by a page walk. For a device or a watched page it
    /// is [`Stop::ALONE`] unless the instruction is [`Cpu::alone`].
    fn translate<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        mmu: usize,
        intent: Intent,
    ) -> Exec<Place> {
        let linear = if self.long_mode() {
            if !is_canonical(linear) {
                return Err(Stop::GP0);
            }
            linear
        } else {
            linear & 0xffff_ffff
        };
        // While `uncached` is set nothing is entered into the TLB. Entries from before it was set (see
        // `handover.rs`) are found, and are still valid.
        if let Some(entry) = self.tlb.find(mmu, linear)
            && (intent == Intent::Read || entry.writable())
        {
            let host = (entry.host != HostPage::NONE).then_some(entry.host);
            let watched = self.watch.data != 0 && self.watches_page(linear);
            let gpa = entry.gpa();
            if intent == Intent::Write && entry.asks() {
                self.tlb.answer(mmu, linear, !watched && cx.ram.open(gpa));
            }
            return self.reach(Place { gpa: gpa | linear & (PAGE - 1), host }, watched);
        }
        let found = self.walk_for(cx, linear, mmu, intent)?;
        let host = if cx.bus.claims(found.gpa) { None } else { cx.ram.page(found.gpa) };
        // Each write to a ROM comes here, and goes to the bus.
        let rom = cx.ram.is_rom(found.gpa);
        let writable = found.writable && !rom;
        let watched = self.watch.data != 0 && self.watches_page(linear);
        if !self.uncached {
            let fast = writable && !watched && cx.ram.open(found.gpa);
            let writes = if fast { Writes::Fast } else { Writes::Slow };
            let Translation { global, large, .. } = found;
            let access = tlb::Access { fast_read: !watched, writes, global, writable, large };
            self.tlb.insert(mmu, linear, found.gpa, host, access);
        }
        let host = if rom && intent == Intent::Write { None } else { host };
        self.reach(Place { gpa: found.gpa, host }, watched)
    }

    /// Walks the page tables, and reports the walk to an observer that is told addresses.
    fn walk_for<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
        mmu: usize,
        intent: Intent,
    ) -> Exec<Translation> {
        let before = if O::SEES_ADDRESSES { self.look_up(cx.ram, linear) } else { None };
        let found = self.walk(cx.ram, linear, mmu != SUPERVISOR, intent)?;
        if let Some(before) = before.filter(|walk| walk.levels != 0) {
            cx.observer.walked(&self.walked(cx.ram, before));
        }
        Ok(found)
    }

    /// `place` if the running instruction may access it now; else [`Stop::ALONE`].
    fn reach(&self, place: Place, watched: bool) -> Exec<Place> {
        if self.alone || place.host.is_some() && !watched { Ok(place) } else { Err(Stop::ALONE) }
    }

    /// Whether a watched debug address, or memory that is watched for the owner, lies in the page of `linear`.
    pub(crate) fn watches_page(&self, linear: u64) -> bool {
        (0..4).any(|n| self.watch.data & 1 << n != 0 && page_of(self.dr[n]) == page_of(linear))
            || self.owner_watches_page(linear)
    }

    /// The guest-physical address of code at `linear`, with [`OF_DEVICE`] if a device answers there,
    /// and whether its mapping is global.
    pub(crate) fn translate_code<O: Observer>(
        &mut self,
        cx: &mut Cx<'_, O>,
        linear: u64,
    ) -> Exec<(u64, bool)> {
        if self.long_mode() && !is_canonical(linear) {
            return Err(Stop::GP0);
        }
        let linear = if self.long_mode() { linear } else { linear & 0xffff_ffff };
        if let Some((gpa, global)) = self.tlb.find_code(self.mmu, linear) {
            return Ok((gpa | linear & (PAGE - 1), global));
        }
        let found = self.walk_for(cx, linear, self.mmu, Intent::Fetch)?;
        let gpa = if cx.bus.claims(found.gpa) { found.gpa | OF_DEVICE } else { found.gpa };
        if !self.uncached {
            self.tlb.insert_code(self.mmu, linear, gpa, found.global, found.large);
        }
        Ok((gpa, found.global))
    }
}

/// The accesses that move `len` bytes from `linear` on, with their sizes: of eight bytes, then of
/// four and two. None under an observer that does not count.
fn accesses<O: Observer>(linear: u64, len: usize) -> impl Iterator<Item = (u64, u64)> {
    let (mut at, mut left) = (linear, if O::COUNTS { len as u64 } else { 0 });
    std::iter::from_fn(move || {
        let size = [8, 4, 2, 1].into_iter().find(|&size| size <= left)?;
        let access = (at, size);
        at = at.wrapping_add(size);
        left -= size;
        Some(access)
    })
}

/// The parts of `out` that lie in one page each, with their linear addresses.
fn pieces(linear: u64, out: &mut [u8]) -> impl Iterator<Item = (u64, &mut [u8])> {
    let first = (PAGE as usize - offset_in_page(linear)).min(out.len());
    let (head, tail) = out.split_at_mut(first);
    [(linear, head), (linear.wrapping_add(first as u64), tail)]
        .into_iter()
        .filter(|(_, piece)| !piece.is_empty())
}

#[cfg(test)]
mod tests;
