//! Connections that bb8 lends to one caller at a time. A lent connection connects on its first call. So a
//! caller learns why a connection fails, and that nothing was sent; bb8 alone would only report that none
//! became available in time. A broken connection reconnects, so none is tested before it is lent.

use crate::{
    blocking::BlockingConnection,
    endpoints::RedisEndpoints,
    error::{Failure, LinkError},
    router::Router,
};
use bb8::{ManageConnection, PooledConnection, QueueStrategy};
use std::{
    convert::Infallible,
    sync::{Arc, OnceLock},
    time::Duration,
};

/// A connection that is unused for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Makes a connection, which is not connected yet.
type Make<C> = fn(&Arc<RedisEndpoints>) -> C;

#[derive(Debug)]
pub struct Manager<C> {
    place: Arc<RedisEndpoints>,
    make: Make<C>,
}

impl<C: Send + 'static> ManageConnection for Manager<C> {
    type Connection = C;
    type Error = Infallible;

    async fn connect(&self) -> Result<C, Infallible> {
        Ok((self.make)(&self.place))
    }

    async fn is_valid(&self, _: &mut C) -> Result<(), Infallible> {
        Ok(())
    }

    fn has_broken(&self, _: &mut C) -> bool {
        false
    }
}

/// Returned to the pool when it is dropped.
pub type Lent<C> = PooledConnection<'static, Manager<C>>;

/// A pool of at most `most` lent connections; no task runs before the first is lent.
#[derive(Debug)]
pub struct ConnectionPool<C: Send + 'static> {
    manager: Manager<C>,
    most: u32,
    lent: OnceLock<bb8::Pool<Manager<C>>>,
}

impl ConnectionPool<Router> {
    #[must_use]
    pub fn of_routers(place: &Arc<RedisEndpoints>, most: u32) -> Self {
        Self::new(place, most, RedisEndpoints::router)
    }
}

impl ConnectionPool<BlockingConnection> {
    #[must_use]
    pub fn of_readers(place: &Arc<RedisEndpoints>, most: u32) -> Self {
        Self::new(place, most, BlockingConnection::new)
    }
}

impl<C: Send + 'static> ConnectionPool<C> {
    fn new(place: &Arc<RedisEndpoints>, most: u32, make: Make<C>) -> Self {
        Self { manager: Manager { place: Arc::clone(place), make }, most, lent: OnceLock::new() }
    }

    /// Waits for a connection as long as for connecting.
    ///
    /// # Errors
    /// All are in use: nothing was sent.
    pub async fn lend(&self) -> Result<Lent<C>, Failure> {
        let (most, limit) = (self.most, self.manager.place.limits.connect);
        let pool = self.lent.get_or_init(|| {
            let builder = bb8::Pool::builder().max_size(most).connection_timeout(limit);
            let builder = builder.test_on_check_out(false).max_lifetime(None).idle_timeout(IDLE_MAX);
            // The one that was used last is the likeliest to be good, and the others become idle.
            let Manager { place, make } = &self.manager;
            let manager = Manager { place: Arc::clone(place), make: *make };
            builder.queue_strategy(QueueStrategy::Lifo).build_unchecked(manager)
        });
        pool.get_owned().await.map_err(|_| {
            let said = format!("all {most} connections of a pool were in use for {limit:?}");
            Failure::before(LinkError::Unreachable(said))
        })
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
        let place = RedisEndpoints::new("redis://127.0.0.1:1", limits, []).unwrap();
        let pool = ConnectionPool::of_routers(&place, 1);
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
