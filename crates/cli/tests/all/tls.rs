//! The binary on MySQL and Redis over TLS: the whole life of a task, servers that come back, and what is refused, each with
//! a sentence that says what to do.

use crate::binary::{DURABLE, Running, Server, address, blocking, mariadb, punctual, stderr, wait_for};
use punctual_testkit::{
    certificates::{Authority, CertificateNames, Validity},
    servers::{MariaDb, Redis, RedisCluster, Sentinels, TlsKeyPair},
};
use serde_json::json;
use std::process::Output;
use tokio::sync::OnceCell;

const ONLY_TLS: [&str; 2] = [DURABLE[0], "--require-secure-transport=ON"];

/// Shared: take a fresh database, and never stop it. Servers beside it have its certificate.
async fn mariadb_over_tls() -> &'static (MariaDb, TlsKeyPair) {
    static ONE: OnceCell<(MariaDb, TlsKeyPair)> = OnceCell::const_new();
    let start = || async {
        let identity = TlsKeyPair::loopback(&Authority::new());
        (MariaDb::over_tls(&identity, &ONLY_TLS).await, identity)
    };
    ONE.get_or_init(start).await
}

fn serve(store: &str, hot: &str) -> Running {
    Running::start(
        punctual(&["serve", "--listen", "127.0.0.1:0", "--json"])
            .envs([("PUNCTUAL_STORE_URL", store), ("PUNCTUAL_HOT_URL", hot)]),
    )
}

fn server(store: &str, hot: &str) -> Server {
    let mut process = serve(store, hot);
    let url = address(&process.first_line());
    Server { process, url }
}

/// Inserted for the near future, fired, leased, and its outcome accepted.
fn a_task_lives(server: &Server, queue: &str) {
    let task = wait_for("an insert", || {
        let (status, task) =
            server.post("/v1/tasks", json!({ "queue": queue, "delay_ms": 300, "payload": "hello" }));
        (status == 201).then_some(task)
    });
    let leased = wait_for("the task", || {
        let asked = json!({ "max": 1, "wait_ms": 2_000, "lease_ms": 60_000, "executor": "test" });
        let (status, answer) = server.post(&format!("/v1/queues/{queue}/lease"), asked);
        (status == 200).then(|| answer["tasks"].as_array().unwrap().first().cloned()).flatten()
    });
    assert_eq!(leased["ref"], task["ref"]);
    assert_eq!(server.succeed(&leased), "accepted");
    assert_eq!(server.state(&task), "succeeded");
}

#[test]
fn a_task_lives_over_tls_and_both_servers_may_go_and_come_back() {
    let identity = TlsKeyPair::loopback(&Authority::new());
    let (mariadb, redis, store) = blocking(async {
        let mariadb = MariaDb::over_tls(&identity, &ONLY_TLS).await;
        let store = mariadb.fresh_database().await;
        (mariadb, Redis::over_tls(&identity, &[]).await, store)
    });
    let server = server(&store, &redis.url());
    a_task_lives(&server, "a");
    redis.kill();
    blocking(redis.start_again());
    a_task_lives(&server, "b");
    mariadb.kill();
    blocking(mariadb.start_again());
    a_task_lives(&server, "c");
}

#[test]
fn a_task_lives_over_tls_on_a_cluster_and_under_sentinels() {
    let (mariadb, cluster, sentinels) = blocking(async {
        let (mariadb, identity) = mariadb_over_tls().await;
        (mariadb, RedisCluster::over_tls(identity).await, Sentinels::over_tls(identity).await)
    });
    for hot in [cluster.url(), sentinels.url()] {
        let store = blocking(mariadb.fresh_database());
        a_task_lives(&server(&store, &hot), "a");
    }
}

#[test]
fn files_of_certificates_may_stand_in_settings_and_a_client_has_one_where_it_is_asked_for() {
    let (redis, store) = blocking(async {
        let (mariadb, identity) = mariadb_over_tls().await;
        let store = mariadb.fresh_database().await;
        let rights =
            "CREATE USER x@'127.0.0.1' IDENTIFIED BY 'x' REQUIRE X509; GRANT ALL ON *.* TO x@'127.0.0.1';";
        mariadb.sql("mysql", rights).await;
        (Redis::over_tls(identity, &["--tls-auth-clients", "yes"]).await, store)
    });
    let file = |name: &str| redis.dir().join(name).to_str().unwrap().to_owned();
    let (hot, _) = redis.url().split_once('?').map(|(head, _)| (head.to_owned(), ())).unwrap();
    let store = store.replace("t:t@", "x:x@");
    let with_certificate = format!("{store}&ssl-cert={}&ssl-key={}", file("client.pem"), file("client.key"));
    let start = |store: &str, settings: &[(&str, String)]| {
        let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        command.env("PUNCTUAL_STORE_URL", store).env("PUNCTUAL_HOT_URL", &hot);
        command.envs(settings.iter().map(|(name, value)| (name, value)));
        command
    };
    let own = [
        ("PUNCTUAL_HOT_TLS_CA", file("ca.pem")),
        ("PUNCTUAL_HOT_TLS_CERT", file("client.pem")),
        ("PUNCTUAL_HOT_TLS_KEY", file("client.key")),
    ];
    let mut process = Running::start(&mut start(&with_certificate, &own));
    let url = address(&process.first_line());
    a_task_lives(&Server { process, url }, "a");
    // Without one, each says which to name.
    says(&start(&with_certificate, &own[..1]).output().unwrap(), &["hot.tls_cert"]);
    says(&start(&store, &own).output().unwrap(), &["ssl-cert", "REQUIRE"]);
}

#[track_caller]
fn says(output: &Output, parts: &[&str]) {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    for part in parts {
        assert!(stderr(output).contains(part), "{part:?} in {:?}", stderr(output));
    }
    assert!(!stderr(output).contains("geheim"), "{}", stderr(output));
}

/// A user of Redis, for its command line.
fn words(user: &str) -> Vec<&str> {
    ["--user"].into_iter().chain(user.split(' ')).collect()
}

fn ended(store: &str, hot: &str) -> Output {
    let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    command.env("PUNCTUAL_STORE_URL", store).env("PUNCTUAL_HOT_URL", hot).output().unwrap()
}

#[test]
fn a_mysql_that_cannot_be_trusted_or_does_not_trust_us_is_refused_with_the_way_out() {
    let authority = Authority::new();
    let by_address = TlsKeyPair::of(&authority, CertificateNames::server(&["127.0.0.1"]), Validity::Valid);
    let expired = TlsKeyPair::of(&authority, CertificateNames::loopback(), Validity::Expired);
    let stranger = tempfile::tempdir().unwrap();
    let strange = Authority::new().issue_loopback().write_to(stranger.path());
    let (good, old, plain) = blocking(async {
        let good = MariaDb::over_tls(&by_address, &ONLY_TLS).await;
        let rights = "CREATE USER poor@'127.0.0.1' IDENTIFIED BY 'p'; CREATE DATABASE d;";
        good.sql("mysql", rights).await;
        (good, MariaDb::over_tls(&expired, &DURABLE).await, mariadb().await)
    });
    let url = good.url("d");
    let (base, _) = url.split_once("ssl-ca=").unwrap();
    let ca_of_old = old.url("d");
    let (_, ca_of_old) = ca_of_old.split_once("ssl-ca=").unwrap();
    let cases = [
        (url.replace("127.0.0.1", "localhost"), &["another name", "name the host"][..]),
        (format!("{base}ssl-ca={}", strange.ca.display()), &["no authority", "ssl-ca="]),
        (old.url("d"), &["has expired", "renew"]),
        (
            format!("{}?ssl-ca={ca_of_old}", plain.plain_url("d")),
            &["does not support TLS", "ssl-mode=DISABLED"],
        ),
        (
            format!("{}?ssl-mode=DISABLED", good.plain_url("d")),
            &["require_secure_transport", "ssl-mode=VERIFY_IDENTITY"],
        ),
        (url.replace("t:t@", "t:geheim@"), &["Access denied", "user and password"]),
        (url.replace("t:t@", "poor:p@"), &["GRANT"]),
        (url.replace("/d?", "/nowhere?"), &["CREATE DATABASE"]),
        (format!("{base}ssl-ca=/no/such/ca.pem"), &["/no/such/ca.pem", "cannot be read"]),
        (url.replace("ssl-mode", "ssl_mode"), &["ssl_mode", "ssl-mode"]),
    ];
    for (store, parts) in cases {
        says(&ended(&store, "redis://127.0.0.1:1"), parts);
    }
}

#[test]
fn a_redis_that_cannot_be_trusted_or_does_not_trust_us_is_refused_with_the_way_out() {
    let authority = Authority::new();
    let by_address = TlsKeyPair::of(&authority, CertificateNames::server(&["127.0.0.1"]), Validity::Valid);
    let expired = TlsKeyPair::of(&authority, CertificateNames::loopback(), Validity::Expired);
    let stranger = tempfile::tempdir().unwrap();
    let strange = Authority::new().issue_loopback().write_to(stranger.path());
    let (mariadb, good, old, plain) = blocking(async {
        let good = Redis::over_tls(&by_address, &words("poor on >geheim ~* &* -@all +ping +info")).await;
        let mariadb = mariadb().await;
        (mariadb, good, Redis::over_tls(&expired, &[]).await, Redis::own().await)
    });
    let store = blocking(mariadb.fresh_database());
    let url = good.url();
    let (host, ca) = url.split_once("tls_ca=").unwrap();
    let cases = [
        (url.replace("127.0.0.1", "localhost"), &["another name", "name the host"][..]),
        (format!("{host}tls_ca={}", strange.ca.display()), &["no authority", "hot.tls_ca"]),
        (old.url(), &["has expired", "renew"]),
        (url.replace("127.0.0.1", "poor:geheim2@127.0.0.1"), &["user or password", "hot.url"]),
        (url.replace("127.0.0.1", "poor:geheim@127.0.0.1"), &["may not do this", "ACL SETUSER"]),
        (format!("{host}tls_ca=/no/such/ca.pem"), &["/no/such/ca.pem"]),
    ];
    for (hot, parts) in cases {
        says(&ended(&store, &hot), parts);
    }
    // A server that hangs up, or says nothing, counts as away: the engine begins, and the log says what the cause may be.
    for (hot, way_out) in [
        (format!("redis://127.0.0.1:{}", good.port()), "rediss://"),
        (format!("rediss://127.0.0.1:{}?tls_ca={ca}", plain.port()), "redis://"),
    ] {
        let mut begun = Running::start(
            punctual(&["serve", "--listen", "127.0.0.1:0", "--json"])
                .envs([("PUNCTUAL_STORE_URL", &store), ("PUNCTUAL_HOT_URL", &hot)]),
        );
        begun.first_line();
        begun.signal("-TERM");
        let (_, said) = begun.ended_saying();
        for part in ["the hot set is away", "TLS on this port", way_out] {
            assert!(said.contains(part), "{part:?} is not in {said}");
        }
    }
    // The control: a user with its rights, and a name, is taken.
    let engine = words("engine on >geheim ~p:* &p:* +@all -@dangerous +info");
    let allowed = blocking(Redis::over_tls(&by_address, &engine));
    let mut process = Running::start(
        punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--set", "hot.prefix=p"]).envs([
            ("PUNCTUAL_STORE_URL", store),
            ("PUNCTUAL_HOT_URL", allowed.url().replace("127.0.0.1", "engine:geheim@127.0.0.1")),
        ]),
    );
    let url = address(&process.first_line());
    a_task_lives(&Server { process, url }, "a");
}
