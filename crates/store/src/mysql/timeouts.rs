//! The time limits of each class of work in a database, in one table, and the watch over work that exceeds its limit.
//! Slow work and work whose connection has fallen silent cannot be distinguished from here; the server can: asked on
//! another connection, it is either at work on the statement, or it never received it, or has answered and the answer
//! was lost. Only the last two are given up early, so that a slow disk fails no transaction. Must not decide whether
//! abandoned work may be tried again: the caller that sets the limit knows what it was.
//!
//! Why it is done here: the driver opens its sockets itself and gives no access to them, so that neither keepalive
//! nor `TCP_USER_TIMEOUT` can be set on connections to MySQL. A silent connection is found when something is asked on
//! it, and by the pings of connections that are idle.

use super::session::{self, DatabaseAddress, Known, Seen};
use crate::Error;
use futures_util::{
    future::{BoxFuture, join_all},
    task::AtomicWaker,
};
use parking_lot::Mutex;
use sqlx::{Connection as _, MySqlConnection};
use std::{
    future::{Future, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout};

/// The time limits of one class of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkTimeout {
    /// Work that takes longer is asked after, and again each time it has passed.
    pub(crate) ask_after: Duration,
    /// However much the server is at work on it, it is given up then.
    pub(crate) at_most: Duration,
}

impl WorkTimeout {
    const fn of_ms(ask_after: u64, at_most: u64) -> Self {
        Self { ask_after: Duration::from_millis(ask_after), at_most: Duration::from_millis(at_most) }
    }
}

/// Heartbeats and leases of partitions: four tries fit into one lease of 2 s. Each statement may be sent twice.
pub(crate) const OWNERSHIP: WorkTimeout = WorkTimeout::of_ms(400, 5_000);
/// Leases of tasks: a transaction up to its commit, and the commit. Begun again once on a new connection where no
/// commit was sent.
pub(crate) const URGENT: WorkTimeout = WorkTimeout::of_ms(1_000, 15_000);
/// Inserts, moves, retention: the same. With `routing::PATIENCE` below `floor::LATE_MS`.
pub(crate) const WRITE: WorkTimeout = WorkTimeout::of_ms(1_000, 30_000);
/// Reads by key or of a short range: scans, tasks, settings, the placement.
pub(crate) const READ: WorkTimeout = WorkTimeout::of_ms(1_000, 30_000);
/// Reads that pass over much, or all: searches, audits, checks, sizes.
pub(crate) const LONG: WorkTimeout = WorkTimeout::of_ms(2_000, 3_600_000);
/// Work that has connections of its own for as long as it lasts: moves of partitions, migrations, housekeeping of buckets,
/// repairs. Silence ends it, and not how long the server is at work on a statement, or how many there are.
pub(crate) const LASTING: WorkTimeout = WorkTimeout::of_ms(2_000, 30 * 24 * 3_600_000);
/// The time limit to open and configure a connection: short, so that an address that is back is found again within
/// seconds.
pub(crate) const CONNECT: Duration = Duration::from_secs(3);
/// The time limit to find a free connection of a pool.
pub(crate) const ACQUIRE: Duration = Duration::from_secs(10);
/// The time limit for the answer to a ping, a rollback, a close: nothing that waits for a disk or for a row.
pub(crate) const PING: Duration = Duration::from_secs(1);
/// The time limit to ask the server, on a new connection, what it does.
pub(crate) const ASK: Duration = Duration::from_millis(2_500);
/// The pause between two checks. A connection counts as idle if both find it idle, and nothing was received on it in
/// between: a busy machine that works through a long transaction is often met between two of its statements.
pub(crate) const LOOKS_APART: Duration = Duration::from_millis(500);

tokio::task_local! {
    static UNIT: Arc<Unit>;
}

/// One unit of work with a limit, and the connections of pools that it holds. A connection returns to its pool only
/// if its unit came to its end: one that was given up in the middle may be within a transaction, or an answer behind.
#[derive(Debug, Default)]
pub(crate) struct Unit {
    state: Mutex<LimitsState>,
}

#[derive(Debug, Default)]
struct LimitsState {
    held: Vec<(u64, DatabaseAddress)>,
    /// The number of waits for something other than these connections.
    elsewhere: u32,
    is_cut: bool,
}

impl Unit {
    /// `None` if the work has no limit.
    pub(crate) fn current() -> Option<Arc<Self>> {
        UNIT.try_with(Arc::clone).ok()
    }

    pub(crate) fn holds(&self, connection: u64, address: &DatabaseAddress) {
        self.state.lock().held.push((connection, address.clone()));
    }

    /// True if it may be used again.
    pub(crate) fn lets_go(&self, connection: u64) -> bool {
        let mut state = self.state.lock();
        state.held.retain(|pair| pair.0 != connection);
        !state.is_cut
    }

    /// Empty while the unit waits for something else.
    fn held(&self) -> Vec<(u64, DatabaseAddress)> {
        let state = self.state.lock();
        if state.elsewhere > 0 { Vec::new() } else { state.held.clone() }
    }

    /// The databases that it has connections to.
    fn databases(&self) -> String {
        let mut names: Vec<String> = self.state.lock().held.iter().map(|pair| pair.1.to_string()).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    }
}

/// The unit of work waits for something else until this is dropped.
struct Elsewhere(Option<Arc<Unit>>);

impl Elsewhere {
    fn begin() -> Self {
        let unit = Unit::current();
        if let Some(unit) = &unit {
            unit.state.lock().elsewhere += 1;
        }
        Self(unit)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        if let Some(elsewhere) = &self.0 {
            elsewhere.state.lock().elsewhere -= 1;
        }
    }
}

/// Marks the wait of a unit of work for something other than its own connections: a pause, a storage, work that has
/// its own limits. Its connections do not count as silent meanwhile.
pub(crate) async fn elsewhere<T>(work: impl Future<Output = T>) -> T {
    let _waits = Elsewhere::begin();
    work.await
}

/// The opposite, within the former: this part of it is done on the unit's connections.
pub(crate) async fn here<T>(work: impl Future<Output = T>) -> T {
    struct Back(Option<Arc<Unit>>);
    impl Drop for Back {
        fn drop(&mut self) {
            if let Some(back) = &self.0 {
                back.state.lock().elsewhere += 1;
            }
        }
    }
    let unit = Unit::current().filter(|unit| {
        let mut state = unit.state.lock();
        let was_elsewhere = state.elsewhere > 0;
        state.elsewhere = state.elsewhere.saturating_sub(1);
        was_elsewhere
    });
    let _back = Back(unit);
    work.await
}

/// Work that lasts, on connections of its own (`DatabaseAddress::own`).
pub(crate) async fn lasting<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let unit = Arc::new(Unit::default());
    let mut answer = None;
    run_in_unit(&unit, LASTING, async { answer = Some(work.await) }).await;
    answer.unwrap_or_else(|| Err(Error::Silent { at: unit.databases() }))
}

/// Work on connections of pools, within a limit. Given up, it fails as if the connection had been cut.
pub(crate) fn within<'a, T: Send + 'a, E: From<sqlx::Error> + Send + 'a>(
    limit: WorkTimeout,
    work: impl Future<Output = Result<T, E>> + Send + 'a,
) -> BoxFuture<'a, Result<T, E>> {
    let work = Box::pin(work);
    Box::pin(async move {
        let unit = Arc::new(Unit::default());
        let mut answer = None;
        {
            // What watches over work knows no kind of work and no answer: it is compiled once.
            let work = async { answer = Some(work.await) };
            let work: Pin<&mut (dyn Future<Output = ()> + Send)> = pin!(work);
            run_in_unit(&unit, limit, work).await;
        }
        answer.unwrap_or_else(|| Err(silent().into()))
    })
}

/// Given up, it has not come to its end.
async fn run_in_unit(unit: &Arc<Unit>, limit: WorkTimeout, work: impl Future<Output = ()>) {
    let mut work = pin!(work);
    let watched = async {
        let done = watched(limit, || unit.held(), work.as_mut()).await;
        // Before the work is dropped, and its connections with it.
        unit.state.lock().is_cut = done.is_none();
    };
    elsewhere(UNIT.scope(Arc::clone(unit), watched)).await;
}

/// The same for statements that may be sent twice: once more, on another connection, if the first was given up or its
/// connection broke.
pub(crate) async fn twice<T: Send, F: Future<Output = sqlx::Result<T>> + Send>(
    limit: WorkTimeout,
    work: impl Fn() -> F,
) -> sqlx::Result<T> {
    match within(limit, work()).await {
        Err(sqlx::Error::Io(_)) => within(limit, work()).await,
        done => done,
    }
}

/// Work on a connection of its own, made for it and closed after it. Statement follows statement: one that waits between
/// them would be taken for silent.
pub(crate) async fn on_its_own<T, E: From<sqlx::Error>>(
    limit: WorkTimeout,
    address: &DatabaseAddress,
    work: impl AsyncFnOnce(&mut MySqlConnection) -> Result<T, E>,
) -> Result<T, E> {
    let Known { mut conn, number } = address.known().await?;
    let watched = watched(limit, || vec![(number, address.clone())], work(&mut conn));
    let done = elsewhere(watched).await.unwrap_or_else(|| Err(E::from(silent())))?;
    drop(timeout(PING, conn.close()).await);
    Ok(done)
}

/// Awaits work, and asks the server after it while it takes long. `None` if it was given up, and its connection must
/// be dropped. `held`: the connections that it is at work on now.
pub(crate) async fn watched<T>(
    limit: WorkTimeout,
    held: impl Fn() -> Vec<(u64, DatabaseAddress)> + Sync,
    work: impl Future<Output = T>,
) -> Option<T> {
    let heard = Arc::new(Heard::default());
    let (mut work, waker) = (pin!(work), Waker::from(Arc::clone(&heard)));
    let working = poll_fn(|context| {
        heard.waits.register(context.waker());
        work.as_mut().poll(&mut Context::from_waker(&waker))
    });
    tokio::select! {
        biased;
        done = working => Some(done),
        () = fell_silent(limit, &held, &heard.times) => None,
    }
}

/// The number of receptions for the work: not of every move of the watch, or it was no silence.
#[derive(Debug, Default)]
struct Heard {
    times: AtomicU64,
    waits: AtomicWaker,
}

impl Wake for Heard {
    fn wake(self: Arc<Self>) {
        self.times.fetch_add(1, Relaxed);
        self.waits.wake();
    }
}

/// Waits until the work must be given up. Separate from the work, and so compiled once for all kinds of it.
async fn fell_silent(
    limit: WorkTimeout,
    held: &(dyn Fn() -> Vec<(u64, DatabaseAddress)> + Sync),
    heard: &AtomicU64,
) {
    let ends_at = Instant::now() + limit.at_most;
    loop {
        sleep_until((Instant::now() + limit.ask_after).min(ends_at)).await;
        let (held, is_late) = (held(), Instant::now() >= ends_at);
        // With none it waits for a connection, or for something else, which has limits of its own.
        if (is_late || !held.is_empty()) && are_silent(&held, is_late, heard).await {
            return;
        }
    }
}

/// Checks all connections at the same time: an idle one is not silent while another one works. Silent ones are ended,
/// so that their locks are free. `is_late` ends them whatever they do. `heard` grows with everything that arrives on
/// them.
async fn are_silent(held: &[(u64, DatabaseAddress)], is_late: bool, heard: &AtomicU64) -> bool {
    let looks = join_all(held.iter().map(|(number, address)| address.look_at(*number, is_late, heard))).await;
    if looks.iter().any(|seen| matches!(seen, Seen::AtWork)) {
        return false;
    }
    let ends = looks.into_iter().zip(held).filter_map(|(seen, (number, _))| match seen {
        Seen::Silent(asked) => Some(session::end(*asked, *number)),
        Seen::AtWork | Seen::Nothing => None,
    });
    join_all(ends).await;
    true
}

pub(crate) fn silent() -> sqlx::Error {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "the connection fell silent; it was given up").into()
}
