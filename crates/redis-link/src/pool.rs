//! Connections that bb8 lends to one caller at a time. A lent connection connects on its first call. So a
//! caller learns why a connection fails, and that nothing was sent; bb8 alone would only report that none
//! became available in time. A broken connection reconnects, so none is tested before it is lent.

use crate::{
    blocking::BlockingConnection,
    error::{Failure, LinkError},
    place::{RedisEndpoints, Router},
};
use bb8::{ManageConnection, PooledConnection, QueueStrategy};
use std::{
    convert::Infallible,
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::{Arc, OnceLock},
    time::Duration,
};

/// A connection that is unused for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// What a pool lends: `Router` or `BlockingConnection`.
pub trait Lendable: Send + Sync + fmt::Debug + 'static {
    /// Not connected yet.
    fn of(place: &Arc<RedisEndpoints>) -> Self;
}

impl Lendable for Router {
    fn of(place: &Arc<RedisEndpoints>) -> Self {
        place.router()
    }
}

impl Lendable for BlockingConnection {
    fn of(place: &Arc<RedisEndpoints>) -> Self {
        Self::new(place)
    }
}

#[derive(Debug)]
struct Manager<C> {
    place: Arc<RedisEndpoints>,
    lends: PhantomData<fn() -> C>,
}

impl<C: Lendable> ManageConnection for Manager<C> {
    type Connection = C;
    type Error = Infallible;

    async fn connect(&self) -> Result<C, Infallible> {
        Ok(C::of(&self.place))
    }

    async fn is_valid(&self, _: &mut C) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut C) -> bool {
        false
    }
}

/// Lends at most `most` at a time; no task runs before the first is lent.
pub struct ConnectionPool<C: Lendable> {
    place: Arc<RedisEndpoints>,
    most: u32,
    lent: OnceLock<bb8::Pool<Manager<C>>>,
}

impl<C: Lendable> fmt::Debug for ConnectionPool<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPool").field("most", &self.most).finish_non_exhaustive()
    }
}

impl<C: Lendable> ConnectionPool<C> {
    #[must_use]
    pub fn new(place: &Arc<RedisEndpoints>, most: u32) -> Self {
        Self { place: Arc::clone(place), most, lent: OnceLock::new() }
    }

    /// Waits for a connection as long as for connecting.
    ///
    /// # Errors
    /// All are in use: nothing was sent.
    pub async fn lend(&self) -> Result<Lent<C>, Failure> {
        let pool = self.lent.get_or_init(|| {
            let builder =
                bb8::Pool::builder().max_size(self.most).connection_timeout(self.place.limits.connect);
            let builder = builder.test_on_check_out(false).max_lifetime(None).idle_timeout(IDLE_MAX);
            // The one that was used last is the likeliest to be good, and the others become idle.
            let builder = builder.queue_strategy(QueueStrategy::Lifo);
            builder.build_unchecked(Manager { place: Arc::clone(&self.place), lends: PhantomData })
        });
        match pool.get_owned().await {
            Ok(connection) => Ok(Lent(connection)),
            Err(_) => {
                let (most, limit) = (self.most, self.place.limits.connect);
                let said = format!("all {most} connections of a pool were in use for {limit:?}");
                Err(Failure::before(LinkError::Unreachable(said)))
            }
        }
    }
}

/// Returned to the pool when it is dropped.
#[derive(Debug)]
pub struct Lent<C: Lendable>(PooledConnection<'static, Manager<C>>);

impl<C: Lendable> Deref for Lent<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C: Lendable> DerefMut for Lent<C> {
    fn deref_mut(&mut self) -> &mut C {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::TimeLimits;
    use punctual_contract::Happened;

    #[tokio::test]
    async fn a_caller_hears_why_nothing_was_sent() {
        let limit = Duration::from_millis(200);
        let limits = TimeLimits { connect: limit, response: limit, doubt: limit, rest: Duration::ZERO };
        // No server listens there.
        let pool: ConnectionPool<Router> =
            ConnectionPool::new(&RedisEndpoints::new("redis://127.0.0.1:1", limits, []).unwrap(), 1);
        let lent = pool.lend().await.unwrap();
        let refused = lent.run_one(redis::cmd("PING")).await.unwrap_err();
        assert_eq!(refused.happened, Happened::No);
        assert!(refused.problem.is_away() && refused.to_string().contains("refused"), "{refused}");
        let none_left = pool.lend().await.map(drop).unwrap_err();
        assert_eq!(none_left.happened, Happened::No);
        assert!(none_left.to_string().contains("all 1 connections"), "{none_left}");
        drop(lent);
        pool.lend().await.unwrap();
    }
}
