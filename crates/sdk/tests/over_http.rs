//! The same over real connections: what the sockets do must become the right kind of error.

#[cfg(test)]
mod fake;

use std::time::Duration;

use fake::Fake;
use punctual_sdk::{Client, Error, InsertTask, Worker};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

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
        let outcome = fake.outcome("a").await;
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
