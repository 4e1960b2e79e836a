//! Errors of the hot set in Redis: those of its connections (`redis_link::LinkError`), and an engine's
//! findings about servers and keys.

use punctual_contract::{Error, Happened};
use punctual_redis_link as redis_link;

#[derive(Clone, Debug, thiserror::Error)]
pub enum RedisProblem {
    #[error(transparent)]
    Link(#[from] redis_link::LinkError),
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
    #[error("Redis has not answered this engine yet")]
    NotReachedYet,
}

impl RedisProblem {
    /// A finding about servers that answer: no engine of this cluster may use them.
    pub(crate) const fn is_of_servers(&self) -> bool {
        matches!(self, Self::Stranger { .. } | Self::TooOld(_) | Self::Evicts(_))
    }

    /// True if no server answers now, and one may later, without a changed setting.
    #[must_use]
    pub fn is_away(&self) -> bool {
        match self {
            Self::NotReachedYet => true,
            Self::Link(error) => error.is_away(),
            _ => false,
        }
    }

    /// Answered, with something that no script answers.
    pub(crate) const fn answer(wanted: &'static str) -> Self {
        Self::Link(redis_link::LinkError::Answer(wanted))
    }
}

pub(crate) type Failure = redis_link::Failure<RedisProblem>;

/// An answer, with its failure among those of the hot set.
pub(crate) fn lifted<T>(answer: Result<T, redis_link::Failure>) -> Result<T, Failure> {
    answer.map_err(redis_link::Failure::lift)
}

/// All values, or the first failure. It says "did not happen" only if no part happened.
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

    #[test]
    fn a_whole_of_which_a_part_was_done_may_have_happened() {
        let refused = || Err(Failure::before(RedisProblem::NotReachedYet));
        assert_eq!(all::<()>("do", vec![refused(), refused()]).unwrap_err().happened, Happened::No);
        assert_eq!(all("do", vec![Ok(()), refused()]).unwrap_err().happened, Happened::Maybe);
        assert_eq!(all::<()>("do", vec![Ok(()), Ok(())]).unwrap().len(), 2);
        assert!(!RedisProblem::TooOld("6".to_owned()).is_away() && RedisProblem::NotReachedYet.is_away());
    }
}
