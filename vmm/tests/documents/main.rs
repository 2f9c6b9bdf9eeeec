//! Every command in the documents, run as a reader would run it, and its output compared with what the
//! document shows.
//!
//! Each document has a folder of its own, in which the project's files are and `vpmu` is in the path. Its
//! blocks run in their order:
//! - `console`: lines behind `$ ` are given to the shell, with those behind `> ` as their continuation; the
//!   lines below are what is printed, where `...` stands for anything: as a line for lines, in a line for
//!   characters. Without such lines the command only has to succeed. Behind `console gcc-12` all numbers are
//!   those of what that compiler makes; those of another may differ;
//! - a language and a file's name: the block is that file, or lines of it if the project has it;
//! - `text` is neither, as a format or a map; `rust` is tested by rustdoc.
//!
//! An indented block is an error: it does not say what it is.

mod blocks;
mod compare;
mod reader;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

/// Folders with documents, from the project's.
const FOLDERS: [&str; 8] =
    [".", "docs", "benches", "examples", "firmware", "fuzz", "pmu-model", "x86"];

fn main() -> ExitCode {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a project");
    let mut documents = Vec::new();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(project.join(folder)).expect("a folder of documents");
        let names = entries.map(|entry| entry.expect("a file").file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        let documents_here = names.filter(|name| name.ends_with(".md"));
        documents.extend(documents_here.map(|name| match folder {
            "." => name,
            folder => format!("{folder}/{name}"),
        }));
    }
    documents.sort();
    let read = |name: String| {
        Trial::ignorable_test(name.clone(), move || match reader::read(project, &name)? {
            None => Ok(Completion::Completed),
            Some(why) => Ok(Completion::ignored_with(why)),
        })
    };
    let mut trials: Vec<_> = documents.into_iter().map(read).collect();
    trials.extend(compare::tests());
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
