//! Answers to those who get no place, or who speak plain HTTP to a port that speaks TLS. Written without reading the
//! request; few at a time, and never for long.

use axum::{body::to_bytes, response::IntoResponse as _};
use punctual_protocol::Code;
use std::{fmt::Write as _, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::refusal::Refusal;

/// From the answer to the end of the connection.
const PATIENCE: Duration = Duration::from_secs(1);
/// What a caller may still send meanwhile: one that is cut off while it sends never sees the answer.
const HEARD_MAX: usize = 64 << 10;
const ANSWER_MAX: usize = 8 << 10;

pub(super) async fn answer(stream: TcpStream, code: Code, detail: &str) {
    let text = render(code, detail).await;
    let _ = timeout(PATIENCE, say(stream, &text)).await;
}

async fn render(code: Code, detail: &str) -> String {
    let (head, body) = Refusal::new(code, detail).into_response().into_parts();
    let body = to_bytes(body, ANSWER_MAX).await.unwrap_or_default();
    let mut text = format!("HTTP/1.1 {}\r\n", head.status);
    for (name, value) in &head.headers {
        let _ = write!(text, "{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    let _ = write!(text, "content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    text.push_str(&String::from_utf8_lossy(&body));
    text
}

/// Ends it so that the peer sees what was written last: with bytes of the peer's unread, it would be reset.
pub(super) async fn end(stream: TcpStream) {
    let _ = timeout(PATIENCE, say(stream, "")).await;
}

async fn say(mut stream: TcpStream, text: &str) {
    if stream.write_all(text.as_bytes()).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    let (mut heard, mut into) = (0, [0; 1_024]);
    while heard < HEARD_MAX {
        match stream.read(&mut into).await {
            Ok(0) | Err(_) => return,
            Ok(bytes) => heard += bytes,
        }
    }
}
