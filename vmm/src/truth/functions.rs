//! Which function an address belongs to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::{Entered, Module, Space, Truth};

/// Bytes behind the target of a call that code without symbols is taken to belong to it.
const REACH: u64 = 64 << 10;
/// Bytes of a page, which code belongs to that no call leads to.
const PAGE: u64 = 4 << 10;

/// A function, or what stands for one. Functions of one name in modules of one name are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Function {
    /// The module, and in brackets the program of its address space; `[unknown]` for the module if its
    /// code is in none.
    pub module: String,
    /// The symbol. Without one, as in a stripped file, the address of the call target before it or else
    /// of its page. An interrupt or an exception is a function in brackets.
    pub name: String,
}

/// The number of a function among [`Functions`].
pub type FunctionIndex = usize;

/// The functions of a [`Truth`], found by address. They are numbered as they are asked for.
pub struct Functions {
    modules: Vec<Ranges>,
    /// For each space the modules that addresses are looked up in, in that order.
    of_space: Vec<Vec<usize>>,
    /// For each space its name in brackets.
    labels: Vec<String>,
    /// Where contexts are entered: at CPL 3 by space, else for all together.
    entries: BTreeMap<Option<u32>, Vec<u64>>,
    functions: Vec<Function>,
    by_name: HashMap<Function, FunctionIndex>,
    by_place: HashMap<Place, FunctionIndex>,
}

/// What makes addresses the same function.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    /// A symbol of a module, in a space if the module is in one.
    Symbol(usize, u32),
    /// Code without a symbol: the module, the space unless it is the kernel's, and the address that
    /// stands for it.
    Unknown(Option<usize>, Option<u32>, u64),
}

impl Functions {
    /// The functions of `truth`.
    #[must_use]
    pub fn new(truth: &Truth) -> Self {
        let mut entries = BTreeMap::<_, Vec<_>>::new();
        for context in &truth.contexts {
            entries.entry(owner(context.space, context.cpl)).or_default().push(context.entry);
        }
        for addresses in entries.values_mut() {
            addresses.sort_unstable();
            addresses.dedup();
        }
        let of_space = (0_u32..).zip(&truth.spaces).map(|(space, _)| {
            let all = || truth.modules.iter().enumerate();
            let own = all().filter(|(_, module)| module.space == Some(space));
            let shared = all().filter(|(_, module)| module.space.is_none());
            own.chain(shared).map(|(index, _)| index).collect()
        });
        let labels: Vec<_> =
            truth.spaces.iter().map(|space| format!("({})", process(space))).collect();
        Self {
            modules: truth.modules.iter().map(|module| Ranges::new(module, &labels)).collect(),
            of_space: of_space.collect(),
            labels,
            entries,
            functions: vec![],
            by_name: HashMap::new(),
            by_place: HashMap::new(),
        }
    }

    /// The function of the code at `address` in `space`, executed at `cpl`.
    pub fn at(&mut self, space: u32, cpl: u8, address: u64) -> FunctionIndex {
        let place = self.place(space, cpl, address);
        if let Some(&index) = self.by_place.get(&place) {
            return index;
        }
        let function = match place {
            Place::Symbol(module, symbol) => self.modules[module].function(symbol),
            Place::Unknown(module, space, address) => {
                let label = space.map_or("", |space| &self.labels[space as usize]);
                let unknown = || format!("[unknown] {label}").trim_end().into();
                let module =
                    module.map_or_else(unknown, |module| self.modules[module].name.clone());
                Function { module, name: format!("{address:#x}") }
            }
        };
        let index = self.add(function);
        self.by_place.insert(place, index);
        index
    }

    /// What stands for the way in which a context is entered, if it is no call.
    pub fn way(&mut self, entered: Entered) -> Option<FunctionIndex> {
        let name = match entered {
            Entered::Bottom | Entered::Call => return None,
            Entered::SystemCall => "[system call]".into(),
            Entered::Interrupt(2) => "[interrupt NMI]".into(),
            Entered::Interrupt(vector) => format!("[interrupt {vector:#04x}]"),
            Entered::Exception(vector) => match MNEMONICS.get(usize::from(vector)) {
                Some(&mnemonic) if !mnemonic.is_empty() => {
                    format!("[exception {vector} {mnemonic}]")
                }
                _ => format!("[exception {vector}]"),
            },
        };
        Some(self.add(Function { module: "[processor]".into(), name }))
    }

    /// The bottom of a stack: the process, if its first context is entered at CPL 3, else the kernel.
    pub fn bottom(&mut self, process: &str, cpl: u8) -> FunctionIndex {
        let name = if cpl == 3 { process.into() } else { "[kernel]".into() };
        self.add(Function { module: "[process]".into(), name })
    }

    /// The name of a symbol and the bytes from it to `address`, if a symbol is there.
    #[must_use]
    pub fn symbol(&self, space: u32, address: u64) -> Option<(&str, u64)> {
        let (module, symbol) = self.find(space, address)?;
        let Symbol { start, name, .. } = &self.modules[module].symbols[symbol as usize];
        Some((name, address.wrapping_sub(*start)))
    }

    /// A function that was found.
    #[must_use]
    pub fn get(&self, index: FunctionIndex) -> &Function {
        &self.functions[index]
    }

    /// The module and the symbol at an address.
    fn find(&self, space: u32, address: u64) -> Option<(usize, u32)> {
        let mut modules = self.of_space[space as usize].iter();
        modules.find_map(|&module| Some((module, self.modules[module].find(address)?)))
    }

    /// The module whose code an address is in.
    fn module(&self, space: u32, address: u64) -> Option<usize> {
        let mut modules = self.of_space[space as usize].iter().copied();
        modules.find(|&module| self.modules[module].has_code_at(address))
    }

    fn place(&self, space: u32, cpl: u8, address: u64) -> Place {
        if let Some((module, symbol)) = self.find(space, address) {
            return Place::Symbol(module, symbol);
        }
        let owner = owner(space, cpl);
        let entries = self.entries.get(&owner).map_or(&[][..], Vec::as_slice);
        let before = entries.partition_point(|&entry| entry <= address).checked_sub(1);
        let entry = before.map(|index| entries[index]).filter(|entry| address - entry < REACH);
        // Neither the code of a symbol that ends before the address nor that of another module is the
        // same function.
        let module = self.module(space, address);
        let entry = entry.filter(|&entry| {
            self.find(space, entry).is_none() && self.module(space, entry) == module
        });
        Place::Unknown(module, owner, entry.unwrap_or(address & !(PAGE - 1)))
    }

    fn add(&mut self, function: Function) -> FunctionIndex {
        let functions = &mut self.functions;
        *self.by_name.entry(function).or_insert_with_key(|function| {
            functions.push(function.clone());
            functions.len() - 1
        })
    }
}

/// Mnemonics of exceptions, by vector (SDM Volume 3, Table 6-1).
pub(crate) const MNEMONICS: [&str; 22] = [
    "#DE", "#DB", "", "#BP", "#OF", "#BR", "#UD", "#NM", "#DF", "", "#TS", "#NP", "#SS", "#GP",
    "#PF", "", "#MF", "#AC", "#MC", "#XM", "#VE", "#CP",
];

/// The space that code without symbols belongs to: at CPL 3 its own. A kernel is in all spaces.
fn owner(space: u32, cpl: u8) -> Option<u32> {
    (cpl == 3).then_some(space)
}

/// What a space is called: by its program, else by CR3.
#[must_use]
pub fn process(space: &Space) -> String {
    match (&space.name, space.cr3) {
        (Some(name), _) => printable(name),
        (None, Some(cr3)) => format!("cr3 {cr3:#x}"),
        (None, None) => "no paging".into(),
    }
}

/// A name that came out of a guest or a file, in one line and without control characters.
#[must_use]
pub fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// The symbols of a module as ranges that do not overlap.
struct Ranges {
    name: String,
    /// Its code: address and bytes.
    code: Vec<(u64, u64)>,
    symbols: Vec<Symbol>,
    /// Where a range begins and whose it is. It ends where the next begins.
    starts: Vec<(u64, Option<u32>)>,
}

struct Symbol {
    start: u64,
    /// Last address.
    last: u64,
    name: String,
}

impl Ranges {
    fn new(module: &Module, labels: &[String]) -> Self {
        let file = printable(&module.name);
        let label = module.space.map_or("", |space| &labels[space as usize]);
        // A program's own code needs no more than its name.
        let name = match label {
            "" => file,
            label if label == format!("({file})") => file,
            label => format!("{file} {label}"),
        };
        let mut order: Vec<u32> = (0..).zip(&module.symbols).map(|(index, _)| index).collect();
        let symbol = |index: u32| &module.symbols[index as usize];
        // Of several at an address the first of the file counts: it comes last, as what lies within
        // another does.
        order.sort_by_key(|&index| (symbol(index).address, Reverse(index)));
        let mut symbols: Vec<_> = module
            .symbols
            .iter()
            .map(|symbol| Symbol {
                start: symbol.address,
                last: symbol.address.saturating_add(symbol.size.saturating_sub(1)),
                name: printable(&symbol.name),
            })
            .collect();
        // The address of the symbols that were looked at last, and the next higher one of a symbol.
        let (mut current, mut next) = (None, None);
        for &index in order.iter().rev() {
            let Symbol { start, last, .. } = &mut symbols[index as usize];
            if current != Some(*start) {
                (current, next) = (Some(*start), current);
            }
            if symbol(index).size == 0 {
                // The last one has nothing behind it that ends it.
                *last = next.map_or(*start | (PAGE - 1), |next| next - 1);
            }
        }
        let starts = flatten(&symbols, &order);
        Self { name, code: module.code.clone(), symbols, starts }
    }

    fn find(&self, address: u64) -> Option<u32> {
        let before = self.starts.partition_point(|&(start, _)| start <= address).checked_sub(1)?;
        self.starts[before].1
    }

    fn has_code_at(&self, address: u64) -> bool {
        let within = |&(start, bytes): &(u64, u64)| address.wrapping_sub(start) < bytes;
        self.code.iter().any(within)
    }

    fn function(&self, symbol: u32) -> Function {
        Function { module: self.name.clone(), name: self.symbols[symbol as usize].name.clone() }
    }
}

/// Ranges out of symbols in this order, by address. Where they overlap, the later one counts.
fn flatten(symbols: &[Symbol], order: &[u32]) -> Vec<(u64, Option<u32>)> {
    let mut starts = vec![];
    let mut open: Vec<u32> = vec![];
    for &index in order {
        let start = symbols[index as usize].start;
        close(&mut starts, &mut open, symbols, Some(start));
        starts.push((start, Some(index)));
        open.push(index);
    }
    close(&mut starts, &mut open, symbols, None);
    starts
}

/// Closes the ranges of the `open` symbols that end before `start`.
fn close(
    starts: &mut Vec<(u64, Option<u32>)>,
    open: &mut Vec<u32>,
    symbols: &[Symbol],
    start: Option<u64>,
) {
    let last = |index: u32| symbols[index as usize].last;
    let ends = |index: u32| start.is_none_or(|start| last(index) < start);
    while let Some(index) = open.pop_if(|&mut index| ends(index)) {
        // What ends within it has ended already, what it lies in may go on.
        while open.pop_if(|&mut outer| last(outer) <= last(index)).is_some() {}
        if let Some(end) = last(index).checked_add(1) {
            starts.push((end, open.last().copied()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::{Context, Symbol as Named};

    fn named(address: u64, size: u64, name: &str) -> Named {
        Named { address, size, name: name.into() }
    }

    fn module(name: &str, space: Option<u32>, symbols: Vec<Named>) -> Module {
        Module { name: name.into(), build_id: None, space, code: Vec::new(), symbols }
    }

    /// The symbol of an address by the words of `docs/truth.md`, one symbol after the other.
    fn oracle(symbols: &[Named], address: u64) -> Option<usize> {
        let contains = |symbol: &Named| {
            let later = symbols.iter().map(|s| s.address).filter(|&a| a > symbol.address).min();
            let end = match symbol.size {
                0 => later.unwrap_or((symbol.address & !0xFFF) + 0x1000),
                size => symbol.address + size,
            };
            (symbol.address..end).contains(&address)
        };
        let found = symbols.iter().enumerate().filter(|(_, symbol)| contains(symbol));
        // Of equal keys it takes the last.
        found.rev().max_by_key(|(_, symbol)| symbol.address).map(|(index, _)| index)
    }

    /// Symbols within, behind and across each other, at equal addresses, with and without a size.
    #[test]
    fn overlapping_symbols_are_found_as_one_by_one() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut found = 0;
        for _ in 0..2000 {
            let symbols: Vec<_> = (0..random(8))
                .map(|_| (0x1000 + random(24), random(4) * random(5)))
                .map(|(address, size)| named(address, size, "s"))
                .collect();
            let ranges = Ranges::new(&module("m", None, symbols.clone()), &[]);
            for address in 0xFF0..0x1040 {
                let expected = oracle(&symbols, address);
                let index = ranges.find(address).map(|index| index as usize);
                assert_eq!(index, expected, "{address:#x} of {symbols:#x?}");
                found += usize::from(expected.is_some());
            }
            assert_eq!(ranges.find(0x2000), None);
        }
        assert!(found > 10_000, "{found}");
    }

    #[test]
    fn a_symbol_may_end_with_the_last_address() {
        let symbols = vec![named(u64::MAX - 1, 0, "a"), named(u64::MAX, u64::MAX, "b")];
        let ranges = Ranges::new(&module("m", None, symbols), &[]);
        assert_eq!((ranges.find(u64::MAX - 1), ranges.find(u64::MAX)), (Some(0), Some(1)));
    }

    fn entry(space: u32, cpl: u8, entry: u64) -> Context {
        let (parent, entered, own) = (None, Entered::Bottom, vec![]);
        Context { parent, entered, site: entry, entry, space, cpl, times: 1, own }
    }

    #[test]
    fn what_has_no_symbol_belongs_to_a_call_target_or_to_its_page() {
        let named_space = |name: &str| Space { cr3: Some(0x1000), name: Some(name.into()) };
        let truth = Truth {
            spaces: vec![
                named_space("a"),
                named_space("b"),
                Space { cr3: Some(0x5000), name: None },
            ],
            contexts: vec![
                entry(0, 3, 0x10_0010),
                entry(0, 3, 0x20_0000),
                entry(1, 0, 0xFF00_0000),
                entry(2, 3, 0x10_0020),
            ],
            modules: vec![
                module("libc", Some(0), vec![named(0x20_0000, 0x10, "read")]),
                module("a", Some(0), vec![named(0x30_0000, 0x10, "main")]),
                module("kernel", None, vec![named(0x30_0008, 0x10, "shadowed")]),
            ],
            ..Truth::default()
        };
        let mut functions = Functions::new(&truth);
        let mut at = |space, cpl, address| {
            let index = functions.at(space, cpl, address);
            let Function { module, name } = functions.get(index);
            format!("{module} {name}")
        };
        assert_eq!(at(0, 3, 0x10_0010), "[unknown] (a) 0x100010");
        // 64 KiB behind the call target, and before it.
        assert_eq!(at(0, 3, 0x11_000F), "[unknown] (a) 0x100010");
        assert_eq!(at(0, 3, 0x11_0010), "[unknown] (a) 0x110000");
        assert_eq!(at(0, 3, 0x10_000F), "[unknown] (a) 0x100000");
        // Another space's call target at CPL 3 is nothing to this one; a kernel's is everybody's.
        assert_eq!(at(1, 3, 0x10_0030), "[unknown] (b) 0x100000");
        assert_eq!(at(2, 3, 0x10_0030), "[unknown] (cr3 0x5000) 0x100020");
        assert_eq!(at(0, 0, 0xFF00_0FFF), "[unknown] 0xff000000");
        // A call target with a name is not taken for what is behind it.
        assert_eq!(at(0, 3, 0x20_000F), "libc (a) read");
        assert_eq!(at(0, 3, 0x20_1010), "[unknown] (a) 0x201000");
        // A program's own code has its name once; a module of the space comes before those of all.
        assert_eq!(at(0, 3, 0x30_000F), "a main");
        assert_eq!(at(0, 3, 0x30_0010), "kernel shadowed");
        assert_eq!(at(1, 3, 0x30_0008), "kernel shadowed");
    }

    /// A stripped program at 40_0000h, 2000h bytes of code, and a library behind it of which one symbol
    /// is left: what has no symbol is in the file, by its call target or page there.
    #[test]
    fn code_without_a_symbol_is_in_the_file_that_it_came_from() {
        let of_file = |name, code| Module { code: vec![code], ..module(name, Some(0), Vec::new()) };
        let library = Module {
            symbols: vec![named(0x40_2000, 0x10, "read")],
            ..of_file("libc", (0x40_2000, 0x1000))
        };
        let truth = Truth {
            spaces: vec![Space { cr3: Some(0x1000), name: Some("busybox".into()) }],
            contexts: vec![entry(0, 3, 0x40_0120), entry(0, 3, 0x40_1FF0)],
            modules: vec![of_file("busybox", (0x40_0000, 0x2000)), library],
            ..Truth::default()
        };
        let mut functions = Functions::new(&truth);
        let mut at = |address| {
            let index = functions.at(0, 3, address);
            let Function { module, name } = functions.get(index);
            format!("{module} {name}")
        };
        assert_eq!(at(0x40_0000), "busybox 0x400000");
        assert_eq!(at(0x40_0120), "busybox 0x400120");
        assert_eq!(at(0x40_1FEF), "busybox 0x400120");
        assert_eq!(at(0x40_1FFF), "busybox 0x401ff0");
        // The program's call target is nothing to the library.
        assert_eq!(at(0x40_2000), "libc (busybox) read");
        assert_eq!(at(0x40_2010), "libc (busybox) 0x402000");
        assert_eq!(at(0x40_2FFF), "libc (busybox) 0x402000");
        // Before and behind the files.
        assert_eq!(at(0x3F_FFFF), "[unknown] (busybox) 0x3ff000");
        assert_eq!(at(0x40_3000), "[unknown] (busybox) 0x403000");
    }

    #[test]
    fn names_that_could_break_a_line_do_not() {
        assert_eq!(printable("a\nb\x1b[2Jc d"), "a?b?[2Jc d");
    }
}
