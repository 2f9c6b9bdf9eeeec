//! What inputs do to a tree of CBOR: to the inside of files that have their lengths and checksums around it.

use ciborium::Value;

use super::edits::Source;

/// Most bytes or values that a change adds.
const LARGEST: usize = 100_000;

/// Changes a value somewhere in the tree; says in words which, and how.
///
/// Each level is chosen by itself, so that a small structure beside a long array is found as often.
pub(super) fn edit(tree: &mut Value, source: &mut Source<'_>) -> String {
    let mut path = String::new();
    let mut node = tree;
    let mut levels = source.byte() % 24;
    loop {
        let children = children(node);
        if children == 0 || levels == 0 {
            break;
        }
        levels -= 1;
        let child = source.below(children);
        let name = match node {
            Value::Map(pairs) => {
                pairs[child].0.as_text().map_or_else(|| child.to_string(), Into::into)
            }
            _ => child.to_string(),
        };
        path = if path.is_empty() { name } else { format!("{path}.{name}") };
        node = match node {
            Value::Map(pairs) => &mut pairs[child].1,
            Value::Array(values) => &mut values[child],
            Value::Tag(_, value) => value,
            _ => break,
        };
    }
    let act = change(node, source);
    format!("{path} {act}")
}

fn children(node: &Value) -> usize {
    match node {
        Value::Map(pairs) => pairs.len(),
        Value::Array(values) => values.len(),
        Value::Tag(..) => 1,
        _ => 0,
    }
}

/// How many values it consists of.
fn weight(node: &Value) -> usize {
    match node {
        Value::Map(pairs) => pairs.iter().map(|(_, value)| weight(value)).sum::<usize>() + 1,
        Value::Array(values) => values.iter().map(weight).sum::<usize>() + 1,
        Value::Tag(_, value) => weight(value) + 1,
        Value::Bytes(bytes) => bytes.len() + 1,
        Value::Text(text) => text.len() + 1,
        _ => 1,
    }
}

fn change(node: &mut Value, source: &mut Source<'_>) -> String {
    let kind = source.byte();
    // Another kind of value, now and then.
    match kind {
        0xF0..=0xF3 => *node = Value::Null,
        0xF4..=0xF7 => *node = Value::Integer(source.number().into()),
        0xF8..=0xFB => *node = Value::Array(vec![]),
        0xFC | 0xFD => *node = Value::Text("x\n\u{1b}".repeat(source.byte().into())),
        0xFE => *node = Value::Bytes(vec![source.byte(); source.byte().into()]),
        0xFF => *node = Value::Bool(source.byte() & 1 == 1),
        _ => return changed(node, kind, source),
    }
    format!(":= {}", shown(node))
}

fn changed(node: &mut Value, kind: u8, source: &mut Source<'_>) -> String {
    match node {
        Value::Integer(number) => {
            let now = i128::from(*number);
            let new = match kind % 8 {
                0..=4 => source.number().into(),
                5 => -1 - i128::from(source.number()),
                6 => now + i128::from(source.byte() as i8),
                _ => now ^ 1 << (source.byte() % 64),
            };
            *number = new.clamp(-(1 << 63), u64::MAX.into()).try_into().unwrap_or(0.into());
        }
        Value::Bytes(bytes) => match kind % 4 {
            0 if !bytes.is_empty() => {
                let at = source.below(bytes.len());
                bytes[at] = source.byte();
                return format!("at {at} := {:#x}", bytes[at]);
            }
            1 => bytes.truncate(source.below(bytes.len() + 1)),
            2 => bytes.resize(bytes.len() + usize::from(source.byte()), 0xFF),
            _ => {
                let at = source.below(bytes.len());
                let value = source.number();
                let there = bytes.iter_mut().skip(at).zip(value.to_le_bytes());
                there.for_each(|(byte, value)| *byte = value);
                return format!("at {at} := {value:#x}, of 64 bits");
            }
        },
        Value::Text(text) => match kind % 4 {
            0 => text.clear(),
            1 => text.push_str("\n\u{1b}[0m"),
            2 => *text = text.repeat(usize::from(source.byte()).min(LARGEST / (text.len() + 1))),
            _ => *text = ["k8", "knc", "Elsewhere", "\u{e9};\u{2028}"][source.below(4)].into(),
        },
        Value::Bool(value) => *value = !*value,
        Value::Null => *node = Value::Integer(source.number().into()),
        Value::Map(pairs) if !pairs.is_empty() => {
            let at = source.below(pairs.len());
            let pair = pairs[at].clone();
            match kind % 3 {
                0 => return format!("without {:?}", pairs.remove(at).0),
                1 => pairs.push(pair),
                _ => pairs.push((Value::Text("other".into()), pair.1)),
            }
        }
        Value::Array(values) if !values.is_empty() => {
            let at = source.below(values.len());
            let value = values[at].clone();
            match kind % 4 {
                0 => drop(values.remove(at)),
                1 => values.insert(at, value),
                2 => {
                    let times = usize::from(source.byte()).min(LARGEST / weight(&value));
                    values.extend(vec![value; times]);
                }
                _ => values.truncate(at),
            }
            return format!("with {} elements, from {at} on", values.len());
        }
        Value::Array(values) => values.push(Value::Integer(source.number().into())),
        _ => *node = Value::Integer(0.into()),
    }
    format!(":= {}", shown(node))
}

/// A value, or how it begins.
fn shown(value: &Value) -> String {
    let text = format!("{value:?}");
    let text = text.trim_start_matches("Integer(Integer(").trim_end_matches("))");
    text.chars().take(60).collect()
}
