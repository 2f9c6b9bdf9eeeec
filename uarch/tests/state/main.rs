//! The state of models, saved and loaded: whoever goes on from it goes on as if nothing had happened.
//!
//! Of two machines that are told the same, one goes on uncut. The other is saved every now and then and
//! thrown away, and what was saved is loaded into another one: one that was just made, or that has a past of
//! its own. All that they answer and fire has to be the same, and what they are saved as in the end. Bytes
//! that nobody has saved are refused, or do no harm.

mod damage;
mod in_order;
mod out_of_order;
mod plain;
mod system;

use uarch::occurrences::Occurrences;
use uarch::state::{self, State};

/// Marsaglia's xorshift.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 8) % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// What is driven, saved and loaded: models, and where they fire.
trait Machine: State {
    /// What the models are told about, which is no part of them.
    type World: Default;

    /// What their owner does before they go on: it gives budgets, and says what is logged and what time it is.
    fn begin(&mut self, world: &Self::World);

    /// One thing happens, by the numbers. What was answered.
    fn step(&mut self, world: &mut Self::World, random: &mut Random) -> Vec<u64>;

    /// What has been fired, and what can be looked at.
    fn totals(&mut self) -> Vec<u64>;
}

/// What an owner has its occurrences do.
fn begin(occurrences: &mut Occurrences, processor: usize) {
    use pmu_model::Signal::{L1dAccess, L1dMiss, L1iMiss, StallAgi, UopRetired};
    occurrences.clear_budgets();
    occurrences.take_log().for_each(drop);
    for (counter, signal) in [L1dMiss, L1iMiss, StallAgi].into_iter().enumerate() {
        let left = 1 + 50 * (processor as u64 + 1) * (counter as u64 + 1);
        let fired = occurrences.fired()[signal.index()];
        occurrences.add_to_budget(counter, fired + left, signal);
    }
    for signal in [L1dAccess, UopRetired] {
        occurrences.log(signal);
    }
}

/// What is logged, and whether a budget is spent.
fn noticed(occurrences: &mut Occurrences) -> impl Iterator<Item = u64> {
    let mut noticed = vec![occurrences.is_spent().into(), occurrences.is_nearly_spent().into()];
    noticed.extend(occurrences.take_log().flat_map(|(signal, n)| [signal.index() as u64, n]));
    noticed.into_iter()
}

fn save(machine: &mut impl State) -> Vec<u8> {
    let mut bytes = Vec::new();
    state::save(machine, &mut bytes);
    bytes
}

/// Drives a machine by numbers of its own.
fn drive<M: Machine>(machine: &mut M, steps: u64, random: &mut Random) {
    let mut world = M::World::default();
    machine.begin(&world);
    for _ in 0..steps {
        machine.step(&mut world, random);
    }
}

/// So many steps, with a cut in each `often` of them; in the first few hundred, more.
fn check<M: Machine>(name: &str, make: impl Fn() -> M, steps: u64, often: u64, seed: u64) {
    let mut chance = Random(seed);
    let mut random = Random(chance.next());
    let (mut uncut, mut cut) = (make(), make());
    let mut worlds = (M::World::default(), M::World::default());
    let mut cuts = 0;
    for step in 0..steps {
        if step == 0 || chance.one_in(if step < 300 { often.min(20) } else { often }) {
            let bytes = save(&mut cut);
            cut = make();
            if chance.one_in(2) {
                drive(&mut cut, chance.below(4 * often), &mut chance);
            }
            state::load(&mut cut, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(save(&mut cut) == bytes, "{name}: saved again");
            uncut.begin(&worlds.0);
            cut.begin(&worlds.1);
            cuts += 1;
        }
        let mut same = random.clone();
        let expected = uncut.step(&mut worlds.0, &mut random);
        assert_eq!(
            cut.step(&mut worlds.1, &mut same),
            expected,
            "{name}, seed {seed}: step {step}"
        );
        if step % 64 == 0 || step == steps - 1 {
            assert_eq!(cut.totals(), uncut.totals(), "{name}, seed {seed}: step {step}");
        }
    }
    assert!(cuts > 10, "{name}: {cuts} cuts");
    let (of_cut, of_uncut) = (save(&mut cut), save(&mut uncut));
    if let Some(at) = of_cut.iter().zip(&of_uncut).position(|(a, b)| a != b) {
        // What ends there is what differs.
        let error = state::load(&mut make(), &of_cut[..at]).expect_err("it is too short");
        panic!("{name}, seed {seed}: {} is saved otherwise, byte {at}", error.at);
    }
    assert_eq!(of_cut.len(), of_uncut.len(), "{name}, seed {seed}");
}
