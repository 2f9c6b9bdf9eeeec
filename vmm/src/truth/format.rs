//! How the parts of a [`Truth`](super::Truth) stand in CBOR.
//!
//! What there is a hundred thousand times of is an array without the names of its fields; all else is
//! a map, as derived. `docs/truth.md` describes both.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Context, Entered, Instruction, Row, Symbol};

impl Serialize for Instruction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.space, self.address, self.bits, Bytes(&self.bytes)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Instruction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (space, address, bits, Bytes(bytes)) = Deserialize::deserialize(deserializer)?;
        Ok(Self { space, address, bits, bytes })
    }
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.instruction, self.vcpu, self.cpl, &self.counts).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (instruction, vcpu, cpl, counts) = Deserialize::deserialize(deserializer)?;
        Ok(Self { instruction, vcpu, cpl, counts })
    }
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { parent, entered, site, entry, space, cpl, times, own } = self;
        (parent, entered, site, entry, space, cpl, times, own).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (parent, entered, site, entry, space, cpl, times, own) =
            Deserialize::deserialize(deserializer)?;
        Ok(Self { parent, entered, site, entry, space, cpl, times, own })
    }
}

impl Serialize for Symbol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.address, self.size, &self.name).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Symbol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (address, size, name) = Deserialize::deserialize(deserializer)?;
        Ok(Self { address, size, name })
    }
}

/// What makes a number of [`Entered`]: added to the vector of an exception.
const EXCEPTION: u16 = 0x100;
/// Added to the vector of an interrupt.
const INTERRUPT: u16 = 0x200;

impl Serialize for Entered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(match *self {
            Self::Bottom => 0,
            Self::Call => 1,
            Self::SystemCall => 2,
            Self::Exception(vector) => EXCEPTION + u16::from(vector),
            Self::Interrupt(vector) => INTERRUPT + u16::from(vector),
        })
    }
}

impl<'de> Deserialize<'de> for Entered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u16::deserialize(deserializer)?;
        let [kind, vector] = number.to_be_bytes();
        match (kind, vector) {
            (0, 0) => Ok(Self::Bottom),
            (0, 1) => Ok(Self::Call),
            (0, 2) => Ok(Self::SystemCall),
            (1, vector) => Ok(Self::Exception(vector)),
            (2, vector) => Ok(Self::Interrupt(vector)),
            _ => {
                Err(D::Error::custom(format_args!("no way to enter a context has number {number}")))
            }
        }
    }
}

/// A byte string; a vector of bytes would be an array of numbers.
struct Bytes<B>(B);

impl Serialize for Bytes<&Vec<u8>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes<Vec<u8>> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Copied;
        impl Visitor<'_> for Copied {
            type Value = Bytes<Vec<u8>>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of an instruction")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Copied)
    }
}
