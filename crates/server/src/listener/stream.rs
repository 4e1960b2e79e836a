//! A socket, plain or under TLS, that tells its pulse what goes in and out. While a request is served it is read of the
//! system itself, so that a peer that has hung up is found before it is answered.

use super::{activity::ConnectionActivity, framing::Framing, refuse};
use socket2::SockRef;
use std::{
    io::{self, IoSlice, Read as _},
    mem::MaybeUninit,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::server::TlsStream;

#[derive(Debug)]
pub(super) enum Socket {
    Plain(ClientStream),
    /// Boxed: most of an idle connection would be the room for it.
    Tls(Box<TlsStream<ClientStream>>),
}

/// A TCP connection. The runtime learns of what comes on it when it next asks the system: after this process was stopped, or
/// on a busy machine, an answer may be ready before that. A read here finds what has come by now.
#[derive(Debug)]
pub(super) struct ClientStream {
    pub(super) stream: TcpStream,
    pub(super) activity: Arc<ConnectionActivity>,
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, into);
        if read.is_ready() || !self.activity.is_serving() { read } else { self.read_now(into) }
    }
}

impl ClientStream {
    fn read_now(&self, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        // It does not block. The end of what the peer sends is read as nothing.
        let socket = SockRef::from(&self.stream);
        let read = socket.peek(&mut [MaybeUninit::uninit()]).and_then(|_| {
            let read = (&*socket).read(into.initialize_unfilled())?;
            into.advance(read);
            Ok(())
        });
        match read {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Poll::Pending
            }
            read => Poll::Ready(read),
        }
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Ends a line that is open, and the head.
const BLANK_LINE: &[u8] = b"\r\n\r\n";

#[derive(Debug)]
pub(super) struct Watched {
    socket: Socket,
    activity: Arc<ConnectionActivity>,
    framing: Framing,
    /// The bytes for the HTTP library after a line that was spoilt: it checks a head when a blank line ends it.
    ending: &'static [u8],
    /// The answer that replaces the HTTP library's refusal, and the number of sent bytes.
    instead: Option<(Vec<u8>, usize)>,
    discarded: usize,
}

impl Watched {
    pub(super) fn new(socket: Socket, activity: Arc<ConnectionActivity>) -> Self {
        Self {
            socket,
            activity,
            framing: Framing::default(),
            ending: BLANK_LINE,
            instead: None,
            discarded: 0,
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(fault) = self.framing.fault() {
            return Poll::Ready(self.read_no_more(fault, into));
        }
        let before = into.filled().len();
        let read = match &mut self.socket {
            Socket::Plain(line) => Pin::new(line).poll_read(cx, into),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, into),
        };
        if let Some(heard) = into.filled_mut().get_mut(before..).filter(|heard| !heard.is_empty()) {
            self.activity.heard();
            let seen = self.framing.read(heard);
            into.set_filled(before + seen);
            if let Some(fault) = self.framing.fault().filter(|_| seen == 0) {
                return Poll::Ready(self.read_no_more(fault, into));
            }
        }
        read
    }
}

impl Watched {
    /// Reads after a fault: the end of the head that has it, and then an error; after a fault in a body, an error at
    /// once.
    fn read_no_more(&mut self, fault: &'static str, into: &mut ReadBuf<'_>) -> io::Result<()> {
        if !self.framing.is_in_head() || self.ending.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
        }
        let (given, left) = self.ending.split_at(self.ending.len().min(into.remaining()));
        into.put_slice(given);
        self.ending = left;
        Ok(())
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => self.activity.wrote(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.activity.write_blocked(),
        }
        written
    }

    fn send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = match &mut self.socket {
            Socket::Plain(line) => Pin::new(line).poll_write(cx, bytes),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_write(cx, bytes),
        };
        self.wrote(written)
    }

    /// Takes what a refused peer still sends, so that it sees the answer and not that it was reset. The time that a head has
    /// bounds it.
    fn discard_input(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut into = [0; 1_024];
        while self.discarded < refuse::DISCARD_MAX {
            let mut into = ReadBuf::new(&mut into);
            let read = match &mut self.socket {
                Socket::Plain(line) => Pin::new(line).poll_read(cx, &mut into),
                Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_read(cx, &mut into),
            };
            match read {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(())) if !into.filled().is_empty() => self.discarded += into.filled().len(),
                Poll::Ready(_) => return Poll::Ready(()),
            }
        }
        Poll::Ready(())
    }

    /// A refusal by the HTTP library becomes a problem document; what is before it is first. `None` if it is none.
    fn send_problem(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Option<Poll<io::Result<usize>>> {
        if self.activity.is_serving() {
            return None;
        }
        let (at, code) = refuse::by_library(bytes)?;
        if at > 0 {
            return bytes.get(..at).map(|byte| self.send(cx, byte));
        }
        let (text, mut sent) = self
            .instead
            .take()
            .unwrap_or_else(|| (refuse::instead_of_library(code, self.framing.fault()), 0));
        let answer = loop {
            let Some(rest) = text.get(sent..).filter(|text| !text.is_empty()) else {
                break Poll::Ready(Ok(bytes.len()));
            };
            match self.send(cx, rest) {
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => sent += written,
                other => break other,
            }
        };
        self.instead = Some((text, sent));
        Some(answer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.send_problem(cx, bytes) {
            Some(sent) => sent,
            None => self.send(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = pieces
            && let Some(sent) = self.send_problem(cx, only)
        {
            return sent;
        }
        let written = match &mut self.socket {
            Socket::Plain(line) => Pin::new(line).poll_write_vectored(cx, pieces),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_write_vectored(cx, pieces),
        };
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain(line) => line.is_write_vectored(),
            Socket::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.socket {
            Socket::Plain(line) => Pin::new(line).poll_flush(cx),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(cx),
        };
        match &flushed {
            Poll::Ready(Ok(())) => self.activity.flushed(),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.activity.write_blocked(),
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = match &mut self.socket {
            Socket::Plain(line) => Pin::new(line).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(cx),
        };
        match ended {
            Poll::Ready(Ok(())) if self.instead.is_some() => self.discard_input(cx).map(Ok),
            ended => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Version;
    use std::{
        io::Write as _,
        net::{Ipv4Addr, TcpStream as Peer},
    };
    use tokio::{net::TcpListener, time::Instant};

    /// A connection on which a request has come and is served; the runtime has learned of nothing since.
    async fn serving() -> (Peer, ClientStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut peer = Peer::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let activity = Arc::new(ConnectionActivity::new(Ipv4Addr::LOCALHOST.into(), Instant::now()));
        let mut line = ClientStream { stream, activity };
        peer.write_all(b"request").unwrap();
        let mut into = [0; 32];
        let heard = std::future::poll_fn(|cx| read(&mut line, cx, &mut into)).await.unwrap();
        assert_eq!(&into[..heard], b"request");
        line.activity.request_begins(Version::HTTP_11);
        (peer, line)
    }

    fn read(line: &mut ClientStream, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut into = ReadBuf::new(into);
        Pin::new(line).poll_read(cx, &mut into).map_ok(|()| into.filled().len())
    }

    fn read_once(line: &mut ClientStream) -> Poll<io::Result<usize>> {
        read(line, &mut Context::from_waker(std::task::Waker::noop()), &mut [0; 32])
    }

    #[tokio::test]
    async fn while_it_is_served_a_peer_that_hung_up_is_found_before_the_runtime_hears_of_it() {
        let (peer, mut line) = serving().await;
        assert!(read_once(&mut line).is_pending(), "it is there");
        drop(peer);
        assert!(matches!(read_once(&mut line), Poll::Ready(Ok(0))), "it is gone");
    }

    #[tokio::test]
    async fn what_came_meanwhile_is_read_in_its_order() {
        let (mut peer, mut line) = serving().await;
        peer.write_all(b"next").unwrap();
        assert!(matches!(read_once(&mut line), Poll::Ready(Ok(4))));
        drop(peer);
        assert!(matches!(read_once(&mut line), Poll::Ready(Ok(0))));
    }

    #[tokio::test]
    async fn between_requests_nobody_asks_the_system_but_the_runtime() {
        let (mut peer, mut line) = serving().await;
        line.activity.request_ends();
        peer.write_all(b"next").unwrap();
        assert!(read_once(&mut line).is_pending());
        let heard = std::future::poll_fn(|cx| read(&mut line, cx, &mut [0; 32])).await.unwrap();
        assert_eq!(heard, 4);
    }
}
