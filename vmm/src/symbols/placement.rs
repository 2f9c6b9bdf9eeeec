//! Which file was executed where: the bytes of executed instructions compared with those of files.
//!
//! A file is mapped by pages, so an instruction of it is at the same offset in a page of memory as in
//! a page of the file. An address space may have seen several programs, one after the other: the same
//! page table may serve another process later. So a file may have several places, and at an address
//! there may be instructions of more than one.

use std::collections::BTreeMap;
use std::ops::Range;

use super::code::{Addresses, Code, Executed};
use super::elf::ElfFile;

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Instructions of a page that decide whether to compare all of it.
const PROBES: usize = 8;
/// Places of a file that are looked at closely: those that most instructions speak for.
const CANDIDATES: usize = 64;
/// Bytes that have to agree where a file could be anywhere. What is fewer may be there by chance:
/// files share the code that their compiler puts at their beginning.
pub(super) const CERTAIN: u64 = 32;

/// A file at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    /// Index of the file.
    pub(super) file: usize,
    /// What is to be added to its addresses as linked.
    pub(super) bias: u64,
    /// How often instructions of it were executed.
    pub(super) times: u64,
    /// Where they are.
    pub(super) addresses: Addresses,
}

/// How a file at a place agrees with the code that was executed there and that is not another's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fit {
    /// Indices of the instructions that agree.
    pub(super) matched: Vec<usize>,
    /// Bytes of them.
    pub(super) bytes: u64,
    /// Addresses of which no instruction agrees.
    pub(super) differing: Vec<u64>,
}

impl Fit {
    /// Compares. Where an address has several instructions, one that agrees is enough.
    pub(super) fn of(file: &ElfFile<'_>, bias: u64, code: &Code<'_>, taken: &[bool]) -> Self {
        let mut fit = Self::default();
        for index in code.within(&moved(&file.extent(), bias)) {
            let executed = &code.all()[index];
            if taken[index] {
                continue;
            }
            if agrees(file, bias, executed) {
                if fit.differing.last() == Some(&executed.address) {
                    fit.differing.pop();
                }
                fit.matched.push(index);
                fit.bytes += executed.bytes.len() as u64;
            } else if is_in(file, bias, executed.address)
                && fit.differing.last() != Some(&executed.address)
                && fit
                    .matched
                    .last()
                    .is_none_or(|&last| code.all()[last].address != executed.address)
            {
                fit.differing.push(executed.address);
            }
        }
        fit
    }

    /// Whether so much agrees that the file was there.
    fn is_certain(&self, file: &ElfFile<'_>, code: &Code<'_>) -> bool {
        let at_entry = || self.matched.iter().any(|&index| code.all()[index].address == file.entry);
        self.matched.len() > self.differing.len()
            && (self.bytes >= CERTAIN || file.fixed && self.differing.is_empty() && at_entry())
    }
}

/// Finds where the files were executed, those that explain most of the code first.
///
/// If two files explain the same part equally well, none is said to have been there.
pub(super) fn find(files: &[ElfFile<'_>], code: &Code<'_>) -> Vec<Placement> {
    let mut taken = vec![false; code.all().len()];
    let mut candidates: Vec<(usize, u64)> = files
        .iter()
        .enumerate()
        .flat_map(|(index, file)| {
            let biases = if file.fixed { vec![0] } else { biases(file, code) };
            biases.into_iter().map(move |bias| (index, bias))
        })
        .collect();
    let mut found = Vec::new();
    loop {
        let mut fits = Vec::new();
        candidates.retain(|&(index, bias)| {
            let fit = Fit::of(&files[index], bias, code, &taken);
            // What is too little now will not become more.
            let certain = fit.bytes >= CERTAIN || files[index].fixed && fit.bytes > 0;
            fits.extend(certain.then_some((index, bias, fit)));
            certain
        });
        fits.retain(|(index, _, fit)| fit.is_certain(&files[*index], code));
        fits.sort_by_key(|(index, bias, fit)| (std::cmp::Reverse(fit.bytes), *index, *bias));
        let Some((file, bias, best)) = fits.first() else { return found };
        let (file, bias) = (*file, *bias);
        for &index in &best.matched {
            taken[index] = true;
        }
        let rival =
            fits.iter().any(|(other, _, fit)| *other != file && fit.matched == best.matched);
        if !rival {
            let matched = || best.matched.iter().map(|&index| code.all()[index]);
            let times = matched().map(|executed| executed.times).fold(0, u64::saturating_add);
            let parts = matched().map(|executed| (executed.address, executed.bytes.len() as u64));
            found.push(Placement { file, bias, times, addresses: parts.collect() });
        }
        candidates.retain(|candidate| *candidate != (file, bias));
    }
}

/// Where a file may be, wherever it is linked to: what is to be added to its addresses, that which most
/// instructions speak for first.
pub(super) fn biases(file: &ElfFile<'_>, code: &Code<'_>) -> Vec<u64> {
    let mut votes: BTreeMap<u64, usize> = BTreeMap::new();
    let mut rest = code.all();
    while let Some(first) = rest.first() {
        let page = first.address & !(PAGE - 1);
        let (here, behind) =
            rest.split_at(rest.partition_point(|i| i.address & !(PAGE - 1) == page));
        rest = behind;
        // Long instructions tell more.
        let mut probes = here.to_vec();
        probes.sort_by_key(|executed| std::cmp::Reverse(executed.bytes.len()));
        probes.truncate(PROBES);
        for code in &file.code {
            let last = (code.address + code.bytes.len() as u64 - 1) & !(PAGE - 1);
            for linked in (code.address & !(PAGE - 1)..=last).step_by(PAGE as usize) {
                let bias = page.wrapping_sub(linked);
                let mut differing = 0;
                let refuted = probes.iter().any(|executed| {
                    differing += usize::from(!agrees(file, bias, executed));
                    differing * 2 >= probes.len()
                });
                if !refuted {
                    let matched = here.iter().filter(|executed| agrees(file, bias, executed));
                    *votes.entry(bias).or_default() += matched.count();
                }
            }
        }
    }
    let mut votes: Vec<_> = votes.into_iter().collect();
    votes.sort_by_key(|&(bias, matched)| (std::cmp::Reverse(matched), bias));
    votes.into_iter().take(CANDIDATES).map(|(bias, _)| bias).collect()
}

/// A range of addresses moved by `bias`; empty if its end wraps.
pub(super) fn moved(range: &Range<u64>, bias: u64) -> Range<u64> {
    let start = range.start.wrapping_add(bias);
    start..start.checked_add(range.end - range.start).unwrap_or(start)
}

fn agrees(file: &ElfFile<'_>, bias: u64, executed: &Executed<'_>) -> bool {
    let linked = executed.address.wrapping_sub(bias);
    file.bytes_at(linked, executed.bytes.len()) == Some(executed.bytes)
}

fn is_in(file: &ElfFile<'_>, bias: u64, address: u64) -> bool {
    file.bytes_at(address.wrapping_sub(bias), 1).is_some()
}
