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
                // Names are as long as a file or a symbol has them, and formats have widths of 16 bits.
                let blank = " ".repeat(width - cell.chars().count());
                if column < self.numbers { blank + cell } else { cell.clone() + &blank }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers end below each other, words begin so, and neither how long they are nor in how many bytes matters.
    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let mut table = Table::new(1, row(["n", "name", "x"]));
        table.push(row(["100", "\u{e9}t\u{e9}", "y"]));
        table.push(row(["7", "", ""]));
        assert_eq!(table.text(), "  n  name  x\n100  \u{e9}t\u{e9}   y\n  7\n");
        let long = "s".repeat(70_000);
        table.push(row(["1", &long, "z"]));
        let text = table.text();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], format!("100  \u{e9}t\u{e9}{}  y", " ".repeat(70_000 - 3)));
        assert_eq!(lines[3], format!("  1  {long}  z"));
    }
}
