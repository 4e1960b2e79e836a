//! The executor's guard: among all executors that received one attempt of a task, one executes it within the window.
//! Never deleted, because an attempt that has ended must not run again either. It only saves work and decides
//! nothing: the store's fence does.

use crate::{
    error::Error,
    redis::{check_prefix, place},
};
use punctual_domain::place::TaskRef;
use punctual_redis_link::{ConnectionPool, Router};
use redis::Value;
use std::time::Duration;

/// Guards that are requested at the same time; further callers wait for a connection.
const CONNECTIONS_MAX: u32 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardOptions {
    /// The first part of every key.
    pub prefix: String,
    /// The executor's name, for the log of an executor that is second.
    pub holder: String,
    /// The time for which an attempt is guarded after it began, in full milliseconds.
    pub window: Duration,
    pub connect_timeout: Duration,
    pub response_timeout: Duration,
}

impl Default for GuardOptions {
    fn default() -> Self {
        Self {
            prefix: "punctual".to_owned(),
            holder: format!("executor-{}", std::process::id()),
            window: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(2),
            response_timeout: Duration::from_secs(5),
        }
    }
}

/// One execution: of a task, with the fence of its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Execution {
    pub place: TaskRef,
    pub fence: i64,
    /// The number of the attempt, for the log.
    pub attempt: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Execute it; no other executor does within the window.
    Granted,
    /// An executor was first: do not execute it.
    Held { by: String },
}

#[derive(Debug)]
pub struct Guard {
    /// A handler begins when its guard has answered, so no guard waits for another's answer.
    pool: ConnectionPool<Router>,
    options: GuardOptions,
}

impl Guard {
    /// `redis://`, `redis+cluster://` or `redis+sentinel://`. Answers when Redis has.
    ///
    /// # Errors
    /// The address or an option cannot be used, or Redis does not answer.
    pub async fn connect(url: &str, options: GuardOptions) -> Result<Self, Error> {
        check_prefix(&options.prefix)?;
        if options.window < Duration::from_millis(1) {
            let value = format!("{:?}", options.window);
            return Err(Error::Setting { option: "window", value, wanted: "it must be at least 1 ms" });
        }
        let place = place(url, options.connect_timeout, options.response_timeout)?;
        let pool = ConnectionPool::of_routers(&place, CONNECTIONS_MAX);
        pool.lend().await?.run_one(redis::cmd("PING")).await?;
        Ok(Self { pool, options })
    }

    /// # Errors
    /// Redis refused or did not answer. Without an answer the guard may be taken by this executor; no other
    /// one gets it then.
    pub async fn take(&self, this_execution: Execution) -> Result<Taken, Error> {
        let taken = match self.ask(this_execution).await? {
            Value::Nil => Taken::Granted,
            Value::BulkString(by) => Taken::Held { by: String::from_utf8_lossy(&by).into_owned() },
            _ => return Err(Error::Reply("to a guard, no name")),
        };
        match &taken {
            Taken::Granted => {
                let (execution, by) = (this_execution.fence, &self.options.holder);
                tracing::info!(task = %this_execution.place, attempt = this_execution.attempt, execution, by, "an execution begins: the guard is taken");
            }
            Taken::Held { by } => {
                tracing::info!(task = %this_execution.place, attempt = this_execution.attempt, by, "the guard is held: not executed again");
            }
        }
        Ok(taken)
    }

    /// The value that the key had: nil if it was free.
    async fn ask(&self, execution: Execution) -> Result<Value, Error> {
        let window_ms = u64::try_from(self.options.window.as_millis()).unwrap_or(u64::MAX);
        let mut set = redis::cmd("SET");
        set.arg(self.key(execution)).arg(&self.options.holder).arg("NX").arg("GET").arg("PX").arg(window_ms);
        Ok(self.pool.lend().await?.run_one(set).await?)
    }

    /// The key by id, which never changes; the instant in a reference does.
    fn key(&self, execution: Execution) -> String {
        format!("{}:{{g:{}}}:{}:guard", self.options.prefix, execution.place.id, execution.fence)
    }
}
