//! A keep-alive HTTP/1.1 connection over one socket, plain or under TLS, nothing more: no pool, no redirects. The generator shares
//! its cores with the server under test, so a call costs one write, one or two reads and no other task.
//! Must never repeat a call by itself: the caller knows whether a repetition is harmless, and counts it.

use crate::wire_tls::{Authorities, Wire};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const HEADERS_MAX: usize = 64;
const READ_AHEAD_BYTES: usize = 16 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("no connection to {address}")]
    NotSent {
        address: String,
        #[source]
        source: std::io::Error,
    },
    /// The server may have done it all the same.
    #[error("the answer was lost")]
    AnswerLost(#[source] std::io::Error),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("not an HTTP answer: {0}")]
    Malformed(String),
}

/// The engines of one installation, any of which takes any request, and what every request carries.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    engines: Arc<[EngineAddress]>,
    /// The index of the first engine of a connection.
    first: usize,
    /// The authorities of engines with TLS.
    authorities: Authorities,
}

#[derive(Debug, Clone)]
struct EngineAddress {
    address: String,
    headers: String,
    /// The name of its certificate. `None` for plain HTTP.
    name: Option<String>,
}

/// The time limit for a silent engine if there are others.
const PATIENCE: Duration = Duration::from_secs(5);

impl Target {
    /// `urls`: `http://host[:port]` without a path, several with commas.
    pub(crate) fn new(urls: &str, namespace: Option<&str>, token: Option<&str>) -> anyhow::Result<Self> {
        Self::trusting(urls, namespace, token, None)
    }

    /// `https://host[:port]` too, where the file names the authorities that are trusted.
    pub(crate) fn trusting(
        urls: &str,
        namespace: Option<&str>,
        token: Option<&str>,
        ca: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let mut headers = String::new();
        for (name, value) in [("punctual-namespace: ", namespace), ("authorization: Bearer ", token)] {
            if let Some(value) = value {
                anyhow::ensure!(!value.contains(['\r', '\n']), "{name}line break in the value");
                headers.push_str(&format!("{name}{value}\r\n"));
            }
        }
        let engines: anyhow::Result<Vec<EngineAddress>> =
            urls.split(',').map(|part| EngineAddress::new(part, &headers)).collect();
        let (engines, authorities) = (engines?, Authorities::read(ca)?);
        let is_plain = engines.iter().all(|engine| engine.name.is_none());
        anyhow::ensure!(is_plain || authorities.is_some(), "https:// needs --ca FILE");
        Ok(Self { engines: engines.into(), first: 0, authorities })
    }

    /// The same, begun with the n-th engine: so that connections are spread over all.
    pub(crate) fn beginning_at(&self, n: usize) -> Self {
        Self { engines: Arc::clone(&self.engines), first: n, authorities: self.authorities.clone() }
    }

    /// The n-th engine alone.
    pub(crate) fn only(&self, n: usize) -> Self {
        let one = self.engine(n).clone();
        Self { engines: [one].into(), first: 0, authorities: self.authorities.clone() }
    }

    /// The same engines with this cookie, and nothing else, as a browser uses them.
    pub(crate) fn with_cookie(&self, cookie: &str) -> Self {
        let of = |engine: &EngineAddress| {
            let host = engine.headers.split_once("\r\n").map_or("", |parts| parts.0);
            let cookie = if cookie.is_empty() { String::new() } else { format!("cookie: {cookie}\r\n") };
            EngineAddress { headers: format!("{host}\r\n{cookie}"), ..engine.clone() }
        };
        let engines = self.engines.iter().map(of).collect();
        Self { engines, first: self.first, authorities: self.authorities.clone() }
    }

    /// The addresses as they were given.
    pub(crate) fn urls(&self) -> String {
        self.engines.iter().map(EngineAddress::url).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn is_one(&self) -> bool {
        self.engines.len() == 1
    }

    /// The time limit for an answer, beyond the requested wait.
    pub(crate) fn limit(&self, alone: Duration) -> Duration {
        if self.is_one() { alone } else { alone.min(PATIENCE) }
    }

    /// The address of the first engine, and the headers of every request, for callers that violate HTTP on purpose.
    pub(crate) fn raw(&self) -> (&str, &str) {
        let engine = self.engine(0);
        (&engine.address, &engine.headers)
    }

    fn engine(&self, n: usize) -> &EngineAddress {
        self.engines.iter().cycle().nth(n % self.engines.len()).expect("split gives at least one")
    }
}

impl EngineAddress {
    fn new(url: &str, common: &str) -> anyhow::Result<Self> {
        let secured = url.strip_prefix("https://");
        let Some(rest) = secured.or_else(|| url.strip_prefix("http://")) else {
            anyhow::bail!("{url}: only http://host:port and https://host:port are supported")
        };
        let authority = rest.trim_end_matches('/');
        anyhow::ensure!(
            !authority.is_empty() && !authority.contains('/'),
            "{url}: expected http://host:port"
        );
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let port = if secured.is_some() { 443 } else { 80 };
        let address = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
        let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host);
        let name = secured.map(|_| host.trim_matches(['[', ']']).to_owned());
        Ok(Self { headers: format!("host: {authority}\r\n{common}"), address, name })
    }

    fn url(&self) -> String {
        format!("{}://{}", if self.name.is_some() { "https" } else { "http" }, self.address)
    }
}

/// Status and body of an answer.
#[derive(Debug)]
pub(crate) struct HttpAnswer<'a> {
    pub(crate) status: u16,
    /// When to try again, if the answer says so.
    pub(crate) retry_after: Option<Duration>,
    pub(crate) body: &'a [u8],
}

impl HttpAnswer<'_> {
    pub(crate) const fn is_success(&self) -> bool {
        self.status >= 200 && self.status < 300
    }

    /// The server is overloaded, starting or stopping: the same call may succeed later.
    pub(crate) const fn is_passing(&self) -> bool {
        self.status == 429 || self.status >= 500
    }

    /// A description for messages: the status with the beginning of the body.
    pub(crate) fn describe(&self) -> String {
        let text = String::from_utf8_lossy(self.body);
        format!("{} {}", self.status, text.chars().take(300).collect::<String>())
    }
}

/// One connection, opened when it is needed, and again after it broke: then to the next engine, if there are several.
#[derive(Debug)]
pub(crate) struct Connection {
    target: Target,
    /// The index of its engine.
    at: usize,
    stream: Option<Wire>,
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// A chunked body, put together.
    joined: Vec<u8>,
}

impl Connection {
    pub(crate) const fn new(target: Target) -> Self {
        let at = target.first;
        Self { target, at, stream: None, outgoing: Vec::new(), incoming: Vec::new(), joined: Vec::new() }
    }

    pub(crate) async fn get(&mut self, path: &str, limit: Duration) -> Result<HttpAnswer<'_>, Error> {
        self.call("GET", path, b"", limit).await
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        body: &[u8],
        limit: Duration,
    ) -> Result<HttpAnswer<'_>, Error> {
        self.call("POST", path, body, limit).await
    }

    pub(crate) async fn put(
        &mut self,
        path: &str,
        body: &[u8],
        limit: Duration,
    ) -> Result<HttpAnswer<'_>, Error> {
        self.call("PUT", path, body, limit).await
    }

    pub(crate) async fn patch(
        &mut self,
        path: &str,
        body: &[u8],
        limit: Duration,
    ) -> Result<HttpAnswer<'_>, Error> {
        self.call("PATCH", path, body, limit).await
    }

    pub(crate) async fn delete(&mut self, path: &str, limit: Duration) -> Result<HttpAnswer<'_>, Error> {
        self.call("DELETE", path, b"", limit).await
    }

    async fn call(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
        limit: Duration,
    ) -> Result<HttpAnswer<'_>, Error> {
        self.write_request(method, path, body);
        let head = match self.exchange(limit).await {
            Ok(head) => head,
            Err(error) => {
                self.at += 1;
                return Err(error);
            }
        };
        let raw = self.incoming.get(head.body_from..).unwrap_or_default();
        let body = match head.length {
            Length::Known(_) => raw,
            Length::Chunked => {
                join_chunks(raw, &mut self.joined)?;
                &self.joined
            }
        };
        Ok(HttpAnswer { status: head.status, retry_after: head.retry_after, body })
    }

    async fn exchange(&mut self, limit: Duration) -> Result<ResponseHead, Error> {
        // Taken out for the call: one that fails or is cancelled half-way does not come back.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().await?,
        };
        let exchange = exchange(&mut stream, &self.outgoing, &mut self.incoming);
        let head = timeout(limit, exchange).await.map_err(|_| Error::Silent(limit))??;
        // One that starts or stops answers so; another may be ready.
        let is_unready = head.status == 503 && !self.target.is_one();
        self.at += usize::from(is_unready);
        if head.keep_alive && !is_unready {
            self.stream = Some(stream);
        }
        Ok(head)
    }

    fn write_request(&mut self, method: &str, path: &str, body: &[u8]) {
        self.outgoing.clear();
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{}content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.target.engine(self.at).headers,
            body.len()
        );
        self.outgoing.extend_from_slice(head.as_bytes());
        self.outgoing.extend_from_slice(body);
    }

    async fn connect(&self) -> Result<Wire, Error> {
        let EngineAddress { address, name, .. } = self.target.engine(self.at);
        let not_sent = |source| Error::NotSent { address: address.clone(), source };
        let connecting = timeout(CONNECT_TIMEOUT, TcpStream::connect(address));
        let stream = connecting.await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let stream = stream.map_err(not_sent)?;
        stream.set_nodelay(true).map_err(not_sent)?;
        let Some(name) = name else { return Ok(Wire::Plain(stream)) };
        let shaking = timeout(CONNECT_TIMEOUT, self.target.authorities.shake_hands(name, stream));
        shaking.await.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())).map_err(not_sent)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Known(usize),
    Chunked,
}

#[derive(Debug, Clone, Copy)]
struct ResponseHead {
    status: u16,
    body_from: usize,
    length: Length,
    keep_alive: bool,
    retry_after: Option<Duration>,
}

impl ResponseHead {
    fn is_complete(self, incoming: &[u8]) -> Result<bool, Error> {
        let body = incoming.get(self.body_from..).unwrap_or_default();
        match self.length {
            Length::Known(bytes) if body.len() > bytes => Err(malformed("more than one answer")),
            Length::Known(bytes) => Ok(body.len() == bytes),
            Length::Chunked => Ok(next_chunks(body)?.is_some()),
        }
    }
}

/// Sends the request and reads until the complete answer is in `incoming`.
async fn exchange(stream: &mut Wire, outgoing: &[u8], incoming: &mut Vec<u8>) -> Result<ResponseHead, Error> {
    incoming.clear();
    stream.write_all(outgoing).await.map_err(Error::AnswerLost)?;
    let mut head = None;
    loop {
        incoming.reserve(READ_AHEAD_BYTES);
        if stream.read_buf(incoming).await.map_err(Error::AnswerLost)? == 0 {
            return Err(Error::AnswerLost(std::io::ErrorKind::UnexpectedEof.into()));
        }
        if head.is_none() {
            head = read_head(incoming)?;
        }
        if let Some(head) = head
            && head.is_complete(incoming)?
        {
            return Ok(head);
        }
    }
}

/// Returns `None` if not all of it has arrived yet.
fn read_head(incoming: &[u8]) -> Result<Option<ResponseHead>, Error> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(body_from) = response.parse(incoming).map_err(malformed)? else {
        return Ok(None);
    };
    let status = response.code.ok_or_else(|| malformed("no status"))?;
    let mut head =
        ResponseHead { status, body_from, length: Length::Known(0), keep_alive: true, retry_after: None };
    for header in &*response.headers {
        let value = std::str::from_utf8(header.value).map_err(malformed)?;
        if header.name.eq_ignore_ascii_case("content-length") {
            head.length = Length::Known(value.parse().map_err(malformed)?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            head.length = Length::Chunked;
        } else if header.name.eq_ignore_ascii_case("connection") {
            head.keep_alive = !value.eq_ignore_ascii_case("close");
        } else if header.name.eq_ignore_ascii_case("retry-after") {
            head.retry_after = value.parse().ok().map(Duration::from_secs);
        }
    }
    Ok(Some(head))
}

fn malformed(what: impl ToString) -> Error {
    Error::Malformed(what.to_string())
}

/// The pieces of a chunked body, or None while some are missing. Trailers are not expected from this server.
fn next_chunks(mut body: &[u8]) -> Result<Option<Vec<&[u8]>>, Error> {
    let mut pieces = Vec::new();
    loop {
        let sized = httparse::parse_chunk_size(body).map_err(|_| malformed("chunk size"))?;
        let httparse::Status::Complete((from, bytes)) = sized else { return Ok(None) };
        let bytes = usize::try_from(bytes).map_err(malformed)?;
        let Some(piece) = body.get(from..from + bytes) else { return Ok(None) };
        let Some(rest) = body.get(from + bytes + 2..) else { return Ok(None) };
        if bytes == 0 {
            return Ok(Some(pieces));
        }
        pieces.push(piece);
        body = rest;
    }
}

fn join_chunks(raw: &[u8], joined: &mut Vec<u8>) -> Result<(), Error> {
    joined.clear();
    for piece in next_chunks(raw)?.unwrap_or_default() {
        joined.extend_from_slice(piece);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{net::TcpListener, task::JoinSet};

    const LIMIT: Duration = Duration::from_secs(10);

    /// Answers each connection with the given pieces, one write each, then closes. Ends with the set.
    async fn server(answers: Vec<Vec<&'static str>>) -> (Target, JoinSet<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            for pieces in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 1_024];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                for piece in pieces {
                    stream.write_all(piece.as_bytes()).await.unwrap();
                    stream.flush().await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
        });
        (Target::new(&url, Some("n"), Some("secret")).unwrap(), serving)
    }

    #[tokio::test]
    async fn an_answer_in_pieces_is_put_together() {
        let pieces =
            vec!["HTTP/1.1 20", "1 Created\r\nRetry-After: 3\r\nContent-Le", "ngth: 5\r\n\r\nhe", "llo"];
        let (target, _serving) = server(vec![pieces]).await;
        let mut connection = Connection::new(target);
        let answer = connection.post("/x", b"{}", LIMIT).await.unwrap();
        assert_eq!((answer.status, answer.body), (201, &b"hello"[..]));
        assert_eq!(answer.retry_after, Some(Duration::from_secs(3)));
    }

    #[tokio::test]
    async fn a_chunked_answer_is_put_together() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let pieces = vec![head, "5\r\nhel", "lo\r\n6\r\n world\r\n0\r", "\n\r\n"];
        let (target, _serving) = server(vec![pieces]).await;
        let mut connection = Connection::new(target);
        assert_eq!(connection.get("/x", LIMIT).await.unwrap().body, b"hello world");
    }

    #[tokio::test]
    async fn a_lost_answer_says_so_and_the_next_call_connects_again() {
        let whole = vec!["HTTP/1.1 204 No Content\r\n\r\n"];
        let (target, _serving) = server(vec![vec!["HTTP/1.1 200 OK\r\n"], whole]).await;
        let mut connection = Connection::new(target);
        assert!(matches!(connection.get("/x", LIMIT).await, Err(Error::AnswerLost(_))));
        assert_eq!(connection.get("/x", LIMIT).await.unwrap().status, 204);
    }

    #[tokio::test]
    async fn nobody_listening_means_not_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let mut connection = Connection::new(Target::new(&url, None, None).unwrap());
        assert!(matches!(connection.get("/x", LIMIT).await, Err(Error::NotSent { .. })));
    }

    #[tokio::test]
    async fn what_is_not_http_is_refused() {
        let (target, _serving) = server(vec![vec!["SSH-2.0-OpenSSH_9.6\r\n"]]).await;
        let mut connection = Connection::new(target);
        assert!(matches!(connection.get("/x", LIMIT).await, Err(Error::Malformed(_))));
    }

    /// Two targets that are one installation.
    fn both(one: &Target, other: &Target) -> Target {
        let url = |target: &Target| format!("http://{}", target.engine(0).address);
        Target::new(&format!("{},{}", url(one), url(other)), None, None).unwrap()
    }

    #[tokio::test]
    async fn connections_are_spread_and_go_on_to_the_next_engine_when_one_fails() {
        let (ok, unready) = ("HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 503 Not Ready\r\n\r\n");
        let (failing, _one) = server(vec![vec![unready], vec!["HTTP/1.1 200 OK\r\n"]]).await;
        let (sound, _other) = server(vec![vec![ok], vec![ok], vec![ok]]).await;
        let target = both(&failing, &sound);
        let mut connection = Connection::new(target.beginning_at(2));
        assert_eq!(connection.get("/x", LIMIT).await.unwrap().status, 503);
        assert_eq!(connection.get("/x", LIMIT).await.unwrap().status, 204, "the other one");
        let mut connection = Connection::new(target.clone());
        assert!(matches!(connection.get("/x", LIMIT).await, Err(Error::AnswerLost(_))));
        assert_eq!(connection.get("/x", LIMIT).await.unwrap().status, 204, "the other one");
        let mut connection = Connection::new(target.beginning_at(1));
        assert_eq!(connection.get("/x", LIMIT).await.unwrap().status, 204, "spread from the start");
    }

    #[tokio::test]
    async fn a_silent_engine_is_left_for_the_next() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = Target::new(&format!("http://{}", listener.local_addr().unwrap()), None, None).unwrap();
        let (sound, _other) = server(vec![vec!["HTTP/1.1 204 No Content\r\n\r\n"]]).await;
        let mut connection = Connection::new(both(&silent, &sound));
        let short = Duration::from_millis(50);
        assert!(matches!(connection.get("/x", short).await, Err(Error::Silent(_))));
        assert_eq!(connection.get("/x", LIMIT).await.unwrap().status, 204);
    }

    #[test]
    fn nobody_waits_long_for_one_of_several() {
        let of = |urls: &str| Target::new(urls, None, None).unwrap().limit(Duration::from_secs(60));
        assert_eq!((of("http://a"), of("http://a,http://b")), (Duration::from_secs(60), PATIENCE));
    }

    #[test]
    fn only_urls_of_a_host_are_taken_and_tls_needs_an_authority() {
        assert!(Target::new("http://127.0.0.1:7450/", None, None).is_ok());
        for url in
            ["https://a", "https://", "127.0.0.1:7450", "http://", "http://a/b", "http://a,", "http://a,b"]
        {
            assert!(Target::new(url, None, None).is_err(), "{url}");
        }
    }
}
