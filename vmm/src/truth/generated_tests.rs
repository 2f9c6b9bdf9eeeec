//! Reports of truths that were made at random: whatever way counts are summed up, none gets lost and
//! none is there twice.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::callgrind::{self, Call};
use super::functions::Functions;
use super::report::{By, Filter, Report};
use super::{
    Context, Entered, Event, Instruction, Module, Row, Space, Symbol, Truth, add, folded, listing,
};

const EVENTS: usize = 3;

/// How much there is of everything.
struct Size {
    spaces: u64,
    instructions: u64,
    rows: u64,
    contexts: u64,
    symbols: u64,
    /// Functions that are called: if they are few, most calls recur.
    called: u64,
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// The kernel's first address.
const KERNEL: u64 = 0xFFFF_FFFF_8000_0000;

/// A truth that is consistent: what is counted in a context is counted for an instruction.
fn generate(seed: u64, size: &Size) -> Truth {
    let mut random = Random(seed);
    let space = |n| Space { cr3: Some(n << 12), name: (n % 3 > 0).then(|| format!("p{n}")) };
    let named = |n| Symbol { address: KERNEL + n * 64, size: (n % 5) * 16, name: format!("f{n}") };
    let mut truth = Truth {
        personality: "k8".into(),
        vcpus: 2,
        events: (0..EVENTS)
            .map(|n| Event { name: format!("e{n}"), signals: vec![format!("s{n}")] })
            .collect(),
        spaces: (0..size.spaces).map(space).collect(),
        modules: vec![Module {
            name: "kernel".into(),
            build_id: None,
            space: None,
            code: Vec::new(),
            symbols: (0..size.symbols).map(named).collect(),
        }],
        ..Truth::default()
    };
    let place = |random: &mut Random, bound: u64| {
        let (space, cpl) = (random.below(size.spaces) as u32, 3 * random.below(2) as u8);
        let start = if cpl == 3 { 0x40_0000 } else { KERNEL };
        (space, cpl, start + random.below(bound) * 8)
    };
    let mut cpls = vec![];
    for _ in 0..size.instructions {
        let (space, cpl, address) = place(&mut random, size.symbols * 8);
        truth.instructions.push(Instruction { space, address, bits: 64, bytes: vec![0x90] });
        cpls.push(cpl);
    }
    for _ in 0..size.rows {
        let instruction = random.below(size.instructions) as u32;
        truth.rows.push(Row {
            instruction,
            vcpu: random.below(2) as u32,
            cpl: cpls[instruction as usize],
            counts: vec![0; EVENTS],
        });
    }
    for index in 0..size.contexts {
        let (space, cpl, entry) = place(&mut random, size.called);
        let back = 1 + random.below(20.min(index + 1));
        let parent = (random.below(40) > 0).then(|| index.checked_sub(back)).flatten();
        let own: Vec<_> = (0..EVENTS).map(|_| random.below(1000)).collect();
        let row = random.below(size.rows) as usize;
        add(&mut truth.rows[row].counts, &own);
        truth.contexts.push(Context {
            parent: parent.map(|parent| parent as u32),
            entered: match random.below(8) {
                _ if parent.is_none() => Entered::Bottom,
                0 => Entered::SystemCall,
                1 => Entered::Exception(14),
                2 => Entered::Interrupt(0xEC),
                _ => Entered::Call,
            },
            site: entry + random.below(4) * 8,
            entry,
            space,
            cpl,
            times: 1 + random.below(3),
            own,
        });
    }
    truth
}

fn own(truth: &Truth) -> Vec<u64> {
    let mut sums = vec![0; EVENTS];
    truth.contexts.iter().for_each(|context| add(&mut sums, &context.own));
    sums
}

fn sums_agree(truth: &Truth) {
    let totals = truth.totals();
    assert_eq!(own(truth), totals);
    let mut functions = Functions::new(truth);
    for by in [By::Function, By::Instruction, By::Module, By::Process, By::Cpl, By::Vcpu] {
        let filter = Filter::default();
        let report = Report::new(truth, &mut functions, by, &filter, 1, usize::MAX).unwrap();
        let mut sums = vec![0; EVENTS];
        report.lines.iter().for_each(|line| add(&mut sums, &line.counts));
        assert_eq!(sums, totals, "{by:?}");
        assert!(report.lines.is_sorted_by(|a, b| a.counts[1] >= b.counts[1]), "{by:?}");
    }
    let mut text = vec![];
    folded::write(truth, &mut functions, 2, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut stacks = BTreeSet::new();
    let counts = text.lines().map(|line| {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        assert!(stacks.insert(stack), "twice: {line}");
        count.parse::<u64>().unwrap()
    });
    assert_eq!(counts.sum::<u64>(), totals[2]);
    let mut text = vec![];
    callgrind::write(truth, &mut functions, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut sums = vec![0; EVENTS];
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("calls=") {
            lines.next();
        } else if line.starts_with("0x") {
            let counts: Vec<u64> = line.split(' ').skip(1).map(|n| n.parse().unwrap()).collect();
            add(&mut sums, &counts);
        }
    }
    assert_eq!(sums, totals);
}

/// What was counted while each call was on the stack: the stack of every context, looked at by itself.
fn inclusive(truth: &Truth, functions: &mut Functions) -> BTreeMap<Call, (u64, Vec<u64>)> {
    let mut calls_of = |context: &Context| {
        let (site, entry) = (context.site, context.entry);
        let callee = functions.at(context.space, context.cpl, entry);
        let way = functions.way(context.entered);
        let outer = context.parent.map(|parent| {
            let parent = &truth.contexts[parent as usize];
            let caller = functions.at(parent.space, parent.cpl, site);
            Call { caller, site, callee: way.unwrap_or(callee), entry }
        });
        let inner = way.map(|caller| Call { caller, site: entry, callee, entry });
        outer.into_iter().chain(inner).collect::<Vec<_>>()
    };
    let calls: Vec<_> = truth.contexts.iter().map(&mut calls_of).collect();
    let mut costs = BTreeMap::<_, (u64, Vec<u64>)>::new();
    for (index, context) in truth.contexts.iter().enumerate() {
        for call in &calls[index] {
            costs.entry(*call).or_insert_with(|| (0, vec![0; EVENTS])).0 += context.times;
        }
        let mut on_stack = BTreeSet::<&Call>::new();
        let mut next = Some(index);
        while let Some(index) = next {
            on_stack.extend(&calls[index]);
            next = truth.contexts[index].parent.map(|parent| parent as usize);
        }
        for call in on_stack {
            costs.entry(*call).and_modify(|(_, sums)| add(sums, &context.own));
        }
    }
    costs
}

#[test]
fn nothing_gets_lost_and_calls_cost_what_happens_while_they_are_on_the_stack() {
    for seed in 0..40 {
        let size = Size {
            spaces: 1 + seed % 4,
            instructions: 60,
            rows: 90,
            contexts: 10 * seed,
            symbols: 40,
            called: 1 + seed % 7 * 8,
        };
        let truth = generate(seed, &size);
        assert_eq!(truth.check(), Ok(()));
        assert_eq!(Truth::from_bytes(&truth.to_bytes()).as_ref(), Ok(&truth));
        sums_agree(&truth);
        let mut functions = Functions::new(&truth);
        let calls = callgrind::calls(&truth, &mut functions);
        let expected = inclusive(&truth, &mut functions);
        let found = calls.into_iter().map(|(call, cost)| (call, (cost.times, cost.inclusive)));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "seed {seed}");
    }
}

/// A stack as deep as it is long, and a parent of all.
#[test]
fn no_stack_is_too_deep_or_too_wide() {
    for parent in [|index: u32| index.checked_sub(1), |index: u32| (index > 0).then_some(0)] {
        let size =
            Size { spaces: 1, instructions: 5, rows: 5, contexts: 3000, symbols: 5, called: 2 };
        let mut truth = generate(1, &size);
        for (index, context) in (0..).zip(&mut truth.contexts) {
            context.parent = parent(index);
        }
        sums_agree(&truth);
    }
}

/// As much as a boot of Linux gives. Leaves the file for `vpmu truth` to be tried on.
#[test]
#[ignore = "takes seconds and much memory"]
fn a_large_truth() {
    let size = Size {
        spaces: 60,
        instructions: 200_000,
        rows: 500_000,
        contexts: 300_000,
        symbols: 150_000,
        called: 20_000,
    };
    let truth = generate(7, &size);
    let path = std::env::temp_dir().join("vpmu-truth-large");
    let started = Instant::now();
    truth.write(&path).unwrap();
    println!("written to {}: {:?}", path.display(), started.elapsed());
    let started = Instant::now();
    assert_eq!(Truth::read(&path).unwrap(), truth);
    println!("read: {:?}", started.elapsed());
    sums_agree(&truth);
    let filter = Filter { function: Some("f2".into()), ..Filter::default() };
    let report = listing::report(&truth, &mut Functions::new(&truth), &filter, 0).unwrap();
    assert!(listing::text(&report).starts_with("f2  kernel\n"));
}
