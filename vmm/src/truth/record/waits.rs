//! Time that passes for a processor between its runs, though it executes: where the threads of a core take turns,
//! an instruction may issue only after others have been executed.

use pmu_model::Signal;
use x86_cpu::cpu::Cpu;

use super::Recorder;
use super::records::Where;

/// What a processor has executed last.
#[derive(Clone, Copy, Debug)]
pub(super) enum Last {
    /// The instruction of a cell.
    Cell(usize),
    /// A delivery, by what it interrupted.
    Delivery((Where, u64, u8)),
}

impl Recorder {
    /// What has been executed last is so from now on.
    pub(super) fn note_last(&mut self) {
        let vcpu = self.here.place.vcpu as usize;
        if self.last.len() <= vcpu {
            self.last.resize(vcpu + 1, None);
        }
        let last = match self.running.delivered {
            Some(delivery) => Some(Last::Delivery(delivery)),
            None => {
                let end = self.records.end(self.running.found).unwrap_or(self.running.last);
                end.checked_sub(1).map(Last::Cell)
            }
        };
        if last.is_some() {
            self.last[vcpu] = last;
        }
    }

    /// Cycles have passed for processor `vcpu`, which does not run, and models have told of these occurrences: both
    /// are of what it has executed last.
    pub(crate) fn waited(
        &mut self,
        vcpu: usize,
        cpu: &Cpu,
        cycles: u64,
        fired: impl Iterator<Item = (Signal, u64)>,
    ) {
        let Some(&Some(last)) = self.last.get(vcpu) else { return };
        let modelled = match last {
            Last::Cell(cell) => {
                self.records.cells.rest(cell).cycles += cycles;
                self.records.modelled.entry(cell).or_default()
            }
            Last::Delivery(delivery) => {
                let delivered = self.deliveries.entry(delivery).or_default();
                delivered.cycles += cycles;
                &mut delivered.modelled
            }
        };
        for (signal, n) in fired {
            modelled.add(signal, n);
            self.totals.fired(signal, n);
        }
        self.contexts.run(vcpu);
        self.totals.begin(cpu);
        self.totals.waited(cycles);
        if self.contexts.resume() {
            self.share_out(cpu.time, cpu.retired());
        }
    }
}
