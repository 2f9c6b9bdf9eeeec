//! Programs of random branches, and their execution.

use super::{Transfer, TransferKind, branch};

/// Numbers that look random: xorshift64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// What execution does.
#[derive(Debug)]
pub(super) enum Step {
    Transfer(Transfer),
    Interrupted { from: u64, to: u64 },
}

/// A branch of a program.
struct Site {
    from: u64,
    len: u64,
    kind: TransferKind,
    /// Of an indirect branch, all that it may go to; of others, the first.
    targets: [u64; 3],
    /// A conditional one repeats these outcomes, of which there are so many; with none, it is random.
    outcomes: u64,
    period: u64,
    executed: u64,
}

/// Programs at the same addresses, of which one runs until another does.
pub(super) struct Execution {
    random: Random,
    programs: Vec<Vec<Site>>,
    current: usize,
    /// Where execution is.
    at: u64,
    callers: Vec<u64>,
}

impl Execution {
    /// Programs of so many branches, from an address on. Their code comes again at a distance.
    pub(super) fn new(seed: u64, branches: usize, base: u64, distance: u64) -> Self {
        let mut random = Random::new(seed);
        let programs = (0..3).map(|_| program(&mut random, branches, base, distance)).collect();
        Self { random, programs, current: 0, at: base, callers: Vec::new() }
    }

    pub(super) fn step(&mut self) -> Step {
        let random = &mut self.random;
        if random.one_in(1500) {
            self.current = random.below(self.programs.len() as u64) as usize;
            let sites = &self.programs[self.current];
            let to = sites[random.below(sites.len() as u64) as usize].from;
            let from = std::mem::replace(&mut self.at, to);
            self.callers.clear();
            return Step::Interrupted { from, to };
        }
        let sites = &mut self.programs[self.current];
        let next = sites.partition_point(|site| site.from < self.at);
        let number = next % sites.len();
        if next == sites.len() {
            // Behind the last branch is a far jump to the first.
            let transfer = branch(TransferKind::Far, self.at + 3, 7, sites[0].from - 1, true);
            self.at = transfer.to;
            return Step::Transfer(transfer);
        }
        if random.one_in(200) {
            let from = self.at + random.below(sites[number].from - self.at + 1);
            let to = sites[random.below(sites.len() as u64) as usize].from;
            self.at = to;
            return Step::Interrupted { from, to };
        }
        let site = &mut sites[number];
        site.executed += 1;
        let taken = match site.kind {
            TransferKind::Conditional if site.period == 0 => random.one_in(2),
            TransferKind::Conditional => site.outcomes >> (site.executed % site.period) & 1 != 0,
            _ => true,
        };
        let to = match site.kind {
            TransferKind::IndirectJump | TransferKind::IndirectCall => {
                site.targets[random.below(3) as usize]
            }
            // Now and then a program returns to where nothing called it from.
            TransferKind::Return if !random.one_in(30) => {
                self.callers.pop().unwrap_or(site.targets[0])
            }
            _ => site.targets[0],
        };
        let transfer = branch(site.kind, site.from, site.len, to, taken);
        if matches!(
            site.kind,
            TransferKind::Call | TransferKind::IndirectCall | TransferKind::FarCall
        ) {
            self.callers.push(transfer.next);
        }
        self.at = transfer.destination();
        Step::Transfer(transfer)
    }
}

fn program(random: &mut Random, branches: usize, base: u64, distance: u64) -> Vec<Site> {
    let mut from = base;
    let mut sites: Vec<Site> = Vec::new();
    for number in 0..branches {
        let widest = if random.one_in(4) { 60 } else { 9 };
        // Often right behind the one before, so that they share what is known by address.
        if !random.one_in(5) {
            from += random.below(widest);
        }
        if number == branches / 2 {
            from = base + distance;
        }
        let (kind, len) = match random.below(32) {
            // Nothing runs through what lies between the halves.
            _ if number + 1 == branches / 2 => (TransferKind::Jump, 5),
            0..20 => (TransferKind::Conditional, 2 + random.below(2) * 4),
            20..23 => (TransferKind::Jump, 2 + random.below(2) * 3),
            23 => (TransferKind::IndirectJump, 2),
            24..27 => (TransferKind::Call, 5),
            27 => (TransferKind::IndirectCall, 3),
            28..31 => (TransferKind::Return, 1 + random.below(2) * 2),
            _ => match random.below(3) {
                0 => (TransferKind::FarCall, 7),
                1 => (TransferKind::FarReturn, 1),
                _ => (TransferKind::Far, 2),
            },
        };
        let period = if random.one_in(4) { 0 } else { 1 + random.below(20) };
        let outcomes = if random.one_in(3) { 1 } else { random.below(1 << 20) };
        sites.push(Site { from, len, kind, targets: [0; 3], outcomes, period, executed: 0 });
        from += len;
    }
    let starts: Vec<u64> = sites.iter().map(|site| site.from).collect();
    let mut before = [0; 3];
    for (number, site) in sites.iter_mut().enumerate() {
        // Two tests, one behind the other, may lead to one place; and a branch to where it goes anyway.
        if random.one_in(8) {
            site.targets =
                if number == 0 || random.one_in(3) { [site.from + site.len; 3] } else { before };
            continue;
        }
        for target in &mut site.targets {
            // Mostly near, so that code comes again; now and then anywhere.
            let other = if random.one_in(40) {
                random.below(branches as u64)
            } else {
                (number as u64 + branches as u64 + random.below(60) - 35) % branches as u64
            };
            *target = starts[other as usize] - random.below(2);
        }
        before = site.targets;
    }
    sites
}
