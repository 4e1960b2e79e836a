//! Repair: what a check finds is settled, and nothing else is touched.

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_damaged_database_is_sound_after_a_repair_and_a_dry_run_changes_nothing() {
    let urls = fresh(2).await;
    let store = open(&urls).await;
    let tasks = insert(&store, (1..=400).map(ask).collect(), NOW).await;
    assert!(store.repair(false).await.unwrap().iter().all(punctual_store::ShardRepair::is_nothing));
    // Tasks without rows, rows of a partition that is elsewhere, an account without tasks.
    let here: Vec<&Task> = tasks.iter().filter(|task| task.place.partition.0 % 2 == 0).collect();
    let gone: Vec<String> = here[..30].iter().map(|task| task.place.id.to_string()).collect();
    sql(
        &urls[0],
        &format!(
            "DELETE FROM task WHERE id IN ({});
             INSERT INTO moved (partition_no, id, due_at) VALUES (0, 900001, 5), (0, 900002, 6);
             INSERT INTO body (partition_no, id, payload) VALUES (2, 900003, 'x');
             INSERT INTO registry (partition_no, namespace, task_id, task_version, id, due_at)
                SELECT 1, 'default', seq, 0, 800000 + seq, 5 FROM {};
             INSERT INTO books (slot, namespace, queue, state, tasks) VALUES (3, 'default', 'mail', 8, 17)",
            gone.join(","),
            servers::numbers(1, 2_500)
        ),
    )
    .await;
    let before = store.check().await.unwrap();
    assert_eq!((before[0].entries_alone, before[0].places_alone), (30, 2));
    assert_eq!(before[0].strangers, [Partition(1)]);
    assert!(!before[0].is_sound() && before[1].is_sound());

    let would = store.repair(true).await.unwrap();
    assert_eq!(store.check().await.unwrap(), before);
    let done = store.repair(false).await.unwrap();
    for repair in [&would[0], &done[0]] {
        assert_eq!(
            (repair.entries_alone, repair.places_alone, repair.bodies_alone),
            (30, 2, 1),
            "{repair:?}"
        );
        assert_eq!((repair.accounts, repair.corrected, repair.accepted), (2, 47, -30), "{repair:?}");
        assert_eq!(repair.strangers, [Partition(1)]);
    }
    assert_eq!((would[0].strange_rows, done[0].strange_rows), (0, 2_500));
    assert!(would[1].is_nothing() && done[1].is_nothing());
    all_is_sound(&store).await;
    let left = tasks.iter().filter(|task| !gone.contains(&task.place.id.to_string()));
    each_is_found_once(&store, &left.map(|task| (task.ask.task_id.unwrap(), task.place)).collect()).await;
    // Their ids are free again.
    let again =
        insert(&store, here[..30].iter().map(|task| ask(task.ask.task_id.unwrap())).collect(), NOW).await;
    assert_eq!(again.len(), 30);
    assert!(store.repair(false).await.unwrap().iter().all(punctual_store::ShardRepair::is_nothing));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_repair_beside_writers_spoils_no_account() {
    let urls = fresh(1).await;
    let store = open(&urls).await;
    sql(
        &urls[0],
        "INSERT INTO books (slot, namespace, queue, state, tasks) VALUES (3, 'default', 'mail', 1, 5)",
    )
    .await;
    let (mut writing, writer) = (tokio::task::JoinSet::new(), Arc::clone(&store));
    writing.spawn(async move {
        for first in (0..4_000).step_by(40) {
            insert(&writer, (first..first + 40).map(ask).collect(), NOW).await;
        }
    });
    while writing.try_join_next().map(Result::unwrap).is_none() {
        store.repair(false).await.unwrap();
    }
    all_is_sound(&store).await;
    assert_eq!(store.books().await.unwrap().accepted, 4_000);
}
