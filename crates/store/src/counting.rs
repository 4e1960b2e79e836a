//! A count of the ledger, where both back ends agree: what their rows, registers and accounts say becomes one result. Must not
//! read anything itself.

use punctual_contract::{
    ledger::{
        FAULTS_MAX, FaultKind, LedgerCount, LedgerFault, PartitionCount, RegisteredTask, TallyDifference,
    },
    store::Books,
};
use punctual_domain::{name::QueueKey, place::Partition, state::State};
use std::collections::{BTreeMap, BTreeSet};

/// What was read so far.
#[derive(Debug, Default)]
pub(crate) struct Counting {
    partitions: BTreeMap<Partition, PartitionCount>,
    rows: BTreeMap<(QueueKey, State), i64>,
    /// Ids in the register.
    registered: i64,
    /// Entries of the register that lead to no row.
    lost: Vec<LedgerFault>,
    /// Rows that the register does not have, or not there.
    strays: Vec<LedgerFault>,
}

impl Counting {
    pub(crate) fn rows(&mut self, partition: Partition, queue: QueueKey, state: State, tasks: i64) {
        let count = self.partition(partition);
        if state.is_in_flight() {
            count.in_flight += tasks;
        } else if state.is_finished() {
            count.finished += tasks;
        } else {
            count.waiting += tasks;
        }
        *self.rows.entry((queue, state)).or_default() += tasks;
    }

    fn partition(&mut self, partition: Partition) -> &mut PartitionCount {
        let new = || PartitionCount { partition, ..PartitionCount::default() };
        self.partitions.entry(partition).or_insert_with(new)
    }

    /// Enters the account of one partition.
    pub(crate) fn account(&mut self, partition: Partition, accepted: i64, deleted: i64) {
        if accepted != 0 || deleted != 0 || self.partitions.contains_key(&partition) {
            let count = self.partition(partition);
            (count.accepted, count.deleted) = (accepted, deleted);
        }
    }

    /// Adds ids of the register.
    pub(crate) fn registered(&mut self, ids: i64) {
        self.registered += ids;
    }

    /// Of one that is kept by id alone, `task` is None.
    pub(crate) fn lost(&mut self, fault: LedgerFault) {
        self.lost.push(fault);
    }

    pub(crate) fn stray(&mut self, fault: LedgerFault) {
        self.strays.push(fault);
    }

    pub(crate) fn finish(self, books: &Books) -> LedgerCount {
        let differences = differences(books, &self.rows);
        LedgerCount {
            accepted: books.accepted,
            deleted: books.deleted,
            registered: self.registered,
            faults: faults(self.lost, self.strays, &differences),
            partitions: self.partitions.into_values().collect(),
            differences,
        }
    }
}

fn differences(books: &Books, rows: &BTreeMap<(QueueKey, State), i64>) -> Vec<TallyDifference> {
    let mut both: BTreeMap<(QueueKey, State), (i64, i64)> = BTreeMap::new();
    for tally in &books.tallies {
        both.entry((tally.queue.clone(), tally.state)).or_default().0 += tally.tasks;
    }
    for (key, tasks) in rows {
        both.entry(key.clone()).or_default().1 += tasks;
    }
    let differs = both.into_iter().filter(|(_, (books, rows))| books != rows);
    differs.map(|((queue, state), (books, rows))| TallyDifference { queue, state, books, rows }).collect()
}

/// A row that is elsewhere is an entry without a row as well: one fault. A stray whose task is where it should be is a
/// double.
fn faults(
    lost: Vec<LedgerFault>,
    strays: Vec<LedgerFault>,
    differences: &[TallyDifference],
) -> Vec<LedgerFault> {
    let without_row: BTreeSet<i64> = lost.iter().map(|fault| fault.id).collect();
    let elsewhere: BTreeSet<i64> = strays.iter().map(|fault| fault.id).collect();
    let found = strays.into_iter().map(|fault| match fault.kind {
        FaultKind::Doubled if without_row.contains(&fault.id) => {
            LedgerFault { kind: FaultKind::Misplaced, ..fault }
        }
        FaultKind::Unregistered if without_row.contains(&fault.id) => {
            LedgerFault { kind: FaultKind::Misplaced, ..fault }
        }
        _ => fault,
    });
    let lost = lost.into_iter().filter(|fault| !elsewhere.contains(&fault.id));
    let mut all: Vec<LedgerFault> = lost.map(|fault| last_known(fault, differences)).chain(found).collect();
    all.sort_by_key(|fault| (fault.partition, fault.kind, fault.id));
    all
}

/// Queue and state, if the tasks that the account has and no row is are all of one.
fn last_known(fault: LedgerFault, differences: &[TallyDifference]) -> LedgerFault {
    let is_of = |tally: &&TallyDifference| {
        let of_namespace = |task: &RegisteredTask| task.namespace == tally.queue.namespace;
        tally.books > tally.rows && fault.task.as_ref().is_none_or(of_namespace)
    };
    let missing: Vec<&TallyDifference> = differences.iter().filter(is_of).collect();
    let Some(first) = missing.first() else { return fault };
    let one_queue = missing.iter().all(|tally| tally.queue == first.queue);
    let one_state = missing.iter().all(|tally| tally.state == first.state);
    LedgerFault {
        queue: one_queue.then(|| first.queue.clone()),
        state: one_state.then_some(first.state),
        ..fault
    }
}

/// Named faults of one kind in one partition, up to the most.
#[derive(Debug, Default)]
pub(crate) struct Named(BTreeMap<(FaultKind, Option<Partition>), usize>);

impl Named {
    pub(crate) fn has_room(&mut self, kind: FaultKind, partition: Option<Partition>) -> bool {
        let count = self.0.entry((kind, partition)).or_default();
        *count += 1;
        *count <= FAULTS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_contract::store::Tally;
    use punctual_domain::name::Name;

    fn queue(name: &str) -> QueueKey {
        QueueKey { namespace: Name::default_namespace(), queue: Name::new(name).unwrap() }
    }

    fn fault(kind: FaultKind, id: i64) -> LedgerFault {
        LedgerFault {
            kind,
            id,
            partition: None,
            task: None,
            queue: None,
            state: None,
            due_at: None,
            reference: None,
        }
    }

    fn books(tallies: &[(&str, State, i64)]) -> Books {
        let tally = |(name, state, tasks): &(&str, State, i64)| Tally {
            queue: queue(name),
            state: *state,
            tasks: *tasks,
        };
        let tallies: Vec<Tally> = tallies.iter().map(tally).collect();
        let accepted = tallies.iter().map(|tally| tally.tasks).sum();
        Books { accepted, tallies, ..Books::default() }
    }

    #[test]
    fn witnesses_that_agree_leave_nothing() {
        let mut counting = Counting::default();
        counting.rows(Partition(1), queue("mail"), State::Scheduled, 2);
        counting.rows(Partition(2), queue("mail"), State::Dead, 1);
        counting.account(Partition(1), 4, 2);
        counting.account(Partition(2), 1, 0);
        counting.account(Partition(3), 0, 0);
        counting.registered(3);
        let count = counting.finish(&books(&[("mail", State::Scheduled, 2), ("mail", State::Dead, 1)]));
        assert_eq!((count.unaccounted(), count.rows(), count.partitions.len()), (0, 3, 2));
        assert!(count.faults.is_empty() && count.differences.is_empty());
    }

    #[test]
    fn a_lost_task_has_the_state_that_the_account_still_counts() {
        let mut counting = Counting::default();
        counting.rows(Partition(0), queue("mail"), State::Scheduled, 1);
        counting.account(Partition(0), 2, 0);
        counting.registered(2);
        counting.lost(fault(FaultKind::Lost, 7));
        let count = counting.finish(&books(&[("mail", State::Scheduled, 1), ("sms", State::Retrying, 1)]));
        assert_eq!(count.unaccounted(), 1);
        let named = &count.faults[0];
        assert_eq!(
            (named.id, named.queue.clone(), named.state),
            (7, Some(queue("sms")), Some(State::Retrying))
        );
    }

    #[test]
    fn of_several_missing_tasks_only_what_all_share_is_known() {
        let mut counting = Counting::default();
        counting.registered(2);
        counting.lost(fault(FaultKind::Lost, 7));
        counting.lost(fault(FaultKind::Lost, 8));
        let count = counting.finish(&books(&[("mail", State::Scheduled, 1), ("mail", State::Dead, 1)]));
        let known: Vec<_> = count.faults.iter().map(|fault| (fault.queue.clone(), fault.state)).collect();
        assert_eq!(known, [(Some(queue("mail")), None), (Some(queue("mail")), None)]);
        assert_eq!(count.unaccounted(), 2);
    }

    #[test]
    fn a_row_that_is_elsewhere_is_one_fault_and_a_second_row_is_a_double() {
        let mut counting = Counting::default();
        counting.rows(Partition(0), queue("mail"), State::Scheduled, 3);
        counting.registered(2);
        counting.lost(fault(FaultKind::Lost, 7));
        counting.stray(fault(FaultKind::Doubled, 7));
        counting.stray(fault(FaultKind::Doubled, 8));
        let count = counting.finish(&books(&[("mail", State::Scheduled, 2)]));
        let kinds: Vec<_> = count.faults.iter().map(|fault| (fault.id, fault.kind)).collect();
        assert_eq!(kinds, [(8, FaultKind::Doubled), (7, FaultKind::Misplaced)]);
    }

    #[test]
    fn an_account_that_was_altered_is_a_difference_without_a_name() {
        let mut counting = Counting::default();
        counting.rows(Partition(0), queue("mail"), State::Scheduled, 2);
        counting.account(Partition(0), 2, 0);
        counting.registered(2);
        let count = counting.finish(&books(&[("mail", State::Scheduled, 1), ("mail", State::Dead, 1)]));
        assert_eq!((count.unaccounted(), count.differences.len(), count.faults.len()), (1, 2, 0));
    }
}
