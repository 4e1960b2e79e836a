//! Two calls that take one task back between its lease and its instant: whatever one of them has begun, both say the same of
//! the task, and it is so.

use super::{
    CrashPointsRig, Ground, NewTask, Options, StoreGroup, TRIES, got, leased, leased_ahead, queue, rig_with,
    succeeded, until, waits, warm_up,
};
use crate::crash_points::WallClock;
use punctual_contract::Clock as _;
use punctual_domain::{name::Name, place::TaskRef, state::State};
use punctual_engine::{Reported, TakenBack};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use tokio::task::JoinSet;

/// A call that continues by itself.
struct Call {
    answer: JoinSet<Vec<TakenBack>>,
    is_finished: Arc<AtomicBool>,
}

impl Call {
    fn revoke(rig: &CrashPointsRig, place: TaskRef) -> Self {
        let (engine, is_finished) = (rig.engine.clone(), Arc::<AtomicBool>::default());
        let (mut answer, finishes) = (JoinSet::new(), Arc::clone(&is_finished));
        answer.spawn(async move {
            let taken_back = engine.revoke(vec![place], "schedule").await.unwrap();
            finishes.store(true, SeqCst);
            taken_back
        });
        Self { answer, is_finished }
    }

    fn is_finished(&self) -> bool {
        self.is_finished.load(SeqCst)
    }

    async fn answer(mut self) -> Vec<TakenBack> {
        self.answer.join_next().await.unwrap().unwrap()
    }
}

pub(super) async fn two_who_take_it_back_say_the_same(ground: Arc<dyn Ground>) {
    // Leased at once: there is time for two calls before the instant.
    let rig = rig_with(&*ground, false, |options| Options { ahead_ms: 550, ..options }).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let mut has_met = false;
    for _ in 0..TRIES {
        let (task, executor, held) = leased_ahead(&rig, |task| task).await;
        let applying = rig.store.faults.hold(StoreGroup::Apply);
        let first = Call::revoke(&rig, task.place);
        let is_under_way = || async { applying.came() > 0 || first.is_finished() };
        until("the first has withdrawn it and is about to change it", is_under_way).await;
        // The first found the task in the engine's table; the second reads its row, and finds it gone there.
        let reads = || rig.store.faults.counts(StoreGroup::Read).passed;
        let before = reads();
        let second = Call::revoke(&rig, task.place);
        let has_looked =
            || async { reads() > before || second.is_finished() || WallClock.now() >= task.due_at };
        until("the second has looked for it", has_looked).await;
        has_met = !first.is_finished() && reads() > before;
        applying.open();
        held.let_go();
        let (first, second) = (first.answer().await, second.answer().await);
        let now = rig.engine.read(task.place).await.unwrap();
        assert_eq!(first, second, "{now:?}");
        assert_eq!(first == [TakenBack::Cancelled], now.state == State::Cancelled, "{now:?}");
        let given = match got(executor).await.pop() {
            None if now.state != State::Cancelled => Some(leased(&rig).await),
            given => given,
        };
        if let Some(late) = given {
            assert_eq!(
                rig.engine.record_outcomes(vec![succeeded(&late)], "ann").await.unwrap(),
                [Reported::Accepted]
            );
        }
        if has_met {
            assert_eq!(first, [TakenBack::Cancelled]);
            break;
        }
    }
    assert!(has_met, "{TRIES} times it took until the instant was there");
    running.stop().await;
}

/// The store makes the lease between the withdrawal and the cancel. The cancel revokes the lease, which does
/// not last until its end.
pub(super) async fn a_lease_that_is_made_meanwhile_is_taken_back_with_it(ground: Arc<dyn Ground>) {
    let rig = rig_with(&*ground, false, |options| Options { ahead_ms: 550, ..options }).await;
    let running = rig.engine.start().unwrap();
    warm_up(&rig).await;
    let mut has_met = false;
    for _ in 0..TRIES {
        let executor = waits(&rig, 3_000);
        let leasing = rig.store.faults.hold(StoreGroup::Dispatch);
        let at = rig.engine.now().plus(600);
        let held = rig.clock.hold_before(at);
        let task = NewTask::new(queue(), Name::new("k").unwrap(), at);
        let place = rig.engine.insert(vec![task], "test").await.unwrap().remove(0).task.place;
        until("its lease is asked for, or its instant is there", || async {
            leasing.came() > 0 || WallClock.now() >= at
        })
        .await;
        has_met = leasing.came() > 0;
        if !has_met {
            leasing.open();
            held.let_go();
            let late = match got(executor).await.pop() {
                Some(late) => late,
                None => leased(&rig).await,
            };
            assert_eq!(
                rig.engine.record_outcomes(vec![succeeded(&late)], "ann").await.unwrap(),
                [Reported::Accepted]
            );
            continue;
        }
        let applying = rig.store.faults.hold(StoreGroup::Apply);
        let call = Call::revoke(&rig, place);
        until("it is withdrawn", || async { applying.came() > 0 }).await;
        leasing.open();
        until("it is leased", || async { rig.store_task(place).await.state == State::Dispatched }).await;
        applying.open();
        assert_eq!(call.answer().await, [TakenBack::Cancelled]);
        assert_eq!(rig.store_task(place).await.state, State::Cancelled);
        held.let_go();
        assert!(got(executor).await.is_empty());
        break;
    }
    assert!(has_met, "{TRIES} times it took until the instant was there");
    running.stop().await;
}
