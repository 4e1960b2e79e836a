//! Engines whose wall clock is set while they run, by libfaketime, which leaves the steady clocks alone. What is early or
//! late is decided by this process, whose clock is right.

use crate::binary::{Running, Server, blocking, http, punctual, servers, wait_for};
use punctual_testkit::servers::Redis;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

#[expect(clippy::disallowed_methods, reason = "the time by which engines are judged")]
fn true_ms() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// Of Debian's package `libfaketime`.
fn library() -> PathBuf {
    let found = fs::read_dir("/usr/lib").unwrap().flatten();
    let mut found =
        found.map(|entry| entry.path().join("faketime/libfaketimeMT.so.1")).filter(|path| path.exists());
    found.next().expect("these tests need the package libfaketime (scripts/install-servers)")
}

/// The wall clock of one engine, with the directory of its data.
struct WallClock {
    dir: TempDir,
}

impl WallClock {
    fn ahead_s(ahead_s: i64) -> Self {
        let clock = Self { dir: tempfile::tempdir().unwrap() };
        clock.set_ahead_s(ahead_s);
        clock
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("clock")
    }

    /// In one step: who reads meanwhile finds the old or the new.
    fn set_ahead_s(&self, ahead_s: i64) {
        let new = self.dir.path().join("clock.new");
        fs::write(&new, format!("{ahead_s:+}\n")).unwrap();
        fs::rename(new, self.path()).unwrap();
    }

    fn start(&self, servers: Option<&Servers>) -> Server {
        let data = self.dir.path().join("data");
        let args = ["serve", "--listen", "127.0.0.1:0", "--json", "--data", data.to_str().unwrap()];
        let mut command = punctual(&args);
        if let Some(server) = servers {
            command.env("PUNCTUAL_STORE_URL", &server.store_url).env("PUNCTUAL_HOT_URL", server.redis.url());
        }
        command.env("LD_PRELOAD", library()).env("FAKETIME_TIMESTAMP_FILE", self.path());
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        let mut process = Running::start(&mut command);
        let first: Value = serde_json::from_str(&process.first_line()).unwrap();
        let url = first["api"].as_str().unwrap().trim_end_matches("/v1").to_owned();
        Server { process, url }
    }
}

struct Servers {
    store_url: String,
    redis: Redis,
}

impl Servers {
    fn start() -> Self {
        blocking(async {
            let (mariadb, redis) = servers().await;
            Self { store_url: mariadb.fresh_database().await, redis }
        })
    }
}

/// Two engines that each have their share. The first one's clock may be wrong from the start.
fn two(clocks: &[WallClock; 2], servers: &Servers) -> (Server, Server) {
    let [first, second] = clocks;
    (first.start(Some(servers)), second.start(Some(servers)))
}

fn metric(server: &Server, name: &str) -> f64 {
    let text = blocking(async {
        http().get(format!("{}/metrics", server.url)).send().await.unwrap().text().await.unwrap()
    });
    let line = text.lines().find(|line| line.starts_with(name) && line[name.len()..].starts_with(' '));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

fn is_doubtful(server: &Server) -> bool {
    let (_, alerts) = server.get("/v1/alerts");
    alerts.to_string().contains("clock_doubtful")
}

/// When each task should run, by true time.
type Expected = BTreeMap<String, i64>;

/// Inserts a task that is due after a while. Its time must be meant as everybody else understands it.
fn insert_in(server: &Server, queue: &str, delay_ms: i64, expected: &mut Expected) {
    let before_ms = true_ms();
    let task = server.insert(json!({ "queue": queue, "delay_ms": delay_ms }));
    let at_ms = task["execute_at_ms"].as_i64().unwrap();
    let meant = before_ms + delay_ms - 500..=true_ms() + delay_ms + 500;
    assert!(meant.contains(&at_ms), "inserted with a delay of {delay_ms} ms: {} ms away", at_ms - before_ms);
    expected.insert(task["ref"].as_str().unwrap().to_owned(), at_ms);
}

fn insert_at(server: &Server, queue: &str, at_ms: i64, expected: &mut Expected) {
    let task = server.insert(json!({ "queue": queue, "execute_at_ms": at_ms }));
    expected.insert(task["ref"].as_str().unwrap().to_owned(), at_ms);
}

/// Each comes once, and not before its time.
fn all_run(servers: &[&Server], queue: &str, mut expected: Expected) {
    let mut nth = 0;
    wait_for("all tasks to run", || {
        let server = servers[nth % servers.len()];
        nth += 1;
        for task in server.lease(queue, 50, 600_000) {
            let at_ms = expected.remove(task["ref"].as_str().unwrap()).expect("each task comes once");
            let early_ms = at_ms - true_ms();
            assert!(early_ms <= 0, "{early_ms} ms early: {task}");
            assert_eq!(server.succeed(&task), "accepted");
        }
        expected.is_empty().then_some(())
    });
}

/// Inserts tasks until `is_seen`, and some more.
fn insert_until(is_seen: impl Fn() -> bool, mut insert: impl FnMut()) {
    const BEFORE_AND_AFTER: usize = 10;
    (0..BEFORE_AND_AFTER).for_each(|_| insert());
    wait_for("the engine to see its clock", || {
        insert();
        is_seen().then_some(())
    });
    (0..BEFORE_AND_AFTER).for_each(|_| insert());
}

fn is_hours_ahead(server: &Server) -> bool {
    metric(server, "punctual_clock_wall_ahead_seconds") > 10_000.0
}

#[test]
fn what_is_inserted_while_an_owners_clock_is_hours_ahead_fires_in_its_time() {
    let (servers, clocks) = (Servers::start(), [0, 0].map(WallClock::ahead_s));
    let (wrong, right) = two(&clocks, &servers);
    wait_for("each engine to have its share", || {
        let owned = [&wrong, &right].map(|server| metric(server, "punctual_partitions_owned"));
        (owned[0] > 0.0 && owned[1] > 0.0 && owned[0] + owned[1] > 15.0).then_some(())
    });
    let (mut expected, mut unmoved) = (Expected::new(), Expected::new());
    insert_in(&right, "q", 3_600_000, &mut unmoved);
    clocks[0].set_ahead_s(4 * 3_600);
    insert_until(|| is_hours_ahead(&wrong), || insert_in(&right, "q", 3_000, &mut expected));
    clocks[0].set_ahead_s(0);
    all_run(&[&right, &wrong], "q", expected);
    assert!(right.lease("q", 1, 1_000).is_empty(), "it is not due yet");
}

#[test]
fn an_engine_an_hour_ahead_fires_nothing_early_and_what_is_inserted_through_it_does_not_wait() {
    let (servers, clocks) = (Servers::start(), [3_600, 0].map(WallClock::ahead_s));
    let (wrong, right) = two(&clocks, &servers);
    let mut expected = Expected::new();
    for _ in 0..20 {
        insert_in(&wrong, "q", 3_000, &mut expected);
        insert_in(&right, "q", 3_000, &mut expected);
        insert_at(&wrong, "q", true_ms() + 3_000, &mut expected);
    }
    all_run(&[&right, &wrong], "q", expected);
    wait_for("the alert", || is_doubtful(&wrong).then_some(()));
    assert!(metric(&wrong, "punctual_clock_wall_ahead_seconds") > 3_500.0 && !is_doubtful(&right));
    wait_for("the other engine to have all partitions", || {
        let owned = [&wrong, &right].map(|server| metric(server, "punctual_partitions_owned"));
        (owned[0] < 1.0 && owned[1] > 15.0).then_some(())
    });
    let mut expected = Expected::new();
    insert_in(&wrong, "q", 3_000, &mut expected);
    clocks[0].set_ahead_s(0);
    for _ in 0..5 {
        insert_in(&wrong, "q", 3_000, &mut expected);
        insert_in(&right, "q", 3_000, &mut expected);
    }
    all_run(&[&wrong, &right], "q", expected);
    wait_for("the engine to have its share again", || {
        (metric(&wrong, "punctual_partitions_owned") > 0.0 && !is_doubtful(&wrong)).then_some(())
    });
}

#[test]
fn a_clock_that_is_set_back_makes_nothing_late_and_lengthens_no_lease() {
    let (servers, clock) = (Servers::start(), WallClock::ahead_s(0));
    let wrong = clock.start(Some(&servers));
    let (mut expected, mut leased) = (Expected::new(), Expected::new());
    insert_in(&wrong, "leased", 0, &mut leased);
    let first = wait_for("the first attempt", || wrong.lease("leased", 1, 3_000).pop());
    clock.set_ahead_s(-3_600);
    for _ in 0..10 {
        insert_in(&wrong, "q", 2_000, &mut expected);
    }
    // It is the only engine, and continues.
    all_run(&[&wrong], "q", expected);
    let second = wait_for("the second attempt", || wrong.lease("leased", 1, 600_000).pop());
    assert_eq!((&second["ref"], &second["attempt"]), (&first["ref"], &json!(2)));
    assert!(metric(&wrong, "punctual_clock_wall_ahead_seconds") < -3_500.0);
}

#[test]
fn the_embedded_engine_goes_on_when_its_clock_is_set_and_is_set_right_again() {
    let clock = WallClock::ahead_s(0);
    let server = clock.start(None);
    let (mut expected, mut later) = (Expected::new(), Expected::new());
    insert_in(&server, "q", 3_600_000, &mut later);
    clock.set_ahead_s(4 * 3_600);
    insert_until(|| is_doubtful(&server), || insert_in(&server, "q", 4_000, &mut expected));
    clock.set_ahead_s(0);
    all_run(&[&server], "q", expected);
    wait_for("the end of the alert", || (!is_doubtful(&server)).then_some(()));
    assert!(server.lease("q", 1, 1_000).is_empty(), "it is not due yet");
}

#[test]
fn the_embedded_engine_follows_a_step_that_stands_and_shortens_leases_when_it_goes_back() {
    let clock = WallClock::ahead_s(0);
    let server = clock.start(None);
    server.insert(json!({ "queue": "q", "delay_ms": 1_800_000 }));
    clock.set_ahead_s(3_600);
    let early = wait_for("its time by the clock that was set", || server.lease("q", 1, 60_000).pop());
    assert_eq!(server.succeed(&early), "accepted");
    let task = server.insert(json!({ "queue": "q" }));
    let first = wait_for("the first attempt", || server.lease("q", 1, 20_000).pop());
    assert_eq!(first["ref"], task["ref"]);
    clock.set_ahead_s(0);
    let later = server.insert(json!({ "queue": "other", "delay_ms": 1_000 }));
    let second = wait_for("the second attempt", || server.lease("q", 1, 60_000).pop());
    assert_eq!((&second["ref"], &second["attempt"]), (&first["ref"], &json!(2)));
    let mut expected = Expected::new();
    insert_in(&server, "fresh", 1_000, &mut expected);
    all_run(&[&server], "fresh", expected);
    assert_eq!(server.state(&later), "ready");
}
