//! Answers to those who get no place, who speak plain HTTP to a port that speaks TLS, or whose request is none. Written
//! without reading the request; few at a time, and never for long.

use axum::{body::to_bytes, response::IntoResponse as _};
use futures_util::FutureExt as _;
use punctual_protocol::Code;
use std::{fmt::Write as _, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{observe, refusal::Refusal};

/// The time limit from the answer to the end of the connection.
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of bytes that a caller may still send meanwhile: a caller whose connection is closed while it sends
/// never receives the answer.
pub(super) const DISCARD_MAX: usize = 64 << 10;
const ANSWER_MAX: usize = 8 << 10;
/// Longest answer of the HTTP library's own.
const LIBRARYS_MAX: usize = 200;
const STATUS_LINE: &[u8] = b"HTTP/1.1 4";

pub(super) async fn answer(stream: TcpStream, code: Code, detail: &str) {
    let text = render(code, detail);
    let _ = timeout(PATIENCE, say(stream, &text)).await;
}

fn render(code: Code, detail: &str) -> String {
    let (mut head, body) = Refusal::new(code, detail).into_response().into_parts();
    observe::protect_no_page(&mut head.headers);
    // It is there as a whole.
    let body = to_bytes(body, ANSWER_MAX).now_or_never().and_then(Result::ok).unwrap_or_default();
    let mut text = format!("HTTP/1.1 {}\r\n", head.status);
    for (name, value) in &head.headers {
        let _ = write!(text, "{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    let _ = write!(text, "content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    text.push_str(&String::from_utf8_lossy(&body));
    text
}

/// The position, in the bytes to send, where the HTTP library refuses what it could not read, and the reason. It
/// sends a status and nothing else, and closes the connection.
pub(super) fn by_library(bytes: &[u8]) -> Option<(usize, Code)> {
    let (before, last) = bytes.split_at(bytes.len().saturating_sub(LIBRARYS_MAX));
    let at = last.windows(STATUS_LINE.len()).rposition(|pair| pair == STATUS_LINE)?;
    let text = std::str::from_utf8(last.get(at..)?).ok()?;
    let code = match text.get(STATUS_LINE.len()..)?.get(..2)? {
        "00" => Code::RequestMalformedHttp,
        "14" | "31" => Code::RequestHeadTooLarge,
        _ => return None,
    };
    let mut lines = text.strip_suffix("\r\n\r\n")?.split("\r\n").skip(1);
    let mut has_no_body = false;
    let are_its_own = lines.all(|line| {
        has_no_body |= line == "content-length: 0";
        ["content-length: 0", "connection: ", "date: "].iter().any(|name| line.starts_with(name))
    });
    (are_its_own && has_no_body).then_some((before.len() + at, code))
}

/// The answer that replaces the library's. `fault` is the reason why the request could not be read, if it is known.
pub(super) fn instead_of_library(code: Code, fault: Option<&str>) -> Vec<u8> {
    let detail = match (code, fault) {
        (Code::RequestHeadTooLarge, _) => {
            "the head of the request has more than 64 KiB or more than 100 headers"
        }
        (_, Some(fault)) => fault,
        (_, None) => {
            "what came cannot be read as a request of HTTP/1.1: its first line or a header is not well-formed"
        }
    };
    render(code, detail).into_bytes()
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
    while heard < DISCARD_MAX {
        match stream.read(&mut into).await {
            Ok(0) | Err(_) => return,
            Ok(bytes) => heard += bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_library_are_told_from_answers() {
        let bad = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: Mon\r\n\r\n";
        assert_eq!(by_library(bad.as_bytes()), Some((0, Code::RequestMalformedHttp)));
        let long = bad.replace("400 Bad Request", "431 Request Header Fields Too Large");
        assert_eq!(by_library(long.as_bytes()), Some((0, Code::RequestHeadTooLarge)));
        let far = bad.replace("400 Bad Request", "414 URI Too Long");
        assert_eq!(by_library(far.as_bytes()), Some((0, Code::RequestHeadTooLarge)));
        let behind = format!("{}{bad}", "x".repeat(500));
        assert_eq!(by_library(behind.as_bytes()), Some((500, Code::RequestMalformedHttp)));
        for answer in [
            bad.replace("400", "404"),
            bad.replace("content-length: 0", "content-length: 1"),
            bad.replace("date: Mon", "content-type: text/plain"),
            format!("{bad}x"),
            "HTTP/1.1 4".to_owned(),
            String::new(),
        ] {
            assert_eq!(by_library(answer.as_bytes()), None, "{answer}");
        }
    }

    #[test]
    fn what_is_said_in_their_place_is_a_problem() {
        let text = String::from_utf8(instead_of_library(Code::RequestHeadTooLarge, None)).unwrap();
        assert!(text.starts_with("HTTP/1.1 431 ") && text.contains("connection: close\r\n"), "{text}");
        assert!(
            text.contains("application/problem+json") && text.contains("request.head_too_large"),
            "{text}"
        );
        for header in
            ["content-security-policy: ", "x-content-type-options: nosniff", "x-frame-options: DENY"]
        {
            assert!(text.contains(header), "{header}: {text}");
        }
        assert_eq!(by_library(text.as_bytes()), None);
    }
}
