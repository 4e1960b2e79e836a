//! One more way of inserting, on MySQL: a user's own transactions write rows into an inbox, each beside a row of a table of the user's
//! own, and some are rolled back. In the end that table says what was committed. Must not ask an engine what should be there.

use super::{
    field::{Field, integer, text},
    judge::Broken,
    look,
};
use crate::{
    clock::now_us,
    measure::{Percentiles, Spans},
};
use anyhow::Context as _;
use punctual_test_servers::MariaDb;
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::Duration,
};
use tokio::{io::AsyncWriteExt as _, process::Command, time::timeout};

const QUEUE: &str = "inbox";
/// Rows of one key come one after the other.
const KEYS: usize = 20;
/// Of one call of the client.
const TRANSACTIONS: usize = 5;
const PAUSE: Duration = Duration::from_millis(200);
const CALL_LIMIT: Duration = Duration::from_secs(8);
/// Beyond every run: what is looked at is that tasks are there, not that they run.
const DELAY_MS: i64 = 864_000_000;

/// The user's database, in the MariaDB of the installation.
#[derive(Debug, Clone)]
pub(crate) struct UserDatabase {
    pub(crate) name: String,
    port: u16,
}

/// What the inbox has done.
#[derive(Debug, Default, Serialize)]
pub(crate) struct InboxFound {
    pub(crate) committed: usize,
    pub(crate) tasks: usize,
    /// Committed, and no task.
    pub(crate) lost: usize,
    /// Of those, rows of a key whose later row is a task.
    pub(crate) out_of_order: usize,
    /// A task twice, or of a transaction that did not commit.
    pub(crate) doubled: usize,
    /// From just before the COMMIT until the engine had the task, of rows that were committed while nothing was broken.
    pub(crate) commit_to_accepted: Percentiles,
}

/// Key and version.
type Identity = (String, i64);

impl UserDatabase {
    pub(crate) async fn install(mariadb: &MariaDb, program: &Path) -> anyhow::Result<Self> {
        let url = mariadb.fresh_database().await;
        let name = url.rsplit('/').next().unwrap_or_default().to_owned();
        let installed = Command::new(program).args(["inbox", "install", "--url", &url]).output().await?;
        let said = String::from_utf8_lossy(&installed.stderr).into_owned();
        anyhow::ensure!(installed.status.success(), "punctual inbox install: {said}");
        let table =
            "CREATE TABLE made (k VARCHAR(64), version BIGINT, at_ms BIGINT, PRIMARY KEY (k, version))";
        mariadb.sql(&name, table).await;
        Ok(Self { name, port: mariadb.port() })
    }

    async fn sql(&self, statements: &str) -> anyhow::Result<String> {
        let port = self.port.to_string();
        let arguments =
            ["--no-defaults", "--skip-ssl", "-h127.0.0.1", "-P", &port, "-ut", "-pt", "-N", "-B", &self.name];
        let mut client = Command::new("mariadb");
        client.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut client = client.kill_on_drop(true).spawn().context("the client of MariaDB")?;
        let mut input = client.stdin.take().context("the client's input")?;
        let asked = async {
            input.write_all(statements.as_bytes()).await?;
            drop(input);
            client.wait_with_output().await
        };
        let output = timeout(CALL_LIMIT, asked).await.context("no answer of MariaDB")??;
        let said = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Commits and rolls back until the field ends. A call that fails may have committed: the table says so.
    pub(crate) async fn write_all(self, field: Arc<Field>, seed: u64) -> anyhow::Result<()> {
        let mut random = fastrand::Rng::with_seed(seed);
        while now_us() < field.ends_us() {
            let mut statements = String::new();
            for _ in 0..TRANSACTIONS {
                transaction(&mut statements, &mut random);
            }
            let _ = self.sql(&statements).await;
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// Why it is not quiet yet.
    pub(crate) async fn unrest(&self) -> Option<String> {
        match self.sql("SELECT COUNT(*) FROM punctual_inbox").await {
            Ok(rows) if rows.trim() == "0" => None,
            Ok(rows) => Some(format!("{} rows are in the inbox", rows.trim())),
            Err(error) => Some(format!("the inbox does not answer: {error}")),
        }
    }

    /// `peace`: from when to when nothing was broken, microseconds.
    pub(crate) async fn judged(
        &self,
        field: &Field,
        peace: &[(i64, i64)],
    ) -> anyhow::Result<(InboxFound, Vec<Broken>)> {
        let made = made(&self.sql("SELECT k, version, at_ms FROM made").await?);
        Ok(judge(&made, &look::all_of(field, QUEUE).await?, peace))
    }
}

/// One in five is rolled back, with both rows.
fn transaction(statements: &mut String, random: &mut fastrand::Rng) {
    let key = format!("key-{}", random.usize(..KEYS));
    let end = if random.u8(..5) == 0 { "ROLLBACK" } else { "COMMIT" };
    let _ = write!(
        statements,
        "START TRANSACTION;
         SET @version = (SELECT COALESCE(MAX(version), 0) + 1 FROM made WHERE k = '{key}' FOR UPDATE);
         INSERT INTO punctual_inbox (`key`, task_version, queue, delay_ms) VALUES ('{key}', @version, '{QUEUE}', {DELAY_MS});
         INSERT INTO made VALUES ('{key}', @version, CAST(ROUND(UNIX_TIMESTAMP(SYSDATE(3)) * 1000) AS SIGNED));
         {end};\n"
    );
}

/// When each was committed, milliseconds.
fn made(rows: &str) -> BTreeMap<Identity, i64> {
    let row = |line: &str| {
        let mut fields = line.split('\t');
        let (key, version) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        Some(((key, version), fields.next()?.parse().ok()?))
    };
    rows.lines().filter_map(row).collect()
}

fn judge(made: &BTreeMap<Identity, i64>, tasks: &[Value], peace: &[(i64, i64)]) -> (InboxFound, Vec<Broken>) {
    let (mut seen, mut highest) = (BTreeSet::<Identity>::new(), BTreeMap::<&str, i64>::new());
    let (mut found, mut broken, mut spans) = (InboxFound::default(), Vec::new(), Spans::default());
    let mut breach = |promise, (key, version): &Identity, text: &str| {
        broken.push(Broken { promise, task: None, text: format!("inbox, {key}, version {version}: {text}") });
    };
    for task in tasks {
        let (key, version) = (text(task, "key"), integer(task, "task_version"));
        let identity = (key.to_owned(), version);
        let most = highest.entry(key).or_default();
        *most = version.max(*most);
        match made.get(&identity) {
            None => {
                found.doubled += 1;
                breach("doubled", &identity, "a task of a transaction that did not commit");
            }
            Some(at_ms) if peace.iter().any(|(from, to)| (*from..*to).contains(&(at_ms * 1_000))) => {
                spans.record_us((integer(task, "created_at_ms") - at_ms) * 1_000);
            }
            Some(_) => {}
        }
        if let Some(twice) = seen.replace(identity) {
            found.doubled += 1;
            breach("doubled", &twice, "two tasks of one row");
        }
    }
    for identity in made.keys().filter(|identity| !seen.contains(*identity)) {
        found.lost += 1;
        if highest.get(identity.0.as_str()).is_some_and(|highest| *highest > identity.1) {
            found.out_of_order += 1;
            breach("order", identity, "committed, and no task, while a later row of its key is one");
        } else {
            breach("lost", identity, "committed, and no task");
        }
    }
    (found.committed, found.tasks) = (made.len(), tasks.len());
    found.commit_to_accepted = spans.percentiles();
    (found, broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn task(key: &str, version: i64, created_at_ms: i64) -> Value {
        json!({"key": key, "task_version": version, "created_at_ms": created_at_ms})
    }

    #[test]
    fn what_was_committed_is_a_task_once_in_order() {
        let made = made("a\t1\t1000\na\t2\t1010\nb\t1\t5000\n");
        let good = [task("a", 1, 1_030), task("a", 2, 1_050), task("b", 1, 5_001)];
        let (found, broken) = judge(&made, &good, &[(0, 2_000_000)]);
        assert_eq!((broken.len(), found.committed, found.tasks, found.lost, found.doubled), (0, 3, 3, 0, 0));
        assert_eq!(found.commit_to_accepted.count, 2, "the third was committed while something was broken");
        let wrong = [task("a", 2, 0), task("b", 1, 0), task("b", 1, 0), task("c", 1, 0)];
        let (found, broken) = judge(&made, &wrong, &[]);
        assert_eq!((found.lost, found.out_of_order, found.doubled), (1, 1, 2));
        let promises: Vec<&str> = broken.iter().map(|broken| broken.promise).collect();
        assert_eq!(promises, ["doubled", "doubled", "order"]);
        assert_eq!(judge(&made, &good[..2], &[]).1[0].promise, "lost");
    }

    #[test]
    fn some_transactions_are_rolled_back() {
        let (mut statements, mut random) = (String::new(), fastrand::Rng::with_seed(1));
        (0..100).for_each(|_| transaction(&mut statements, &mut random));
        let count = |word: &str| statements.matches(word).count();
        assert_eq!(count("COMMIT;") + count("ROLLBACK;"), 100);
        assert!(count("ROLLBACK;") > 5 && count("COMMIT;") > 50);
    }
}
