//! One outage of the private Redis or MariaDB of a run, in its middle, with its beginning and its end. The lateness
//! that it caused is in the run's lateness; the checker decides whether the promises held.

pub(crate) mod cause;

use crate::{clock::now_us, fault::FaultOptions, progress::note, report::OutageReport, server::Server};
use cause::Cause;
use clap::ValueEnum as _;

#[derive(Debug)]
pub(crate) struct Outage {
    what: Cause,
    start_us: i64,
    after_us: i64,
    for_us: i64,
    begun_us: Option<i64>,
    ended_us: Option<i64>,
}

impl Outage {
    pub(crate) fn new(options: &FaultOptions, start_us: i64) -> Option<Self> {
        let (after_us, for_us) = (options.outage_after * 1_000, options.outage_for * 1_000);
        options.outage.map(|what| Self { what, start_us, after_us, for_us, begun_us: None, ended_us: None })
    }

    pub(crate) const fn is_over(&self) -> bool {
        self.ended_us.is_some()
    }

    /// Begins and ends when that is due.
    pub(crate) async fn turn(&mut self, server: &mut Server) -> anyhow::Result<()> {
        match (self.begun_us, self.ended_us) {
            (None, _) if now_us() >= self.start_us + self.after_us => {
                note(&format!("outage: {:?}", self.what));
                self.begun_us = Some(now_us());
                server.begin_outage(self.what).await
            }
            (Some(begun_us), None) if now_us() >= begun_us + self.for_us => {
                server.end_outage(self.what).await?;
                note("the outage is over");
                self.ended_us = Some(now_us());
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// `None` if it did not begin.
    pub(crate) fn report(&self) -> Option<OutageReport> {
        let ms = |span_us: i64| span_us as f64 / 1e3;
        let begun_us = self.begun_us?;
        Some(OutageReport {
            what: self.what.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned()),
            after_s: ms(begun_us - self.start_us) / 1e3,
            lasted_ms: self.ended_us.map(|ended_us| ms(ended_us - begun_us)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        command::{LoadCommand, Options},
        run::options::RunOptions,
        server::Started,
    };
    use clap::Parser as _;

    fn options(words: &str) -> RunOptions {
        let words = format!("loadtest run --scenario burst {words}");
        let LoadCommand::Run(options) = Options::try_parse_from(words.split_whitespace()).unwrap().command
        else {
            unreachable!("the words say run")
        };
        *options
    }

    #[test]
    fn an_outage_is_of_what_was_started() {
        let both = "--spawn --store mysql --hot redis --outage";
        let [ways, proxied] = [format!("{both} redis-silent"), format!("{both} mysql-silent --proxied")];
        assert!(options(&ways).check().is_err());
        for good in [format!("{both} redis-empty"), format!("{both} mysql-kill"), proxied] {
            options(&good).check().unwrap();
        }
        assert!(options("--spawn --outage redis-kill").check().is_err());
        assert!(options("--spawn --hot redis --outage mysql-kill").check().is_err());
    }

    /// An intended outage is no death, and Redis is back, empty, when it is over.
    #[tokio::test]
    async fn redis_goes_is_not_missed_and_comes_back_empty() {
        let options = options("--spawn --hot redis --outage redis-empty --outage-after 0s --outage-for 0s");
        let started = Started::without_engines(&options.server).await;
        let mut server = Server::Started(Box::new(started));
        let mut outage = Outage::new(&options.faults, 0).unwrap();
        assert!(outage.report().is_none());
        outage.turn(&mut server).await.unwrap();
        assert!(!outage.is_over());
        server.check_alive().unwrap();
        outage.turn(&mut server).await.unwrap();
        assert!(outage.is_over());
        server.check_alive().unwrap();
        assert_eq!(outage.report().unwrap().what, "redis-empty");
    }

    async fn with_redis() -> Started {
        Started::without_engines(&options("--spawn --hot redis").server).await
    }

    #[tokio::test]
    async fn a_stale_redis_has_what_it_had_when_the_outage_began() {
        let mut started = with_redis().await;
        started.redis_answers(&["SET", "first", "1"]).await;
        started.begin(Cause::RedisStale).await.unwrap();
        started.redis_answers(&["SET", "second", "1"]).await;
        started.end(Cause::RedisStale).await.unwrap();
        assert_eq!(started.redis_answers(&["EXISTS", "first"]).await, "1");
        assert_eq!(started.redis_answers(&["EXISTS", "second"]).await, "0");
    }

    #[tokio::test]
    async fn a_full_redis_refuses_writes_until_the_outage_is_over() {
        let mut started = with_redis().await;
        started.begin(Cause::RedisFull).await.unwrap();
        assert!(started.redis_answers(&["SET", "key", "1"]).await.contains("OOM"));
        started.end(Cause::RedisFull).await.unwrap();
        assert_eq!(started.redis_answers(&["SET", "key", "1"]).await, "OK");
    }
}
