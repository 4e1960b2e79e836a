//! One multiplexed connection to one master, made when it is first needed, and again when it is lost. Connecting and sending are told apart:
//! what could not connect did not happen; what was sent and not answered may have. The scripts are loaded on every
//! connection before it is used, because behind it may be another server than last time.
//!
//! A connection is given up after any answer that did not come. One that says nothing for a while is doubted: another is
//! made, and if the server answers there first, the old one has fallen silent and the new one takes its place; if not,
//! the server is slow or away, and a caller that waits continues until its limit. Where one has fallen silent, all that were made before
//! are doubted: what comes next continues new ones, and does not find out by itself. Never sends a call twice unless the server has said
//! that it did not begin it.

use super::{
    address::{Limits, Master},
    problem::{Failure, RedisProblem, checked, is_no_master, is_no_script},
    script::SCRIPTS,
};
use futures_util::FutureExt as _;
use redis::{Cmd, Pipeline, RedisError, Value, aio::MultiplexedConnection};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout};

/// Calls in one pipeline: each is bounded, and so is the whole.
const CALLS_MAX: usize = 64;
/// An answer takes a millisecond; after this the connection is doubted. A good part less than an engine waits for a hot set before it
/// believes that none is there: by then another connection has been made.
const DOUBT_AFTER: Duration = Duration::from_millis(250);

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
pub(crate) struct Direct {
    master: Arc<Master>,
    limits: Limits,
    silences: Arc<Silences>,
    open: parking_lot::Mutex<Option<Open>>,
    /// Held while connecting, by one; with the last failure and when it came.
    opening: tokio::sync::Mutex<Option<(Instant, RedisProblem)>>,
    /// Made so far.
    connections: AtomicU64,
}

#[derive(Clone, Debug)]
struct Open {
    /// Tells connections apart, so that only the one that failed is given up.
    number: u64,
    /// Those of before.
    silences: u64,
    connection: MultiplexedConnection,
}

impl Direct {
    /// The first call connects.
    pub(crate) fn new(master: Arc<Master>, limits: Limits, silences: Arc<Silences>) -> Self {
        Self {
            master,
            limits,
            silences,
            open: parking_lot::Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            connections: AtomicU64::new(0),
        }
    }

    /// One answer a call, in order.
    pub(crate) async fn run(&self, calls: Vec<Cmd>) -> Vec<Result<Value, Failure>> {
        let mut answers = Vec::with_capacity(calls.len());
        let mut calls = calls.into_iter().peekable();
        while calls.peek().is_some() {
            let mut pipeline = Pipeline::with_capacity(CALLS_MAX);
            for command in calls.by_ref().take(CALLS_MAX) {
                pipeline.add_command(command);
            }
            answers.extend(self.run_pipeline(&pipeline).await);
        }
        answers
    }

    async fn run_pipeline(&self, pipeline: &Pipeline) -> Vec<Result<Value, Failure>> {
        let mut answers = self.send(pipeline).await;
        let unstarted: Vec<usize> =
            (0..).zip(&answers).filter(|(_, answer)| is_unstarted(answer)).map(|pair| pair.0).collect();
        if unstarted.is_empty() {
            return finished(answers);
        }
        // The connection was given up: the next one has the scripts, on whoever is the master then.
        let mut again = Pipeline::with_capacity(unstarted.len());
        for (n, command) in pipeline.cmd_iter().enumerate() {
            if unstarted.contains(&n) {
                again.add_command(command.clone());
            }
        }
        for (n, answer) in unstarted.into_iter().zip(self.send(&again).await) {
            if let Some(result) = answers.get_mut(n) {
                *result = answer;
            }
        }
        finished(answers)
    }

    async fn send(&self, pipeline: &Pipeline) -> Vec<Result<Value, Sent>> {
        let count = pipeline.cmd_iter().count();
        let open = match self.open().await {
            Ok(open) => open,
            Err(problem) => return vec![Err(Sent::Not(problem)); count],
        };
        match self.answers(&open, pipeline, count).await {
            Ok(values) if values.len() == count => {
                let answers: Vec<_> =
                    values.into_iter().map(|value| checked(value).map_err(Sent::Answered)).collect();
                if answers.iter().any(is_unstarted) {
                    self.give_up(&open);
                }
                answers
            }
            Ok(_) => vec![Err(Sent::Unanswered(answers_missing())); count],
            Err(error) => {
                self.give_up(&open);
                vec![Err(Sent::Unanswered(error)); count]
            }
        }
    }

    async fn answers(
        &self,
        open: &Open,
        pipeline: &Pipeline,
        count: usize,
    ) -> redis::RedisResult<Vec<Value>> {
        let mut connection = open.connection.clone();
        let mut sending = Box::pin(connection.send_packed_commands(pipeline, 0, count));
        if let Ok(answered) = timeout(DOUBT_AFTER, &mut sending).await {
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
    async fn is_replaced(&self, doubted: &Open) {
        loop {
            let opening = self.opening.lock().await;
            if self.open.lock().as_ref().is_none_or(|open| open.number != doubted.number) {
                return;
            }
            if let Ok(connection) = self.dial().boxed().await {
                self.keep(connection, self.silences.of_one_made_at(doubted.silences));
                return;
            }
            drop(opening);
            sleep(DOUBT_AFTER).await;
        }
    }

    async fn open(&self) -> Result<Open, RedisProblem> {
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
            // Others waited with us: one attempt is enough for all.
            Some((failed_at, problem)) if *failed_at > asked_at => problem.clone(),
            _ => match self.dial().boxed().await {
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

    fn is_doubted(&self, open: &Open) -> bool {
        open.silences != self.silences.0.load(Relaxed)
    }

    async fn dial(&self) -> Result<MultiplexedConnection, RedisProblem> {
        let mut connection = self.master.connect(self.limits).await?;
        let mut loading = redis::pipe();
        for script in SCRIPTS.all() {
            loading.add_command(script.load()).ignore();
        }
        let loaded = async {
            match loading.exec_async(&mut connection).await {
                Ok(()) => Ok(()),
                Err(all) => Err(RedisProblem::Command(one_of(all, &mut connection).await)),
            }
        };
        // Whoever dials holds up all who need the connection: a server that takes longer is unavailable.
        match timeout(self.limits.connect, loaded).await {
            Ok(loaded) => loaded.map(|()| connection),
            Err(_) => Err(RedisProblem::Unreachable(format!("no answer within {:?}", self.limits.connect))),
        }
    }

    fn keep(&self, connection: MultiplexedConnection, silences: u64) -> Open {
        let number = self.connections.fetch_add(1, Relaxed);
        self.open.lock().insert(Open { number, silences, connection }).clone()
    }

    fn give_up(&self, lost: &Open) {
        self.open.lock().take_if(|open| open.number == lost.number);
    }
}

/// What is refused for all scripts alike is said once.
async fn one_of(all: RedisError, connection: &mut MultiplexedConnection) -> RedisError {
    match SCRIPTS.all().next() {
        Some(script) => script.load().exec_async(connection).await.err().unwrap_or(all),
        None => all,
    }
}

#[derive(Clone, Debug)]
enum Sent {
    /// There was no connection.
    Not(RedisProblem),
    Unanswered(RedisError),
    Answered(RedisError),
}

fn is_unstarted(answer: &Result<Value, Sent>) -> bool {
    matches!(answer, Err(Sent::Answered(error)) if is_no_script(error) || is_no_master(error))
}

fn finished(answers: Vec<Result<Value, Sent>>) -> Vec<Result<Value, Failure>> {
    let failure = |sent| match sent {
        Sent::Not(problem) => Failure::before(problem),
        Sent::Unanswered(error) | Sent::Answered(error) => Failure::of(error),
    };
    answers.into_iter().map(|result| result.map_err(failure)).collect()
}

fn answers_missing() -> RedisError {
    RedisError::from(std::io::Error::other("fewer answers than calls"))
}
