//! Labels that queues declare (`domain::settings::QueueSettings::indexed_labels`), so that tasks are found by them in any
//! crowd. Which are declared is a setting; what stood before it was declared is entered in batches, by the service that runs them.

use crate::error::Error;
use async_trait::async_trait;
use punctual_domain::name::QueueKey;

/// Promises:
/// - **With the task.** From the answer to the save that declares it, every task of the queue that is inserted or replaced with
///   the label is found by it when it is stored, whoever stores it and whatever that engine knows of the settings.
/// - **Whole or not at all.** A search uses the index only where every task that it could find is entered; otherwise it walks.
/// - **Bounded.** A batch looks at no more tasks than its limit, and is one short transaction.
/// - **Again.** A batch can be repeated, by anybody and beside others.
#[async_trait]
pub trait LabelStore: Send + Sync {
    /// What is declared, and how far each is, part by part.
    async fn label_indexes(&self) -> Result<Vec<LabelIndex>, Error>;

    /// One batch of one part: enters tasks that stood before their label was declared. How many ids it passed over; 0: there is
    /// nothing left to do.
    async fn index_labels_in(&self, part: usize, limit: usize) -> Result<usize, Error>;
}

/// How far a label of a queue is in one part of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelIndex {
    pub part: usize,
    pub queue: QueueKey,
    pub label: String,
    /// Tasks that stood when it was declared have ids below this.
    pub begun_id: i64,
    /// Of those, the ones below this are still to be entered; None: it is whole.
    pub below_id: Option<i64>,
}

impl LabelIndex {
    /// Of the tasks that stood when it was declared, as far as their ids say.
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
