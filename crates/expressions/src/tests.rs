//! Expressions and payloads: their values, their errors, and their cost.

mod costs;
mod like_cel;
mod random;

use super::*;

/// One after the other, with one budget.
fn filled_each(text: &str, common: &Variables, own: &[Variables]) -> Vec<Result<String, Problem>> {
    let template = match Template::parse(text) {
        Ok(Some(template)) => template,
        Ok(None) => return own.iter().map(|_| Ok(text.to_owned())).collect(),
        Err(problem) => return own.iter().map(|_| Err(problem.clone())).collect(),
    };
    let mut budget = Budget::new(REQUEST_STEPS, REQUEST_BYTES);
    own.iter().map(|own| template.fill(common, own, &mut budget)).collect()
}

fn variables() -> Variables {
    vec![
        ("schedule", "digest".into()),
        ("scheduled_at", "2027-01-15T08:00:00.250Z".into()),
        ("scheduled_at_ms", 1_800_000_000_250_i64.into()),
        ("run", 7_i64.into()),
    ]
}

fn filled(text: &str) -> Result<String, String> {
    filled_each(text, &variables(), &[Vec::new()]).remove(0).map_err(|problem| problem.to_string())
}

fn payload(expression: &str) -> String {
    serde_json::json!({ "$expr": expression }).to_string()
}

/// The value as JSON.
fn value(expression: &str) -> Result<String, String> {
    filled(&payload(expression))
}

fn value_with(expression: &str, variables: &Variables) -> Result<Value, Problem> {
    let mut budget = Budget::new(REQUEST_STEPS, REQUEST_BYTES);
    Expression::parse(expression)?.value(variables, &[], &mut budget)
}

fn read(text: &str) -> Value {
    read_json(text).unwrap()
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
    let wanted = r#"{"at": "2027-01-15T08:00:00.250Z", "n": [8, {"deep": "digest"}],
        "ms": 1800000000250, "map": {"x":[1,true,null]}, "plain": 1}"#;
    assert_eq!(filled(text).unwrap(), wanted);
    assert_eq!(value("run % 2 == 1 ? 'odd' : 'even'").unwrap(), r#""odd""#);
}

#[test]
fn what_cannot_be_read_or_has_no_value_says_which_expression() {
    for text in ["nonsense", "1 +", "run.x.y", "1 / 0", "unknown(1)"] {
        let problem = value(text).unwrap_err();
        assert!(problem.contains(text), "{text}: {problem}");
    }
    assert!(filled(r#"{"$expr": 1}"#).is_err() && filled(r#"{"$expr": "1", "other": 2}"#).is_err());
    let place = value("[1, 2].map(x, x + run.y)").unwrap_err();
    assert!(place.contains("at its byte 18 (run.y)"), "{place}");
}

#[test]
fn names_mean_what_their_place_says() {
    let input = read(
        r#"{"mapping": {"x": 1}, "filters": {"y": 2}, "allocation": {"z": 3}, "map": [4], "transform": {"all": 5},
            "rows": [[1, 2], [3]]}"#,
    );
    let variables = vec![("input", input), ("transform", 6_i64.into()), ("filter", 7_i64.into())];
    let sum = "input.mapping.x + input.filters.y + input.allocation.z + input.map[0] + input.transform.all + transform + filter";
    assert_eq!(value_with(sum, &variables).unwrap(), Value::Int(28));
    let walks = "input.rows.map(r, r.filter(n, n > 1).map(n, n * 10)).exists(r, r.exists_one(n, n == 20))";
    assert_eq!(value_with(walks, &variables).unwrap(), Value::Bool(true));
}

#[test]
fn signs_in_texts_are_no_signs() {
    let with = |text: &str| format!("'{text}' + schedule");
    let texts = ["---", "-----BEGIN-----", "!!!", "a.map b.map c.map", "// no comment", "\\'"];
    let many = ["?", "(", "[", "{", "!", "-"].map(|sign| sign.repeat(25));
    for text in texts.into_iter().chain(many.iter().map(String::as_str)) {
        let wanted = format!("{}digest", text.replace('\\', ""));
        assert_eq!(value(&with(text)).unwrap(), format!("{wanted:?}"), "{text}");
    }
    assert_eq!(value("1 // 'a comment (((((\n + 1").unwrap(), "2");
    assert_eq!(
        value(r#"r'\d' + """a "quoted" one""" + '\x41\u00e9\101'"#).unwrap(),
        r#""\\da \"quoted\" oneAéA""#
    );
}

#[test]
fn what_is_long_or_deep_is_refused() {
    assert!(value(&("1 + ".repeat(300) + "1")).unwrap_err().contains("bytes"));
    for sign in ["(", "[", "-!"] {
        assert!(value(&(sign.repeat(70) + "1")).unwrap_err().contains("deep"), "{sign}");
    }
    assert_eq!(value(&format!("{}1{}", "(".repeat(60), ")".repeat(60))).unwrap(), "1");
    assert_eq!(value(&("1".to_owned() + &"+1".repeat(149))).unwrap(), "150");
    assert!(value(&("1".to_owned() + &"+1".repeat(150))).unwrap_err().contains("150 operations"));
    assert!(value(&format!("run{}", ".a".repeat(150))).unwrap_err().contains("150 operations"));
    assert_eq!(value(&("!".repeat(1_000) + "true")).unwrap(), "true");
    let many: Vec<_> = (0..101).map(|_| serde_json::json!({"$expr": "1"})).collect();
    assert!(filled(&serde_json::json!(many).to_string()).unwrap_err().contains("101"));
}

/// Attacks that were published for another parser: alternating brackets and exclamation marks, and nesting that ends
/// in a mistake.
#[test]
fn the_known_ways_to_drive_a_parser_mad_end_soon() {
    let ways = ["[!".repeat(60), "{[!".repeat(40), "(".repeat(20), "[".repeat(20) + "!!1", "!!(".repeat(60)];
    for way in ways {
        assert!(value(&way).is_err(), "{way}");
    }
}

#[test]
fn numbers_keep_their_digits() {
    let input = r#"{"id": 9007199254740993, "big": 18446744073709551615, "huge": 123456789012345678901234567890,
        "price": 19.90, "small": 0.1000000000000000055511151231257827, "n": 41, "half": 0.5}"#;
    let variables = vec![("input", read(input))];
    let text = r#"{"plain": 123456789012345678901234567890, "more": 1.10, "all": {"$expr": "[input.id, input.big, input.huge, input.price, input.small]"}}"#;
    let wanted = r#"{"plain": 123456789012345678901234567890, "more": 1.10, "all": [9007199254740993,18446744073709551615,123456789012345678901234567890,19.90,0.1000000000000000055511151231257827]}"#;
    assert_eq!(filled_each(text, &variables, &[Vec::new()]).remove(0).unwrap(), wanted);
    let is = |expression: &str| value_with(expression, &variables).unwrap();
    assert_eq!(is("input.id + 1"), Value::Int(9_007_199_254_740_994));
    assert_eq!(is("input.big - 1u"), Value::UInt(u64::MAX - 1));
    assert_eq!(is("input.id > 9007199254740992.0 && input.id != 9007199254740992"), Value::Bool(true));
    assert_eq!(is("input.price * 2.0 == 39.8 && input.half < 1"), Value::Bool(true));
    assert_eq!(
        is("string(input.huge) + string(input.price)"),
        Value::from("12345678901234567890123456789019.90")
    );
    assert!(value_with("input.big + 1", &variables).unwrap_err().to_string().contains("uint and int"));
    assert!(value("9223372036854775807 + 1").unwrap_err().contains("too large"));
}

#[test]
fn types_that_do_not_go_together_are_seen_without_evaluating() {
    for text in [
        "1 + 1.5",
        "run > 0 || 2.0 * 3 > 1.0",
        "'a' + 1",
        "-'a'",
        "[1].map(x, 1 + 1u)",
        "'a' < 1",
        "1 in 2",
        "double(run) + 1",
        "size(run) + 0.5",
        "run.frobnicate()",
        "true ? 'a' - 'b' : 1",
    ] {
        let problem = Expression::parse(text).unwrap_err().to_string();
        assert!(problem.contains("there is no "), "{text}: {problem}");
    }
    assert!(Expression::parse("1 + 1.5").unwrap_err().to_string().contains("double(x)"));
    for text in
        ["run + 1.5", "1 < 1.5", "1 == 'a'", "double(run) + 1.0", "'a' in ['a', 1]", "1.5 + (run ? 1 : 2.0)"]
    {
        assert!(Expression::parse(text).is_ok(), "{text}");
    }
}

#[test]
fn what_an_expression_names_is_told_without_evaluating_it() {
    let names = |text: &str| Expression::parse(text).unwrap().names("nodes");
    let all = names("nodes.a.result.x + nodes['b-c'].state + input.k + [1].map(it, it + index)[0]");
    let text = |all: &std::collections::BTreeSet<String>| all.iter().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!((text(&all.entries).as_str(), all.whole), ("a b-c", false));
    assert_eq!(text(&all.variables), "index input nodes");
    assert!(names("size(nodes)").whole && names("nodes[input.x]").whole);
    assert!(names("has(nodes.a.result)").entries.contains("a"));
    assert!(names("has(nodes.a)").entries.contains("a"));
    assert!(!names("[1].map(nodes, nodes)").whole, "it is the walk's own");
    let types = "type(input) == int || type(input) in [bool, bytes, double, list, map, null_type, string, type, uint]";
    assert_eq!(text(&names(types).variables), "input", "names of types are no variables");
    let template = Template::parse(r#"{"a/b": [1, {"$expr": "nodes.x"}], "c": {"$expr": "item"}}"#).unwrap();
    let paths: Vec<String> = template.unwrap().names("nodes").map(|(path, _)| path.to_owned()).collect();
    assert_eq!(paths, ["/a~1b/1", "/c"]);
}

#[test]
fn what_is_common_and_what_is_own_are_both_seen() {
    let own: Vec<Variables> = (0..3).map(|nth: u32| vec![("index", nth.into())]).collect();
    let all = filled_each(&payload("run * 10 + index"), &variables(), &own);
    assert_eq!(all.into_iter().map(Result::unwrap).collect::<Vec<_>>(), ["70", "71", "72"]);
}

#[test]
fn patterns_are_matched_anywhere_unless_they_say_where() {
    for (text, pattern, wanted) in [
        ("order-77", "[0-9]+", true),
        ("order-77", "^[0-9]+$", false),
        ("Grüße", r"^\\w+$", true),
        ("ABC", "(?i)b", true),
        ("", "", true),
    ] {
        let expression = format!("'{text}'.matches('{pattern}') && matches('{text}', '{pattern}')");
        assert_eq!(value(&expression).unwrap(), wanted.to_string(), "{expression}");
    }
    for (pattern, says) in
        [("(", "unclosed"), ("(a{1,1000}){1,1000}", "exceeded limit"), (r"(a)\\1", "backreference")]
    {
        let problem = value(&format!("'a'.matches('{pattern}')")).unwrap_err();
        assert!(problem.contains(says), "{pattern}: {problem}");
    }
    assert!(value(&format!("'a'.matches('{}')", "a".repeat(257))).unwrap_err().contains("257 bytes"));
}

/// The deepest expressions fit on the stack of any thread; that of the pool is eight times as deep.
#[test]
fn the_deepest_that_is_read_fits_on_the_stack() {
    let deepest = [
        format!("{}1{}", "[".repeat(60), "]".repeat(60)),
        format!("{}1{}", "[[[1].map(x,".repeat(20), ")]]".repeat(20)),
        format!("x{}", ".a".repeat(140)),
        format!("x{}", "[0]".repeat(140)),
        format!("'a'{}", "+'a'".repeat(140)),
        format!("1{}", ".size()".repeat(130)),
        format!("{}1", "true?1:".repeat(62)),
        format!("{}1{}{}", "(".repeat(60), "+1)".repeat(60), "+1".repeat(80)),
        format!("{}x{}", "[x].map(x,".repeat(60), ")".repeat(60)),
        "[".repeat(1_024),
        "-!".repeat(512),
    ];
    let thread = std::thread::Builder::new().stack_size(2 << 20);
    let deep = read(&format!("{}1{}", "[".repeat(127), "]".repeat(127)));
    let all = thread.spawn(move || {
        let variables = vec![("x", deep)];
        let own = [Vec::new()];
        for text in deepest {
            drop(value_with(&text, &variables));
            drop(value_with(&format!("x == x || {text}"), &variables));
            drop(filled_each(&payload(&text), &variables, &own));
        }
    });
    all.unwrap().join().unwrap();
}
