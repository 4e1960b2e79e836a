//! While there are no tokens: what a page of elsewhere, or a name that was made to point here, may do. Nothing.

use crate::{
    server::TestListener,
    world::{Ask, World, ask, get, post},
};
use punctual_server::ListenerOptions;
use serde_json::json;

const ROUTES: [(&str, &str); 10] = [
    ("GET", "/livez"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/docs/"),
    ("GET", "/docs/errors/overload"),
    ("GET", "/v1/tasks"),
    ("POST", "/v1/dead-letters/redrive"),
    ("POST", "/v1/queues/q/pause"),
    ("GET", "/no/such/route"),
];

fn insert() -> Ask {
    post("/v1/tasks", &json!({"queue": "q"}))
}

#[tokio::test]
async fn what_comes_from_elsewhere_is_refused_before_anything_is_done() {
    let world = World::new();
    for (name, value) in [
        ("host", "evil.example"),
        ("host", "evil.example:7450"),
        ("host", "localhost.evil.example"),
        ("host", "192.168.1.5:7450"),
        ("host", ""),
        ("origin", "https://evil.example"),
        ("origin", "http://192.168.1.5"),
        ("origin", "null"),
        ("origin", "chrome-extension://abc"),
        ("sec-fetch-site", "cross-site"),
    ] {
        world.send(insert().header(name, value)).await.expect_problem(403, "auth.origin_refused");
    }
    let twice = insert().header("host", "localhost").header("host", "evil.example");
    world.send(twice).await.expect_problem(403, "auth.origin_refused");
    world.send(get("http://evil.example/livez")).await.expect_problem(403, "auth.origin_refused");
    assert_eq!(world.engine.store().books().await.unwrap().accepted, 0, "nothing was done");
}

#[tokio::test]
async fn every_route_is_guarded() {
    let world = World::new();
    for (method, path) in ROUTES {
        let foreign = ask(method, path).header("origin", "https://evil.example");
        world.send(foreign).await.expect_problem(403, "auth.origin_refused");
    }
}

#[tokio::test]
async fn programs_and_pages_of_this_machine_are_served() {
    let world = World::new();
    for (name, value) in [
        ("host", "localhost:7450"),
        ("host", "127.0.0.1"),
        ("host", "127.9.9.9:1"),
        ("host", "[::1]:7450"),
        ("origin", "http://localhost:3000"),
        ("origin", "https://127.0.0.1"),
        ("origin", "http://[::1]:7450"),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
    ] {
        world.send(insert().header(name, value)).await.expect(201);
    }
}

#[tokio::test]
async fn over_a_socket_a_host_of_elsewhere_is_refused_and_http2_is_asked_for_its_authority() {
    let server = TestListener::open(ListenerOptions::default()).await;
    for request in [
        "GET /livez HTTP/1.0\r\n\r\n",
        "GET http://evil.example/livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    ] {
        let reported = server.ask(request).await;
        assert!(
            reported.contains(" 403 ") && reported.contains("auth.origin_refused"),
            "{request}: {reported}"
        );
    }
    let (address, port) = (server.address, server.address.port());
    crate::tls::install_provider();
    let client = reqwest::Client::builder()
        .tls_certs_only([])
        .http2_prior_knowledge()
        .resolve("evil.example", address)
        .build()
        .unwrap();
    let status = async |host: &str| {
        let answer = client.get(format!("http://{host}:{port}/livez")).send().await.unwrap();
        assert_eq!(answer.version(), reqwest::Version::HTTP_2);
        answer.status().as_u16()
    };
    assert_eq!((status("evil.example").await, status("127.0.0.1").await), (403, 200));
    drop(client);
    server.close().await;
}
