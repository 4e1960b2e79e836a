//! No case of a suite is written and not run.

/// A case that is written but not listed would silently never run.
#[test]
fn every_case_that_is_written_is_listed() {
    let lists = [
        include_str!("../../../src/conformance/mod.rs"),
        include_str!("../../../src/conformance/hot/cases.rs"),
    ]
    .concat();
    let modules = [
        ("insert", include_str!("../../../src/conformance/store/insert.rs")),
        ("identity", include_str!("../../../src/conformance/store/identity.rs")),
        ("content", include_str!("../../../src/conformance/store/content.rs")),
        ("moves", include_str!("../../../src/conformance/store/moves.rs")),
        ("changes", include_str!("../../../src/conformance/store/changes.rs")),
        ("dispatch", include_str!("../../../src/conformance/store/dispatch.rs")),
        ("facts", include_str!("../../../src/conformance/store/facts.rs")),
        ("leases", include_str!("../../../src/conformance/store/leases.rs")),
        ("scan", include_str!("../../../src/conformance/store/scan.rs")),
        ("overdue", include_str!("../../../src/conformance/store/overdue.rs")),
        ("lookup", include_str!("../../../src/conformance/store/lookup.rs")),
        ("chunks", include_str!("../../../src/conformance/store/chunks.rs")),
        ("labels", include_str!("../../../src/conformance/store/labels.rs")),
        ("retire", include_str!("../../../src/conformance/store/retire.rs")),
        ("retries", include_str!("../../../src/conformance/store/retries.rs")),
        ("books", include_str!("../../../src/conformance/store/books.rs")),
        ("ledger", include_str!("../../../src/conformance/store/ledger.rs")),
        ("replies", include_str!("../../../src/conformance/store/replies.rs")),
        ("settings", include_str!("../../../src/conformance/store/settings.rs")),
        ("agenda", include_str!("../../../src/conformance/store/agenda.rs")),
        ("executors", include_str!("../../../src/conformance/store/executors.rs")),
        ("tokens", include_str!("../../../src/conformance/store/tokens.rs")),
        ("audit", include_str!("../../../src/conformance/store/audit.rs")),
        ("durable", include_str!("../../../src/conformance/store/durable.rs")),
        ("due", include_str!("../../../src/conformance/hot/due.rs")),
        ("drain", include_str!("../../../src/conformance/hot/drain.rs")),
        ("namespaces", include_str!("../../../src/conformance/store/namespaces.rs")),
        ("schedules", include_str!("../../../src/conformance/schedules.rs")),
        ("workflows", include_str!("../../../src/conformance/workflows.rs")),
        ("evaluations", include_str!("../../../src/conformance/evaluations.rs")),
        ("bulk", include_str!("../../../src/conformance/store/bulk.rs")),
        ("cluster", include_str!("../../../src/conformance/store/cluster.rs")),
        ("cases", include_str!("../../../src/conformance/limiter/cases.rs")),
        ("bus", include_str!("../../../src/conformance/bus.rs")),
        ("ownership", include_str!("../../../src/conformance/ownership.rs")),
        ("signals", include_str!("../../../src/conformance/signals.rs")),
    ];
    let mut written = 0;
    for (module, source) in modules {
        for name in source.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
            let name = name.split(['(', '<']).next().unwrap();
            assert!(
                lists.contains(&format!("            {module}::{name},\n")),
                "unlisted: {module}::{name}"
            );
            written += 1;
        }
    }
    let listed = lists
        .lines()
        .filter(|line| line.starts_with("            ") && line.ends_with(',') && line.contains("::"));
    assert_eq!(listed.filter(|text| !text.contains(['(', '"'])).count(), written, "a name is listed twice");
}

#[test]
fn every_file_of_cases_is_looked_at() {
    let source = include_str!("listed.rs");
    for dir in ["store", "hot", "limiter"] {
        for file in
            std::fs::read_dir(format!("{}/src/conformance/{dir}", env!("CARGO_MANIFEST_DIR"))).unwrap()
        {
            let path = file.unwrap().path();
            let has_cases = std::fs::read_to_string(&path).unwrap_or_default().contains("\npub async fn ");
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(
                !has_cases || name == "mod.rs" || source.contains(&format!("/{dir}/{name}\"")),
                "{dir}/{name} is not looked at"
            );
        }
    }
}
