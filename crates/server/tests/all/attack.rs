//! Callers that send half of a request, take no answer, ask nothing, or come in numbers: they are ended, or asked to come
//! later, and clients that ask properly are served meanwhile. Where a limit of time is about, the clock of the timers is stopped until
//! nothing else is left to do: a client that is quick enough is so on every machine.

use crate::{
    server::{TestListener, answer, post, rest},
    world::{World, get},
};
use futures_util::{future::join_all, poll};
use punctual_server::{ListenerOptions, ServerOptions};
use serde_json::Value;
use std::time::Duration;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

const SHORT: Duration = Duration::from_millis(50);
const LIVE: &str = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

fn ended(reason: &str) -> String {
    format!("punctual_http_connections_ended_total{{reason=\"{reason}\"}}")
}

fn refused(reason: &str) -> String {
    format!("punctual_http_connections_refused_total{{reason=\"{reason}\"}}")
}

fn problem(answer: &str) -> Value {
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

fn assert_served(answer: &str) {
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// A connection that has asked once, and stays.
async fn idle(server: &TestListener) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(LIVE.as_bytes()).await.unwrap();
    assert_served(&answer(&mut stream).await);
    stream
}

#[tokio::test(start_paused = true)]
async fn half_sent_heads_are_ended_and_an_idle_connection_is_not_taken_for_one() {
    let server =
        TestListener::open(ListenerOptions { header_timeout: SHORT, ..ListenerOptions::default() }).await;
    let mut kept = idle(&server).await;
    let mut silent = server.connect().await;
    let mut halves = Vec::new();
    for _ in 0..20 {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: local").await.unwrap();
        halves.push(stream);
    }
    // One that has asked before is no better with its next head.
    let mut later = idle(&server).await;
    later.write_all(b"GET /li").await.unwrap();
    for stream in halves.iter_mut().chain([&mut silent, &mut later]) {
        assert_eq!(rest(stream).await, "");
    }
    assert!(server.metric(&ended("head_timeout")).await >= 22.0);
    kept.write_all(LIVE.as_bytes()).await.unwrap();
    assert_served(&answer(&mut kept).await);
    server.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_for_long_is_ended_and_a_long_poll_is_not() {
    let server =
        TestListener::open(ListenerOptions { idle_timeout: SHORT, ..ListenerOptions::default() }).await;
    let mut poll = server.long_poll().await;
    let mut stream = idle(&server).await;
    assert_eq!(rest(&mut stream).await, "");
    assert!(server.metric(&ended("idle")).await >= 1.0);
    server.shutdown.cancel();
    assert!(answer(&mut poll).await.ends_with(r#"{"tasks":[]}"#));
}

#[tokio::test(start_paused = true)]
async fn who_takes_no_answer_is_cut_off() {
    let server =
        TestListener::open(ListenerOptions { write_timeout: SHORT * 4, ..ListenerOptions::default() }).await;
    let mut stream = server.connect().await;
    // More than the kernel keeps for a caller that does not read.
    let ask = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(50);
    stream.write_all(ask.as_bytes()).await.unwrap();
    server.until_metric(&ended("write_timeout"), 1.0).await;
    let taken = rest(&mut stream).await.len();
    let whole = server.get("/docs/swagger-ui-bundle.js").await.len();
    assert!(whole > 500_000 && taken < 50 * whole, "{taken} of 50 times {whole}");
    server.close().await;
}

#[tokio::test]
async fn the_longest_idle_connection_makes_room_for_one_that_asks() {
    let options = ListenerOptions {
        connections_max: Some(4),
        connections_per_address_max: Some(4),
        ..ListenerOptions::default()
    };
    let server = TestListener::open(options).await;
    let mut oldest = idle(&server).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(idle(&server).await);
    }
    assert_served(&server.get("/livez").await);
    assert_eq!(rest(&mut oldest).await, "", "it was told to go");
    let last = others.last_mut().unwrap();
    last.write_all(LIVE.as_bytes()).await.unwrap();
    assert_served(&answer(last).await);
    server.close().await;
}

#[tokio::test]
async fn when_all_places_are_at_work_a_newcomer_is_told_when_to_come_again() {
    let options = ListenerOptions {
        connections_max: Some(3),
        connections_per_address_max: Some(9),
        long_polls_max: Some(3),
        ..ListenerOptions::default()
    };
    let server = TestListener::open(options).await;
    let mut polls = vec![server.long_poll().await, server.long_poll().await, server.send_long_poll().await];
    let reported = server.get("/livez").await;
    assert!(
        reported.starts_with("HTTP/1.1 503") && reported.contains("\r\nretry-after: 1\r\n"),
        "{reported}"
    );
    assert_eq!(problem(&reported)["code"], "connections.full");
    drop(polls.pop());
    // The place is free once the server has seen it.
    punctual_testkit::patience::until("a place", async || server.get("/livez").await.contains(" 200 ")).await;
    assert!(server.metric(&refused("full")).await >= 1.0);
    server.close().await;
}

#[tokio::test]
async fn one_address_has_its_share_unless_it_is_a_proxy_that_is_trusted() {
    let options = |trusted: &str| ListenerOptions {
        connections_per_address_max: Some(2),
        trusted_proxies: trusted.parse().unwrap(),
        ..ListenerOptions::default()
    };
    let server = TestListener::open(options("")).await;
    let _polls = [server.long_poll().await, server.send_long_poll().await];
    let reported = server.get("/livez").await;
    assert!(reported.starts_with("HTTP/1.1 503") && reported.contains("one address"), "{reported}");
    server.shutdown.cancel();
    let server = TestListener::open(options("127.0.0.0/8")).await;
    let _polls = [server.long_poll().await, server.long_poll().await];
    assert_served(&server.get("/livez").await);
    assert!(server.metric(&refused("per_address")).await == 0.0);
    server.close().await;
}

#[tokio::test]
async fn calls_that_wait_beyond_their_number_are_told_to_come_again() {
    let server =
        TestListener::open(ListenerOptions { long_polls_max: Some(1), ..ListenerOptions::default() }).await;
    let poll = server.long_poll().await;
    let mut second = server.send_long_poll().await;
    let reported = answer(&mut second).await;
    assert!(
        reported.starts_with("HTTP/1.1 429") && reported.contains("\r\nretry-after: 1\r\n"),
        "{reported}"
    );
    assert_eq!(problem(&reported)["code"], "overload");
    assert!(
        server
            .ask(&post("/v1/tasks", r#"{"queue":"z"}"#).replace("host:", "connection: close\r\nhost:"))
            .await
            .contains(" 201 ")
    );
    drop(poll);
    // The next may wait.
    let again = async || {
        let mut stream = server.connect().await;
        let ask = post("/v1/queues/q/lease", r#"{"wait_ms":0}"#);
        stream.write_all(ask.as_bytes()).await.unwrap();
        answer(&mut stream).await.contains(" 200 ")
    };
    punctual_testkit::patience::until("a free place", again).await;
    server.close().await;
}

#[tokio::test]
async fn bodies_that_are_too_long_together_are_refused_before_they_are_kept() {
    let options = ServerOptions {
        batch_body_max_bytes: 1_000,
        payload_max_bytes: 900,
        bodies_max_bytes: 1_000,
        ..ServerOptions::default()
    };
    let server = TestListener::with(options).await;
    let body = format!(r#"{{"queue":"q","payload":"{}"}}"#, "x".repeat(700));
    let whole = post("/v1/tasks", &body);
    let (most, end) = whole.split_at(whole.len() - 10);
    let mut slow = server.connect().await;
    slow.write_all(most.as_bytes()).await.unwrap();
    server.until_metric("punctual_http_bodies_bytes", 700.0).await;
    let mut other = server.connect().await;
    other.write_all(whole.as_bytes()).await.unwrap();
    let reported = answer(&mut other).await;
    assert!(reported.starts_with("HTTP/1.1 429") && reported.contains("retry-after"), "{reported}");
    slow.write_all(end.as_bytes()).await.unwrap();
    assert!(answer(&mut slow).await.contains(" 201 "));
    assert!(server.metric("punctual_http_bodies_bytes").await == 0.0);
    let mut again = server.connect().await;
    again.write_all(whole.as_bytes()).await.unwrap();
    assert!(answer(&mut again).await.contains(" 201 "));
    server.close().await;
}

#[tokio::test]
async fn a_stop_ends_idle_and_half_open_connections_at_once() {
    let mut server = TestListener::open(ListenerOptions::default()).await;
    let mut kept = idle(&server).await;
    let mut silent = server.connect().await;
    let mut half = server.connect().await;
    half.write_all(b"GET /livez HT").await.unwrap();
    // Those before it have been taken.
    assert_served(&server.get("/livez").await);
    server.shutdown.cancel();
    assert_eq!(rest(&mut kept).await + &rest(&mut silent).await, "");
    assert_eq!(rest(&mut half).await, "");
    server.ended().await;
}

/// However many connections they come by: as many guesses as are held back are made in each delay, and no more.
///
/// Seen to fail: with those beyond looked at and answered at once.
#[tokio::test(start_paused = true)]
async fn beyond_the_guesses_that_are_held_back_no_token_is_looked_at() {
    const TOKEN: &str = "a-token-of-this-test-only";
    const AWAITING_RETRY: usize = 256;
    let world = World::guarded_by(TOKEN);
    let ask = |token: &str| world.send(get("/v1/tasks").header("authorization", format!("Bearer {token}")));
    for _ in 0..10 {
        ask("bad").await.expect_problem(401, "auth.required");
    }
    ask(TOKEN).await.expect(200);
    let mut held = Box::pin(join_all((0..AWAITING_RETRY).map(|_| ask("bad"))));
    for _ in 0..100 {
        assert!(poll!(held.as_mut()).is_pending(), "they are held back");
        tokio::task::yield_now().await;
    }
    ask(TOKEN).await.expect_problem(429, "auth.slowed");
    for answer in held.await {
        answer.expect_problem(429, "auth.slowed");
    }
    ask(TOKEN).await.expect(200);
}

/// Seen to fail: with a bad token at `/readyz` answered as none, and with a session that no token has sealed taken for none.
#[tokio::test(start_paused = true)]
async fn tokens_that_are_tried_where_none_is_needed_count_as_everywhere() {
    const TOKEN: &str = "a-token-of-this-test-only";
    let world = World::guarded_by(TOKEN);
    let bearer =
        |path: &str, token: &str| world.send(get(path).header("authorization", format!("Bearer {token}")));
    for _ in 0..5 {
        bearer("/readyz", "bad").await.expect_problem(401, "auth.required");
        let cookie = "punctual_session=v1.99999999999999.a-token-of-this-test-only.00";
        world.send(get("/console").header("cookie", cookie)).await;
    }
    bearer("/readyz", "bad").await.expect_problem(429, "auth.slowed");
    bearer("/v1/tasks", "bad").await.expect_problem(429, "auth.slowed");
    let detail = |answer: &Value| answer["parts"][0]["detail"].clone();
    assert_eq!(detail(&bearer("/readyz", TOKEN).await.expect(200)), "runs", "a good one is not locked out");
    assert_eq!(detail(&world.send(get("/readyz")).await.expect(200)), "ready", "nor is a probe");
}
