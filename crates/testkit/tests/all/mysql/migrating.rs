//! How the schema is created and which programs are refused: twice, concurrently, half done, newer, altered,
//! another store's.

use super::{fresh, migrate, open, sql};
use punctual_contract::Store as _;
use punctual_store::{MysqlOptions, MysqlStore};
use punctual_testkit::servers;

const FIRST: &str = include_str!("../../../../../migrations/mysql/0001_tasks.sql");

async fn empty(databases: usize) -> Vec<String> {
    let mut urls = Vec::new();
    for _ in 0..databases {
        urls.push(servers::mariadb().await.fresh_database().await);
    }
    urls
}

async fn refused(urls: &[String]) -> String {
    MysqlStore::open(urls, MysqlOptions::default()).await.unwrap_err().to_string()
}

async fn recorded(url: &str) -> Vec<String> {
    let names = sql(url, "SELECT name FROM migration ORDER BY position").await;
    names.lines().map(str::to_owned).collect()
}

/// Everything that makes a schema, but for counters that continue.
async fn schema(url: &str) -> String {
    let tables = sql(
        url,
        "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
    )
    .await;
    let mut all = String::new();
    for table in tables.lines() {
        let made = sql(url, &format!("SHOW CREATE TABLE {table}")).await;
        all.extend(
            made.split("AUTO_INCREMENT=")
                .map(|part| part.trim_start_matches(|letter: char| letter.is_ascii_digit())),
        );
    }
    all
}

#[tokio::test]
async fn migrating_names_what_it_applied_and_the_second_time_nothing() {
    let urls = empty(2).await;
    let applied = migrate(&urls).await.unwrap();
    let names = recorded(&urls[0]).await;
    assert_eq!(applied, [names.as_slice(), &names].concat(), "once for each database");
    let before = schema(&urls[0]).await;
    assert_eq!(migrate(&urls).await.unwrap(), [""; 0]);
    assert_eq!(schema(&urls[0]).await, before);
    let store = open(&urls).await;
    assert_eq!(store.migrated(), [""; 0]);
    assert_eq!(store.partitions(), MysqlOptions::default().partitions);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_migrate_at_once_each_step_is_made_by_one() {
    let urls = empty(2).await;
    let mut engines = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let urls = urls.clone();
        engines.spawn(async move { migrate(&urls).await.unwrap() });
    }
    let applied: Vec<String> = engines.join_all().await.into_iter().flatten().collect();
    assert_eq!(applied.len(), recorded(&urls[0]).await.len() * 2);
}

#[tokio::test]
async fn a_migration_that_was_interrupted_is_run_again() {
    let urls = empty(2).await;
    migrate(&urls[..1]).await.unwrap();
    let whole = schema(&urls[0]).await;
    let record = sql(&urls[0], "SHOW CREATE TABLE migration").await.replace("\\n", " ");
    let record = record.split_once('\t').unwrap().1;
    let statements: Vec<&str> = FIRST.split_inclusive(";\n").collect();
    assert!(statements.len() > 5);
    sql(&urls[1], &format!("{record};{}", statements[..4].concat())).await;
    let one = &urls[1..];
    assert_eq!(migrate(one).await.unwrap(), recorded(&urls[0]).await);
    assert_eq!(schema(&urls[1]).await, whole);
}

#[tokio::test]
async fn a_newer_schema_is_refused_by_name() {
    let urls = empty(1).await;
    migrate(&urls).await.unwrap();
    sql(&urls[0], "INSERT INTO migration VALUES (9999, '9999_of_the_future', 'x')").await;
    let refused = refused(&urls).await;
    assert!(refused.contains("9999_of_the_future") && refused.contains("newer program"), "{refused}");
}

#[tokio::test]
async fn an_altered_schema_is_refused_by_name() {
    let urls = empty(1).await;
    migrate(&urls).await.unwrap();
    sql(&urls[0], "UPDATE migration SET checksum = 'another' WHERE position = 1").await;
    let refused = refused(&urls).await;
    assert!(refused.contains("0001_tasks") && refused.contains("another"), "{refused}");
}

/// As 0.1.0 recorded them.
#[tokio::test]
async fn checksums_are_what_the_server_says_of_the_files() {
    let url = servers::migrated_database().await;
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations/mysql");
    for file in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        let text: String = std::fs::read(&file).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
        let name = file.file_stem().unwrap().to_str().unwrap();
        let read = format!("SELECT checksum = SHA2(x'{text}', 256) FROM migration WHERE name = '{name}'");
        assert_eq!(sql(&url, &read).await, "1", "{name}");
    }
}

#[tokio::test]
async fn a_database_of_another_application_is_refused_and_left_alone() {
    let urls = empty(1).await;
    sql(&urls[0], "CREATE TABLE invoice (id INT PRIMARY KEY)").await;
    let refused = refused(&urls).await;
    assert!(refused.contains("invoice") && !refused.contains("t:t"), "{refused}");
    assert_eq!(sql(&urls[0], "SHOW TABLES").await, "invoice");
}

#[tokio::test]
async fn databases_in_another_order_or_number_or_of_another_cluster_are_refused() {
    let urls = empty(3).await;
    migrate(&urls).await.unwrap();
    let swapped = [urls[0].clone(), urls[2].clone(), urls[1].clone()];
    let other_first = [urls[1].clone(), urls[0].clone(), urls[2].clone()];
    for (wrong, why) in [
        (swapped.as_slice(), "order the list"),
        (&other_first, "order the list"),
        (&urls[..2], "2 databases are named, and the cluster has 3"),
        (&[], "no database is named"),
    ] {
        let refused = refused(wrong).await;
        assert!(refused.contains(why), "{refused}");
    }
    let strangers = empty(3).await;
    migrate(&strangers).await.unwrap();
    let mixed = [urls[0].clone(), strangers[1].clone(), urls[2].clone()];
    assert!(refused(&mixed).await.contains("another cluster"));
    let more = [urls.as_slice(), &empty(1).await].concat();
    migrate(&more).await.unwrap();
    assert_eq!(sql(&more[3], "SHOW TABLES").await, "", "one that is not added yet is left alone");
    assert_eq!(sql(&more[0], "SELECT value FROM meta WHERE name = 'shards'").await, "3");
    migrate(&urls).await.unwrap();
}

#[tokio::test]
async fn a_copy_of_what_was_migrated_is_what_migrating_makes() {
    let (migrated, copy) = (empty(1).await.remove(0), fresh(1).await.remove(0));
    let rows = async |url: &str| {
        let mut all = String::new();
        for table in ["meta", "gone_to", "indexed_label", "migration"] {
            let columns = if table == "migration" { "position, name, checksum" } else { "*" };
            all += &sql(url, &format!("SELECT {columns} FROM {table} ORDER BY 1")).await;
        }
        all
    };
    assert_eq!(MysqlStore::migrate_alone(&migrated).await.unwrap(), recorded(&migrated).await);
    assert_eq!(schema(&copy).await, schema(&migrated).await);
    assert_eq!(rows(&copy).await, rows(&migrated).await);
    assert_eq!(MysqlStore::migrate_alone(&copy).await.unwrap(), [""; 0]);
    // Each becomes a cluster of its own.
    assert_ne!(open(&[migrated]).await.cluster().0, open(&[copy]).await.cluster().0);
}
