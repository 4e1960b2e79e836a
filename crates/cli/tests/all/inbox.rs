//! `punctual inbox` and `serve --inbox` from the outside, on both back ends: what a user's transaction commits becomes a task,
//! whichever engine is killed.

use crate::binary::{
    Running, Server, address, blocking, documents, punctual, servers, stderr, stdout, wait_for,
};
use punctual_testkit::servers::{self as test_servers, MariaDb};

fn engine(settings: &[(&str, &str)], inbox: &str) -> Server {
    let mut command = punctual(&["serve", "--listen", "127.0.0.1:0", "--json", "--inbox", inbox]);
    command.envs(settings.iter().copied());
    let mut process = Running::start(&mut command);
    let url = address(&process.first_line());
    Server { process, url }
}

/// A user's database with an inbox, and its name.
fn installed(server: &MariaDb) -> (String, String) {
    let url = blocking(server.fresh_database());
    let installed = punctual(&["inbox", "install", "--url", &url]).output().unwrap();
    assert!(installed.status.success(), "{}", stderr(&installed));
    assert!(stdout(&installed).contains("punctual_inbox: created"), "{}", stdout(&installed));
    let database = url.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    (url, database)
}

fn insert(server: &MariaDb, database: &str, from: usize) {
    let keys: Vec<String> = (from..from + 200).map(|nth| format!("('order-{nth}', 'q')")).collect();
    let text = format!("INSERT INTO punctual_inbox (`key`, queue) VALUES {}", keys.join(", "));
    blocking(server.sql(database, &text));
}

fn waiting(server: &MariaDb, database: &str) -> bool {
    blocking(server.sql(database, "SELECT COUNT(*) FROM punctual_inbox")).trim() != "0"
}

/// Tasks of the queue.
fn tasks(server: &Server) -> u64 {
    let listed =
        punctual(&["task", "list", "--queue", "q", "--limit", "1000", "--json", "--url", &server.url]);
    let listed = { listed }.output().unwrap();
    documents(&listed).remove(0)["items"].as_array().unwrap().len() as u64
}

#[test]
fn rows_become_tasks_once_although_the_engine_that_moves_them_is_killed() {
    let (mariadb, redis) = blocking(servers());
    let user = blocking(test_servers::mariadb());
    let (inbox, database) = installed(user);
    let store = blocking(mariadb.fresh_database());
    let settings = [("PUNCTUAL_STORE_URL", &*store), ("PUNCTUAL_HOT_URL", &*redis.url())]
        .map(|(k, v)| (k, v.to_owned()));
    let settings: Vec<(&str, &str)> = settings.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let (mut first, second) = (engine(&settings, &inbox), engine(&settings, &inbox));
    insert(user, &database, 0);
    first.process.signal("-KILL");
    first.process.ended();
    insert(user, &database, 200);
    wait_for("the other engine", || (!waiting(user, &database)).then_some(()));
    assert_eq!(tasks(&second), 400);
    let status = punctual(&["inbox", "status", "--url", &second.url, "--json"]).output().unwrap();
    let shown = documents(&status).remove(0);
    let shown = shown.get("items").map_or_else(|| shown.clone(), |items| items[0].clone());
    assert_eq!((&shown["name"], &shown["state"]), (&database.as_str().into(), &"moving".into()), "{shown}");
}

#[test]
fn an_embedded_engine_moves_rows_and_shows_those_that_it_refuses() {
    let user = blocking(test_servers::mariadb());
    let (inbox, database) = installed(user);
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap();
    let of_table = ["inbox", "install", "--table", "jobs", "--url", &inbox];
    let installed = punctual(&of_table).output().unwrap();
    assert!(stdout(&installed).contains("/jobs: created"), "{}", stdout(&installed) + &stderr(&installed));
    let both = format!("shop={inbox},billing={inbox}#table=jobs&namespace=billing");
    let server = engine(&[("PUNCTUAL_DATA", data)], &both);
    blocking(user.sql(&database, "INSERT INTO jobs (queue) VALUES ('q')"));
    insert(user, &database, 0);
    blocking(user.sql(
        &database,
        "INSERT INTO punctual_inbox (queue, retry) VALUES ('q', '{\"strategy\":\"never\"}')",
    ));
    wait_for("the rows", || (tasks(&server) == 200).then_some(()));
    wait_for("the row of the other table", || {
        let left = blocking(user.sql(&database, "SELECT COUNT(*) FROM jobs"));
        (left.trim() == "0").then_some(())
    });
    let listed =
        punctual(&["task", "list", "--namespace", "billing", "--json", "--url", &server.url]).output();
    assert_eq!(documents(&listed.unwrap()).remove(0)["items"].as_array().unwrap().len(), 1);
    let metrics = server.page("/metrics");
    for service in ["inbox:shop", "inbox:billing"] {
        let line = format!("punctual_service_runs_total{{service=\"{service}\"}}");
        assert!(metrics.contains(&line), "{metrics}");
    }
    let refused = || punctual(&["inbox", "refused", "--url", &inbox, "--json"]).output().unwrap();
    let refused = wait_for("the refusal", || {
        let shown = documents(&refused()).remove(0);
        (shown["refused"] == 1).then_some(shown)
    });
    assert!(refused["rows"][0]["refused_why"].as_str().unwrap().contains("retry"), "{refused}");
    let uninstalled = punctual(&["inbox", "uninstall", "--url", &inbox]).output().unwrap();
    assert!(
        !uninstalled.status.success() && stderr(&uninstalled).contains("--force"),
        "{}",
        stderr(&uninstalled)
    );
    drop(server);
    let uninstalled = punctual(&["inbox", "uninstall", "--url", &inbox, "--force"]).output().unwrap();
    assert!(uninstalled.status.success(), "{}", stderr(&uninstalled));
}
