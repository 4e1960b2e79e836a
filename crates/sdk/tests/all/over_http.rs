//! The same over real connections, and so with the real clock: socket failures must become the right kind of
//! error.

use std::time::Duration;

use crate::fake::Fake;
use punctual_sdk::{Client, Error, InsertTask, Job, NewTask, Worker};
use punctual_test_servers::patience::HANG_LIMIT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

fn client(address: std::net::SocketAddr) -> Client {
    Client::builder().url(format!("http://{address}")).tries(1).build().expect("the address is fine")
}

async fn listen() -> (TcpListener, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    (listener, address)
}

#[tokio::test]
async fn a_task_goes_from_a_client_through_a_server_to_a_worker() {
    let fake = Fake::new();
    let (listener, address) = listen().await;
    let mut server = JoinSet::new();
    let router = fake.router();
    server.spawn(async move { axum::serve(listener, router).await });
    assert_eq!(client(address).insert(&InsertTask::new("q")).await.unwrap().r#ref, "t1");
    let worker = Worker::new(client(address)).queue("q").handle_any(|_| async { Ok("done") });
    let shutdown = worker.shutdown();
    fake.put("a", "k");
    let (worked, outcome) = tokio::join!(worker.run(), async {
        let outcome = timeout(HANG_LIMIT, fake.outcome("a")).await.expect("an outcome before the hang limit");
        shutdown.cancel();
        outcome
    });
    assert_eq!(outcome.result.unwrap().get(), "\"done\"");
    assert_eq!(worked.unwrap().unreported, 0);
}

#[tokio::test]
async fn nobody_listening_means_that_it_did_not_happen() {
    let (listener, address) = listen().await;
    drop(listener);
    let error = client(address).insert(&InsertTask::new("q")).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_connection_that_ends_before_the_answer_means_that_it_may_have_happened() {
    let (listener, address) = listen().await;
    let hang_up = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut some = [0; 64];
        assert!(socket.read(&mut some).await.unwrap() > 0);
    };
    let client = client(address);
    let task = InsertTask::new("q");
    let (result, ()) = tokio::join!(client.insert(&task), hang_up);
    assert!(result.unwrap_err().may_have_happened());
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_means_that_it_may_have_happened() {
    let (listener, address) = listen().await;
    let builder = Client::builder().url(format!("http://{address}")).tries(1);
    let client = builder.request_timeout(Duration::from_millis(100)).build().unwrap();
    let error = client.insert(&InsertTask::new("q")).await.unwrap_err();
    assert!(error.may_have_happened(), "{error:?}");
    drop(listener);
}

#[tokio::test]
async fn an_answer_that_is_cut_off_means_that_it_may_have_happened() {
    let (listener, address) = listen().await;
    let cut = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut some = [0; 64];
        assert!(socket.read(&mut some).await.unwrap() > 0);
        socket.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"ref\"").await.unwrap();
    };
    let client = client(address);
    let task = InsertTask::new("q");
    let (result, ()) = tokio::join!(client.insert(&task), cut);
    assert!(result.unwrap_err().may_have_happened());
}

async fn serve(
    fake: &std::sync::Arc<Fake>,
    server: &mut JoinSet<std::io::Result<()>>,
) -> std::net::SocketAddr {
    let (listener, address) = listen().await;
    let router = fake.router();
    server.spawn(async move { axum::serve(listener, router).await });
    address
}

fn client_of(addresses: &[std::net::SocketAddr], tries: u32) -> Client {
    let urls: Vec<_> = addresses.iter().map(|address| format!("http://{address}")).collect();
    Client::builder().url(urls.join(",")).tries(tries).build().expect("the addresses are fine")
}

#[tokio::test]
async fn of_several_servers_one_that_is_away_is_passed_over_within_the_call() {
    let (fake, mut server) = (Fake::new(), JoinSet::new());
    let (listener, away) = listen().await;
    drop(listener);
    let there = serve(&fake, &mut server).await;
    for addresses in [[away, there], [there, away]] {
        let client = client_of(&addresses, 1);
        client.insert(&InsertTask::new("q")).await.unwrap();
        client.insert(&InsertTask::new("q")).await.unwrap();
    }
    assert_eq!(fake.kept().inserted.len(), 4);
    let nobody = client_of(&[away, away], 1).insert(&InsertTask::new("q")).await.unwrap_err();
    assert!(matches!(nobody, Error::Unreachable { .. }), "{nobody:?}");
}

#[tokio::test]
async fn of_several_servers_one_that_hangs_up_is_not_asked_again_and_the_call_keeps_its_key() {
    let (fake, mut server) = (Fake::new(), JoinSet::new());
    let (listener, rude) = listen().await;
    let there = serve(&fake, &mut server).await;
    let hang_up = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut some = vec![0; 2048];
        let length = socket.read(&mut some).await.unwrap();
        let text = String::from_utf8_lossy(&some[..length]).to_lowercase();
        text.lines().find_map(|line| line.strip_prefix("idempotency-key: ").map(str::to_owned))
    };
    let client = client_of(&[rude, there], 2);
    let task = InsertTask::new("q");
    let (inserted, first_key) = tokio::join!(client.insert(&task), hang_up);
    assert_eq!(inserted.unwrap().reference(), "t1");
    let calls = fake.kept().calls.clone();
    assert_eq!(calls.len(), 1);
    assert!(first_key.is_some());
    assert_eq!(
        calls[0].1.get("idempotency-key").and_then(|idempotency_key| idempotency_key.to_str().ok()),
        first_key.as_deref()
    );
    // A server that hung up once is not asked first the next time: it would not answer.
    client.get("t1").await.unwrap();
}

#[tokio::test]
async fn of_several_servers_one_that_stops_sends_its_callers_on() {
    let (stopping, fake, mut server) = (Fake::new(), Fake::new(), JoinSet::new());
    stopping.change(|kept| {
        let problem = punctual_sdk::protocol::Problem::new(punctual_sdk::protocol::Code::Stopping, "");
        kept.refuse = vec![problem.clone(), problem].into();
    });
    let addresses = [serve(&stopping, &mut server).await, serve(&fake, &mut server).await];
    let inserted = client_of(&addresses, 2).insert(&InsertTask::new("q")).await;
    assert_eq!((inserted.is_ok(), fake.kept().inserted.len()), (true, 1));
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Welcome {
    name: String,
}

impl Job for Welcome {
    const QUEUE: &'static str = "mail";
    const KIND: &'static str = "welcome";

    fn prepare(&self, task: NewTask) -> NewTask {
        task.key(format!("welcome-{}", self.name))
    }
}

#[tokio::test]
async fn a_typed_job_is_inserted_and_run_as_its_type_and_what_does_not_fit_is_rejected() {
    let fake = Fake::new();
    let ada = Welcome { name: "ada".into() }.task().unwrap().delay(Duration::from_millis(5));
    fake.client().insert(&ada).await.unwrap();
    let sent = fake.kept().inserted[0].clone();
    assert_eq!((sent.queue.as_str(), sent.kind.as_deref()), ("mail", Some("welcome")));
    assert_eq!((sent.key.as_deref(), sent.delay_ms), (Some("welcome-ada"), Some(5)));
    let worker = Worker::new(fake.client()).job(|welcome: Welcome, task: punctual_sdk::Task| async move {
        Ok(format!("hello, {}, at attempt {}", welcome.name, task.attempt()))
    });
    let shutdown = worker.shutdown();
    let task = |reference: &str, payload: &str| punctual_sdk::protocol::LeasedTask {
        r#ref: reference.into(),
        token: "k".into(),
        kind: "welcome".into(),
        attempt: 1,
        payload: Some(punctual_sdk::protocol::Json::from_text(payload.into()).unwrap()),
        ..Default::default()
    };
    fake.put_task("mail", task("a", r#"{"name":"ada"}"#));
    fake.put_task("mail", task("b", "7"));
    let (_, (a, b)) = tokio::join!(worker.run(), async {
        let both = async { (fake.outcome("a").await, fake.outcome("b").await) };
        let ends = timeout(HANG_LIMIT, both).await.expect("outcomes before the hang limit");
        shutdown.cancel();
        ends
    });
    assert_eq!(a.result.unwrap().get(), "\"hello, ada, at attempt 1\"");
    assert_eq!(b.outcome, punctual_sdk::protocol::OutcomeKind::Reject);
}
