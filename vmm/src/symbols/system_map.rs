//! `System.map`: the symbols of a Linux kernel as text.

use super::kallsyms::{self, Row};
use crate::error::{Error, Result};
use crate::truth::Symbol;

/// Reads lines of address, type and name, as nm writes them, and gives the symbols of code.
/// `offset` is added to the addresses: how far the kernel moved itself. `path` names the file in
/// messages.
///
/// # Errors
/// If a line is not of that form, or none is a symbol of code.
pub(super) fn parse(path: &str, text: &str, offset: u64) -> Result<Vec<Symbol>> {
    let mut rows = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let row = row(line).ok_or_else(|| {
            Error::Input(format!(
                "{path}: line {number} is no address, type and name of System.map"
            ))
        })?;
        rows.push(row);
    }
    rows.sort_by_key(|row| row.address);
    let symbols = kallsyms::text(&rows).into_iter();
    let symbols: Vec<_> = symbols
        .map(|symbol| Symbol { address: symbol.address.wrapping_add(offset), ..symbol })
        .collect();
    if symbols.is_empty() {
        return Err(Error::Input(format!("{path}: has no symbols of code")));
    }
    Ok(symbols)
}

fn row(line: &str) -> Option<Row> {
    let (address, rest) = line.split_once(' ')?;
    let (kind, name) = rest.split_once(' ')?;
    let &[kind] = kind.as_bytes() else { return None };
    let address = u64::from_str_radix(address, 16).ok()?;
    Some(Row { address, kind, name: name.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
0000000000000000 D __per_cpu_start
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000110 t secondary
ffffffff81000200 W weak
ffffffff81000280 D data
ffffffff81001f00 T _etext
";

    /// A symbol reaches to the next of any type, of the last to the end of its page.
    #[test]
    fn symbols_of_code_are_taken_and_moved() {
        let symbols = parse("m", MAP, 0x1_0000_0000).unwrap();
        let rows: Vec<_> = symbols.iter().map(|s| (s.address, s.size, s.name.as_str())).collect();
        assert_eq!(
            rows,
            [
                (0x81000000, 0x110, "_text"),
                (0x81000000, 0x110, "startup_64"),
                (0x81000110, 0xF0, "secondary"),
                (0x81000200, 0x80, "weak"),
                (0x81001F00, 0x100, "_etext"),
            ]
        );
    }

    #[test]
    fn what_is_no_map_is_refused_in_one_line() {
        let refusal = |text: &str| parse("m", text, 0).unwrap_err().to_string();
        let line = "m: line 2 is no address, type and name of System.map";
        assert_eq!(refusal("ffffffff81000000 T a\nroot:x:0:0\n"), line);
        // What Debian's kernel package has in the place of the map.
        let stub = "ffffffffffffffff B The real System.map is in the package of debug symbols\n";
        assert_eq!(refusal(stub), "m: has no symbols of code");
        assert_eq!(refusal(""), "m: has no symbols of code");
    }
}
