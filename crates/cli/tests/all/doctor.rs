//! `punctual doctor`: what is good, doubtful and wrong on real servers, embedded and shared, and one that hangs.

use crate::binary::{
    DURABLE, Server, blocking, documents, ended_by_itself, mariadb, punctual, run, stderr, stdout,
};
use punctual_testkit::{
    certificates::{Authority, CertificateNames, Validity},
    servers::{MariaDb, Redis, TlsKeyPair},
};
use serde_json::Value;
use std::{process::Output, time::Duration};

/// The verdict and the line of a check, of the first place that it was made at.
fn of<'d>(document: &'d Value, check: &str) -> (&'d str, &'d Value) {
    let all = document["checks"].as_array().unwrap();
    let line =
        all.iter().find(|line| line["check"] == check).unwrap_or_else(|| panic!("no {check} in {document}"));
    (line["verdict"].as_str().unwrap(), line)
}

fn doctor(store: &str, hot: &str) -> Output {
    let mut command = punctual(&["doctor", "--json"]);
    ended_by_itself(command.env("PUNCTUAL_STORE_URL", store).env("PUNCTUAL_HOT_URL", hot))
}

#[track_caller]
fn seen(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{} {}", stdout(output), stderr(output));
    documents(output).remove(0)
}

/// What servers on a machine that is frozen for seconds have not answered is asked again, as the doctor says to do.
fn answered(store: &str, hot: &str) -> Output {
    let silent = |output: &Output| {
        stdout(output).contains("no answer within") || stdout(output).contains("fell silent")
    };
    let looks = std::iter::repeat_with(|| doctor(store, hot));
    let mut looks = looks.take(10).skip_while(silent);
    looks.next().expect("a server answers within a minute")
}

/// Of a machine that may be so busy that a commit takes a second: wrong, and rightly so.
#[track_caller]
fn seen_beside_others(output: &Output) -> Value {
    let document = documents(output).pop().unwrap_or_else(|| panic!("{}", stderr(output)));
    let code = if document["is_well"] == true { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{document} {}", stderr(output));
    document
}

#[test]
fn the_embedded_default_is_looked_at_before_beside_and_after_an_engine() {
    let data = tempfile::tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let look = || seen(&run(&["doctor", "--json", "--data", path]), 0);
    let before = look();
    assert!(of(&before, "file.schema").1["finding"].as_str().unwrap().contains("not there yet"));
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0, "nothing was made");
    let server = Server::start(data.path());
    let beside = look();
    for check in ["file.schema", "file.integrity", "file.log", "machine.clock", "place.writable"] {
        assert_eq!(of(&beside, check).0, "good", "{beside}");
    }
    assert!(of(&beside, "file.schema").1["finding"].as_str().unwrap().contains("an engine has it open"));
    drop(server);
    assert_eq!(of(&look(), "file.integrity").0, "good");
    let table = stdout(&run(&["doctor", "--data", path]));
    assert!(table.contains("file.integrity") && table.contains(" wrong"), "{table}");
}

#[test]
fn a_damaged_file_is_wrong() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("punctual.db"), "not a database at all ".repeat(100)).unwrap();
    let found = seen(&run(&["doctor", "--json", "--data", data.path().to_str().unwrap()]), 1);
    assert_eq!(of(&found, "file.schema").0, "wrong");
    assert_eq!(found["is_well"], false);
}

#[test]
fn a_sound_stack_over_tls_is_good_in_every_check_that_its_machine_allows() {
    let identity = TlsKeyPair::of(
        &Authority::new(),
        CertificateNames::loopback(),
        Validity::EndsIn(Duration::from_hours(90 * 24)),
    );
    let (mariadb, redis) = blocking(async {
        (
            MariaDb::over_tls(&identity, &DURABLE).await,
            Redis::over_tls(&identity, &["--maxmemory", "1gb"]).await,
        )
    });
    let (store, hot) = (blocking(mariadb.fresh_database()), redis.url());
    let empty = seen_beside_others(&answered(&store, &hot));
    assert_eq!(of(&empty, "mysql.schema").0, "doubtful");
    // An engine that finds a server silent at its start says so and ends: its supervisor starts it again.
    let start = || {
        let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.env("PUNCTUAL_STORE_URL", &store).env("PUNCTUAL_HOT_URL", &hot);
        let mut running = crate::binary::Running::start(&mut command);
        running.try_first_line().map(|_| running)
    };
    let mut starts = std::iter::repeat_with(start).take(5);
    let is_sound =
        |result: &Result<_, String>| result.as_ref().err().is_none_or(|why| !why.contains("silent"));
    let _engine = starts.find(is_sound).expect("a server answers within a minute").unwrap();
    let found = seen_beside_others(&answered(&store, &hot));
    let verdicts = found["checks"].as_array().unwrap();
    // The machine's own disk and limits are not the test's.
    let others = verdicts.iter().filter(|verdict| {
        let check = verdict["check"].as_str().unwrap();
        check.starts_with("mysql.") || check.starts_with("redis.")
    });
    let others: Vec<_> = others.collect();
    // A busy machine may take its time to commit; all else is as it should be.
    let slow = ["mysql.commit", "redis.script", "mysql.clock", "redis.clock"];
    for finding in &others {
        assert!(
            finding["verdict"] == "good" || slow.contains(&finding["check"].as_str().unwrap()),
            "{finding}"
        );
    }
    assert_eq!(others.len(), 22, "{found}");
    for check in ["mysql.tls", "redis.tls"] {
        let line = of(&found, check).1["finding"].as_str().unwrap();
        assert!(line.contains("encrypted") && line.contains("holds for 89 more days"), "{line}");
    }
    assert!(of(&found, "redis.marker").1["finding"].as_str().unwrap().contains("this cluster's"));
}

#[test]
fn what_is_wrong_and_what_is_doubtful_is_said_with_the_way_out() {
    let ending = TlsKeyPair::of(
        &Authority::new(),
        CertificateNames::loopback(),
        Validity::EndsIn(Duration::from_hours(3 * 24)),
    );
    let weak = ["--innodb-flush-log-at-trx-commit=2", "--max-allowed-packet=1M", "--wait-timeout=20"];
    let (mariadb, redis) = blocking(async {
        let mariadb = MariaDb::over_tls(&ending, &weak).await;
        let rights = "CREATE USER poor@'127.0.0.1' IDENTIFIED BY 'p'; GRANT SELECT, INSERT ON d.* TO poor@'127.0.0.1'; CREATE DATABASE d;";
        mariadb.sql("mysql", rights).await;
        (mariadb, Redis::with(&["--maxmemory-policy", "allkeys-lru"]).await)
    });
    blocking(redis.command(&["SET", "punctual:cluster", "00000000000000ff (elsewhere:3306/other)"]));
    let store = mariadb.url("d").replace("t:t@", "poor:p@");
    let found = seen(&answered(&store, &redis.url()), 1);
    for (check, verdict, part) in [
        ("mysql.durability", "wrong", "SET GLOBAL innodb_flush_log_at_trx_commit = 1"),
        ("mysql.packet", "wrong", "max_allowed_packet"),
        ("mysql.timeouts", "doubtful", "wait_timeout"),
        ("mysql.rights", "wrong", "GRANT UPDATE, DELETE"),
        ("mysql.tls", "doubtful", "renew"),
        ("redis.eviction", "wrong", "noeviction"),
        ("redis.marker", "wrong", "hot.prefix"),
        ("redis.memory", "doubtful", "maxmemory"),
    ] {
        let (was, line) = of(&found, check);
        assert_eq!(was, verdict, "{line}");
        assert!(line["way_out"].as_str().unwrap().contains(part), "{line}");
    }
    assert!(of(&found, "redis.marker").1["finding"].as_str().unwrap().contains("elsewhere:3306/other"));
    assert_eq!(blocking(redis.command(&["DBSIZE"])), "1", "nothing was written");
}

#[test]
fn a_server_that_hangs_or_is_away_stops_nothing_else() {
    let (frozen, well, redis) =
        blocking(async { (MariaDb::with(&DURABLE).await, mariadb().await, Redis::own().await) });
    let urls = blocking(async { [frozen.fresh_database().await, well.fresh_database().await].join(",") });
    frozen.pause();
    // It has ended before the server answers again, and has asked the others meanwhile.
    let found = seen(&doctor(&urls, &redis.url()), 1);
    frozen.resume();
    let reached = |verdict: &str| {
        let all = found["checks"].as_array().unwrap();
        all.iter()
            .filter(|finding| finding["check"] == "mysql.reach" && finding["verdict"] == verdict)
            .count()
    };
    assert_eq!((reached("wrong"), reached("good")), (1, 1), "{found}");
    let silent = of(&found, "mysql.reach").1["finding"].as_str().unwrap();
    assert!(silent.contains("fell silent"), "{silent}");
    assert_eq!(of(&found, "redis.reach").0, "good");
    redis.kill();
    let away = seen(&doctor(&urls, &redis.url()), 1);
    assert_eq!(of(&away, "redis.reach").0, "wrong");
}
