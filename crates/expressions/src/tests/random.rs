//! Random texts are read or refused in bounded time, and their evaluation spends at most its budget. Texts of all
//! kinds of words, with walks over lists of thousands.

use super::*;
use proptest::{collection::vec, prelude::*, sample::select};

const WORDS: &[&str] = &[
    "all",
    "rows",
    "t",
    "x",
    "y",
    "1",
    "2.5",
    "3u",
    "'a'",
    "\"--\"",
    "true",
    "null",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ",",
    ":",
    "?",
    ".",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "&&",
    "||",
    "==",
    "<",
    ">=",
    " in ",
    ".map(x, ",
    ".all(y, ",
    ".filter(x, ",
    ".exists(y, ",
    "size(",
    "string(",
    ".matches('(a|b)*')",
    "[0]",
    ".n",
    "t+t",
    "all+all",
    "\n",
    " ",
    "// c\n",
    "'''",
    "r'",
    "\\",
    "é",
    "0x",
    "1e",
    "has(rows.x)",
    "rows.map(x, all.map(y, x))",
    "all.map(x, t)",
];

fn variables() -> Variables {
    let numbers = |count: u32| Value::list((0..count).map(Value::from).collect());
    vec![("all", numbers(2_000)), ("rows", numbers(300)), ("t", "ab".repeat(5_000).into())]
}

/// Expressions that can be read, more often than not.
fn expressions() -> impl Strategy<Value = String> {
    let leaf = select(vec!["1", "2.5", "'ab'", "true", "all", "rows", "t", "x", "[1, 2]", "{'a': 1}"])
        .prop_map(str::to_owned);
    leaf.prop_recursive(8, 60, 3, |inner| {
        let two =
            (inner.clone(), inner.clone(), select(vec!["+", "-", "*", "/", "==", "<", "&&", "||", "in"]));
        let walk =
            (inner.clone(), select(vec!["map", "all", "exists", "exists_one", "filter"]), inner.clone());
        prop_oneof![
            two.prop_map(|(one, other, sign)| format!("({one} {sign} {other})")),
            walk.prop_map(|(list, name, body)| format!("{list}.{name}(x, {body})")),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(a, b, c)| format!("({a} ? {b} : {c})")),
            (select(vec!["size", "string", "int", "double", "dyn"]), inner.clone())
                .prop_map(|(name, of)| format!("{name}({of})")),
            vec(inner, 0..4).prop_map(|all| format!("[{}]", all.join(", "))),
        ]
    })
}

fn spends_at_most_its_budget(text: &str) {
    let Ok(expression) = Expression::parse(text) else { return };
    let variables = variables();
    let mut budget = Budget::new(REQUEST_STEPS, REQUEST_BYTES);
    let first = expression.value(&variables, &[], &mut budget);
    let (steps, bytes) = (budget.spent_steps(), budget.spent_bytes());
    assert!(steps <= EVALUATION_STEPS && bytes <= EVALUATION_BYTES, "{text}: {steps} steps, {bytes} bytes");
    if let Err(problem) = &first {
        let is_spent = steps == EVALUATION_STEPS || bytes == EVALUATION_BYTES;
        assert_eq!(problem.is_over_budget(), is_spent, "{text}: {problem}");
    }
    // To the step and to the byte, each time.
    let mut again = Budget::new(REQUEST_STEPS, REQUEST_BYTES);
    assert_eq!(expression.value(&variables, &[], &mut again).is_ok(), first.is_ok());
    assert_eq!((again.spent_steps(), again.spent_bytes()), (steps, bytes), "{text}");
    // With exactly this budget it has the same value, with less it has none.
    if first.is_ok() && steps > 0 {
        let with = |steps| expression.value(&variables, &[], &mut Budget::new(steps, REQUEST_BYTES));
        assert!(with(steps).is_ok() && with(steps - 1).is_err(), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn words_in_any_order(words in vec(select(WORDS), 0..60)) {
        let text = words.concat();
        spends_at_most_its_budget(text.get(..1_024).unwrap_or(&text));
    }

    #[test]
    fn what_can_be_read(text in expressions()) {
        spends_at_most_its_budget(&text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        drop(Template::parse(&payload(&text)));
        drop(read_json(&text));
    }
}
