//! The local APIC of one processor, in xAPIC mode (SDM Vol. 3A, chapter "Advanced Programmable
//! Interrupt Controller"; AMD64 APM Vol. 2, chapter of the same name).

use serde::{Deserialize, Serialize};
use x86_cpu::bus::Refused;

use super::counter_interrupts::CounterInterrupts;
use super::lapic_registers::*;
use super::lapic_timer::LapicTimer;
use super::message::{DeliveryMode, Destination, Message, Trigger};
use super::vectors::Vectors;
use crate::devices::rate::Rate;

#[path = "lapic_page.rs"]
pub mod page;

const BASE_BSP: u64 = 1 << 8;
const BASE_ENABLE: u64 = 1 << 11;
/// Where every local APIC is after reset.
const BASE_ADDRESS: u64 = 0xFEE0_0000;

/// What differs from one processor's local APIC to another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LapicConfig {
    /// The initial APIC ID, which CPUID leaf 1 repeats.
    pub id: u8,
    /// Whether this is the bootstrap processor (IA32_APIC_BASE bit 8).
    pub bsp: bool,
    /// The version field, 1xh for an integrated local APIC.
    pub version: u8,
    /// The "max LVT entry" field, the number of entries less one: 3 has no LVTPC and no thermal
    /// entry (Pentium), 4 adds LVTPC (P6), 5 adds the thermal entry (Pentium M).
    pub max_lvt: u8,
    /// Whether there is an IA32_APIC_BASE; else the register page stays where it is after reset, and
    /// enabled.
    pub base_msr: bool,
    /// Physical address bits of the processor, which bound the base field of IA32_APIC_BASE.
    pub physical_bits: u8,
    /// Whether delivering a PMI sets the mask bit of LVTPC.
    pub lvtpc_auto_mask: bool,
    /// Cycles a second of virtual time.
    pub clock_hz: u64,
    /// Ticks a second of the bus clock that the timer divides.
    pub timer_hz: u64,
}

/// What came of an interrupt that a local source raised through its LVT entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmiOutcome {
    /// Nothing: the interrupt is lost.
    Lost(Loss),
    /// The vector is in IRR.
    Fixed(u8),
    /// It was there already: the two are one.
    FixedMerged(u8),
    /// An NMI is latched.
    Nmi,
    /// One was latched already: the two are one.
    NmiMerged,
    /// A request to the 8259A is latched.
    ExtInt,
    /// The processor is to be initialised; the owner does it.
    Init,
    /// An SMI; dropped, since there is no SMM.
    Smi,
    /// The in-kernel irqchip has the controllers' state, and is told.
    InKernel,
    /// Fixed with a vector below 16, or a reserved delivery mode: recorded in ESR if a vector.
    Illegal,
}

/// Why an interrupt of a counter is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The local APIC has no LVTPC.
    NoEntry,
    /// IA32_APIC_BASE has the local APIC disabled.
    HardwareDisabled,
    /// SVR has the local APIC disabled, which masks LVTPC.
    SoftwareDisabled,
    /// The guest has masked LVTPC.
    Masked,
    /// LVTPC is masked as after reset: the guest has never written it.
    NeverWritten,
    /// The delivery of one before has masked LVTPC, and the guest has not written it since.
    MaskedByDelivery,
}

/// What a register write asks of the rest of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LapicOutput {
    /// ICR low was written: deliver this.
    Ipi(Message),
    /// A level-triggered vector ended: tell the I/O APIC.
    EndOfInterrupt(u8),
}

/// One local APIC. All times are in cycles of virtual time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lapic {
    config: LapicConfig,
    base: u64,
    id: u8,
    tpr: u8,
    ldr: u8,
    /// The model, bits 31:28 of register E0h.
    dfr: u8,
    svr: u32,
    esr: u32,
    /// Errors since ESR was last written.
    errors: u32,
    icr_low: u32,
    icr_high: u32,
    lvt: [u32; 6],
    irr: Vectors,
    isr: Vectors,
    tmr: Vectors,
    timer: LapicTimer,
    timer_deadline: Option<u64>,
    lint: [bool; 2],
    nmi: bool,
    /// An ExtINT that came by the bus or by LVTPC, not by the LINT0 line.
    extint_message: bool,
    ppr: u8,
    deliverable: Option<u8>,
    pmi_record: PmiRecord,
    counters: CounterInterrupts,
}

/// What became of the interrupts of performance counters: for the notes of a run, invisible to the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PmiRecord {
    /// LVTPC has been written.
    pub lvtpc_written: bool,
    /// It is masked by a delivery, and the guest has not written it since.
    masked_by_delivery: bool,
    /// Lost while it was masked by the guest, or not written since reset.
    pub lost_masked: u64,
    /// Lost while it was masked by the delivery of one before.
    pub lost_behind_delivery: u64,
}

impl Lapic {
    /// Whether `other` is of the same processor, and in a state that it can have.
    pub(super) fn is_of_the_kind_of(&self, other: &Self) -> bool {
        self.config == other.config && self.timer.is_of_the_kind_of(&other.timer)
    }

    /// A local APIC as power-up leaves it: hardware enabled, software disabled, all LVT masked.
    pub fn new(config: LapicConfig) -> Self {
        let bsp = if config.bsp { BASE_BSP } else { 0 };
        Self {
            config,
            base: BASE_ADDRESS | BASE_ENABLE | bsp,
            id: config.id,
            tpr: 0,
            ldr: 0,
            dfr: 0xF,
            svr: 0xFF,
            esr: 0,
            errors: 0,
            icr_low: 0,
            icr_high: 0,
            lvt: [LVT_MASKED; 6],
            irr: Vectors::default(),
            isr: Vectors::default(),
            tmr: Vectors::default(),
            timer: LapicTimer::new(Rate::new(config.clock_hz, config.timer_hz)),
            timer_deadline: None,
            lint: [false; 2],
            nmi: false,
            extint_message: false,
            ppr: 0,
            deliverable: None,
            pmi_record: PmiRecord::default(),
            counters: CounterInterrupts::default(),
        }
    }

    /// Power-up reset. The lines keep the level that drives them.
    pub fn reset(&mut self) {
        *self = Self { lint: self.lint, ..Self::new(self.config) };
    }

    /// INIT: as power-up, but the APIC ID and IA32_APIC_BASE stay ("Local APIC State After an INIT
    /// Reset").
    pub fn init(&mut self) {
        // An entry is masked by INIT, then, and not by a delivery.
        let pmi_record = PmiRecord { masked_by_delivery: false, ..self.pmi_record };
        let Self { base, id, lint, config, .. } = *self;
        *self = Self { base, id, lint, pmi_record, ..Self::new(config) };
    }

    /// Whether the processor has IA32_APIC_BASE.
    pub fn has_base_msr(&self) -> bool {
        self.config.base_msr
    }

    /// Whether delivering a PMI sets the mask bit of LVTPC.
    pub fn masks_lvtpc(&self) -> bool {
        self.config.lvtpc_auto_mask
    }

    /// The MSR IA32_APIC_BASE (1Bh). Power-up: FEE00800h, with bit 8 on the bootstrap processor.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Writes IA32_APIC_BASE. Bit 8 is read-only. Clearing bit 11 takes the APIC away and returns
    /// its registers to their power-up state.
    ///
    /// # Errors
    /// [`Refused`] if a reserved bit is set: 7:0, 9, 10 (there is no x2APIC) or a bit above the
    /// physical address size.
    pub fn set_base(&mut self, value: u64) -> Result<(), Refused> {
        let address = ((1_u64 << self.config.physical_bits.min(52)) - 1) & !0xFFF;
        if value & !(address | BASE_ENABLE | BASE_BSP) != 0 {
            return Err(Refused);
        }
        let was_enabled = self.hardware_enabled();
        self.base = value & !BASE_BSP | self.base & BASE_BSP;
        if was_enabled && !self.hardware_enabled() {
            self.init();
            self.id = self.config.id;
        }
        self.update_priority();
        Ok(())
    }

    /// The physical address of the register page, or `None` while IA32_APIC_BASE disables it.
    pub fn page(&self) -> Option<u64> {
        self.hardware_enabled().then_some(self.base & !0xFFF)
    }

    /// IA32_APIC_BASE bit 11; the APIC feature bit of CPUID leaf 1 follows it.
    pub fn hardware_enabled(&self) -> bool {
        self.base & BASE_ENABLE != 0
    }

    fn software_enabled(&self) -> bool {
        self.hardware_enabled() && self.svr & SVR_ENABLE != 0
    }

    /// The APIC ID in register 20h.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// CR8: bits 7:4 of TPR.
    pub fn cr8(&self) -> u8 {
        self.tpr >> 4
    }

    /// Writes CR8; only bits 3:0 count.
    pub fn set_cr8(&mut self, value: u8) {
        self.tpr = value << 4;
        self.update_priority();
    }

    /// Reads the register at `offset` (0 to FF0h) of the page. Reading a reserved register sets ESR
    /// bit 7 and gives zero, as does an offset that is not a multiple of 16.
    pub fn read(&mut self, offset: u32, now: u64) -> u32 {
        self.advance(now);
        if let Some(index) = self.lvt_index(offset) {
            return self.lvt[index];
        }
        match offset {
            offset::ID => u32::from(self.id) << 24,
            offset::VERSION => {
                u32::from(self.config.max_lvt) << 16 | u32::from(self.config.version)
            }
            offset::TPR => self.tpr.into(),
            offset::APR => self.arbitration_priority().into(),
            offset::PPR => self.ppr.into(),
            offset::EOI | offset::REMOTE_READ => 0,
            offset::LDR => u32::from(self.ldr) << 24,
            offset::DFR => u32::from(self.dfr) << 28 | 0x0FFF_FFFF,
            offset::SVR => self.svr,
            offset::ESR => self.esr,
            offset::ICR_LOW => self.icr_low,
            offset::ICR_HIGH => self.icr_high,
            offset::INITIAL_COUNT => self.timer.initial(),
            offset::CURRENT_COUNT => self.timer.current(now),
            offset::DIVIDE_CONFIGURATION => self.timer.divide_configuration(),
            _ => match vector_register(offset) {
                Some((offset::ISR, index)) => self.isr.word(index),
                Some((offset::TMR, index)) => self.tmr.word(index),
                Some((_, index)) => self.irr.word(index),
                None => {
                    self.record_error(ESR_ILLEGAL_REGISTER);
                    0
                }
            },
        }
    }

    /// Writes the register at `offset` of the page. Writes to read-only registers are ignored, those
    /// to reserved ones set ESR bit 7.
    pub fn write(&mut self, offset: u32, value: u32, now: u64) -> Option<LapicOutput> {
        self.advance(now);
        if let Some(index) = self.lvt_index(offset) {
            self.write_lvt(index, value);
            return None;
        }
        match offset {
            offset::ID => self.id = (value >> 24) as u8,
            offset::TPR => {
                self.tpr = value as u8;
                self.update_priority();
            }
            offset::EOI => return self.eoi().map(LapicOutput::EndOfInterrupt),
            offset::LDR => self.ldr = (value >> 24) as u8,
            offset::DFR => self.dfr = (value >> 28) as u8,
            offset::SVR => self.write_svr(value),
            offset::ESR => {
                self.esr = self.errors;
                self.errors = 0;
            }
            offset::ICR_LOW => return self.write_icr_low(value).map(LapicOutput::Ipi),
            offset::ICR_HIGH => self.icr_high = value & 0xFF00_0000,
            offset::INITIAL_COUNT => {
                self.timer.set_initial(value, now);
                self.update_deadline();
            }
            offset::DIVIDE_CONFIGURATION => {
                self.timer.set_divide_configuration(value, now);
                self.update_deadline();
            }
            offset::VERSION
            | offset::APR
            | offset::PPR
            | offset::REMOTE_READ
            | offset::CURRENT_COUNT => {}
            _ if vector_register(offset).is_some() => {}
            _ => self.record_error(ESR_ILLEGAL_REGISTER),
        }
        None
    }

    /// The LVT entry at `offset`, if this processor has it.
    fn lvt_index(&self, offset: u32) -> Option<usize> {
        match offset {
            offset::LVT_TIMER => Some(TIMER),
            offset::LVT_THERMAL if self.config.max_lvt >= 5 => Some(THERMAL),
            offset::LVTPC if self.has_lvtpc() => Some(PERFORMANCE),
            offset::LVT_LINT0 => Some(LINT0),
            offset::LVT_LINT1 => Some(LINT1),
            offset::LVT_ERROR => Some(ERROR),
            _ => None,
        }
    }

    fn write_lvt(&mut self, index: usize, value: u32) {
        let mut entry = value & LVT_WRITABLE[index] | self.lvt[index] & LVT_REMOTE_IRR;
        if self.svr & SVR_ENABLE == 0 {
            entry |= LVT_MASKED;
        }
        if Trigger::from_register(entry) == Trigger::Edge {
            entry &= !LVT_REMOTE_IRR;
        }
        self.lvt[index] = entry;
        if index == PERFORMANCE {
            self.pmi_record.lvtpc_written = true;
            self.pmi_record.masked_by_delivery = false;
        }
        match index {
            TIMER => self.update_deadline(),
            LINT0 | LINT1 => self.service_level_lint(index),
            _ => {}
        }
    }

    /// Software disable sets every mask bit; they stay set when it is enabled again.
    fn write_svr(&mut self, value: u32) {
        self.svr = value & SVR_WRITABLE;
        if self.svr & SVR_ENABLE == 0 {
            for entry in &mut self.lvt {
                *entry |= LVT_MASKED;
            }
            self.update_deadline();
        }
    }

    fn write_icr_low(&mut self, value: u32) -> Option<Message> {
        self.icr_low = value & ICR_WRITABLE;
        let mode = DeliveryMode::from_register(value);
        let vector = value as u8;
        let trigger = Trigger::from_register(value);
        match mode {
            DeliveryMode::Fixed | DeliveryMode::LowestPriority if vector < 16 => {
                self.record_error(ESR_SEND_ILLEGAL_VECTOR);
                return None;
            }
            // INIT level de-assert only synchronises the arbitration IDs of the APIC bus.
            DeliveryMode::Init if trigger == Trigger::Level && value & 1 << 14 == 0 => return None,
            _ => {}
        }
        let destination = match value >> 18 & 3 {
            0 => Destination::from_register(value, (self.icr_high >> 24) as u8),
            1 => Destination::Itself,
            2 => Destination::All,
            _ => Destination::AllButSender,
        };
        // An IPI is edge triggered whatever bit 15 says, but for INIT de-assert.
        Some(Message { mode, vector, trigger: Trigger::Edge, destination })
    }

    /// The next time at which the timer raises its interrupt.
    pub fn next_deadline(&self) -> Option<u64> {
        self.timer_deadline
    }

    /// Brings the timer up to `now`.
    pub fn advance(&mut self, now: u64) {
        if self.timer.expire(now, self.lvt[TIMER] & LVT_PERIODIC != 0) {
            if self.lvt[TIMER] & LVT_MASKED == 0 {
                self.accept(self.lvt[TIMER] as u8, Trigger::Edge);
            }
            self.update_deadline();
        }
    }

    fn update_deadline(&mut self) {
        let masked = self.lvt[TIMER] & LVT_MASKED != 0;
        self.timer_deadline = if masked { None } else { self.timer.deadline() };
    }

    /// A performance counter overflowed: raises the interrupt that LVTPC describes. A masked LVTPC
    /// loses it. With auto-mask, bit 16 is set after the delivery.
    pub fn pmi(&mut self) -> PmiOutcome {
        if !self.has_lvtpc() {
            return PmiOutcome::Lost(Loss::NoEntry);
        }
        if !self.hardware_enabled() {
            return PmiOutcome::Lost(Loss::HardwareDisabled);
        }
        let entry = self.lvt[PERFORMANCE];
        if entry & LVT_MASKED != 0 {
            let is_disabled = !self.software_enabled();
            let record = &mut self.pmi_record;
            match record.masked_by_delivery {
                true => record.lost_behind_delivery += 1,
                false => record.lost_masked += 1,
            }
            let loss = match *record {
                _ if is_disabled => Loss::SoftwareDisabled,
                PmiRecord { masked_by_delivery: true, .. } => Loss::MaskedByDelivery,
                PmiRecord { lvtpc_written: false, .. } => Loss::NeverWritten,
                _ => Loss::Masked,
            };
            return PmiOutcome::Lost(loss);
        }
        let vector = entry as u8;
        let was_requested = self.irr.contains(vector);
        let outcome = match DeliveryMode::from_register(entry) {
            DeliveryMode::Fixed if self.accept(vector, Trigger::Edge) => match was_requested {
                true => PmiOutcome::FixedMerged(vector),
                false => PmiOutcome::Fixed(vector),
            },
            DeliveryMode::Nmi => match std::mem::replace(&mut self.nmi, true) {
                true => PmiOutcome::NmiMerged,
                false => PmiOutcome::Nmi,
            },
            DeliveryMode::ExtInt => {
                self.extint_message = true;
                PmiOutcome::ExtInt
            }
            DeliveryMode::Init => PmiOutcome::Init,
            DeliveryMode::Smi => PmiOutcome::Smi,
            DeliveryMode::Fixed
            | DeliveryMode::LowestPriority
            | DeliveryMode::StartUp
            | DeliveryMode::Reserved => PmiOutcome::Illegal,
        };
        if self.config.lvtpc_auto_mask {
            self.lvt[PERFORMANCE] |= LVT_MASKED;
            self.pmi_record.masked_by_delivery = true;
        }
        self.counters.sent(outcome);
        outcome
    }

    /// Whether the interrupt of a counter waits for the processor to take it.
    pub fn has_untaken_pmi(&self) -> bool {
        self.counters.has_untaken()
    }

    /// Whether the interrupt that the processor took last is that of a counter.
    pub fn took_pmi(&self) -> bool {
        self.counters.was_taken()
    }

    /// The vector that EOI ends, if it is that of a counter.
    pub fn pmi_in_service(&self) -> Option<u8> {
        self.in_service().filter(|&vector| self.counters.is_in_service(vector))
    }

    /// Forgets which interrupts are those of counters: KVM has them from now on, and does not tell what becomes of them.
    pub fn forget_pmis(&mut self) {
        self.counters = CounterInterrupts::default();
    }

    /// Whether there is an LVTPC.
    pub fn has_lvtpc(&self) -> bool {
        self.config.max_lvt >= 4
    }

    /// LVTPC, as it reads.
    pub fn lvtpc(&self) -> u32 {
        self.lvt[PERFORMANCE]
    }

    /// The highest vector in ISR: the one that EOI ends.
    pub fn in_service(&self) -> Option<u8> {
        self.isr.highest()
    }

    /// What became of the interrupts of performance counters so far.
    pub fn pmi_record(&self) -> PmiRecord {
        self.pmi_record
    }

    /// Takes a vector into IRR; whether it was accepted. A vector below 16 sets ESR bit 6; a
    /// software-disabled APIC accepts none.
    pub fn accept(&mut self, vector: u8, trigger: Trigger) -> bool {
        if !self.software_enabled() {
            return false;
        }
        if vector < 16 {
            self.record_error(ESR_RECEIVE_ILLEGAL_VECTOR);
            return false;
        }
        self.irr.set(vector);
        self.tmr.assign(vector, trigger == Trigger::Level);
        self.update_priority();
        true
    }

    /// Latches an NMI, from the bus. A second one while the first waits is the same one.
    pub fn accept_nmi(&mut self) {
        self.nmi = true;
    }

    /// Latches a request to the 8259A that came as a message.
    pub fn accept_extint(&mut self) {
        self.extint_message = true;
    }

    /// Sets the level of pin LINT0 (`pin` 0, wired to the 8259A) or LINT1 (NMI).
    ///
    /// Returns true if the entry's delivery mode asks for INIT. With the APIC hardware-disabled the
    /// pins are INTR and NMI of a processor without one.
    pub fn set_lint(&mut self, pin: usize, level: bool) -> bool {
        let Some(line) = self.lint.get_mut(pin) else { return false };
        let rising = level && !*line;
        let falling = !level && *line;
        *line = level;
        if !self.hardware_enabled() {
            self.nmi |= pin == 1 && rising;
            return false;
        }
        let index = LINT0 + pin;
        let entry = self.lvt[index];
        let active = if entry & LVT_ACTIVE_LOW == 0 { rising } else { falling };
        if entry & LVT_MASKED != 0 {
            return false;
        }
        match DeliveryMode::from_register(entry) {
            DeliveryMode::Fixed if Trigger::from_register(entry) == Trigger::Level => {
                self.service_level_lint(index);
            }
            DeliveryMode::Fixed if active => {
                self.accept(entry as u8, Trigger::Edge);
            }
            DeliveryMode::Nmi => self.nmi |= active,
            DeliveryMode::Init => return active,
            // ExtINT follows the line itself, see `extint`.
            _ => {}
        }
        false
    }

    /// A level-triggered fixed LINT entry is delivered while its pin is active and its remote IRR
    /// is clear.
    fn service_level_lint(&mut self, index: usize) {
        let entry = self.lvt[index];
        let level_fixed = Trigger::from_register(entry) == Trigger::Level
            && DeliveryMode::from_register(entry) == DeliveryMode::Fixed;
        let active = self.lint[index - LINT0] == (entry & LVT_ACTIVE_LOW == 0);
        if level_fixed
            && active
            && entry & (LVT_MASKED | LVT_REMOTE_IRR) == 0
            && self.accept(entry as u8, Trigger::Level)
        {
            self.lvt[index] |= LVT_REMOTE_IRR;
        }
    }

    /// Whether the processor sees a request from the 8259A: LINT0 is high and its entry passes it
    /// (ExtINT, not masked), or the APIC is hardware-disabled.
    pub fn extint(&self) -> bool {
        self.extint_message || self.lint[0] && self.lint0_is_intr()
    }

    fn lint0_is_intr(&self) -> bool {
        !self.hardware_enabled()
            || self.lvt[LINT0] & LVT_MASKED == 0
                && DeliveryMode::from_register(self.lvt[LINT0]) == DeliveryMode::ExtInt
    }

    /// The processor takes the vector of the request from the 8259A.
    pub fn acknowledge_extint(&mut self) {
        self.extint_message = false;
        self.counters.take_other();
    }

    /// Whether an NMI is latched.
    pub fn nmi(&self) -> bool {
        self.nmi
    }

    /// Whether there is an NMI or a maskable interrupt that the processor would take.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.nmi || self.deliverable.is_some() || self.extint()
    }

    /// The processor takes the NMI.
    pub fn take_nmi(&mut self) -> bool {
        self.counters.take_nmi();
        std::mem::take(&mut self.nmi)
    }

    /// The highest vector of IRR, if its class is above that of PPR. Kept up to date; a load.
    pub fn pending_vector(&self) -> Option<u8> {
        self.deliverable
    }

    /// Interrupt acknowledge: the pending vector moves from IRR to ISR. `None` if there is none; the
    /// processor then takes [`Self::spurious_vector`].
    pub fn acknowledge(&mut self) -> Option<u8> {
        self.counters.take_other();
        let vector = self.deliverable?;
        self.counters.take(vector);
        self.irr.clear(vector);
        self.isr.set(vector);
        self.update_priority();
        Some(vector)
    }

    /// The spurious-interrupt vector, SVR bits 7:0.
    pub fn spurious_vector(&self) -> u8 {
        self.svr as u8
    }

    /// End of interrupt: clears the highest bit of ISR. Returns the vector if it was level
    /// triggered, for the I/O APIC.
    pub fn eoi(&mut self) -> Option<u8> {
        let vector = self.isr.highest()?;
        self.isr.clear(vector);
        self.counters.end(vector);
        self.update_priority();
        if !self.tmr.contains(vector) {
            return None;
        }
        for index in [LINT0, LINT1] {
            if self.lvt[index] & LVT_REMOTE_IRR != 0 && self.lvt[index] as u8 == vector {
                self.lvt[index] &= !LVT_REMOTE_IRR;
                self.service_level_lint(index);
            }
        }
        Some(vector)
    }

    /// Whether a message that is not a shorthand addresses this APIC.
    pub fn matches(&self, destination: Destination) -> bool {
        if !self.hardware_enabled() {
            return false;
        }
        match destination {
            Destination::Physical(0xFF) | Destination::Logical(0xFF) | Destination::All => true,
            Destination::Physical(id) => id == self.id,
            // Flat model: a bit mask.
            Destination::Logical(mda) if self.dfr == 0xF => mda & self.ldr != 0,
            // Cluster model: 4 bits of cluster (Fh is every cluster), 4 bits of mask.
            Destination::Logical(mda) => {
                (mda >> 4 == self.ldr >> 4 || mda >> 4 == 0xF) && mda & self.ldr & 0xF != 0
            }
            Destination::Itself | Destination::AllButSender => false,
        }
    }

    /// APR, by which the lowest-priority mode chooses ("Arbitration Priority Register").
    pub fn arbitration_priority(&self) -> u8 {
        let irrv = self.irr.highest().unwrap_or(0);
        let isrv = self.isr.highest().unwrap_or(0);
        if self.tpr >> 4 >= irrv >> 4 && self.tpr >> 4 > isrv >> 4 {
            self.tpr
        } else {
            (self.tpr & 0xF0).max(irrv & 0xF0).max(isrv & 0xF0)
        }
    }

    /// Whether a fixed or lowest-priority message would be accepted.
    pub fn accepts_vectors(&self) -> bool {
        self.software_enabled()
    }

    fn update_priority(&mut self) {
        let isrv = self.isr.highest().unwrap_or(0);
        self.ppr = if self.tpr >> 4 >= isrv >> 4 { self.tpr } else { isrv & 0xF0 };
        self.deliverable = self
            .irr
            .highest()
            .filter(|vector| vector >> 4 > self.ppr >> 4 && self.hardware_enabled());
    }

    /// Records errors and raises the error interrupt. An illegal vector in the error entry itself is
    /// recorded but raises nothing, or it would never end.
    fn record_error(&mut self, error: u32) {
        self.errors |= error;
        let entry = self.lvt[ERROR];
        if entry & LVT_MASKED != 0 {
            return;
        }
        if (entry as u8) < 16 {
            self.errors |= ESR_RECEIVE_ILLEGAL_VECTOR;
        } else {
            self.accept(entry as u8, Trigger::Edge);
        }
    }
}

/// Splits an offset in 100h to 270h into the register group and the index within it.
fn vector_register(offset: u32) -> Option<(u32, u32)> {
    let group = offset & !0x7F;
    let known = matches!(group, offset::ISR | offset::TMR | offset::IRR);
    (known && offset & 0xF == 0).then_some((group, offset >> 4 & 7))
}
