//! Callers that send half of a request, take no answer, ask nothing, or come in numbers: they are ended, or told to come
//! later, and clients that ask properly are served meanwhile. Where a limit of time is about, the clock of the timers stands still until
//! nothing else is left to do: a client that is quick enough is so on every machine.

use crate::{
    door::{Door, answer, post, rest},
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
async fn idle(door: &Door) -> TcpStream {
    let mut stream = door.connect().await;
    stream.write_all(LIVE.as_bytes()).await.unwrap();
    assert_served(&answer(&mut stream).await);
    stream
}

#[tokio::test(start_paused = true)]
async fn half_sent_heads_are_ended_and_an_idle_connection_is_not_taken_for_one() {
    let door = Door::open(ListenerOptions { header_timeout: SHORT, ..ListenerOptions::default() }).await;
    let mut kept = idle(&door).await;
    let mut silent = door.connect().await;
    let mut halves = Vec::new();
    for _ in 0..20 {
        let mut stream = door.connect().await;
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: local").await.unwrap();
        halves.push(stream);
    }
    // One that has asked before is no better with its next head.
    let mut later = idle(&door).await;
    later.write_all(b"GET /li").await.unwrap();
    for stream in halves.iter_mut().chain([&mut silent, &mut later]) {
        assert_eq!(rest(stream).await, "");
    }
    assert!(door.metric(&ended("head_timeout")).await >= 22.0);
    kept.write_all(LIVE.as_bytes()).await.unwrap();
    assert_served(&answer(&mut kept).await);
    door.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_for_long_is_ended_and_a_long_poll_is_not() {
    let door = Door::open(ListenerOptions { idle_timeout: SHORT, ..ListenerOptions::default() }).await;
    let mut poll = door.long_poll().await;
    let mut stream = idle(&door).await;
    assert_eq!(rest(&mut stream).await, "");
    assert!(door.metric(&ended("idle")).await >= 1.0);
    door.shutdown.cancel();
    assert!(answer(&mut poll).await.ends_with(r#"{"tasks":[]}"#));
}

#[tokio::test(start_paused = true)]
async fn who_takes_no_answer_is_cut_off() {
    let door = Door::open(ListenerOptions { write_timeout: SHORT * 4, ..ListenerOptions::default() }).await;
    let mut stream = door.connect().await;
    // More than the kernel keeps for somebody who does not read.
    let ask = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(50);
    stream.write_all(ask.as_bytes()).await.unwrap();
    door.until_metric(&ended("write_timeout"), 1.0).await;
    let taken = rest(&mut stream).await.len();
    let whole = door.get("/docs/swagger-ui-bundle.js").await.len();
    assert!(whole > 500_000 && taken < 50 * whole, "{taken} of 50 times {whole}");
    door.close().await;
}

#[tokio::test]
async fn the_longest_idle_connection_makes_room_for_one_that_asks() {
    let options = ListenerOptions {
        connections_max: Some(4),
        connections_per_address_max: Some(4),
        ..ListenerOptions::default()
    };
    let door = Door::open(options).await;
    let mut oldest = idle(&door).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        others.push(idle(&door).await);
    }
    assert_served(&door.get("/livez").await);
    assert_eq!(rest(&mut oldest).await, "", "it was told to go");
    let last = others.last_mut().unwrap();
    last.write_all(LIVE.as_bytes()).await.unwrap();
    assert_served(&answer(last).await);
    door.close().await;
}

#[tokio::test]
async fn when_all_places_are_at_work_a_newcomer_is_told_when_to_come_again() {
    let options = ListenerOptions {
        connections_max: Some(3),
        connections_per_address_max: Some(9),
        long_polls_max: Some(3),
        ..ListenerOptions::default()
    };
    let door = Door::open(options).await;
    let mut polls = vec![door.long_poll().await, door.long_poll().await, door.send_long_poll().await];
    let told = door.get("/livez").await;
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("\r\nretry-after: 1\r\n"), "{told}");
    assert_eq!(problem(&told)["code"], "connections.full");
    drop(polls.pop());
    // The place is free once the server has seen it.
    punctual_testkit::patience::until("a place", async || door.get("/livez").await.contains(" 200 ")).await;
    assert!(door.metric(&refused("full")).await >= 1.0);
    door.close().await;
}

#[tokio::test]
async fn one_address_has_its_share_unless_it_is_a_proxy_that_is_trusted() {
    let options = |trusted: &str| ListenerOptions {
        connections_per_address_max: Some(2),
        trusted_proxies: trusted.parse().unwrap(),
        ..ListenerOptions::default()
    };
    let door = Door::open(options("")).await;
    let _polls = [door.long_poll().await, door.send_long_poll().await];
    let told = door.get("/livez").await;
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("one address"), "{told}");
    door.shutdown.cancel();
    let door = Door::open(options("127.0.0.0/8")).await;
    let _polls = [door.long_poll().await, door.long_poll().await];
    assert_served(&door.get("/livez").await);
    assert!(door.metric(&refused("per_address")).await == 0.0);
    door.close().await;
}

#[tokio::test]
async fn calls_that_wait_beyond_their_number_are_told_to_come_again() {
    let door = Door::open(ListenerOptions { long_polls_max: Some(1), ..ListenerOptions::default() }).await;
    let poll = door.long_poll().await;
    let mut second = door.send_long_poll().await;
    let told = answer(&mut second).await;
    assert!(told.starts_with("HTTP/1.1 429") && told.contains("\r\nretry-after: 1\r\n"), "{told}");
    assert_eq!(problem(&told)["code"], "overload");
    assert!(
        door.ask(&post("/v1/tasks", r#"{"queue":"z"}"#).replace("host:", "connection: close\r\nhost:"))
            .await
            .contains(" 201 ")
    );
    drop(poll);
    // The next may wait.
    let again = async || {
        let mut stream = door.connect().await;
        let ask = post("/v1/queues/q/lease", r#"{"wait_ms":0}"#);
        stream.write_all(ask.as_bytes()).await.unwrap();
        answer(&mut stream).await.contains(" 200 ")
    };
    punctual_testkit::patience::until("a free place", again).await;
    door.close().await;
}

#[tokio::test]
async fn bodies_that_are_too_long_together_are_refused_before_they_are_kept() {
    let options = ServerOptions {
        batch_body_max_bytes: 1_000,
        payload_max_bytes: 900,
        bodies_max_bytes: 1_000,
        ..ServerOptions::default()
    };
    let door = Door::with(options).await;
    let body = format!(r#"{{"queue":"q","payload":"{}"}}"#, "x".repeat(700));
    let whole = post("/v1/tasks", &body);
    let (most, end) = whole.split_at(whole.len() - 10);
    let mut slow = door.connect().await;
    slow.write_all(most.as_bytes()).await.unwrap();
    door.until_metric("punctual_http_bodies_bytes", 700.0).await;
    let mut other = door.connect().await;
    other.write_all(whole.as_bytes()).await.unwrap();
    let told = answer(&mut other).await;
    assert!(told.starts_with("HTTP/1.1 429") && told.contains("retry-after"), "{told}");
    slow.write_all(end.as_bytes()).await.unwrap();
    assert!(answer(&mut slow).await.contains(" 201 "));
    assert!(door.metric("punctual_http_bodies_bytes").await == 0.0);
    let mut again = door.connect().await;
    again.write_all(whole.as_bytes()).await.unwrap();
    assert!(answer(&mut again).await.contains(" 201 "));
    door.close().await;
}

#[tokio::test]
async fn a_stop_ends_idle_and_half_open_connections_at_once() {
    let mut door = Door::open(ListenerOptions::default()).await;
    let mut kept = idle(&door).await;
    let mut silent = door.connect().await;
    let mut half = door.connect().await;
    half.write_all(b"GET /livez HT").await.unwrap();
    // Those before it have been taken.
    assert_served(&door.get("/livez").await);
    door.shutdown.cancel();
    assert_eq!(rest(&mut kept).await + &rest(&mut silent).await, "");
    assert_eq!(rest(&mut half).await, "");
    door.ended().await;
}

/// However many connections they come by: as many guesses as are held back are made in each delay, and no more.
///
/// Seen to fail: with those beyond looked at and answered at once.
#[tokio::test(start_paused = true)]
async fn beyond_the_guesses_that_are_held_back_no_token_is_looked_at() {
    const TOKEN: &str = "a-token-of-this-test-only";
    const HELD_BACK: usize = 256;
    let world = World::guarded_by(TOKEN);
    let ask = |token: &str| world.send(get("/v1/tasks").header("authorization", format!("Bearer {token}")));
    for _ in 0..10 {
        ask("bad").await.expect_problem(401, "auth.required");
    }
    ask(TOKEN).await.expect(200);
    let mut held = Box::pin(join_all((0..HELD_BACK).map(|_| ask("bad"))));
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
