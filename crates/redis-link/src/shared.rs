//! One multiplexed connection to one server for many callers, opened when first needed, and again when it is
//! lost. Connecting and sending are distinguished: a call that could not connect did not happen; one that was
//! sent and not answered may have. The scripts are loaded on every connection before it is used, because it
//! may reach a different server than the last one.
//!
//! A connection is abandoned after any missing answer. One without answers for a while is doubted, and
//! another is opened. If the server answers there first, the old one is silent, and the new one replaces it;
//! otherwise the server is slow or unavailable, and callers wait until their limit. When one is silent, all
//! that were opened before are doubted: later calls use new ones, instead of each finding out by itself.
//! Never sends a command twice, unless the server has answered that it did not begin it.

use crate::{
    endpoints::RedisEndpoints,
    error::{Answer, Failure, LinkError, checked, is_script},
};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use redis::{Pipeline, RedisError, RedisResult, Value, aio::MultiplexedConnection};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::time::{Instant, sleep, timeout};

#[derive(Debug)]
pub(crate) struct SharedConnection {
    place: Arc<RedisEndpoints>,
    open: Mutex<Option<OpenConnection>>,
    /// Held by the caller that connects; with the last failure and its time.
    opening: tokio::sync::Mutex<Option<(Instant, LinkError)>>,
    /// Made so far.
    connections: AtomicU64,
}

#[derive(Clone, Debug)]
struct OpenConnection {
    /// Distinguishes connections, so that only the failed one is abandoned.
    number: u64,
    /// The number of silences before this connection.
    silences: u64,
    connection: MultiplexedConnection,
}

impl SharedConnection {
    /// The first call connects.
    pub(crate) fn new(place: Arc<RedisEndpoints>) -> Self {
        Self {
            place,
            open: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            connections: AtomicU64::new(0),
        }
    }

    /// One answer per command, in order. Commands that did not begin are sent once more, on a new connection;
    /// those of a transaction are not.
    pub(crate) async fn run(&self, pipeline: &mut Pipeline) -> Vec<Answer> {
        pipeline.ignore_errors();
        let mut answers = self.send(pipeline).await;
        let (mut again, mut unstarted) = (Pipeline::new(), Vec::new());
        for (command, answer) in pipeline.cmd_iter().zip(&mut answers) {
            if answer.as_ref().is_err_and(Failure::is_unstarted) {
                again.add_command(command.clone()).ignore_errors();
                unstarted.push(answer);
            }
        }
        if !unstarted.is_empty() && !pipeline.is_transaction() {
            // The connection was abandoned: the next one has the scripts, on the present master.
            unstarted.into_iter().zip(self.send(&again).await).for_each(|(place, answer)| *place = answer);
        }
        answers
    }

    async fn send(&self, pipeline: &Pipeline) -> Vec<Answer> {
        let open = match self.open().await {
            Ok(open) => open,
            Err(problem) => return all_fail(pipeline, Failure::before(problem)),
        };
        let answers = answers(pipeline, self.answered(&open, pipeline).await);
        let is_lost = |failure: &Failure| failure.is_unstarted() || failure.code().is_none();
        if answers.iter().any(|answer| answer.as_ref().is_err_and(is_lost)) {
            self.give_up(&open);
        }
        answers
    }

    async fn answered(&self, open: &OpenConnection, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let mut connection = open.connection.clone();
        let mut sending = Box::pin(pipeline.query_async(&mut connection));
        if let Ok(answered) = timeout(self.place.limits.doubt, &mut sending).await {
            return answered;
        }
        tokio::select! {
            biased;
            answered = &mut sending => answered,
            () = self.is_replaced(open) => {
                Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "the connection fell silent").into())
            }
        }
    }

    /// Waits until another connection has replaced this one, because the server answers there. Of all callers
    /// that doubt a connection, one opens the other.
    async fn is_replaced(&self, doubted: &OpenConnection) {
        loop {
            let opening = self.opening.lock().await;
            if self.open.lock().as_ref().is_none_or(|open| open.number != doubted.number) {
                return;
            }
            if let Ok(connection) = self.connect().boxed().await {
                self.keep(connection, self.place.silences.of_one_made_at(doubted.silences));
                return;
            }
            drop(opening);
            sleep(self.place.limits.doubt).await;
        }
    }

    async fn open(&self) -> Result<OpenConnection, LinkError> {
        let asked_at = Instant::now();
        if let Some(open) = self.open.lock().clone().filter(|open| !self.is_doubted(open)) {
            return Ok(open);
        }
        let mut opening = self.opening.lock().await;
        let doubted = self.open.lock().clone();
        if let Some(open) = doubted.clone().filter(|open| !self.is_doubted(open)) {
            return Ok(open);
        }
        let silences = self.place.silences.count();
        let problem = match &*opening {
            // Others waited too, or have just found out: one attempt suffices for all.
            Some((failed_at, problem)) if *failed_at + self.place.limits.rest > asked_at => problem.clone(),
            _ => match self.connect().boxed().await {
                Ok(connection) => return Ok(self.keep(connection, silences)),
                Err(problem) => {
                    *opening = Some((Instant::now(), problem.clone()));
                    problem
                }
            },
        };
        // A connection that is only doubted is better than none.
        doubted.ok_or(problem)
    }

    fn is_doubted(&self, open: &OpenConnection) -> bool {
        open.silences != self.place.silences.count()
    }

    async fn connect(&self) -> Result<MultiplexedConnection, LinkError> {
        let server = self.place.servers().first().expect("an address names a server");
        let mut connection = server.connect(self.place.limits).await?;
        let mut loading = redis::pipe();
        for script in &self.place.scripts {
            loading.add_command(script.load()).ignore();
        }
        if self.place.scripts.is_empty() {
            // Only a server that answers is worth the connection.
            loading.cmd("PING").ignore();
        }
        let loaded = async {
            match loading.exec_async(&mut connection).await {
                Ok(()) => Ok(connection),
                Err(all) => Err(LinkError::Command(one_of(all, &loading, &mut connection).await)),
            }
        };
        // The caller that connects blocks all others that need the connection: a slower server counts as
        // unavailable.
        let limit = self.place.limits.connect;
        let late = |_| Err(LinkError::Unreachable(format!("no answer within {limit:?}")));
        timeout(limit, loaded).await.unwrap_or_else(late)
    }

    fn keep(&self, connection: MultiplexedConnection, silences: u64) -> OpenConnection {
        let number = self.connections.fetch_add(1, Relaxed);
        self.open.lock().insert(OpenConnection { number, silences, connection }).clone()
    }

    fn give_up(&self, lost: &OpenConnection) {
        self.open.lock().take_if(|open| open.number == lost.number);
    }
}

/// A refusal that applies to all scripts is reported once.
async fn one_of(all: RedisError, loading: &Pipeline, connection: &mut MultiplexedConnection) -> RedisError {
    match loading.cmd_iter().next() {
        Some(first) => first.exec_async(connection).await.err().unwrap_or(all),
        None => all,
    }
}

/// One answer per command, from a connection's answer to all of them.
pub(crate) fn answers(pipeline: &Pipeline, answered: RedisResult<Vec<Value>>) -> Vec<Answer> {
    match answered {
        Ok(values) if values.len() == pipeline.cmd_iter().count() => {
            pipeline.cmd_iter().zip(values).map(|(command, value)| checked(command, value)).collect()
        }
        Ok(_) => all_fail(pipeline, Failure::silent("fewer answers than calls")),
        Err(error) => all_fail(pipeline, Failure::of(error, pipeline.cmd_iter().any(is_script))),
    }
}

pub(crate) fn all_fail(pipeline: &Pipeline, failure: Failure) -> Vec<Answer> {
    vec![Err(failure); pipeline.cmd_iter().count()]
}
