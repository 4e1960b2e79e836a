//! The cost of expressions, exact to the step and to the byte, with one item and with ten thousand; and that
//! nothing exceeds its limit.

use super::*;
use crate::evaluate::count;

/// Steps and bytes of an evaluation, and whether it has a value.
fn cost(expression: &str, variables: &Variables) -> (u64, u64, Result<Value, Problem>) {
    let mut budget = Budget::new(REQUEST_STEPS, REQUEST_BYTES);
    let value =
        Expression::parse(expression).and_then(|expression| expression.value(variables, &[], &mut budget));
    (budget.spent_steps(), budget.spent_bytes(), value)
}

fn items(count: u32) -> Variables {
    let rows =
        (0..count).map(|nth| Value::map([("n".to_owned(), nth.into()), ("state".to_owned(), "open".into())]));
    vec![
        ("rows", Value::list(rows.collect())),
        ("all", Value::list((0..count).map(Value::from).collect())),
        ("text", "x".repeat(usize::try_from(count).unwrap()).into()),
    ]
}

#[test]
fn costs_are_counted_to_the_step_and_to_the_byte() {
    let (one, many) = (items(1), items(10_000));
    // Expression, steps and bytes with one item and with 10,000.
    let cases: [(&str, [(u64, u64); 2]); 20] = [
        ("1", [(0, 0), (0, 0)]),
        ("1 + 2 * 3", [(2, 0), (2, 0)]),
        ("all", [(0, 0), (0, 0)]),
        ("all.map(x, x)", [(2, 24), (10_001, 240_000)]),
        ("all.map(x, x + 1)", [(3, 24), (20_001, 240_000)]),
        ("all.filter(x, x >= 0)", [(3, 24), (20_001, 240_000)]),
        ("all.filter(x, x < 0)", [(3, 0), (20_001, 0)]),
        ("all.exists(x, x == 0)", [(3, 0), (3, 0)]),
        ("all.all(x, x >= 0)", [(3, 0), (20_001, 0)]),
        ("all.exists_one(x, x == 0)", [(3, 0), (20_001, 0)]),
        ("rows.filter(r, r.state == 'open')", [(4, 24), (30_001, 240_000)]),
        ("rows.map(r, r.n > 5000, r.n)", [(4, 0), (34_999 + 1, 4_999 * 24)]),
        ("all == all", [(2, 0), (10_001, 0)]),
        ("-1 in all", [(2, 0), (10_001, 0)]),
        ("size(all + all)", [(2, 48), (2, 480_000)]),
        ("text + text", [(1, 2), (1, 20_000)]),
        ("text == text", [(1, 0), (1 + 39, 0)]),
        ("text.contains('y')", [(1, 0), (1 + 39, 0)]),
        ("size(text)", [(1, 0), (1 + 39, 0)]),
        ("[1, 2, 3]", [(4, 72), (4, 72)]),
    ];
    for (expression, wanted) in cases {
        for (variables, (steps, bytes)) in [&one, &many].into_iter().zip(wanted) {
            let (spent_steps, spent_bytes, value) = cost(expression, variables);
            assert_eq!((spent_steps, spent_bytes), (steps, bytes), "{expression}");
            value.unwrap();
        }
    }
}

#[test]
fn a_walk_within_a_walk_over_many_is_refused_with_the_place() {
    let many = items(10_000);
    let (steps, _, value) = cost("all.map(a, all.map(b, a + b))", &many);
    assert_eq!(steps, EVALUATION_STEPS);
    let problem = value.unwrap_err();
    assert!(problem.is_over_budget() && !problem.is_out_of_time());
    let problem = problem.to_string();
    assert!(problem.contains("expression.budget: it takes more than 50000 steps"), "{problem}");
    assert!(problem.contains(r#"expression "all.map(a, all.map(b, a + b))", at its byte "#), "{problem}");
    assert!(cost("all.map(a, all.map(b, a + b))", &items(100)).2.is_ok());
}

/// However the name of the macro is set off.
#[test]
fn twelve_walks_within_each_other_are_refused() {
    for space in ["", " ", "\t", "\n", "\r\n", " // a comment\n"] {
        let mut text = "true".to_owned();
        for nth in 0..12 {
            text = format!("[1,2,3,4,5,6].{space}all(x{nth}, {text})");
        }
        if text.len() > 1_024 {
            continue;
        }
        let (steps, _, value) = cost(&text, &Vec::new());
        assert_eq!(steps, EVALUATION_STEPS, "{space:?}");
        assert!(value.unwrap_err().is_over_budget(), "{space:?}");
    }
}

#[test]
fn a_long_text_joined_again_and_again_is_refused_before_it_is_made() {
    let variables = vec![
        ("t", "x".repeat(30_000).into()),
        ("items", Value::list((0..8_000_u32).map(Value::from).collect())),
    ];
    let joined = format!("items.map(i, t{})", "+t".repeat(59));
    let (_, bytes, value) = cost(&joined, &variables);
    assert!(bytes <= EVALUATION_BYTES, "{bytes}");
    let problem = value.unwrap_err().to_string();
    assert!(problem.contains("expression.budget: it makes more than 1048576 bytes"), "{problem}");
    // Also if each is made and dropped again.
    let (_, bytes, value) = cost("items.all(i, size(t + t) > 0)", &variables);
    assert!(bytes <= EVALUATION_BYTES && value.unwrap_err().is_over_budget());
}

#[test]
fn what_stands_in_the_payload_counts_its_bytes_too() {
    let variables = vec![
        ("t", "x".repeat(60_000).into()),
        ("items", Value::list((0..5_000_u32).map(Value::from).collect())),
    ];
    let fill = |text: &str| filled_each(text, &variables, &[Vec::new()]).remove(0);
    assert!(fill(&payload("items.map(i, t)")).unwrap_err().is_over_budget());
    let ten = format!("[{}]", [r#"{"$expr": "t"}"#; 10].join(","));
    assert_eq!(fill(&ten).unwrap().len(), 600_000 + 10 * 3 + 1);
    let twenty = format!("[{}]", vec![r#"{"$expr": "t"}"#; 20].join(","));
    assert!(fill(&twenty).unwrap_err().is_over_budget(), "1 MiB for all of one payload");
}

#[test]
fn payloads_of_one_request_share_a_budget() {
    let own: Vec<Variables> = (0..1_001_u32).map(|nth| vec![("index", nth.into())]).collect();
    let all = filled_each(&payload("all.all(x, x >= 0) ? index : 0"), &items(5_000), &own);
    // 10,001 steps, and one for the selected value.
    let first_refused = all.iter().position(Result::is_err);
    assert_eq!(first_refused.map(count), Some(REQUEST_STEPS / 10_002));
    let problem = all.last().unwrap().as_ref().unwrap_err();
    assert!(problem.to_string().contains("in the same request"), "{problem}");
}

#[test]
fn what_has_no_value_is_passed_over_and_a_spent_budget_is_not() {
    let variables = items(1_000);
    let truth = |text: &str| cost(text, &variables).2;
    assert_eq!(truth("1 / 0 > 1 || true").unwrap(), Value::Bool(true));
    assert_eq!(truth("all.exists(x, 10 / x == 10)").unwrap(), Value::Bool(true));
    assert_eq!(truth("all.all(x, 10 / x > 100)").unwrap(), Value::Bool(false));
    assert!(truth("all.all(x, 10 / x >= 0)").unwrap_err().to_string().contains("zero"));
    for text in
        ["all.all(x, all.all(y, true)) || true", "all.exists(z, all.all(x, all.all(y, true)) || z == 999)"]
    {
        assert!(truth(text).unwrap_err().is_over_budget(), "{text}");
    }
}

#[test]
fn patterns_cost_what_their_automaton_could_take() {
    let variables = items(10_000);
    let (steps, ..) = cost("text.matches('x*y')", &variables);
    assert!((1_000..20_000).contains(&steps), "{steps}");
    let (_, _, value) = cost(r"text.matches('(\\w|x)*(\\w|x)*(\\w|x)*y')", &variables);
    assert!(value.unwrap_err().is_over_budget());
    // Each other pattern is read anew.
    let (_, _, value) = cost("all.all(i, 'x'.matches('x' + string(i)) || true)", &variables);
    assert!(value.unwrap_err().is_over_budget());
}

#[test]
fn one_over_the_bound_is_refused_and_one_below_is_not() {
    // 5 steps each, and one for the walk.
    let with = |count: u32| cost("all.all(x, (x + 1) * 2 - x > 0)", &items(count));
    assert_eq!(with(9_999).0, 49_996);
    assert!(with(9_999).2.is_ok());
    assert!(with(10_000).2.unwrap_err().is_over_budget());
    let bytes = |count: u32| cost("all.map(x, x)", &items(count));
    assert!(bytes(43_690).2.is_ok());
    assert!(bytes(43_691).2.unwrap_err().to_string().contains("bytes"));
}

#[test]
fn names_and_parts_of_conditions_are_counted_where_there_are_many_for_each_step() {
    let of = |text: &str, steps: u64| {
        let mut budget = Budget::new(steps, 1 << 20);
        Expression::parse(text).unwrap().value(&[], &[], &mut budget).map(drop)
    };
    let many = vec!["a"; 300].join("&&");
    let text = format!("[true].map(a,{many})");
    assert!(of(&text, 50).is_err(), "600 glances are about 75 steps");
    assert!(of(&text, 100).is_ok());
    let deep = (0..20).fold("a0".to_owned(), |text, nth| format!("[1].map(a{},{text})", 19 - nth));
    assert!(of(&deep, 90).is_ok(), "one name that is found far away costs a few");
}
