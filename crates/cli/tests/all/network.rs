//! On a network that is not loopback, as in a company: two engines with TLS on all three sides, workers and clients with the
//! tokens of their roles; and what a proxy in front of an engine may say. Each test is root's, in a network namespace.
//!
//! Seen to fail: with a guard that lets a role through; with the left-most of `X-Forwarded-For` believed.

use crate::binary::{DURABLE, Running, address, blocking, documents, punctual, stderr, wait_for};
use punctual_testkit::{
    certificates::{Authority, CertificateNames, Files, Validity},
    patience::HANG_LIMIT,
    servers::{MariaDb, Redis, TlsKeyPair, on_a_network_of_its_own},
};
use serde_json::{Value, json};
use std::{
    net::IpAddr,
    process::{Command, Output},
};
use tempfile::TempDir;

const ENGINES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
/// Where MariaDB and Redis are.
const SERVERS: &str = "10.77.0.3";
/// From where the test calls.
const CALLER: &str = "10.77.0.9";
const ROLES: [&str; 5] = ["viewer", "submitter", "executor", "operator", "admin"];
const WRONG: &str = "punctual_aaaaaaaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Method, path, body, and the roles that may; nine calls: ten bad tokens a minute are answered without delay.
type Call = (&'static str, &'static str, &'static str, &'static [&'static str]);
const CALLS: [Call; 9] = [
    ("GET", "/v1/tasks", "", &["viewer", "submitter", "operator", "admin"]),
    ("POST", "/v1/tasks", r#"{"queue":"table","delay_ms":3600000}"#, &["submitter", "admin"]),
    ("POST", "/v1/queues/table/lease", r#"{"executor":"t"}"#, &["executor", "admin"]),
    ("POST", "/v1/queues/table/pause", "{}", &["operator", "admin"]),
    ("POST", "/v1/queues/table/resume", "{}", &["operator", "admin"]),
    ("PUT", "/v1/limits", r#"{"max_waiting":1000000}"#, &["admin"]),
    ("GET", "/v1/tokens", "", &["admin"]),
    ("GET", "/v1/audit", "", &["admin"]),
    ("GET", "/metrics", "", &["viewer", "operator", "admin"]),
];

/// MariaDB, Redis and the certificates of a cluster.
struct NetworkSite {
    _mariadb: MariaDb,
    redis: Redis,
    directory: TempDir,
    files: Files,
    /// The settings of an engine.
    settings: Vec<(&'static str, String)>,
    ca_pem: String,
}

struct Engine {
    process: Running,
    url: String,
}

impl NetworkSite {
    fn new() -> Self {
        let authority = Authority::new();
        let identity = TlsKeyPair::of(&authority, CertificateNames::server(&[SERVERS]), Validity::Valid);
        let directory = tempfile::tempdir().unwrap();
        let files =
            authority.issue(CertificateNames::server(&ENGINES), Validity::Valid).write_to(directory.path());
        let (mariadb, redis) = blocking(servers(&identity));
        let file = |path: &std::path::Path| path.to_str().unwrap().to_owned();
        let ca = file(&files.ca);
        let store = format!("mysql://punctual:secret@{SERVERS}:{}/punctual", mariadb.port());
        let hot = format!("rediss://punctual:secret@{SERVERS}:{}?tls_ca={ca}", redis.port());
        let settings = vec![
            ("PUNCTUAL_STORE_URL", format!("{store}?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}")),
            ("PUNCTUAL_HOT_URL", hot),
            ("PUNCTUAL_TLS_CERT", file(&files.cert)),
            ("PUNCTUAL_TLS_KEY", file(&files.key)),
        ];
        let ca_pem = authority.ca_pem();
        Self { _mariadb: mariadb, redis, directory, files, settings, ca_pem }
    }

    /// On the store, as an operator on an engine's machine.
    fn on_store(&self, args: &[&str]) -> Command {
        let mut command = punctual(args);
        command.envs(self.settings.iter().map(|(name, value)| (name, value)));
        command.current_dir(self.directory.path());
        command
    }

    fn serve(&self, at: &str) -> Command {
        self.on_store(&["serve", "--listen", &format!("{at}:7450"), "--json"])
    }

    fn engine(&self, at: &str) -> Engine {
        let mut process = Running::start(&mut self.serve(at));
        let url = address(&process.first_line());
        assert_eq!(url, format!("https://{at}:7450"));
        Engine { process, url }
    }

    /// A client's command at an engine.
    fn client(&self, engine: &Engine, token: Option<&str>, args: &[&str]) -> Command {
        let mut command = punctual(args);
        command.env("PUNCTUAL_URL", &engine.url).env("PUNCTUAL_CA_FILE", &self.files.ca);
        command.envs(token.map(|token| ("PUNCTUAL_TOKEN", token)));
        command
    }

    fn http(&self) -> reqwest::Client {
        let authority = reqwest::Certificate::from_pem(self.ca_pem.as_bytes()).unwrap();
        http_from(CALLER).tls_certs_only([authority]).build().unwrap()
    }
}

/// A call of `CALLS`: its status and what is answered.
async fn ask(
    http: &reqwest::Client,
    engine: &Engine,
    token: Option<&str>,
    (method, path, body, _): Call,
) -> (u16, Value) {
    let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = http.request(method, format!("{}{path}", engine.url)).timeout(HANG_LIMIT);
    // No proxy is trusted here.
    request = request.header("x-forwarded-for", "203.0.113.77");
    if !body.is_empty() {
        request = request.header("content-type", "application/json").body(body);
    }
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Reached over the network and over TLS alone, by a user who has a password.
async fn servers(identity: &TlsKeyPair) -> (MariaDb, Redis) {
    let only = [DURABLE[0], "--require-secure-transport=ON", "--bind-address=0.0.0.0"];
    let mariadb = MariaDb::over_tls(identity, &only).await;
    let rights = "CREATE DATABASE punctual; \
                  CREATE USER punctual@'10.77.0.%' IDENTIFIED BY 'secret' REQUIRE SSL; \
                  GRANT ALL ON punctual.* TO punctual@'10.77.0.%';";
    mariadb.sql("mysql", rights).await;
    let redis = Redis::over_tls(identity, &[]).await;
    let user = "ACL SETUSER punctual on >secret ~punctual:* &punctual:* +@all -@dangerous +info +role +client|unblock";
    let bind = format!("{SERVERS} 127.0.0.1");
    for words in [
        user.split(' ').collect::<Vec<_>>(),
        vec!["CONFIG", "SET", "protected-mode", "no", "bind", &bind],
        // From here on each client needs a password.
        vec!["ACL", "SETUSER", "default", "off"],
    ] {
        assert_eq!(redis.command(&words).await, "OK", "{words:?}");
    }
    (mariadb, redis)
}

fn http_from(from: &str) -> reqwest::ClientBuilder {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().local_address(from.parse::<IpAddr>().unwrap())
}

fn one(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    documents(output).remove(0)
}

#[track_caller]
fn is_refused(mut command: Command, code: &str) {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains(code), "{code}: {}", stderr(&output));
}

/// A token, the words for it in the audit, and how many calls of the table it was refused.
struct Caller {
    token: Option<String>,
    name: &'static str,
    role: Option<&'static str>,
}

#[test]
fn two_engines_on_a_companys_network_let_in_whom_they_should_and_say_whom_they_did_not() {
    let test = "network::two_engines_on_a_companys_network_let_in_whom_they_should_and_say_whom_they_did_not";
    on_a_network_of_its_own(test, &[ENGINES[0], ENGINES[1], SERVERS, CALLER], || {
        let site = NetworkSite::new();
        is_refused(site.serve(ENGINES[0]), "no tokens are required");
        let first = ["token", "create", "--name", "root", "--role", "admin", "--json"];
        let root = one(&site.on_store(&first).output().unwrap());
        let root = root["token"].as_str().unwrap().to_owned();
        let mut engines = ENGINES.map(|at| site.engine(at));
        let callers = callers(&site, &engines[0], &root);
        blocking(everybody_may_what_their_role_may(&site, &engines, &callers));
        what_was_refused_is_in_the_audit(&site, &engines, &callers, &root);
        a_task_goes_from_a_client_to_a_worker(&site, &engines, &callers);
        engines[0].process.signal("-TERM");
        assert!(engines[0].process.ended().success());
        what_is_broken_is_told_to_nobody_without_a_token(&site, &engines[1], &root);
    });
}

/// One token of each role, made over the network.
fn callers(site: &NetworkSite, engine: &Engine, root: &str) -> Vec<Caller> {
    let mut callers = vec![
        Caller { token: None, name: "unknown", role: None },
        Caller { token: Some(WRONG.to_owned()), name: "unknown", role: None },
    ];
    for role in ROLES {
        let args = ["token", "create", "--server", &engine.url, "--name", role, "--role", role, "--json"];
        let made = one(&site.client(engine, Some(root), &args).output().unwrap());
        let token = Some(made["token"].as_str().unwrap().to_owned());
        callers.push(Caller { token, name: role, role: Some(role) });
    }
    callers
}

async fn everybody_may_what_their_role_may(site: &NetworkSite, engines: &[Engine; 2], callers: &[Caller]) {
    let http = site.http();
    for engine in engines {
        for caller in callers {
            for call in CALLS {
                let what = format!("{} {:?}: {} {}", caller.name, caller.role, call.0, call.1);
                let (status, answer) = ask(&http, engine, caller.token.as_deref(), call).await;
                let expected = match caller.role {
                    None => Some((401, "auth.required")),
                    Some(role) if call.3.contains(&role) => None,
                    Some(_) => Some((403, "auth.denied")),
                };
                match expected {
                    None => assert!(status == 200 || status == 201, "{what}: {status} {answer}"),
                    Some((refused, code)) => {
                        assert_eq!((status, answer["code"].as_str()), (refused, Some(code)), "{what}");
                    }
                }
            }
        }
    }
}

/// Of each caller as many as were refused, with the address that they came from, whatever a header said.
fn what_was_refused_is_in_the_audit(
    site: &NetworkSite,
    engines: &[Engine; 2],
    callers: &[Caller],
    root: &str,
) {
    // Each engine writes what it has refused when its audit is read.
    let read = |engine: &Engine| {
        let output = site.client(engine, Some(root), &["audit", "export"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        documents(&output)
    };
    read(&engines[0]);
    let entries = read(&engines[1]);
    let refused = |status: u16, name: &str| -> i64 {
        let of_it = |entry: &&Value| entry["status"] == status && entry["caller"] == name;
        let all: Vec<&Value> = entries.iter().filter(of_it).collect();
        for entry in &all {
            assert_eq!(entry["address"], CALLER, "{entry}");
            assert_eq!(entry["token_id"].is_null(), status == 401, "{entry}");
        }
        all.iter().map(|entry| entry["times"].as_i64().unwrap()).sum()
    };
    let calls = i64::try_from(CALLS.len()).unwrap();
    assert_eq!(
        refused(401, "unknown"),
        2 * 2 * calls,
        "without a token and with a wrong one, at two engines"
    );
    for role in callers.iter().filter_map(|caller| caller.role) {
        let may = i64::try_from(CALLS.iter().filter(|row| row.3.contains(&role)).count()).unwrap();
        assert_eq!(refused(403, role), 2 * (calls - may), "{role}");
        // What was allowed and changes something is there too.
        let paused =
            entries.iter().filter(|entry| entry["action"] == "pause_queue" && entry["caller"] == role);
        let paused: Vec<&Value> = paused.filter(|entry| entry["status"] == 200).collect();
        assert_eq!(paused.len(), if ["operator", "admin"].contains(&role) { 2 } else { 0 }, "{role}");
    }
}

/// Inserted at one engine, run by a worker at the other, looked at by a third.
fn a_task_goes_from_a_client_to_a_worker(site: &NetworkSite, engines: &[Engine; 2], callers: &[Caller]) {
    let token =
        |role: &str| callers.iter().find(|caller| caller.role == Some(role)).unwrap().token.as_deref();
    let insert =
        ["task", "insert", "--queue", "mail", "--payload", r#"{"to":"ada"}"#, "--delay", "200ms", "--json"];
    is_refused(site.client(&engines[0], None, &insert), "auth.required");
    is_refused(site.client(&engines[0], Some(WRONG), &insert), "auth.required");
    is_refused(site.client(&engines[0], token("viewer"), &insert), "auth.denied");
    let args = ["work", "--queue", "mail", "--exec", "cat", "--executor", "worker-1"];
    // It tries again and again, and gets nothing.
    let _useless = Running::start(&mut site.client(&engines[1], token("viewer"), &args));
    let task = one(&site.client(&engines[0], token("submitter"), &insert).output().unwrap());
    let _worker = Running::start(&mut site.client(&engines[1], token("executor"), &args));
    let get = ["task", "get", task["ref"].as_str().unwrap(), "--json"];
    let done = wait_for("the worker", || {
        let task = one(&site.client(&engines[0], token("viewer"), &get).output().unwrap());
        (task["state"] == "succeeded").then_some(task)
    });
    assert_eq!((&done["result"]["result"], &done["attempt"]), (&json!({"to": "ada"}), &json!(1)), "{done}");
}

/// An engine whose Redis has gone says so to everybody, and what is wrong with it to those who may know.
fn what_is_broken_is_told_to_nobody_without_a_token(site: &NetworkSite, engine: &Engine, root: &str) {
    site.redis.kill();
    let readyz = ("GET", "/readyz", "", ROLES.as_slice());
    let degraded = |token: Option<&str>| {
        wait_for("Redis to be missed", || {
            let (status, answer) = blocking(ask(&site.http(), engine, token, readyz));
            assert_eq!(status, 200, "{answer}");
            (answer["status"] == "degraded").then(|| answer.to_string())
        })
    };
    let (reported, open) = (degraded(Some(root)), degraded(None));
    let unsaid = "is shown to tokens that may read metrics";
    assert!(!reported.contains(unsaid) && reported.contains("count what is due"), "{reported}");
    assert!(open.contains(unsaid) && !open.contains("10.77.") && !open.contains("count"), "{open}");
    assert!(open.contains(r#""name":"hot""#), "which part it is, everybody is told: {open}");
}

#[test]
fn a_proxy_is_believed_as_far_as_it_is_trusted_and_nobody_else_is_served() {
    const PROXY: &str = "10.77.0.8";
    const ADMIN: &str = "the-admins-word-0123456789";
    let test = "network::a_proxy_is_believed_as_far_as_it_is_trusted_and_nobody_else_is_served";
    on_a_network_of_its_own(test, &[ENGINES[0], PROXY, CALLER], || {
        let data = tempfile::tempdir().unwrap();
        let listen = format!("{}:7450", ENGINES[0]);
        let args = ["serve", "--listen", &listen, "--json", "--data", data.path().to_str().unwrap()];
        let mut serve = punctual(&args);
        serve.env("PUNCTUAL_AUTH_ADMIN_TOKEN", ADMIN).env("PUNCTUAL_TRUSTED_PROXIES", format!("{PROXY}/32"));
        let mut process = Running::start(&mut serve);
        let url = address(&process.first_line());
        let ask = |from: &str, path: &str, forwarded: &[(&'static str, &str)], token: &str| {
            let http = http_from(from).tls_certs_only([]).build().unwrap();
            let mut request = http.get(format!("{url}{path}")).bearer_auth(token).timeout(HANG_LIMIT);
            for (name, value) in forwarded {
                request = request.header(*name, *value);
            }
            blocking(async move {
                let response = request.send().await.ok()?;
                Some((response.status().as_u16(), response.text().await.unwrap()))
            })
        };
        // A caller that is no proxy is hung up on, whatever its headers say.
        for forwarded in [&[][..], &[("x-forwarded-for", PROXY)]] {
            assert_eq!(ask(CALLER, "/livez", forwarded, ADMIN), None);
        }
        let cases: [(&[(&'static str, &str)], &str); 6] = [
            (&[], PROXY),
            (&[("x-forwarded-for", "203.0.113.1")], "203.0.113.1"),
            // What a caller sent is left of what the proxy has seen.
            (&[("x-forwarded-for", "127.0.0.1, 10.77.0.8, 203.0.113.2")], "203.0.113.2"),
            (&[("x-forwarded-for", "127.0.0.1"), ("x-forwarded-for", "203.0.113.3")], "203.0.113.3"),
            (&[("x-forwarded-for", "203.0.113.4"), ("forwarded", "for=198.51.100.1")], "203.0.113.4"),
            (&[("forwarded", "for=198.51.100.1, for=\"[2001:db8::7]:80\"")], "2001:db8::7"),
        ];
        for (nth, (forwarded, _)) in cases.iter().enumerate() {
            // A wrong token each: what is refused is noted with its address.
            let wrong = format!("{WRONG}{nth}");
            assert_eq!(ask(PROXY, "/v1/tasks", forwarded, &wrong).unwrap().0, 401, "{forwarded:?}");
        }
        let (_, audit) = ask(PROXY, "/v1/audit?limit=100", &[], ADMIN).unwrap();
        let audit: Value = serde_json::from_str(&audit).unwrap();
        let mut seen: Vec<&str> = audit["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["address"].as_str().unwrap())
            .collect();
        let mut expected = cases.map(|case| case.1);
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen, expected, "{audit}");
        let (_, metrics) = ask(PROXY, "/metrics", &[], ADMIN).unwrap();
        let refused = r#"punctual_http_connections_refused_total{reason="not_a_proxy"} "#;
        let refused = metrics.lines().find_map(|line| line.strip_prefix(refused)).unwrap();
        assert!(refused.parse::<f64>().unwrap() >= 2.0, "{refused}");
        assert!(
            metrics.contains(r#"punctual_http_refusals_total{code="auth.required",status="401"} 6"#),
            "{metrics}"
        );
    });
}
