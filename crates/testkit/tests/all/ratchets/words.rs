//! What a person reads must be in a person's words: no value as a program writes it (`?report`) in a line of the log that is
//! read by default, and no count of milliseconds where a span of time is meant.

use super::tree::{File, all};

const LEVELS: [&str; 3] = ["tracing::info!(", "tracing::warn!(", "tracing::error!("];

/// Each line of the log of the levels that are on by default, from its macro to the end of the statement.
fn log_lines(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for level in LEVELS {
        for (at, _) in text.match_indices(level) {
            let mut depth = 0;
            let length = text[at..].find(|letter: char| {
                depth += i32::from(letter == '(') - i32::from(letter == ')');
                letter == ')' && depth == 0
            });
            found.push(&text[at..at + length.unwrap_or(level.len())]);
        }
    }
    found
}

/// `?value`, or `name = ?value`.
fn writes_as_a_program(line: &str) -> bool {
    line.split(['(', ',', '=', '\n']).map(str::trim_start).any(|part| {
        part.strip_prefix('?').is_some_and(|rest| rest.starts_with(|letter: char| letter.is_alphabetic()))
    })
}

fn counts_milliseconds(line: &str) -> bool {
    !line.trim_start().starts_with("//") && line.contains("_ms} ms")
}

fn not_for_people(file: &File) -> Vec<String> {
    if !file.is_rust() || !file.is_product() {
        return Vec::new();
    }
    let product = file.product_lines().collect::<Vec<_>>().join("\n");
    let logged = log_lines(&product).into_iter().filter(|line| writes_as_a_program(line)).map(str::to_owned);
    let counted = product.lines().filter(|line| counts_milliseconds(line)).map(str::to_owned);
    logged.chain(counted).map(|line| format!("{}: {}", file.path, line.trim())).collect()
}

#[test]
fn what_a_person_reads_is_in_a_persons_words() {
    let found: Vec<String> = all().iter().flat_map(not_for_people).collect();
    assert!(found.is_empty(), "{found:#?}");
    for bad in [
        "tracing::info!(?report, \"buckets\");",
        "tracing::warn!(\n    pages,\n    ours = ?self.place,\n    \"elsewhere\"\n);",
        "let said = format!(\"for {waited_ms} ms\");",
    ] {
        let text = format!("//! Top.\n{bad}\n");
        assert_eq!(not_for_people(&File::new("crates/a/src/b.rs", &text)).len(), 1, "{bad}");
    }
    let good =
        "//! Top.\ntracing::debug!(?report, \"seen\");\ntracing::info!(count = next()?, \"is it?\");\n";
    assert!(not_for_people(&File::new("crates/a/src/b.rs", good)).is_empty());
}
