//! What can go wrong with Redis, and whether the work took effect all the same. A timeout never means "not done": the
//! script may have run. Nothing here may show a password, so no problem carries a URL.

use punctual_contract::{Error, Happened};
use redis::{ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};

#[derive(Clone, Debug, thiserror::Error)]
pub enum RedisProblem {
    #[error(
        "{0}; use redis://host:port, redis+cluster://host:port,... or redis+sentinel://host:port,.../master, and rediss \
         instead of redis for TLS"
    )]
    Address(&'static str),
    #[error("an address of Redis has no parameter {0:?}; there are tls_ca, tls_cert and tls_key")]
    Parameter(String),
    #[error("{parameter}: {path:?} cannot be used: {said}")]
    Certificate { parameter: &'static str, path: String, said: String },
    #[error("the prefix {0:?} is not 1 to 64 of the characters A-Z a-z 0-9 . _ : -")]
    Prefix(String),
    #[error(
        "maxmemory-policy is {0}, which lets Redis throw away tasks that wait: run \
         `CONFIG SET maxmemory-policy noeviction` and write it into redis.conf"
    )]
    Evicts(String),
    #[error("Redis {0} is too old: 7.0 or newer is needed")]
    TooOld(String),
    #[error(
        "the keys of prefix {prefix:?} in this Redis belong to cluster {found}, and this store is cluster {own}: they \
         would take each other's tasks. Give each cluster its own prefix (`hot.prefix`) or its own Redis; if the other \
         one is no more, delete its keys (`redis-cli --scan --pattern '{prefix}:*' | xargs redis-cli unlink`)"
    )]
    Stranger { prefix: String, own: String, found: String },
    #[error("no connection to Redis: {0}")]
    Unreachable(String),
    /// A server is there, and this engine does not come in by these settings.
    #[error("no connection to Redis: {0}")]
    TurnedAway(String),
    #[error("Redis has not answered this engine yet")]
    NotReachedYet,
    #[error("Redis has no memory left for this: {0}")]
    OutOfMemory(#[source] RedisError),
    #[error("{0}{way_out}", way_out = super::tls::way_out(.0))]
    Command(#[source] RedisError),
    #[error("Redis answered something else than {0}")]
    Answer(&'static str),
}

/// Answers of a server that is about to be there, or of one whose set has no master at the moment.
const SOON: [&str; 6] = ["LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"];

impl RedisProblem {
    /// What was found out about servers that answer: no engine of this cluster may use them.
    pub(crate) const fn is_of_servers(&self) -> bool {
        matches!(self, Self::Stranger { .. } | Self::TooOld(_) | Self::Evicts(_))
    }

    /// No server answers now, and one may later: nobody has to change a setting first.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::NotReachedYet => true,
            Self::Command(error) => {
                error.is_io_error()
                    || error.is_timeout()
                    || error.is_connection_dropped()
                    || error.code().is_some_and(|code| SOON.contains(&code))
            }
            _ => false,
        }
    }
}

/// Answers of a server that has not begun the work. Whoever adds one: is it checked before the script's first line?
const REFUSALS: [&str; 11] = [
    "OOM",
    "READONLY",
    "NOSCRIPT",
    "LOADING",
    "NOAUTH",
    "NOPERM",
    "BUSY",
    "MISCONF",
    "NOREPLICAS",
    "CROSSSLOT",
    "MASTERDOWN",
];

/// One call that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) happened: Happened,
    pub(crate) problem: RedisProblem,
}

impl Failure {
    /// Nothing was sent.
    pub(crate) const fn before(problem: RedisProblem) -> Self {
        Self { happened: Happened::No, problem }
    }

    /// Sent, and answered with this or not answered.
    pub(crate) fn of(error: RedisError) -> Self {
        let refused = error.code().is_some_and(|code| REFUSALS.contains(&code));
        let happened = if refused { Happened::No } else { Happened::Maybe };
        let problem = match error.code() {
            Some("OOM") => RedisProblem::OutOfMemory(error),
            _ => RedisProblem::Command(error),
        };
        Self { happened, problem }
    }

    /// Answered, with something that no script answers.
    pub(crate) const fn answer(wanted: &'static str) -> Self {
        Self { happened: Happened::Maybe, problem: RedisProblem::Answer(wanted) }
    }

    pub(crate) fn into_error(self, doing: &'static str) -> Error {
        match self.happened {
            Happened::No => Error::did_not_happen(doing, self.problem),
            Happened::Maybe => Error::may_have_happened(doing, self.problem),
        }
    }
}

/// Looks only at the answer itself: no script of ours answers with a list that has an error in it.
pub(crate) fn checked(answer: Value) -> RedisResult<Value> {
    match answer {
        Value::ServerError(error) => Err(error.into()),
        answer => Ok(answer),
    }
}

pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// This server is not the master any more, or not yet: ask again who is.
pub(crate) fn is_no_master(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

/// All values, or the first failure; which says "did not happen" only when nothing of the whole did.
pub(crate) fn all<T>(doing: &'static str, results: Vec<Result<T, Failure>>) -> Result<Vec<T>, Error> {
    let untouched =
        |result: &Result<T, Failure>| matches!(result, Err(failure) if failure.happened == Happened::No);
    let happened = if results.iter().all(untouched) { Happened::No } else { Happened::Maybe };
    let whole: Result<Vec<T>, Failure> = results.into_iter().collect();
    whole.map_err(|failure| Failure { happened, ..failure }.into_error(doing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: &'static str) -> Failure {
        let text = format!("-{code} said the server\r\n");
        let value = redis::parse_redis_value(text.as_bytes()).unwrap();
        Failure::of(value.extract_error().unwrap_err())
    }

    #[test]
    fn only_a_refusal_says_that_nothing_happened() {
        for code in REFUSALS {
            assert_eq!(answered(code).happened, Happened::No, "{code}");
        }
        assert_eq!(answered("ERR").happened, Happened::Maybe);
        assert!(matches!(answered("OOM").problem, RedisProblem::OutOfMemory(_)));
        let silent = || RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        assert_eq!(Failure::of(silent()).happened, Happened::Maybe, "a timeout never means: not done");
    }

    #[test]
    fn a_server_that_is_away_is_told_from_one_that_refuses() {
        let silent = RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        assert!(RedisProblem::Command(silent).is_away());
        assert!(RedisProblem::Unreachable("refused".to_owned()).is_away());
        assert!(SOON.iter().all(|code| answered(code).problem.is_away()));
        for mine in ["NOAUTH", "NOPERM", "WRONGPASS", "ERR"] {
            assert!(!answered(mine).problem.is_away(), "{mine}");
        }
        assert!(!RedisProblem::TooOld("6".to_owned()).is_away());
    }

    #[test]
    fn a_whole_of_which_a_part_was_done_may_have_happened() {
        let refused = || Err(Failure::before(RedisProblem::Unreachable("x".to_owned())));
        assert_eq!(all::<()>("do", vec![refused(), refused()]).unwrap_err().happened, Happened::No);
        assert_eq!(all("do", vec![Ok(()), refused()]).unwrap_err().happened, Happened::Maybe);
        assert_eq!(all::<()>("do", vec![Ok(()), Ok(())]).unwrap().len(), 2);
    }
}
