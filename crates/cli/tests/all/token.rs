//! `punctual token`, and a server that wants tokens: the first one on the store itself, the others over the API; secrets are
//! shown once, and the token of the configuration nowhere.

use crate::binary::{Server, documents, punctual, run, servers, stderr, stdout};
use serde_json::Value;
use std::{
    path::Path,
    process::{Command, Output},
};

const ADMIN: &str = "the-admins-word-0123456789";

fn on_store(data: &Path, args: &[&str]) -> Output {
    run(&[&["token"], args, &["--json", "--data", data.to_str().unwrap()]].concat())
}

fn one(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    documents(output).remove(0)
}

fn text<'a>(token: &'a Value, field: &str) -> &'a str {
    token[field].as_str().unwrap_or_else(|| panic!("{field} in {token}"))
}

/// A client's command, with a token in its environment.
fn with(server: &Server, token: &str, args: &[&str]) -> Command {
    let mut command = punctual(args);
    command.env("PUNCTUAL_URL", &server.url).env("PUNCTUAL_TOKEN", token);
    command
}

fn is_let_in(server: &Server, token: &str) -> bool {
    with(server, token, &["queue", "list", "--json"]).output().unwrap().status.success()
}

#[test]
fn the_first_token_is_made_on_the_store_and_the_others_over_the_api() {
    let data = tempfile::tempdir().unwrap();
    let first = on_store(data.path(), &["create", "--name", "root", "--role", "admin"]);
    let reported = stderr(&first);
    assert!(reported.contains("the first token") && reported.contains("--role executor"), "{reported}");
    let second = on_store(data.path(), &["create", "--name", "another", "--role", "viewer"]);
    assert!(second.status.success() && !stderr(&second).contains("the first token"), "{}", stderr(&second));
    let admin = one(&first);
    let secret = text(&admin, "token");
    assert!(secret.starts_with(&format!("punctual_{}_", text(&admin, "id"))), "{admin}");
    let server = Server::start(data.path());
    assert_eq!(server.get("/v1/tasks").0, 401);
    assert_eq!(server.get("/livez").0, 200);
    assert!(is_let_in(&server, secret) && !is_let_in(&server, "punctual_x_y"));

    let in_use = on_store(data.path(), &["list"]);
    assert_eq!(in_use.status.code(), Some(1));
    assert!(stderr(&in_use).contains("--server http://127.0.0.1:7450"), "{}", stderr(&in_use));

    let args = ["token", "create", "--name", "mailer", "--role", "executor,viewer", "--namespace", "shop"];
    let args = [&args[..], &["--queue", "mail-*", "--expires", "90d", "--json"]].concat();
    let mailer = one(&with(&server, secret, &args).output().unwrap());
    assert_eq!(mailer["roles"], serde_json::json!(["viewer", "executor"]));
    assert_eq!(
        (&mailer["namespaces"][0], &mailer["queues"][0]),
        (&Value::from("shop"), &Value::from("mail-*"))
    );
    let id = text(&mailer, "id");
    let rotated = one(&with(&server, secret, &["token", "rotate", id, "--json"]).output().unwrap());
    for token in [text(&mailer, "token"), text(&rotated, "token")] {
        let (url, namespace) = (format!("{}/v1/tasks", server.url), "shop");
        let status = crate::binary::blocking(async move {
            let asked =
                crate::binary::http().get(url).bearer_auth(token).header("punctual-namespace", namespace);
            asked.send().await.unwrap().status().as_u16()
        });
        assert_eq!(status, 200, "both are good for an hour");
    }
    let revoked = one(&with(&server, secret, &["token", "revoke", id, "--json"]).output().unwrap());
    assert_eq!(revoked["state"], "revoked");
    assert!(!is_let_in(&server, text(&rotated, "token")));
    let listed = with(&server, secret, &["token", "list", "--json"]).output().unwrap();
    assert_eq!(one(&listed)["items"].as_array().unwrap().len(), 3);
    for hidden in [secret, text(&mailer, "token"), text(&rotated, "token")] {
        assert!(!stdout(&listed).contains(hidden.rsplit('_').next().unwrap()));
    }
}

#[test]
fn what_a_command_does_on_the_store_is_in_the_audit() {
    let data = tempfile::tempdir().unwrap();
    let admin = one(&on_store(data.path(), &["create", "--name", "root", "--role", "admin"]));
    let other = one(&on_store(data.path(), &["create", "--name", "other", "--role", "viewer"]));
    one(&on_store(data.path(), &["rotate", text(&other, "id"), "--overlap", "5m"]));
    one(&on_store(data.path(), &["revoke", text(&other, "id")]));
    let again = on_store(data.path(), &["rotate", text(&other, "id")]);
    assert!(!again.status.success() && stderr(&again).contains("revoked"), "{}", stderr(&again));
    let server = Server::start(data.path());
    let (url, token) = (format!("{}/v1/audit", server.url), text(&admin, "token").to_owned());
    let audit: Value = crate::binary::blocking(async move {
        let text =
            crate::binary::http().get(url).bearer_auth(token).send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap()
    });
    let items = audit["items"].as_array().unwrap();
    let said: Vec<(&str, u64)> = items
        .iter()
        .map(|item| (item["action"].as_str().unwrap(), item["status"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("rotate_token", 500),
        ("revoke_token", 200),
        ("rotate_token", 200),
        ("create_token", 200),
        ("create_token", 200),
    ];
    assert_eq!(said, expected, "{audit}");
    assert!(items.iter().all(|item| item["caller"].as_str().unwrap().contains("command")), "{audit}");
    assert_eq!(items[1]["before"]["state"], "active");
    assert_eq!(items[1]["after"]["state"], "revoked");
}

#[test]
fn the_token_of_the_configuration_lets_in_and_is_shown_nowhere() {
    let data = tempfile::tempdir().unwrap();
    let setting = format!("auth.admin_token={ADMIN}");
    let server = Server::start_with(data.path(), &["--set", &setting]);
    assert_eq!(server.get("/v1/queues").0, 401);
    assert!(is_let_in(&server, ADMIN) && !is_let_in(&server, &ADMIN[1..]));
    for args in [&["config"][..], &["config", "--json"], &["serve", "--listen", "7450"]] {
        let output = punctual(args).env("PUNCTUAL_AUTH_ADMIN_TOKEN", ADMIN).output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        assert!(!said.contains(ADMIN) && !said.is_empty(), "{args:?}: {said}");
    }
    let short = punctual(&["config"]).env("PUNCTUAL_AUTH_ADMIN_TOKEN", "geheim").output().unwrap();
    assert_eq!(short.status.code(), Some(2));
    assert!(
        stderr(&short).contains("24 characters") && !stderr(&short).contains("geheim"),
        "{}",
        stderr(&short)
    );
}

/// How often an engine has looked whether a token was changed.
fn looks_at_tokens(server: &Server, admin: &str) -> f64 {
    const LOOKS: &str = "punctual_service_runs_total{service=\"access\"} ";
    let (url, admin) = (format!("{}/metrics", server.url), admin.to_owned());
    let metrics = crate::binary::blocking(async move {
        crate::binary::http().get(url).bearer_auth(admin).send().await.unwrap().text().await.unwrap()
    });
    let looks = metrics.lines().find_map(|line| line.strip_prefix(LOOKS));
    looks.unwrap_or_else(|| panic!("no {LOOKS}in {metrics}")).parse().unwrap()
}

/// Two engines on MySQL and Redis: a token that is revoked at one is refused at the other as soon as that one has looked, which
/// it does a few times a second.
#[test]
fn a_revocation_holds_at_every_engine_that_has_looked_since() {
    let (db, redis) = crate::binary::blocking(servers());
    let store = crate::binary::blocking(db.fresh_database());
    let place = ["--store-url", store.as_str(), "--hot-url", &redis.url()];
    let data = tempfile::tempdir().unwrap();
    let admin = one(&run(
        &[&["token", "create", "--name", "root", "--role", "admin", "--json"], &place[..]].concat()
    ));
    let secret = text(&admin, "token");
    let servers = [0, 1].map(|_| Server::start_with(data.path(), &place));
    let args = ["token", "create", "--name", "guest", "--role", "viewer", "--json"];
    let guest = one(&with(&servers[0], secret, &args).output().unwrap());
    let token = text(&guest, "token");
    assert!(is_let_in(&servers[1], token), "although it was made at the other one");
    one(&with(&servers[0], secret, &["token", "revoke", text(&guest, "id"), "--json"]).output().unwrap());
    assert!(!is_let_in(&servers[0], token), "at once");
    // The first that ends may have read before the revocation, the second has begun after it.
    let before = looks_at_tokens(&servers[1], secret);
    crate::binary::wait_for("two looks of the other engine", || {
        (looks_at_tokens(&servers[1], secret) >= before + 2.0).then_some(())
    });
    assert!(!is_let_in(&servers[1], token), "without being asked again");
}
