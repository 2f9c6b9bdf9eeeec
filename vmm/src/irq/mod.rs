//! Interrupt controllers: the local APICs, the I/O APIC, the 8259A pair, and the wires between them.

use serde::{Deserialize, Serialize};

use self::in_transit::{Delivery, InTransit, InterruptKind};
use self::ioapic::{IoApic, IoApicRegisters};
use self::lapic::{Lapic, LapicConfig, LapicOutput, PmiOutcome};
pub use self::lapics::Change;
use self::lapics::Lapics;
use self::message::Message;
use self::pic::{Chip, PicPair, PicRegisters};
use crate::processor_set::ProcessorSet;

mod counter_interrupts;
mod in_transit;
pub mod ioapic;
pub mod lapic;
pub(crate) mod lapic_registers;
mod lapic_timer;
mod lapics;
pub mod message;
pub mod pic;
mod schedule;
pub(crate) mod vectors;

#[cfg(test)]
mod tests;

/// Global system interrupts of the machine's devices: pins of the I/O APIC. They equal the ISA IRQ
/// numbers, but for the timer, which firmware tables describe by an interrupt source override.
pub mod gsi {
    /// 8254 channel 0: IRQ0, I/O APIC pin 2.
    pub const PIT: u8 = 2;
    /// i8042 keyboard: IRQ1.
    pub const KEYBOARD: u8 = 1;
    /// First serial port: IRQ4.
    pub const SERIAL: u8 = 4;
    /// Real-time clock: IRQ8.
    pub const RTC: u8 = 8;
    /// ACPI system control interrupt: IRQ9, level.
    pub const SCI: u8 = 9;
    /// i8042 auxiliary device: IRQ12.
    pub const MOUSE: u8 = 12;
}

/// The I/O APIC pin that the 8259A pair's output drives.
const IOAPIC_PIN_INTR: usize = 0;

/// Local interrupt pins: INTR of the 8259A pair, and NMI.
const LINT0: usize = 0;
const LINT1: usize = 1;

/// What the interrupt controllers ask of a processor beyond an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VcpuSignal {
    /// Initialise and, unless this is the bootstrap processor, wait for a start-up IPI. The local
    /// APIC is already initialised.
    Init,
    /// Start in real mode at page `0` to `FFh`: CS selector `page << 8`, IP 0. A processor that
    /// does not wait for it ignores it.
    Sipi(u8),
}

/// What a processor would take next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// An NMI is latched.
    pub nmi: bool,
    /// A maskable interrupt, from the local APIC or from the 8259A pair.
    pub interrupt: bool,
}

impl Pending {
    /// Whether there is anything.
    pub fn any(self) -> bool {
        self.nmi || self.interrupt
    }
}

/// A change of an input, which the in-kernel irqchip has to be told while it has the controllers'
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wire {
    /// The line of a device has changed.
    Line {
        /// Which.
        gsi: u8,
        /// Its new level.
        asserted: bool,
    },
    /// A performance counter of this processor overflowed.
    Pmi(usize),
}

/// All interrupt controllers of the machine. Processors are numbered from 0, the bootstrap
/// processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupts {
    lapics: Lapics,
    ioapic: IoApic,
    pic: PicPair,
    intr: bool,
    /// The levels of the lines.
    lines: u32,
    /// Those that the devices drive.
    driven: u32,
    /// Those that are held high whatever the devices do.
    held: u32,
    /// The in-kernel irqchip has the controllers' state: it is out of date here, and changes of lines
    /// go to `wires`.
    in_kernel: bool,
    wires: Vec<Wire>,
    /// Interrupts from one processor to another are in transit for a while.
    delayed: bool,
    in_transit: InTransit,
}

impl Interrupts {
    /// One local APIC for each of `lapics`, and an I/O APIC whose ID follows theirs.
    pub fn new(lapics: &[LapicConfig]) -> Self {
        let ioapic_id =
            lapics.iter().map(|config| config.id).max().map_or(0, |id| id.wrapping_add(1));
        Self {
            lapics: Lapics::new(lapics),
            ioapic: IoApic::new(ioapic_id),
            pic: PicPair::new(),
            intr: false,
            lines: 0,
            driven: 0,
            held: 0,
            in_kernel: false,
            wires: Vec::new(),
            delayed: false,
            in_transit: InTransit::new(lapics.len()),
        }
    }

    /// Whether another has as many local APICs.
    pub(crate) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        let processors = self.lapics.count();
        let is_processor = |wire: &Wire| !matches!(wire, Wire::Pmi(vcpu) if *vcpu >= processors);
        self.lapics.is_of_the_kind_of(&other.lapics)
            && other.in_transit.is_of(processors)
            && other.wires.iter().all(is_processor)
    }

    /// Reset of the whole machine.
    pub fn reset(&mut self) {
        self.lapics.change_all(Lapic::reset);
        self.ioapic.reset();
        self.pic.reset();
        self.lapics.signals.clear();
        self.in_transit.clear();
        self.update_intr();
    }

    /// Leaves the bootstrap processor's local APIC in virtual wire mode, as firmware does
    /// (MultiProcessor Specification 1.4, section 3.6.2.2): enabled, LINT0 ExtINT, LINT1 NMI.
    pub fn set_virtual_wire(&mut self) {
        for (offset, value) in [(0x0F0, 0x1FF), (0x350, 0x700), (0x360, 0x400)] {
            self.lapics.change(0).write(offset, value, 0);
        }
    }

    /// The number of processors.
    pub fn vcpus(&self) -> usize {
        self.lapics.count()
    }

    /// The local APIC of `vcpu`. Its writes may produce messages; use [`Self::lapic_write`] for
    /// those.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn lapic(&self, vcpu: usize) -> &Lapic {
        self.lapics.get(vcpu)
    }

    /// As [`Self::lapic`], to change it: IA32_APIC_BASE, CR8.
    ///
    /// # Panics
    /// If there is no such processor.
    pub fn lapic_mut(&mut self, vcpu: usize) -> Change<'_> {
        self.lapics.change(vcpu)
    }

    /// Reads the register page of `vcpu`'s local APIC.
    pub fn lapic_read(&mut self, vcpu: usize, offset: u32, now: u64) -> u32 {
        self.lapics.change(vcpu).read(offset, now)
    }

    /// Writes the register page of `vcpu`'s local APIC, and sends the IPI or the end of interrupt that
    /// the write asks for.
    pub fn lapic_write(&mut self, vcpu: usize, offset: u32, value: u32, now: u64) {
        let output = self.lapics.change(vcpu).write(offset, value, now);
        match output {
            Some(LapicOutput::Ipi(message)) => self.send(message, vcpu),
            Some(LapicOutput::EndOfInterrupt(vector)) => {
                self.ioapic.eoi(vector, |message| self.lapics.deliver(message, None));
            }
            None => {}
        }
    }

    /// The local APIC of `sender` sends a message. A message to itself arrives at once.
    fn send(&mut self, message: Message, sender: usize) {
        if !self.delayed {
            self.lapics.deliver(message, Some(sender));
            return;
        }
        for vcpu in self.lapics.receivers(message, Some(sender)).iter() {
            if vcpu == sender {
                self.lapics.deliver_to(vcpu, message);
            } else {
                self.in_transit.post(vcpu, InterruptKind::Ipi(message));
            }
        }
    }

    /// Sets whether interrupts from one processor to another are in transit until the engine calls
    /// [`Self::depart`] and [`Self::arrive`]. If not, they arrive at once, and those in transit arrive
    /// now; what came of those of counters, each with its processor.
    pub fn delay(&mut self, delayed: bool) -> Vec<(usize, PmiOutcome)> {
        self.delayed = delayed;
        let arrived = if delayed { Vec::new() } else { self.in_transit.all() };
        let deliver = |Delivery { vcpu, kind }| Some((vcpu, self.deliver(vcpu, kind)?));
        arrived.into_iter().filter_map(deliver).collect()
    }

    /// Whether the processor that is running has sent any that have not departed.
    #[inline]
    pub(crate) fn has_sent(&self) -> bool {
        self.in_transit.is_any_posted()
    }

    /// The processor that has been running is at `time`: the interrupts that it has sent depart, and
    /// IPIs among them arrive `ipi_latency` cycles later. Whether it has sent any.
    #[inline]
    pub fn depart(&mut self, time: u64, ipi_latency: u64) -> bool {
        self.in_transit.depart(time, ipi_latency)
    }

    /// `vcpu` is at `time`: delivers the interrupts in transit that have arrived at it by then. What came of
    /// those of counters.
    #[inline]
    pub fn arrive(&mut self, vcpu: usize, time: u64) -> Vec<PmiOutcome> {
        if self.in_transit.next(vcpu).is_none_or(|first| first > time) {
            return Vec::new();
        }
        let arrived = self.in_transit.arrived(vcpu, time);
        arrived.into_iter().filter_map(|kind| self.deliver(vcpu, kind)).collect()
    }

    /// The same, but for those of counters, which are left to the caller to send; how many these are.
    pub(crate) fn arrive_but_pmis(&mut self, vcpu: usize, time: u64) -> usize {
        let arrived = self.in_transit.arrived(vcpu, time).into_iter();
        let (pmis, others): (Vec<_>, Vec<_>) =
            arrived.partition(|kind| *kind == InterruptKind::Pmi);
        others.into_iter().for_each(|kind| _ = self.deliver(vcpu, kind));
        pmis.len()
    }

    /// When the next interrupt in transit arrives at `vcpu`.
    #[inline]
    pub fn next_arrival(&self, vcpu: usize) -> Option<u64> {
        self.in_transit.next(vcpu)
    }

    /// When the next interrupt in transit arrives at any processor.
    pub fn first_arrival(&self) -> Option<u64> {
        self.in_transit.first()
    }

    /// The processors at which an interrupt in transit arrives by `time`.
    pub(crate) fn receivers(&self, time: u64) -> ProcessorSet {
        self.in_transit.receivers(time)
    }

    /// The processors that may have something pending that they did not have at the last call of
    /// [`Self::take_stirred`].
    pub(crate) fn stirred(&self) -> ProcessorSet {
        self.lapics.stirred()
    }

    /// The same, and forgets them.
    pub(crate) fn take_stirred(&mut self) -> ProcessorSet {
        self.lapics.take_stirred()
    }

    /// Delivers what was in transit; what came of it, if it is the interrupt of a counter.
    fn deliver(&mut self, vcpu: usize, kind: InterruptKind) -> Option<PmiOutcome> {
        match kind {
            InterruptKind::Ipi(message) => {
                self.lapics.deliver_to(vcpu, message);
                None
            }
            InterruptKind::Pmi => Some(self.pmi(vcpu)),
        }
    }

    /// A performance counter of `vcpu` overflowed by an occurrence on another thread of its core. What came of
    /// its interrupt; `None` if that is in transit.
    pub fn pmi_from_sibling(&mut self, vcpu: usize) -> Option<PmiOutcome> {
        if self.delayed {
            self.in_transit.post(vcpu, InterruptKind::Pmi);
            return None;
        }
        Some(self.pmi(vcpu))
    }

    /// A performance counter of `vcpu` overflowed.
    pub fn pmi(&mut self, vcpu: usize) -> PmiOutcome {
        if self.in_kernel {
            self.wires.push(Wire::Pmi(vcpu));
            return PmiOutcome::InKernel;
        }
        let outcome = self.lapics.change(vcpu).pmi();
        if outcome == PmiOutcome::Init {
            self.lapics.init(vcpu);
        }
        outcome
    }

    /// Reads a register of the I/O APIC.
    pub fn ioapic_read(&self, offset: u64) -> u32 {
        self.ioapic.read(offset)
    }

    /// Writes a register of the I/O APIC.
    pub fn ioapic_write(&mut self, offset: u64, value: u32) {
        self.ioapic.write(offset, value, |message| self.lapics.deliver(message, None));
    }

    /// Reads a port of the 8259A pair.
    pub fn pic_read(&mut self, chip: Chip, data: bool) -> u8 {
        let value = self.pic.read(chip, data);
        self.update_intr();
        value
    }

    /// Writes a port of the 8259A pair.
    pub fn pic_write(&mut self, chip: Chip, data: bool, value: u8) {
        self.pic.write(chip, data, value);
        self.update_intr();
    }

    /// Reads ELCR1 or ELCR2.
    pub fn elcr(&self, chip: Chip) -> u8 {
        self.pic.elcr(chip)
    }

    /// Writes ELCR1 or ELCR2.
    pub fn set_elcr(&mut self, chip: Chip, value: u8) {
        self.pic.set_elcr(chip, value);
        self.update_intr();
    }

    /// Sets the line of a device: a pin of the I/O APIC and, for the sixteen of the ISA bus, a
    /// request of the 8259A pair.
    pub fn set_gsi(&mut self, gsi: u8, asserted: bool) {
        let bit = line(gsi);
        self.driven = if asserted { self.driven | bit } else { self.driven & !bit };
        self.update_line(gsi);
    }

    /// Holds the line of a device high, or leaves it to the device again.
    pub fn hold_gsi(&mut self, gsi: u8, held: bool) {
        let bit = line(gsi);
        self.held = if held { self.held | bit } else { self.held & !bit };
        self.update_line(gsi);
    }

    fn update_line(&mut self, gsi: u8) {
        let bit = line(gsi);
        let asserted = (self.driven | self.held) & bit != 0;
        let before = self.lines;
        self.lines = if asserted { before | bit } else { before & !bit };
        if self.in_kernel {
            if self.lines != before {
                self.wires.push(Wire::Line { gsi, asserted });
            }
            return;
        }
        self.set_pin(gsi.into(), asserted);
        let irq = if gsi == gsi::PIT { 0 } else { gsi };
        if irq < 16 {
            self.pic.set_irq(irq, asserted);
            self.update_intr();
        }
    }

    /// Sets the level of every processor's LINT1 pin, the machine's NMI line.
    pub fn set_nmi_line(&mut self, level: bool) {
        self.set_lint(LINT1, level);
    }

    fn set_pin(&mut self, pin: usize, asserted: bool) {
        self.ioapic.set_pin(pin, asserted, |message| self.lapics.deliver(message, None));
    }

    fn set_lint(&mut self, pin: usize, level: bool) {
        for vcpu in 0..self.lapics.count() {
            let asks_for_init = self.lapics.change(vcpu).set_lint(pin, level);
            if asks_for_init {
                self.lapics.init(vcpu);
            }
        }
    }

    /// The 8259A pair's output is wired to every LINT0 and to pin 0 of the I/O APIC.
    fn update_intr(&mut self) {
        let intr = self.pic.intr();
        if intr != self.intr {
            self.intr = intr;
            self.set_lint(LINT0, intr);
            self.set_pin(IOAPIC_PIN_INTR, intr);
        }
    }

    /// What `vcpu` would take next. Called often, so it costs a few loads only.
    pub fn pending(&self, vcpu: usize) -> Pending {
        if self.in_kernel {
            return Pending::default();
        }
        let lapic = self.lapics.get(vcpu);
        Pending { nmi: lapic.nmi(), interrupt: lapic.pending_vector().is_some() || lapic.extint() }
    }

    /// `vcpu` takes the latched NMI; whether there was one.
    pub fn take_nmi(&mut self, vcpu: usize) -> bool {
        self.lapics.change(vcpu).take_nmi()
    }

    /// `vcpu` takes the maskable interrupt: its vector. A request to the 8259A goes first, since it
    /// does not take part in the APIC's priorities. Without a request: the spurious vector.
    pub fn acknowledge(&mut self, vcpu: usize) -> u8 {
        let mut lapic = self.lapics.change(vcpu);
        if lapic.extint() {
            lapic.acknowledge_extint();
            drop(lapic);
            let vector = self.pic.acknowledge();
            // INT is deasserted by the acknowledge even if another request follows.
            self.intr = false;
            self.set_lint(LINT0, false);
            self.set_pin(IOAPIC_PIN_INTR, false);
            self.update_intr();
            return vector;
        }
        lapic.acknowledge().unwrap_or_else(|| lapic.spurious_vector())
    }

    /// Brings the timers of all local APICs up to `now`.
    pub fn advance(&mut self, now: u64) {
        if self.in_kernel {
            return;
        }
        self.lapics.advance(now);
    }

    /// The next time at which a local APIC timer expires.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.in_kernel {
            return None;
        }
        self.lapics.next_deadline()
    }

    /// Whether the in-kernel irqchip has the controllers' state.
    pub fn is_in_kernel(&self) -> bool {
        self.in_kernel
    }

    /// The levels of the devices' lines, a bit each.
    pub fn lines(&self) -> u32 {
        self.lines
    }

    /// Makes the in-kernel irqchip responsible, and returns the registers that the processors share, for
    /// it to be set to. From now on changes of lines and PMIs are kept for [`Self::take_wires`].
    pub fn move_to_kernel(&mut self) -> SharedRegisters {
        self.in_kernel = true;
        SharedRegisters { ioapic: self.ioapic.registers(), pic: self.pic.registers() }
    }

    /// What happened on the wires since the last call, in order, while the in-kernel irqchip has the
    /// controllers' state.
    pub fn take_wires(&mut self) -> Vec<Wire> {
        std::mem::take(&mut self.wires)
    }

    /// Takes the shared registers from the in-kernel irqchip. The local APICs have been set already.
    pub fn move_from_kernel(&mut self, shared: &SharedRegisters) {
        self.in_kernel = false;
        self.pic.set_registers(&shared.pic);
        self.intr = self.pic.intr();
        let intr = u32::from(self.intr) << IOAPIC_PIN_INTR;
        self.ioapic.set_registers(&shared.ioapic, self.lines & !(1 << IOAPIC_PIN_INTR) | intr);
        self.lapics.change_all(|lapic| lapic.assume_lint0(self.intr));
    }

    /// Whether [`Self::take_signals`] has anything to give.
    pub fn has_signals(&self) -> bool {
        !self.lapics.signals.is_empty()
    }

    /// INIT and start-up signals since the last call, each with its processor, in order.
    pub fn take_signals(&mut self) -> Vec<(usize, VcpuSignal)> {
        std::mem::take(&mut self.lapics.signals)
    }
}

/// The bit of a line.
fn line(gsi: u8) -> u32 {
    1_u32.checked_shl(gsi.into()).unwrap_or(0)
}

/// The registers of the controllers that processors share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRegisters {
    /// I/O APIC.
    pub ioapic: IoApicRegisters,
    /// Master and slave.
    pub pic: [PicRegisters; 2],
}
