//! `dev`: the demo, its summary and its exit code.

use crate::binary::{Running, Server, blocking, documents, http, punctual, run, stderr, stdout, wait_for};
use serde_json::{Value, json};

#[test]
fn a_short_demo_runs_every_task_once_none_early_and_leaves_nothing_behind() {
    let output = run(&["dev", "--for", "3s", "--ephemeral", "--listen", "127.0.0.1:0", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{} {}", stdout(&output), stderr(&output));
    let documents = documents(&output);
    let summary = &documents.last().unwrap()["summary"];
    assert!(summary["executed"].as_u64() > Some(0), "{summary}");
    assert_eq!(summary["executed"], summary["inserted"]);
    for broken in ["early", "lost", "duplicates", "unfinished"] {
        assert_eq!(summary[broken], 0, "{summary}");
    }
    assert!(summary["max_ms"].as_f64() >= summary["p50_ms"].as_f64(), "{summary}");
    let data = documents[0]["data"].as_str().unwrap();
    assert!(!std::path::Path::new(data).exists(), "{data}");
}

#[test]
fn for_people_there_is_a_status_line_a_second_and_a_summary() {
    let output = run(&["dev", "--for", "2s", "--ephemeral", "--listen", "127.0.0.1:0"]);
    let said = stdout(&output);
    assert!(output.status.success(), "{said} {}", stderr(&output));
    for word in
        ["API", "/docs", "Data", "curl", "lateness p50", "early 0 lost 0 duplicates 0", "exactly once"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn the_next_free_port_is_taken_and_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let output = run(&["dev", "--for", "1s", "--ephemeral", "--listen", &address.to_string(), "--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let first = &documents(&output)[0];
    assert_eq!(first["port_in_use"], address.port());
    assert!(!first["api"].as_str().unwrap().contains(&format!(":{}/", address.port())), "{first}");
}

#[test]
fn tasks_left_over_from_a_run_that_was_killed_are_executed_and_are_not_of_the_next_account() {
    let data = tempfile::tempdir().unwrap();
    let directory = data.path().to_str().unwrap();
    let dev = |args: &[&str]| {
        punctual(&[&["dev", "--data", directory, "--listen", "127.0.0.1:0", "--json"], args].concat())
    };
    let mut killed = Running::start(&mut dev(&[]));
    let first: Value = serde_json::from_str(&killed.first_line()).unwrap();
    let url = first["api"].as_str().unwrap().trim_end_matches("/v1").to_owned();
    let mut old = Server { process: killed, url };
    // The one that is due last: one that is due at once may be leased before the kill, and its lease outlasts
    // the next run.
    let left: Value = wait_for("a demo task that is due seconds after others", || {
        let page = old.get("/v1/tasks?queue=demo&state=scheduled&limit=500").1;
        let due = |task: &Value| task["execute_at_ms"].as_i64().unwrap();
        let tasks = page["items"].as_array()?;
        let last = tasks.iter().max_by_key(|task| due(task))?;
        (due(last) - tasks.iter().map(due).min()? > 3_000).then(|| last.clone())
    });
    old.process.signal("-KILL");
    old.process.ended();
    let said = tempfile::NamedTempFile::new().unwrap();
    let mut process = Running::start_printing_to(&mut dev(&[]), said.reopen().unwrap());
    let said = || {
        let text = std::fs::read_to_string(said.path()).unwrap();
        let whole = text.lines().take(text.matches('\n').count());
        whole.map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    };
    let first = wait_for("the first line", || said().into_iter().next());
    let url = first["api"].as_str().unwrap().trim_end_matches("/v1").to_owned();
    let of_others = |entry: &Value| entry["labels"]["demo_run"] == left["labels"]["demo_run"];
    let get = |path: &str| {
        blocking(async {
            http().get(format!("{url}{path}")).send().await.unwrap().json::<Value>().await.unwrap()
        })
    };
    wait_for("the task that was left over", || {
        let task = get(&format!("/v1/tasks/{}", left["ref"].as_str().unwrap()));
        (task["state"] == "succeeded").then_some(())
    });
    wait_for("all others of that run", || {
        let scheduled = get("/v1/tasks?queue=demo&state=scheduled&limit=500");
        (!scheduled["items"].as_array().unwrap().iter().any(of_others)).then_some(())
    });
    process.signal("-INT");
    assert_eq!(process.ended().code(), Some(0), "{:?}", said().last());
    let summary = said().pop().unwrap()["summary"].clone();
    assert!(summary["others"].as_u64() > Some(0), "{summary}");
    for broken in ["early", "duplicates"] {
        assert_eq!(summary[broken], 0, "{summary}");
    }
}

#[test]
fn a_signal_ends_it_with_the_summary() {
    let mut process =
        Running::start(&mut punctual(&["dev", "--ephemeral", "--listen", "127.0.0.1:0", "--json"]));
    process.first_line();
    process.signal("-INT");
    assert_eq!(process.ended().code(), Some(0));
}

#[test]
fn where_its_store_has_tokens_the_demo_needs_one_and_says_so() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path().to_str().unwrap();
    let token = |role: &str| {
        let args = ["token", "create", "--name", role, "--role", role, "--data", data, "--json"];
        documents(&run(&args)).remove(0)["token"].as_str().unwrap().to_owned()
    };
    let (admin, viewer) = (token("admin"), token("viewer"));
    let args = ["dev", "--for", "2s", "--data", data, "--listen", "127.0.0.1:0", "--json"];
    for bad in [None, Some("punctual_x_y"), Some(&*viewer)] {
        let output = punctual(&args).envs(bad.map(|text| ("PUNCTUAL_TOKEN", text))).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{bad:?}");
        assert!(stderr(&output).contains("PUNCTUAL_TOKEN"), "{}", stderr(&output));
    }
    let output = punctual(&args).env("PUNCTUAL_TOKEN", admin).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{} {}", stdout(&output), stderr(&output));
}

/// The settings of a server that works do not reach the demo.
#[test]
fn an_admins_token_in_the_environment_is_not_the_demos() {
    let mut dev = punctual(&["dev", "--for", "2s", "--ephemeral", "--listen", "127.0.0.1:0", "--json"]);
    let output = dev.env("PUNCTUAL_AUTH_ADMIN_TOKEN", "the-admins-word-0123456789").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{} {}", stdout(&output), stderr(&output));
    assert!(documents(&output).pop().unwrap()["summary"]["executed"].as_u64() > Some(0));
}

/// Each page of the menu, but that of tokens: from the first token on the demo would need one.
#[test]
fn every_page_of_the_console_has_something_to_show() {
    let mut process =
        Running::start(&mut punctual(&["dev", "--ephemeral", "--listen", "127.0.0.1:0", "--json"]));
    let first: Value = serde_json::from_str(&process.first_line()).unwrap();
    let url = first["api"].as_str().unwrap().trim_end_matches("/v1").to_owned();
    let demo = Server { process, url };
    let items =
        |list: &str| demo.get(&format!("/v1/{list}")).1["items"].as_array().cloned().unwrap_or_default();
    wait_for("both bulk operations", || (items("bulk").len() == 2).then_some(()));
    let page = |path: &str| {
        let url = format!("{}/console{path}", demo.url);
        blocking(async move { http().get(url).send().await.unwrap().text().await.unwrap() })
    };
    for path in [
        "",
        "/queues",
        "/tasks",
        "/schedules",
        "/workflows",
        "/dead-letters",
        "/bulk",
        "/executors",
        "/engines",
        "/events",
        "/lateness",
        "/namespaces",
        "/settings",
        "/audit",
    ] {
        wait_for(&format!("something to see at {path}"), || {
            let text = page(path);
            (text.contains("<h1>") && !text.contains("class=\"empty\"")).then_some(())
        });
    }
    let states: Vec<Value> = items("bulk").iter().map(|item| item["state"].clone()).collect();
    assert!(states.contains(&json!("previewed")), "one waits to be confirmed: {states:?}");
    assert_eq!(demo.get("/v1/queues/demo-reports").1["pause"]["by"], "dev");
}
