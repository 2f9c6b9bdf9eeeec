//! Words in event selects, and event selects in words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::cesr;
use crate::event::{EventDef, UmaskRule, UnitMask};
use crate::evtsel::{
    ALL_THREADS, CNT_MASK, EDGE, EN, EVENT_SELECT, INT, INV, OS, PIN_CONTROL, UNIT_MASK, USR,
};
use crate::nearest::nearest;
use crate::personality::{Personality, Programming};

/// Why words are no event select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodeError {
    /// No event of that name.
    UnknownEvent {
        /// What was asked for.
        name: String,
        /// The event with the nearest name, by the manual or by a client, with a unit mask if it
        /// has to have one.
        nearest: Option<String>,
    },
    /// No unit mask, and the event has none that goes without saying.
    MissingUmask {
        /// The event.
        event: &'static EventDef,
    },
    /// Two unit masks of an event whose masks exclude each other.
    ExclusiveUmasks {
        /// The event.
        event: &'static EventDef,
        /// The second of them.
        word: String,
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
                nearest.as_deref()
            }
            EncodeError::MissingUmask { event } => {
                write!(f, "event {} needs a unit mask: {}", event.name, mask_names(event))?;
                None
            }
            EncodeError::ExclusiveUmasks { event, word } => {
                write!(f, "event {} takes one unit mask, and {word:?} is a second", event.name)?;
                None
            }
            EncodeError::UnknownModifier { event, word, nearest } => {
                write!(f, "event {event} has no unit mask or modifier {word:?}")?;
                *nearest
            }
            EncodeError::BadNumber { word, max } => {
                write!(f, "{word:?}: expected a number from 0 to {max:#x}")?;
                None
            }
        };
        nearest.map_or(Ok(()), |nearest| write!(f, "; did you mean {nearest}?"))
    }
}

impl core::error::Error for EncodeError {}

/// The flags of one way of programming, in words.
struct Flags {
    /// The words that are not unit masks, with their bits.
    words: &'static [(&'static str, u64)],
    /// The word for each bit, in the order in which they are written.
    written: &'static [(u64, &'static str)],
    /// What each bit of `words` asks for, in the order in which they are listed.
    meanings: &'static [(u64, &'static str)],
    /// The privilege levels: the bit for the user's, and that for the system's.
    modes: (u64, u64),
    /// Threshold of events in a clock; 0 where there is none.
    cmask: u64,
    /// Unit mask; 0 where there is none.
    umask: u64,
    /// Event code.
    code: u64,
}

/// Those of `PerfEvtSel`.
const EVTSEL: Flags = Flags {
    words: &[
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
        ("t", ALL_THREADS),
        ("any", ALL_THREADS),
        ("en", EN),
        ("none", 0),
    ],
    // Not "e" and "i": unit masks of cache-line states have these names.
    written: &[
        (EDGE, "edge"),
        (INV, "inv"),
        (INT, "int"),
        (PIN_CONTROL, "pc"),
        (ALL_THREADS, "t"),
        (EN, "en"),
    ],
    meanings: &[
        (USR, "count in user mode"),
        (OS, "count in operating-system mode"),
        (0, "count in neither mode; without a word for one, both are meant"),
        (EDGE, "count changes from false to true, not clocks"),
        (INV, "invert the comparison of the threshold"),
        (INT, "interrupt on overflow"),
        (PIN_CONTROL, "pin control: toggle the PM pin on overflow, not on each event"),
        (ALL_THREADS, "count all threads of the core"),
        (EN, "enable the counter"),
    ],
    modes: (USR, OS),
    cmask: CNT_MASK,
    umask: UNIT_MASK,
    code: EVENT_SELECT,
};

/// Those of a half of CESR.
const CESR: Flags = Flags {
    words: &[
        ("u", cesr::CC_USER),
        ("k", cesr::CC_SUPERVISOR),
        ("os", cesr::CC_SUPERVISOR),
        ("usr", cesr::CC_USER),
        ("clk", cesr::CC_CLOCKS),
        ("clocks", cesr::CC_CLOCKS),
        ("pc", cesr::PC),
        ("none", 0),
    ],
    written: &[(cesr::CC_CLOCKS, "clk"), (cesr::PC, "pc")],
    meanings: &[
        (cesr::CC_USER, "count at CPL 3"),
        (cesr::CC_SUPERVISOR, "count at CPL 0, 1 and 2"),
        (0, "count at no CPL; without a word for one, all are meant"),
        (cesr::CC_CLOCKS, "count clocks, not events"),
        (cesr::PC, "pin control: toggle the PM pin on overflow, not on each event"),
    ],
    modes: (cesr::CC_USER, cesr::CC_SUPERVISOR),
    cmask: 0,
    umask: 0,
    code: cesr::ES,
};

impl Personality {
    fn flags(&self) -> &'static Flags {
        match self.programming {
            Programming::PerfEvtSel => &EVTSEL,
            Programming::Cesr => &CESR,
        }
    }

    /// The bits that one counter's word can have.
    fn word_mask(&self) -> u64 {
        match self.programming {
            Programming::PerfEvtSel => self.programmed_by(0).map_or(0, |register| register.stored),
            Programming::Cesr => cesr::HALF_MASK,
        }
    }
}

/// Words that may stand behind an event in what [`encode`] takes, for one bit or one number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modifier {
    /// The words, of equal meaning. A word that ends in `=` takes a number.
    pub words: Vec<&'static str>,
    /// What they ask for.
    pub meaning: &'static str,
    /// The highest number, of those that take one.
    pub max: Option<u64>,
}

/// Every modifier that [`encode`] takes for a processor, beside the unit masks of the event.
pub fn modifiers(personality: &Personality) -> Vec<Modifier> {
    let flags = personality.flags();
    let mask = personality.word_mask();
    let there = flags.meanings.iter().filter(|(bit, _)| bit & !mask == 0);
    let mut modifiers: Vec<_> = there
        .map(|&(bit, meaning)| {
            let words = flags.words.iter().filter(|(_, bits)| *bits == bit);
            Modifier { words: words.map(|(word, _)| *word).collect(), meaning, max: None }
        })
        .collect();
    let number = |words: &[&'static str], meaning, max| Modifier {
        words: words.to_vec(),
        meaning,
        max: Some(max),
    };
    if flags.cmask & mask != 0 {
        let meaning = "threshold: count clocks with at least so many events";
        modifiers.push(number(&["c=", "cmask="], meaning, 0xFF));
    }
    if flags.umask & mask != 0 {
        let meaning = "unit mask by number, and not by the names of the event";
        modifiers.push(number(&["umask="], meaning, 0xFF));
    }
    if personality.programming == Programming::Cesr {
        let meaning = "the counter; without it, the first that can count the event";
        modifiers.push(number(&["ctr="], meaning, personality.counters as u64 - 1));
    }
    modifiers
}

/// The value of the register that programs a counter, from words.
///
/// Grammar: `EVENT[:WORD...]`, capitals and small letters alike. `EVENT` is a name of the table or
/// of a public client, or `rNNNN` with up to eight hexadecimal digits (code in the low byte, unit
/// mask above it, then the flags). A `WORD` is a unit mask of the event by the manual's or libpfm4's
/// name, `all`, `umask=N`, `u` or `usr`, `k` or `os`, `e` or `edge`, `i` or `inv`, `c=N`, `int`, `pc`,
/// `t` or `any` (all threads of the core), `en`; a flag may have `=0` or `=1`, and must where the
/// event has a unit mask of the same name. Without `u` and `k` both are meant, with `none` neither.
/// Without a unit mask [`EventDef::default_umask`] is meant; events in
/// [`Personality::mask_must_be_named`] are refused without one. A word for a bit that the processor
/// lacks is refused.
///
/// For CESR the words are `u`, `k`, `clk` (clocks and not events), `pc`, and `ctr=N`: the counter,
/// without which the first is meant that can count the event. The value is that of the counter's
/// half in its place.
///
/// ```
/// let k8 = pmu_model::Personality::by_name("k8").unwrap();
/// let value = pmu_model::explain::encode(k8, "RETIRED_BRANCH_INSTRUCTIONS:u:int");
/// assert_eq!(value, Ok(0x0011_00C2));
/// ```
///
/// # Errors
/// An unknown event or word (the nearest known one is named), a unit mask too few or too many, or a
/// number out of range.
pub fn encode(personality: &'static Personality, words: &str) -> Result<u64, EncodeError> {
    let flags = personality.flags();
    let mask = personality.word_mask();
    let mut words = words.split(':');
    let name = words.next().unwrap_or_default().trim();
    let named = personality.event_by_name(name);
    let mut value = match (named, raw(name)) {
        (Some(event), _) => u64::from(event.code),
        (None, Some(value)) if value & !mask == 0 => value,
        (None, Some(_)) => return Err(EncodeError::BadNumber { word: name.into(), max: mask }),
        (None, None) => return Err(unknown_event(personality, name)),
    };
    let (user, system) = flags.modes;
    let umask_of = |value: u64| ((value & flags.umask) >> 8) as u8;
    let event = named.or_else(|| personality.event((value & flags.code) as u8, umask_of(value), 0));
    let mut umask = None;
    let mut counter = None;
    let mut modes_given = value & (user | system) != 0;
    for word in words.map(str::trim) {
        let (key, number) = match word.split_once('=') {
            Some((key, number)) => (key, Some(number)),
            None => (word, None),
        };
        let is = |name: &str| key.eq_ignore_ascii_case(name);
        let bits = event.filter(|_| number.is_none()).and_then(|event| mask_of(event, key));
        let flag = flags.words.iter().find(|(flag, bits)| is(flag) && bits & !mask == 0);
        if let Some((event, bits)) = event.zip(bits) {
            let exclusive = matches!(event.umask_rule, UmaskRule::Values { .. });
            if exclusive && umask.is_some_and(|umask| umask != bits) {
                return Err(EncodeError::ExclusiveUmasks { event, word: word.into() });
            }
            umask = Some(umask.unwrap_or(0) | bits);
        } else if is("umask") && flags.umask != 0 {
            umask = Some(umask.unwrap_or(0) | parse(word, number, 0xFF)? as u8);
        } else if (is("c") || is("cmask")) && flags.cmask != 0 {
            value = value & !CNT_MASK | parse(word, number, 0xFF)? << 24;
        } else if is("ctr") && personality.programming == Programming::Cesr {
            counter = Some(parse(word, number, personality.counters as u64 - 1)? as usize);
        } else if let Some(&(_, flag)) = flag {
            let on = number.is_none() || parse(word, number, 1)? == 1;
            value = if on { value | flag } else { value & !flag };
            modes_given |= flag == 0 || flag & (user | system) != 0;
        } else {
            return Err(unknown_modifier(personality, event, name, word));
        }
    }
    if !modes_given {
        value |= user | system;
    }
    let unnamed = match named {
        Some(event) if umask.is_none() && must_name_mask(personality, event) => {
            return Err(EncodeError::MissingUmask { event });
        }
        _ => named.map(|event| event.default_umask),
    };
    if let Some(umask) = umask.or(unnamed) {
        value = value & !flags.umask | u64::from(umask) << 8 & flags.umask;
    }
    let first = event.map_or(0, |event| event.counters.trailing_zeros() as usize);
    Ok(match personality.programming {
        Programming::PerfEvtSel => value,
        Programming::Cesr => value << (cesr::HALF as usize * counter.unwrap_or(first)),
    })
}

/// The words for what a counter is programmed to. Code and mask stand as numbers where they have no
/// name.
pub(super) fn words(
    personality: &'static Personality,
    counter: usize,
    word: u64,
    event: Option<&'static EventDef>,
    umasks: &[&'static UnitMask],
) -> String {
    let flags = personality.flags();
    let (code, umask) = ((word & flags.code) as u8, ((word & flags.umask) >> 8) as u8);
    let mut words = match event {
        Some(event) => String::from(event.name),
        None => format!("r{code:02X}"),
    };
    let named = umasks.iter().fold(0, |mask, bit| mask | bit.mask);
    let default = match event {
        Some(event) if must_name_mask(personality, event) => None,
        event => Some(event.map_or(0, |event| event.default_umask)),
    };
    if named == umask && !umasks.is_empty() && umasks.iter().all(|bit| !bit.name.is_empty()) {
        umasks.iter().for_each(|bit| words.extend([":", bit.name]));
    } else if Some(umask) != default {
        words += &format!(":umask=0x{umask:02X}");
    }
    // Without "u" and "k" both are meant, so neither has to be said only where one is missing.
    let (user, system) = flags.modes;
    match (word & user != 0, word & system != 0) {
        (true, true) => {}
        (true, false) => words += ":u",
        (false, true) => words += ":k",
        (false, false) => words += ":none",
    }
    let cmask = (word & flags.cmask) >> 24;
    if cmask != 0 {
        words += &format!(":c={cmask}");
    }
    let set = flags.written.iter().filter(|(bit, _)| word & bit != 0);
    set.for_each(|(_, flag)| words.extend([":", flag]));
    let first = event.map_or(0, |event| event.counters.trailing_zeros() as usize);
    if personality.programming == Programming::Cesr && counter != first {
        words += &format!(":ctr={counter}");
    }
    words
}

/// Whether words have to name a unit mask of the event.
fn must_name_mask(personality: &Personality, event: &EventDef) -> bool {
    personality.mask_must_be_named.contains(&event.code)
}

/// The unit mask with this name; `all` is every one that the manual documents, unless they exclude
/// each other.
fn mask_of(event: &'static EventDef, name: &str) -> Option<u8> {
    let exclusive = matches!(event.umask_rule, UmaskRule::Values { .. });
    if name.eq_ignore_ascii_case("all") && !exclusive {
        return Some(event.default_umask);
    }
    event.unit_mask(name).map(|bit| bit.mask)
}

/// The names of the unit masks, separated by commas.
fn mask_names(event: &EventDef) -> String {
    let names: Vec<_> = event.umasks.iter().map(|bit| bit.name).collect();
    names.join(", ")
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
    let nearest = nearest(name, names.chain(aliases)).map(|nearest| {
        let event = personality.event_by_name(nearest);
        match event.filter(|event| must_name_mask(personality, event)) {
            Some(event) => format!("{nearest}:{}", event.umasks.first().map_or("all", |m| m.name)),
            None => nearest.into(),
        }
    });
    EncodeError::UnknownEvent { name: name.into(), nearest }
}

fn unknown_modifier(
    personality: &'static Personality,
    event: Option<&'static EventDef>,
    name: &str,
    word: &str,
) -> EncodeError {
    let masks = event.into_iter().flat_map(|event| event.umasks).map(|bit| bit.name);
    let known = personality.flags().words.iter();
    let flags = known.filter(|(_, bits)| bits & !personality.word_mask() == 0);
    EncodeError::UnknownModifier {
        event: event.map_or_else(|| format!("{name:?}"), |event| event.name.to_string()),
        word: word.into(),
        nearest: nearest(word, masks.chain(flags.map(|(flag, _)| *flag))),
    }
}
