//! A TCP proxy on loopback, for network faults: connections that are cut, that become silent, whose answers
//! are lost, and a host that vanishes without closing anything. Runs on its own thread and ends with its
//! handle. Must not know the protocol.

use std::{
    collections::BTreeMap,
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

/// The treatment of the bytes of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    #[default]
    Open,
    /// Nothing passes, in either direction, and nothing is closed: a vanished host, a firewall that lost its state.
    /// Held bytes pass when the way is open again.
    Silent,
    /// Requests arrive; no answer is returned, now or later.
    AnswersLost,
    /// The way is open, and delays each piece by this time.
    Slow(Duration),
    /// Closed by a reset; new connections are refused.
    Cut,
}

/// Passes connections on to one server.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<ProxyState>,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct ProxyState {
    server: SocketAddr,
    /// Replacements in clients' bytes, of equal length.
    rewrites: Vec<(Vec<u8>, Vec<u8>)>,
    /// The way of future connections.
    of_new: watch::Sender<Way>,
    open: parking_lot::Mutex<BTreeMap<u64, watch::Sender<Way>>>,
    last: AtomicU64,
}

impl Proxy {
    /// Starts a proxy in front of a server on this port of loopback.
    ///
    /// # Panics
    /// When the system gives no port or no thread.
    #[must_use]
    pub fn before(server_port: u16) -> Self {
        Self::rewriting(server_port, &[])
    }

    /// The same, but in clients' bytes each first text is replaced by its second one: simulates a server
    /// without this one's features. A text that is split between two packets is not replaced.
    ///
    /// # Panics
    /// If two texts differ in length, or the system has no port or no thread.
    #[must_use]
    pub fn rewriting(server_port: u16, rewrites: &[(&str, &str)]) -> Self {
        assert!(
            rewrites.iter().all(|rewrite| rewrite.0.len() == rewrite.1.len()),
            "lengths stand in the protocol"
        );
        let bytes = |text: &str| text.as_bytes().to_vec();
        let listener = StdListener::bind(("127.0.0.1", 0)).expect("loopback has a free port");
        listener.set_nonblocking(true).expect("a listener can be non-blocking");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(ProxyState {
            server: SocketAddr::from(([127, 0, 0, 1], server_port)),
            rewrites: rewrites.iter().map(|rewrite| (bytes(rewrite.0), bytes(rewrite.1))).collect(),
            of_new: watch::Sender::default(),
            open: parking_lot::Mutex::default(),
            last: AtomicU64::new(0),
        });
        let (stop, stopped) = watch::channel(false);
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("proxy".to_owned());
        let thread =
            thread.spawn(move || run(listener, of_thread, stopped)).expect("a thread can be started");
        Self { port, shared, stop, thread: Some(thread) }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The open connections, in the order in which they were opened.
    #[must_use]
    pub fn connections(&self) -> Vec<u64> {
        self.shared.open.lock().keys().copied().collect()
    }

    /// Sets the way of one connection. Returns false if it is closed already.
    pub fn set_one(&self, connection: u64, way: Way) -> bool {
        self.shared.open.lock().get(&connection).is_some_and(|caller| caller.send(way).is_ok())
    }

    /// Sets the way of the connections that are open now; new ones are as before.
    pub fn set_open(&self, way: Way) {
        for connection in self.shared.open.lock().values() {
            connection.send_replace(way);
        }
    }

    /// Sets the way of future connections.
    pub fn set_new(&self, way: Way) {
        self.shared.of_new.send_replace(way);
    }

    /// Sets the way of all connections.
    pub fn set(&self, way: Way) {
        self.set_new(way);
        self.set_open(way);
    }

    /// The host vanishes without closing anything, until `reopen`.
    pub fn vanish(&self) {
        self.set(Way::Silent);
    }

    /// The address answers again; connections of before stay silent for ever.
    pub fn reopen(&self) {
        self.set_new(Way::Open);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn run(listener: StdListener, shared: Arc<ProxyState>, mut stopped: watch::Receiver<bool>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be made").block_on(async move {
        let listener = TcpListener::from_std(listener).expect("it is non-blocking");
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                _ = stopped.wait_for(|flag| *flag) => return,
                Some(_) = connections.join_next() => {}
                come = listener.accept() => {
                    let Ok((client, _)) = come else { continue };
                    connections.spawn(connection(client, Arc::clone(&shared)));
                }
            }
        }
    });
}

async fn connection(client: TcpStream, shared: Arc<ProxyState>) {
    let id = shared.last.fetch_add(1, Relaxed);
    let way = watch::Sender::new(*shared.of_new.borrow());
    let seen = way.subscribe();
    shared.open.lock().insert(id, way);
    // An error ends the connection, as at both of its ends.
    drop(pass(client, &shared, seen).await);
    shared.open.lock().remove(&id);
}

async fn pass(client: TcpStream, shared: &ProxyState, mut way: watch::Receiver<Way>) -> io::Result<()> {
    let reset = client.set_zero_linger();
    let now = *way.wait_for(|way| *way != Way::Silent).await.map_err(io::Error::other)?;
    if now == Way::Cut {
        return reset;
    }
    let server = TcpStream::connect(shared.server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    server.set_zero_linger()?;
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let mut cut = way.clone();
    tokio::select! {
        _ = cut.wait_for(|cut| *cut == Way::Cut) => Ok(()),
        ended = pump(from_client, to_server, way.clone(), Some(&shared.rewrites)) => ended,
        ended = pump(from_server, to_client, way, None) => ended,
    }
}

/// `rewrites`: None for the server's answers.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut way: watch::Receiver<Way>,
    rewrites: Option<&Vec<(Vec<u8>, Vec<u8>)>>,
) -> io::Result<()> {
    let mut piece = vec![0; 64 * 1024];
    loop {
        // The end of a connection is not forwarded either while nothing passes.
        let length = from.read(&mut piece).await;
        let now = *way.wait_for(|way| *way != Way::Silent).await.map_err(io::Error::other)?;
        let length = length?;
        match now {
            Way::AnswersLost if rewrites.is_none() => {
                if length == 0 {
                    std::future::pending::<()>().await;
                }
                continue;
            }
            Way::Slow(by) => tokio::time::sleep(by).await,
            Way::Open | Way::Silent | Way::AnswersLost | Way::Cut => {}
        }
        match piece.get_mut(..length) {
            Some(piece) if !piece.is_empty() => {
                rewrites.into_iter().flatten().for_each(|pair| rewrite(piece, pair));
                to.write_all(piece).await?;
            }
            _ => return Ok(()),
        }
    }
}

fn rewrite(piece: &mut [u8], (from, to): &(Vec<u8>, Vec<u8>)) {
    let places = piece.windows(from.len()).enumerate().filter(|place| place.1 == from.as_slice());
    let places: Vec<usize> = places.map(|place| place.0).collect();
    for at in places {
        if let Some(place) = piece.get_mut(at..at + to.len()) {
            place.copy_from_slice(to);
        }
    }
}
