//! What an operator sees of a cluster: events, engines, partitions, rates, alerts; on three engines with servers of their own,
//! one of which is killed, and on the embedded default.

use crate::binary::{
    DURABLE, Running, Server, address, documents, punctual, run, servers, stderr, stdout, wait_for,
};
use punctual_testkit::servers::{MariaDb, Redis};
use serde_json::{Value, json};
use std::borrow::Borrow;
use tokio::runtime::Runtime;

/// On a MariaDB of its own, or on the shared one.
struct ClusterSite<M> {
    runtime: Runtime,
    mysql: M,
    redis: Redis,
    store_url: String,
}

impl ClusterSite<&'static MariaDb> {
    fn on_shared(databases: usize) -> Self {
        let runtime = Runtime::new().unwrap();
        let (mysql, redis) = runtime.block_on(servers());
        Self::with(runtime, mysql, redis, databases)
    }
}

impl ClusterSite<MariaDb> {
    fn on_its_own() -> Self {
        let runtime = Runtime::new().unwrap();
        let (mysql, redis) = runtime.block_on(async { (MariaDb::with(&DURABLE).await, Redis::own().await) });
        Self::with(runtime, mysql, redis, 1)
    }
}

impl<M: Borrow<MariaDb>> ClusterSite<M> {
    fn with(runtime: Runtime, mysql: M, redis: Redis, databases: usize) -> Self {
        let fresh = |_| runtime.block_on(mysql.borrow().fresh_database());
        let urls: Vec<String> = (0..databases).map(fresh).collect();
        let store_url = urls.join(",");
        Self { runtime, mysql, redis, store_url }
    }

    fn engine(&self) -> Server {
        let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--store-url"]);
        command.args([self.store_url.as_str(), "--hot-url", &self.redis.url()]);
        let mut process = Running::start(&mut command);
        let url = address(&process.first_line());
        Server { process, url }
    }
}

/// A mover that was stopped leaves its move where it was: that is what is here.
#[test]
fn a_partition_on_its_way_to_another_database_is_told_and_drawn() {
    let site = ClusterSite::on_shared(2);
    let server = site.engine();
    let catalog = site.store_url.split(',').next().unwrap().rsplit('/').next().unwrap();
    let begin = "INSERT INTO partition_move (partition_no, from_shard, to_shard, step, term, closed_until) VALUES (2, 0, 1, 1, 0, 0)";
    assert!(items(&server, "/v1/partitions").iter().all(|partition| partition["moving_to"].is_null()));
    site.runtime.block_on(site.mysql.sql(catalog, begin));
    let moving: Vec<Value> = items(&server, "/v1/partitions")
        .into_iter()
        .filter(|partition| !partition["moving_to"].is_null())
        .map(|partition| json!([partition["partition"], partition["database"], partition["moving_to"]]))
        .collect();
    assert_eq!(moving, [json!([2, 0, 1])]);
    let listed = run(&["partition", "list", "--url", &server.url]);
    assert!(stdout(&listed).contains("0, moving to 1"), "{}", stdout(&listed));
    let page = server.page("/console/engines");
    assert!(page.contains("partition 2: from database 0 to 1"), "{page}");
}

/// What each of them has inserted counts, and what falls due in all partitions.
fn the_whole_clusters_rates_and_backlog_are_told_by_any(engines: &[&Server]) {
    const OF_ONE: usize = 10;
    for server in engines {
        for nth in 1..=OF_ONE {
            server.insert(json!({ "queue": "stats", "delay_ms": nth * 120_000 }));
        }
    }
    let all = engines.len() * OF_ONE;
    for server in engines {
        let stats = wait_for("the rates of all", || {
            let (_, stats) = server.get("/v1/stats");
            let inserted =
                stats["steps"].as_array().unwrap().iter().map(|step| step["inserted"].as_u64().unwrap());
            (inserted.sum::<u64>() == all as u64).then_some(stats)
        });
        assert_eq!((&stats["engines"], &stats["backlog"]["accepted"]), (&json!(engines.len()), &json!(all)));
        let hour = wait_for("the hour of the queue, of all engines", || {
            let (status, hour) = server.get("/v1/queues/stats/stats");
            assert_eq!(status, 200, "{hour}");
            let inserted =
                hour["steps"].as_array().unwrap().iter().map(|step| step["inserted"].as_u64().unwrap());
            (inserted.sum::<u64>() == all as u64).then_some(hour)
        });
        assert_eq!(hour["steps"].as_array().unwrap().len(), 60);
        let reported = server.client(&["stats", "--queue", "stats", "--steps"]);
        assert_eq!(documents(&reported)[0]["steps"].as_array().unwrap().len(), 60);
        // It is the only queue in which anything happens; both are reported every ten seconds, and one is read once a second.
        wait_for("the rates of the queue, of all engines", || {
            let rate = |stats: &Value| stats["rates"]["inserted"].as_f64().unwrap();
            let (_, queue) = server.get("/v1/queues/stats");
            let (_, queues) = server.get("/v1/queues");
            let (_, stats) = server.get("/v1/stats");
            let all = rate(&stats);
            let is_the_same = |queue: &Value| (rate(queue) - all).abs() < 0.011;
            (all > 0.0 && is_the_same(&queue) && is_the_same(&queues["items"][0])).then_some(())
        });
        let (_, due) = server.get("/v1/stats/due");
        let ahead = due["steps"].as_array().unwrap().iter().filter_map(|step| step["tasks"].as_u64());
        assert!((all as u64 - 3..=all as u64).contains(&ahead.sum::<u64>()), "{due}");
    }
}

fn items(server: &Server, path: &str) -> Vec<Value> {
    let (status, answer) = server.get(path);
    assert_eq!(status, 200, "{answer}");
    answer["items"].as_array().unwrap().clone()
}

fn of_kind(server: &Server, kind: &str) -> Vec<Value> {
    items(server, &format!("/v1/events?event={kind}"))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Its name, and how many partitions it has.
fn engines(server: &Server) -> Vec<(String, u64)> {
    let all = items(server, "/v1/engines");
    all.iter().map(|entry| (text(&entry["name"]), entry["partitions"].as_u64().unwrap())).collect()
}

fn this(server: &Server) -> String {
    let all = items(server, "/v1/engines");
    text(&all.iter().find(|entry| entry["is_this"] == true).unwrap()["name"])
}

#[test]
fn the_death_of_an_engine_is_one_event_one_alert_and_a_takeover() {
    let site = ClusterSite::on_shared(1);
    let (a, b, mut c) = (site.engine(), site.engine(), site.engine());
    let all = items(&a, "/v1/partitions").len() as u64;
    let shared = || {
        let engines = engines(&a);
        let owned: u64 = engines.iter().map(|engine| engine.1).sum();
        // Shown where it fails.
        eprintln!("{engines:?} of {all}");
        (engines.len() == 3 && owned == all && engines.iter().all(|engine| engine.1 > 0)).then_some(engines)
    };
    wait_for("all three to share", shared);
    the_whole_clusters_rates_and_backlog_are_told_by_any(&[&a, &b, &c]);
    let dead = this(&c);
    assert_eq!(of_kind(&a, "engine_started").len(), 3);
    assert_eq!(of_kind(&a, "engine_lost"), Vec::<Value>::new());
    // So that it is known to the others whose the partitions are: they look again after their own have changed.
    let has_said =
        || of_kind(&a, "partitions_taken_over").iter().any(|entry| entry["engine"] == dead.as_str());
    wait_for("its own takeover", || has_said().then_some(()));
    let runs = || [&a, &b].map(|server| server.metric("punctual_service_runs_total{service=\"cluster\"}"));
    let before = runs();
    wait_for("some looks", || runs().iter().zip(before).all(|pair| *pair.0 >= pair.1 + 4.0).then_some(()));
    c.process.signal("-KILL");
    c.process.ended();

    let lost = wait_for("the event", || of_kind(&a, "engine_lost").pop());
    assert_eq!((&lost["engine"], &lost["details"]["silent_ms"].as_u64().is_some()), (&json!(dead), &true));
    let alerted = |server: &Server| {
        items(server, "/v1/alerts").into_iter().find(|alert| alert["name"] == "engine_lost")
    };
    let alert = wait_for("the alert", || alerted(&b));
    assert!(text(&alert["text"]).contains(&dead), "{alert}");
    let owned = || {
        let alive =
            engines(&a).into_iter().filter(|engine| engine.0 != dead).map(|engine| engine.1).sum::<u64>();
        (alive == all).then_some(())
    };
    wait_for("the takeover", owned);
    // Each engine finds by its own look who fell silent.
    let silent = || items(&a, "/v1/engines").into_iter().find(|engine| engine["name"] == dead.as_str());
    let silent = wait_for("the silent one", silent);
    assert_eq!((&silent["state"], &silent["partitions"]), (&json!("silent"), &json!(0)));
    let from_the_dead = || {
        let taken = of_kind(&a, "partitions_taken_over");
        let count = |entry: &Value| entry["details"]["from"][&dead].as_u64().unwrap_or(0);
        let count: u64 = taken.iter().map(count).sum();
        (count > 0).then_some(count)
    };
    wait_for("the takeover's events", from_the_dead);
    assert_eq!(of_kind(&a, "engine_lost").len(), 1, "however many engines have noticed it");
    assert_eq!(of_kind(&a, "engine_stopped").len(), 0);

    // The same through the other engine, for programs and for people.
    let page = documents(&b.client(&["events", "--event", "engine_lost"])).remove(0);
    assert_eq!(page["items"][0]["id"], lost["id"]);
    let shown = run(&["engine", "list", "--url", &b.url]);
    assert!(stdout(&shown).contains("silent for") && stdout(&shown).contains("leads"), "{}", stdout(&shown));
    let shown = run(&["alert", "list", "--url", &b.url]);
    assert!(stdout(&shown).contains("engine_lost") && stdout(&shown).contains(&dead), "{}", stdout(&shown));

    // In order.
    let mut b = b;
    let name = this(&b);
    b.process.signal("-TERM");
    let (ended, log) = b.process.ended_saying();
    assert!(ended.success(), "{log}");
    let stopped = of_kind(&a, "engine_stopped");
    assert_eq!((stopped.len(), text(&stopped[0]["engine"])), (1, name.clone()));
    wait_for("it is gone", || (!engines(&a).iter().any(|engine| engine.0 == name)).then_some(()));
    assert_eq!(of_kind(&a, "engine_lost").len(), 1, "who stops is not lost");
    // One line, of the engine that was first.
    let mut a = a;
    a.process.signal("-TERM");
    let (_, other) = a.process.ended_saying();
    let lines = [log, other].concat().lines().filter(|line| line.contains("engine_lost")).count();
    assert_eq!(lines, 1);
}

#[test]
fn redis_and_the_database_that_go_and_come_are_events_with_the_time_at_which_they_went() {
    let site = ClusterSite::on_its_own();
    let server = site.engine();
    wait_for("it owns all", || {
        items(&server, "/v1/partitions").iter().all(|partition| partition["engine"].is_string()).then_some(())
    });
    site.redis.kill();
    let lost = wait_for("Redis is lost", || of_kind(&server, "hot_set_lost").pop());
    assert_eq!(lost["engine"], json!(this(&server)));
    site.runtime.block_on(site.redis.start_again());
    wait_for("Redis is back", || of_kind(&server, "hot_set_back").pop());

    site.mysql.kill();
    let failing = |service: &str| {
        server.metric(&format!("punctual_service_failures_in_a_row{{service=\"{service}\"}}"))
    };
    let is_seen = || failing("check_writers") >= 2.0 && failing("cluster") >= 4.0;
    wait_for("the database is away", || is_seen().then_some(()));
    site.runtime.block_on(site.mysql.start_again());
    // What could not be written while it was unavailable is there afterwards, in its order.
    let back = wait_for("the database is back", || of_kind(&server, "database_back").pop());
    let away = of_kind(&server, "database_away").pop().unwrap();
    assert_eq!((&away["details"], &back["details"]), (&json!({"database": 0}), &json!({"database": 0})));
    assert!(away["at_ms"].as_i64() < back["at_ms"].as_i64() && away["id"].as_i64() < back["id"].as_i64());
    let pages = items(&server, "/v1/events?limit=1");
    assert_eq!(pages.len(), 1);
}

#[test]
fn the_embedded_engine_tells_rates_backlog_and_what_falls_due() {
    let (server, _data) = Server::on_new_data();
    for nth in 0..20 {
        server.insert(json!({"queue": "q", "delay_ms": nth * 90_000}));
    }
    wait_for("a task", || server.lease("q", 1, 60_000).pop());
    let stats = wait_for("what was counted", || {
        let (_, stats) = server.get("/v1/stats");
        (stats["rates"]["inserted"].as_f64().unwrap() > 0.0).then_some(stats)
    });
    assert_eq!((&stats["engines"], stats["steps"].as_array().unwrap().len()), (&json!(1), 60));
    assert_eq!(stats["backlog"]["accepted"], 20);
    assert_eq!(stats["backlog"]["unaccounted"], 0);
    let (_, due) = server.get("/v1/stats/due");
    assert_eq!((&due["is_estimate"], due["steps"].as_array().unwrap().len()), (&json!(false), 60));
    let ahead: u64 = due["steps"].as_array().unwrap().iter().filter_map(|step| step["tasks"].as_u64()).sum();
    assert!((17..=20).contains(&ahead), "{due}");

    let engines = items(&server, "/v1/engines");
    assert_eq!(
        (engines.len(), &engines[0]["state"], &engines[0]["leads"]),
        (1, &json!("alive"), &json!(true))
    );
    let partitions = items(&server, "/v1/partitions?limit=3");
    assert_eq!((partitions.len(), &partitions[0]["partition"]), (3, &json!(0)));
    let (_, page) = server.get("/v1/partitions?limit=3");
    let next = text(&page["next_cursor"]);
    assert_eq!(items(&server, &format!("/v1/partitions?limit=3&cursor={next}"))[0]["partition"], 3);
    let shards = items(&server, "/v1/shards");
    assert_eq!((shards.len(), &shards[0]["answers"]), (1, &json!(true)));
    assert_eq!(of_kind(&server, "engine_started").len(), 1);
    let (status, refused) = server.get("/v1/events?event=nonsense");
    assert_eq!((status, &refused["code"]), (400, &json!("request.invalid")));

    for (args, words) in [
        (&["stats", "--steps"][..], ["inserted", "lateness", "falls due"]),
        (&["top", "--times", "1"], ["punctual at", "alive, leads", "has started"]),
        (&["tail", "--for", "100ms"], ["engine_started", "has started", "engine"]),
        (&["partition", "list"], ["PARTITION", "TERM", "LEASE LEFT"]),
        (&["alert", "list"], ["no alerts", "", ""]),
        (&["events"], ["EVENT", "engine_started", "has started"]),
    ] {
        let shown = run(&[args, &["--url", &server.url]].concat());
        assert!(shown.status.success(), "{args:?}: {}", stderr(&shown));
        for word in words {
            assert!(stdout(&shown).contains(word), "{args:?} does not say {word:?}: {}", stdout(&shown));
        }
        let json = server.client(args);
        assert!(json.status.success() && (args[0] == "tail" || !documents(&json).is_empty()), "{args:?}");
    }
}
