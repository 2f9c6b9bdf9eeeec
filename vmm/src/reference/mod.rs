//! `vpmu reference`: the pages of `docs` that are made from the data of `pmu-model`.

mod events;
mod msrs;

use clap::ValueEnum;

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Page {
    /// Every event of every processor.
    Events,
    /// Every PMU register of every processor.
    Msrs,
}

impl Page {
    /// The page in Markdown.
    pub fn text(self) -> String {
        match self {
            Page::Events => events::page(),
            Page::Msrs => msrs::page(),
        }
    }
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(page: Page, file: &str) {
        let path = format!("{}/../docs/{file}.md", env!("CARGO_MANIFEST_DIR"));
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == page.text(),
            "docs/{file}.md is not what the data says: \
             run `cargo run -- reference {file} > docs/{file}.md`"
        );
    }

    #[test]
    fn the_page_of_events_is_fresh() {
        kept(Page::Events, "events");
    }

    #[test]
    fn the_page_of_registers_is_fresh() {
        kept(Page::Msrs, "msrs");
    }
}
