//! The running account inside one transaction: jobs enter what they move, the end of the transaction writes the
//! sums, in one fixed order. Must never be written in another transaction than the rows it counts.

use super::{
    chunks::noted::Noted,
    row,
    statements::{Many, bind, sql},
    trips::{Literal, Trips},
};
use punctual_domain::{place::Partition, state::State};
use sqlx::{MySqlConnection, mysql::MySqlArguments};
use std::collections::{BTreeMap, HashMap};

pub(crate) static ADD_TO_BOOKS: Many = Many::new(sql!(ledger, add_to_books));
static ADD_TO_COUNTERS: Many = Many::new(sql!(ledger, add_to_counters));
static ADD_TO_DELETED: Many = Many::new(sql!(ledger, add_to_deleted));

/// Names that are kept from one transaction to the next: they may be made up without end.
const NAMES_MAX: usize = 10_000;
/// One more than the highest code of a state.
const CODES: usize = 13;

#[derive(Debug)]
pub(crate) struct Ledger {
    /// Of the writing connection: no other one has its rows of the account, as long as the numbers last.
    slot: i32,
    /// Positions in `queues`.
    known: HashMap<Box<str>, HashMap<Box<str>, usize>>,
    queues: Vec<Account>,
    /// The queue that was entered last: the rows of a batch mostly share it.
    last: usize,
    touched: Vec<usize>,
    accepted: i64,
    /// Deleted tasks by partition, in the order in which their rows of the account are locked.
    deleted: BTreeMap<i32, i64>,
    /// Written to although nothing is counted.
    is_checked: bool,
    /// Where the tasks of queues are to be found: written with the sums.
    pub(crate) chunks: Noted,
}

/// What the transaction has moved in one queue, by the codes of states.
#[derive(Debug)]
struct Account {
    namespace: Box<str>,
    queue: Box<str>,
    tasks: [i64; CODES],
    /// Of payloads of tasks that wait.
    bytes: i64,
    is_touched: bool,
}

/// A row of the account.
struct Row<'a> {
    account: &'a Account,
    code: i32,
    tasks: i64,
    bytes: i64,
}

impl Ledger {
    pub(crate) fn new(slot: i32) -> Self {
        Self {
            slot,
            known: HashMap::new(),
            queues: Vec::new(),
            last: 0,
            touched: Vec::new(),
            accepted: 0,
            deleted: BTreeMap::new(),
            is_checked: false,
            chunks: Noted::new(),
        }
    }

    /// A task of a queue leaves a state and enters another. `None` if it comes into being, or ceases to be, in this
    /// queue. `bytes`: of its payload; they count only where it waits on one side and not on the other.
    pub(crate) fn moved(
        &mut self,
        (namespace, queue): (&str, &str),
        from: Option<State>,
        to: Option<State>,
        bytes: i64,
    ) {
        if from == to {
            return;
        }
        let account = self.touch(namespace, queue);
        for (state, by) in [(from, -1), (to, 1)] {
            let Some(state) = state else { continue };
            if let Some(tasks) = account.tasks.get_mut(usize::from(state.code())) {
                *tasks += by;
            }
            account.bytes += if state.is_pending() { by * bytes } else { 0 };
        }
    }

    /// A task that waits has so many more bytes, or fewer.
    pub(crate) fn resized(&mut self, namespace: &str, queue: &str, by: i64) {
        self.touch(namespace, queue).bytes += by;
    }

    fn touch(&mut self, namespace: &str, queue: &str) -> &mut Account {
        let at = self.queue(namespace, queue);
        let account = self.queues.get_mut(at).expect("its place was just found");
        if !account.is_touched {
            account.is_touched = true;
            self.touched.push(at);
        }
        account
    }

    /// Rows that were created.
    pub(crate) fn accepted(&mut self, tasks: i64) {
        self.accepted += tasks;
    }

    /// Whether it can be written is to be known.
    pub(crate) fn check(&mut self) {
        self.is_checked = true;
    }

    /// Enters rows that were deleted.
    pub(crate) fn deleted(&mut self, partition: Partition, tasks: i64) {
        *self.deleted.entry(row::partition_no(partition)).or_default() += tasks;
    }

    fn queue(&mut self, namespace: &str, queue: &str) -> usize {
        let last = self.queues.get(self.last);
        if last.is_none_or(|account| *account.queue != *queue || *account.namespace != *namespace) {
            let known = self.known.get(namespace).and_then(|known| known.get(queue)).copied();
            self.last = known.unwrap_or_else(|| self.meet(namespace, queue));
        }
        self.last
    }

    fn meet(&mut self, namespace: &str, queue: &str) -> usize {
        let at = self.queues.len();
        self.queues.push(Account {
            namespace: namespace.into(),
            queue: queue.into(),
            tasks: [0; CODES],
            bytes: 0,
            is_touched: false,
        });
        self.known.entry(namespace.into()).or_default().insert(queue.into(), at);
        at
    }

    /// Writes the sums along with the commit.
    pub(crate) fn write_at_last(&mut self, trips: &mut Trips) {
        self.sort();
        self.chunks.write_at_last(self.slot, trips);
        let slot = Literal::Int(self.slot.into());
        for (part, text) in ADD_TO_BOOKS.parts(&self.entries()) {
            let mut values = Vec::with_capacity(part.len() * 6);
            for Row { account, code, tasks, bytes } in part {
                let names = [&account.namespace, &account.queue].map(|text| Literal::Text(text));
                values.push(slot);
                values.extend(names);
                values.extend([i64::from(*code), *tasks, *bytes].map(Literal::Int));
            }
            trips.at_last(text, &values);
        }
        for (part, text) in ADD_TO_COUNTERS.parts(&self.counts()) {
            let row = |pair: &(&'static str, i64)| [slot, Literal::Text(pair.0), Literal::Int(pair.1)];
            trips.at_last(text, &part.iter().flat_map(row).collect::<Vec<_>>());
        }
        for (part, text) in ADD_TO_DELETED.parts(&self.deleted_rows()) {
            let row = |(partition, tasks): &(i32, i64)| {
                [slot, Literal::Int((*partition).into()), Literal::Int(*tasks)]
            };
            trips.at_last(text, &part.iter().flat_map(row).collect::<Vec<_>>());
        }
    }

    /// By name, so that two writers that share a slot lock its rows in the same order.
    fn sort(&mut self) {
        let queues = &self.queues;
        let names = |at: &usize| queues.get(*at).map(|queue| (&queue.namespace, &queue.queue));
        self.touched.sort_unstable_by(|a, b| names(a).cmp(&names(b)));
    }

    fn entries(&self) -> Vec<Row<'_>> {
        let mut rows = Vec::new();
        for account in self.touched.iter().filter_map(|at| self.queues.get(*at)) {
            let mut bytes = account.bytes;
            for (tasks, code) in account.tasks.iter().copied().zip(0_i32..).filter(|pair| pair.0 != 0) {
                // Only their sum over the states means something: they go with the first.
                rows.push(Row { account, code, tasks, bytes: std::mem::take(&mut bytes) });
            }
            if bytes != 0 {
                let code = i32::from(State::Scheduled.code());
                rows.push(Row { account, code, tasks: 0, bytes });
            }
        }
        rows
    }

    fn counts(&self) -> Vec<(&'static str, i64)> {
        let deleted = self.deleted.values().sum();
        let counts = [("accepted", self.accepted, self.is_checked), ("deleted", deleted, false)];
        counts.into_iter().filter(|count| count.1 != 0 || count.2).map(|count| (count.0, count.1)).collect()
    }

    /// Writes the sums; to be followed by the commit.
    pub(crate) async fn write(&mut self, conn: &mut MySqlConnection) -> sqlx::Result<()> {
        self.sort();
        for (part, text) in ADD_TO_BOOKS.parts(&self.entries()) {
            let mut values = MySqlArguments::default();
            for Row { account, code, tasks, bytes } in part {
                bind!(values, self.slot, &*account.namespace, &*account.queue, *code, *tasks, *bytes);
            }
            sqlx::query_with(text, values).execute(&mut *conn).await?;
        }
        self.count(conn).await
    }

    async fn count(&self, conn: &mut MySqlConnection) -> sqlx::Result<()> {
        for (part, text) in ADD_TO_COUNTERS.parts(&self.counts()) {
            let mut values = MySqlArguments::default();
            for (name, by) in part {
                bind!(values, self.slot, *name, *by);
            }
            sqlx::query_with(text, values).execute(&mut *conn).await?;
        }
        for (part, text) in ADD_TO_DELETED.parts(&self.deleted_rows()) {
            let mut values = MySqlArguments::default();
            for (partition, tasks) in part {
                bind!(values, self.slot, *partition, *tasks);
            }
            sqlx::query_with(text, values).execute(&mut *conn).await?;
        }
        Ok(())
    }

    fn deleted_rows(&self) -> Vec<(i32, i64)> {
        self.deleted.iter().map(|(partition, tasks)| (*partition, *tasks)).collect()
    }

    /// Forgets what was entered: after the commit, and before a transaction is run again.
    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
        for at in self.touched.drain(..) {
            if let Some(account) = self.queues.get_mut(at) {
                (account.tasks, account.bytes) = ([0; CODES], 0);
                account.is_touched = false;
            }
        }
        (self.accepted, self.is_checked) = (0, false);
        self.deleted.clear();
        if self.queues.len() > NAMES_MAX {
            (self.known, self.queues, self.last) = (HashMap::new(), Vec::new(), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(ledger: &Ledger) -> Vec<(&str, Vec<(usize, i64)>)> {
        let codes = |account: &Account| {
            account.tasks.iter().copied().enumerate().filter(|entry| entry.1 != 0).collect()
        };
        ledger.queues.iter().map(|queue| (&*queue.queue, codes(queue))).collect()
    }

    #[test]
    fn every_state_has_a_place_in_the_account() {
        assert!(State::ALL.iter().all(|state| usize::from(state.code()) < CODES));
    }

    #[test]
    fn what_goes_and_comes_back_leaves_nothing() {
        let mut ledger = Ledger::new(0);
        ledger.moved(("n", "a"), None, Some(State::Scheduled), 7);
        ledger.moved(("n", "b"), Some(State::Scheduled), Some(State::Ready), 7);
        ledger.moved(("n", "b"), Some(State::Ready), Some(State::Ready), 7);
        ledger.moved(("n", "a"), Some(State::Scheduled), None, 7);
        assert!(ledger.entries().iter().all(|row| row.bytes == 0));
        assert_eq!(sums(&ledger), [("a", vec![]), ("b", vec![(1, -1), (3, 1)])]);
        ledger.clear();
        assert_eq!(sums(&ledger), [("a", vec![]), ("b", vec![])]);
        ledger.moved(("n", "b"), None, Some(State::Dead), 7);
        assert_eq!(sums(&ledger), [("a", vec![]), ("b", vec![(9, 1)])], "counts again after a clear");
    }

    #[test]
    fn names_are_forgotten_after_a_transaction_when_they_are_many() {
        let mut ledger = Ledger::new(0);
        let mut meet = |from: usize, to: usize| {
            for nth in from..to {
                ledger.moved(("n", &format!("q{nth}")), None, Some(State::Scheduled), 0);
            }
            let entries = ledger.entries().len();
            ledger.clear();
            (entries, ledger.queues.len())
        };
        assert_eq!(meet(0, NAMES_MAX), (NAMES_MAX, NAMES_MAX));
        assert_eq!(meet(NAMES_MAX - 1, NAMES_MAX + 2), (3, 0));
        assert_eq!(meet(0, 2), (2, 2), "and counts on");
    }

    #[test]
    fn bytes_are_counted_while_a_task_waits_and_once_for_all_its_states() {
        let mut ledger = Ledger::new(0);
        let rows = |ledger: &Ledger| -> Vec<(i32, i64, i64)> {
            ledger.entries().iter().map(|row| (row.code, row.tasks, row.bytes)).collect()
        };
        ledger.moved(("n", "a"), None, Some(State::Scheduled), 7);
        ledger.moved(("n", "a"), None, Some(State::Scheduled), 5);
        ledger.moved(("n", "a"), Some(State::Scheduled), Some(State::Dispatched), 7);
        assert_eq!(rows(&ledger), [(1, 1, 5), (4, 1, 0)]);
        ledger.clear();
        ledger.resized("n", "a", -3);
        assert_eq!(rows(&ledger), [(1, 0, -3)], "no task has moved");
        ledger.moved(("n", "a"), Some(State::Running), Some(State::Retrying), 2);
        assert_eq!(rows(&ledger).iter().map(|row| row.2).sum::<i64>(), -1);
    }
}
