//! What there is of a processor, and of the engine beside its processors, between two instructions.

use std::sync::Arc;

use pmu_model::{CounterSet, PmuStateV1};
use serde::{Deserialize, Serialize};
use x86_cpu::observe::Accesses;
use x86_cpu::ram::Ram;
use x86_cpu::state::CpuState;

use super::cycles::Cycles;
use super::stretch::CountingContext;
use super::{Soft, Vcpu};
use crate::processor_set::ProcessorSet;

/// The state of a processor. Its local APIC is the chipset's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VcpuState {
    cpu: CpuState,
    pmu: PmuStateV1,
    /// The model-specific registers of its bank, by ascending index.
    bank: Vec<u64>,
    tsc_offset: u64,
    waits_for_startup: bool,
    halted_cycles: u64,
    native_cycles: u64,
    late: Vec<u64>,
    inner: Accesses,
    counted_under: Option<CountingContext>,
    waits_under: Option<CountingContext>,
    programs_still: Option<CounterSet>,
    cycles: Option<Box<Cycles>>,
    counts_others_from: u64,
}

impl VcpuState {
    /// Its virtual time.
    pub(crate) fn time(&self) -> u64 {
        self.cpu.time
    }

    /// As of a processor that holds no translation.
    pub(crate) fn forget_translations(&mut self) {
        self.cpu.translations.clear();
    }

    /// As of a processor whose last run began anywhere. What that began under counts while it waits.
    pub(crate) fn forget_cuts(&mut self) {
        self.counted_under = None;
    }
}

impl Vcpu {
    /// Its state between two instructions.
    pub(crate) fn state(&self) -> VcpuState {
        let Self {
            id: _,
            cpu,
            pmu,
            bank,
            tsc_offset,
            waits_for_startup,
            halted_cycles,
            native_cycles,
            late,
            inner,
            // A buffer that is empty between uses.
            counts: _,
            counted_under,
            waits_under,
            programs_still,
            cycles,
            counts_others_from,
        } = self;
        VcpuState {
            cpu: cpu.state(),
            pmu: pmu.save(),
            bank: bank.state().to_vec(),
            tsc_offset: *tsc_offset,
            waits_for_startup: *waits_for_startup,
            halted_cycles: *halted_cycles,
            native_cycles: *native_cycles,
            late: late.iter().copied().collect(),
            inner: *inner,
            counted_under: *counted_under,
            waits_under: *waits_under,
            programs_still: *programs_still,
            cycles: cycles.clone(),
            counts_others_from: *counts_others_from,
        }
    }

    /// Whether it holds the translations of a state, in their order.
    pub(crate) fn holds_translations_of(&self, state: &VcpuState) -> bool {
        self.cpu.state().translations == state.cpu.translations
    }

    /// Puts a state back of a processor of the same kind, whose local APIC is elsewhere then if it has `moved`.
    ///
    /// # Errors
    /// What no such processor can be in.
    pub(crate) fn restore(
        &mut self,
        state: &VcpuState,
        ram: &Ram,
        moved: bool,
    ) -> Result<(), String> {
        let VcpuState {
            cpu,
            pmu,
            bank,
            tsc_offset,
            waits_for_startup,
            halted_cycles,
            native_cycles,
            late,
            inner,
            counted_under,
            waits_under,
            programs_still,
            cycles,
            counts_others_from,
        } = state;
        let contexts = counted_under.iter().chain(waits_under);
        let mut cpls = contexts.map(|context| context.cpl).chain(cycles.iter().map(|c| c.cpl()));
        if !cpu.is_sound() || cpls.any(|cpl| cpl > 3) {
            return Err("a state that no processor is in".into());
        }
        self.pmu.load(pmu).map_err(|e| e.to_string())?;
        if !self.bank.restore(bank) {
            return Err("other model-specific registers".into());
        }
        self.cpu.restore(cpu, ram, moved);
        self.tsc_offset = *tsc_offset;
        self.waits_for_startup = *waits_for_startup;
        self.halted_cycles = *halted_cycles;
        self.native_cycles = *native_cycles;
        self.late = late.iter().copied().collect();
        self.inner = *inner;
        self.counted_under = *counted_under;
        self.waits_under = *waits_under;
        self.programs_still = *programs_still;
        self.cycles.clone_from(cycles);
        self.counts_others_from = *counts_others_from;
        Ok(())
    }
}

/// The state of the software engine beside that of the processors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SoftState {
    halting: ProcessorSet,
    apart_until: u64,
    /// The models, if there are any: [`uarch::state`].
    #[serde(with = "bytes")]
    models: Arc<[u8]>,
}

impl SoftState {
    /// Whether its models, if there are any, are the same bytes as another's.
    pub(crate) fn is_in_the_form_of(&self, other: &Self) -> bool {
        self.models.is_empty() || self.models == other.models
    }

    /// Whether it is of these processors.
    pub(crate) fn is_of(&self, all: ProcessorSet) -> bool {
        self.halting.is_within(all)
    }

    /// As of a machine without models.
    pub(crate) fn forget_models(&mut self) {
        self.models = Arc::default();
    }
}

impl Soft {
    /// The state between two instructions.
    pub(crate) fn state(&mut self, vcpus: &[Vcpu]) -> SoftState {
        let Self {
            halting,
            apart_until,
            // What is asked for, and of whom.
            timing: _,
            warm: _,
            others: _,
            others_count: _,
            asking: _,
            looks_at_each: _,
            stop: _,
            // Translated code, and what is recorded beside the guest.
            plain: _,
            counting: _,
            recording: _,
            translated_for_recordings: _,
            modelling,
        } = self;
        let models = modelling.as_mut().map(|modelling| modelling.save(vcpus));
        SoftState {
            halting: *halting,
            apart_until: *apart_until,
            models: models.unwrap_or_default(),
        }
    }

    /// Puts a state back, the processors having theirs.
    ///
    /// # Errors
    /// What no such models can be in.
    pub(crate) fn restore(&mut self, state: &SoftState, vcpus: &[Vcpu]) -> Result<(), String> {
        let SoftState { halting, apart_until, models } = state;
        (self.halting, self.apart_until) = (*halting, *apart_until);
        match &mut self.modelling {
            Some(modelling) => modelling.load(models, vcpus).map_err(|e| e.to_string())?,
            None if models.is_empty() => {}
            None => return Err("the state of models that it does not have".into()),
        }
        vcpus.iter().for_each(|vcpu| self.look_at(vcpu));
        Ok(())
    }
}

/// Bytes, and not a sequence of numbers.
mod bytes {
    use std::sync::Arc;

    use serde::de::{Error, Visitor};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<[u8]>, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }
        }

        deserializer.deserialize_byte_buf(Bytes).map(Arc::from)
    }
}
