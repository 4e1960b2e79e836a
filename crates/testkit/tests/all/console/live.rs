//! Open pages. Time is tokio's, which is stopped while no caller waits. Seen to fail: with a stream that
//! sends unchanged data.

use super::browser::Browser;
use crate::access::site::{ADMIN, AccessSite, ask};
use axum::body::BodyDataStream;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

struct Stream {
    body: BodyDataStream,
    read: String,
}

impl Stream {
    async fn of(browser: &mut Browser<'_>, page: &str) -> Self {
        let response = browser.open("GET", &format!("/console/live?of={page}"), None).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body().into_data_stream(), read: String::new() }
    }

    /// None: the stream is over.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.read.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.read = rest;
                let field = |name: &str| {
                    event.lines().find_map(|line| line.strip_prefix(name)).map(|text| text.trim().to_owned())
                };
                let Some(name) = field("event:") else { continue };
                return Some((name, serde_json::from_str(&field("data:").unwrap()).unwrap()));
            }
            let bytes = self.body.next().await?.unwrap();
            self.read.push_str(std::str::from_utf8(&bytes).unwrap());
        }
    }

    /// The events until the next look is complete.
    async fn look(&mut self) -> Vec<(String, Value)> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            let is_over = matches!(&*event.0, "ok" | "end" | "fault");
            events.push(event);
            if is_over {
                break;
            }
        }
        events
    }
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|event| event.0.as_str()).collect()
}

/// How often the list of queues was.
async fn asked(site: &AccessSite) -> u64 {
    let metrics = site.admin(crate::access::site::get("/metrics")).await.text;
    let wanted = "punctual_http_request_seconds_count{method=\"GET\",route=\"/v1/queues\"}";
    let line = metrics.lines().find(|line| line.starts_with(wanted));
    line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_open_page_gets_what_changed_and_nothing_else() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    let mut stream = Stream::of(&mut browser, "/console/queues").await;
    let first = stream.look().await;
    assert_eq!(names(&first), ["hello", "part", "ok"]);
    assert!(first[1].1["html"].as_str().unwrap().contains("There are no queues yet."));
    assert_eq!(names(&stream.look().await), ["ok"], "nothing has changed");
    site.insert("default", json!({"queue": "mail", "delay_ms": 60_000})).await;
    let changed = stream.look().await;
    assert_eq!(names(&changed), ["part", "ok"]);
    assert_eq!(changed[0].1["id"], "queues");
    assert!(changed[0].1["html"].as_str().unwrap().contains("/console/queues/mail"));
}

#[tokio::test(start_paused = true)]
async fn an_open_page_is_told_when_its_session_is_over() {
    let site = AccessSite::sqlite().await;
    let (id, token) = site.token("viewer", &["*"], &["*"]).await;
    let mut browser = Browser::signed_in(&site, &token).await;
    let mut stream = Stream::of(&mut browser, "/console/queues").await;
    assert_eq!(names(&stream.look().await), ["hello", "part", "ok"]);
    site.admin(ask("DELETE", format!("/v1/tokens/{id}"))).await.expect(200);
    let end = stream.look().await;
    assert_eq!((names(&end), &end[0].1["why"]), (vec!["end"], &json!("signed_out")));
    assert!(stream.next().await.is_none(), "and the stream ends");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_a_while_so_that_its_page_comes_again() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    let mut stream = Stream::of(&mut browser, "/console/queues").await;
    let mut looks = 0;
    let last = loop {
        looks += 1;
        assert!(looks < 1_000, "it never ends");
        let Some(event) = stream.next().await else { panic!("it ends without a word") };
        if event.0 == "end" {
            break event.1;
        }
    };
    assert_eq!(last["why"], "again");
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn nobody_gets_a_stream_of_what_is_no_page_or_without_a_session() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    for of in ["", "/v1/tasks", "/console/nowhere"] {
        browser.get(&format!("/console/live?of={of}")).await.expect(404);
    }
    let mut nobody = Browser::at(&site);
    let mut stream = Stream::of(&mut nobody, "/console/queues").await;
    let events = stream.look().await;
    assert_eq!((names(&events), &events[1].1["why"]), (vec!["hello", "end"], &json!("signed_out")));
    let mut still = Stream::of(&mut browser, "/console/schedules/new").await;
    let events = still.look().await;
    assert_eq!((names(&events), &events[1].1["why"]), (vec!["hello", "end"], &json!("still")));
    assert!(still.next().await.is_none(), "a page without live parts holds no place");
}

#[tokio::test(start_paused = true)]
async fn one_token_does_not_take_the_places_of_all_and_nobody_takes_one() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    let mut open = Vec::new();
    for _ in 0..50 {
        open.push(Stream::of(&mut browser, "/console/queues").await);
    }
    let mut one_more = Stream::of(&mut browser, "/console/queues").await;
    assert_eq!(names(&[one_more.next().await.unwrap()]), ["hello"]);
    let full = one_more.next().await.unwrap();
    assert_eq!((&*full.0, &full.1["of"], &full.1["again_ms"]), ("full", &json!("token"), &json!(60_000)));
    assert!(one_more.next().await.is_none());
    let (_, token) = site.token("viewer", &["*"], &["*"]).await;
    let mut other = Browser::signed_in(&site, &token).await;
    assert_eq!(names(&Stream::of(&mut other, "/console/queues").await.look().await), ["hello", "part", "ok"]);
    drop(open.pop());
    assert_eq!(
        names(&Stream::of(&mut browser, "/console/queues").await.look().await),
        ["hello", "part", "ok"]
    );
    let mut nobodies = Vec::new();
    for _ in 0..1_100 {
        nobodies.push(Stream::of(&mut Browser::at(&site), "/console/queues").await);
    }
    assert_eq!(nobodies.len(), 1_100, "they are told that they are nobody, and hold no place");
    assert_eq!(names(&Stream::of(&mut other, "/console/queues").await.look().await), ["hello", "part", "ok"]);
}

#[tokio::test(start_paused = true)]
async fn two_logins_with_one_token_share_and_each_session_ends_by_itself() {
    let site = AccessSite::sqlite().await;
    let mut first = Browser::signed_in(&site, ADMIN).await;
    site.clock.advance_ms(60_000);
    let mut second = Browser::signed_in(&site, ADMIN).await;
    assert_ne!(first.cookies, second.cookies);
    let mut streams =
        [Stream::of(&mut first, "/console/queues").await, Stream::of(&mut second, "/console/queues").await];
    let before = asked(&site).await;
    for stream in &mut streams {
        assert_eq!(names(&stream.look().await), ["hello", "part", "ok"]);
    }
    assert_eq!(asked(&site).await - before, 1, "the API was asked once for both");
    site.clock.advance_ms(12 * 3_600_000 - 60_000);
    let end = streams[0].look().await;
    assert_eq!((names(&end), &end[0].1["why"]), (vec!["end"], &json!("again")));
    assert!(names(&streams[1].look().await).ends_with(&["ok"]), "the other's goes on");
    let again = Stream::of(&mut first, "/console/queues").await.look().await;
    assert_eq!((names(&again), &again[1].1["why"]), (vec!["hello", "end"], &json!("signed_out")));
}

#[tokio::test(start_paused = true)]
async fn viewers_of_one_page_with_one_token_share_what_is_rendered() {
    let site = AccessSite::sqlite().await;
    let mut browser = Browser::signed_in(&site, ADMIN).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(Stream::of(&mut browser, "/console/queues").await);
    }
    let before = asked(&site).await;
    for stream in &mut streams {
        assert_eq!(names(&stream.look().await), ["hello", "part", "ok"]);
    }
    assert_eq!(asked(&site).await - before, 1, "the API was asked once for twenty");
}
