//! The listener: accepts connections up to a limit, with or without TLS, and passes each request to the router. Ends
//! connections that send half a request, do not read an answer, or stay idle too long, so that no client can block others.
//! Knows no route.

mod activity;
mod body;
mod certificates;
mod connection;
mod connections;
mod context;
mod framing;
mod handshakes;
mod limits;
mod refuse;
mod stream;

pub(crate) use activity::Reason;
pub(crate) use certificates::{Certificates, ENDS_SOON_MS, Reloaded, reported};
pub use certificates::{TlsError, TlsFiles};
pub(crate) use connections::{Connections, RefusedConnection};
pub(crate) use handshakes::{TlsFailure, TlsMeters};
pub(crate) use limits::ConnectionLimits;

use crate::{app::Shared, options::ListenerOptions};
use activity::Order;
use axum::Router;
use context::ListenerContext;
use hyper_util::{
    rt::{TokioExecutor, TokioTimer},
    server::conn::auto,
};
use limits::REFUSALS_MAX;
use punctual_protocol::Code;
use socket2::SockRef;
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{MissedTickBehavior, interval},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A system that gives no descriptor is asked again after this; what waits at the port continues waiting.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
/// Connections that wait to be taken; the system bounds it by `net.core.somaxconn`. The runtime asks for so few that a few
/// hundred callers who come at one instant are more: the system drops what is beyond, and those callers begin again
/// after a second.
const BACKLOG: i32 = 4_096;
/// The time limit for connections that are cut to close.
const CUT_WITHIN: Duration = Duration::from_secs(1);
const HTTP1_BUFFER_MAX_BYTES: usize = 64 << 10;

/// Takes and serves connections until `shutdown`, and then until what is under way is answered, or `drain_timeout` is over.
pub(crate) async fn run(listener: TcpListener, app: &Shared, router: Router, shutdown: &CancellationToken) {
    if let Err(error) = SockRef::from(&listener).listen(BACKLOG) {
        tracing::warn!(%error, "the port keeps its short line: callers who come together may wait for a second");
    }
    let options = app.options.listener.clone();
    let context = Arc::new(ListenerContext {
        http: http(&options),
        certificates: app.certificates.clone(),
        app: Arc::clone(app),
        router,
        options,
    });
    let (tasks, connections) = (TaskTracker::new(), &app.connections);
    let looks = look_after(connections);
    let serving = async {
        context.accept_all(listener, &tasks, shutdown).await;
        connections.end_all(Order::Finish);
        tasks.close();
        if tokio::time::timeout(app.options.drain_timeout, tasks.wait()).await.is_err() {
            tracing::warn!("requests that are still under way are cut off");
            connections.end_all(Order::Cut);
            let _ = tokio::time::timeout(CUT_WITHIN, tasks.wait()).await;
        }
    };
    tokio::select! {
        () = serving => {}
        () = looks => {}
    }
}

async fn look_after(connections: &Connections) {
    let mut ticks = interval(connections.limits.look_every());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        connections.look();
    }
}

fn http(options: &ListenerOptions) -> auto::Builder<TokioExecutor> {
    let mut http = auto::Builder::new(TokioExecutor::new());
    // The time of a head is ours to look at: no timer for each request.
    http.http1().header_read_timeout(None).max_buf_size(HTTP1_BUFFER_MAX_BYTES);
    http.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(options.http2_streams_max)
        .keep_alive_interval(options.http2_ping_interval)
        .keep_alive_timeout(options.http2_ping_timeout);
    http
}

impl ListenerContext {
    async fn accept_all(
        self: &Arc<Self>,
        listener: TcpListener,
        tasks: &TaskTracker,
        shutdown: &CancellationToken,
    ) {
        let refusals = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.take(stream, peer, tasks, &refusals),
                Err(error) if is_of_one_connection(&error) => {}
                Err(error) => {
                    self.app.connections.counts.accept_failures.fetch_add(1, Relaxed);
                    tracing::error!(%error, "no connection can be taken");
                    self.app.connections.shed_one();
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = tokio::time::sleep(ACCEPT_AGAIN) => {}
                    }
                }
            }
        }
    }

    fn take(
        self: &Arc<Self>,
        stream: TcpStream,
        peer: SocketAddr,
        tasks: &TaskTracker,
        refusals: &TaskTracker,
    ) {
        let peer = peer.ip().to_canonical();
        let refused = match self.admit(peer) {
            Ok(pass) => {
                tasks.spawn(connection::serve(Arc::clone(self), stream, peer, pass));
                return;
            }
            Err(refused) => refused,
        };
        self.app.connections.counts.refuse(refused);
        tracing::warn!(%peer, reason = refused.word(), "a connection was refused; see docs/http.md");
        // With TLS, an answer would need a handshake first.
        if refused != RefusedConnection::NotAProxy
            && self.certificates.is_none()
            && refusals.len() < REFUSALS_MAX
        {
            let detail = match refused {
                RefusedConnection::Address => "one address has as many connections as it may have",
                RefusedConnection::Full | RefusedConnection::NotAProxy => {
                    "all places for connections are taken"
                }
            };
            refusals.spawn(refuse::answer(stream, Code::ConnectionsFull, detail));
        }
    }

    fn admit(&self, peer: IpAddr) -> Result<connections::Pass, RefusedConnection> {
        let is_proxy = self.options.trusted_proxies.contains(peer);
        if self.options.only_proxies && !is_proxy && !peer.is_loopback() {
            return Err(RefusedConnection::NotAProxy);
        }
        self.app.connections.admit(peer, is_proxy)
    }
}

/// The peer was gone before it was taken.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
