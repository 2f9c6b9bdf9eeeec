//! What the processors share besides memory, and the one way by which engines let a guest get at it.
//!
//! An engine that executes IN, a load from a device, RDMSR or CPUID, or that is told of one by an exit, asks here, and
//! traces what came of it: ports and the memory of devices are the methods of [`Board`], model-specific registers those
//! of [`crate::msr::MsrSpace`], which [`Vcpu::msrs`](super::soft::Vcpu::msrs) puts together. Nothing here knows which
//! engine asks, or needs one.

use crate::devices::Chipset;
use crate::irq::lapic::PmiOutcome;
use crate::platform::{CpuidContext, CpuidResult, MsrBank, Platform};
use crate::trace::{Act, At, LapicAccess, Tracer};

/// What the processors share besides memory.
pub struct Board {
    /// All devices and interrupt controllers.
    pub chipset: Chipset,
    /// The processors' identity.
    pub platform: Platform,
    /// Instructions between an overflow and its PMI.
    pub skid: u64,
    /// Who is told of what matters to the PMUs, if the run is traced.
    pub(crate) tracer: Option<Box<Tracer>>,
    /// The latest time that a device has seen. Processors run the same interval one after the other,
    /// so that their times go back; to devices time stands still meanwhile.
    device_time: u64,
}

impl Board {
    /// A board at virtual time zero.
    #[must_use]
    pub fn new(chipset: Chipset, platform: Platform, skid: u64) -> Self {
        Self { chipset, platform, skid, tracer: None, device_time: 0 }
    }

    /// Tells the tracer, if there is one, of an act of a processor.
    pub(crate) fn trace(&mut self, vcpu: usize, at: impl Into<At>, act: Act) {
        if let Some(tracer) = &mut self.tracer {
            tracer.report(vcpu, at, act);
        }
    }

    /// The same of what came of the interrupt of a counter.
    pub(crate) fn trace_pmi(&mut self, vcpu: usize, at: impl Into<At>, outcome: PmiOutcome) {
        if let Some(tracer) = &mut self.tracer {
            tracer.pmi(vcpu, at, outcome, &self.chipset.irq);
        }
    }

    /// Whether a debugger stops the machine at an act that has just been told of.
    pub(crate) fn stops_at_act(&self) -> bool {
        self.tracer.as_ref().is_some_and(|tracer| tracer.stops.is_hit())
    }

    /// Whether a debugger stops the machine where a processor takes the interrupt of a counter.
    pub(crate) fn stops_at_pmis(&self) -> bool {
        self.tracer.as_ref().is_some_and(|tracer| tracer.stops.interrupts)
    }

    /// The time for a device access of a processor that is at `time`.
    #[inline]
    fn device_time(&mut self, time: u64) -> u64 {
        self.device_time = self.device_time.max(time);
        self.device_time
    }

    /// IN: the value at a port, of `size` bytes.
    pub(crate) fn read_port(&mut self, time: u64, port: u16, size: u8) -> u32 {
        let now = self.device_time(time);
        self.chipset.io_read(port, size, now)
    }

    /// OUT.
    pub(crate) fn write_port(&mut self, time: u64, port: u16, size: u8, value: u32) {
        let now = self.device_time(time);
        self.chipset.io_write(port, size, value, now);
    }

    /// What processor `id` reads where there is no memory: of a device, of its local APIC, or all ones.
    pub(crate) fn read_mmio(&mut self, id: usize, time: u64, gpa: u64, size: u8) -> u64 {
        let now = self.device_time(time);
        self.chipset.mmio_read(id, gpa, size, now)
    }

    /// What it writes there. A store to its local APIC is to be traced ([`LapicAccess::trace`]), if anything is.
    #[must_use]
    pub(crate) fn write_mmio(
        &mut self,
        id: usize,
        time: u64,
        gpa: u64,
        size: u8,
        value: u64,
    ) -> Option<LapicAccess> {
        let now = self.device_time(time);
        let before = LapicAccess::before(self, id, gpa);
        self.chipset.mmio_write(id, gpa, size, value, now);
        before
    }

    /// CPUID of processor `id`, which has these registers.
    pub(crate) fn cpuid(&self, id: usize, bank: &MsrBank, leaf: u32, subleaf: u32) -> CpuidResult {
        let context = CpuidContext {
            apic_enabled: self.chipset.irq.lapic(id).hardware_enabled(),
            features: bank.cpuid_features(leaf),
            ..CpuidContext::at_reset(id)
        };
        self.platform.cpuid(leaf, subleaf, context)
    }

    /// Processor `id` writes CR8, the task priority of its local APIC.
    pub(crate) fn set_cr8(&mut self, id: usize, time: u64, value: u8) {
        let now = self.device_time(time);
        self.chipset.advance(now);
        self.chipset.irq.lapic_mut(id).set_cr8(value);
    }

    /// A counter of processor `id`, which is there, asserts its interrupt: its local APIC does with it what LVTPC
    /// says.
    pub(crate) fn assert_pmi(&mut self, id: usize, at: impl Into<At>) {
        let outcome = self.chipset.irq.pmi(id);
        self.trace_pmi(id, at, outcome);
    }

    /// The latest time that a device has seen.
    pub(crate) fn latest_device_time(&self) -> u64 {
        self.device_time
    }

    /// Puts back the devices, and the latest time that one has seen.
    pub(crate) fn restore(&mut self, chipset: Chipset, device_time: u64) {
        self.chipset = chipset;
        self.device_time = device_time;
    }

    /// Whether a device event is due before `until`, or has been since a device was last accessed.
    pub(crate) fn is_due(&self, until: u64) -> bool {
        let deadline = self.chipset.next_deadline();
        deadline.is_some_and(|deadline| deadline < until || deadline <= self.device_time)
    }

    /// Delivers the device events that are due at `time`; says when the next one is. Where none is due, this may be
    /// asked any number of times, and no device sees the time.
    pub fn catch_up(&mut self, time: u64) -> u64 {
        let due = |chipset: &Chipset| chipset.next_deadline().unwrap_or(u64::MAX);
        let now = self.device_time.max(time);
        if due(&self.chipset) <= now {
            self.device_time = now;
            self.chipset.advance(now);
        }
        due(&self.chipset)
    }
}
