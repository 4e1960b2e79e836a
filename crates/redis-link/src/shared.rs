//! One multiplexed connection to one server for many callers, made when it is first needed, and again when it is lost. Connecting
//! and sending are told apart: what could not connect did not happen; what was sent and not answered may have. The scripts are
//! loaded on every connection before it is used, because behind it may be another server than last time.
//!
//! A connection is given up after any answer that did not come. One that says nothing for a while is doubted: another is
//! made, and if the server answers there first, the old one has fallen silent and the new one takes its place; if not,
//! the server is slow or away, and callers wait until their limit. Where one has fallen silent, all that were made before are
//! doubted: what comes next goes on new ones, and does not find out by itself. Never sends a command twice unless the server
//! has said that it did not begin it.

use crate::{
    error::{Answer, Failure, LinkError, checked, is_script},
    script::Script,
    server::{RedisServer, TimeLimits},
};
use futures_util::FutureExt as _;
use redis::{Cmd, Pipeline, RedisError, RedisResult, Value, aio::MultiplexedConnection};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::time::{Instant, sleep, timeout};

/// How often a connection to one server has fallen silent, whichever it was.
#[derive(Debug, Default)]
pub(crate) struct Silences(AtomicU64);

impl Silences {
    /// One that was made when there were so many fell silent. Those of the same time count once: what was made since is not
    /// doubted for it.
    fn of_one_made_at(&self, silences: u64) -> u64 {
        match self.0.compare_exchange(silences, silences + 1, Relaxed, Relaxed) {
            Ok(_) => silences + 1,
            Err(now) => now,
        }
    }
}

#[derive(Debug)]
pub(crate) struct SharedConnection {
    server: Arc<RedisServer>,
    limits: TimeLimits,
    scripts: Arc<[&'static Script]>,
    silences: Arc<Silences>,
    open: parking_lot::Mutex<Option<OpenConnection>>,
    /// Held while connecting, by one; with the last failure and when it came.
    opening: tokio::sync::Mutex<Option<(Instant, LinkError)>>,
    /// Made so far.
    connections: AtomicU64,
}

#[derive(Clone, Debug)]
struct OpenConnection {
    /// Tells connections apart, so that only the one that failed is given up.
    number: u64,
    /// Those of before.
    silences: u64,
    connection: MultiplexedConnection,
}

impl SharedConnection {
    /// The first call connects.
    pub(crate) fn new(
        server: Arc<RedisServer>,
        limits: TimeLimits,
        scripts: Arc<[&'static Script]>,
        silences: Arc<Silences>,
    ) -> Self {
        Self {
            server,
            limits,
            scripts,
            silences,
            open: parking_lot::Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            connections: AtomicU64::new(0),
        }
    }

    /// One answer a command, in order. What was not begun is sent once more, on a connection of its own; of a transaction nothing.
    pub(crate) async fn run(&self, pipeline: &mut Pipeline) -> Vec<Answer> {
        pipeline.ignore_errors();
        let mut answers = self.send(pipeline).await;
        let is_unstarted = |answer: &Answer| answer.as_ref().is_err_and(Failure::is_unstarted);
        let unstarted: Vec<usize> =
            (0..).zip(&answers).filter(|(_, answer)| is_unstarted(answer)).map(|pair| pair.0).collect();
        if unstarted.is_empty() || pipeline.is_transaction() {
            return answers;
        }
        // The connection was given up: the next one has the scripts, on whoever is the master then.
        let mut again = Pipeline::with_capacity(unstarted.len());
        for (nth, command) in pipeline.cmd_iter().enumerate() {
            if unstarted.contains(&nth) {
                again.add_command(command.clone());
            }
        }
        again.ignore_errors();
        for (nth, answer) in unstarted.into_iter().zip(self.send(&again).await) {
            if let Some(place) = answers.get_mut(nth) {
                *place = answer;
            }
        }
        answers
    }

    async fn send(&self, pipeline: &Pipeline) -> Vec<Answer> {
        let open = match self.open().await {
            Ok(open) => open,
            Err(problem) => return all_fail(pipeline, &Failure::before(problem)),
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
        if let Ok(answered) = timeout(self.limits.doubt, &mut sending).await {
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

    /// Until another connection has taken the place of this one, because the server answers there. Of all who doubt one
    /// connection, one makes the other.
    async fn is_replaced(&self, doubted: &OpenConnection) {
        loop {
            let opening = self.opening.lock().await;
            if self.open.lock().as_ref().is_none_or(|open| open.number != doubted.number) {
                return;
            }
            if let Ok(connection) = self.connect().boxed().await {
                self.keep(connection, self.silences.of_one_made_at(doubted.silences));
                return;
            }
            drop(opening);
            sleep(self.limits.doubt).await;
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
        let silences = self.silences.0.load(Relaxed);
        let problem = match &*opening {
            // Others waited with us, or have just found out: one attempt is enough for all.
            Some((failed_at, problem)) if *failed_at + self.limits.rest > asked_at => problem.clone(),
            _ => match self.connect().boxed().await {
                Ok(connection) => return Ok(self.keep(connection, silences)),
                Err(problem) => {
                    *opening = Some((Instant::now(), problem.clone()));
                    problem
                }
            },
        };
        // One that is only doubted is better than none.
        doubted.ok_or(problem)
    }

    fn is_doubted(&self, open: &OpenConnection) -> bool {
        open.silences != self.silences.0.load(Relaxed)
    }

    async fn connect(&self) -> Result<MultiplexedConnection, LinkError> {
        let mut connection = self.server.connect(self.limits).await?;
        let mut loading = redis::pipe();
        for script in &*self.scripts {
            loading.add_command(script.load()).ignore();
        }
        if self.scripts.is_empty() {
            // Only a server that answers is worth the connection.
            loading.cmd("PING").ignore();
        }
        let loaded = async {
            match loading.exec_async(&mut connection).await {
                Ok(()) => Ok(()),
                Err(all) => Err(LinkError::Command(one_of(all, &loading, &mut connection).await)),
            }
        };
        // Whoever connects holds up all who need the connection: a server that takes longer is away.
        match timeout(self.limits.connect, loaded).await {
            Ok(loaded) => loaded.map(|()| connection),
            Err(_) => Err(LinkError::Unreachable(format!("no answer within {:?}", self.limits.connect))),
        }
    }

    fn keep(&self, connection: MultiplexedConnection, silences: u64) -> OpenConnection {
        let number = self.connections.fetch_add(1, Relaxed);
        self.open.lock().insert(OpenConnection { number, silences, connection }).clone()
    }

    fn give_up(&self, lost: &OpenConnection) {
        self.open.lock().take_if(|open| open.number == lost.number);
    }
}

/// What is refused for all scripts alike is said once.
async fn one_of(all: RedisError, loading: &Pipeline, connection: &mut MultiplexedConnection) -> RedisError {
    match loading.cmd_iter().next() {
        Some(first) => first.exec_async(connection).await.err().unwrap_or(all),
        None => all,
    }
}

/// One a command, of what a connection answered to all of them.
pub(crate) fn answers(pipeline: &Pipeline, answered: RedisResult<Vec<Value>>) -> Vec<Answer> {
    match answered {
        Ok(values) if values.len() == pipeline.cmd_iter().count() => {
            pipeline.cmd_iter().zip(values).map(|(command, value)| checked(command, value)).collect()
        }
        Ok(_) => all_fail(pipeline, &Failure::silent("fewer answers than calls")),
        Err(error) => all_fail(pipeline, &Failure::of(error, pipeline.cmd_iter().any(is_script))),
    }
}

pub(crate) fn all_fail(pipeline: &Pipeline, failure: &Failure) -> Vec<Answer> {
    pipeline.cmd_iter().map(|_: &Cmd| Err(failure.clone())).collect()
}
