//! A receiver on this machine that answers as a test says, also in ways that no good server does.

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// A request as it was received.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) path: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// These bytes, and then the end of the connection.
    Bytes(Vec<u8>),
    /// A head that promises more, and then a body without an end.
    Endless(String),
    /// No answer while the connection lasts.
    Silence,
}

impl Reply {
    pub(crate) fn status(status: u16, headers: &str, body: &str) -> Self {
        let length = body.len();
        Self::Bytes(
            format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}").into_bytes(),
        )
    }
}

type Replies = Arc<dyn Fn(&Got) -> Reply + Send + Sync>;

#[derive(Debug)]
pub(crate) struct Receiver {
    pub(crate) port: u16,
    got: Arc<Mutex<Vec<Got>>>,
    _serving: JoinSet<()>,
}

impl Receiver {
    pub(crate) async fn answering(reply: impl Fn(&Got) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (got, reply): (Arc<Mutex<Vec<Got>>>, Replies) = (Arc::default(), Arc::new(reply));
        let (seen, mut serving) = (Arc::clone(&got), JoinSet::new());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&seen), Arc::clone(&reply)));
            }
        });
        Self { port, got, _serving: serving }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().clone()
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<Got>>>, reply: Replies) {
    let Some(got) = read(&mut stream).await else { return };
    let reply = reply(&got);
    seen.lock().push(got);
    match reply {
        Reply::Bytes(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
        Reply::Endless(head) => {
            let _ = stream.write_all(head.as_bytes()).await;
            // Chunks of the transfer encoding, 64 KiB each.
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(65_536));
            while stream.write_all(chunk.as_bytes()).await.is_ok() {}
        }
        Reply::Silence => {
            let mut rest = Vec::new();
            let _ = stream.read_to_end(&mut rest).await;
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<Got> {
    let mut bytes = Vec::new();
    let head_len = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_len].to_vec()).ok()?;
    let mut lines = head.lines();
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let pair =
        |line: &str| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    let headers: HashMap<String, String> = lines.filter_map(pair).collect();
    let length: usize = headers.get("content-length")?.parse().ok()?;
    while bytes.len() < head_len + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    Some(Got { path, headers, body: bytes[head_len + 4..].to_vec() })
}
