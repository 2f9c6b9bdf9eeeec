//! The format of Callgrind, which `callgrind_annotate` and KCachegrind read (Valgrind's manual,
//! "Callgrind Format Specification").

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use super::functions::{FunctionIndex, Functions, printable};
use super::tree::{Step, Tree, inclusive};
use super::{Truth, add};

/// Calls from one place to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Call {
    pub(super) caller: FunctionIndex,
    /// Address of the instruction that calls.
    pub(super) site: u64,
    pub(super) callee: FunctionIndex,
    /// Address that is called.
    pub(super) entry: u64,
}

/// What there is to say of a [`Call`].
pub(super) struct Cost {
    pub(super) times: u64,
    pub(super) inclusive: Vec<u64>,
    /// How often the call is on the stack.
    depth: u32,
}

/// Writes what each instruction and each call cost. The cost of a call is what was counted while it was
/// on the stack: once, even if it was there several times.
///
/// # Errors
/// What `out` says.
pub fn write(truth: &Truth, functions: &mut Functions, out: &mut dyn Write) -> io::Result<()> {
    let own = own(truth, functions);
    let calls = calls(truth, functions);
    let events: Vec<_> = truth.events.iter().map(|event| word(&event.name)).collect();
    writeln!(out, "# callgrind format\nversion: 1\ncreator: vpmu {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "desc: Personality: {}", printable(&truth.personality))?;
    writeln!(out, "desc: Processors: {}", truth.vcpus)?;
    if truth.flattened > 0 {
        writeln!(out, "desc: Calls that are counted in their caller: {}", truth.flattened)?;
    }
    writeln!(out, "positions: instr\nevents: {}", events.join(" "))?;
    let mut writer = Writer { functions, named: BTreeSet::new(), modules: BTreeMap::new(), out };
    let callers = own.keys().map(|&(function, _)| function).chain(calls.keys().map(|c| c.caller));
    for function in callers.collect::<BTreeSet<_>>() {
        writeln!(writer.out)?;
        writer.function(["ob", "fl", "fn"], function)?;
        for (&(_, address), counts) in own.range((function, 0)..=(function, u64::MAX)) {
            writer.costs(address, counts)?;
        }
        let first = Call { caller: function, site: 0, callee: 0, entry: 0 };
        let of_function = calls.range(first..).take_while(|(call, _)| call.caller == function);
        for (call, cost) in of_function {
            writer.function(["cob", "cfi", "cfn"], call.callee)?;
            writeln!(writer.out, "calls={} {:#x}", cost.times, call.entry)?;
            writer.costs(call.site, &cost.inclusive)?;
        }
    }
    writeln!(out, "\ntotals: {}", numbers(&truth.totals()))
}

/// The counts of each function at each address.
fn own(truth: &Truth, functions: &mut Functions) -> BTreeMap<(FunctionIndex, u64), Vec<u64>> {
    let mut own = BTreeMap::new();
    for row in &truth.rows {
        let instruction = &truth.instructions[row.instruction as usize];
        let function = functions.at(instruction.space, row.cpl, instruction.address);
        let counts = own
            .entry((function, instruction.address))
            .or_insert_with(|| vec![0; truth.events.len()]);
        add(counts, &row.counts);
    }
    own
}

/// All calls and what they cost.
pub(super) fn calls(truth: &Truth, functions: &mut Functions) -> BTreeMap<Call, Cost> {
    let mut costs: Vec<Cost> = vec![];
    let mut by_call = HashMap::new();
    let mut cost_of = |call| {
        *by_call.entry(call).or_insert_with(|| {
            costs.push(Cost { times: 0, inclusive: vec![0; truth.events.len()], depth: 0 });
            costs.len() - 1
        })
    };
    // For each context the indices of the costs of what it was entered by.
    let mut of_context: Vec<[Option<usize>; 2]> = vec![];
    for context in &truth.contexts {
        let caller = context.parent.map(|parent| {
            let parent = &truth.contexts[parent as usize];
            functions.at(parent.space, parent.cpl, context.site)
        });
        let way = functions.way(context.entered);
        let callee = functions.at(context.space, context.cpl, context.entry);
        let (site, entry) = (context.site, context.entry);
        let outer = caller
            .map(|caller| cost_of(Call { caller, site, callee: way.unwrap_or(callee), entry }));
        let inner = way.map(|way| cost_of(Call { caller: way, site: entry, callee, entry }));
        of_context.push([outer, inner]);
    }
    let inclusive = inclusive(truth);
    for step in Tree::new(truth.contexts.iter().map(|context| context.parent)).walk() {
        let (Step::Enter(index) | Step::Leave(index)) = step;
        for cost in of_context[index].into_iter().flatten() {
            let cost = &mut costs[cost];
            if matches!(step, Step::Leave(_)) {
                cost.depth -= 1;
                continue;
            }
            cost.times += truth.contexts[index].times;
            if cost.depth == 0 {
                let events = truth.events.len();
                add(&mut cost.inclusive, &inclusive[index * events..][..events]);
            }
            cost.depth += 1;
        }
    }
    let mut costs: Vec<_> = costs.into_iter().map(Some).collect();
    by_call.into_iter().filter_map(|(call, index)| Some((call, costs[index].take()?))).collect()
}

struct Writer<'a> {
    functions: &'a Functions,
    /// Functions whose name has been written with its number.
    named: BTreeSet<FunctionIndex>,
    /// Numbers of the modules whose name has been written.
    modules: BTreeMap<String, usize>,
    out: &'a mut dyn Write,
}

impl Writer<'_> {
    /// Says which function the next lines are of, by lines with these keys for object, file and
    /// function. Source files are not known; functions of one name are told apart by file, so that it
    /// is the module.
    fn function(
        &mut self,
        [object, file, function]: [&str; 3],
        index: FunctionIndex,
    ) -> io::Result<()> {
        let of = self.functions.get(index);
        let next = self.modules.len() + 1;
        let module = *self.modules.entry(of.module.clone()).or_insert(next);
        let name = if module == next { format!(" {}", of.module) } else { String::new() };
        writeln!(self.out, "{object}=({module}){name}\n{file}=({module}){name}")?;
        let name = if self.named.insert(index) { format!(" {}", of.name) } else { String::new() };
        writeln!(self.out, "{function}=({}){name}", index + 1)
    }

    fn costs(&mut self, address: u64, counts: &[u64]) -> io::Result<()> {
        writeln!(self.out, "{address:#x} {}", numbers(counts))
    }
}

fn numbers(counts: &[u64]) -> String {
    counts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// A name without blanks, which separate names.
fn word(name: &str) -> String {
    printable(name).replace(char::is_whitespace, "_")
}
