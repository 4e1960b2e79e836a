//! Leases: one whose executor dies ends, and the task runs again; one that no executor received is given back with its attempt. A
//! store's part is in `conformance::store::leases`; leases that are committed ahead are in `ahead`.

use super::{
    engine::{EngineRig, rig, slow_repair},
    test_engine::task,
};
use punctual_domain::{
    place::TaskRef,
    state::{Event, State},
};
use punctual_sdk::protocol::LeaseRequest;
use punctual_testkit::{faults::StoreGroup, patience::until, test_engine::TestEngine};
use std::time::Duration;

#[tokio::test]
async fn a_lease_whose_executor_dies_ends_and_the_task_runs_again() {
    let engine = TestEngine::new();
    let client = engine.client();
    client.insert(&task("k", 0)).await.unwrap();
    engine.run_what_is_due().await;
    let request = LeaseRequest {
        max: 1,
        wait_ms: 0,
        lease_ms: 5_000,
        executor: "dying".into(),
        ..LeaseRequest::default()
    };
    // This executor takes the task, and never calls again.
    let first = client.lease("mail", &request).await.unwrap().remove(0);
    assert!(client.lease("mail", &request).await.unwrap().is_empty(), "one at a time");
    engine.advance(Duration::from_secs(20)).await;
    let second = client.lease("mail", &request).await.unwrap().remove(0);
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_ne!(first.token, second.token);
}

impl EngineRig {
    /// The engine has read the tasks that the store held when it started. It offers each of those that are
    /// firing once more, even one that is just between a ready set and a lease.
    async fn is_looked_through(&self) {
        let has_run = || async {
            let services = self.engine.meters().services();
            services.iter().any(|service| service.name == "from_store" && service.runs > 0)
        };
        until("it is looked through", has_run).await;
    }

    async fn comes_with_its_first_attempt_after_a_release(&self, place: TaskRef) {
        let leased = self.lease(10_000).await;
        assert_eq!(leased.iter().map(|lease| (lease.place, lease.attempt)).collect::<Vec<_>>(), [(place, 1)]);
        let history = self.engine.read(place).await.unwrap().history;
        assert!(history.iter().any(|entry| entry.event == Some(Event::Release)), "{history:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_caller_hung_up_before_the_answer_is_given_back_with_its_attempt() {
    let rig = rig(slow_repair());
    let running = rig.engine.start().unwrap();
    rig.is_looked_through().await;
    let gate = rig.store.faults.hold(StoreGroup::Dispatch);
    let place = rig.insert(0).await;
    tokio::select! {
        _ = rig.lease(10_000) => panic!("the gate is closed"),
        () = gate.reached() => {}
    }
    gate.open();
    rig.comes_with_its_first_attempt_after_a_release(place).await;
    running.stop().await;
}

/// On one thread: other work continues only while this test awaits something.
#[tokio::test]
async fn a_lease_whose_answer_was_not_read_is_given_back_with_its_attempt() {
    let rig = rig(slow_repair());
    let running = rig.engine.start().unwrap();
    rig.is_looked_through().await;
    let gate = rig.store.faults.hold(StoreGroup::Dispatch);
    let place = rig.insert(0).await;
    let mut call = Box::pin(rig.lease(10_000));
    tokio::select! {
        biased;
        _ = &mut call => panic!("the gate is closed"),
        () = gate.reached() => {}
    }
    gate.open();
    until("it is leased", || async { rig.state(place).await == State::Dispatched }).await;
    // The call has its answer. As with a client that hangs up in that moment, it is not read.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    drop(call);
    rig.comes_with_its_first_attempt_after_a_release(place).await;
    running.stop().await;
}
