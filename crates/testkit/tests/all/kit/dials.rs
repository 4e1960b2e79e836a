//! Each setting of the dials does to a caller what its row says, and the back end agrees.

use punctual_bus::MemoryBus;
use punctual_contract::{Bus as _, Happened, Hot as _, ownership::Tenure};
use punctual_domain::{place::Partition, time::Millis};
use punctual_hot::{MemoryHot, Options};
use punctual_testkit::{
    conformance::{bus::assignment, hot::entry},
    faults::{BusGroup, Counts, Dials, FaultyBus, FaultyHot, HotGroup},
};
use std::{sync::Arc, time::Duration};

async fn load_under(dials: Dials) -> (Option<Happened>, usize, Counts) {
    let inner = Arc::new(MemoryHot::new(Options::default()));
    let hot = FaultyHot::new(Arc::<MemoryHot>::clone(&inner), 1);
    hot.faults.set(HotGroup::Load, dials);
    let said = hot.load(vec![entry(1, 5, 1)]).await.err().map(|it| it.happened);
    (said, inner.depth().await.unwrap().due, hot.faults.counts(HotGroup::Load))
}

#[tokio::test]
async fn each_pair_of_dials_does_what_its_row_says() {
    let none = Counts::default();
    assert_eq!(load_under(Dials::SOUND).await, (None, 1, Counts { passed: 1, ..none }));
    assert_eq!(
        load_under(Dials::ANSWERS_LOST).await,
        (Some(Happened::Maybe), 1, Counts { answer_lost: 1, ..none })
    );
    assert_eq!(load_under(Dials::REFUSES).await, (Some(Happened::No), 0, Counts { refused: 1, ..none }));
    assert_eq!(load_under(Dials::SILENT).await, (Some(Happened::Maybe), 0, Counts { vanished: 1, ..none }));
}

#[tokio::test]
async fn dials_turn_while_running_and_only_for_their_group() {
    let hot = FaultyHot::new(Arc::new(MemoryHot::new(Options::default())), 1);
    hot.faults.set(HotGroup::Take, Dials::REFUSES);
    hot.load(vec![entry(1, 5, 1)]).await.unwrap();
    assert!(hot.take(Tenure::sole(Partition(0)), Millis(5), 1).await.is_err());
    hot.faults.heal();
    assert_eq!(hot.take(Tenure::sole(Partition(0)), Millis(5), 1).await.unwrap().len(), 1);
    hot.faults.set_all(Dials::SILENT);
    assert!(hot.depth().await.is_err());
    assert_eq!(hot.faults.counts(HotGroup::Take).failed(), 1);
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
        let said: Vec<_> = answers.into_iter().map(|it| it.err().map(|it| it.happened)).collect();
        let there = inner.receive(&queue, 1_000, Duration::ZERO, Millis::ZERO).await.unwrap();
        for it in &there {
            let said = said[usize::try_from(it.message.place.id).unwrap()];
            assert_ne!(said, Some(Happened::No), "what was refused is not there");
        }
        let counts = bus.faults.counts(BusGroup::Publish);
        assert_eq!(u64::try_from(there.len()).unwrap(), counts.passed + counts.answer_lost);
        let rare = [counts.passed, counts.answer_lost, counts.refused, counts.vanished];
        assert!(rare.iter().all(|it| (60..140).contains(it)), "{counts:?}");
        runs.push((said, counts));
    }
    assert_eq!(runs[0], runs[1]);
}
