//! One walk in descending order of ids: over all partitions, or over some whose database was unavailable when
//! the others continued. A walk names partitions, not databases, so that a partition that is moved keeps its
//! position.

use super::Progress;
use crate::time::Millis;
use serde::{Deserialize, Serialize};

/// The progress of a walk over some partitions. Stored as JSON: a field is never renamed. The fields of [`Progress`]
/// itself hold the first walk, as in versions that had only one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Walk {
    /// Sorted. The first walk names none: it has all partitions that no other walk has.
    pub partitions: Vec<u16>,
    /// Tasks with this id or a higher one were planned, or `None` if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_id: Option<i64>,
    /// True if no task is left below `before_id`.
    pub is_through: bool,
    /// References of the next tasks, none of which is accounted for yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batch: Vec<String>,
    /// The number of times that the rest of the batch has failed although its database answered.
    pub tries: u32,
    /// The number of consecutive times that the database did not answer.
    pub waits: u32,
    /// Why it does not continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// It continues then.
    pub again_at: Millis,
}

impl Walk {
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_through && self.batch.is_empty()
    }

    /// Some of its partitions continue in a separate walk, with the rest of their tasks. Not for the first
    /// walk, which names none.
    fn leave(&mut self, gone: &[u16]) {
        self.partitions.retain(|partition| !gone.contains(partition));
    }
}

impl Progress {
    /// The walks that are not over, by number: 0 is the first.
    fn going(&self) -> impl Iterator<Item = (usize, Walk)> {
        let apart = self.apart.iter().cloned().enumerate().map(|(nth, walk)| (nth + 1, walk));
        std::iter::once((0, self.first())).chain(apart).filter(|pair| !pair.1.is_over())
    }

    fn first(&self) -> Walk {
        Walk {
            partitions: Vec::new(),
            before_id: self.before_id,
            is_through: self.is_through,
            batch: self.batch.clone(),
            tries: self.tries,
            waits: self.waits,
            waits_for: self.waits_for.clone(),
            again_at: self.again_at,
        }
    }

    /// The walk whose turn it is: walks alternate batch by batch.
    #[must_use]
    pub fn turn(&self, now: Millis) -> Option<(usize, Walk)> {
        let mut due: Vec<(usize, Walk)> = self.going().filter(|pair| pair.1.again_at <= now).collect();
        let turn = usize::try_from(self.batch_number).unwrap_or(0).checked_rem(due.len())?;
        Some(due.swap_remove(turn))
    }

    /// Stores the state of a walk after a batch. A walk that is over is removed.
    pub fn put(&mut self, nth: usize, walk: Walk) {
        match nth.checked_sub(1) {
            None => {
                let Walk { partitions: _, before_id, is_through, batch, tries, waits, waits_for, again_at } =
                    walk;
                (self.before_id, self.is_through, self.batch) = (before_id, is_through, batch);
                (self.tries, self.waits, self.waits_for, self.again_at) = (tries, waits, waits_for, again_at);
            }
            Some(nth) => {
                if let Some(place) = self.apart.get_mut(nth) {
                    *place = walk;
                }
            }
        }
        self.apart.retain(|walk| !walk.is_over());
    }

    /// Moves partitions of a walk into a separate walk, from its present position, with the rest of their
    /// tasks. Must be called before that walk is stored.
    pub fn part(&mut self, from: &mut Walk, apart: Walk) {
        from.leave(&apart.partitions);
        self.apart.push(apart);
    }

    /// True if no walk has any tasks left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.going().next().is_none()
    }

    /// The instant at which the next waiting walk continues.
    #[must_use]
    pub fn next_at(&self) -> Millis {
        self.going().map(|pair| pair.1.again_at).min().unwrap_or(Millis::ZERO)
    }

    /// Why they do not continue, those that do not.
    #[must_use]
    pub fn waits_for(&self) -> Option<String> {
        let mut all: Vec<String> = self.going().filter_map(|pair| pair.1.waits_for).collect();
        all.dedup();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Partitions with separate walks: the first walk skips them.
    pub fn partitions_apart(&self) -> impl Iterator<Item = u16> {
        self.apart.iter().flat_map(|walk| walk.partitions.iter().copied())
    }

    /// Drops all planned batches.
    pub fn drop_batches(&mut self) {
        self.batch.clear();
        self.apart.iter_mut().for_each(|walk| walk.batch.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = Millis(1_000);

    fn apart(partitions: &[u16], again_at: i64) -> Walk {
        let waits_for = Some(format!("{partitions:?}"));
        Walk { partitions: partitions.to_vec(), again_at: Millis(again_at), waits_for, ..Walk::default() }
    }

    #[test]
    fn what_was_stored_before_there_were_others_is_the_first_walk() {
        let stored = r#"{"count":7,"count_is_exact":true,"previewed_at":5,"before_id":90,"is_through":false,
            "batch":["a"],"batch_number":3,"tries":2,"waits_for":"x","tally":{"done":1,"skipped":2,"failed":3},
            "repeats":false,"confirmed_at":6,"paced_until":7}"#;
        let progress: Progress = serde_json::from_str(stored).unwrap();
        let (nth, walk) = progress.turn(NOW).unwrap();
        assert_eq!(
            (nth, walk.before_id, walk.tries, walk.batch.as_slice()),
            (0, Some(90), 2, ["a".to_owned()].as_slice())
        );
        assert_eq!(
            (walk.partitions.len(), walk.again_at, progress.waits_for().as_deref()),
            (0, Millis::ZERO, Some("x"))
        );
        // Without separate walks it is stored in the old form, for older engines.
        let text = serde_json::to_string(&progress).unwrap();
        assert!(!["apart", "waits\"", "again_at"].iter().any(|name| text.contains(name)), "{text}");
    }

    #[test]
    fn walks_take_turns_and_those_that_wait_keep_nobody() {
        let mut progress =
            Progress { apart: vec![apart(&[1], 0), apart(&[2], 5_000)], ..Progress::default() };
        let mut turns = Vec::new();
        for _ in 0..4 {
            turns.push(progress.turn(NOW).unwrap().0);
            progress.batch_number += 1;
        }
        assert_eq!(turns, [0, 1, 0, 1]);
        assert_eq!(progress.next_at(), Millis::ZERO);
        assert_eq!(progress.waits_for().as_deref(), Some("[1]; [2]"));
        progress.is_through = true;
        progress.put(1, Walk { is_through: true, ..apart(&[1], 0) });
        assert_eq!((progress.apart.len(), progress.turn(NOW), progress.next_at()), (1, None, Millis(5_000)));
        assert!(!progress.is_over());
        progress.put(1, Walk { is_through: true, ..apart(&[2], 0) });
        assert!(progress.is_over());
    }

    #[test]
    fn partitions_that_go_by_themselves_are_nobody_elses() {
        let mut progress = Progress { apart: vec![apart(&[1, 2, 3], 0)], ..Progress::default() };
        let mut from = progress.apart[0].clone();
        progress.part(&mut from, apart(&[2], 9));
        progress.put(1, from);
        let all: Vec<_> = progress.apart.iter().map(|walk| walk.partitions.clone()).collect();
        assert_eq!(all, [vec![1, 3], vec![2]]);
        assert_eq!(progress.partitions_apart().collect::<Vec<_>>(), [1, 3, 2]);
    }
}
