//! The id of an ended task is inserted again while its bucket is being archived, and the archive storage is
//! unavailable.

use super::{
    damage::files,
    mysql::{DAY, MysqlWorld, NOW, OPTIONS, STEPWISE, ask},
    namespace,
};
use punctual_contract::Store;
use punctual_domain::{insert::Decision, state::State, task::NewTask, time::Millis};

/// The place of the archives can be read, and nothing can be written there.
async fn away(world: &MysqlWorld) {
    let shard = world.dir.path().join("shard-0000");
    assert_eq!(files(world.dir.path(), ".index").len(), 0);
    drop(std::fs::remove_dir_all(&shard));
    std::fs::write(shard, "").unwrap();
}

async fn back(world: &MysqlWorld) {
    std::fs::remove_file(world.dir.path().join("shard-0000")).unwrap();
}

/// The first half existed before.
fn asks() -> Vec<NewTask> {
    [1, 2, 3, 1_001, 1_002, 1_003].map(|nth| NewTask { execute_at: Millis(NOW.0 + DAY), ..ask(nth) }).into()
}

async fn is_accounted_for(world: &MysqlWorld) {
    let (books, audit) = (world.store.books().await.unwrap(), world.store.audit().await.unwrap());
    assert_eq!((books.unaccounted(), &books), (0, &audit));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_stays_where_it_is_while_its_archive_cannot_be_written() {
    let world = MysqlWorld::with_tasks().await;
    away(&world).await;
    let report = world.run(OPTIONS, NOW).await;
    assert_eq!((report.not_archived, report.kept, report.forgotten), (1, 1, 0), "{report:?}");
    assert_eq!(world.sql("SELECT COUNT(*) FROM task_gone").await, "0", "it was not swapped out");
    world.has_everything("while the place is away").await;
    let inserted = world.store.insert(asks(), "caller", NOW).await.unwrap();
    let replaced = inserted.iter().filter(|inserted| inserted.decision == Decision::Replace).count();
    assert_eq!(replaced, 3);
    is_accounted_for(&world).await;
    back(&world).await;
    let report = world.run(OPTIONS, NOW).await;
    assert_eq!((report.archived, report.forgotten, report.not_archived), (297, 297, 0), "{report:?}");
    is_accounted_for(&world).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_id_whose_old_row_waits_for_its_archive_can_be_inserted_again() {
    let world = MysqlWorld::with_tasks().await;
    while world.sql("SELECT COUNT(*) FROM task_gone").await == "0" {
        world.run(STEPWISE, NOW).await;
    }
    // The place fails after the bucket was swapped out.
    away(&world).await;
    assert_eq!(world.run(OPTIONS, NOW).await.not_archived, 1);
    let inserted = world.store.insert(asks(), "caller", NOW).await.unwrap();
    let decisions: Vec<Decision> = inserted.iter().map(|inserted| inserted.decision).collect();
    assert_eq!(decisions[..3], [Decision::Replace; 3]);
    assert_eq!(decisions[3..], [Decision::Create; 3]);
    assert_eq!(inserted[1].task.place, world.tasks[2].place, "the reference that was handed out stays good");
    assert_eq!(world.sql("SELECT COUNT(*) FROM task_gone").await, "297");
    is_accounted_for(&world).await;
    back(&world).await;
    let report = world.run(OPTIONS, NOW).await;
    assert_eq!((report.archived, report.forgotten, report.not_archived), (297, 297, 0), "{report:?}");
    is_accounted_for(&world).await;
    for inserted in inserted {
        let found = world.store.versions(&namespace(), inserted.task.task_id(), None, 5).await.unwrap();
        assert_eq!(found.iter().map(|task| task.state).collect::<Vec<_>>(), [State::Scheduled]);
    }
}

/// The calls that return rows and those that record them meet at each batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rows_that_are_taken_back_while_others_are_settled_are_neither_lost_nor_doubled() {
    let world = MysqlWorld::with_tasks().await;
    while world.sql("SELECT COUNT(*) FROM task_gone").await == "0" {
        world.run(STEPWISE, NOW).await;
    }
    let again = async {
        for nth in (0..300).step_by(2) {
            let request = NewTask { execute_at: Millis(NOW.0 + DAY), ..ask(nth) };
            let inserted = world.store.insert(vec![request], "caller", NOW).await.unwrap();
            assert!(matches!(inserted[0].decision, Decision::Replace | Decision::Create));
        }
    };
    let recorded = async {
        let mut forgotten = 0;
        for _ in 0..200 {
            forgotten += world.run(STEPWISE, NOW).await.forgotten;
        }
        forgotten
    };
    let ((), forgotten) = tokio::join!(again, recorded);
    world.run(OPTIONS, NOW).await;
    assert!(forgotten > 0);
    is_accounted_for(&world).await;
    assert_eq!(
        world.sql("SELECT COUNT(*), COUNT(DISTINCT task_id) FROM task WHERE state = 1").await,
        "150\t150"
    );
    let alone = "SELECT COUNT(*) FROM registry LEFT JOIN task USING (partition_no, id) WHERE task.id IS NULL";
    assert_eq!(world.sql(alone).await, "0");
    assert_eq!(world.sql("SELECT COUNT(*) FROM task_gone").await, "0");
}
