//! What is no request of HTTP, or could be read as two: refused with a problem document, and nothing of it is done.

use crate::{
    server::{TestListener, post, rest},
    world::World,
};
use punctual_server::{ListenerOptions, ServerOptions};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

const BODY: &str = r#"{"queue":"q"}"#;

/// The problem that is answered to it; the connection ends behind it.
async fn problem(server: &TestListener, request: &str) -> Value {
    let text = server.ask(request).await;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    assert!(head.contains("content-type: application/problem+json"), "{text}");
    assert!(head.to_ascii_lowercase().contains("connection: close"), "{text}");
    let problem: Value = serde_json::from_str(body).unwrap();
    assert!(head.starts_with(&format!("HTTP/1.1 {} ", problem["status"])), "{text}");
    problem
}

async fn tasks(server: &TestListener) -> f64 {
    server.metric("punctual_tasks_accepted_total").await
}

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

fn insert(headers: &str, body: &str) -> String {
    format!("POST /v1/tasks HTTP/1.1\r\n{headers}content-type: application/json\r\n\r\n{body}")
}

#[tokio::test]
async fn two_lengths_of_one_body_are_refused_in_either_order_and_one_is_taken() {
    let server = TestListener::open(ListenerOptions::default()).await;
    let (length, coding) = (format!("content-length: {}\r\n", BODY.len()), "transfer-encoding: chunked\r\n");
    for both in [format!("{length}{coding}"), format!("{coding}{length}")] {
        let request = insert(&format!("host: localhost\r\n{both}"), &chunked(BODY));
        assert_eq!(problem(&server, &request).await["code"], "request.malformed_http");
    }
    assert_eq!(tasks(&server).await, 0.0, "nothing was done");
    for one in [(&length[..], BODY.to_owned()), (coding, chunked(BODY))] {
        let headers = format!("host: localhost\r\nconnection: close\r\n{}", one.0);
        assert!(server.ask(&insert(&headers, &one.1)).await.starts_with("HTTP/1.1 201"), "{}", one.0);
    }
    server.close().await;
}

/// Seen to fail: with 403 and a connection that stays, as for a name of elsewhere (`origin`).
#[tokio::test]
async fn a_request_names_one_host_also_where_there_are_no_tokens() {
    let server = TestListener::open(ListenerOptions::default()).await;
    for hosts in ["", "host: localhost\r\nhost: localhost\r\n"] {
        let headers = format!("{hosts}content-length: {}\r\n", BODY.len());
        assert_eq!(
            problem(&server, &insert(&headers, BODY)).await["code"],
            "request.malformed_http",
            "{hosts:?}"
        );
    }
    assert_eq!(tasks(&server).await, 0.0, "nothing was done");
    server.close().await;
}

#[tokio::test]
async fn a_request_names_one_host_also_where_callers_have_tokens() {
    const TOKEN: &str = "a-token-of-this-test-only";
    let world = World::guarded_by(TOKEN);
    let server = TestListener::to(&world, ServerOptions::default()).await;
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    let headers = |hosts: &str| format!("{hosts}{token}content-length: {}\r\n", BODY.len());
    for hosts in ["", "host: a.example\r\nhost: b.example\r\n"] {
        let reported = problem(&server, &insert(&headers(hosts), BODY)).await;
        assert_eq!(reported["code"], "request.malformed_http", "{hosts:?}");
        assert!(reported["detail"].as_str().unwrap().contains("Host"), "{reported}");
    }
    assert_eq!(world.engine.store().books().await.unwrap().accepted, 0, "nothing was done");
    let one = insert(&headers("host: a.example\r\nconnection: close\r\n"), BODY);
    assert!(server.ask(&one).await.starts_with("HTTP/1.1 201"));
    server.close().await;
}

#[tokio::test]
async fn what_the_library_refuses_is_answered_with_a_problem_too() {
    let server = TestListener::open(ListenerOptions::default()).await;
    let live = |headers: &str| format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
    let many: String = (0..150).map(|nth| format!("x-{nth}: 1\r\n")).collect();
    for (request, code) in [
        ("what is this\r\n\r\n".to_owned(), "request.malformed_http"),
        (live("a b: c\r\n"), "request.malformed_http"),
        (live("content-length: -1\r\n"), "request.malformed_http"),
        (live("content-length: 1\r\ncontent-length: 2\r\n"), "request.malformed_http"),
        (live("transfer-encoding: gzip\r\n"), "request.malformed_http"),
        (live(&many), "request.head_too_large"),
        (live(&format!("x: {}\r\n", "a".repeat(80 << 10))), "request.head_too_large"),
        (live("").replace("/livez", &format!("/{}", "a".repeat(80 << 10))), "request.head_too_large"),
    ] {
        let what: String = request.chars().take(80).collect();
        assert_eq!(problem(&server, &request).await["code"], code, "{what}");
    }
    server.close().await;
}

#[tokio::test]
async fn answers_before_one_that_is_refused_are_whole() {
    let server = TestListener::open(ListenerOptions::default()).await;
    let mut stream = server.connect().await;
    let both = format!("{}{}", post("/v1/tasks", BODY), "what is this\r\n\r\n");
    stream.write_all(both.as_bytes()).await.unwrap();
    let reported = rest(&mut stream).await;
    let (first, second) = reported.split_once("HTTP/1.1 400").unwrap_or_else(|| panic!("{reported}"));
    assert!(first.starts_with("HTTP/1.1 201") && first.ends_with('}'), "{reported}");
    assert!(second.contains("request.malformed_http"), "{reported}");
    server.close().await;
}

/// Seen to fail: with a line feed in a chunk's extension taken, and what came after it not looked at; with the heads of requests
/// that came in one write with the one before not looked at.
#[tokio::test]
async fn a_request_in_the_write_of_the_one_before_is_looked_at_like_the_first() {
    let server = TestListener::open(ListenerOptions::default()).await;
    let length = format!("content-length: {}\r\n", BODY.len());
    let two = insert(&format!("host: localhost\r\n{length}transfer-encoding: chunked\r\n"), &chunked(BODY));
    let bare = insert(&format!("host: localhost\n{length}"), BODY);
    let bare_end = insert(&format!("host: localhost\r\n{length}"), BODY).replace("\r\n\r\n", "\r\n\n");
    let in_chunks = insert("host: localhost\r\ntransfer-encoding: chunked\r\n", &chunked(BODY));
    let chunks = |text: &str| insert("host: localhost\r\ntransfer-encoding: chunked\r\n", text);
    let in_extension = chunks(&chunked(BODY).replacen("\r\n", ";a\nb\r\n", 1));
    let in_last = chunks(&chunked(BODY).replace("0\r\n\r\n", "0;\n\r\n\r\n"));
    let mut inserted = 0.0;
    for before in [String::new(), post("/v1/tasks", BODY), in_chunks] {
        for (bad, part) in [
            (&two, "Transfer-Encoding"),
            (&bare, "line feed"),
            (&bare_end, "line feed"),
            (&in_extension, "line feed"),
            (&in_last, "line feed"),
        ] {
            let mut stream = server.connect().await;
            let hidden = post("/v1/tasks", BODY);
            stream.write_all(format!("{before}{before}{bad}{hidden}").as_bytes()).await.unwrap();
            let reported = rest(&mut stream).await;
            let good = reported.matches("HTTP/1.1 201").count();
            assert_eq!(good, if before.is_empty() { 0 } else { 2 }, "{reported}");
            assert_eq!(reported.matches("HTTP/1.1 400").count(), 1, "{reported}");
            assert!(reported.contains("request.malformed_http") && reported.contains(part), "{reported}");
            inserted += f64::from(u8::try_from(good).unwrap());
        }
    }
    assert_eq!(tasks(&server).await, inserted, "nothing was done of what is refused");
    server.close().await;
}
