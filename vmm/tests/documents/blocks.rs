//! The code blocks of a document.

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// What a block is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// Commands and what they print.
    Console {
        /// The major version of gcc that makes the numbers what they are.
        compiler: Option<String>,
        exchanges: Vec<Exchange>,
    },
    /// A file of this name and content.
    File { name: String, content: String },
}

/// A command, and what is printed then; `None` if the document does not say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    pub(crate) command: String,
    pub(crate) output: Option<String>,
}

/// The blocks of a document that are to be run or written.
///
/// # Errors
/// A block that does not say what it is, or that has output without a command.
pub(crate) fn blocks(document: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut inside: Option<(String, String)> = None;
    for event in Parser::new(document) {
        match event {
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => {
                inside = Some((kind.into_string(), String::new()));
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                inside = Some((String::new(), String::new()));
            }
            Event::Text(text) => {
                if let Some((_, content)) = &mut inside {
                    content.push_str(&text);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let (kind, content) = inside.take().expect("a block has a beginning");
                blocks.extend(block(&kind, content)?);
            }
            _ => {}
        }
    }
    Ok(blocks)
}

fn block(kind: &str, content: String) -> Result<Option<Block>, String> {
    match (kind.trim(), kind.split_once(' ')) {
        ("text" | "rust", _) => Ok(None),
        ("console", _) => {
            Ok(Some(Block::Console { compiler: None, exchanges: exchanges(&content)? }))
        }
        (_, Some(("console", compiler))) => {
            let version = compiler.strip_prefix("gcc-");
            let version = version.ok_or_else(|| format!("{compiler}: which version of gcc?"))?;
            let compiler = Some(version.trim().to_owned());
            Ok(Some(Block::Console { compiler, exchanges: exchanges(&content)? }))
        }
        (_, Some((_, name))) => Ok(Some(Block::File { name: name.trim().into(), content })),
        _ => Err(format!("a block that does not say what it is ({kind:?}):\n{content}")),
    }
}

fn exchanges(content: &str) -> Result<Vec<Exchange>, String> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for line in content.lines() {
        match (line.strip_prefix("$ "), line.strip_prefix("> "), exchanges.last_mut()) {
            (Some(command), _, _) => {
                exchanges.push(Exchange { command: command.into(), output: None });
            }
            (None, Some(more), Some(Exchange { command, output: None })) => {
                *command += "\n";
                *command += more;
            }
            (None, _, Some(Exchange { output, .. })) => {
                let output = output.get_or_insert_default();
                *output += line;
                *output += "\n";
            }
            (None, _, None) => return Err(format!("output without a command:\n{content}")),
        }
    }
    Ok(exchanges)
}
