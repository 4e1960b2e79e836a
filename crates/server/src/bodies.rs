//! Bounds the memory of all request bodies together. A body counts from its first byte until it is dropped. Many callers that
//! send slowly or much are refused before memory grows.

use bytes::Bytes;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The reserved bytes of one body.
#[derive(Debug)]
pub(crate) struct BodyBytes {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl BodyBytes {
    pub(crate) fn of(all: &Arc<AtomicUsize>) -> Self {
        Self { all: Arc::clone(all), bytes: 0 }
    }

    /// False if all bodies together would be longer than `max`.
    pub(crate) fn grow(&mut self, bytes: usize, max: usize) -> bool {
        let before = self.all.fetch_add(bytes, Relaxed);
        self.bytes += bytes;
        before.saturating_add(bytes) <= max
    }

    /// Counted for as long as anybody has them.
    pub(crate) fn bytes(self, whole: Bytes) -> Bytes {
        if whole.is_empty() { whole } else { Bytes::from_owner(Owner { whole, _kept: self }) }
    }
}

impl Drop for BodyBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Relaxed);
    }
}

struct Owner {
    whole: Bytes,
    _kept: BodyBytes,
}

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        &self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_counts_until_its_last_holder_is_gone() {
        let all = Arc::new(AtomicUsize::new(0));
        let mut one = BodyBytes::of(&all);
        assert!(one.grow(6, 10) && one.grow(4, 10));
        let mut other = BodyBytes::of(&all);
        assert!(!other.grow(1, 10));
        drop(other);
        let bytes = one.bytes(Bytes::from_static(b"0123456789"));
        let slice = bytes.slice(2..4);
        drop(bytes);
        assert_eq!((all.load(Relaxed), &slice[..]), (10, &b"23"[..]));
        drop(slice);
        assert_eq!(all.load(Relaxed), 0);
    }
}
