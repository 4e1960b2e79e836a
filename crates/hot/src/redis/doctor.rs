//! Diagnostic questions to the Redis of an address, each on its own connections. Returns facts; the caller
//! judges them, except for conditions that an engine refuses, whose sentences are here and in `problem`.
//! Writes nothing.

use super::{
    identity::ClusterName,
    keys::Keys,
    problem::RedisProblem,
    script::SCRIPTS,
    server::{self, Info},
};
use punctual_contract::Clock;
use punctual_redis_link::{Failure, RedisEndpoints, TimeLimits};
use redis::Value;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// All that an address names.
#[derive(Debug)]
pub struct RedisDoctor {
    place: Arc<RedisEndpoints>,
    keys: Keys,
    prefix: String,
}

/// One master's own report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedisServer {
    pub version: String,
    /// Why no engine may use it, and the remedy, or `None` if it is usable.
    pub problem: Option<String>,
    /// The eviction policy, as the server names it. Empty if it does not report one.
    pub eviction: String,
    pub has_append_file: bool,
    pub append_file_is_well: bool,
    pub used_bytes: u64,
    /// 0: no bound.
    pub max_bytes: u64,
}

/// The cluster that owns the keys of the prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marker {
    /// No engine has used the prefix yet.
    None,
    Own,
    /// The keys belong to another cluster. The text is the message with which an engine refuses to start.
    Stranger(String),
}

/// Some runs of a script that returns the time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptLooks {
    pub took: Vec<Duration>,
    /// The time by which the server's clock is ahead, by the quickest of the reads.
    pub ahead_ms: i64,
}

impl RedisDoctor {
    /// # Errors
    /// When address or prefix cannot be used.
    pub fn new(url: &str, prefix: &str, within: Duration) -> Result<Self, RedisProblem> {
        let limits = TimeLimits { connect: within, response: within, doubt: within, rest: Duration::ZERO };
        let keys = Keys::new(prefix, 1)?;
        let place = RedisEndpoints::new(url, limits, SCRIPTS.all())?;
        Ok(Self { place, keys, prefix: prefix.to_owned() })
    }

    /// Host and port of each server that the address names; behind Sentinels, of the master.
    ///
    /// # Errors
    /// See `servers`.
    pub async fn hosts(&self) -> Result<Vec<(String, u16)>, RedisProblem> {
        let mut hosts = Vec::new();
        for server in self.place.servers() {
            hosts.extend(server.host(self.place.limits).await?);
        }
        Ok(hosts)
    }

    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.place.servers().iter().all(|server| server.is_tls())
    }

    /// Reports of all masters.
    ///
    /// # Errors
    /// Fails, like every call here, if Redis cannot be reached or refuses the command.
    pub async fn servers(&self) -> Result<Vec<RedisServer>, RedisProblem> {
        let answers = self.place.router().run_everywhere(redis::cmd("INFO")).await.map_err(problem)?;
        let infos = server::read(answers).ok_or(RedisProblem::answer("INFO as text"))?;
        Ok(infos.iter().map(server).collect())
    }

    /// `own`: the number of the cluster whose engines would use it. `None` if no cluster is founded yet.
    ///
    /// # Errors
    /// See `servers`.
    pub async fn marker(&self, own: Option<i64>) -> Result<Marker, RedisProblem> {
        let mut read = redis::cmd("GET");
        read.arg(self.keys.cluster());
        let found = match self.place.router().run_one(read).await.map_err(problem)? {
            Value::Nil => return Ok(Marker::None),
            Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Value::SimpleString(text) => text,
            _ => return Err(RedisProblem::answer("the name of a cluster")),
        };
        if own.is_some_and(|own| ClusterName::is_of(&found, own)) {
            return Ok(Marker::Own);
        }
        let own = own.map_or_else(|| "not founded yet".to_owned(), |own| format!("{own:016x}"));
        let found = found.chars().filter(|letter| !letter.is_control()).take(250).collect();
        Ok(Marker::Stranger(RedisProblem::Stranger { prefix: self.prefix.clone(), own, found }.to_string()))
    }

    /// # Errors
    /// See `servers`.
    pub async fn script(&self, times: usize, clock: &dyn Clock) -> Result<ScriptLooks, RedisProblem> {
        let router = self.place.router();
        let mut looks = ScriptLooks::default();
        for _ in 0..times {
            let (asked_at, began) = (clock.now(), Instant::now());
            let there_ms = time(&router.run_one(SCRIPTS.clock.call(&[])).await.map_err(problem)?)?;
            let took = began.elapsed();
            if looks.took.iter().all(|duration| took < *duration) {
                let half_ms = i64::try_from(took.as_millis() / 2).unwrap_or(i64::MAX);
                looks.ahead_ms = there_ms - asked_at.plus(half_ms).0;
            }
            looks.took.push(took);
        }
        Ok(looks)
    }
}

fn problem(failure: Failure) -> RedisProblem {
    failure.problem.into()
}

fn server(info: &Info) -> RedisServer {
    RedisServer {
        version: info.get("redis_version").unwrap_or_default().to_owned(),
        problem: info.check().err().map(|problem| problem.to_string()),
        eviction: info.get("maxmemory_policy").unwrap_or_default().to_owned(),
        has_append_file: info.get("aof_enabled") == Some("1"),
        append_file_is_well: info
            .get("aof_last_write_status")
            .is_none_or(|last_write_status| last_write_status == "ok"),
        used_bytes: info.number("used_memory"),
        max_bytes: info.number("maxmemory"),
    }
}

fn time(answer: &Value) -> Result<i64, RedisProblem> {
    let number = |seconds: &Value| match seconds {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse::<i64>().ok(),
        Value::SimpleString(text) => text.parse().ok(),
        Value::Int(number) => Some(*number),
        _ => None,
    };
    let found = match answer {
        Value::Array(all) => match all.as_slice() {
            [seconds, micros] => number(seconds).zip(number(micros)),
            _ => None,
        },
        _ => None,
    };
    let (seconds, micros) = found.ok_or(RedisProblem::answer("the time"))?;
    Ok(seconds.saturating_mul(1_000) + micros / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_known_by_its_number_wherever_the_database_has_gone() {
        let name = ClusterName { number: 77, at: "h/d".to_owned() };
        assert!(ClusterName::is_of(&name.marker(), 77));
        assert!(!ClusterName::is_of(&name.marker(), 78));
    }

    #[test]
    fn the_time_is_read_in_milliseconds() {
        let answer = Value::Array(vec![
            Value::BulkString(b"1700000000".to_vec()),
            Value::BulkString(b"123456".to_vec()),
        ]);
        assert_eq!(time(&answer).unwrap(), 1_700_000_000_123);
        assert!(time(&Value::Nil).is_err());
    }
}
