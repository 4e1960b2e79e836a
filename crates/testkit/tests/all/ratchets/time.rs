//! A test never asks how fast the machine is: it waits for an event with the one hang limit, and asserts order, counts and
//! states. These rules find upper bounds on elapsed time or lateness in test code, also where a helper takes the bound, and
//! hang limits beside `HANG_LIMIT`. Figures are measured by `scripts/bench`. Comments and the contents of strings are not
//! looked at. Lower bounds ("not before", "never early") are allowed.

use super::tree::{self, File, blank, without_words};
use std::sync::LazyLock;

/// Files whose tests run on tokio's virtual clock (`start_paused`), and why a bound there is exact. A test of such a file that
/// runs on the real clock is looked at all the same.
const VIRTUAL_CLOCK: [(&str, &str); 4] = [
    ("crates/sdk/tests/all/worker.rs", "time stands still there and jumps: how long a worker rests is exact"),
    ("crates/sdk/tests/all/worker/several.rs", "the same, of a worker that asks for several queues"),
    ("crates/sdk/tests/all/fake.rs", "the server of those tests: an hour of their clock passes in no time"),
    (
        "crates/console/src/live/viewport.rs",
        "how often a page is rendered in ten minutes is counted, which pass in no time",
    ),
];

/// Where the hang limit is.
const HOME: &str = "crates/test-servers/src/patience.rs";
const THE_LIMIT: &str = "HANG_LIMIT";
/// So long a wait, in seconds, is a hang limit.
const LONG_WAIT_SECS: u64 = 10;

/// Parts of the name of a value that was measured: `took`, `late_ms`, `p99`.
const MEASURED: [&str; 17] = [
    "took", "elapsed", "waited", "late", "lateness", "latency", "lasted", "slowest", "spent", "worst", "gap",
    "downtime", "p50", "p90", "p95", "p99", "p999",
];
/// What reads a clock.
const READS_A_CLOCK: [&str; 5] =
    [".elapsed()", ".since(", "duration_since(", "Instant::now()", "SystemTime::now()"];
/// Parts of the name of a bound that a helper takes.
const BOUNDS: [&str; 6] = ["within", "deadline", "patience", "soon", "budget", "most"];
/// Parts of the name of a private limit.
const LIMITS: [&str; 8] =
    ["PATIENCE", "DEADLINE", "GIVEN_UP", "GIVE_UP", "HANG_LIMIT", "POLLS_MAX", "SOON", "WITHIN"];

/// The test code of a file. Everything else is blank there, so that lines keep their numbers.
struct Tests {
    file: File,
    code: String,
}

impl Tests {
    fn of(file: File) -> Option<Self> {
        let code = tests_of(&file)?;
        Some(Self { file, code })
    }

    /// A finding, by its line. None, where the clock is a virtual one.
    fn found(&self, at: usize, what: &str) -> Option<String> {
        let before = &self.code[..at];
        let is_listed = VIRTUAL_CLOCK.iter().any(|(path, _)| *path == self.file.path);
        let attribute = before.rfind("#[tokio::test").max(before.rfind("#[test]"));
        let attribute = attribute.and_then(|from| before[from..].split(']').next());
        let is_real = attribute.is_some_and(|text| !text.contains("start_paused"));
        let number = before.matches('\n').count();
        let line = self.file.text.lines().nth(number).unwrap_or_default().trim();
        (is_real || !is_listed).then(|| format!("{}:{}: {what}: {line}", self.file.path, number + 1))
    }
}

static ALL: LazyLock<Vec<Tests>> = LazyLock::new(|| tree::all().into_iter().filter_map(Tests::of).collect());

fn is_whole(path: &str) -> bool {
    let is_helper =
        ["crates/testkit/src/", "crates/test-servers/src/"].iter().any(|dir| path.starts_with(dir));
    is_helper
        || ["/tests/", "/benches/"].iter().any(|dir| path.contains(dir))
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

/// Of a file the code that tests, with everything else blank, so that lines keep their numbers. None: no test code.
fn tests_of(file: &File) -> Option<String> {
    if !file.is_rust() {
        return None;
    }
    let code = without_words(&file.text);
    if is_whole(&file.path) {
        return Some(code);
    }
    let mut at = 0;
    while let Some(next) = code[at..].find("#[cfg(test)]") {
        at += next + "#[cfg(test)]".len();
        let module = code[at..].trim_start();
        let declared = module.find(['{', ';']).unwrap_or(module.len());
        if module.starts_with("mod ") && module[declared..].starts_with('{') {
            let before: String = code[..at].chars().map(blank).collect();
            return Some(before + &code[at..]);
        }
    }
    None
}

/// Of an expression that ends there, what stands before: as far as it binds more strongly than a comparison.
fn left_of(code: &str) -> &str {
    let (mut depth, bytes) = (0_i32, code.as_bytes());
    for at in (0..bytes.len()).rev() {
        match bytes[at] {
            b')' | b']' | b'}' => depth += 1,
            b'(' | b'[' | b'{' if depth == 0 => return code[at + 1..].trim(),
            b'(' | b'[' | b'{' => depth -= 1,
            b',' | b';' | b'=' | b'|' if depth == 0 => return code[at + 1..].trim(),
            b'&' if depth == 0 && at > 0 && bytes[at - 1] == b'&' => return code[at + 1..].trim(),
            _ => {}
        }
    }
    code.trim()
}

/// The same of one that begins there.
fn right_of(code: &str) -> &str {
    let (mut depth, bytes) = (0_i32, code.as_bytes());
    for at in 0..bytes.len() {
        match bytes[at] {
            b'(' | b'[' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => return code[..at].trim(),
            b')' | b']' | b'}' => depth -= 1,
            b',' | b';' | b'{' | b'|' | b'=' if depth == 0 => return code[..at].trim(),
            b'&' if depth == 0 && bytes.get(at + 1) == Some(&b'&') => return code[..at].trim(),
            _ => {}
        }
    }
    code.trim()
}

/// Names of what was read off a clock: `let answered_ms = now.since(began);`, but not an instant.
fn read_off_a_clock(code: &str) -> Vec<&str> {
    let mut all = Vec::new();
    for (at, _) in code.match_indices("let ") {
        let Some((name, value)) = code[at + "let ".len()..].split_once(" = ") else { continue };
        let name = name.trim_start_matches("mut ").split(':').next().unwrap_or_default().trim();
        let value = value.split(';').next().unwrap_or_default();
        let is_name = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        // A block or a closure that reads a clock for something else is no such value.
        let is_read = READS_A_CLOCK[..3].iter().any(|call| value.contains(call));
        if is_name && is_read && !value.contains(['{', '|']) {
            all.push(name);
        }
    }
    all
}

/// Whether this is a time that was measured: a clock is read, or the name says so.
fn is_measured(operand: &str, read: &[&str]) -> bool {
    if READS_A_CLOCK.iter().any(|call| operand.contains(call)) {
        return true;
    }
    // Of `worst.unwrap().as_millis()` the name is `worst`.
    let name = operand.split(['(', '?']).next().unwrap_or_default();
    let name = name.rsplit(' ').next().unwrap_or_default();
    let parts = |separators: &'static [char]| name.split(separators);
    parts(&['.', ':', '&', '*']).any(|part| read.contains(&part))
        || parts(&['.', ':', '&', '*', '_']).any(|part| MEASURED.contains(&part))
}

/// `took < SOON`, `SOON >= took`, `(..SOON).contains(&took)`.
fn bounds(tests: &Tests) -> Vec<String> {
    let code = &tests.code;
    let (bytes, read) = (code.as_bytes(), read_off_a_clock(code));
    let is_space = |at: Option<usize>| at.and_then(|nth| bytes.get(nth)).is_some_and(u8::is_ascii_whitespace);
    let mut all = Vec::new();
    for (at, sign) in code.match_indices(['<', '>']) {
        let end = at + 1 + usize::from(bytes.get(at + 1) == Some(&b'='));
        let is_comparison = is_space(at.checked_sub(1)) && is_space(Some(end));
        let (left, right) = (left_of(&code[..at]), right_of(&code[end..]));
        let (measured, bound) = if sign == "<" { (left, right) } else { (right, left) };
        if is_comparison && is_measured(measured, &read) && !is_hang_limit(bound) {
            all.extend(tests.found(at, "an upper bound on elapsed time"));
        }
    }
    for (at, called) in code.match_indices(".contains(") {
        let range = left_of(&code[..at]);
        let is_open = range.trim_end_matches(')').trim_end().ends_with("..");
        if !is_open && range.contains("..") && is_measured(right_of(&code[at + called.len()..]), &read) {
            all.extend(tests.found(at, "an upper bound on elapsed time"));
        }
    }
    all
}

/// The arguments of a call, of which the name and the parenthesis stand before.
fn arguments(code: &str) -> &str {
    let mut depth = 1;
    let end = code.find(|letter: char| {
        depth += i32::from(matches!(letter, '(' | '[' | '{')) - i32::from(matches!(letter, ')' | ']' | '}'));
        depth == 0
    });
    &code[..end.unwrap_or(code.len())]
}

fn is_hang_limit(argument: &str) -> bool {
    argument.rsplit("::").next().is_some_and(|name| name.trim() == THE_LIMIT)
}

/// A wait that is shorter than the hang limit and has to be met: `timeout(SOON, …).await.unwrap()`. Where it is seen that
/// nothing came, the time is a lower bound.
fn short_waits(tests: &Tests) -> Vec<String> {
    let code = &tests.code;
    let mut all = Vec::new();
    for (at, called) in code.match_indices("timeout(") {
        let is_call = !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
        let inside = arguments(&code[at + called.len()..]);
        let after = &code[at + called.len() + inside.len()..];
        let after = after.trim_start_matches(')').trim_start();
        let after = after.strip_prefix(".await").unwrap_or(after).trim_start();
        let ends = [".expect(", ".unwrap()", ".is_ok()", "?", "else { panic!"];
        let must_be_met = ends.iter().any(|end| after.starts_with(end));
        if is_call && must_be_met && !is_hang_limit(right_of(inside)) {
            all.extend(tests.found(at, "a wait with another limit"));
        }
    }
    all
}

/// A helper that takes a bound: `fn back(within: Duration)`.
fn bounding_helpers(tests: &Tests) -> Vec<String> {
    let code = &tests.code;
    let mut all = Vec::new();
    for (at, _) in code.match_indices(": Duration") {
        let before = &code[..at];
        let name = before
            .rsplit(|letter: char| !(letter.is_alphanumeric() || letter == '_'))
            .next()
            .unwrap_or_default();
        let is_parameter = matches!(code[at + ": Duration".len()..].chars().next(), Some(',' | ')' | '\n'));
        if is_parameter && name.split('_').any(|part| BOUNDS.contains(&part)) {
            all.extend(tests.found(at, "a helper that takes an upper bound"));
        }
    }
    all
}

/// Seconds of `Duration::from_secs(30)`, or of a constant of this file that is one. None: not to be read off.
fn seconds(code: &str, expression: &str) -> Option<u64> {
    let expression = expression.trim().trim_start_matches("std::time::");
    let number = |text: &str| text.trim().trim_end_matches(')').replace('_', "").parse::<u64>().ok();
    if let Some(call) = expression.strip_prefix("Duration::from_") {
        let (unit, rest) = call.split_once('(')?;
        let each_ms = match unit {
            "millis" => 1,
            "secs" => 1_000,
            "mins" => 60_000,
            "hours" => 3_600_000,
            _ => return None,
        };
        return Some(number(rest)? * each_ms / 1_000);
    }
    let is_name = expression
        .chars()
        .all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_');
    let declared = is_name.then(|| format!("const {expression}: Duration = "))?;
    let value = code.split_once(&declared)?.1;
    seconds(code, value.split(';').next()?)
}

/// What waits for at most so long: `timeout(` is also the end of `recv_timeout(`.
const WAITS: [&str; 3] = ["timeout(", "timeout(Some(", "Instant::now() + "];

/// Another hang limit: a long wait that is not `HANG_LIMIT`, or a constant that is named as a limit of patience.
fn hang_limits(tests: &Tests) -> Vec<String> {
    let code = if tests.file.path == HOME { "" } else { tests.code.as_str() };
    let mut all = Vec::new();
    for call in WAITS {
        for (at, called) in code.match_indices(call) {
            let limit = right_of(&code[at + called.len()..]);
            if seconds(code, limit).is_some_and(|secs| secs >= LONG_WAIT_SECS) {
                all.extend(tests.found(at, "another hang limit"));
            }
        }
    }
    for (at, _) in code.match_indices("const ") {
        let (declared, value) = code[at + "const ".len()..].split_once('=').unwrap_or_default();
        let (name, kind) = declared.split_once(':').unwrap_or_default();
        let is_the_one = value.split(';').next().is_some_and(|value| value.contains(THE_LIMIT));
        let is_limit = LIMITS.iter().any(|limit| format!("_{name}_").contains(&format!("_{limit}_")));
        if is_limit && !is_the_one && !kind.contains('&') {
            all.extend(tests.found(at, "another hang limit"));
        }
    }
    all
}

fn nowhere(rule: impl Fn(&Tests) -> Vec<String>) {
    let found: Vec<String> = ALL.iter().flat_map(rule).collect();
    assert!(found.is_empty(), "{} findings: {found:#?}", found.len());
}

fn sample(path: &str, text: &str) -> Tests {
    Tests::of(File::new(path, text)).expect("a file with tests")
}

fn in_a_test(line: &str) -> Tests {
    sample("crates/a/tests/all/b.rs", &format!("//! Top.\nfn a() {{\n    {line}\n}}\n"))
}

#[test]
fn no_test_bounds_elapsed_time_or_lateness_from_above() {
    for bad in [
        "assert!(began.elapsed() < Duration::from_secs(5));",
        "assert!(\n    began.elapsed().as_millis()\n        <= 2_000,\n    \"late\"\n);",
        "assert!(is_closed || took < SOON, \"{took:?}\");",
        "assert!(SOON > took);",
        "let is_late = it.late_ms <= 1_000;",
        "assert!(report.p99.unwrap().as_millis() < 100);",
        "assert!((0..2_000).contains(&took.as_millis()));",
        "assert!((..=SOON).contains(&began.elapsed()));",
        "assert!(Instant::now() < deadline, \"it never came\");",
        "assert!(all.iter().all(|it| it.lateness_ms < 5));",
        "let answer_ms = clock.now().since(asked_at);\n    assert!(answer_ms <= 5_000);",
        "assert!(clock.now().since(asked_at) <= 5_000);",
    ] {
        assert_eq!(bounds(&in_a_test(bad)).len(), 1, "{bad}");
        let unit = format!("//! Top.\nfn p() {{}}\n#[cfg(test)]\nmod tests {{\n    {bad}\n}}\n");
        assert_eq!(bounds(&sample("crates/a/src/b.rs", &unit)).len(), 1, "in a unit test: {bad}");
        let product = format!("//! Top.\nfn a() {{\n    {bad}\n}}\n#[cfg(test)]\nmod tests {{}}\n");
        assert_eq!(bounds(&sample("crates/a/src/b.rs", &product)), [""; 0], "the product may");
    }
    for good in [
        "assert!(began.elapsed() > SOON, \"not before\");",
        "assert!(wait <= began.elapsed());",
        "assert!((300..).contains(&took.as_millis()));",
        "// began.elapsed() < SOON",
        "let text = \"began.elapsed() < SOON\";",
        "let all: Vec<Took> = Vec::new();",
        "assert!(granted < 5 && took > SOON);",
        "assert!(began.elapsed() < HANG_LIMIT, \"waited in vain\");",
    ] {
        assert_eq!(bounds(&in_a_test(good)), [""; 0], "{good}");
    }
    nowhere(bounds);
}

#[test]
fn a_virtual_clock_is_excused_where_it_is_listed_and_nowhere_else() {
    let text =
        "#[tokio::test(start_paused = true)]\nasync fn a() {\n    assert!(began.elapsed() < HOUR);\n}\n";
    let real = text.replace("(start_paused = true)", "");
    let (listed, _) = VIRTUAL_CLOCK[0];
    assert_eq!(bounds(&sample(listed, text)), [""; 0]);
    assert_eq!(bounds(&sample(listed, &real)).len(), 1, "on the real clock");
    assert_eq!(bounds(&sample("crates/a/tests/b.rs", text)).len(), 1, "not listed");
    for (path, _) in VIRTUAL_CLOCK {
        let tests = ALL.iter().find(|tests| tests.file.path == path).expect("it is there");
        let elsewhere = File::new(&path.replace("crates/", "crates/tests/"), &tests.file.text);
        let elsewhere = Tests { file: elsewhere, code: tests.code.clone() };
        let found = [bounds, short_waits, bounding_helpers, hang_limits].map(|rule| rule(&elsewhere).len());
        assert!(found.iter().sum::<usize>() > 0, "{path} must leave the list");
    }
}

#[test]
fn no_test_waits_for_an_event_with_another_limit_than_the_hang_limit() {
    for bad in [
        "timeout(SOON, next()).await.unwrap();",
        "tokio::time::timeout(Duration::from_millis(500), next())\n    .await\n    .expect(\"in time\");",
        "assert!(timeout(Duration::from_secs(2), next()).await.is_ok());",
        "let Ok(it) = timeout(SOON, next()).await else { panic!(\"late\") };",
    ] {
        assert_eq!(short_waits(&in_a_test(bad)).len(), 1, "{bad}");
    }
    for good in [
        "timeout(HANG_LIMIT, next()).await.unwrap();",
        "timeout(patience::HANG_LIMIT, next()).await.expect(\"it comes\");",
        "assert!(timeout(Duration::from_millis(5), next()).await.is_err(), \"nothing comes\");",
        "drop(timeout(polls, call).await);",
    ] {
        assert_eq!(short_waits(&in_a_test(good)), [""; 0], "{good}");
    }
    nowhere(short_waits);
}

#[test]
fn no_helper_of_tests_takes_an_upper_bound() {
    for bad in ["fn back(within: Duration) {}", "async fn seen(what: &str, at_most: Duration, it: u8) {}"] {
        assert_eq!(bounding_helpers(&in_a_test(bad)).len(), 1, "{bad}");
    }
    for good in ["fn receive(wait: Duration) {}", "let late: Duration = took;", "fn a(window: Duration) {}"] {
        assert_eq!(bounding_helpers(&in_a_test(good)), [""; 0], "{good}");
    }
    nowhere(bounding_helpers);
}

#[test]
fn there_is_one_hang_limit() {
    for bad in [
        "timeout(Duration::from_secs(30), next()).await;",
        "const LONG: Duration = Duration::from_secs(60);\n    drop(timeout(LONG, next()).await);",
        "let deadline = Instant::now() + Duration::from_mins(1);",
        "asking.set_read_timeout(Some(Duration::from_millis(20_000))).unwrap();",
        "const PATIENCE: Duration = Duration::from_secs(5);",
        "const POLLS_MAX: usize = 6_000;",
    ] {
        assert_eq!(hang_limits(&in_a_test(bad)).len(), 1, "{bad}");
    }
    for good in [
        "timeout(HANG_LIMIT, next()).await;",
        "const WINDOW: Duration = Duration::from_secs(3_600);",
        "drop(timeout(Duration::from_millis(9), next()).await);",
        "const HANG_LIMIT_MS: u64 = HANG_LIMIT.as_secs() * 1_000;",
    ] {
        assert_eq!(hang_limits(&in_a_test(good)), [""; 0], "{good}");
    }
    nowhere(hang_limits);
}
