//! The names of all keys. All of a partition share one hash tag, all of a queue another, so that each group is in one
//! slot of a Cluster; no script or pipeline may be given keys of two tags.
//!
//! Durable formats while Redis runs: an engine of the next release finds what this one left.

use super::problem::RedisProblem;
use punctual_domain::name::QueueKey;

#[derive(Debug)]
pub(crate) struct PartitionKeys {
    pub(crate) due: String,
    pub(crate) body: String,
    pub(crate) term: String,
    /// The note by which a loss is noticed.
    pub(crate) whole: String,
}

#[derive(Debug)]
pub(crate) struct ReadyKeys {
    pub(crate) order: String,
    pub(crate) tasks: String,
    pub(crate) parked: String,
    pub(crate) whereabouts: String,
}

#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
    partitions: Vec<PartitionKeys>,
}

impl ReadyKeys {
    /// As the scripts that put and take out single entries want them.
    pub(crate) fn all(&self) -> [&str; 4] {
        [&self.order, &self.tasks, &self.parked, &self.whereabouts]
    }
}

impl Keys {
    pub(crate) fn new(prefix: &str, partitions: u16) -> Result<Self, RedisProblem> {
        let plain = |it: u8| it.is_ascii_alphanumeric() || b"._:-".contains(&it);
        if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(plain) {
            return Err(RedisProblem::Prefix(prefix.chars().take(65).collect()));
        }
        let of = |number: u16| {
            let key = |what| format!("{prefix}:{{p{number}}}:{what}");
            let [due, body, term, whole] = ["due", "body", "term", "whole"].map(key);
            PartitionKeys { due, body, term, whole }
        };
        Ok(Self { prefix: prefix.to_owned(), partitions: (0..partitions.max(1)).map(of).collect() })
    }

    pub(crate) fn partitions(&self) -> &[PartitionKeys] {
        &self.partitions
    }

    pub(crate) fn ready(&self, queue: &QueueKey) -> ReadyKeys {
        let key = |what| format!("{}:{{q:{}}}:{what}", self.prefix, queue_word(queue));
        let [order, tasks, parked, whereabouts] = ["order", "tasks", "parked", "where"].map(key);
        ReadyKeys { order, tasks, parked, whereabouts }
    }

    /// SET of the queues that may have something ready, as `queue_word`.
    pub(crate) fn queues(&self) -> String {
        format!("{}:queues", self.prefix)
    }

    /// All of the limiter's keys: in one slot, because limits of all kinds are checked in one step.
    pub(crate) fn limits(&self, what: &str) -> String {
        format!("{}:{{limits}}:{what}", self.prefix)
    }

    /// What engines of 0.2 kept of a partition, and this release fills anew: what was due, and what had fired, in one hash.
    pub(crate) fn of_older_release(&self) -> impl Iterator<Item = Vec<String>> {
        let of = |keys: &PartitionKeys| {
            let firing = format!("{}firing", keys.due.strip_suffix("due").unwrap_or(&keys.due));
            vec![keys.due.clone(), firing, keys.body.clone(), keys.whole.clone()]
        };
        self.partitions.iter().map(of)
    }

    /// Whose all of these are.
    pub(crate) fn cluster(&self) -> String {
        format!("{}:cluster", self.prefix)
    }

    /// Channel of the signals.
    pub(crate) fn signals(&self) -> String {
        format!("{}:signals", self.prefix)
    }
}

/// A slash stands in no name.
pub(crate) fn queue_word(queue: &QueueKey) -> String {
    format!("{}/{}", queue.namespace, queue.queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_could_move_the_hash_tag_is_refused() {
        for bad in ["", "a{b", "}", "a b", &"x".repeat(65)] {
            assert!(Keys::new(bad, 1).is_err(), "{bad:?}");
        }
        assert_eq!(Keys::new("eu:1", 2).unwrap().partitions()[1].due, "eu:1:{p1}:due");
    }
}
