//! Expressions, and the ways to make their parser take too much.

use super::*;

fn variables() -> Variables {
    let at = "2027-01-15T08:00:00.250Z";
    let at_ms = 1_800_000_000_250_i64;
    vec![
        ("schedule", "digest".into()),
        ("scheduled_at", at.into()),
        ("scheduled_at_ms", at_ms.into()),
        ("run", 7.into()),
    ]
}

fn filled(text: &str) -> Result<String, String> {
    fill(text, variables())
}

fn check(text: &str) -> Result<(), String> {
    filled(text).map(drop)
}

#[test]
fn a_payload_without_an_expression_comes_back_letter_for_letter() {
    for text in ["1.0", r#"{"b": 1e2,  "a":"\u0041"}"#, r#"["expr", {"expr": "1 + 1"}]"#, r#""$expr""#] {
        assert_eq!(filled(text).unwrap(), text);
    }
}

#[test]
fn every_expression_is_replaced_by_its_value() {
    let text = r#"{"at": {"$expr": "scheduled_at"}, "n": [{"$expr": "run + 1"}, {"deep": {"$expr": "schedule"}}],
        "ms": {"$expr": "scheduled_at_ms"}, "map": {"$expr": "{'x': [1, true, null]}"}, "plain": 1}"#;
    let wanted = serde_json::json!({
        "at": "2027-01-15T08:00:00.250Z", "n": [8, {"deep": "digest"}], "ms": 1_800_000_000_250_i64,
        "map": {"x": [1, true, null]}, "plain": 1
    });
    assert_eq!(serde_json::from_str::<Value>(&filled(text).unwrap()).unwrap(), wanted);
    assert_eq!(filled(r#"{"$expr": "run % 2 == 1 ? 'odd' : 'even'"}"#).unwrap(), r#""odd""#);
}

#[test]
fn what_cannot_be_read_or_has_no_value_says_which_expression() {
    for text in ["nonsense", "1 +", "run.x.y", "1 / 0", "unknown(1)"] {
        let payload = serde_json::json!({ "$expr": text }).to_string();
        let problem = check(&payload).unwrap_err();
        assert!(problem.contains(text), "{text}: {problem}");
    }
    assert!(check(r#"{"$expr": 1}"#).is_err() && check(r#"{"$expr": "1", "other": 2}"#).is_err());
}

#[test]
fn what_would_take_too_much_never_reaches_the_parser() {
    let refused = |text: String| check(&serde_json::json!({ "$expr": text }).to_string()).unwrap_err();
    assert!(refused("1 + ".repeat(300) + "1").contains("bytes"));
    assert!(refused("(".repeat(21) + "1").contains("brackets"));
    assert!(refused("[".repeat(200)).contains("brackets"));
    assert!(refused("!".repeat(3) + "true").contains("signs"));
    assert!(refused("! ! ! true".to_owned()).contains("signs"));
    assert!(refused("[1].map(a, [1].map(b, [1].map(c, c)))".to_owned()).contains("lists"));
    let many: Vec<Value> = (0..101).map(|_| serde_json::json!({"$expr": "1"})).collect();
    assert!(check(&serde_json::json!(many).to_string()).unwrap_err().contains("101"));
}

/// As published against the parser: brackets and exclamation marks in turn, and nesting that ends in a mistake.
#[test]
fn the_known_ways_to_drive_the_parser_mad_end_soon() {
    let ways = ["[!".repeat(60), "{[!".repeat(40), "((((((((((((((((((((".to_owned(), "[".repeat(20) + "!!1"];
    for way in ways {
        assert!(check(&serde_json::json!({ "$expr": way }).to_string()).is_err(), "{way}");
    }
    // The parser has a bound of its own too: what passes the guards is read or refused, and ends.
    let nested = |depth: usize| {
        let text = format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
        filled(&serde_json::json!({ "$expr": text }).to_string())
    };
    assert_eq!(nested(3).unwrap(), "1");
    drop(nested(20));
}

#[test]
fn what_is_common_and_what_is_own_are_both_seen() {
    let own = (0..3).map(|nth| vec![("index", Value::from(nth))]).collect();
    let all = fill_each(r#"{"$expr": "run * 10 + index"}"#, variables(), own);
    assert_eq!(all, [Ok("70".to_owned()), Ok("71".to_owned()), Ok("72".to_owned())]);
    assert_eq!(evaluate("run == 7 && schedule != 'x'", variables()), Ok(Value::Bool(true)));
}

#[test]
fn whole_numbers_are_added_and_stay_whole() {
    let variables = vec![("input", serde_json::json!({"n": 41, "big": u64::MAX, "half": 0.5}))];
    let text = r#"[{"$expr": "input.n + 1"}, {"$expr": "input.big"}, {"$expr": "input.half"}]"#;
    assert_eq!(fill(text, variables).unwrap(), format!("[42,{},0.5]", u64::MAX));
}

#[test]
fn a_value_that_is_too_long_is_refused_before_it_is_made() {
    let long = "x".repeat(60_000);
    let many: Vec<i32> = (0..5_000).collect();
    let variables = vec![("long", long.into()), ("many", many.into())];
    let problem = evaluate("many.map(it, long)", variables.clone()).unwrap_err();
    assert!(problem.contains("longer than"), "{problem}");
    let problem = evaluate("many.map(a, many.map(b, a + b))", variables).unwrap_err();
    assert!(problem.contains("more than once"), "{problem}");
}

#[test]
fn what_an_expression_names_is_told_without_evaluating_it() {
    let names =
        names_of("nodes.a.result.x + nodes['b-c'].state + input.k + [1].map(it, it + index)[0]", "nodes")
            .unwrap();
    let text = |all: &std::collections::BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!((text(&names.entries).as_str(), names.whole), ("a b-c", false));
    assert_eq!(text(&names.variables), "index input nodes");
    assert!(names_of("size(nodes)", "nodes").unwrap().whole);
    assert!(names_of("has(nodes.a.result)", "nodes").unwrap().entries.contains("a"));
    assert!(!names_of("[1].map(nodes, nodes)", "nodes").unwrap().whole, "it is the macro's own");
    let payload = r#"{"a/b": [1, {"$expr": "nodes.x"}], "c": {"$expr": "item"}}"#;
    let all = names_in_payload(payload, "nodes").unwrap();
    assert_eq!(all.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(), ["/a~1b/1", "/c"]);
}

#[test]
fn the_payloads_of_one_call_share_a_bound_on_what_they_walk_through() {
    let many: Vec<i32> = (0..10_000).collect();
    let own = |count: i32| (0..count).map(|nth| vec![("index", Value::from(nth))]).collect::<Vec<_>>();
    let text = r#"{"$expr": "many.exists(it, it == 0) ? index : 0"}"#;
    let filled = fill_each(text, vec![("many", many.clone().into())], own(20));
    assert_eq!((filled.len(), filled[19].as_deref()), (20, Ok("19")));
    let refused = fill_each(text, vec![("many", many.into())], own(1_001));
    assert_eq!(refused[999].as_deref(), Ok("999"));
    let problem = refused[1_000].as_ref().unwrap_err();
    assert!(problem.contains("walks through more than"), "{problem}");
}
