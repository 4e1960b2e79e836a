//! What becomes of deliveries, by the behaviour of their receivers.

use crate::{
    hmac::hmac_sha256,
    receiver::{Got, Receiver, Reply},
    source::Tasks,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use punctual_domain::settings::{Secret, Webhook};
use punctual_protocol::{Outcome, OutcomeKind};
use punctual_webhook::{DeliveryResult, Dispatcher};
use std::sync::Arc;

const SECRETS: [&str; 2] =
    ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="];

fn start() -> (Arc<Tasks>, Dispatcher) {
    let tasks: Arc<Tasks> = Arc::default();
    (Arc::clone(&tasks), Dispatcher::new(tasks))
}

fn to(url: String) -> Webhook {
    Webhook { url, allow_private: true, timeout_ms: Some(60_000), ..Webhook::default() }
}

/// The outcome of one task at a receiver.
async fn outcome_of(webhook: Webhook) -> Outcome {
    let (tasks, dispatcher) = start();
    tasks.set("q", webhook);
    tasks.add("q", &["t1"]);
    tasks.until("the task has an outcome", &dispatcher, |tasks| tasks.outcome("t1").is_some()).await;
    dispatcher.stop().await;
    tasks.outcome("t1").unwrap()
}

fn said(outcome: &Outcome) -> &str {
    outcome.status_msg.as_deref().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_delivery_is_signed_with_each_secret() {
    let receiver = Receiver::answering(|_| Reply::status(200, "", "{\"done\": 1.50}")).await;
    let secret = SECRETS.map(|secret| format!("whsec_{secret}")).join(" ");
    let webhook = Webhook { secret: Some(Secret::new(secret)), ..to(receiver.url("/hook?a=1")) };
    let outcome = outcome_of(webhook).await;
    assert_eq!((outcome.outcome, outcome.status_code), (OutcomeKind::Succeeded, Some(200)));
    assert_eq!(outcome.result.unwrap().get(), "{\"done\": 1.50}");
    let Got { path, headers, body } = receiver.got().remove(0);
    assert_eq!((path.as_str(), headers["webhook-id"].as_str()), ("/hook?a=1", "t1.1"));
    let signed = format!("t1.1.{}.{}", headers["webhook-timestamp"], String::from_utf8(body).unwrap());
    let signatures: Vec<String> = SECRETS
        .iter()
        .map(|secret| {
            let mac = hmac_sha256(&STANDARD.decode(secret).unwrap(), signed.as_bytes());
            format!("v1,{}", STANDARD.encode(mac))
        })
        .collect();
    assert_eq!(headers["webhook-signature"], signatures.join(" "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_the_receiver_keeps_has_no_outcome_and_a_longer_lease() {
    let receiver = Receiver::answering(|_| Reply::status(202, "", "")).await;
    let (tasks, dispatcher) = start();
    tasks.set("q", to(receiver.url("/")));
    tasks.add("q", &["t1"]);
    tasks.until("the lease is extended", &dispatcher, |tasks| !tasks.extended.lock().is_empty()).await;
    dispatcher.stop().await;
    assert_eq!(tasks.extended.lock()[0].lease_ms, 600_000);
    assert!(tasks.outcomes.lock().is_empty());
    assert_eq!((dispatcher.numbers().of(DeliveryResult::Accepted), dispatcher.numbers().in_flight), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gone_receiver_pauses_the_queue_and_costs_no_attempt() {
    let receiver = Receiver::answering(|_| Reply::status(410, "", "moved")).await;
    let (tasks, dispatcher) = start();
    tasks.set("q", to(receiver.url("/")));
    tasks.add("q", &["t1"]);
    tasks.until("the outcome", &dispatcher, |tasks| tasks.outcome("t1").is_some()).await;
    dispatcher.stop().await;
    assert_eq!(tasks.outcome("t1").unwrap().outcome, OutcomeKind::Snooze);
    let (queue, reason) = tasks.paused.lock()[0].clone();
    assert!(queue == "q" && reason.contains("HTTP 410: moved"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_final_and_overload_is_retried_when_the_receiver_says() {
    for (status, headers, kind, retry_after_ms) in [
        (503, "retry-after: 7\r\n", OutcomeKind::Failed, Some(7_000)),
        (409, "", OutcomeKind::Failed, None),
        (400, "retry-after: 7\r\n", OutcomeKind::Reject, None),
    ] {
        let receiver = Receiver::answering(move |_| Reply::status(status, headers, "why")).await;
        let outcome = outcome_of(to(receiver.url("/"))).await;
        assert_eq!((outcome.outcome, outcome.retry_after_ms), (kind, retry_after_ms), "{status}");
        assert_eq!(said(&outcome), format!("HTTP {status}: why"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_hostile_receivers_have_bounds() {
    // Bytes: the reply, and what the outcome is.
    let cases: [(&str, Reply, OutcomeKind, &str); 7] = [
        ("silent", Reply::Silence, OutcomeKind::Failed, "no answer in time"),
        ("closes at once", Reply::Bytes(Vec::new()), OutcomeKind::Failed, "the request failed"),
        ("no HTTP", Reply::Bytes(b"SSH-2.0-x\r\n\r\n".to_vec()), OutcomeKind::Failed, "the request failed"),
        (
            "closes midway",
            Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{\"a\":".to_vec()),
            OutcomeKind::Failed,
            "the answer broke off",
        ),
        (
            "two lengths",
            Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 9\r\n\r\n{}".to_vec()),
            OutcomeKind::Failed,
            "the request failed",
        ),
        (
            "endless",
            Reply::Endless("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned()),
            OutcomeKind::Succeeded,
            "longer than 1 MiB",
        ),
        (
            "endless error",
            Reply::Endless("HTTP/1.1 500 X\r\ntransfer-encoding: chunked\r\n\r\n".to_owned()),
            OutcomeKind::Failed,
            "HTTP 500: xxxx",
        ),
    ];
    for (name, reply, kind, text) in cases {
        let is_silent = matches!(reply, Reply::Silence);
        let receiver = Receiver::answering(move |_| reply.clone()).await;
        let timeout_ms = if is_silent { 300 } else { 60_000 };
        let outcome = outcome_of(Webhook { timeout_ms: Some(timeout_ms), ..to(receiver.url("/")) }).await;
        assert_eq!(outcome.outcome, kind, "{name}: {outcome:?}");
        assert!(said(&outcome).contains(text), "{name}: {outcome:?}");
        assert!(said(&outcome).len() < 2_000, "{name}");
        assert!(outcome.result.is_none(), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_redirect_and_no_name_leads_to_this_machine() {
    let inside = Receiver::answering(|_| Reply::status(200, "", "{}")).await;
    let location = format!("location: {}\r\n", inside.url("/secret"));
    let redirecting = Receiver::answering(move |_| Reply::status(307, &location, "")).await;
    let outcome = outcome_of(to(redirecting.url("/"))).await;
    assert_eq!((outcome.outcome, outcome.status_code), (OutcomeKind::Failed, Some(307)));
    assert!(said(&outcome).contains("redirects are not followed"));
    for url in [
        format!("http://localhost:{}/", inside.port),
        format!("http://127.0.0.1:{}/", inside.port),
        format!("http://2130706433:{}/", inside.port),
        format!("http://[::ffff:127.0.0.1]:{}/", inside.port),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
    ] {
        let outcome = outcome_of(Webhook { allow_private: false, ..to(url.clone()) }).await;
        assert_eq!(outcome.outcome, OutcomeKind::Failed, "{url}: {outcome:?}");
        assert!(outcome.status_code.is_none(), "{url}");
    }
    assert_eq!(inside.got().len(), 0, "no request came inside");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_host_holds_back_one_queue_alone() {
    let good = Receiver::answering(|_| Reply::status(200, "", "")).await;
    // The port of a listener that is closed.
    let dead = Receiver::answering(|_| Reply::Silence).await.url("/");
    let (tasks, dispatcher) = start();
    tasks.set("dead", Webhook { concurrency: Some(1), ..to(dead) });
    tasks.set("good", to(good.url("/")));
    let refs: Vec<String> = (0..50).map(|nth| format!("d{nth}")).collect();
    tasks.add("dead", &refs.iter().map(String::as_str).collect::<Vec<_>>());
    tasks.until("the dead host is left alone", &dispatcher, |tasks| !tasks.held_back.lock().is_empty()).await;
    let refs: Vec<String> = (0..50).map(|nth| format!("g{nth}")).collect();
    tasks.add("good", &refs.iter().map(String::as_str).collect::<Vec<_>>());
    tasks.until("the good host gets its tasks", &dispatcher, |tasks| tasks.outcome("g49").is_some()).await;
    assert!(tasks.waiting("dead") > 0, "what waits keeps its attempts");
    let (queue, why) = tasks.held_back.lock()[0].clone();
    assert!(queue.queue.as_str() == "dead" && why.contains("no connection"), "{why}");
    assert_eq!(tasks.asked.lock()["good"], 16);
    dispatcher.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_is_reported_until_the_store_has_it() {
    let receiver = Receiver::answering(|_| Reply::status(200, "", "")).await;
    let (tasks, dispatcher) = start();
    *tasks.failing_records.lock() = 2;
    tasks.set("q", to(receiver.url("/")));
    tasks.add("q", &["t1"]);
    tasks.until("the outcome is recorded", &dispatcher, |tasks| tasks.outcome("t1").is_some()).await;
    dispatcher.stop().await;
    assert_eq!(receiver.got().len(), 1, "the request is not repeated");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_followed_and_a_stop_postpones_what_has_no_answer() {
    let receiver = Receiver::answering(|got| match got.path.as_str() {
        "/silent" => Reply::Silence,
        _ => Reply::status(200, "", ""),
    })
    .await;
    let (tasks, dispatcher) = start();
    tasks.set("q", to(receiver.url("/first")));
    tasks.add("q", &["t1"]);
    tasks.until("the first", &dispatcher, |tasks| tasks.outcome("t1").is_some()).await;
    tasks.set("q", to(receiver.url("/silent")));
    dispatcher.run_once();
    tasks.add("q", &["t2"]);
    tasks.until("the second is sent", &dispatcher, |_| receiver.got().len() == 2).await;
    dispatcher.stop().await;
    assert_eq!(receiver.got()[1].path, "/silent");
    let postponed = tasks.outcome("t2").unwrap();
    assert_eq!((postponed.outcome, postponed.retry_after_ms), (OutcomeKind::Snooze, Some(0)));
    assert_eq!(dispatcher.numbers().in_flight, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_no_webhook_queue_any_more_gets_nothing() {
    let receiver = Receiver::answering(|_| Reply::status(200, "", "")).await;
    let (tasks, dispatcher) = start();
    tasks.set("q", to(receiver.url("/")));
    tasks.add("q", &["t1"]);
    tasks.until("the first", &dispatcher, |tasks| tasks.outcome("t1").is_some()).await;
    tasks.queues.lock().clear();
    dispatcher.run_once();
    // Deliveries of all queues have ended, although nothing is stopped.
    dispatcher.stop().await;
    tasks.add("q", &["t2"]);
    assert_eq!((dispatcher.run_once(), tasks.waiting("q")), (0, 1));
}
