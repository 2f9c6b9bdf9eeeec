//! The user's files: where they were executed, and whether they are what was executed.

use std::ops::Range;

use super::code::{Addresses, Code, Executed};
use super::elf::ElfFile;
use super::file::SymbolFile;
use super::placement::{self, CERTAIN, Fit, moved};
use super::{KERNEL, system_map};
use crate::error::Result;
use crate::truth::Module;

/// The code that was executed.
pub(super) struct Recorded<'a> {
    /// By the kernel.
    pub(super) supervisor: &'a Code<'a>,
    /// At CPL 3, in each space.
    pub(super) spaces: &'a [Code<'a>],
}

/// What is known of a part of the code.
pub(super) struct Known {
    /// Its symbols.
    pub(super) module: Module,
    /// Where code of it was executed, as far as that is known.
    pub(super) addresses: Addresses,
    /// Whether it is a program, and not a library or a kernel.
    pub(super) is_program: bool,
}

impl Known {
    /// A module of which there are no more than its symbols.
    pub(super) fn by_symbols(module: Module) -> Self {
        let parts = module.symbols.iter().map(|symbol| (symbol.address, symbol.size));
        Self { addresses: parts.collect(), module, is_program: false }
    }
}

impl Recorded<'_> {
    /// The modules that a file makes. Removes from `modules` those in whose place they stand.
    ///
    /// # Errors
    /// If the file is of no known format, or not what was executed.
    pub(super) fn modules(
        &self,
        file: &SymbolFile,
        modules: &mut Vec<Known>,
    ) -> Result<Vec<Known>> {
        if !file.bytes.starts_with(b"\x7FELF") {
            let kernel = Known::by_symbols(system_map(file)?);
            modules.retain(|known| known.module.space.is_some());
            return Ok(vec![kernel]);
        }
        let elf = ElfFile::parse(file.path(), &file.bytes)?;
        if elf.code.is_empty() {
            return Err(file.refused("has no code that could be compared with what was executed"));
        }
        // What is said, or cannot be otherwise.
        let given = file.address.map(|address| address.wrapping_sub(elf.start));
        let known = given.or(elf.fixed.then_some(0));
        if let Some(bias) = self.find_kernel(&elf, given, known) {
            modules.retain(|known| known.module.space.is_some());
            return Ok(vec![Known::by_symbols(elf.module(KERNEL, bias, None))]);
        }
        let (agreeing, difference) = self.places(&elf, known, modules);
        if agreeing.is_empty() {
            let why = difference.unwrap_or_else(|| nothing_agrees(&elf, known));
            return Err(file.refused(&format!("{}: {why}", build_id(elf.build_id.as_deref()))));
        }
        let mut made = Vec::new();
        for place in &agreeing {
            modules.retain(|known| !place.shares_code_with(known));
            made.push(Known {
                module: elf.module(&elf.name, place.bias, Some(place.space)),
                addresses: place.matched().map(|i| (i.address, i.bytes.len() as u64)).collect(),
                is_program: elf.program,
            });
        }
        Ok(made)
    }

    /// Where the file was executed at CPL 3, and the first difference from what was executed where it
    /// should be.
    fn places(
        &self,
        elf: &ElfFile<'_>,
        known: Option<u64>,
        modules: &[Known],
    ) -> (Vec<Place<'_>>, Option<String>) {
        let (mut agreeing, mut difference) = (Vec::new(), None);
        for (space, code) in (0..).zip(self.spaces) {
            let biases = known.map_or_else(|| placement::biases(elf, code), |bias| vec![bias]);
            for bias in biases {
                let place = Place::new(elf, bias, space, code);
                // Where it could be anywhere, a few bytes agree by chance.
                if known.is_none() && !place.is_likely() {
                    continue;
                }
                match place.first_difference(modules) {
                    Some(address) => {
                        difference.get_or_insert_with(|| place.describe(address, modules));
                    }
                    None if place.fit.matched.is_empty() => {}
                    None => agreeing.push(place),
                }
            }
        }
        (agreeing, difference)
    }

    /// Where the file was executed as the kernel. A kernel modifies its own code, so that most agrees
    /// is enough. One that is linked to fixed addresses may have moved itself, too.
    fn find_kernel(
        &self,
        elf: &ElfFile<'_>,
        given: Option<u64>,
        known: Option<u64>,
    ) -> Option<u64> {
        let agrees = |bias: &u64| Place::new(elf, *bias, 0, self.supervisor).is_likely();
        let bias = known.filter(agrees);
        if bias.is_some() || given.is_some() {
            return bias;
        }
        placement::biases(elf, self.supervisor).into_iter().find(agrees)
    }
}

/// A `System.map`, which nothing can be compared with.
pub(super) fn system_map(file: &SymbolFile) -> Result<Module> {
    let text = std::str::from_utf8(&file.bytes)
        .map_err(|_| file.refused("neither an ELF file nor a System.map"))?;
    let symbols = system_map::parse(file.path(), text, file.address.unwrap_or(0))?;
    Ok(Module { name: KERNEL.into(), build_id: None, space: None, code: Vec::new(), symbols })
}

/// A file at a place in a space.
struct Place<'a> {
    bias: u64,
    space: u32,
    code: &'a Code<'a>,
    fit: Fit,
}

impl<'a> Place<'a> {
    fn new(elf: &ElfFile<'_>, bias: u64, space: u32, code: &'a Code<'a>) -> Self {
        let fit = Fit::of(elf, bias, code, &vec![false; code.all().len()]);
        Self { bias, space, code, fit }
    }

    /// Whether most agrees, and more than by chance.
    fn is_likely(&self) -> bool {
        self.fit.bytes >= CERTAIN && self.fit.matched.len() > self.fit.differing.len()
    }

    /// The instructions that agree.
    fn matched(&self) -> impl Iterator<Item = Executed<'a>> {
        self.fit.matched.iter().map(|&index| self.code.all()[index])
    }

    /// Whether what is known is of code that is this file's.
    fn shares_code_with(&self, known: &Known) -> bool {
        known.module.space == Some(self.space)
            && self.matched().any(|executed| known.addresses.has(executed.address))
    }

    /// The first address where something else was executed than the file has there, and that is not
    /// known to be another program's, which had the space before or after it.
    fn first_difference(&self, modules: &[Known]) -> Option<u64> {
        // Without any code of this file's, all may be the other's.
        let is_other = |known: &&Known| {
            known.module.space == Some(self.space)
                && !self.fit.matched.is_empty()
                && !self.shares_code_with(known)
        };
        let others: Vec<_> = modules.iter().filter(is_other).collect();
        let mut differing = self.fit.differing.iter().copied();
        differing.find(|&address| !others.iter().any(|other| other.addresses.has(address)))
    }

    /// That the file differs there, and from what.
    fn describe(&self, address: u64, modules: &[Known]) -> String {
        let there = modules
            .iter()
            .filter(|known| known.module.space == Some(self.space))
            .find(|known| known.addresses.has(address))
            .map(|Known { module, .. }| {
                format!(", of {}, {}", module.name, build_id(module.build_id.as_deref()))
            });
        format!("it differs from the code executed at {address:#x}{}", there.unwrap_or_default())
    }
}

/// That there is no code that the file could be compared with.
fn nothing_agrees(elf: &ElfFile<'_>, known: Option<u64>) -> String {
    let Some(bias) = known else { return "no code that was executed agrees with it".into() };
    let Range { start, end } = moved(&elf.extent(), bias);
    format!("no code was executed from {start:#x} up to {end:#x}")
}

fn build_id(known: Option<&str>) -> String {
    known.map_or_else(|| "without build-id".into(), |id| format!("build-id {id}"))
}
