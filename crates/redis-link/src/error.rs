//! Errors of Redis, with the information if the work took effect nevertheless. A timeout never means "not done": a
//! command may have run. No error may show a password, so none carries a URL.

use crate::way_out::way_out;
use punctual_contract::{Error as ContractError, Happened};
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkError {
    /// `value` is quoted where it is shown.
    #[error("the {field} {value} in the address of Redis {reason}; {way_out}")]
    Address { field: &'static str, value: String, reason: String, way_out: &'static str },
    #[error("no connection to Redis: {0}")]
    Unreachable(String),
    /// A server answers, and refuses these settings.
    #[error("no connection to Redis: {0}")]
    TurnedAway(String),
    #[error("Redis has no memory left for this: {0}")]
    OutOfMemory(#[source] RedisError),
    #[error("{0}{way_out}", way_out = way_out(.0))]
    Command(#[source] RedisError),
    #[error("Redis answered something else than {0}")]
    Answer(&'static str),
}

/// Answers of a server that will soon be available, or whose set has no master at the moment.
const SOON: [&str; 6] = ["LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"];

/// An address that cannot be used.
pub(crate) fn refused<T>(
    field: &'static str,
    value: &str,
    reason: impl Into<String>,
    way_out: &'static str,
) -> Result<T, LinkError> {
    Err(LinkError::Address { field, value: format!("{value:?}"), reason: reason.into(), way_out })
}

impl LinkError {
    /// True if no server answers now, and one may later, without a changed setting.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
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

/// Answers of a server that has not begun a script. Before adding one, verify that it is checked before the
/// script's first line.
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

/// One failed call. `P`: `LinkError`, or another crate's extension of it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{problem}")]
pub struct Failure<P: std::error::Error + 'static = LinkError> {
    /// No: it was not sent, or refused before it began. Maybe: it was sent, and no answer says more.
    pub happened: Happened,
    #[source]
    pub problem: P,
}

/// The answer to one command.
pub type Answer = Result<Value, Failure>;

impl<P: std::error::Error + Send + Sync + 'static> Failure<P> {
    /// A failure before anything was sent.
    pub const fn before(problem: P) -> Self {
        Self { happened: Happened::No, problem }
    }

    /// The failure with the same problem as an error of another crate.
    pub fn lift<Q: std::error::Error + 'static + From<P>>(self) -> Failure<Q> {
        Failure { happened: self.happened, problem: self.problem.into() }
    }

    #[must_use]
    pub fn into_error(self, doing: &'static str) -> ContractError {
        match self.happened {
            Happened::No => ContractError::did_not_happen(doing, self.problem),
            Happened::Maybe => ContractError::may_have_happened(doing, self.problem),
        }
    }
}

impl<P: std::error::Error + From<LinkError> + 'static> Failure<P> {
    /// An answer of an unexpected form.
    pub fn answer(wanted: &'static str) -> Self {
        Self { happened: Happened::Maybe, problem: LinkError::Answer(wanted).into() }
    }
}

impl Failure {
    /// The command was sent, and got this answer or none. A plain command that the server refuses has done
    /// nothing; a script may have done a part.
    pub(crate) fn of(error: RedisError, is_script: bool) -> Self {
        let was_not_sent =
            matches!(error.kind(), ErrorKind::InvalidClientConfig | ErrorKind::AuthenticationFailed);
        let did_nothing = error.code().map_or(was_not_sent, |code| !is_script || REFUSALS.contains(&code));
        let happened = if did_nothing { Happened::No } else { Happened::Maybe };
        let problem = match error.code() {
            Some("OOM") => LinkError::OutOfMemory(error),
            _ => LinkError::Command(error),
        };
        Self { happened, problem }
    }

    /// The command was sent, and not answered.
    pub(crate) fn silent(said: &str) -> Self {
        Self::of(std::io::Error::new(std::io::ErrorKind::TimedOut, said).into(), true)
    }

    pub(crate) const fn redis(&self) -> Option<&RedisError> {
        match &self.problem {
            LinkError::Command(error) | LinkError::OutOfMemory(error) => Some(error),
            _ => None,
        }
    }

    /// The code of a refusal, such as "NOGROUP". `None` if there was no answer.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.redis()?.code()
    }

    /// `host:port` of the Cluster's node that has the key.
    #[must_use]
    pub fn moved_to(&self) -> Option<&str> {
        self.redis()?.redirect_node().map(|(address, _)| address)
    }

    /// The server has answered that it did not begin, and another one may.
    pub(crate) fn is_unstarted(&self) -> bool {
        self.redis().is_some_and(|error| is_no_script(error) || is_no_master(error))
    }
}

/// Checks only the answer itself: none of our scripts returns a list that contains an error.
pub(crate) fn checked(command: &Cmd, answer: Value) -> Answer {
    match answer {
        Value::ServerError(error) => Err(Failure::of(error.into(), is_script(command))),
        answer => Ok(answer),
    }
}

pub(crate) fn is_script(command: &Cmd) -> bool {
    command.args_iter().next().is_some_and(|name| matches!(name, redis::Arg::Simple(b"EVALSHA" | b"EVAL")))
}

pub(crate) fn is_no_script(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
}

/// This server is no longer, or not yet, the master: ask for the master again.
fn is_no_master(error: &RedisError) -> bool {
    matches!(error.kind(), ErrorKind::Server(ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(code: &'static str, is_script: bool) -> Failure {
        let text = format!("-{code} said the server\r\n");
        let value = redis::parse_redis_value(text.as_bytes()).unwrap();
        Failure::of(value.extract_error().unwrap_err(), is_script)
    }

    #[test]
    fn only_a_refusal_says_that_nothing_happened() {
        for code in REFUSALS {
            assert_eq!(answered(code, true).happened, Happened::No, "{code}");
        }
        assert_eq!(answered("ERR", true).happened, Happened::Maybe, "the script may have written before");
        assert_eq!(answered("ERR", false).happened, Happened::No, "a command is done or refused");
        assert!(matches!(answered("OOM", true).problem, LinkError::OutOfMemory(_)));
        for is_script in [true, false] {
            let silent = RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
            let failure = Failure::of(silent, is_script);
            assert_eq!(failure.happened, Happened::Maybe, "a timeout never means: not done");
            assert_eq!(failure.code(), None);
        }
    }

    #[test]
    fn scripts_are_told_from_plain_commands() {
        let mut call = redis::cmd("EVALSHA");
        call.arg("hash").arg(0);
        assert!(is_script(&call) && is_script(&redis::cmd("EVAL")) && !is_script(&redis::cmd("XADD")));
        assert_eq!(answered("NOGROUP", false).code(), Some("NOGROUP"));
        let moved = redis::parse_redis_value(b"-MOVED 7 h:1\r\n").unwrap().extract_error().unwrap_err();
        assert_eq!(Failure::of(moved, false).moved_to(), Some("h:1"));
    }

    #[test]
    fn a_server_that_is_away_is_told_from_one_that_refuses() {
        let silent = RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        assert!(LinkError::Command(silent).is_away());
        assert!(LinkError::Unreachable("refused".to_owned()).is_away());
        assert!(SOON.iter().all(|code| answered(code, true).problem.is_away()));
        for mine in ["NOAUTH", "NOPERM", "WRONGPASS", "ERR"] {
            assert!(!answered(mine, true).problem.is_away(), "{mine}");
        }
    }
}
