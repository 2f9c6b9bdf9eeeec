//! The tokens that the names of `kallsyms` are written with.

/// One for each byte of a compressed name: most are the letter itself, the others strings that
/// occur often.
pub(super) struct Tokens {
    tokens: Vec<Vec<u8>>,
    /// Offset of `kallsyms_token_table`.
    pub(super) start: usize,
    /// Offset of the end of `kallsyms_token_index`.
    pub(super) end: usize,
}

/// The tokens of the ten digits, which every kernel's names have, stand for themselves.
pub(super) const DIGITS: &[u8; 20] = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\0";
/// Bytes of `kallsyms_token_index`: 256 offsets of 16 bits into `kallsyms_token_table`.
const INDEX: usize = 512;
/// Most that either table is aligned to.
const ALIGNMENT: usize = 8;

impl Tokens {
    /// The token table in which the digits are at `digits`.
    pub(super) fn read(bytes: &[u8], digits: usize) -> Option<Self> {
        // The end of the last token, and behind it the index.
        let mut at = digits;
        for _ in usize::from(b'0')..256 {
            at += bytes.get(at..)?.iter().take(256).position(|byte| *byte == 0)? + 1;
        }
        (at..at + ALIGNMENT).find_map(|index| Self::with_index(bytes, digits, index))
    }

    fn with_index(bytes: &[u8], digits: usize, index: usize) -> Option<Self> {
        let offset = |token: usize| {
            let at = index + 2 * token;
            Some(usize::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)))
        };
        let start = digits.checked_sub(offset(usize::from(b'0'))?)?;
        let mut at = start;
        let mut tokens = Vec::new();
        for token in 0..256 {
            if at != start + offset(token)? {
                return None;
            }
            let length = bytes.get(at..index)?.iter().position(|byte| *byte == 0)?;
            tokens.push(bytes[at..at + length].to_vec());
            at += length + 1;
        }
        Some(Self { tokens, start, end: index + INDEX })
    }

    /// The text of a compressed name: a symbol's type and name.
    pub(super) fn expand(&self, name: &[u8]) -> Vec<u8> {
        name.iter().flat_map(|token| &self.tokens[usize::from(*token)]).copied().collect()
    }
}
