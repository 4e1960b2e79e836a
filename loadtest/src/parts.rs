//! The bare parts: what MariaDB and Redis give on this machine with nothing of a product around them. One process inserts
//! rows, loads them into Redis, fires them when they are due, passes them through a stream and writes their outcomes; all
//! figures of `bars` are shares of what that takes. Must never use a line of the product, and must stay as it is: a
//! pipeline that is made faster moves every bar.

mod mysql;
mod redis;

use crate::{
    clock::{now_ms, now_us, seconds},
    options::parse_ms,
    proc::Usage,
    report::line,
};
use anyhow::Context as _;
use clap::Args;
use punctual_test_servers::{MariaDb, Redis};
use redis::RedisValue;
use serde::Serialize;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::Duration,
};

#[derive(Args, Debug, Clone)]
pub(crate) struct PartsOptions {
    /// How long each part is measured
    #[arg(long, default_value = "8s", value_parser = parse_ms)]
    pub(crate) measure: i64,
    /// One JSON object on stdout instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PartsReport {
    pub(crate) pipeline: Pipeline,
    pub(crate) inserts: Inserts,
}

/// The throughput of tasks that passed all steps: insert, load, fire, stream, outcome.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Pipeline {
    pub(crate) tasks_per_s: f64,
    /// CPU a task, microseconds.
    pub(crate) mariadb_us: f64,
    pub(crate) redis_us: f64,
    pub(crate) process_us: f64,
}

/// Rows a second that are only inserted, each with a unique key.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Inserts {
    /// 1,000 rows a commit, two connections.
    pub(crate) batches_per_s: f64,
    /// One row a commit, 64 connections.
    pub(crate) singles_per_s: f64,
}

impl Pipeline {
    /// CPU of all processes a task.
    pub(crate) fn us(&self) -> f64 {
        self.mariadb_us + self.redis_us + self.process_us
    }
}

/// Before a pipeline is measured it has run for so long, or for as long as it is measured.
const WARM_UP: Duration = Duration::from_secs(3);
const INSERTERS: usize = 2;
const BATCH: usize = 1_000;
const SINGLE_CONNECTIONS: usize = 64;
/// The maximum number of rows that are inserted and not done.
const OPEN_MAX: u64 = 150_000;
const LOAD_MAX: usize = 2_000;
/// The minimum time from insert to due; the maximum is `SPREAD_MS` more.
const DUE_AFTER_MS: i64 = 300;
const SPREAD_MS: u64 = 500;
/// The span of time of one list in Redis.
const LIST_MS: i64 = 100;
const LISTS_BEFORE: i64 = 5;
const TASKS_OF_AN_ENTRY: usize = 10;
const ID_BYTES: usize = 8;
const MEMBER_HEAD_BYTES: usize = 16;
const PAYLOAD_BYTES: usize = 200;
const USER: &str = "parts";
const DURABLE_MARIADB: [&str; 8] = [
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-buffer-pool-size=2G",
    "--innodb-log-file-size=1G",
    "--innodb-log-buffer-size=64M",
    "--innodb-flush-method=O_DIRECT",
    "--innodb-io-capacity=4000",
    "--innodb-autoinc-lock-mode=2",
    "--max-allowed-packet=64M",
];
const DURABLE_REDIS: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"];
const TABLE: &str = "CREATE TABLE parts (id BIGINT NOT NULL, namespace VARCHAR(32) CHARACTER SET ascii NOT NULL, \
    task_id VARCHAR(64) CHARACTER SET ascii NOT NULL, version INT UNSIGNED NOT NULL, priority TINYINT UNSIGNED NOT NULL, \
    state TINYINT UNSIGNED NOT NULL, execute_at BIGINT NOT NULL, attempts SMALLINT UNSIGNED NOT NULL, \
    max_attempts SMALLINT UNSIGNED NOT NULL, created_at BIGINT NOT NULL, updated_at BIGINT NOT NULL, payload BLOB NOT NULL, \
    PRIMARY KEY(id), UNIQUE KEY uk(namespace, task_id, version)) ENGINE=InnoDB";

/// The pipeline, then the inserts, on private servers that are gone afterwards.
pub(crate) async fn parts(options: &PartsOptions) -> anyhow::Result<PartsReport> {
    let measured = Duration::from_millis(u64::try_from(options.measure).unwrap_or(0));
    let servers = Servers::start().await?;
    let pipeline = servers.pipeline(measured).await?;
    let inserts = Inserts {
        batches_per_s: servers.inserts(measured / 2, INSERTERS, BATCH).await?,
        singles_per_s: servers.inserts(measured / 2, SINGLE_CONNECTIONS, 1).await?,
    };
    Ok(PartsReport { pipeline, inserts })
}

struct Servers {
    mariadb: MariaDb,
    redis: Redis,
    database: String,
}

impl Servers {
    async fn start() -> anyhow::Result<Self> {
        let mariadb = MariaDb::with(&DURABLE_MARIADB).await;
        let redis = Redis::with(&DURABLE_REDIS).await;
        let url = mariadb.fresh_database().await;
        let database = url.rsplit('/').next().context("the URL names a database")?.to_owned();
        let user = format!("CREATE USER {USER}@'127.0.0.1'; GRANT ALL ON *.* TO {USER}@'127.0.0.1'");
        mariadb.sql(&database, &user).await;
        Ok(Self { mariadb, redis, database })
    }

    fn used(&self) -> anyhow::Result<[Usage; 3]> {
        let used = || Some([Usage::of(self.mariadb.pid())?, Usage::of(self.redis.pid())?, Usage::of_self()?]);
        used().context("CPU time is read from /proc, which this system has not")
    }

    async fn fresh_table(&self) {
        self.mariadb.sql(&self.database, &format!("DROP TABLE IF EXISTS parts; {TABLE}")).await;
    }

    async fn pipeline(&self, measured: Duration) -> anyhow::Result<Pipeline> {
        self.fresh_table().await;
        let work = WorkThreads::start(self, INSERTERS, BATCH, true)?;
        work.wait(WARM_UP.min(measured)).await?;
        let (before, from_us, done_before) = (self.used()?, now_us(), work.done());
        work.wait(measured).await?;
        let (after, tasks) = (self.used()?, (work.done() - done_before).max(1) as f64);
        let tasks_per_s = tasks / seconds(now_us() - from_us);
        work.end()?;
        let [mariadb_us, redis_us, process_us] = std::array::from_fn(|part| {
            let (now, then) = (after.get(part).copied(), before.get(part).copied());
            now.zip(then).map_or(0.0, |(now, then)| now.since(then).cpu_us() as f64 / tasks)
        });
        Ok(Pipeline { tasks_per_s, mariadb_us, redis_us, process_us })
    }

    async fn inserts(&self, measured: Duration, connections: usize, batch: usize) -> anyhow::Result<f64> {
        self.fresh_table().await;
        let work = WorkThreads::start(self, connections, batch, false)?;
        work.wait(measured / 4).await?;
        let (from_us, before) = (now_us(), work.inserted());
        work.wait(measured).await?;
        let per_s = (work.inserted() - before) as f64 / seconds(now_us() - from_us);
        work.end()?;
        Ok(per_s)
    }
}

/// The state that the threads share.
struct Shared {
    mysql_port: u16,
    redis_port: u16,
    database: String,
    batch: usize,
    is_over: AtomicBool,
    next: AtomicU64,
    inserted: AtomicU64,
    done: AtomicU64,
    /// The first row that each inserter has not committed yet: rows below all of them are there, without a gap.
    open_from: Vec<AtomicU64>,
}

/// Threads at work; they end when this is dropped.
struct WorkThreads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl WorkThreads {
    fn start(servers: &Servers, inserters: usize, batch: usize, is_whole: bool) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            mysql_port: servers.mariadb.port(),
            redis_port: servers.redis.port(),
            database: servers.database.clone(),
            batch,
            is_over: AtomicBool::new(false),
            next: AtomicU64::new(1),
            inserted: AtomicU64::new(0),
            done: AtomicU64::new(0),
            open_from: (0..inserters).map(|_| AtomicU64::new(1)).collect(),
        });
        let mut work = Self { shared, threads: Vec::new() };
        if is_whole {
            let mut redis = work.shared.redis()?;
            redis.command(&[b"FLUSHALL"]);
            redis.command(&[b"XGROUP", b"CREATE", b"s", b"g", b"0", b"MKSTREAM"]);
            redis.answers()?;
            let (outcomes, reported) = sync_channel(64);
            work.thread("load", load)?;
            work.thread("fire", fire)?;
            work.thread("execute", move |shared| execute(shared, &outcomes))?;
            work.thread("outcomes", move |shared| write_outcomes(shared, &reported))?;
        }
        for nth in 0..inserters {
            work.thread("insert", move |shared| insert(shared, nth, is_whole))?;
        }
        Ok(work)
    }

    fn thread(
        &mut self,
        name: &str,
        run: impl FnOnce(&Shared) -> anyhow::Result<()> + Send + 'static,
    ) -> anyhow::Result<()> {
        let shared = Arc::clone(&self.shared);
        let run = move || {
            let outcome = run(&shared);
            // One that has failed must not let the others run dry unseen.
            shared.is_over.store(true, SeqCst);
            outcome
        };
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(run)?);
        Ok(())
    }

    /// Lets it run for so long; an error when it has ended before.
    async fn wait(&self, time: Duration) -> anyhow::Result<()> {
        tokio::time::sleep(time).await;
        anyhow::ensure!(!self.shared.is_over(), "the bare pipeline has ended by itself");
        Ok(())
    }

    fn done(&self) -> u64 {
        self.shared.done.load(SeqCst)
    }

    fn inserted(&self) -> u64 {
        self.shared.inserted.load(SeqCst)
    }

    fn end(mut self) -> anyhow::Result<()> {
        self.shared.is_over.store(true, SeqCst);
        self.threads.drain(..).try_for_each(|thread| {
            thread.join().map_err(|_| anyhow::anyhow!("a thread of the bare pipeline panicked"))?
        })
    }
}

impl Drop for WorkThreads {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    fn mysql(&self) -> anyhow::Result<mysql::Client> {
        mysql::Client::connect(self.mysql_port, USER, &self.database)
    }

    fn redis(&self) -> anyhow::Result<redis::Client> {
        redis::Client::connect(self.redis_port)
    }

    /// Rows up to this one are all committed.
    fn committed(&self) -> u64 {
        let open_from = self.open_from.iter().map(|from| from.load(SeqCst)).min();
        open_from.unwrap_or(1).saturating_sub(1)
    }
}

#[expect(clippy::disallowed_methods, reason = "the threads of the bare pipeline wait as a prototype does")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

fn insert(shared: &Shared, nth: usize, is_bounded: bool) -> anyhow::Result<()> {
    const ROW: &str = "(?,?,?,?,?,?,?,?,?,?,?,?)";
    let mut mysql = shared.mysql()?;
    let rows = vec![ROW; shared.batch].join(",");
    let statement = mysql.prepare(&format!(
        "INSERT INTO parts (id,namespace,task_id,version,priority,state,execute_at,attempts,max_attempts,created_at,updated_at,payload) VALUES {rows}"
    ))?;
    let open_from = shared.open_from.get(nth).context("each inserter has its mark")?;
    let (mut values, batch) = (mysql::Values::default(), u64::try_from(shared.batch)?);
    while !shared.is_over() {
        let open = shared.inserted.load(SeqCst).saturating_sub(shared.done.load(SeqCst));
        if is_bounded && open > OPEN_MAX {
            // It holds nothing back meanwhile.
            open_from.store(shared.next.load(SeqCst), SeqCst);
            pause(Duration::from_millis(2));
            continue;
        }
        // Below what is taken next, so that the mark is never ahead of a row that is still to come.
        open_from.store(shared.next.load(SeqCst), SeqCst);
        let first = shared.next.fetch_add(batch, SeqCst);
        values.clear();
        let now = now_ms();
        (first..first + batch).for_each(|id| write_row(&mut values, id, now));
        mysql.execute(statement, &values)?;
        shared.inserted.fetch_add(batch, SeqCst);
    }
    Ok(())
}

fn write_row(values: &mut mysql::Values, id: u64, now: i64) {
    let hash = mixed(id);
    let mut payload = [0; PAYLOAD_BYTES];
    for (nth, bytes) in (0..).zip(payload.chunks_mut(8)) {
        bytes.copy_from_slice(&mixed(hash.wrapping_add(nth)).to_le_bytes());
    }
    let small = |value: u64| i64::try_from(value).unwrap_or(0);
    values.integer(small(id));
    values.blob(b"orders");
    values.blob(format!("t-{hash:016x}").as_bytes());
    [1, small(hash & 7), 0, now + DUE_AFTER_MS + small(hash % SPREAD_MS), 0, 3, now, now]
        .into_iter()
        .for_each(|value| values.integer(value));
    values.blob(&payload);
}

/// splitmix64.
const fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Reads committed rows in their order, and appends them to the list of their tenth of a second.
fn load(shared: &Shared) -> anyhow::Result<()> {
    let (mut mysql, mut redis) = (shared.mysql()?, shared.redis()?);
    let text =
        format!("SELECT id,execute_at,payload FROM parts WHERE id>? AND id<=? ORDER BY id LIMIT {LOAD_MAX}");
    let (statement, mut values, mut last) = (mysql.prepare(&text)?, mysql::Values::default(), 0);
    while !shared.is_over() {
        values.clear();
        values.integer(last);
        values.integer(i64::try_from(shared.committed())?);
        let rows = mysql.rows(statement, &values)?;
        let Some(newest) = rows.last() else {
            pause(Duration::from_millis(3));
            continue;
        };
        last = i64::try_from(newest.id)?;
        let next_list = now_ms() / LIST_MS + 1;
        let mut lists: BTreeMap<Option<i64>, Vec<&mysql::TaskRow>> = BTreeMap::new();
        for row in &rows {
            let list = row.execute_at / LIST_MS;
            lists.entry((list > next_list).then_some(list)).or_default().push(row);
        }
        for (list, rows) in lists {
            redis.begin(2 + rows.len());
            redis.word(b"RPUSH");
            redis.word(key(list).as_bytes());
            for row in rows {
                let mut member = Vec::with_capacity(MEMBER_HEAD_BYTES + row.payload.len());
                member.extend(row.id.to_be_bytes());
                member.extend(row.execute_at.to_be_bytes());
                member.extend(&row.payload);
                redis.word(&member);
            }
        }
        redis.answers()?;
    }
    Ok(())
}

/// The key of the list of a tenth of a second. `None` is for tasks that arrived after it was emptied.
fn key(list: Option<i64>) -> String {
    list.map_or_else(|| "b:late".to_owned(), |list| format!("b:{list}"))
}

/// Takes what is due soon, holds it until it is, and adds it to the stream, several tasks an entry.
fn fire(shared: &Shared) -> anyhow::Result<()> {
    let (mut lists, mut stream) = (shared.redis()?, shared.redis()?);
    let mut waiting: BTreeMap<i64, Vec<Vec<u8>>> = BTreeMap::new();
    while !shared.is_over() {
        let list = now_ms() / LIST_MS;
        for list in (list - LISTS_BEFORE..=list + 1).map(Some).chain([None]) {
            lists.command(&[b"LPOP", key(list).as_bytes(), b"1000"]);
        }
        let mut most = 0;
        for members in lists.answers()? {
            let members = members.items();
            most = most.max(members.len());
            for member in members {
                let member = member.bytes()?;
                waiting.entry(number_at(&member, ID_BYTES)?.cast_signed()).or_default().push(member);
            }
        }
        let later = waiting.split_off(&(now_ms() + 1));
        let due: Vec<Vec<u8>> = std::mem::replace(&mut waiting, later).into_values().flatten().collect();
        for thousand in due.chunks(BATCH) {
            for entry in thousand.chunks(TASKS_OF_AN_ENTRY) {
                stream.begin(6 + 2 * entry.len());
                [&b"XADD"[..], b"s", b"MAXLEN", b"~", b"200000", b"*"]
                    .iter()
                    .for_each(|word| stream.word(word));
                for member in entry {
                    stream.word(b"p");
                    stream.word(member);
                }
            }
            stream.answers()?;
        }
        if most < BATCH {
            pause(Duration::from_millis(1));
        }
    }
    Ok(())
}

fn number_at(bytes: &[u8], from: usize) -> anyhow::Result<u64> {
    let bytes = bytes.get(from..from + 8).context("a short member")?;
    Ok(u64::from_be_bytes(bytes.try_into()?))
}

/// Reads the stream, acknowledges, and passes on which tasks came.
fn execute(shared: &Shared, outcomes: &SyncSender<Vec<u64>>) -> anyhow::Result<()> {
    const READ: [&[u8]; 11] =
        [b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"1000", b"BLOCK", b"20", b"STREAMS", b"s", b">"];
    let mut redis = shared.redis()?;
    while !shared.is_over() {
        redis.command(&READ);
        let entries: VecDeque<RedisValue> = redis.answers()?.into_iter().flat_map(entries_of).collect();
        if entries.is_empty() {
            continue;
        }
        let (count, mut ids) = (entries.len(), Vec::new());
        redis.begin(3 + count);
        [&b"XACK"[..], b"s", b"g"].iter().for_each(|word| redis.word(word));
        for entry in entries {
            let mut entry = entry.items().into_iter();
            redis.word(&entry.next().context("an entry has an id")?.bytes()?);
            let members = entry.next().context("an entry has fields")?.items().into_iter().skip(1).step_by(2);
            for member in members {
                ids.push(number_at(&member.bytes()?, 0)?);
            }
        }
        redis.answers()?;
        if outcomes.send(ids).is_err() {
            return Ok(());
        }
        if count < 300 {
            pause(Duration::from_millis(3));
        }
    }
    Ok(())
}

/// The entries of the one stream of the request.
fn entries_of(answer: RedisValue) -> Vec<RedisValue> {
    let of_stream = answer.items().into_iter().next().map(RedisValue::items);
    of_stream.and_then(|mut named| named.pop()).map(RedisValue::items).unwrap_or_default()
}

fn write_outcomes(shared: &Shared, reported: &Receiver<Vec<u64>>) -> anyhow::Result<()> {
    let mut mysql = shared.mysql()?;
    // Ends when the executor has: until then none of its outcomes is left behind.
    while let Ok(mut ids) = reported.recv() {
        while ids.len() < BATCH
            && let Ok(more) = reported.try_recv()
        {
            ids.extend(more);
        }
        ids.sort_unstable();
        let list = ids.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let now = now_ms();
        mysql.run(&format!(
            "UPDATE parts SET state=2,attempts=attempts+1,updated_at={now} WHERE id IN ({list})"
        ))?;
        shared.done.fetch_add(u64::try_from(ids.len())?, SeqCst);
    }
    Ok(())
}

impl PartsReport {
    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        let Pipeline { tasks_per_s, mariadb_us, redis_us, process_us } = self.pipeline;
        let us = self.pipeline.us();
        line(&mut out, "bare pipeline", format_args!("{tasks_per_s:.0} tasks/s from insert to outcome"));
        let parts = format_args!(
            "{us:.1} us a task: MariaDB {mariadb_us:.1}, Redis {redis_us:.1}, process {process_us:.1}"
        );
        line(&mut out, "CPU", parts);
        let Inserts { batches_per_s, singles_per_s } = self.inserts;
        line(
            &mut out,
            "bare inserts",
            format_args!("{batches_per_s:.0}/s, 1,000 a commit; {singles_per_s:.0}/s, one a commit"),
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of any length will do: that tasks come through at all is what the pipeline is for.
    #[tokio::test]
    #[cfg(target_os = "linux")]
    async fn tasks_go_through_the_bare_pipeline_and_rows_are_inserted() {
        let report = parts(&PartsOptions { measure: 1_000, json: false }).await.unwrap();
        assert!(report.pipeline.tasks_per_s > 0.0 && report.pipeline.us() > 0.0, "{report:?}");
        assert!(report.inserts.batches_per_s > 0.0 && report.inserts.singles_per_s > 0.0, "{report:?}");
        assert!(report.table().contains("bare pipeline"));
    }
}
