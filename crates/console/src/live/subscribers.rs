//! Limits the number of live pages: in total, and of one token, so that no token occupies the places of all others. A
//! place is released when it is dropped.

use blake3::Hash;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};

#[derive(Debug)]
pub(super) struct Subscribers {
    max: usize,
    /// The maximum of one token.
    of_one_max: usize,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    count: usize,
    of: HashMap<Hash, usize>,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    OfOne,
    Of,
}

#[derive(Debug)]
pub(super) struct Subscription {
    who: Option<Hash>,
    taken: Arc<Mutex<Taken>>,
}

impl Subscribers {
    pub(super) fn new(max: usize, of_one_max: usize) -> Self {
        Self { max, of_one_max, taken: Arc::default() }
    }

    /// Occupies a place. Without tokens all callers are one, and may occupy all.
    pub(super) fn take(&self, who: Option<Hash>) -> Result<Subscription, Full> {
        let mut taken = self.taken.lock();
        if let Some(who) = who
            && taken.of.get(&who).is_some_and(|one| *one >= self.of_one_max)
        {
            return Err(Full::OfOne);
        }
        if taken.count >= self.max {
            return Err(Full::Of);
        }
        taken.count += 1;
        if let Some(who) = who {
            *taken.of.entry(who).or_default() += 1;
        }
        Ok(Subscription { who, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut taken = self.taken.lock();
        taken.count -= 1;
        if let Some(who) = self.who
            && let Some(count) = taken.of.get_mut(&who)
        {
            *count -= 1;
            if *count == 0 {
                taken.of.remove(&who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_takes_more_than_its_part_and_what_is_given_back_is_free() {
        let (subscribers, hash) = (Subscribers::new(4, 2), |of: &str| Some(blake3::hash(of.as_bytes())));
        let first = subscribers.take(hash("a")).unwrap();
        let second = subscribers.take(hash("a")).unwrap();
        assert_eq!(subscribers.take(hash("a")).unwrap_err(), Full::OfOne);
        let _other = subscribers.take(hash("b")).unwrap();
        let last = subscribers.take(None).unwrap();
        assert_eq!(subscribers.take(hash("c")).unwrap_err(), Full::Of);
        drop(last);
        drop(first);
        let again = subscribers.take(hash("a")).unwrap();
        drop(again);
        drop(second);
        assert_eq!(subscribers.taken.lock().of.len(), 1, "nothing is kept of who has none");
    }
}
