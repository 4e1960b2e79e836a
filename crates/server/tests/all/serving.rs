//! Over a socket: small answers are not held back, a stop ends long polls and is graceful.

use crate::world::World;
use punctual_server::{ServerOptions, serve};
use serde_json::json;
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_util::sync::CancellationToken;

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn send(address: SocketAddr, method: &str, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    stream
}

async fn answer(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_stop_ends_long_polls_with_an_empty_answer() {
    let world = World::new();
    let (listener, address) = listener().await;
    let shutdown = CancellationToken::new();
    let serving = serve(listener, world.engine.clone(), ServerOptions::default(), shutdown.clone());
    let client = async {
        let poll = send(address, "POST", "/v1/queues/q/lease", r#"{"wait_ms":60000}"#).await;
        // Another request has been answered: the poll, sent before it, is being worked on.
        let live = answer(send(address, "GET", "/livez", "").await).await;
        assert!(live.starts_with("HTTP/1.1 200"), "{live}");
        shutdown.cancel();
        let text = answer(poll).await;
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with(r#"{"tasks":[]}"#), "{text}");
    };
    let (served, ()) = tokio::join!(serving, client);
    served.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "it listens no more");
}

#[tokio::test]
async fn a_client_that_hangs_up_in_a_long_poll_takes_no_task_with_it() {
    let world = World::new();
    world.insert(json!({"queue": "q", "delay_ms": 500})).await;
    let (listener, address) = listener().await;
    let shutdown = CancellationToken::new();
    let serving = serve(listener, world.engine.clone(), ServerOptions::default(), shutdown.clone());
    let client = async {
        let poll = send(address, "POST", "/v1/queues/q/lease", r#"{"wait_ms":60000}"#).await;
        answer(send(address, "GET", "/livez", "").await).await;
        drop(poll);
        answer(send(address, "GET", "/livez", "").await).await;
        world.advance(500).await;
        world.advance(1).await;
        let text = answer(send(address, "POST", "/v1/queues/q/lease", r#"{"wait_ms":10000}"#).await).await;
        assert!(text.contains("\"attempt\":1"), "{text}");
        shutdown.cancel();
    };
    let (served, ()) = tokio::join!(serving, client);
    served.unwrap();
}

#[tokio::test]
async fn a_body_that_does_not_arrive_in_time_is_refused() {
    let world = World::new();
    let (listener, address) = listener().await;
    let shutdown = CancellationToken::new();
    let options =
        ServerOptions { body_timeout: std::time::Duration::from_millis(20), ..ServerOptions::default() };
    let serving = serve(listener, world.engine.clone(), options, shutdown.clone());
    let client = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head =
            "POST /v1/tasks HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 10\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        let text = answer(stream).await;
        assert!(text.starts_with("HTTP/1.1 408") && text.contains("request.timeout"), "{text}");
        shutdown.cancel();
    };
    let (served, ()) = tokio::join!(serving, client);
    served.unwrap();
}
