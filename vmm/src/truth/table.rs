//! Text in columns.

/// A table, to be printed.
pub(super) struct Table {
    /// How many columns there are of numbers, which end below each other. Words follow.
    numbers: usize,
    lines: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(super) fn new(numbers: usize, headings: Vec<String>) -> Self {
        Self { numbers, lines: vec![headings] }
    }

    pub(super) fn push(&mut self, line: Vec<String>) {
        self.lines.push(line);
    }

    pub(super) fn text(&self) -> String {
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            let cells = self.lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell: &String| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for line in &self.lines {
            let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| {
                if column < self.numbers {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }
}

/// A share of a whole, as a percentage with two places.
pub(super) fn percentage(part: u64, whole: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(whole.max(1));
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
