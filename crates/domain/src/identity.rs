//! Ids that are computed from the source of a task, with a secret of the cluster as key. Without the secret
//! they cannot be computed; with it every engine computes the same. A durable format: after a change here,
//! earlier tasks would be made again.

/// Ids of this width are exact in JavaScript.
const BITS: u32 = 53;

/// A secret of the cluster. Only its engines can compute ids from it, so no caller can use such an id first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct IdentitySecret([u8; Self::BYTES]);

impl IdentitySecret {
    pub const BYTES: usize = 32;

    #[must_use]
    pub const fn new(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the secret, for storage.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The owner of its engines' journals: a record of one cluster is never applied to another.
    #[must_use]
    pub fn journal_owner(&self) -> [u8; 16] {
        let hash = self.hasher().update(b"journal of outcomes").finalize();
        let mut owner = [0; 16];
        owner.copy_from_slice(hash.as_bytes().get(..16).unwrap_or(&[0; 16]));
        owner
    }

    pub(crate) fn hasher(&self) -> blake3::Hasher {
        blake3::Hasher::new_keyed(&self.0)
    }
}

impl std::fmt::Debug for IdentitySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("IdentitySecret")
    }
}

/// The first bits of a hash as an id below zero: callers count upwards from 1, and the engine from 2^52.
pub(crate) fn negative_id(hash: &blake3::Hash) -> i64 {
    let kept = first_bits(hash) >> (u64::BITS - BITS);
    -i64::try_from(kept).unwrap_or(0) - 1
}

pub(crate) fn first_bits(hash: &blake3::Hash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *hash.as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}
