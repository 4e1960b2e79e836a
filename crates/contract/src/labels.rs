//! Labels that queues declare (`domain::settings::QueueSettings::indexed_labels`), so that tasks are found by
//! them among any number. The declaration is a setting; earlier tasks are indexed in batches, by the service
//! that runs them.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::name::QueueKey;

/// Promises:
/// - **With the task.** After the answer to the save that declares a label, every task of the queue that is
///   inserted or replaced with it is indexed when stored, whichever engine stores it, even one that does not
///   know the setting yet.
/// - **Complete or unused.** A search uses the index only if every possible result is indexed; otherwise it walks.
/// - **Bounded.** A batch reads at most `limit` tasks, and is one short transaction.
/// - **Again.** Any engine may repeat a batch, also concurrently.
#[async_trait]
pub trait LabelStore: Send + Sync {
    /// The declared labels, and the progress of each, for each database.
    async fn label_indexes(&self) -> Result<Vec<LabelIndex>, Error>;

    /// One batch in one database: indexes tasks that were inserted before their label was declared. Returns
    /// how many ids it examined; 0: nothing is left.
    async fn index_labels_in(&self, part: usize, limit: usize) -> Result<usize, Error>;
}

/// The progress of the index of a queue's label in one part of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelIndex {
    pub part: usize,
    pub queue: QueueKey,
    pub label: String,
    /// Tasks that existed when it was declared have ids below this.
    pub begun_id: i64,
    /// Tasks below this id are not indexed yet. `None` if the index is complete.
    pub below_id: Option<i64>,
}

impl LabelIndex {
    /// The percentage of the earlier tasks that is indexed, estimated from their ids.
    #[must_use]
    pub fn percent(&self) -> u8 {
        let Some(below) = self.below_id else { return 100 };
        let done = i128::from(self.begun_id) - i128::from(below);
        let percent = done * 100 / i128::from(self.begun_id).max(1);
        u8::try_from(percent.clamp(0, 99)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_domain::name::Name;

    #[test]
    fn it_is_whole_only_when_nothing_is_left() {
        let name = |text: &str| Name::new(text).unwrap();
        let queue = QueueKey { namespace: name("eu"), queue: name("mail") };
        let at = |below_id| {
            LabelIndex { part: 0, queue: queue.clone(), label: "a".to_owned(), begun_id: 1_000, below_id }
                .percent()
        };
        assert_eq!([at(Some(1_000)), at(Some(500)), at(Some(1)), at(None)], [0, 50, 99, 100]);
    }
}
