//! Stacks, one a line, as tools that draw flame graphs read them.

use std::collections::HashMap;
use std::io::{self, Write};

use super::Truth;
use super::functions::{FunctionIndex, Functions, process};
use super::tree::{Step, Tree};

/// Functions on a stack, with all contexts that have the same ones.
struct Frame {
    parent: Option<u32>,
    function: FunctionIndex,
    /// What was counted in it and in none that it called.
    own: u64,
}

/// Writes `PROCESS;FUNCTION;FUNCTION COUNT` for every stack in which the event of this index was
/// counted.
///
/// # Errors
/// What `out` says.
pub fn write(
    truth: &Truth,
    functions: &mut Functions,
    event: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let frames = frames(truth, functions, event);
    let tree = Tree::new(frames.iter().map(|frame| frame.parent));
    let mut stack = String::new();
    for step in tree.walk() {
        match step {
            Step::Enter(index) => {
                let Frame { function, own, .. } = frames[index];
                let separator = if stack.is_empty() { "" } else { ";" };
                stack = stack + separator + &name(functions, function);
                if own > 0 {
                    writeln!(out, "{stack} {own}")?;
                }
            }
            Step::Leave(index) => {
                let length = name(functions, frames[index].function).len();
                let separator = usize::from(stack.len() > length);
                stack.truncate(stack.len() - length - separator);
            }
        }
    }
    Ok(())
}

/// Semicolons separate functions.
fn name(functions: &Functions, function: FunctionIndex) -> String {
    functions.get(function).name.replace(';', ":")
}

fn frames(truth: &Truth, functions: &mut Functions, event: usize) -> Vec<Frame> {
    let mut frames: Vec<Frame> = vec![];
    let (mut by_name, mut by_stack) = (HashMap::new(), HashMap::new());
    let mut push = |functions: &Functions, parent: Option<u32>, function| {
        // A line has names alone: functions of different modules may be one here.
        let function = *by_name.entry(name(functions, function)).or_insert(function);
        *by_stack.entry((parent, function)).or_insert_with(|| {
            frames.push(Frame { parent, function, own: 0 });
            (frames.len() - 1) as u32
        })
    };
    let mut of_context = Vec::with_capacity(truth.contexts.len());
    for context in &truth.contexts {
        let mut frame = match context.parent {
            Some(parent) => of_context[parent as usize],
            None => {
                let process = process(&truth.spaces[context.space as usize]);
                let bottom = functions.bottom(&process, context.cpl);
                push(functions, None, bottom)
            }
        };
        if let Some(way) = functions.way(context.entered) {
            frame = push(functions, Some(frame), way);
        }
        let function = functions.at(context.space, context.cpl, context.entry);
        of_context.push(push(functions, Some(frame), function));
    }
    for (context, &frame) in truth.contexts.iter().zip(&of_context) {
        frames[frame as usize].own += context.own[event];
    }
    frames
}
