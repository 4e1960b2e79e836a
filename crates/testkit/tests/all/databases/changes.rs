//! Changes whose connection is killed, or whose answer cannot be read: the answer agrees with the actual
//! change.

use super::site::ShardedSite;
use crate::engine::queue;
use punctual_bus::MemoryBus;
use punctual_contract::{Happened, Store, store::Change};
use punctual_domain::{
    name::Name,
    place::TaskRef,
    state::State,
    task::{NewTask, Priority, Task},
    time::Millis,
};
use punctual_engine::{Backends, Engine, Error, Options};
use punctual_store::SqliteStore;
use punctual_testkit::{
    clock::ManualClock,
    faults::{Dials, FaultyStore, StoreGroup},
    servers::Way,
};
use std::{sync::Arc, time::Duration};

const FAR_MS: i64 = 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Cancel,
    RunNow,
    Patch,
}

const ALL: [What; 3] = [What::Cancel, What::RunNow, What::Patch];

impl What {
    async fn is_asked(self, engine: &Engine, place: TaskRef) -> Result<(), Error> {
        match self {
            Self::Cancel => engine.cancel(place, false, "test").await.map(drop),
            Self::RunNow => engine.run_now(place, "test").await.map(drop),
            Self::Patch => {
                let priority = Some(Priority::new(1).unwrap());
                let change = Change::Reschedule { execute_at: None, priority, payload: None, queue: None };
                engine.reschedule(place, change, "test", |_| true).await.map(drop)
            }
        }
    }

    fn is_done(self, task: &Task) -> bool {
        match self {
            Self::Cancel => task.state == State::Cancelled,
            Self::RunNow => task.ask.execute_at < task.created_at.plus(FAR_MS / 2),
            Self::Patch => task.ask.priority == Priority::new(1).unwrap(),
        }
    }
}

fn was_refused(answer: &Result<(), Error>) -> bool {
    matches!(answer, Err(Error::Backend(error)) if error.happened == Happened::No)
}

fn far(now: Millis) -> NewTask {
    NewTask::new(queue(), Name::new("k").unwrap(), now.plus(FAR_MS))
}

/// The embedded engine, whose store answers no read once the change is on its way to it.
#[tokio::test]
async fn a_change_that_cannot_be_read_back_is_not_said_to_be_undone() {
    for what in ALL {
        let truth: Arc<dyn Store> = Arc::new(SqliteStore::in_memory(&Default::default()).unwrap());
        let store = Arc::new(FaultyStore::new(Arc::clone(&truth), 1));
        let backends = Backends {
            hot: Arc::new(punctual_hot::NoHot),
            store: store.clone(),
            limiter: Arc::new(punctual_hot::MemoryLimiter::default()),
            bus: Arc::new(MemoryBus::default()),
            clock: Arc::new(ManualClock::at(punctual_testkit::test_engine::START)),
            blobs: None,
            shared: None,
        };
        let engine = Engine::new(backends, Options::default());
        let place = engine.insert(vec![far(engine.now())], "test").await.unwrap().remove(0).task.place;
        let gate = store.faults.hold(StoreGroup::Apply);
        let reads_fail = async {
            gate.reached().await;
            store.faults.set(StoreGroup::Read, Dials::REFUSES);
            gate.open();
        };
        let (answer, ()) = tokio::join!(what.is_asked(&engine, place), reads_fail);
        assert!(what.is_done(&truth.read(&[place]).await.unwrap().remove(0).unwrap()), "{what:?}");
        assert!(
            matches!(&answer, Err(Error::Backend(error)) if error.happened == Happened::Maybe),
            "{what:?}: {answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_was_done_is_never_said_of_what_was_done_while_connections_are_killed() {
    let site = ShardedSite::new(1).await;
    let places: Vec<TaskRef> = {
        let tasks = (0..180).map(|_| far(site.now())).collect();
        site.engine()
            .insert(tasks, "test")
            .await
            .unwrap()
            .into_iter()
            .map(|inserted| inserted.task.place)
            .collect()
    };
    let asking = async {
        let mut answers = Vec::new();
        for (nth, place) in places.iter().copied().enumerate() {
            let what = ALL[nth % ALL.len()];
            answers.push((what, place, what.is_asked(site.engine(), place).await));
        }
        answers
    };
    let cutting = async {
        loop {
            for proxy in [&site.first, &site.second] {
                for connection in proxy.connections().into_iter().filter(|_| fastrand::u8(..4) == 0) {
                    proxy.set_one(connection, Way::Cut);
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let answers = tokio::select! {
        answers = asking => answers,
        () = cutting => unreachable!("it cuts until all are answered"),
    };
    let (mut refused, mut done) = (0, 0);
    for (what, place, answer) in answers {
        let mut found = None;
        while found.is_none() {
            found = site.store.read(&[place]).await.ok().and_then(|mut store| store.remove(0));
        }
        let is_done = what.is_done(&found.unwrap());
        done += usize::from(is_done);
        refused += usize::from(was_refused(&answer));
        assert!(!(is_done && was_refused(&answer)), "{what:?} was done, and the answer was {answer:?}");
        assert!(is_done || answer.is_err(), "{what:?} was not done, and the answer was {answer:?}");
    }
    super::site::say(&format!("180 changes, {done} done, {refused} refused"));
}
