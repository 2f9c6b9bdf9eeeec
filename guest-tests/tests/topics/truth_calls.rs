//! Who called whom, beside programs of which it is known.
//!
//! A program is a few functions that call each other in every way: directly, through memory, with
//! arguments that the callee removes, by a jump at the end. Between rounds it writes other targets into
//! its calls, other tables and conditions into memory and other instructions into itself, so that whatever
//! the recorder remembers of a call or of a block becomes wrong. The oracle follows the program as it was
//! generated, without a processor.

use std::collections::BTreeMap;

use guest_tests::machine::Options;
use guest_tests::{Guest, Part, Result, SCRATCH, run_with};
use iced_x86::code_asm::{CodeLabel, dword_ptr, eax, ebp, ebx, ecx, edx, esi};
use vpmu::program::Image;
use vpmu::truth::{Entered, Truth};

topics!(as_generated);

const PROGRAMS: u64 = 12;
const FUNCTIONS: usize = 7;
/// Functions that remove an argument, and call none.
const LEAVES: usize = 2;
const ROUNDS: usize = 60;
/// Words that are written between two rounds.
const PATCHES: usize = 3;
/// Conditions, and targets of calls through memory.
const WORDS: u32 = SCRATCH + 0x100;
/// What is loaded and stored.
const DATA: u32 = SCRATCH + 0x80;

/// INC EDX, DEC EDX, NOP, INC EAX: one byte each, without accesses.
const PADDING: [u8; 4] = [0x42, 0x4a, 0x90, 0x40];

/// What a function does.
#[derive(Clone, Copy)]
enum Step {
    /// So many times INC EDX.
    Work(u32),
    Load,
    Store,
    /// Four instructions, the word of this number in the code.
    Padding(usize),
    /// CMP of a word of memory with 0, JZ over two INC EDX.
    Condition(usize),
    /// A near call with the displacement of this number.
    Call(usize),
    /// A near call through a word of memory.
    Indirect(usize),
    /// PUSH EDX and a call of a leaf.
    Argument(usize, usize),
}

/// How a function ends.
#[derive(Clone, Copy)]
enum End {
    Return,
    /// Jumps to another function.
    Jump(usize),
}

/// What a word holds that is written between rounds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Padding([u8; 4]),
    Condition(bool),
    /// A function.
    Call(usize),
    Indirect(usize),
}

struct Function {
    steps: Vec<Step>,
    end: End,
}

struct Generated {
    functions: Vec<Function>,
    /// Each word with the function that uses it.
    words: Vec<(usize, Word)>,
    /// Before each round: a word and what it holds from then on.
    patches: Vec<[(usize, Word); PATCHES]>,
}

/// A linear congruential step and an output permutation.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let x = (self.0 ^ self.0 >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        ((x ^ x >> 29) % n as u64) as usize
    }

    /// A function behind `function`, so that no program is without end.
    fn callee(&mut self, function: usize) -> usize {
        function + 1 + self.below(FUNCTIONS - 1 - function)
    }

    /// Another word of the kind of `word`.
    fn word(&mut self, function: usize, word: Word) -> Word {
        match word {
            Word::Padding(_) => Word::Padding([0; 4].map(|_| PADDING[self.below(PADDING.len())])),
            Word::Condition(_) => Word::Condition(self.below(2) == 0),
            Word::Call(_) => Word::Call(self.callee(function)),
            Word::Indirect(_) => Word::Indirect(self.callee(function)),
        }
    }

    fn generate(&mut self) -> Generated {
        let (mut words, mut calls) = (Vec::new(), 0);
        let mut functions = Vec::new();
        for function in 0..FUNCTIONS {
            let calls_on = function + 1 < FUNCTIONS;
            let mut steps = Vec::new();
            for _ in 0..2 + self.below(4) {
                let word = match self.below(if calls_on { 9 } else { 5 }) {
                    0 => {
                        steps.push(Step::Work(1 + self.below(3) as u32));
                        continue;
                    }
                    1 => {
                        steps.push(Step::Load);
                        continue;
                    }
                    2 => {
                        steps.push(Step::Store);
                        continue;
                    }
                    3 => Word::Padding([0; 4]),
                    4 => Word::Condition(false),
                    5 | 6 => Word::Call(0),
                    7 => Word::Indirect(0),
                    _ => {
                        steps.push(Step::Argument(self.below(LEAVES), calls));
                        calls += 1;
                        continue;
                    }
                };
                let number = words.len();
                steps.push(match word {
                    Word::Padding(_) => Step::Padding(number),
                    Word::Condition(_) => Step::Condition(number),
                    Word::Call(_) => Step::Call(number),
                    Word::Indirect(_) => Step::Indirect(number),
                });
                words.push((function, self.word(function, word)));
            }
            let end = match self.below(4) {
                0 if calls_on => End::Jump(self.callee(function)),
                _ => End::Return,
            };
            functions.push(Function { steps, end });
        }
        if words.is_empty() {
            return self.generate();
        }
        let patches = (0..ROUNDS).map(|_| {
            [0; PATCHES].map(|_| {
                let number = self.below(words.len());
                let (function, word) = words[number];
                (number, self.word(function, word))
            })
        });
        let patches = patches.collect();
        Generated { functions, words, patches }
    }
}

/// Where the parts of a program are: not known yet, or as in an image of it.
struct Places<'a>(Option<&'a Image>);

impl Places<'_> {
    fn of(&self, name: &str) -> u64 {
        self.0.map_or(0, |image| image.symbol(name).expect("it is marked"))
    }

    fn function(&self, function: usize) -> u64 {
        self.of(&format!("function {function}"))
    }

    /// The call with the word of this number.
    fn call(&self, word: usize) -> u64 {
        self.of(&format!("call {word}"))
    }

    /// The call of a leaf of this number.
    fn leaf_call(&self, call: usize) -> u64 {
        self.of(&format!("call of leaf {call}"))
    }

    /// The address of a word, and what is written there.
    fn write(&self, number: usize, word: Word) -> [u32; 2] {
        let in_memory = WORDS + 4 * number as u32;
        match word {
            Word::Padding(bytes) => {
                [self.of(&format!("padding {number}")) as u32, u32::from_le_bytes(bytes)]
            }
            Word::Condition(holds) => [in_memory, holds.into()],
            Word::Indirect(function) => [in_memory, self.function(function) as u32],
            // E8 and a displacement from the next instruction.
            Word::Call(function) => {
                let behind = self.call(number) + 5;
                [behind as u32 - 4, self.function(function).wrapping_sub(behind) as u32]
            }
        }
    }
}

impl Generated {
    /// The addresses and values that are written before each round; first all words.
    fn writes(&self, places: &Places<'_>) -> (Vec<u8>, Vec<u8>) {
        let bytes = |(number, word): (usize, Word)| {
            let [address, value] = places.write(number, word);
            [address.to_le_bytes(), value.to_le_bytes()].concat()
        };
        let first = self.words.iter().enumerate().map(|(n, &(_, word))| (n, word));
        let patches = self.patches.iter().flatten().copied();
        (first.flat_map(bytes).collect(), patches.flat_map(bytes).collect())
    }

    fn assemble(&self, part: &'static Part, places: &Places<'_>) -> Result<Image> {
        let (first, patches) = self.writes(places);
        Guest::assemble(part, |g| {
            let mut functions: Vec<_> = (0..FUNCTIONS).map(|_| g.create_label()).collect();
            let mut leaves: Vec<_> = (0..LEAVES).map(|_| g.create_label()).collect();
            let mut main = g.create_label();
            g.jmp(main)?;
            for function in 0..FUNCTIONS {
                self.function(g, function, &mut functions, &leaves)?;
            }
            for (n, leaf) in leaves.iter_mut().enumerate() {
                g.place(leaf)?;
                g.mark(&format!("leaf {n}"))?;
                g.inc(edx)?;
                g.ret_1(4)?;
            }
            g.place(&mut main)?;
            let (first, patches) = (g.constant(&first), g.constant(&patches));
            g.address(esi, first)?;
            write(g, self.words.len())?;
            g.address(esi, patches)?;
            g.mov(ebp, ROUNDS as i32)?;
            let top = g.here()?;
            write(g, PATCHES)?;
            g.mark("enter")?;
            g.call(functions[0])?;
            g.dec(ebp)?;
            g.jnz(top)
        })
    }

    fn function(
        &self,
        g: &mut Guest,
        function: usize,
        functions: &mut [CodeLabel],
        leaves: &[CodeLabel],
    ) -> Result {
        g.place(&mut functions[function])?;
        g.mark(&format!("function {function}"))?;
        for &step in &self.functions[function].steps {
            match step {
                Step::Work(times) => (0..times).try_for_each(|_| g.inc(edx))?,
                Step::Load => g.mov(edx, dword_ptr(DATA))?,
                Step::Store => g.mov(dword_ptr(DATA), edx)?,
                Step::Padding(word) => {
                    g.mark(&format!("padding {word}"))?;
                    (0..4).try_for_each(|_| g.inc(edx))?;
                }
                Step::Condition(word) => {
                    let mut over = g.create_label();
                    g.cmp(dword_ptr(WORDS + 4 * word as u32), 0)?;
                    g.jz(over)?;
                    g.inc(edx)?;
                    g.inc(edx)?;
                    g.place(&mut over)?;
                }
                Step::Call(word) => {
                    g.mark(&format!("call {word}"))?;
                    g.db(&[0xe8, 0, 0, 0, 0])?;
                }
                Step::Indirect(word) => {
                    g.mark(&format!("call {word}"))?;
                    g.call(dword_ptr(WORDS + 4 * word as u32))?;
                }
                Step::Argument(leaf, call) => {
                    g.push(edx)?;
                    g.mark(&format!("call of leaf {call}"))?;
                    g.call(leaves[leaf])?;
                }
            }
        }
        match self.functions[function].end {
            End::Return => g.ret(),
            // Near, with a displacement of 32 bits wherever it goes.
            End::Jump(to) => g.jmp(functions[to]),
        }
    }
}

/// Writes `count` words as the table at ESI says, and leaves ESI behind it.
fn write(g: &mut Guest, count: usize) -> Result {
    g.mov(ecx, count as i32)?;
    let top = g.here()?;
    g.mov(eax, dword_ptr(esi))?;
    g.mov(ebx, dword_ptr(esi + 4))?;
    g.mov(dword_ptr(eax), ebx)?;
    g.add(esi, 8)?;
    g.dec(ecx)?;
    g.jnz(top)
}

/// What is counted in a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    times: u64,
    instructions: u64,
    branches: u64,
    taken: u64,
    loads: u64,
    stores: u64,
}

/// The calls that lead to a context, outermost first: from where and to where.
type Chain = Vec<(u64, u64)>;

/// Follows a program.
struct Oracle<'a> {
    generated: &'a Generated,
    places: Places<'a>,
    words: Vec<Word>,
    chain: Chain,
    counts: BTreeMap<Chain, Counts>,
    /// Executions of calls, by address and what they call.
    calls: BTreeMap<(u64, u64), u64>,
}

impl Oracle<'_> {
    fn here(&mut self) -> &mut Counts {
        self.counts.entry(self.chain.clone()).or_default()
    }

    /// Instructions without branches.
    fn execute(&mut self, instructions: u64, loads: u64, stores: u64) {
        let here = self.here();
        here.instructions += instructions;
        here.loads += loads;
        here.stores += stores;
    }

    fn branch(&mut self, taken: bool) {
        let here = self.here();
        here.instructions += 1;
        here.branches += 1;
        here.taken += u64::from(taken);
    }

    /// A call from `site` to `entry`, where `body` is executed up to the return.
    fn call(&mut self, site: u64, entry: u64, body: impl FnOnce(&mut Self)) {
        *self.calls.entry((site, entry)).or_default() += 1;
        self.branch(true);
        self.here().stores += 1;
        self.chain.push((site, entry));
        self.here().times += 1;
        body(self);
        self.branch(true);
        self.here().loads += 1;
        self.chain.pop();
    }

    fn function(&mut self, function: usize) {
        let generated = self.generated;
        for &step in &generated.functions[function].steps {
            match step {
                Step::Work(times) => self.execute(times.into(), 0, 0),
                Step::Load => self.execute(1, 1, 0),
                Step::Store => self.execute(1, 0, 1),
                Step::Padding(_) => self.execute(4, 0, 0),
                Step::Condition(word) => {
                    let holds = self.words[word] == Word::Condition(true);
                    self.execute(1, 1, 0);
                    self.branch(!holds);
                    self.execute(if holds { 2 } else { 0 }, 0, 0);
                }
                Step::Call(word) | Step::Indirect(word) => {
                    let to = match self.words[word] {
                        Word::Call(to) => to,
                        Word::Indirect(to) => {
                            self.here().loads += 1;
                            to
                        }
                        _ => unreachable!("no target"),
                    };
                    let (site, entry) = (self.places.call(word), self.places.function(to));
                    self.call(site, entry, |oracle| oracle.function(to));
                }
                Step::Argument(leaf, call) => {
                    self.execute(1, 0, 1);
                    let site = self.places.leaf_call(call);
                    let entry = self.places.of(&format!("leaf {leaf}"));
                    self.call(site, entry, |oracle| oracle.execute(1, 0, 0));
                }
            }
        }
        if let End::Jump(to) = generated.functions[function].end {
            self.branch(true);
            self.function(to);
        }
    }

    fn run(&mut self) {
        let (site, entry) = (self.places.of("enter"), self.places.function(0));
        for patches in &self.generated.patches {
            for &(number, word) in patches {
                self.words[number] = word;
            }
            self.call(site, entry, |oracle| oracle.function(0));
        }
    }
}

/// What was recorded of the contexts below the call at `enter`, each by the chain from there.
fn recorded(truth: &Truth, enter: u64) -> BTreeMap<Chain, Counts> {
    let column = |name: &str| {
        truth.events.iter().position(|event| event.name == name).expect("a common event")
    };
    let [instructions, branches, taken, loads, stores] =
        ["instructions", "branches", "taken-branches", "loads", "stores"].map(column);
    let mut chains: Vec<Option<Chain>> = Vec::new();
    let mut counts = BTreeMap::new();
    for context in &truth.contexts {
        let parent = context.parent.and_then(|parent| chains[parent as usize].clone());
        let chain = match parent {
            Some(chain) => Some(chain),
            None if context.site == enter && context.entered == Entered::Call => Some(Vec::new()),
            None => None,
        };
        let chain = chain.map(|mut chain| {
            assert_eq!(context.entered, Entered::Call);
            chain.push((context.site, context.entry));
            chain
        });
        if let Some(chain) = &chain {
            let own = |column: usize| context.own[column];
            let here = Counts {
                times: context.times,
                instructions: own(instructions),
                branches: own(branches),
                taken: own(taken),
                loads: own(loads),
                stores: own(stores),
            };
            assert!(counts.insert(chain.clone(), here).is_none(), "{chain:x?} is there twice");
        }
        chains.push(chain);
    }
    counts
}

/// Every context with how it was called, how often, and what was executed in it; and how often each direct
/// call was executed with each of its targets.
fn as_generated(part: &'static Part) -> Result {
    const RECORDED: Options = Options { recorded: true, ..Options::DEFAULT };
    let mut contexts = 0;
    for seed in 1..=PROGRAMS {
        let generated = Random(seed).generate();
        let draft = generated.assemble(part, &Places(None))?;
        let image = generated.assemble(part, &Places(Some(&draft)))?;
        let outcome = run_with(part, &image, RECORDED);
        let truth = outcome.truth.as_ref().expect("a recorded run");
        let mut oracle = Oracle {
            generated: &generated,
            places: Places(Some(&image)),
            words: generated.words.iter().map(|&(_, word)| word).collect(),
            chain: Vec::new(),
            counts: BTreeMap::new(),
            calls: BTreeMap::new(),
        };
        oracle.run();
        let own = oracle.counts.remove(&Vec::new()).expect("the calls of the first function");
        assert_eq!(own.stores, ROUNDS as u64);
        assert_eq!(recorded(truth, oracle.places.of("enter")), oracle.counts, "program {seed}");
        assert_eq!(truth.flattened, 0);
        contexts += oracle.counts.len();

        let column = truth.events.iter().position(|event| event.name == "instructions");
        let mut executed = BTreeMap::new();
        for row in &truth.rows {
            let insn = &truth.instructions[row.instruction as usize];
            if let [0xe8, displacement @ ..] = &insn.bytes[..]
                && let Ok(displacement) = <[u8; 4]>::try_from(displacement)
            {
                let to = insn.address.wrapping_add(5);
                let to = to.wrapping_add_signed(i32::from_le_bytes(displacement).into());
                *executed.entry((insn.address, to)).or_insert(0) += row.counts[column.expect("it")];
            }
        }
        let indirect = |site: u64| {
            let words = generated.words.iter().enumerate();
            let is_it = |(n, &(_, word)): (usize, &(usize, Word))| {
                matches!(word, Word::Indirect(_)) && oracle.places.call(n) == site
            };
            words.into_iter().any(is_it)
        };
        for (&(site, to), times) in &oracle.calls {
            if !indirect(site) {
                assert_eq!(executed.get(&(site, to)), Some(times), "{site:#x} to {to:#x}");
            }
        }
    }
    // The programs do call.
    assert!(contexts > 50 * PROGRAMS as usize, "{contexts}");
    Ok(())
}
