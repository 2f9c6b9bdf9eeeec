//! The tables of `ARCHITECTURE.md` are what the sources are, in both directions: what a table allows
//! is used, and what is used is in the table.

use std::collections::{BTreeMap, BTreeSet};

use tidy::{Manifest, members, quoted, root, sources, table};

/// Packages that guests and users get; the others assemble and run them.
const PRODUCT: [&str; 5] = ["pmu-model", "uarch", "x86", "firmware", "vmm"];

/// The paths in the first column of a table.
fn listed(first_column: &str) -> BTreeSet<String> {
    table(first_column).iter().flat_map(|row| quoted(&row[0])).collect()
}

/// Whether `word` stands in the code by itself.
fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

/// Who depends on whom: the folders of the workspace, the packages of ours, and all others.
#[test]
fn dependencies_are_those_of_the_table() {
    let members = members();
    let manifests: BTreeMap<_, _> =
        members.iter().map(|folder| (folder.clone(), Manifest::of(&root().join(folder)))).collect();
    let ours: BTreeSet<_> = manifests.values().map(|manifest| manifest.package.clone()).collect();
    let mut rows = BTreeSet::new();
    for row in table("folder") {
        let names = quoted(&row[0]);
        let folder = names.iter().find_map(|name| name.strip_suffix('/')).expect("a folder");
        let manifest = manifests.get(folder).unwrap_or_else(|| panic!("no member {folder}"));
        let expected: BTreeSet<_> = quoted(&row[2]);
        let others: BTreeSet<_> = quoted(&row[3]);
        let (own, foreign): (BTreeSet<_>, BTreeSet<_>) =
            manifest.dependencies.iter().cloned().partition(|name| ours.contains(name));
        assert_eq!(own, expected, "{folder} depends on these packages of ours");
        assert_eq!(foreign, others, "{folder} depends on these packages of others");
        let mut tests = manifest.dev_dependencies.intersection(&ours);
        assert!(tests.all(|name| expected.contains(name)), "{folder}: its tests: {tests:?}");
        rows.insert(folder.to_owned());
    }
    assert_eq!(rows, members, "the folders of the table are the members of the workspace");
}

/// The workspace denies `unsafe_code`, so a module with `unsafe` allows it, or does not compile.
#[test]
fn unsafe_code_is_where_the_table_says() {
    let manifest = tidy::read(&root().join("Cargo.toml"));
    assert!(manifest.contains("\nunsafe_code = \"deny\""));
    let mut found = BTreeSet::new();
    for folder in members() {
        let manifest = tidy::read(&root().join(&folder).join("Cargo.toml"));
        assert!(
            manifest.contains("\n[lints]\nworkspace = true"),
            "{folder}: the workspace's lints"
        );
        for source in sources(&folder) {
            let allows = source.code.contains("allow(unsafe_code");
            let uses = has_word(&source.code, "unsafe");
            assert_eq!(allows, uses, "{} allows what it does not use", source.path);
            if uses {
                found.insert(source.path);
            }
        }
    }
    assert_eq!(found, listed("module"));
}

/// The decoder's types stay with those who decode and assemble.
#[test]
fn the_decoder_is_named_where_the_table_says() {
    let places = listed("place");
    let mut used = BTreeSet::new();
    for source in PRODUCT.into_iter().flat_map(sources) {
        if has_word(&source.code, "iced_x86") {
            let place = places.iter().find(|place| source.path.starts_with(place.as_str()));
            used.insert(place.unwrap_or_else(|| panic!("{} names iced_x86", source.path)).clone());
        }
    }
    assert_eq!(used, places);
}

/// The PMU and the CPU know neither files nor threads nor host time.
#[test]
fn the_models_know_nothing_of_the_host() {
    const HOST: [&str; 8] = ["env", "fs", "io", "net", "os", "process", "thread", "time"];
    for source in ["pmu-model", "uarch", "x86"].into_iter().flat_map(sources) {
        for module in of_std(&source.code) {
            assert!(!HOST.contains(&module), "{} names std::{module}", source.path);
        }
    }
    assert_eq!(
        of_std("use std::{\n    cell::Cell,\n    io,\n}; std::fs::read"),
        ["cell", "io", "fs"]
    );
    assert!(tidy::read(&root().join("pmu-model/src/lib.rs")).contains("\n#![no_std]\n"));
}

/// The modules of the standard library that the code names, alone or in a group of a `use`.
fn of_std(code: &str) -> Vec<&str> {
    code.split("std::")
        .skip(1)
        .flat_map(|rest| match rest.strip_prefix('{') {
            Some(group) => group.split(';').next().unwrap_or(group).split(',').collect(),
            None => vec![rest],
        })
        .filter_map(|path| {
            path.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next()
        })
        .filter(|module| !module.is_empty())
        .collect()
}
