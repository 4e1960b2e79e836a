//! Connections to one database for short work, opened when needed and kept for the next. The driver's own pool
//! accepts a connection back whatever happens to the work (crates that drop a future in the middle leave it within a
//! transaction), and waits without limit for one that has fallen silent. Here a connection returns only after work
//! that came to its end, and each answers a ping first, except for `acquire_unasked`. Must not depend on the
//! statements that run on them.

use super::{
    session::{DatabaseAddress, Known},
    timeouts::{ACQUIRE, PING, Unit, elsewhere},
};
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use sqlx::{Connection as _, MySqlConnection};
use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout},
};

/// Connections to one database that open transactions besides those of its lines.
const WRITERS: u32 = 16;
/// The idle time after which a connection is closed at the next check.
const IDLE_MAX: Duration = Duration::from_secs(600);
/// `acquire_unasked` lends a connection that was used less than this ago without a ping.
const FRESH: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub(crate) struct Connections {
    pool: Arc<Pool>,
}

#[derive(Debug)]
struct Pool {
    address: DatabaseAddress,
    permits: Arc<Semaphore>,
    /// The one that was used last is at the end.
    idle: Mutex<Vec<Idle>>,
    /// They open transactions.
    write: bool,
    /// Others that do.
    writers: OnceLock<Connections>,
}

#[derive(Debug)]
struct Idle {
    known: Known,
    since: Instant,
}

/// A connection in use.
#[derive(Debug)]
pub(crate) struct Lent {
    /// `None` only while it is dropped.
    known: Option<Known>,
    unit: Option<Arc<Unit>>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Connections {
    pub(crate) fn new(address: DatabaseAddress, most: u32) -> Self {
        Self::that(address, most, false)
    }

    fn that(address: DatabaseAddress, most: u32, write: bool) -> Self {
        let permits = Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(1)));
        let pool = Pool { address, permits, idle: Mutex::default(), write, writers: OnceLock::new() };
        Self { pool: Arc::new(pool) }
    }

    /// Others to the same database, for transactions (`DatabaseAddress::writer`).
    pub(crate) fn writers(&self) -> &Self {
        self.pool.writers.get_or_init(|| Self::that(self.pool.address.clone(), WRITERS, true))
    }

    /// Acquires a connection for work that runs `within` a limit; outside of one, the connection is closed after it.
    /// Boxed: nearly all work awaits it, and for each piece of work the compiler would analyze all its contents anew.
    pub(crate) fn acquire(&self) -> BoxFuture<'_, sqlx::Result<Lent>> {
        self.acquire_after(Duration::ZERO)
    }

    /// The same without a ping, if the connection was used less than `FRESH` ago. It may be dead: the caller must try again with
    /// `acquire`. For reads that are repeated each second in each partition, of which pings would be half the round trips.
    pub(crate) fn acquire_unasked(&self) -> BoxFuture<'_, sqlx::Result<Lent>> {
        self.acquire_after(FRESH)
    }

    /// A read on a connection as `acquire_unasked` lends it, and once more on one that has answered a ping, if it failed: perhaps only
    /// the connection was dead.
    pub(crate) async fn read_unasked<T>(
        &self,
        read: impl AsyncFn(&mut MySqlConnection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        let mut conn = self.acquire_unasked().await?;
        match read(&mut *conn).await {
            Err(error) => {
                tracing::debug!(%error, "a read on a connection that was not pinged has failed; it is repeated once");
                conn.close_on_drop();
            }
            found => return found,
        }
        drop(conn);
        let mut conn = self.acquire().await?;
        read(&mut *conn).await
    }

    /// One that was used less than `fresh` ago is not asked whether it is alive.
    fn acquire_after(&self, fresh: Duration) -> BoxFuture<'_, sqlx::Result<Lent>> {
        Box::pin(async move {
            let (permit, known) = elsewhere(self.free(fresh)).await?;
            let unit = Unit::current();
            if let Some(unit) = &unit {
                unit.holds(known.number, &self.pool.address);
            }
            Ok(Lent { known: Some(known), unit, pool: Arc::clone(&self.pool), _permit: permit })
        })
    }

    async fn free(&self, fresh: Duration) -> sqlx::Result<(OwnedSemaphorePermit, Known)> {
        let permit = timeout(ACQUIRE, Arc::clone(&self.pool.permits).acquire_owned()).await;
        let permit = permit.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        loop {
            let Some(idle) = self.pool.idle.lock().pop() else {
                let address = &self.pool.address;
                let known = if self.pool.write { address.writer().await? } else { address.known().await? };
                return Ok((permit, known));
            };
            if let Some(known) = alive(idle, fresh).await {
                return Ok((permit, known));
            }
        }
    }

    /// Others to the same database.
    pub(crate) fn beside(&self, most: u32) -> Self {
        Self::new(self.pool.address.clone(), most)
    }

    pub(crate) fn address(&self) -> &DatabaseAddress {
        &self.pool.address
    }

    /// One of the caller's own, which does not come from here and does not come back.
    pub(crate) async fn own(&self) -> sqlx::Result<Known> {
        self.pool.address.own().await
    }

    /// Closes the pool. No caller gets another connection; those in use are closed after their work.
    pub(crate) async fn close(&self) {
        self.pool.permits.close();
        let idle = std::mem::take(&mut *self.pool.idle.lock());
        for idle in idle {
            drop(timeout(PING, idle.known.conn.close()).await);
        }
        if let Some(writers) = self.pool.writers.get() {
            Box::pin(writers.close()).await;
        }
    }
}

/// Returns `None` if the connection is closed.
async fn alive(Idle { mut known, since }: Idle, fresh: Duration) -> Option<Known> {
    let idle_for = since.elapsed();
    if idle_for > IDLE_MAX {
        return None;
    }
    if idle_for < fresh {
        return Some(known);
    }
    match timeout(PING, known.conn.ping()).await {
        Ok(Ok(())) => Some(known),
        _ => None,
    }
}

impl Lent {
    /// It is closed after its work: it is not as others need it.
    pub(crate) fn close_on_drop(&mut self) {
        if let (Some(unit), Some(known)) = (self.unit.take(), &self.known) {
            unit.lets_go(known.number);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let (Some(known), Some(unit)) = (self.known.take(), self.unit.take()) else { return };
        if unit.lets_go(known.number) && !self.pool.permits.is_closed() {
            self.pool.idle.lock().push(Idle { known, since: Instant::now() });
        }
    }
}

impl Deref for Lent {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        &self.known.as_ref().expect("it is there until it is dropped").conn
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        &mut self.known.as_mut().expect("it is there until it is dropped").conn
    }
}
