//! Settings: which layer wins, and what is said about those that are wrong.

use crate::binary::{documents, punctual, run, stderr, stdout};
use serde_json::Value;
use std::process::Output;

fn setting(output: &Output, key: &str) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    let all = documents(output).remove(0);
    all["settings"].as_array().unwrap().iter().find(|setting| setting["key"] == key).unwrap().clone()
}

#[test]
fn each_layer_goes_over_the_one_before_and_config_says_which_one_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("punctual.toml");
    std::fs::write(&file, "listen = '127.0.0.1:1111'\n[engine]\nhorizon_ms = 20000\n").unwrap();
    let file = file.to_str().unwrap();
    let show = |args: &[&str], env: Option<&str>| {
        let mut command = punctual(&[&["config", "--json"], args].concat());
        command.envs(env.map(|value| ("PUNCTUAL_LISTEN", value))).output().unwrap()
    };
    let listen = |args: &[&str], env| {
        let setting = setting(&show(args, env), "listen");
        (setting["value"].as_str().unwrap().to_owned(), setting["source"].as_str().unwrap().to_owned())
    };
    let is = |value: &str, source: &str| (value.to_owned(), source.to_owned());
    assert_eq!(listen(&[], None), is("127.0.0.1:7450", "default"));
    assert_eq!(listen(&["--config", file], None), is("127.0.0.1:1111", "file"));
    assert_eq!(listen(&["--config", file], Some("127.0.0.1:2222")), is("127.0.0.1:2222", "env"));
    let all = ["--config", file, "--listen", "127.0.0.1:3333"];
    assert_eq!(listen(&all, Some("127.0.0.1:2222")), is("127.0.0.1:3333", "flag"));
    assert_eq!(setting(&show(&all, None), "engine.horizon_ms")["value"], "20000");
}

#[test]
fn the_store_is_shown_where_it_will_be() {
    let shown = run(&["config", "--json", "--data", "/somewhere"]);
    assert_eq!(setting(&shown, "store.url")["value"], "sqlite:///somewhere/punctual.db");
    let table = stdout(&run(&["config"]));
    assert!(table.contains("store.url") && table.contains("sqlite://./punctual-data/punctual.db"), "{table}");
}

/// The embedded server takes payloads of 16 MiB, because it has a place for long ones; a database has none unless one is named.
#[test]
fn what_payloads_may_be_is_shown_as_the_server_holds_it() {
    let value = |output: &Output, key| setting(output, key)["value"].as_str().unwrap().to_owned();
    let embedded = run(&["config", "--json", "--data", "/somewhere"]);
    assert_eq!(value(&embedded, "payloads.url"), "file:///somewhere/punctual.db.payloads");
    assert_eq!(value(&embedded, "limits.payload_max_bytes"), (16 << 20).to_string());
    let body: u64 = value(&embedded, "limits.batch_body_max_bytes").parse().unwrap();
    assert!(body > (16 << 20) / 3 * 4, "{body}");
    let shared = ["config", "--json", "--store-url", "mysql://h/d", "--hot-url", "redis://h"];
    assert_eq!(value(&run(&shared), "payloads.url"), "");
    assert_eq!(value(&run(&shared), "limits.payload_max_bytes"), (1 << 20).to_string());
    let set = run(&["config", "--json", "--set", "limits.payload_max_bytes=5000"]);
    assert_eq!(value(&set, "limits.payload_max_bytes"), "5000");
    let off = run(&["config", "--json", "--set", "payloads.url=off"]);
    assert_eq!(
        (value(&off, "payloads.url"), value(&off, "limits.payload_max_bytes")),
        ("off".into(), (1 << 20).to_string())
    );
}

#[test]
fn a_mistake_is_usage_and_names_key_value_and_layer() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("punctual.toml");
    std::fs::write(&file, "[log]\nfromat = 'json'\n").unwrap();
    let file = file.to_str().unwrap();
    for (args, said) in [
        (&["config", "--config", file][..], &["log.fromat", file][..]),
        (&["config", "--config", "/no/such/file"], &["/no/such/file", "cannot be read"]),
        (&["serve", "--log-format", "xml"], &["log.format", "\"xml\"", "--log-format", "text or json"]),
        (&["migrate", "--set", "engine.horizon_ms=1h"], &["engine.horizon_ms", "\"1h\"", "whole number"]),
        (&["serve", "--set", "horizon=1"], &["horizon", "engine.horizon_ms"]),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        for word in said {
            assert!(stderr(&output).contains(word), "{args:?}: {}", stderr(&output));
        }
    }
}

#[test]
fn what_this_build_cannot_do_safely_is_refused() {
    for (args, said) in [
        (&["serve", "--listen", "0.0.0.0:7450"][..], "tokens"),
        (&["serve", "--hot-url", "redis://host"], "mysql://user:password@host/database"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn commands_that_do_not_exist_are_usage() {
    for args in [&["shard", "list"][..], &["schedule"], &["serve", "--nonsense"], &[], &["task", "insert"]] {
        assert_eq!(run(args).status.code(), Some(2), "{args:?}");
    }
    assert!(stdout(&run(&["--version"])).starts_with("punctual "));
}

#[test]
fn passwords_are_shown_nowhere() {
    let secret = ["--store-url", "mysql://u:geheim@host/db", "--hot-url", "redis://:geheim@host:6379"];
    for args in [&["config"][..], &["config", "--json"], &["serve", "--listen", "7450"]] {
        let output = run(&[args, &secret].concat());
        let said = stdout(&output) + &stderr(&output);
        assert!(!said.contains("geheim"), "{args:?}: {said}");
    }
    let shown = run(&[&["config", "--json"][..], &secret].concat());
    assert_eq!(setting(&shown, "store.url")["value"], "mysql://u@host/db");
}

#[test]
fn a_completion_script_names_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        assert!(
            ["dev", "serve", "task", "work", "migrate"].iter().all(|name| script.contains(name)),
            "{script}"
        );
    }
}

#[test]
fn intervals_and_buckets_are_settings_with_bounds() {
    for (key, least, most) in [
        ("intervals.sweep_ms", "100", "60000"),
        ("intervals.reconcile_ms", "200", "600000"),
        ("intervals.compensate_ms", "100", "600000"),
        ("intervals.lease_check_ms", "50", "10000"),
        ("intervals.overdue_look_ms", "1000", "3600000"),
        ("intervals.retention_ms", "100", "3600000"),
        ("intervals.trigger_ms", "50", "10000"),
        ("limits.insert_wait_max_ms", "50", "600000"),
        ("buckets.width_hours", "1", "168"),
        ("buckets.ahead_hours", "24", "8760"),
        ("buckets.carry_rows", "0", "10000000"),
    ] {
        for good in [least, most] {
            let set = run(&["config", "--json", "--set", &format!("{key}={good}")]);
            assert_eq!(setting(&set, key)["value"], good);
        }
        let beyond = most.parse::<u64>().unwrap() + 1;
        let refused = run(&["config", "--set", &format!("{key}={beyond}")]);
        assert_eq!(refused.status.code(), Some(2), "{key}");
        assert!(
            stderr(&refused).contains(&format!("between {}", least)) || stderr(&refused).contains(most),
            "{}",
            stderr(&refused)
        );
    }
}

#[test]
fn the_settings_of_a_plan_are_taken_as_they_are_printed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("punctual.toml");
    let plans = [
        &["--rate", "0.001"][..],
        &["--per-day", "200000000", "--mode", "push"],
        &["--rate", "1000000", "--delay", "p50=1h,max=9000d", "--keep", "3650d", "--horizon", "7d"],
        &["--rate", "5", "--horizon", "10s", "--keep", "1h", "--engines", "1"],
    ];
    for load in plans {
        let plan = |more: &str| run(&[&["shard", "plan", more], load].concat());
        let printed = stdout(&plan("--settings"));
        std::fs::write(&file, &printed).unwrap();
        let taken = run(&["config", "--json", "--config", file.to_str().unwrap()]);
        let said = documents(&plan("--json")).remove(0);
        let settings = said["settings"].as_object().unwrap();
        assert!(settings.len() >= 6, "{said}");
        for (key, value) in settings {
            let taken = setting(&taken, key);
            assert_eq!(
                (&taken["value"], &taken["source"]),
                (&value.to_string().into(), &"file".into()),
                "{key}"
            );
        }
        let whole = stdout(&run(&[&["shard", "plan"], load].concat()));
        assert!(whole.ends_with(&format!("\n\n{printed}")), "{whole}");
    }
}
