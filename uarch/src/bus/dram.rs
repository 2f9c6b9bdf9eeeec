//! DRAM with open pages: banks, rows, and what an access to them costs.

use super::divisor::Divisor;
use super::reservations::Reservations;
use crate::state::{State, Visitor, list};

/// The DRAM of a board and its controllers' policy. Times in clocks of the memory, which on the modelled
/// boards is the clock of the bus.
///
/// What is consecutive goes to the controllers by turns. To one of them an address, without what says which,
/// is, from its highest bits: chip select, row, bank, column. All banks of a chip select have consecutive
/// pages, so that what is consecutive stays in one row as long as possible.
#[derive(Clone, Copy, Debug)]
pub struct DramGeometry {
    /// Controllers, each with chips and data lines of its own: what follows is of one.
    pub controllers: u64,
    /// Bytes, one behind the other, that are of one controller before the next has its turn.
    pub interleave_bytes: u64,
    /// Bytes of a page: what one row of a bank holds, all chips and channels that work together taken
    /// together.
    pub page_bytes: u64,
    /// Banks of a chip select.
    pub banks: u64,
    /// Bytes of a chip select.
    pub chip_select_bytes: u64,
    /// Chip selects; memory beyond the last begins again with the first.
    pub chip_selects: u64,
    /// Pages that the controller can keep open at a time.
    pub open_pages: usize,
    /// Clocks after which a page that is not accessed is closed.
    pub idle_limit: u64,
    /// Clocks in which the data of an access, a cache line, go over the data lines. What is less takes as
    /// long.
    pub burst_clocks: u64,
    /// CAS latency (Tcl): clocks from the read command to the first data.
    pub cas_latency: u64,
    /// Clocks from the write command to the first data.
    pub write_latency: u64,
    /// RAS-to-CAS delay (Trcd): clocks to open a page.
    pub ras_to_cas: u64,
    /// Row precharge time (Trp): clocks to close a page.
    pub precharge: u64,
    /// Clocks that the data lines lose between accesses to two chip selects.
    pub chip_select_turnaround: u64,
    /// Clocks that they lose between a read and a write.
    pub read_to_write: u64,
    /// Clocks that they lose between a write and a read.
    pub write_to_read: u64,
}

/// In what state an access found its bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    /// The page was open.
    Hit,
    /// No page was open.
    Miss,
    /// Another page was open.
    Conflict,
}

/// That the data lines change hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turnaround {
    /// From one chip select to another, in the same direction.
    ChipSelect,
    /// From reading to writing.
    ReadToWrite,
    /// From writing to reading.
    WriteToRead,
}

/// What an access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    /// The state of its bank.
    pub(super) page: Page,
    /// It wanted a page more than the controller can keep open.
    pub(super) overflow: bool,
    /// The data lines changed hands for it.
    pub(super) turnaround: Option<Turnaround>,
    /// Clocks from the first command to the first data, if nothing else has the data lines.
    pub(super) latency: u64,
    /// The clock of the first data.
    pub(super) data: u64,
}

/// An open page.
#[derive(Clone, Copy, Debug)]
struct OpenPage {
    /// Chip select and bank, as one number.
    bank: u64,
    row: u64,
    /// When it was accessed last.
    clock: u64,
    /// When it is open.
    ready: u64,
    /// [`Controller::uses`] when it was accessed last.
    used: u64,
}

/// The DRAM and its controllers.
#[derive(Clone, Debug)]
pub(super) struct Dram {
    controllers: Box<[Controller]>,
    /// How many there are, and the bytes of a turn.
    number: Divisor,
    interleave: Divisor,
}

/// A controller and its DRAM.
#[derive(Clone, Debug)]
struct Controller {
    geometry: &'static DramGeometry,
    place: Place,
    /// The open pages.
    open: Vec<OpenPage>,
    /// Accesses that there have been, or as many as tell in which order pages were accessed.
    uses: u64,
    /// Up to this clock none of them has been idle for so long that it is closed.
    none_idle_until: u64,
    /// Chip select of the last access, and whether it was a write.
    last: Option<(u64, bool)>,
    /// The data lines.
    data: Reservations,
}

/// Of what a controller's address says where it is.
#[derive(Clone, Copy, Debug)]
struct Place {
    chip_select_bytes: Divisor,
    chip_selects: Divisor,
    page_bytes: Divisor,
    banks: Divisor,
}

impl Place {
    /// Chip select; chip select and bank, as one number; and row of an address.
    #[inline(always)]
    fn of(self, address: u64) -> (u64, u64, u64) {
        let (chip_select, within) = self.chip_select_bytes.divide(address);
        let (_, chip_select) = self.chip_selects.divide(chip_select);
        let (page, _) = self.page_bytes.divide(within);
        let (row, bank) = self.banks.divide(page);
        (chip_select, chip_select * self.banks.by() + bank, row)
    }
}

impl Dram {
    /// With all pages closed.
    pub(super) fn new(geometry: &'static DramGeometry) -> Self {
        let place = Place {
            chip_select_bytes: Divisor::new(geometry.chip_select_bytes),
            chip_selects: Divisor::new(geometry.chip_selects),
            page_bytes: Divisor::new(geometry.page_bytes),
            banks: Divisor::new(geometry.banks),
        };
        let controller = || Controller {
            geometry,
            place,
            open: Vec::with_capacity(geometry.open_pages),
            uses: 0,
            none_idle_until: 0,
            last: None,
            data: Reservations::default(),
        };
        Self {
            controllers: (0..geometry.controllers).map(|_| controller()).collect(),
            number: Divisor::new(geometry.controllers),
            interleave: Divisor::new(geometry.interleave_bytes),
        }
    }

    /// Performs an access whose first command may be given at `clock`; the data lines are waited for.
    pub(super) fn access(&mut self, clock: u64, address: u64, write: bool) -> Access {
        let (controller, address) = self.controller(address);
        let access = controller.access(clock, address, write);
        let data = controller.data.reserve(access.data, controller.geometry.burst_clocks);
        Access { data, ..access }
    }

    /// Performs an access of a bus that has one at a time, where the data lines are free by themselves.
    #[inline(always)]
    pub(super) fn access_unqueued(&mut self, clock: u64, address: u64, write: bool) -> Access {
        let (controller, address) = self.controller(address);
        controller.access(clock, address, write)
    }

    /// The controller of an address, and the address there.
    #[inline(always)]
    fn controller(&mut self, address: u64) -> (&mut Controller, u64) {
        if self.controllers.len() == 1 {
            return (&mut self.controllers[0], address);
        }
        let (turn, within) = self.interleave.divide(address);
        let (turn, number) = self.number.divide(turn);
        (&mut self.controllers[number as usize], turn * self.interleave.by() + within)
    }
}

impl Controller {
    /// As [`Dram::access_unqueued`].
    #[inline(always)]
    fn access(&mut self, clock: u64, address: u64, write: bool) -> Access {
        let (chip_select, bank, row) = self.place.of(address);
        let (page, overflow, wait) = self.open_page(clock, bank, row);
        let turnaround = self.turnaround(chip_select, write);
        let geometry = self.geometry;
        let lost = match turnaround {
            None => 0,
            Some(Turnaround::ChipSelect) => geometry.chip_select_turnaround,
            Some(Turnaround::ReadToWrite) => geometry.read_to_write,
            Some(Turnaround::WriteToRead) => geometry.write_to_read,
        };
        let transfer = if write { geometry.write_latency } else { geometry.cas_latency };
        let latency = wait + lost + transfer;
        Access { page, overflow, turnaround, latency, data: clock + latency }
    }

    /// Opens the page of a row of a bank. The state of the bank, whether the table of open pages was full,
    /// and in how many clocks the page is open.
    #[inline(always)]
    fn open_page(&mut self, clock: u64, bank: u64, row: u64) -> (Page, bool, u64) {
        let DramGeometry { idle_limit, precharge, ras_to_cas, open_pages, .. } = *self.geometry;
        if clock > self.none_idle_until {
            self.close_idle(clock);
        }
        self.none_idle_until = self.none_idle_until.min(clock.saturating_add(idle_limit));
        self.uses += 1;
        let used = self.uses;
        let open = |wait| OpenPage { bank, row, clock, ready: clock + wait, used };
        if let Some(page) = self.open.iter_mut().find(|page| page.bank == bank) {
            if page.row == row {
                (page.clock, page.used) = (clock, used);
                // It may be in the course of being opened. What an earlier turn opens later is open.
                let wait = page.ready.saturating_sub(clock);
                return (Page::Hit, false, if wait <= precharge + ras_to_cas { wait } else { 0 });
            }
            let wait = precharge + ras_to_cas;
            *page = open(wait);
            return (Page::Conflict, false, wait);
        }
        if self.open.len() < open_pages {
            self.open.push(open(ras_to_cas));
            return (Page::Miss, false, ras_to_cas);
        }
        // It takes the place of the page that was accessed longest ago.
        let wait = precharge + ras_to_cas;
        if let Some(oldest) = self.open.iter_mut().min_by_key(|page| page.used) {
            *oldest = open(wait);
        }
        (Page::Miss, true, wait)
    }

    /// Closes the pages that have not been accessed for long.
    #[cold]
    #[inline(never)]
    fn close_idle(&mut self, clock: u64) {
        let idle_limit = self.geometry.idle_limit;
        let closes_after = |page: &OpenPage| page.clock.saturating_add(idle_limit);
        self.open.retain(|page| clock <= closes_after(page));
        self.none_idle_until = self.open.iter().map(closes_after).min().unwrap_or(u64::MAX);
    }

    /// Whether the data lines change hands. A change of direction is counted as that alone, whichever
    /// chip select follows, so that the kinds add up to all turnarounds.
    fn turnaround(&mut self, chip_select: u64, write: bool) -> Option<Turnaround> {
        match self.last.replace((chip_select, write)) {
            Some((_, true)) if !write => Some(Turnaround::WriteToRead),
            Some((_, false)) if write => Some(Turnaround::ReadToWrite),
            Some((before, _)) if before != chip_select => Some(Turnaround::ChipSelect),
            _ => None,
        }
    }
}

crate::state! { Dram { saved: controllers; derived: number, interleave; } }
crate::state! { OpenPage { saved: bank, row; cycles: clock, ready; derived: used; } }

/// The open pages come in the order in which they were accessed, the last first.
impl State for Controller {
    fn visit<V: Visitor>(&mut self, visitor: &mut V) {
        visitor.name("Controller");
        let Self { geometry, place: _, open, uses, none_idle_until, last, data } = self;
        let blank = || OpenPage { bank: 0, row: 0, clock: 0, ready: 0, used: 0 };
        open.sort_unstable_by_key(|page| std::cmp::Reverse(page.used));
        list(visitor, open, geometry.open_pages, blank);
        last.visit(visitor);
        data.visit(visitor);
        if V::LOADS {
            *uses = open.len() as u64;
            open.iter_mut().zip((1..=*uses).rev()).for_each(|(page, used)| page.used = used);
            // They are to be looked at.
            *none_idle_until = 0;
        }
    }
}
