//! Outcomes while their database does not answer: taken into the engine's journal, applied when it is back, and what a crash between
//! any two of the steps does (`engine::for_later` numbers them). On the embedded back ends, and on real MySQL and Redis.

mod databases;
mod handed_over;

use crate::crash_points::{Embedded, Ground, OnServers, Stand, WallClock, queue, succeeded};
use async_trait::async_trait;
use punctual_contract::{
    Journal, Limiter, Store,
    journal::{AppendResult, AttemptKey, JournalError, JournalSize, KeptRecord, NewRecord},
    store::{Assignment, Beat, Change, Step},
};
use punctual_domain::{
    access::{Grant, Role},
    history::Note,
    log::{self, LogLine},
    name::Name,
    outcome::Report,
    state::State,
    task::{NewTask, Task},
};
use punctual_engine::{
    Backends, Engine, JournalNumbers, LeaseRequest, Options, OutcomeReport, Reported, Running, Submission,
};
use punctual_store::{FileJournal, JournalOptions};
use punctual_testkit::{
    faults::{Dials, FaultyStore, StoreGroup},
    patience::{HANG_LIMIT, until},
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};
use tokio::runtime::Runtime;

const LONG_MS: i64 = 3_600_000;
const SHORT_MS: i64 = 3_000;

/// A journal that can hide its records: waiting reports are then not applied.
#[derive(Debug)]
struct Hiding {
    journal: FileJournal,
    hides: AtomicBool,
    /// Records are durable, but no answer is returned.
    is_silent: AtomicBool,
}

#[async_trait]
impl Journal for Hiding {
    async fn keep(&self, records: Vec<NewRecord>) -> Result<Vec<AppendResult>, JournalError> {
        let kept = self.journal.keep(records).await;
        if self.is_silent.load(SeqCst) {
            std::future::pending::<()>().await;
        }
        kept
    }

    async fn waiting(&self, after: u64, bytes: usize) -> Result<Vec<KeptRecord>, JournalError> {
        if self.hides.load(SeqCst) { Ok(Vec::new()) } else { self.journal.waiting(after, bytes).await }
    }

    async fn done(&self, numbers: Vec<u64>) {
        self.journal.done(numbers).await;
    }

    async fn take_over(&self) -> Result<usize, JournalError> {
        self.journal.take_over().await
    }

    fn digest_of(&self, key: AttemptKey) -> Option<u64> {
        self.journal.digest_of(key)
    }

    fn size(&self) -> JournalSize {
        self.journal.size()
    }
}

struct ForLaterRig {
    truth: Arc<dyn Store>,
    limiter: Arc<dyn Limiter>,
    store: Arc<FaultyStore>,
    journal: Arc<Hiding>,
    engine: Engine,
    running: Running,
}

fn journal(directory: &Path, bytes_max: u64) -> Arc<Hiding> {
    opened(JournalOptions { directory: directory.to_owned(), bytes_max, owner: [1; 16], is_alone: false })
}

fn opened(options: JournalOptions) -> Arc<Hiding> {
    let (journal, _) = FileJournal::open(&options).unwrap();
    Arc::new(Hiding { journal, hides: AtomicBool::default(), is_silent: AtomicBool::default() })
}

async fn rig(ground: &dyn Ground, directory: &Path) -> ForLaterRig {
    rig_with(ground, journal(directory, 1 << 20)).await
}

async fn rig_with(ground: &dyn Ground, journal: Arc<Hiding>) -> ForLaterRig {
    let Stand { store: truth, hot, limiter, bus, shared } = ground.stand().await;
    let store = Arc::new(FaultyStore::new(Arc::clone(&truth), 1));
    let backends = Backends {
        store: store.clone(),
        hot,
        limiter: limiter.clone(),
        bus,
        clock: Arc::new(WallClock),
        blobs: None,
        shared,
    };
    let name = format!("engine-{:08x}", fastrand::u32(..));
    let engine = Engine::new(backends, Options { name, ..Options::default() });
    assert!(engine.keep_outcomes_in(journal.clone()));
    let running = engine.start().unwrap();
    ForLaterRig { truth, limiter, store, journal, engine, running }
}

impl ForLaterRig {
    async fn leased(&self, lease_ms: i64) -> Assignment {
        let task = NewTask::new(queue(), Name::new("k").unwrap(), self.engine.now());
        let place = self.engine.insert(vec![task], "test").await.unwrap().remove(0).task.place;
        let lease = self.lease(lease_ms).await;
        assert_eq!((lease.place.id, lease.attempt), (place.id, 1));
        lease
    }

    async fn lease(&self, lease_ms: i64) -> Assignment {
        let (queue, executor) = (Arc::new(queue()), "ann".to_owned());
        let wait_ms = HANG_LIMIT.as_secs() * 1_000;
        let request = LeaseRequest { queue, max: 1, wait_ms, lease_ms, executor, version: None };
        let mut leased = self.engine.lease(request).await.unwrap();
        assert_eq!(leased.len(), 1, "none has come");
        leased.remove(0)
    }

    /// Nothing that engines write of tasks is taken.
    fn lose_database(&self) {
        for group in [
            StoreGroup::Apply,
            StoreGroup::Dispatch,
            StoreGroup::Extend,
            StoreGroup::Read,
            StoreGroup::Leases,
        ] {
            self.store.faults.set(group, Dials::REFUSES);
        }
    }

    async fn record_outcomes(&self, report: OutcomeReport) -> Reported {
        self.engine.record_outcomes(vec![report], "ann").await.unwrap().remove(0)
    }

    /// How often one of the engine's services has come to its end.
    fn runs_of(&self, service: &str) -> u64 {
        let services = self.engine.meters().services();
        services.iter().filter(|one| one.name == service).map(|one| one.runs).sum()
    }

    /// Waits until the engine has read due and overdue tasks, by both services that read them.
    async fn has_looked(&self) {
        let runs = || ["from_store", "refill"].map(|service| self.runs_of(service));
        let before = runs();
        until("it has looked", || async {
            runs().iter().zip(before).all(|(runs, before)| *runs > before + 2)
        })
        .await;
    }

    fn numbers(&self) -> JournalNumbers {
        self.engine.journal_numbers().unwrap()
    }

    async fn task(&self, of: &Assignment) -> Task {
        self.truth.read(&[of.place]).await.unwrap().remove(0).unwrap()
    }

    async fn nothing_waits(&self) {
        until("nothing waits in the journal", || async { self.numbers().waiting.records == 0 }).await;
    }

    /// Its outcome is taken, perhaps for later: the engine may not have noticed yet that its database is back.
    async fn ends_well(&self, lease: &Assignment) {
        let recorded = self.record_outcomes(succeeded(lease)).await;
        assert!(matches!(recorded, Reported::Accepted | Reported::ForLater), "{recorded:?}");
        until("the database has the outcome", || async { self.task(lease).await.state == State::Succeeded })
            .await;
    }

    async fn has_ended_well(&self, of: &Assignment) {
        self.nothing_waits().await;
        let task = self.task(of).await;
        assert_eq!((task.state, task.attempt), (State::Succeeded, 1), "{task:?}");
    }

    async fn stop(self) {
        self.running.stop().await;
    }
}

async fn it_is_acknowledged_and_applied_when_the_database_is_back(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let (first, second, third) =
        (rig.leased(LONG_MS).await, rig.leased(LONG_MS).await, rig.leased(LONG_MS).await);
    rig.lose_database();
    assert_eq!(rig.record_outcomes(succeeded(&first)).await, Reported::ForLater);
    let failed = OutcomeReport { report: Report::Failed { after_ms: Some(LONG_MS) }, ..succeeded(&second) };
    assert_eq!(rig.record_outcomes(failed.clone()).await, Reported::ForLater);
    assert_eq!(rig.task(&first).await.state, State::Dispatched);
    let waiting = rig.numbers().waiting;
    // Who did not hear the answer reports again; who says something else now is too late.
    assert_eq!(rig.record_outcomes(succeeded(&first)).await, Reported::ForLater);
    assert_eq!(rig.record_outcomes(succeeded(&second)).await, Reported::Stale);
    assert_eq!((rig.numbers().waiting, rig.numbers().kept), (waiting, 2));
    rig.store.faults.heal();
    rig.has_ended_well(&first).await;
    let retried = rig.task(&second).await;
    assert_eq!((retried.state, retried.attempt), (State::Retrying, 1));
    assert_eq!((rig.numbers().applied, rig.numbers().stale), (2, 0));
    rig.ends_well(&third).await;
    assert_eq!(rig.record_outcomes(failed).await, Reported::Stale);
    rig.stop().await;
}

/// Step 1 has happened, and its answer is lost.
async fn what_the_store_had_written_all_the_same_counts_once(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let lease = rig.leased(LONG_MS).await;
    rig.store.faults.set(StoreGroup::Apply, Dials::ANSWERS_LOST);
    assert_eq!(rig.record_outcomes(succeeded(&lease)).await, Reported::ForLater);
    rig.store.faults.heal();
    rig.has_ended_well(&lease).await;
    assert_eq!((rig.numbers().applied, rig.numbers().stale), (0, 1));
    rig.stop().await;
}

/// Before step 2 is done nothing is acknowledged, and the task runs again.
async fn what_does_not_fit_is_refused_and_its_task_runs_again(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig_with(&*ground, journal(directory.path(), 64)).await;
    let lease = rig.leased(SHORT_MS).await;
    rig.lose_database();
    let refused = rig.engine.record_outcomes(vec![succeeded(&lease)], "ann").await.unwrap_err().to_string();
    assert!(refused.contains("journal.max_mib") && refused.contains("report again"), "{refused}");
    assert_eq!((rig.numbers().refused, rig.numbers().waiting.records), (1, 0));
    rig.store.faults.heal();
    let again = rig.lease(LONG_MS).await;
    assert_eq!((again.place.id, again.attempt), (lease.place.id, 2));
    rig.stop().await;
}

/// The lease is over, and the report is not applied yet. Meanwhile the lease of an attempt without a report
/// ends, and this one does not.
async fn no_lease_ends_of_what_waits(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let reported = rig.leased(SHORT_MS).await;
    rig.journal.hides.store(true, SeqCst);
    rig.store.faults.set(StoreGroup::Apply, Dials::REFUSES);
    assert_eq!(rig.record_outcomes(succeeded(&reported)).await, Reported::ForLater);
    rig.store.faults.heal();
    let silent = rig.leased(SHORT_MS).await;
    let again = rig.lease(LONG_MS).await;
    assert_eq!(
        (again.place.id, again.attempt),
        (silent.place.id, 2),
        "the lease of the silent one has ended"
    );
    let before = rig.runs_of("leases");
    until("leases were looked at", || async { rig.runs_of("leases") > before + 5 }).await;
    assert_eq!(rig.task(&reported).await.state, State::Dispatched);
    rig.journal.hides.store(false, SeqCst);
    rig.has_ended_well(&reported).await;
    rig.stop().await;
}

/// The database answers reads and refuses writes: read only, or its disk is full. No outcome is at fault, and no lease of one that waits
/// ends when writes are taken again.
async fn what_waits_for_a_database_that_only_reads_keeps_its_lease(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let reported = rig.leased(SHORT_MS).await;
    rig.store.faults.set(StoreGroup::Apply, Dials::REFUSES);
    assert_eq!(rig.record_outcomes(succeeded(&reported)).await, Reported::ForLater);
    let failed = || rig.store.faults.counts(StoreGroup::Apply).failed();
    let before = failed();
    until("it was tried again and again", || async { failed() > before + 20 }).await;
    rig.journal.hides.store(true, SeqCst);
    // A turn may have read it before.
    let turns = || rig.runs_of("outcomes_for_later");
    let before = turns();
    until("the turns see nothing of it", || async { turns() > before + 2 }).await;
    rig.store.faults.heal();
    let silent = rig.leased(SHORT_MS).await;
    let again = rig.lease(LONG_MS).await;
    assert_eq!((again.place.id, again.attempt), (silent.place.id, 2));
    assert_eq!(rig.task(&reported).await.state, State::Dispatched);
    rig.journal.hides.store(false, SeqCst);
    rig.has_ended_well(&reported).await;
    rig.stop().await;
}

/// Another engine has ended the lease before the report was applied: the task runs at least once, and the
/// fence refuses the older report.
async fn what_another_engine_has_given_back_runs_again(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let lease = rig.leased(LONG_MS).await;
    rig.lose_database();
    assert_eq!(rig.record_outcomes(succeeded(&lease)).await, Reported::ForLater);
    let change = Change::Retry { due_at: lease.due_at.plus(-86_400_000), result: None };
    let (place, fence, note) = (lease.place, Some(lease.fence), Note::default());
    let step = Step { place, fence, change, note, fired_at: None, known: None };
    rig.truth.apply(vec![step], rig.engine.now()).await.unwrap();
    rig.store.faults.heal();
    rig.nothing_waits().await;
    assert_eq!((rig.numbers().applied, rig.numbers().stale), (0, 1));
    let again = rig.lease(LONG_MS).await;
    assert_eq!((again.place.id, again.attempt), (lease.place.id, 2));
    rig.stop().await;
}

/// Progress and log lines are kept with the outcome. A report is refused, once that can be known, if its
/// token does not cover the task.
async fn what_is_said_with_it_is_heard_and_a_token_reaches_no_further(ground: Arc<dyn Ground>) {
    let directory = tempfile::tempdir().unwrap();
    let rig = rig(&*ground, directory.path()).await;
    let (reached, beyond) = (rig.leased(LONG_MS).await, rig.leased(LONG_MS).await);
    let within = |namespace: &str| {
        let everywhere = Grant::everywhere(Role::Executor);
        Some(Grant { namespaces: vec![namespace.parse().unwrap()], ..everywhere })
    };
    let line = LogLine { at: rig.engine.now(), level: None, text: "the last words".to_owned() };
    let words = Beat {
        place: reached.place,
        fence: reached.fence,
        lease_until: rig.engine.now().plus(LONG_MS),
        progress: None,
        log: log::encode([line]),
        executor: "ann".to_owned(),
        handed_over_at: None,
    };
    rig.lose_database();
    let said = Submission {
        words: Some(words),
        within: within(queue().namespace.as_str()),
        ..succeeded(&reached).into()
    };
    let odd = Submission { within: within("another"), ..succeeded(&beyond).into() };
    let recorded = rig.engine.record_submitted(vec![said, odd], "ann").await.unwrap();
    assert!(
        recorded.iter().all(|recorded| *recorded.as_ref().unwrap() == Reported::ForLater),
        "{recorded:?}"
    );
    rig.store.faults.heal();
    rig.has_ended_well(&reached).await;
    assert!(format!("{:?}", rig.task(&reached).await).contains("the last words"));
    assert_eq!(rig.task(&beyond).await.state, State::Dispatched);
    assert_eq!((rig.numbers().applied, rig.numbers().stale), (1, 1));
    rig.stop().await;
}

/// Which step the engine has come to when it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dies {
    /// Step 3: acknowledged.
    Acknowledged,
    /// Step 4: the store has applied it, and the record is not done.
    Applied,
}

/// The engine dies, with its runtime; the lease ends; another one begins in its directory, and nothing runs twice.
fn an_engine_that_dies(ground: &Arc<dyn Ground>, dies: Dies) {
    let directory = tempfile::tempdir().unwrap();
    let doomed = Runtime::new().unwrap();
    let lease = doomed.block_on(async {
        let rig = rig(&**ground, directory.path()).await;
        let lease = rig.leased(SHORT_MS).await;
        rig.lose_database();
        assert_eq!(rig.record_outcomes(succeeded(&lease)).await, Reported::ForLater);
        if dies == Dies::Applied {
            // The database is back, and the engine gets no answer to what it applies, and tries again and again.
            rig.store.faults.set(StoreGroup::Read, Dials::SOUND);
            rig.store.faults.set(StoreGroup::Apply, Dials::ANSWERS_LOST);
            until("it is applied", || async { rig.task(&lease).await.state == State::Succeeded }).await;
            assert_eq!(rig.numbers().waiting.records, 1);
        }
        lease
    });
    doomed.shutdown_timeout(HANG_LIMIT);
    let survivor = Runtime::new().unwrap();
    survivor.block_on(async {
        let rig = rig(&**ground, directory.path()).await;
        until("the lease is over", || async { rig.engine.now() > lease.lease_until }).await;
        rig.has_ended_well(&lease).await;
        let other = rig.leased(LONG_MS).await;
        assert_ne!(other.place.id, lease.place.id, "it did not run again");
        rig.stop().await;
    });
}

macro_rules! on_both {
    ($($case:ident)*) => {
        mod embedded {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(Embedded::ground().await).await;
            })*
        }
        mod servers {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(OnServers::ground().await).await;
            })*
        }
    };
}

on_both! {
    it_is_acknowledged_and_applied_when_the_database_is_back
    what_the_store_had_written_all_the_same_counts_once
    what_does_not_fit_is_refused_and_its_task_runs_again
    no_lease_ends_of_what_waits
    what_waits_for_a_database_that_only_reads_keeps_its_lease
    what_another_engine_has_given_back_runs_again
    what_is_said_with_it_is_heard_and_a_token_reaches_no_further
}

#[test]
fn an_engine_that_dies_after_it_has_acknowledged_on_the_embedded_store() {
    let ground = Runtime::new().unwrap().block_on(Embedded::ground());
    an_engine_that_dies(&ground, Dies::Acknowledged);
}

#[test]
fn an_engine_that_dies_after_it_has_acknowledged_on_servers() {
    let ground = Runtime::new().unwrap().block_on(OnServers::ground());
    an_engine_that_dies(&ground, Dies::Acknowledged);
}

#[test]
fn an_engine_that_dies_before_its_record_is_done_on_the_embedded_store() {
    let ground = Runtime::new().unwrap().block_on(Embedded::ground());
    an_engine_that_dies(&ground, Dies::Applied);
}

#[test]
fn an_engine_that_dies_before_its_record_is_done_on_servers() {
    let ground = Runtime::new().unwrap().block_on(OnServers::ground());
    an_engine_that_dies(&ground, Dies::Applied);
}
