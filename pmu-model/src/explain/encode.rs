//! Words in event-select values.

use alloc::format;
use alloc::string::{String, ToString};

use crate::event::EventDef;
use crate::evtsel::{CNT_MASK, EDGE, EN, INT, INV, OS, PIN_CONTROL, UNIT_MASK, USR};
use crate::nearest::nearest;
use crate::personality::Personality;

/// Why words are no event select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodeError {
    /// No event of that name.
    UnknownEvent {
        /// What was asked for.
        name: String,
        /// The event with the nearest name, by the manual or by a client.
        nearest: Option<&'static str>,
    },
    /// Neither a unit mask of the event nor a modifier.
    UnknownModifier {
        /// The event.
        event: String,
        /// What was asked for.
        word: String,
        /// The unit mask or modifier with the nearest name.
        nearest: Option<&'static str>,
    },
    /// A number that is none, or that does not fit into its field.
    BadNumber {
        /// The word with the number.
        word: String,
        /// The highest value that fits.
        max: u64,
    },
}

impl core::fmt::Display for EncodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let nearest = match self {
            EncodeError::UnknownEvent { name, nearest } => {
                write!(f, "unknown event {name:?}")?;
                nearest
            }
            EncodeError::UnknownModifier { event, word, nearest } => {
                write!(f, "event {event} has no unit mask or modifier {word:?}")?;
                nearest
            }
            EncodeError::BadNumber { word, max } => {
                return write!(f, "{word:?}: expected a number from 0 to {max:#x}");
            }
        };
        nearest.map_or(Ok(()), |nearest| write!(f, "; did you mean {nearest}?"))
    }
}

impl core::error::Error for EncodeError {}

/// The words that are not unit masks, with their bits.
const FLAGS: [(&str, u64); 12] = [
    ("u", USR),
    ("k", OS),
    ("os", OS),
    ("usr", USR),
    ("e", EDGE),
    ("edge", EDGE),
    ("i", INV),
    ("inv", INV),
    ("int", INT),
    ("pc", PIN_CONTROL),
    ("en", EN),
    ("none", 0),
];

/// The value of an event select, from words.
///
/// Grammar: `EVENT[:WORD...]`, capitals and small letters alike. `EVENT` is a name of the table or
/// of a public client, or `rNNNN` with up to eight hexadecimal digits (code in the low byte, unit
/// mask above it, then the flags). A `WORD` is a unit mask of the event by the manual's or libpfm4's
/// name, `all`, `umask=N`, `u` or `usr`, `k` or `os`, `e`, `i` or `inv`, `c=N`, `int`, `pc`, `en`;
/// a flag may have `=0` or `=1`. Without `u` and `k` both are meant, with `none` neither. Without a
/// unit mask every documented one is meant.
///
/// ```
/// let k8 = pmu_model::Personality::by_name("k8").unwrap();
/// let value = pmu_model::explain::encode(k8, "RETIRED_BRANCH_INSTRUCTIONS:u:int");
/// assert_eq!(value, Ok(0x0011_00C2));
/// ```
///
/// # Errors
/// An unknown event or word (the nearest known one is named), or a number out of range.
pub fn encode(personality: &'static Personality, words: &str) -> Result<u64, EncodeError> {
    let mut words = words.split(':');
    let name = words.next().unwrap_or_default().trim();
    let event = personality.event_by_name(name);
    let (mut value, raw) = match (event, raw(name)) {
        (Some(event), _) => (u64::from(event.code), false),
        (None, Some(value)) if value & !personality.evtsel.stored == 0 => (value, true),
        (None, Some(_)) => {
            let max = personality.evtsel.stored;
            return Err(EncodeError::BadNumber { word: name.into(), max });
        }
        (None, None) => return Err(unknown_event(personality, name)),
    };
    let event = personality.event(value as u8);
    let (mut umask, mut modes_given) = (None, value & (USR | OS) != 0);
    for word in words.map(str::trim) {
        let (key, number) = match word.split_once('=') {
            Some((key, number)) => (key, Some(number)),
            None => (word, None),
        };
        let bits = event.and_then(|event| match number {
            Some(_) => None,
            None if key.eq_ignore_ascii_case("all") => Some(event.default_umask),
            None => event.unit_mask(key).map(|bit| bit.mask),
        });
        if let Some(bits) = bits {
            umask = Some(umask.unwrap_or(0) | bits);
        } else if key.eq_ignore_ascii_case("umask") {
            umask = Some(umask.unwrap_or(0) | parse(word, number, 0xFF)? as u8);
        } else if key.eq_ignore_ascii_case("c") || key.eq_ignore_ascii_case("cmask") {
            value = value & !CNT_MASK | parse(word, number, 0xFF)? << 24;
        } else if let Some((_, flag)) = FLAGS.iter().find(|(f, _)| f.eq_ignore_ascii_case(key)) {
            let on = number.is_none() || parse(word, number, 1)? == 1;
            value = if on { value | flag } else { value & !flag };
            modes_given |= matches!(*flag, USR | OS | 0);
        } else {
            return Err(unknown_modifier(event, name, word));
        }
    }
    if !modes_given {
        value |= USR | OS;
    }
    let default = if raw { None } else { event.map(|event| event.default_umask) };
    if let Some(umask) = umask.or(default) {
        value = value & !UNIT_MASK | u64::from(umask) << 8;
    }
    Ok(value)
}

/// The value of `rNNNN`.
fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(['r', 'R'])?;
    let all_digits = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    (all_digits && (1..=8).contains(&digits.len()))
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

/// The number in `word`, decimal or with `0x`.
fn parse(word: &str, number: Option<&str>, max: u64) -> Result<u64, EncodeError> {
    let number = number.unwrap_or_default();
    let value = match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => number.parse(),
    };
    match value {
        Ok(value) if value <= max => Ok(value),
        _ => Err(EncodeError::BadNumber { word: word.into(), max }),
    }
}

fn unknown_event(personality: &'static Personality, name: &str) -> EncodeError {
    let names = personality.events.iter().map(|event| event.name);
    let aliases = personality.events.iter().flat_map(|event| event.aliases.all());
    EncodeError::UnknownEvent { name: name.into(), nearest: nearest(name, names.chain(aliases)) }
}

fn unknown_modifier(event: Option<&'static EventDef>, name: &str, word: &str) -> EncodeError {
    let masks = event.into_iter().flat_map(|event| event.umasks).map(|bit| bit.name);
    let flags = FLAGS.iter().map(|(flag, _)| *flag);
    EncodeError::UnknownModifier {
        event: event.map_or_else(|| format!("{name:?}"), |event| event.name.to_string()),
        word: word.into(),
        nearest: nearest(word, masks.chain(flags)),
    }
}
