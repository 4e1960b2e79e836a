//! Where the engine keeps tasks from one step to the next. The live table is to be the one such place: the others may only become
//! fewer (decision 0033). Looked at are fields of the product's structs: maps, sets, queues, slabs and lists behind a lock, whose
//! type names a task or its id. A batch on its way from one function to another is no such place.

use super::tree::{File, RUST, before_tests};
use std::collections::BTreeSet;

/// File and field.
const KEEPS_TASKS: [(&str, &str); 7] = [
    ("live/table.rs", "slots"),
    ("live/table.rs", "by_id"),
    ("live/index.rs", "slots"),
    // What was leased ahead and found nobody yet, in its order and by how long it waits.
    ("arrivals/preleased_tasks.rs", "order"),
    ("arrivals/preleased_tasks.rs", "since"),
    // The bus did not take them.
    ("maintenance/compensate/state.rs", "failed"),
    // Overdue: looked at again.
    ("maintenance/overdue/state.rs", "suspects"),
];

/// What is found by its type and keeps no task: a position, or ids of something else.
const KEEPS_NONE: [(&str, &str); 14] = [
    ("account/state.rs", "states"),
    ("pipeline/refill/state.rs", "positions"),
    ("evaluations/state.rs", "left"),
    ("evaluations/state.rs", "suspects"),
    ("executors/state.rs", "members"),
    ("pipeline/from_store/state.rs", "positions"),
    ("pipeline/scan/state.rs", "ready_positions"),
    ("sharing/terms/state.rs", "SupersededTenures"),
    // Outcomes of one call.
    ("live/handed_over.rs", "known"),
    ("pipeline/outcome.rs", "fired"),
    ("pipeline/outcome.rs", "leases"),
    ("pipeline/refill.rs", "unknown"),
    ("pipeline/from_store/scanned.rs", "found"),
    ("pipeline/from_store/scanned.rs", "spans"),
];

/// Collections that outlive a call. A list does only behind a lock.
const KEEPERS: [&str; 8] =
    ["HashMap<", "HashSet<", "BTreeMap<", "BTreeSet<", "VecDeque<", "Slab<", "Mutex<Vec<", "Order<"];
/// Names of types that stand for a task, or for its id.
const TASKS: [&str; 16] = [
    "i64",
    "Assignment",
    "Entry",
    "Fired",
    "HotEntry",
    "Key",
    "Lease",
    "Member",
    "Position",
    "Rank",
    "Shelved",
    "Slot",
    "Task",
    "TaskRef",
    "Unreported",
    "Unsent",
];

/// Each field of a struct of this code: its name, or that of a struct without names of fields, and its type.
fn fields(code: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("struct ") {
        let rest = &code[at + "struct ".len()..];
        let name = rest.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
        let Some(begin) = rest.find(['{', '(', ';']) else { continue };
        let (mut depth, mut field) = (0_i32, String::new());
        let is_tuple = rest[begin..].starts_with('(');
        let mut add = |field: &str| match field.split_once(": ") {
            _ if is_tuple => found.push((name.to_owned(), field.to_owned())),
            Some((before, of_type)) => {
                let field = before.rsplit(|letter: char| letter.is_whitespace()).next().unwrap_or_default();
                found.push((field.to_owned(), of_type.to_owned()));
            }
            None => {}
        };
        if rest[begin..].starts_with(';') {
            continue;
        }
        for letter in rest[begin + 1..].chars() {
            match letter {
                '}' | ')' if depth == 0 => break,
                ',' if depth == 0 => {
                    add(&field);
                    field.clear();
                    continue;
                }
                '(' | '[' | '{' | '<' => depth += 1,
                ')' | ']' | '}' | '>' => depth -= 1,
                _ => {}
            }
            field.push(letter);
        }
        add(&field);
    }
    found
}

fn keeps_tasks(of_type: &str) -> bool {
    let is_keeper = KEEPERS.iter().any(|keeper| of_type.contains(keeper));
    let mut words = of_type.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    is_keeper && words.any(|word| TASKS.contains(&word))
}

fn engine_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    let engine = |(file, code): &'static (File, String)| {
        let path = file.path.strip_prefix("crates/engine/src/")?;
        (file.is_product() && !path.contains("model")).then(|| (path, before_tests(code)))
    };
    RUST.iter().filter_map(engine)
}

#[test]
fn tasks_are_kept_in_no_more_places() {
    let (mut found, mut all) = (BTreeSet::new(), BTreeSet::new());
    for (path, code) in engine_files() {
        for (field, of_type) in fields(code) {
            if keeps_tasks(&of_type) {
                found.insert((path, field.clone()));
            }
            all.insert((path, field));
        }
    }
    let listed = KEEPS_TASKS.iter().chain(&KEEPS_NONE).map(|(path, field)| (*path, (*field).to_owned()));
    let listed: BTreeSet<(&str, String)> = listed.collect();
    let unknown: Vec<_> = found.difference(&listed).collect();
    assert!(
        unknown.is_empty(),
        "another place that keeps tasks; the live table has stages for them: {unknown:?}"
    );
    let gone: Vec<_> = listed.difference(&all).collect();
    assert!(gone.is_empty(), "these must leave the list: {gone:?}");
    let not_found: Vec<_> =
        KEEPS_NONE.iter().filter(|(path, field)| !found.contains(&(path, (*field).to_owned()))).collect();
    assert!(not_found.is_empty(), "nobody would take these for tasks: {not_found:?}");
}

#[test]
fn a_place_that_keeps_tasks_is_found_by_its_type() {
    let code = "pub struct A { #[b] x: u8, pub(crate) held: Mutex<Vec<HotEntry>>, y: (i64, B) } struct C(Mutex<HashMap<i64, D>>); struct E;";
    let expected =
        [("x", "u8"), ("held", "Mutex<Vec<HotEntry>>"), ("y", "(i64, B) "), ("C", "Mutex<HashMap<i64, D>>")];
    assert_eq!(fields(code), expected.map(|(field, of_type)| (field.to_owned(), of_type.to_owned())));
    for keeps in ["HashMap<i64, A>", "Mutex<Vec<HotEntry>>", "VecDeque<(Millis, HotEntry)>", "Slab<Slot>"] {
        assert!(keeps_tasks(keeps), "{keeps}");
    }
    for none in ["Vec<HotEntry>", "HashMap<QueueKey, u64>", "i64", "HashSet<Partition>"] {
        assert!(!keeps_tasks(none), "{none}");
    }
}
