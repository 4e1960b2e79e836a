//! The names of all keys. All of a partition share one hash tag, so that they are in one slot of a Cluster; no script or pipeline may be given keys of two tags.
//!
//! Durable formats while Redis runs: an engine of the next release finds the keys of this one.

use super::problem::RedisProblem;

#[derive(Debug)]
pub(crate) struct PartitionKeys {
    pub(crate) due: String,
    pub(crate) body: String,
    pub(crate) term: String,
    /// The note by which a loss is noticed.
    pub(crate) whole: String,
}

#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
    partitions: Vec<PartitionKeys>,
}

impl Keys {
    pub(crate) fn new(prefix: &str, partitions: u16) -> Result<Self, RedisProblem> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
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

    /// All of the limiter's keys: in one slot, because limits of all kinds are checked in one step.
    pub(crate) fn limits(&self, what: &str) -> String {
        format!("{}:{{limits}}:{what}", self.prefix)
    }

    /// The keys of a partition in older releases, which this release fills anew: due tasks, and fired tasks,
    /// in one hash.
    pub(crate) fn of_older_release(&self) -> impl Iterator<Item = Vec<String>> {
        let of = |keys: &PartitionKeys| {
            let firing = format!("{}firing", keys.due.strip_suffix("due").unwrap_or(&keys.due));
            vec![keys.due.clone(), firing, keys.body.clone(), keys.whole.clone()]
        };
        self.partitions.iter().map(of)
    }

    /// The SET of the queues of which older releases stored something that had fired, each as a word for
    /// `ready_of_older_release`.
    pub(crate) fn queues_of_older_release(&self) -> String {
        format!("{}:queues", self.prefix)
    }

    /// The keys of one queue in older releases.
    pub(crate) fn ready_of_older_release(prefix: &str, word: &str) -> Vec<String> {
        ["order", "tasks", "parked", "where"].map(|what| format!("{prefix}:{{q:{word}}}:{what}")).to_vec()
    }

    /// The key of the cluster's marker.
    pub(crate) fn cluster(&self) -> String {
        format!("{}:cluster", self.prefix)
    }

    /// Channel of the signals for all engines; with the name of an engine behind it, of those for that engine.
    pub(crate) fn signals(&self) -> String {
        format!("{}:signals", self.prefix)
    }
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
