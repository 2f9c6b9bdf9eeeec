//! The 256-bit vector registers of the local APIC: IRR, ISR and TMR.

use serde::{Deserialize, Serialize};

/// One bit per vector, in the eight 32-bit registers that the guest sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vectors {
    words: [u32; 8],
}

impl Vectors {
    pub(crate) fn set(&mut self, vector: u8) {
        self.words[usize::from(vector >> 5)] |= 1 << (vector & 31);
    }

    pub(crate) fn clear(&mut self, vector: u8) {
        self.words[usize::from(vector >> 5)] &= !(1 << (vector & 31));
    }

    pub(crate) fn assign(&mut self, vector: u8, value: bool) {
        if value {
            self.set(vector);
        } else {
            self.clear(vector);
        }
    }

    pub(crate) fn contains(&self, vector: u8) -> bool {
        self.words[usize::from(vector >> 5)] & 1 << (vector & 31) != 0
    }

    /// The highest vector that is set.
    pub(crate) fn highest(&self) -> Option<u8> {
        (0_u8..8).rev().zip(self.words.iter().rev()).find_map(|(index, &word)| {
            let bit = word.checked_ilog2()?;
            Some(index << 5 | bit as u8)
        })
    }

    /// Sets register `index` (0 to 7), vectors `32 * index` and up.
    pub(crate) fn set_word(&mut self, index: u32, value: u32) {
        self.words[(index & 7) as usize] = value;
    }

    /// Register `index` (0 to 7), vectors `32 * index` and up.
    pub(crate) fn word(&self, index: u32) -> u32 {
        self.words[(index & 7) as usize]
    }
}
