//! A task's identity as a text, for callers without numeric ids. A key determines two ids: a task has the
//! first, unless another key has taken that. So a key needs no index of its own, and works wherever an id
//! does. A durable format: after a change here, tasks with a key could not be found.

use crate::{
    name::Name,
    place::{Partition, partition_of},
    task::ENGINE_TASK_ID_BASE,
};
use serde::{Deserialize, Serialize};

pub const KEY_MAX_BYTES: usize = 128;

/// Ids of keys are in the half below those that the engine counts: exact in JavaScript, and far from the
/// small numbers that callers count.
const FIRST: i64 = ENGINE_TASK_ID_BASE / 2;
/// The number of ids of tasks with keys: 2^51.
const COUNT: u64 = FIRST.unsigned_abs();

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// A key that a caller chose, verbatim.
    Caller(String),
    /// The key of a repeatable request without another identity; it is shown to no caller.
    Request(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to {KEY_MAX_BYTES} bytes, not {0}")]
pub struct InvalidKey(pub usize);

impl Key {
    /// # Errors
    /// Empty, or too long.
    pub fn caller(text: &str) -> Result<Self, InvalidKey> {
        let is_good = (1..=KEY_MAX_BYTES).contains(&text.len());
        is_good.then(|| Self::Caller(text.to_owned())).ok_or(InvalidKey(text.len()))
    }

    /// The key as its caller sent it.
    #[must_use]
    pub fn shown(&self) -> Option<&str> {
        match self {
            Self::Caller(text) => Some(text),
            Self::Request(_) => None,
        }
    }

    /// The ids that a task with this key may have, the likelier first. Both are in one partition, where the
    /// inserting transaction reads both. That two other keys have taken both, among hundreds of millions, is
    /// practically impossible; such an insert is refused.
    #[must_use]
    pub fn ids(&self, namespace: &Name, partitions: u16) -> [i64; 2] {
        let (code, text) = match self {
            Self::Caller(text) => (0_u8, text),
            Self::Request(text) => (1_u8, text),
        };
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(b"key")
            .update(namespace.as_str().as_bytes())
            .update(&[0, code])
            .update(text.as_bytes());
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = *hasher.finalize().as_bytes();
        let first = id(u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        let wanted = partition_of(namespace, first, partitions);
        [first, second(u64::from_le_bytes([i, j, k, l, m, n, o, p]), (namespace, partitions), first, wanted)]
    }
}

/// True if a task with a key can have this id.
#[must_use]
pub fn is_id_of_keys(task_id: i64) -> bool {
    (FIRST..ENGINE_TASK_ID_BASE).contains(&task_id)
}

fn id(hash: u64) -> i64 {
    FIRST + i64::try_from(hash % COUNT).unwrap_or(0)
}

/// The first that fits of a row of numbers: one of as many as there are partitions does.
fn second(seed: u64, (namespace, partitions): (&Name, u16), first: i64, wanted: Partition) -> i64 {
    /// Derived from the golden ratio: its multiples reach every number before they repeat one.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = seed;
    loop {
        hash = hash.wrapping_add(STEP);
        let id = id(hash);
        if id != first && partition_of(namespace, id, partitions) == wanted {
            return id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::caller(text).unwrap()
    }

    #[test]
    fn ids_of_keys_are_pinned_because_they_are_stored() {
        let name = Name::default_namespace();
        assert_eq!(key("order-7").ids(&name, 64), PINNED);
    }
    const PINNED: [i64; 2] = [3_820_004_383_098_411, 2_436_139_177_725_586];

    #[test]
    fn both_ids_are_of_one_partition_and_exact_in_javascript() {
        let name = Name::new("shop").unwrap();
        for partitions in [1, 2, 64, 1_024] {
            for nth in 0..200 {
                let [first, second] = key(&format!("order {nth}")).ids(&name, partitions);
                assert_ne!(first, second);
                assert!([first, second].iter().all(|task_id| is_id_of_keys(*task_id)));
                assert_eq!(partition_of(&name, first, partitions), partition_of(&name, second, partitions));
            }
        }
    }

    #[test]
    fn keys_differ_by_every_byte_by_namespace_and_by_whose_they_are() {
        let (shop, other) = (Name::new("shop").unwrap(), Name::new("other").unwrap());
        let of = |key: Key, name: &Name| key.ids(name, 64);
        let ids = [
            of(key("a"), &shop),
            of(key("A"), &shop),
            of(key("a "), &shop),
            of(key("ä"), &shop),
            of(key("a"), &other),
            of(Key::Request("a".to_owned()), &shop),
        ];
        for (nth, id) in ids.iter().enumerate() {
            assert!(ids.iter().skip(nth + 1).all(|other| other[0] != id[0]), "{nth}");
        }
    }

    #[test]
    fn a_key_has_1_to_128_bytes() {
        assert!(Key::caller(&"é".repeat(64)).is_ok());
        assert_eq!(Key::caller(&"é".repeat(65)), Err(InvalidKey(130)));
        assert_eq!(Key::caller(""), Err(InvalidKey(0)));
        assert_eq!(key("x").shown(), Some("x"));
        assert_eq!(Key::Request("x".to_owned()).shown(), None);
    }
}
