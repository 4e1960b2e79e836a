//! Identifies the cluster that owns the keys of a prefix. The first engine of a cluster writes its cluster's name
//! beside them. From then on every engine compares the name, when Redis first answers it and whenever it checks for
//! lost data. Two clusters on one prefix would remove each other's entries and refuse each other's terms, so that
//! neither fires on time.
//!
//! Until the first check is answered, and after another cluster's name was read, only checks pass through: no
//! other read or write. The first check also verifies that the servers are fit for an engine, so that one
//! that was unavailable at the engine's start is judged as at the start. Writes that passed between two
//! checks (half a second) are repaired like a loss. Must not decide anything about a task.

use super::{
    keys::Keys,
    problem::{Failure, RedisProblem, lifted},
    server::{self, Info},
};
use parking_lot::RwLock;
use punctual_redis_link::Router;
use redis::{Cmd, Value};
use std::sync::Arc;

/// Distinguishes one cluster from another, for programs and for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterName {
    /// Made once, when the cluster was founded.
    pub number: i64,
    /// The address of the cluster's store, without a password.
    pub at: String,
}

/// The format of the hot set, before the number. Engines of 0.2 wrote none: they take this word for another
/// cluster's number, and use none of these keys. A change of the keys' contents needs another format.
const FORMAT: &str = "h4";
/// The format before this one, in which Redis also had fired tasks.
const WITH_READY_SETS: &str = "h3";

impl ClusterName {
    /// True if a marker belongs to the cluster with this number.
    pub(crate) fn is_of(marker: &str, number: i64) -> bool {
        let word = marker.split(' ').next().unwrap_or_default();
        // An engine of 0.2 wrote none.
        let (format, found) = word.split_once(':').unwrap_or((FORMAT, word));
        format == FORMAT && found == format!("{number:016x}")
    }

    /// This cluster's, as an older release wrote it.
    fn is_older(&self, marker: &str) -> bool {
        let word = marker.split(' ').next().unwrap_or_default();
        let number = format!("{:016x}", self.number);
        word == number || word.split_once(':') == Some((WITH_READY_SETS, number.as_str()))
    }

    /// The number is first, and only it is compared: a database may move to another host.
    pub(crate) fn marker(&self) -> String {
        let at: String = self.at.chars().filter(|letter| !letter.is_control()).take(200).collect();
        format!("{FORMAT}:{:016x} ({at})", self.number)
    }
}

#[derive(Debug)]
pub(crate) struct Identity {
    key: String,
    /// The keys of each partition whose meaning a release has changed.
    older: Vec<Vec<String>>,
    /// The key where older releases listed the queues of which they stored something.
    older_queues: String,
    prefix: String,
    own: Option<ClusterName>,
    verdict: RwLock<IdentityCheck>,
}

/// The result of the check that this engine may use the servers and their keys.
#[derive(Clone, Debug)]
enum IdentityCheck {
    /// They have not answered yet.
    Pending,
    /// They are fit, and the keys are this cluster's.
    Accepted,
    /// Another cluster has the keys, or no engine may run on these servers.
    Refused(RedisProblem),
}

impl Identity {
    pub(crate) fn new(keys: &Keys, prefix: &str, own: Option<ClusterName>) -> Self {
        let (key, older, older_queues) =
            (keys.cluster(), keys.of_older_release().collect(), keys.queues_of_older_release());
        Self {
            key,
            older,
            older_queues,
            prefix: prefix.to_owned(),
            own,
            verdict: RwLock::new(IdentityCheck::Pending),
        }
    }

    pub(crate) fn stranger(&self) -> Option<String> {
        match &*self.verdict.read() {
            IdentityCheck::Refused(problem @ RedisProblem::Stranger { .. }) => Some(problem.to_string()),
            _ => None,
        }
    }

    pub(crate) fn refusal(&self) -> Option<RedisProblem> {
        match &*self.verdict.read() {
            IdentityCheck::Pending => Some(RedisProblem::NotReachedYet),
            IdentityCheck::Accepted => None,
            IdentityCheck::Refused(problem) => Some(problem.clone()),
        }
    }

    /// Checks that the servers are fit, until they pass; then writes this cluster's name if there is none,
    /// and compares.
    pub(crate) async fn look(&self, guarded: &Guarded) -> Result<(), Failure> {
        let is_accepted = matches!(*self.verdict.read(), IdentityCheck::Accepted);
        let looked = async {
            if !is_accepted {
                let answers = lifted(guarded.link.run_everywhere(redis::cmd("INFO")).await)?;
                let infos = server::read(answers).ok_or_else(|| Failure::answer("INFO as text"))?;
                infos.iter().try_for_each(Info::check).map_err(Failure::before)?;
            }
            self.compare(guarded).await
        };
        let looked = looked.await;
        match &looked {
            Ok(()) => *self.verdict.write() = IdentityCheck::Accepted,
            Err(failure) if failure.problem.is_of_servers() => {
                *self.verdict.write() = IdentityCheck::Refused(failure.problem.clone());
            }
            Err(_) => {}
        }
        looked
    }

    async fn compare(&self, guarded: &Guarded) -> Result<(), Failure> {
        let Some(own) = &self.own else {
            return Ok(());
        };
        let found = match self.read(&guarded.link).await? {
            Some(identity) => identity,
            None => {
                let mut claim = redis::cmd("SET");
                claim.arg(&self.key).arg(own.marker()).arg("NX");
                lifted(guarded.link.run_one(claim).await)?;
                // If two engines wrote at once, one of them succeeded.
                self.read(&guarded.link).await?.ok_or_else(|| Failure::answer("the name just written"))?
            }
        };
        let is_own = found.split(' ').next() == own.marker().split(' ').next();
        if is_own {
            return Ok(());
        }
        if own.is_older(&found) {
            return self.take_over(guarded, own).await;
        }
        Err(Failure::before(RedisProblem::Stranger {
            prefix: self.prefix.clone(),
            own: own.marker(),
            found: found.chars().filter(|letter| !letter.is_control()).take(250).collect(),
        }))
    }

    /// An engine of an older release filled these keys. They are deleted; the partitions are then found to be
    /// lost, and filled again. Then the name gets the new format. A crash between the two repeats both.
    async fn take_over(&self, guarded: &Guarded, own: &ClusterName) -> Result<(), Failure> {
        tracing::warn!(
            prefix = self.prefix,
            "the hot set is of an older release: it is filled again from the store"
        );
        let forget = |keys: &Vec<String>| {
            let mut forget = redis::cmd("UNLINK");
            forget.arg(keys);
            forget
        };
        let mut members = redis::cmd("SMEMBERS");
        members.arg(&self.older_queues);
        let queues = strings(lifted(guarded.link.run_one(members).await)?);
        let ready = queues.iter().map(|word| Keys::ready_of_older_release(&self.prefix, word));
        let gone: Vec<Vec<String>> = self.older.iter().cloned().chain(ready).collect();
        for forgotten in guarded.link.run(gone.iter().map(forget).collect()).await {
            lifted(forgotten)?;
        }
        // Last, so that keys that are not deleted yet are still named.
        lifted(guarded.link.run_one(forget(&vec![self.older_queues.clone()])).await)?;
        let mut rename = redis::cmd("SET");
        rename.arg(&self.key).arg(own.marker());
        lifted(guarded.link.run_one(rename).await).map(drop)
    }

    async fn read(&self, link: &Router) -> Result<Option<String>, Failure> {
        let mut read = redis::cmd("GET");
        read.arg(&self.key);
        match lifted(link.run_one(read).await)? {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Value::SimpleString(text) => Ok(Some(text)),
            _ => Err(Failure::answer("the name of a cluster")),
        }
    }
}

/// The texts in a set.
fn strings(set: Value) -> Vec<String> {
    redis::from_redis_value(set).unwrap_or_default()
}

/// A link that passes nothing through until the servers are known to be fit and the keys to belong to this
/// cluster.
#[derive(Debug)]
pub(crate) struct Guarded {
    link: Router,
    identity: Arc<Identity>,
}

impl Guarded {
    pub(crate) fn new(link: Router, identity: &Arc<Identity>) -> Self {
        Self { link, identity: Arc::clone(identity) }
    }

    fn refusal(&self) -> Option<Failure> {
        self.identity.refusal().map(Failure::before)
    }

    /// One answer a call, in order.
    pub(crate) async fn run(&self, calls: Vec<Cmd>) -> Vec<Result<Value, Failure>> {
        match self.refusal() {
            None => self.link.run(calls).await.into_iter().map(lifted).collect(),
            Some(refusal) => calls.into_iter().map(|_| Err(refusal.clone())).collect(),
        }
    }

    pub(crate) async fn run_one(&self, call: Cmd) -> Result<Value, Failure> {
        match self.refusal() {
            None => lifted(self.link.run_one(call).await),
            Some(refusal) => Err(refusal),
        }
    }

    /// The same command to every master: an answer each.
    pub(crate) async fn run_everywhere(&self, call: Cmd) -> Result<Vec<Value>, Failure> {
        match self.refusal() {
            None => lifted(self.link.run_everywhere(call).await),
            Some(refusal) => Err(refusal),
        }
    }
}
