//! Tasks that wait for a key, or for an executor of another kind, do not block later tasks, however many
//! there are: without ready sets, too, they are parked in the engine's table.

use super::*;
use punctual_engine::Only;
use std::collections::BTreeSet;

/// Of one task each. A call puts fifty aside, and then gives way to another.
const CALLS: usize = 20;

async fn next(rig: &LimitsRig, only: Only) -> Assignment {
    let (queue, executor) = (Arc::new(queue()), "test".to_owned());
    let request = LeaseRequest { queue, max: 1, wait_ms: 0, lease_ms: 20_000, executor, version: None };
    for _ in 0..CALLS {
        if let Some(lease) = rig.engine.lease_only(request.clone(), only.clone()).await.unwrap().pop() {
            return lease;
        }
    }
    panic!("nothing has come in {CALLS} calls");
}

async fn parked(rig: &LimitsRig) -> usize {
    rig.engine.parked(&queue(), usize::MAX).await.unwrap().iter().map(|(_, count)| count).sum()
}

#[tokio::test]
async fn full_keys_keep_no_other_waiting_however_many_there_are() {
    const KEYS: usize = 120;
    let rig = LimitsRig::new(QueueSettings { key_concurrency: Some(1), ..QueueSettings::default() }).await;
    let one_of_each = || (0..KEYS).map(|key| keyed(now(&rig), &key.to_string())).collect();
    rig.insert(one_of_each()).await;
    let held = rig.lease(KEYS).await;
    assert_eq!(held.len(), KEYS);
    let waiting = rig.insert(one_of_each()).await;
    rig.pass(1).await;
    let free = rig.insert(vec![keyed(now(&rig), "free")]).await;
    assert_eq!(next(&rig, Only::default()).await.place, free[0]);
    assert_eq!(parked(&rig).await, KEYS);
    let depth = rig.engine.depth().await.unwrap();
    assert_eq!((depth.ready.len(), depth.parked.iter().map(|(_, count)| count).sum()), (0, KEYS));
    rig.end(&held[..1], Report::Succeeded).await;
    let its = rig.task(held[0].place).await.ask.demands;
    let came = next(&rig, Only::default()).await;
    assert!(waiting.contains(&came.place), "what waited for the key that is free");
    assert_eq!(rig.task(came.place).await.ask.demands, its);
    assert_eq!(parked(&rig).await, KEYS - 1);
}

#[tokio::test]
async fn tasks_of_other_kinds_keep_no_other_waiting_however_many_there_are() {
    const OTHERS: usize = 500;
    let rig = LimitsRig::new(QueueSettings::default()).await;
    rig.insert((0..OTHERS).map(|_| task(now(&rig))).collect()).await;
    rig.pass(1).await;
    let rare = Name::new("rare").unwrap();
    let wanted = rig.insert(vec![NewTask { kind: rare.clone(), ..task(now(&rig)) }]).await;
    let only = Only { kinds: Some(BTreeSet::from([rare])), ..Only::default() };
    assert_eq!(next(&rig, only).await.place, wanted[0]);
    assert_eq!(parked(&rig).await, OTHERS);
    // One that takes any brings them back.
    assert_eq!(next(&rig, Only::default()).await.kind.as_str(), "k");
}
