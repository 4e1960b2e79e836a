//! The location of a task: its partition, and the opaque reference that clients hold. Both are durable formats: a
//! change here orphans stored rows and references in clients' hands.

use crate::{name::Name, time::Millis};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// A hash slot: unit of parallelism, of order and of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Partition(pub u16);

/// The partition of all versions of one task: FNV-1a over namespace and id, finished with splitmix64.
/// All versions share it, so that the version rules of an insert are decided inside one shard.
#[must_use]
pub fn partition_of(namespace: &Name, task_id: i64, partitions: u16) -> Partition {
    let bytes = namespace.as_str().bytes().chain([0]).chain(task_id.to_le_bytes());
    let fnv = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let slot = finish(fnv) % u64::from(partitions.max(1));
    Partition(u16::try_from(slot).expect("a remainder of a u16 fits a u16"))
}

/// The mixer of splitmix64.
fn finish(seed: u64) -> u64 {
    let a = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let b = (a ^ (a >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    b ^ (b >> 31)
}

/// The location of a task's row when the reference was issued. `id` never changes and is unique; `due_at` is a hint
/// that lets a clustered store find the row without an index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskRef {
    pub partition: Partition,
    pub due_at: Millis,
    pub id: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a task reference: use the `ref` that an insert or a list answered")]
pub struct InvalidRef(pub String);

/// Crockford's base 32, lower case: no letter that is mistaken for a digit.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// 128 bits in 26 symbols of 5 bits.
const SYMBOLS: usize = 26;

impl TaskRef {
    fn to_bits(self) -> u128 {
        let due = self.due_at.0.clamp(0, Millis::MAX.0).unsigned_abs();
        (u128::from(self.partition.0) << 112) | (u128::from(due) << 64) | u128::from(self.id.cast_unsigned())
    }

    fn from_bits(bits: u128) -> Option<Self> {
        let due_at = Millis(i64::try_from((bits >> 64) & 0xffff_ffff_ffff).ok()?);
        let partition = Partition(u16::try_from(bits >> 112).ok()?);
        let id = u64::try_from(bits & u128::from(u64::MAX)).ok()?.cast_signed();
        (due_at <= Millis::MAX).then_some(Self { partition, due_at, id })
    }
}

impl fmt::Display for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.to_bits();
        let mut text = [0_u8; SYMBOLS];
        for (place, symbol) in text.iter_mut().rev().enumerate() {
            let digit = usize::try_from((bits >> (5 * place)) & 31).unwrap_or_default();
            *symbol = ALPHABET.get(digit).copied().unwrap_or(b'0');
        }
        f.write_str("t")?;
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}/{}/{}", self.partition.0, self.due_at, self.id)
    }
}

impl FromStr for TaskRef {
    type Err = InvalidRef;
    fn from_str(text: &str) -> Result<Self, InvalidRef> {
        let invalid = || InvalidRef(text.chars().take(64).collect());
        let symbols = text.strip_prefix('t').filter(|rest| rest.len() == SYMBOLS).ok_or_else(invalid)?;
        let mut bits = 0_u128;
        for symbol in symbols.bytes() {
            let digit = ALPHABET.iter().position(|byte| *byte == symbol).ok_or_else(invalid)?;
            bits = bits.checked_mul(32).ok_or_else(invalid)? | u128::try_from(digit).unwrap_or_default();
        }
        Self::from_bits(bits).ok_or_else(invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_reference_survives_its_text_form(p: u16, due in 0..=Millis::MAX.0, id: i64) {
            let place = TaskRef { partition: Partition(p), due_at: Millis(due), id };
            prop_assert_eq!(place.to_string().parse::<TaskRef>().unwrap(), place);
        }

        #[test]
        fn text_that_is_no_reference_is_refused_not_misread(text in "\\PC{0,40}") {
            if let Ok(place) = text.parse::<TaskRef>() {
                prop_assert_eq!(place.to_string(), text);
            }
        }
    }

    #[test]
    fn placement_is_pinned_because_rows_were_stored_by_it() {
        let name = Name::new("default").unwrap();
        let slots: Vec<u16> =
            [0, 1, 2, 42, -1, i64::MAX].map(|task_id| partition_of(&name, task_id, 64).0).to_vec();
        assert_eq!(slots, PINNED);
    }
    const PINNED: [u16; 6] = [8, 21, 58, 3, 1, 26];

    #[test]
    fn partitions_fill_evenly() {
        let name = Name::new("default").unwrap();
        let mut counts = [0_u32; 16];
        for id in 0..160_000 {
            counts[usize::from(partition_of(&name, id, 16).0)] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }
}
