//! A socket, plain or under TLS, that tells its pulse what goes in and out.

use super::pulse::Pulse;
use std::{
    io::{self, IoSlice},
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
    Plain(TcpStream),
    /// Boxed: most of an idle connection would be the room for it.
    Tls(Box<TlsStream<TcpStream>>),
}

#[derive(Debug)]
pub(super) struct Watched {
    pub(super) socket: Socket,
    pub(super) pulse: Arc<Pulse>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = match &mut self.socket {
            Socket::Plain(it) => Pin::new(it).poll_read(cx, into),
            Socket::Tls(it) => Pin::new(it.as_mut()).poll_read(cx, into),
        };
        if into.filled().len() > before {
            self.pulse.heard();
        }
        read
    }
}

impl Watched {
    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => self.pulse.wrote(*bytes),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.pulse.write_blocked(),
        }
        written
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = match &mut self.socket {
            Socket::Plain(it) => Pin::new(it).poll_write(cx, bytes),
            Socket::Tls(it) => Pin::new(it.as_mut()).poll_write(cx, bytes),
        };
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.socket {
            Socket::Plain(it) => Pin::new(it).poll_write_vectored(cx, pieces),
            Socket::Tls(it) => Pin::new(it.as_mut()).poll_write_vectored(cx, pieces),
        };
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Socket::Plain(it) => it.is_write_vectored(),
            Socket::Tls(it) => it.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = match &mut self.socket {
            Socket::Plain(it) => Pin::new(it).poll_flush(cx),
            Socket::Tls(it) => Pin::new(it.as_mut()).poll_flush(cx),
        };
        match &flushed {
            Poll::Ready(Ok(())) => self.pulse.flushed(),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.pulse.write_blocked(),
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Plain(it) => Pin::new(it).poll_shutdown(cx),
            Socket::Tls(it) => Pin::new(it.as_mut()).poll_shutdown(cx),
        }
    }
}
