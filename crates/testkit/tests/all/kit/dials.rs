//! Each setting of the dials does to a caller what its row says, and the back end agrees.

use punctual_bus::MemoryBus;
use punctual_contract::{Bus as _, Happened, Hot as _, hot::HotEntry, ownership::Tenure};
use punctual_domain::{
    place::{Partition, TaskRef},
    time::Millis,
};
use punctual_testkit::{
    conformance::{bus::assignment, hot::entry},
    faults::{BusGroup, Dials, FaultCounts, FaultyBus, FaultyHot, HotGroup},
    shared::SharedHot,
};
use std::{sync::Arc, time::Duration};

async fn load_under(dials: Dials) -> (Option<Happened>, usize, FaultCounts) {
    let inner = Arc::new(SharedHot::new(64));
    let hot = FaultyHot::new(Arc::<SharedHot>::clone(&inner), 1);
    hot.faults.set(HotGroup::Load, dials);
    let said = hot.load(vec![entry(1, 5, 1)]).await.err().map(|error| error.happened);
    (said, inner.count_due().await.unwrap(), hot.faults.counts(HotGroup::Load))
}

#[tokio::test]
async fn each_pair_of_dials_does_what_its_row_says() {
    let none = FaultCounts::default();
    assert_eq!(load_under(Dials::SOUND).await, (None, 1, FaultCounts { passed: 1, ..none }));
    assert_eq!(
        load_under(Dials::ANSWERS_LOST).await,
        (Some(Happened::Maybe), 1, FaultCounts { answer_lost: 1, ..none })
    );
    assert_eq!(load_under(Dials::REFUSES).await, (Some(Happened::No), 0, FaultCounts { refused: 1, ..none }));
    assert_eq!(
        load_under(Dials::SILENT).await,
        (Some(Happened::Maybe), 0, FaultCounts { vanished: 1, ..none })
    );
}

#[tokio::test]
async fn dials_turn_while_running_and_only_for_their_group() {
    let hot = FaultyHot::new(Arc::new(SharedHot::new(64)), 1);
    let drain = async || hot.drain(&[Tenure::sole(Partition(0))], Millis(5), 1).await.remove(0);
    hot.faults.set(HotGroup::Drain, Dials::REFUSES);
    hot.load(vec![entry(1, 5, 1)]).await.unwrap();
    assert!(drain().await.is_err());
    hot.faults.heal();
    assert_eq!(drain().await.unwrap().len(), 1);
    hot.faults.set_all(Dials::SILENT);
    assert!(hot.count_due().await.is_err());
    assert_eq!(hot.faults.counts(HotGroup::Drain).failed(), 1);
}

/// Drains every second partition, each with one entry. Returns the answer for each, and the number of entries
/// that stayed in `due`.
async fn drain_under(set: impl Fn(&FaultyHot)) -> (Vec<Result<usize, Happened>>, usize, FaultCounts) {
    let inner = Arc::new(SharedHot::new(64));
    let hot = FaultyHot::new(Arc::<SharedHot>::clone(&inner), 7);
    let due = |number: u16| {
        let entry = entry(i64::from(number), 5, 1);
        HotEntry { place: TaskRef { partition: Partition(number), ..entry.place }, ..entry }
    };
    hot.load((0..64).map(due).collect()).await.unwrap();
    set(&hot);
    let tenures: Vec<Tenure> = (0..64).step_by(2).map(|number| Tenure::sole(Partition(number))).collect();
    let answers = hot.drain(&tenures, Millis(5), 9).await.into_iter();
    let said = answers.map(|answer| answer.map(|entries| entries.len()).map_err(|error| error.happened));
    (said.collect(), inner.count_due().await.unwrap(), hot.faults.counts(HotGroup::Drain))
}

#[tokio::test]
async fn each_partition_of_a_drain_has_its_own_fate() {
    let (said, due, counts) =
        drain_under(|hot| hot.faults.set(HotGroup::Drain, Dials { happens: 0.5, reported: 0.5 })).await;
    let count = |wanted| said.iter().filter(|answer| **answer == wanted).count();
    let rare = [counts.passed, counts.answer_lost, counts.refused, counts.vanished];
    assert!(rare.iter().all(|count| (2..16).contains(count)), "{counts:?}");
    assert_eq!(count(Ok(1)), usize::try_from(counts.passed).unwrap(), "its own entry each");
    assert_eq!(count(Err(Happened::No)), usize::try_from(counts.refused).unwrap());
    assert_eq!(64 - due, usize::try_from(counts.passed + counts.answer_lost).unwrap());
    for (dials, answer, left) in [
        (Dials::ANSWERS_LOST, Err(Happened::Maybe), 32),
        (Dials::REFUSES, Err(Happened::No), 64),
        (Dials::SILENT, Err(Happened::Maybe), 64),
    ] {
        let (said, due, _) = drain_under(|hot| hot.faults.set_once(HotGroup::Drain, dials)).await;
        assert_eq!((said, due), (vec![answer; 32], left), "the next call, with all its partitions");
    }
}

#[tokio::test]
async fn a_seed_decides_every_call_and_each_message_of_a_batch() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let inner = Arc::new(MemoryBus::new());
        let bus = FaultyBus::new(Arc::<MemoryBus>::clone(&inner), 7);
        bus.faults.set(BusGroup::Publish, Dials { happens: 0.5, reported: 0.5 });
        let messages: Vec<_> = (0..400).map(assignment).collect();
        let queue = messages[0].queue.clone();
        let answers = bus.publish(messages).await;
        let said: Vec<_> =
            answers.into_iter().map(|answer| answer.err().map(|error| error.happened)).collect();
        let there = inner.receive(&queue, 1_000, Duration::ZERO, Millis::ZERO).await.unwrap();
        for delivery in &there {
            let said = said[usize::try_from(delivery.message.place.id).unwrap()];
            assert_ne!(said, Some(Happened::No), "what was refused is not there");
        }
        let counts = bus.faults.counts(BusGroup::Publish);
        assert_eq!(u64::try_from(there.len()).unwrap(), counts.passed + counts.answer_lost);
        let rare = [counts.passed, counts.answer_lost, counts.refused, counts.vanished];
        assert!(rare.iter().all(|count| (60..140).contains(count)), "{counts:?}");
        runs.push((said, counts));
    }
    assert_eq!(runs[0], runs[1]);
}
