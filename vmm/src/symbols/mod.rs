//! Names of the addresses that a guest executed.
//!
//! Nothing of it asks the guest for help. The kernel's names are in its memory ([`kallsyms`]) or in its
//! file. Programs and libraries are recognised by their bytes (`placement.rs`): the instructions that were
//! executed are compared with the files that the guest was given, which tells what was executed in
//! which address space and where it was loaded.

mod code;
mod elf;
#[cfg(test)]
mod elf_tests;
mod file;
pub mod kallsyms;
mod memory;
mod placement;
#[cfg(test)]
mod sample;
mod system_map;
#[cfg(test)]
mod tests;
mod user;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

pub use elf::ElfFile;
pub use file::SymbolFile;
pub use memory::GuestMemory;

use crate::boot::{Image, Payload, initramfs};
use crate::error::Result;
use crate::truth::{Module, Symbol, Truth};
use code::{Asked, Code};
use placement::Placement;
use user::{Known, Recorded};

/// Name of the kernel's module.
const KERNEL: &str = "kernel";

/// Where names can come from.
#[derive(Clone, Copy, Default)]
pub struct Sources<'a> {
    /// Memory at the end of the run.
    pub memory: Option<GuestMemory<'a>>,
    /// What the guest ran: the kernel's file, and the archive of its first root file system.
    pub payload: Option<&'a Payload>,
    /// The user's files.
    pub files: &'a [SymbolFile],
}

/// Adds modules to a truth, and names its spaces by the programs that were executed there. Of the
/// symbols of a module, those stay that an address of the truth is in. The user's files come first, and in
/// the place of what else is known of the same code.
///
/// # Errors
/// If a file of the user cannot be used, or does not agree with the code that was executed.
pub fn attach(truth: &mut Truth, sources: &Sources<'_>) -> Result<()> {
    let asked = Asked::of(truth);
    let supervisor = Code::supervisor(truth);
    let spaces = Code::user(truth);
    let known = truth.modules.iter().cloned().chain(kernel(sources, &supervisor));
    let mut modules: Vec<_> = known.map(Known::by_symbols).collect();
    let mut names: Vec<_> = truth.spaces.iter().map(|space| space.name.clone()).collect();
    let files = executables(sources.payload);
    for ((space, code), name) in (0..).zip(&spaces).zip(&mut names) {
        let mut placements = placement::find(&files, code);
        *name = program(&files, &placements).or(name.take());
        placements
            .sort_by_key(|placement| placement.bias.wrapping_add(files[placement.file].start));
        modules.extend(placements.into_iter().map(
            |Placement { file, bias, addresses, .. }| {
                let file = &files[file];
                let module = file.module(&file.name, bias, Some(space));
                Known { module, addresses, is_program: file.program }
            },
        ));
    }
    let recorded = Recorded { supervisor: &supervisor, spaces: &spaces };
    // The first of them is to be the first of all.
    for file in sources.files.iter().rev() {
        let made = recorded.modules(file, &mut modules)?;
        for Known { module, is_program, .. } in &made {
            if let Some(space) = module.space.filter(|_| *is_program) {
                names[space as usize].get_or_insert_with(|| module.name.clone());
            }
        }
        modules.splice(0..0, made);
    }
    let mut modules: Vec<_> = modules.into_iter().map(|known| known.module).collect();
    for module in &mut modules {
        asked.retain_named(module);
    }
    truth.modules = modules;
    for (space, name) in truth.spaces.iter_mut().zip(names) {
        space.name = name;
    }
    Ok(())
}

/// The files that the user names, each as `FILE[@ADDRESS]`.
///
/// # Errors
/// If one cannot be read, or what should be the address is no number.
pub fn read_all(arguments: &[String]) -> Result<Vec<SymbolFile>> {
    arguments.iter().map(|argument| SymbolFile::read(argument)).collect()
}

/// The kernel's names: those that it has in memory, else those of its file.
fn kernel(sources: &Sources<'_>, supervisor: &Code<'_>) -> Option<Module> {
    let tables = sources.memory.iter().flat_map(kallsyms::find).map(|rows| kallsyms::text(&rows));
    let tables = tables.filter_map(|symbols| Some((entered(&symbols, supervisor)?, symbols)));
    // The first of those that are as good.
    let best = tables.reduce(|best, next| if next.0 > best.0 { next } else { best });
    if let Some((_, symbols)) = best {
        return Some(Module {
            name: KERNEL.into(),
            build_id: None,
            space: None,
            code: Vec::new(),
            symbols,
        });
    }
    let Some(Payload::Kernel(kernel)) = sources.payload else { return None };
    let file = ElfFile::parse(&kernel.image.name, &kernel.image.bytes).ok()?;
    Some(file.module(KERNEL, 0, None))
}

/// How many functions were entered at their first instruction, if that is most of those of which
/// anything was executed: else the symbols are not those of this kernel where it is, but of a copy of
/// it in memory, or of a guest's guest.
fn entered(symbols: &[Symbol], supervisor: &Code<'_>) -> Option<usize> {
    let executed = |symbol: &&Symbol| {
        !supervisor.within(&(symbol.address..symbol.address.saturating_add(symbol.size))).is_empty()
    };
    let executed: Vec<_> = symbols.iter().filter(executed).collect();
    let entered = executed.iter().filter(|symbol| supervisor.begins_at(symbol.address)).count();
    (entered * 2 > executed.len()).then_some(entered)
}

/// The ELF files that a kernel was handed: as modules, or in archives. Of files of the same content,
/// the first.
fn executables(payload: Option<&Payload>) -> Vec<ElfFile<'_>> {
    let Some(Payload::Kernel(kernel)) = payload else { return vec![] };
    let mut contents = BTreeSet::new();
    let mut files = Vec::new();
    for module in &kernel.modules {
        let image = &module.image;
        let whole = (image.name.clone(), image.bytes.as_slice());
        for (name, bytes) in std::iter::once(whole).chain(initramfs::files(&image.bytes)) {
            // A damaged file is none that was executed.
            if let Ok(file) = ElfFile::parse(&name, bytes)
                && contents.insert(bytes)
            {
                files.push(file);
            }
        }
    }
    files
}

/// The program of which most was executed.
fn program(files: &[ElfFile<'_>], placements: &[Placement]) -> Option<String> {
    let mut times: BTreeMap<usize, u64> = BTreeMap::new();
    for placement in placements.iter().filter(|placement| files[placement.file].program) {
        let sum = times.entry(placement.file).or_default();
        *sum = sum.saturating_add(placement.times);
    }
    // The first of those of which as much was executed.
    let (file, _) = times.into_iter().max_by_key(|&(file, times)| (times, Reverse(file)))?;
    Some(files[file].name.clone())
}

/// The symbols of a file of the user, where it says that they are: none for one that could have been
/// loaded anywhere, or that is damaged.
pub(crate) fn of_file(file: &SymbolFile) -> Vec<Symbol> {
    if !file.bytes.starts_with(b"\x7FELF") {
        return user::system_map(file).map_or_else(|_| vec![], |module| module.symbols);
    }
    let Ok(elf) = ElfFile::parse(file.path(), &file.bytes) else { return vec![] };
    let given = file.address.map(|address| address.wrapping_sub(elf.start));
    let bias = given.or(elf.fixed.then_some(0));
    bias.map_or_else(Vec::new, |bias| elf.module(&elf.name, bias, None).symbols)
}

/// The symbols of a kernel's file that is an ELF file.
pub(crate) fn of_image(image: &Image) -> Vec<Symbol> {
    ElfFile::parse(&image.name, &image.bytes).map_or_else(|_| vec![], |elf| elf.symbols)
}

/// The symbols of code that a kernel has in memory, of the first table that is found.
pub(crate) fn of_kernel(memory: &GuestMemory<'_>) -> Vec<Symbol> {
    kallsyms::find_soon(memory).map_or_else(Vec::new, |rows| kallsyms::text(&rows))
}
