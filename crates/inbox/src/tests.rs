//! A relay against a table and an intake in memory, which fail where the test says so.

use crate::{Intake, Relay, RowVerdict, Trouble};
use async_trait::async_trait;
use parking_lot::Mutex;
use punctual_contract::{
    Error, InboxTable,
    inbox::{InboxCounts, InboxRow, RefusedRow, RowHead},
};
use punctual_domain::{name::Name, time::Millis};
use punctual_protocol::InsertTask;
use std::{collections::BTreeMap, sync::Arc};

#[derive(Debug, Default)]
struct MemoryTable {
    rows: Mutex<BTreeMap<i64, (InboxRow, bool)>>,
    refused: Mutex<Vec<RefusedRow>>,
}

#[async_trait]
impl InboxTable for MemoryTable {
    fn at(&self) -> String {
        "h/d".to_owned()
    }

    async fn hold(&self) -> Result<bool, Error> {
        Ok(true)
    }

    async fn heads(&self, above: i64, limit: usize) -> Result<Vec<RowHead>, Error> {
        let rows = self.rows.lock();
        Ok(rows.range(above + 1..).take(limit).map(|(_, (row, _))| row.head.clone()).collect())
    }

    async fn offer(&self, ids: &[i64]) -> Result<Vec<InboxRow>, Error> {
        let mut rows = self.rows.lock();
        let offered = |id: &i64| {
            let (row, is_marked) = rows.get_mut(id)?;
            let found = InboxRow { offered_before_ms: is_marked.then_some(0), ..row.clone() };
            *is_marked = true;
            Some(found)
        };
        Ok(ids.iter().filter_map(offered).collect())
    }

    async fn withdraw_offer(&self, ids: &[i64]) -> Result<(), Error> {
        let mut rows = self.rows.lock();
        ids.iter().for_each(|id| rows.get_mut(id).into_iter().for_each(|row| row.1 = false));
        Ok(())
    }

    async fn remove(&self, ids: &[i64]) -> Result<(), Error> {
        self.rows.lock().retain(|id, _| !ids.contains(id));
        Ok(())
    }

    async fn refuse(&self, refused: &[RefusedRow]) -> Result<(), Error> {
        self.rows.lock().retain(|id, _| refused.iter().all(|row| row.id != *id));
        self.refused.lock().extend_from_slice(refused);
        Ok(())
    }

    async fn counts(&self) -> Result<InboxCounts, Error> {
        Ok(InboxCounts { waiting: self.rows.lock().len() as u64, ..InboxCounts::default() })
    }

    async fn let_go(&self) {}
}

/// Answers as the test says, and remembers the keys of its calls.
#[derive(Debug, Default)]
struct Recorder {
    calls: Mutex<Vec<Vec<String>>>,
    /// By queue; inserted unless it is here.
    answers: Mutex<BTreeMap<String, RowVerdict>>,
    now: Mutex<i64>,
    /// Of the last call.
    by: Mutex<Option<Millis>>,
    known_for_ms: Mutex<i64>,
    /// How much later it is at each question.
    step_ms: Mutex<i64>,
}

#[async_trait]
impl Intake for Recorder {
    fn now(&self) -> Millis {
        let mut now = self.now.lock();
        *now += *self.step_ms.lock();
        Millis(*now)
    }

    fn known_for_ms(&self, _: &Name, _: &str) -> i64 {
        *self.known_for_ms.lock()
    }

    fn payload_max_bytes(&self) -> u64 {
        100
    }

    async fn insert(&self, _: &str, _: &Name, tasks: Vec<InsertTask>, by: Millis) -> Vec<RowVerdict> {
        *self.by.lock() = Some(by);
        self.calls.lock().push(tasks.iter().filter_map(|task| task.key.clone()).collect());
        let answers = self.answers.lock();
        let answer = |task: &InsertTask| answers.get(&task.queue).cloned().unwrap_or(RowVerdict::Inserted);
        tasks.iter().map(answer).collect()
    }

    async fn is_known(&self, _: &Name, _: &str, _: i64) -> Result<bool, String> {
        Ok(false)
    }

    fn report(&self, _: &str, _: Trouble) {}
}

fn table(rows: &[(i64, &str, &str)]) -> Arc<MemoryTable> {
    let row = |(id, queue, key): &(i64, &str, &str)| {
        let (queue, key) = ((*queue).to_owned(), Some((*key).to_owned()));
        let head = RowHead { id: *id, namespace: "default".to_owned(), queue, key, bytes: 1 };
        (*id, (InboxRow { head, ..InboxRow::default() }, false))
    };
    Arc::new(MemoryTable { rows: Mutex::new(rows.iter().map(row).collect()), ..MemoryTable::default() })
}

async fn run(table: &Arc<MemoryTable>, intake: &Arc<Recorder>) -> Relay {
    let relay = Relay::new("shop", None, table.clone(), intake.clone());
    relay.run_once(Millis(0)).await.unwrap();
    relay
}

#[tokio::test]
async fn rows_of_one_key_are_never_in_one_call() {
    let (table, intake) =
        (table(&[(1, "q", "a"), (2, "q", "b"), (3, "q", "a"), (4, "q", "a")]), Arc::default());
    run(&table, &intake).await;
    assert_eq!(*intake.calls.lock(), [vec!["a", "b"], vec!["a"], vec!["a"]]);
    assert!(table.rows.lock().is_empty());
}

#[tokio::test]
async fn what_is_not_taken_now_stays_without_doubt_and_no_other_row_of_the_key_passes() {
    let table = table(&[(1, "full", "a"), (2, "q", "b"), (3, "q", "a"), (4, "q", "c")]);
    let intake = Arc::new(Recorder::default());
    intake.answers.lock().insert("full".to_owned(), RowVerdict::NotNow("full".to_owned()));
    let relay = run(&table, &intake).await;
    let left: Vec<(i64, bool)> = table.rows.lock().iter().map(|(id, row)| (*id, row.1)).collect();
    assert_eq!(left, [(1, false), (3, false)]);
    assert_eq!(relay.report().numbers.put_off, 1);
}

#[tokio::test]
async fn what_may_be_inserted_stays_in_doubt() {
    let (table, intake) = (table(&[(1, "q", "a")]), Arc::new(Recorder::default()));
    intake.answers.lock().insert("q".to_owned(), RowVerdict::Unknown("lost".to_owned()));
    let relay = run(&table, &intake).await;
    assert!(table.rows.lock()[&1].1);
    assert_eq!(relay.report().last_error.unwrap().1, "lost");
}

#[tokio::test]
async fn a_relay_that_was_frozen_between_read_and_insert_inserts_nothing() {
    let (table, intake) = (table(&[(1, "q", "a")]), Arc::new(Recorder::default()));
    *intake.step_ms.lock() = 30_001;
    run(&table, &intake).await;
    assert!(intake.calls.lock().is_empty());
    assert!(!table.rows.lock()[&1].1);
    *intake.step_ms.lock() = 0;
    run(&table, &intake).await;
    assert_eq!(*intake.calls.lock(), [["a"]]);
}

#[tokio::test]
async fn the_store_gets_the_time_until_which_it_may_insert_what_was_read() {
    let (table, intake) = (table(&[(1, "q", "a")]), Arc::new(Recorder::default()));
    *intake.now.lock() = 5_000;
    // Between the read and the call.
    *intake.step_ms.lock() = 20_000;
    run(&table, &intake).await;
    assert_eq!(*intake.by.lock(), Some(Millis(25_000 + 30_000)), "counted from the read, not from the call");
}

/// A first offer may be on its way for `FIRST_OFFER_MS`: where tasks are forgotten sooner, no second offer is inserted blindly.
#[tokio::test]
async fn a_second_offer_is_inserted_only_while_the_task_of_the_first_must_be_known() {
    for (known_for_ms, inserted) in [(1_000, 0), (300_000, 0), (86_400_000, 1)] {
        let (table, intake) = (table(&[(1, "q", "a")]), Arc::new(Recorder::default()));
        *intake.known_for_ms.lock() = known_for_ms;
        table.rows.lock().get_mut(&1).unwrap().1 = true;
        run(&table, &intake).await;
        assert_eq!(intake.calls.lock().len(), inserted, "{known_for_ms}");
        assert_eq!(table.refused.lock().len(), 1 - inserted);
    }
}

#[tokio::test]
async fn a_payload_that_is_too_long_is_refused_and_not_read() {
    let (table, intake) = (table(&[(1, "q", "a"), (2, "q", "b")]), Arc::new(Recorder::default()));
    table.rows.lock().get_mut(&1).unwrap().0.head.bytes = 101;
    run(&table, &intake).await;
    assert_eq!(*intake.calls.lock(), [["b"]]);
    assert_eq!(table.refused.lock()[0].why, "payload: has 101 bytes, and may have at most 100");
}
