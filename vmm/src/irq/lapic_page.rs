//! A local APIC as its page of registers, to be moved to another implementation and back.
//!
//! State without a register is not moved: errors that the guest has not latched by a write to ESR, and
//! an ExtINT that came as a message. The caller moves a pending NMI.

use super::*;

/// The registers of the page, one every 16 bytes.
pub type LapicPage = [u32; 64];

/// The register at `offset` in a page.
fn at(offset: u32) -> usize {
    (offset >> 4 & 63) as usize
}

/// The LVT entries, in the order of their indices.
const LVT: [u32; 6] = [
    offset::LVT_TIMER,
    offset::LVT_THERMAL,
    offset::LVTPC,
    offset::LVT_LINT0,
    offset::LVT_LINT1,
    offset::LVT_ERROR,
];

/// The LVT entry of the performance counters in `page`.
#[must_use]
pub fn lvtpc(page: &LapicPage) -> u32 {
    page[at(offset::LVTPC)]
}

/// Enters into `after` the interrupt of a timer that expired while the registers were read. `before`
/// and `after` were read one after the other, and the interrupt of an expiry between them may not be
/// in `after` yet.
pub fn complete_timer(before: &LapicPage, after: &mut LapicPage) {
    let entry = after[at(offset::LVT_TIMER)];
    let [was, is] = [before, after].map(|page| page[at(offset::CURRENT_COUNT)]);
    let expired = was != 0 && (is == 0 || is > was);
    let (word, bit) = (entry >> 5 & 7, 1 << (entry & 31));
    let [irr, isr] = [offset::IRR, offset::ISR].map(|group| at(group + (word << 4)));
    if expired && entry & LVT_MASKED == 0 && (after[irr] | after[isr]) & bit == 0 {
        after[irr] |= bit;
    }
}

/// Whether the timer of `page` may interrupt.
#[must_use]
pub fn timer_runs(page: &LapicPage) -> bool {
    page[at(offset::LVT_TIMER)] & LVT_MASKED == 0 && page[at(offset::INITIAL_COUNT)] != 0
}

impl Lapic {
    /// The registers at `now`. Those that hold no state are zero, and so is the initial count of a
    /// one-shot timer that has expired: a timer that is started with it would expire once more.
    #[must_use]
    pub fn page_registers(&self, now: u64) -> LapicPage {
        let mut page = [0; 64];
        let initial = self.timer.deadline().map_or(0, |_| self.timer.initial());
        let registers = [
            (offset::ID, u32::from(self.id) << 24),
            (offset::TPR, self.tpr.into()),
            (offset::PPR, self.ppr.into()),
            (offset::LDR, u32::from(self.ldr) << 24),
            (offset::DFR, u32::from(self.dfr) << 28 | 0x0FFF_FFFF),
            (offset::SVR, self.svr),
            (offset::ESR, self.esr),
            (offset::ICR_LOW, self.icr_low),
            (offset::ICR_HIGH, self.icr_high),
            (offset::INITIAL_COUNT, initial),
            (offset::CURRENT_COUNT, self.timer.current(now)),
            (offset::DIVIDE_CONFIGURATION, self.timer.divide_configuration()),
        ];
        for (offset, value) in registers.into_iter().chain(LVT.into_iter().zip(self.lvt)) {
            page[at(offset)] = value;
        }
        for index in 0..8 {
            page[at(offset::ISR + (index << 4))] = self.isr.word(index);
            page[at(offset::TMR + (index << 4))] = self.tmr.word(index);
            page[at(offset::IRR + (index << 4))] = self.irr.word(index);
        }
        page
    }

    /// Takes over the registers of another at `now`, with the IA32_APIC_BASE `base`.
    pub fn set_page_registers(&mut self, page: &LapicPage, base: u64, now: u64) {
        let register = |offset| page[at(offset)];
        let high_byte = |offset| (register(offset) >> 24) as u8;
        self.base = base;
        self.id = high_byte(offset::ID);
        self.tpr = register(offset::TPR) as u8;
        self.ldr = high_byte(offset::LDR);
        self.dfr = high_byte(offset::DFR) >> 4;
        self.svr = register(offset::SVR) & SVR_WRITABLE;
        self.esr = register(offset::ESR);
        self.errors = 0;
        self.icr_low = register(offset::ICR_LOW) & ICR_WRITABLE;
        self.icr_high = register(offset::ICR_HIGH) & 0xFF00_0000;
        for (entry, (offset, writable)) in
            self.lvt.iter_mut().zip(LVT.into_iter().zip(LVT_WRITABLE))
        {
            *entry = register(offset) & (writable | LVT_REMOTE_IRR);
        }
        for index in 0..8 {
            self.isr.set_word(index, register(offset::ISR + (index << 4)));
            self.tmr.set_word(index, register(offset::TMR + (index << 4)));
            self.irr.set_word(index, register(offset::IRR + (index << 4)));
        }
        let periodic = self.lvt[TIMER] & LVT_PERIODIC != 0;
        let (mut initial, mut current) =
            (register(offset::INITIAL_COUNT), register(offset::CURRENT_COUNT));
        if periodic && current == 0 {
            // A periodic timer reloads at zero.
            current = initial;
        } else if !periodic && initial == 0 && self.timer.deadline().is_none() {
            initial = self.timer.initial();
        }
        self.timer.resume(initial, current, register(offset::DIVIDE_CONFIGURATION), now);
        self.nmi = false;
        self.extint_message = false;
        self.update_deadline();
        self.update_priority();
    }

    /// Sets the level of LINT0 when this local APIC takes over from another, without the interrupt that
    /// a change of level may raise.
    pub(crate) fn assume_lint0(&mut self, level: bool) {
        self.lint[0] = level;
    }
}
