//! A server that listens, and callers that do not behave.

use crate::world::World;
use punctual_server::{ListenerOptions, ServerOptions, serve};
use punctual_testkit::patience::{HANG_LIMIT, until};
use std::{io, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(crate) struct TestListener {
    pub(crate) address: SocketAddr,
    pub(crate) shutdown: CancellationToken,
    serving: JoinSet<io::Result<()>>,
}

impl TestListener {
    pub(crate) async fn open(listener: ListenerOptions) -> Self {
        Self::with(ServerOptions { listener, ..ServerOptions::default() }).await
    }

    pub(crate) async fn with(options: ServerOptions) -> Self {
        Self::to(&World::new(), options).await
    }

    pub(crate) async fn to(world: &World, options: ServerOptions) -> Self {
        let shutdown = CancellationToken::new();
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let mut serving = JoinSet::new();
        serving.spawn(serve(socket, world.engine.clone(), options, shutdown.clone()));
        Self { address, shutdown, serving }
    }

    /// Until all is answered.
    pub(crate) async fn ended(&mut self) {
        self.serving.join_next().await.unwrap().unwrap().unwrap();
    }

    pub(crate) async fn close(mut self) {
        self.shutdown.cancel();
        self.ended().await;
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A request on a connection of its own, and its answer.
    pub(crate) async fn ask(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        rest(&mut stream).await
    }

    pub(crate) async fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")).await
    }

    /// The value of a line of `/metrics` that begins so.
    pub(crate) async fn metric(&self, series: &str) -> f64 {
        value(&self.get("/metrics").await, series)
    }

    pub(crate) async fn until_metric(&self, series: &str, at_least: f64) {
        until(series, async || self.metric(series).await >= at_least).await;
    }

    /// A call that waits for a task, and is being worked on.
    pub(crate) async fn long_poll(&self) -> TcpStream {
        let waiting = self.metric(LONG_POLLS).await;
        let stream = self.send_long_poll().await;
        self.until_metric(LONG_POLLS, waiting + 1.0).await;
        stream
    }

    pub(crate) async fn send_long_poll(&self) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(post("/v1/queues/q/lease", r#"{"wait_ms":60000}"#).as_bytes()).await.unwrap();
        stream
    }
}

pub(crate) const LONG_POLLS: &str = "punctual_http_long_polls";

pub(crate) fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {metrics}")).parse().unwrap()
}

pub(crate) fn post(path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// All that comes until the other side ends it, in whatever way.
pub(crate) async fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One answer on a connection that stays; its body has a known length.
pub(crate) async fn answer(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text;
            }
        }
        let mut piece = [0; 4_096];
        let read = stream.read(&mut piece).await.unwrap();
        assert!(read > 0, "it ended after {text}");
        bytes.extend_from_slice(&piece[..read]);
    }
}

/// On one thread: no connection is accepted while this one makes them. Without the longer line of the port the system has
/// room for about 130, and the next one would be connected only when one of those has been taken: never, here.
#[tokio::test]
async fn hundreds_who_come_at_one_instant_all_have_room_in_the_line() {
    const COMERS: usize = 300;
    let server = TestListener::open(ListenerOptions::default()).await;
    assert!(server.get("/livez").await.starts_with("HTTP/1.1 200"), "it listens");
    let comers: io::Result<Vec<_>> =
        (0..COMERS).map(|_| std::net::TcpStream::connect_timeout(&server.address, HANG_LIMIT)).collect();
    assert_eq!(comers.map(|comers| comers.len()).ok(), Some(COMERS));
    server.close().await;
}
