//! The document says all of the interface and nothing else; the pages are current.

use crate::{
    document::Document,
    world::{World, ask, get},
};
use serde_json::Value;
use std::collections::BTreeSet;

const METHODS: [&str; 5] = ["GET", "POST", "PATCH", "PUT", "DELETE"];

/// Path by path, the methods that the document has.
fn documented() -> Vec<(String, Vec<&'static str>)> {
    let document = Document::new().0;
    let paths = document["paths"].as_object().unwrap();
    let methods = |item: &Value| {
        METHODS.into_iter().filter(|method| item.get(method.to_lowercase()).is_some()).collect()
    };
    paths.iter().map(|(path, item)| (path.clone(), methods(item))).collect()
}

#[tokio::test]
async fn each_documented_path_takes_exactly_the_documented_methods() {
    let world = World::new();
    for (path, methods) in documented() {
        let concrete = path
            .replace("{ref}", "t00000000000000000000000001")
            .replace("{queue}", "q")
            .replace("{executor}", "x");
        for method in METHODS {
            let answer = world.send(ask(method, &concrete)).await;
            assert_eq!(answer.status == 405, !methods.contains(&method), "{method} {path}: {}", answer.text);
            assert_ne!(answer.body["code"], "request.unknown_route", "{method} {path}");
            if answer.status == 405 {
                let allow: BTreeSet<&str> = answer.header("allow").unwrap().split(',').collect();
                let want: BTreeSet<&str> = methods.iter().copied().collect();
                assert_eq!(
                    allow.into_iter().filter(|text| *text != "HEAD").collect::<BTreeSet<_>>(),
                    want,
                    "{path}"
                );
            }
        }
    }
}

#[test]
fn only_pages_for_people_are_registered_without_documentation() {
    let source = include_str!("../../src/router.rs").split_once("#[cfg(test)]").unwrap().0;
    // One place registers what has no documentation: the list of pages.
    assert_eq!(source.matches(".route(").count(), 1);
    assert!(
        source.contains("pages().into_iter().fold(Router::new(), |all, (path, page)| all.route(path, page))")
    );
    let pages = source.split_once("fn pages()").unwrap().1.split_once("\n}").unwrap().0;
    let bare: Vec<&str> = pages.lines().filter(|line| line.trim_start().starts_with("(\"/")).collect();
    assert!(!bare.is_empty());
    let is_for_people = |text: &&str| text.contains("(\"/docs") || text.contains("(\"/\",");
    assert!(bare.iter().all(is_for_people), "{bare:?}");
    assert!(!source.contains(".nest") && !source.contains("route_service"));
}

#[test]
fn every_call_of_the_public_interface_is_there() {
    let documented = documented();
    for (method, path) in [
        ("POST", "/v1/tasks"),
        ("POST", "/v1/tasks/batch"),
        ("GET", "/v1/tasks/{ref}"),
        ("GET", "/v1/tasks"),
        ("PATCH", "/v1/tasks/{ref}"),
        ("POST", "/v1/tasks/{ref}/cancel"),
        ("POST", "/v1/tasks/{ref}/run-now"),
        ("POST", "/v1/tasks/{ref}/redrive"),
        ("GET", "/v1/tasks/{ref}/why"),
        ("POST", "/v1/queues/{queue}/lease"),
        ("POST", "/v1/outcomes"),
        ("POST", "/v1/heartbeats"),
        ("GET", "/livez"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
    ] {
        let found = documented.iter().any(|(p, methods)| p == path && methods.contains(&method));
        assert!(found, "{method} {path}");
    }
}

#[test]
fn the_document_is_whole() {
    let document = Document::new().0;
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item
            .as_object()
            .unwrap()
            .iter()
            .filter(|(text, _)| METHODS.contains(&text.to_uppercase().as_str()))
        {
            let what = format!("{method} {path}");
            assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()), "{what}");
            assert!(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{what}");
            if let Some(body) = operation.get("requestBody") {
                assert!(body["content"]["application/json"]["example"].is_object(), "{what} has no example");
            }
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(
                    response["description"].as_str().is_some_and(|description| !description.is_empty()),
                    "{what} {status}"
                );
            }
            for name in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
                let parameters = operation["parameters"].as_array().unwrap();
                assert!(
                    parameters.iter().any(|parameter| parameter["name"] == name && parameter["in"] == "path"),
                    "{what}: {name}"
                );
            }
        }
    }
    let mut refs = Vec::new();
    collect_refs(&document, &mut refs);
    assert!(refs.len() > 20);
    for text in refs {
        assert!(document.pointer(text.strip_prefix('#').unwrap()).is_some(), "{text} leads nowhere");
    }
}

fn collect_refs(value: &Value, refs: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            refs.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
            object.values().for_each(|entry| collect_refs(entry, refs));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_refs(item, refs)),
        _ => {}
    }
}

#[test]
fn the_examples_of_requests_are_valid() {
    let document = Document::new();
    let body = |method: &str, path: &str| {
        let operation = document.operation(method, path).unwrap();
        operation["requestBody"]["content"]["application/json"]["example"].to_string().into_bytes()
    };
    punctual_protocol::InsertTask::from_json(&body("POST", "/v1/tasks")).unwrap();
    let batch = punctual_protocol::InsertBatch::from_json(&body("POST", "/v1/tasks/batch")).unwrap();
    assert!(batch.items().all(|result| result.is_ok()));
    punctual_protocol::PatchTask::from_json(&body("PATCH", "/v1/tasks/x")).unwrap();
    punctual_protocol::CancelRequest::from_json(&body("POST", "/v1/tasks/x/cancel")).unwrap();
    punctual_protocol::LeaseRequest::from_json(&body("POST", "/v1/queues/q/lease")).unwrap();
    punctual_protocol::HeartbeatRequest::from_json(&body("POST", "/v1/heartbeats")).unwrap();
    let outcomes = punctual_protocol::OutcomeBatch::from_json(&body("POST", "/v1/outcomes")).unwrap();
    for outcome in outcomes.items() {
        outcome.unwrap().r#ref.parse::<punctual_domain::place::TaskRef>().unwrap();
    }
}

#[tokio::test]
async fn the_document_and_the_pages_are_served_without_a_network() {
    let world = World::new();
    let served = world.send(get("/openapi.json")).await;
    assert_eq!(served.header("content-type"), Some("application/json"));
    assert_eq!(served.body, Document::new().0);
    let index = world.send(get("/docs/")).await;
    assert_eq!((index.status, index.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(!index.text.contains("http://") && !index.text.contains("https://"), "{}", index.text);
    assert!(world.send(get("/docs/swagger-initializer.js")).await.text.contains("/openapi.json"));
    assert_eq!(world.send(get("/docs/swagger-ui-bundle.js")).await.status, 200);
    assert_eq!(world.send(get("/docs")).await.header("location"), Some("/docs/"));
    let list = world.send(get("/docs/errors")).await.text;
    for code in punctual_protocol::CODES {
        assert!(list.contains(code.name), "{}", code.name);
        let page = world.send(get(format!("/docs/errors/{}", code.name))).await;
        assert!(page.status == 200 && page.text.contains(code.title), "{}", code.name);
    }
}

#[test]
fn the_written_pages_are_current() {
    for (name, want) in
        [("errors.md", punctual_server::errors_page()), ("metrics.md", punctual_server::metrics::page())]
    {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&path, &want).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == want,
            "docs/{name} is not current: UPDATE_EXPECT=1 cargo test -p punctual-server rewrites it"
        );
    }
}

/// What generators of clients stumble over: two operations of one name overwrite each other; a property with a default
/// counts as always there, and has to be named in every request; a code that may be missing cannot be decided by.
#[test]
fn generators_of_clients_find_nothing_that_they_take_otherwise() {
    let document = Document::new().0;
    let operations: Vec<&Value> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| path.as_object().unwrap().values())
        .collect();
    let named: BTreeSet<&str> =
        operations.iter().filter_map(|operation| operation["operationId"].as_str()).collect();
    assert_eq!(named.len(), operations.len());
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(!has_default(schema), "{name}");
    }
    let required = document["components"]["schemas"]["Problem"]["required"].as_array().unwrap();
    for always in ["type", "title", "status", "code"] {
        assert!(required.iter().any(|entry| entry == always), "{always}");
    }
}

fn has_default(schema: &Value) -> bool {
    let below = |name: &str| schema[name].as_object().is_some_and(|schema| schema.values().any(has_default));
    let among = |name: &str| schema[name].as_array().is_some_and(|schema| schema.iter().any(has_default));
    schema.get("default").is_some()
        || below("properties")
        || among("oneOf")
        || among("allOf")
        || among("anyOf")
}

/// Seen to fail: with these headers on the pages of the console alone.
#[tokio::test]
async fn every_answer_tells_browsers_what_it_may_not_do() {
    let world = World::new();
    for (path, script) in [
        ("/", false),
        ("/docs", true),
        ("/docs/", true),
        ("/docs/swagger-ui-bundle.js", true),
        ("/docs/errors", true),
        ("/docs/errors/overload", true),
        ("/docs/nothing", true),
        ("/openapi.json", false),
        ("/v1/queues", false),
        ("/v1/nothing", false),
        ("/livez", false),
        ("/metrics", false),
        ("/console", true),
    ] {
        let answer = world.send(get(path)).await;
        let header = |name: &str| answer.header(name).unwrap_or_else(|| panic!("{path} has no {name}"));
        assert_eq!(
            (header("x-content-type-options"), header("x-frame-options")),
            ("nosniff", "DENY"),
            "{path}"
        );
        let policy = header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{path}: {policy}"
        );
        assert_eq!(policy.contains("script-src 'self'"), script, "{path}: {policy}");
        assert_eq!(answer.header("strict-transport-security"), None, "{path} came over plain HTTP");
    }
}
