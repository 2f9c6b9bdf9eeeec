//! Open pages by hand, and against a simple record of each bank.

use super::Random;
use crate::bus::dram::{Access, Dram, DramGeometry, Page, Turnaround};

/// Pages of 4 KiB in four banks, two chip selects of 1 MiB; three pages may be open, for 100 clocks.
static SMALL: DramGeometry = DramGeometry {
    controllers: 1,
    interleave_bytes: 64,
    page_bytes: 0x1000,
    banks: 4,
    chip_select_bytes: 0x10_0000,
    chip_selects: 2,
    open_pages: 3,
    idle_limit: 100,
    burst_clocks: 4,
    cas_latency: 3,
    write_latency: 1,
    ras_to_cas: 5,
    precharge: 7,
    chip_select_turnaround: 2,
    read_to_write: 1,
    write_to_read: 2,
};

/// Its result, without the turnaround.
fn page(access: Access) -> (Page, bool, u64, u64) {
    (access.page, access.overflow, access.latency, access.data)
}

/// AMD BKDG 26094, event E0h: a miss costs Trcd, a conflict Trp + Trcd.
#[test]
fn a_row_that_is_open_costs_no_more_than_cas_latency() {
    let mut dram = Dram::new(&SMALL);
    assert_eq!(page(dram.access(10, 0x0000, false)), (Page::Miss, false, 5 + 3, 18));
    // Another column of the row.
    assert_eq!(page(dram.access(30, 0x0FC0, false)), (Page::Hit, false, 3, 33));
    // The next page is in the next bank.
    assert_eq!(page(dram.access(40, 0x1000, false)), (Page::Miss, false, 8, 48));
    // The next row of bank 0 is four pages on.
    assert_eq!(page(dram.access(60, 0x4000, false)), (Page::Conflict, false, 7 + 5 + 3, 75));
    assert_eq!(page(dram.access(80, 0x0000, false)), (Page::Conflict, false, 15, 95));
    assert_eq!(page(dram.access(100, 0x1040, false)), (Page::Hit, false, 3, 103));
}

#[test]
fn accesses_wait_for_the_data_lines() {
    let mut dram = Dram::new(&SMALL);
    assert_eq!(dram.access(0, 0x0000, false).data, 8);
    // The row is open in clock 5, so that the data could come in 8; but the data lines are busy up to 11.
    assert_eq!(dram.access(1, 0x0040, false).data, 12);
    assert_eq!(dram.access(13, 0x0080, false).data, 16);
}

/// Event E1h: a fourth page with three open; "an access latency penalty equivalent to a page conflict".
#[test]
fn the_least_recent_page_makes_room() {
    let mut dram = Dram::new(&SMALL);
    for (clock, address) in [(0, 0x0000), (10, 0x1000), (20, 0x2000), (30, 0x0000)] {
        dram.access(clock, address, false);
    }
    assert_eq!(page(dram.access(40, 0x3000, false)), (Page::Miss, true, 15, 55));
    // Bank 1's was the oldest; 0 and 2 are still open.
    assert_eq!(dram.access(60, 0x0000, false).page, Page::Hit);
    assert_eq!(dram.access(70, 0x2000, false).page, Page::Hit);
    assert_eq!(page(dram.access(80, 0x1000, false)), (Page::Miss, true, 15, 95));
}

#[test]
fn an_idle_page_is_closed() {
    let mut dram = Dram::new(&SMALL);
    dram.access(0, 0x0000, false);
    assert_eq!(dram.access(100, 0x0000, false).page, Page::Hit);
    assert_eq!(dram.access(201, 0x0000, false).page, Page::Miss);
    // Another row, and no conflict.
    assert_eq!(dram.access(302, 0x4000, false).page, Page::Miss);
}

/// Event E3h.
#[test]
fn the_data_lines_turn_around() {
    let mut dram = Dram::new(&SMALL);
    let mut access = |clock, address, write| {
        let access = dram.access(clock, address, write);
        (access.turnaround, access.latency)
    };
    assert_eq!(access(0, 0x0000, false), (None, 8));
    assert_eq!(access(20, 0x0040, false), (None, 3));
    assert_eq!(access(40, 0x0080, true), (Some(Turnaround::ReadToWrite), 1 + 1));
    assert_eq!(access(60, 0x00C0, true), (None, 1));
    assert_eq!(access(80, 0x0000, false), (Some(Turnaround::WriteToRead), 2 + 3));
    // The other chip select: its bank 0 has nothing open.
    assert_eq!(access(90, 0x10_0000, false), (Some(Turnaround::ChipSelect), 2 + 8));
    assert_eq!(access(99, 0x0000, true), (Some(Turnaround::ReadToWrite), 2));
}

/// Three controllers, of which each has every third 256 bytes. Each has rows and data lines of its own.
#[test]
fn controllers_take_turns() {
    static THREE: DramGeometry = DramGeometry { controllers: 3, interleave_bytes: 0x100, ..SMALL };
    let mut dram = Dram::new(&THREE);
    // The first of each: 5 clocks to open the row, 3 to the data, whoever else has them then.
    assert_eq!(page(dram.access(0, 0x0000, false)), (Page::Miss, false, 8, 8));
    assert_eq!(page(dram.access(0, 0x0100, false)), (Page::Miss, false, 8, 8));
    assert_eq!(page(dram.access(0, 0x02C0, false)), (Page::Miss, false, 8, 8));
    // Those of the first are busy from 8 to 11; its next 256 bytes are in the same row.
    assert_eq!(page(dram.access(5, 0x0340, false)), (Page::Hit, false, 3, 12));
    // The second's fourth page, behind sixteen of its turns a page: 3 * 4 * 16 turns in all.
    assert_eq!(page(dram.access(50, 0xC100, false)), (Page::Conflict, false, 15, 65));
    // The first has written nothing: no turnaround of the third's is its own.
    assert_eq!(dram.access(60, 0x0200, true).turnaround, Some(Turnaround::ReadToWrite));
    assert_eq!(dram.access(70, 0x0000, false).turnaround, None);
    // Its row is open for 100 clocks from its own last access on.
    assert_eq!(dram.access(171, 0x0000, false).page, Page::Miss);
}

/// A record of each bank, and the open pages counted, written from the definition.
pub(super) struct Oracle {
    /// Row and last clock of each bank's open page.
    banks: Vec<Option<(u64, u64)>>,
    /// Accesses of each bank, by number.
    recent: Vec<u64>,
    accesses: u64,
}

impl Oracle {
    pub(super) fn new(geometry: &DramGeometry) -> Self {
        let banks = (geometry.banks * geometry.chip_selects) as usize;
        Self { banks: vec![None; banks], recent: vec![0; banks], accesses: 0 }
    }

    /// The state of the bank, and whether too many pages were open.
    pub(super) fn access(
        &mut self,
        geometry: &DramGeometry,
        clock: u64,
        address: u64,
    ) -> (Page, bool) {
        self.accesses += 1;
        for bank in &mut self.banks {
            if bank.is_some_and(|(_, last)| clock > last + geometry.idle_limit) {
                *bank = None;
            }
        }
        let pages_of_chip_select = geometry.chip_select_bytes / geometry.page_bytes;
        let page = address / geometry.page_bytes;
        let chip_select = (page / pages_of_chip_select) % geometry.chip_selects;
        let page = page % pages_of_chip_select;
        let bank = (chip_select * geometry.banks + page % geometry.banks) as usize;
        let row = page / geometry.banks;
        let mut overflow = false;
        let result = match self.banks[bank] {
            Some((open, _)) if open == row => Page::Hit,
            Some(_) => Page::Conflict,
            None => {
                let open: Vec<usize> =
                    (0..self.banks.len()).filter(|&bank| self.banks[bank].is_some()).collect();
                if open.len() == geometry.open_pages {
                    overflow = true;
                    let oldest = open.into_iter().min_by_key(|&bank| self.recent[bank]).unwrap();
                    self.banks[oldest] = None;
                }
                Page::Miss
            }
        };
        self.banks[bank] = Some((row, clock));
        self.recent[bank] = self.accesses;
        (result, overflow)
    }
}

/// Of 8 MiB, for each piece the controller and where it is there: dealt out one by one.
fn places(geometry: &DramGeometry) -> Vec<(usize, u64)> {
    let mut given = vec![0; geometry.controllers as usize];
    let mut whose = (0..given.len()).cycle();
    (0..0x80_0000 / geometry.interleave_bytes)
        .map(|_| {
            let controller = whose.next().unwrap();
            let place = given[controller];
            given[controller] += geometry.interleave_bytes;
            (controller, place)
        })
        .collect()
}

#[test]
fn pages_are_as_a_record_of_each_bank_has_them() {
    static LARGE: DramGeometry =
        DramGeometry { banks: 8, chip_selects: 4, open_pages: 16, idle_limit: 300, ..SMALL };
    static ONE: DramGeometry = DramGeometry { banks: 1, open_pages: 1, idle_limit: 50, ..SMALL };
    static SEVERAL: DramGeometry =
        DramGeometry { controllers: 5, interleave_bytes: 0x80, open_pages: 2, ..SMALL };
    for geometry in [&SMALL, &LARGE, &ONE, &SEVERAL] {
        for seed in 1..30 {
            let mut random = Random::new(seed);
            let mut dram = Dram::new(geometry);
            // One for each controller, which knows of no other.
            let mut oracles: Vec<_> =
                (0..geometry.controllers).map(|_| Oracle::new(geometry)).collect();
            let places = places(geometry);
            let mut clock = 0;
            let mut seen = [0; 4];
            for _ in 0..3000 {
                let pause = if random.below(50) == 0 { 400 } else { 12 };
                clock += random.below(pause);
                let address = random.below(4) * 0x10_0000 + random.below(0x2_0000);
                let access = dram.access(clock, address, random.below(3) == 0);
                let (controller, place) = places[(address / geometry.interleave_bytes) as usize];
                let place = place + address % geometry.interleave_bytes;
                let expected = oracles[controller].access(geometry, clock, place);
                assert_eq!((access.page, access.overflow), expected, "seed {seed}, clock {clock}");
                seen[access.page as usize] += 1;
                seen[3] += usize::from(access.overflow);
                let close = access.page == Page::Conflict || access.overflow;
                assert!(access.data >= clock + u64::from(close) * geometry.precharge);
            }
            assert!(seen.iter().all(|&n| n > 0), "{seen:?}");
        }
    }
}
