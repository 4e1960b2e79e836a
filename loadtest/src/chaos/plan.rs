//! Plans the faults, their victims, order and durations: all of it from the seed, nothing from the run, so that a
//! seed can be run again. Must not know how a fault is caused.

use clap::ValueEnum;
use serde::Serialize;

/// A fault. What is called after MariaDB or Redis hits the server itself; `mysql` and `redis` ways are those of an engine
/// to it, or of all engines.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// SIGKILL, and started again
    EngineKill,
    /// SIGSTOP, then SIGCONT
    EnginePause,
    /// SIGTERM, which must end with 0, and started again
    EngineStop,
    MariadbKill,
    MariadbPause,
    /// SIGKILL, and started again on its append-only file
    RedisKill,
    RedisFlush,
    RedisPause,
    /// Connections to one database are reset, new ones refused
    MysqlCut,
    /// Nothing passes, and nothing is closed; then what was held passes
    MysqlSilent,
    /// What is asked arrives and no answer comes; then the connections are reset
    MysqlAnswersLost,
    MysqlSlow,
    /// The host is gone without closing anything; then it answers, and the connections of before stay silent
    MysqlVanish,
    /// One connection falls silent for ever
    MysqlOneSilent,
    RedisCut,
    RedisSilent,
    RedisAnswersLost,
    RedisSlow,
    RedisVanish,
    RedisOneSilent,
    /// No reader reads an engine's stderr any more: writing to it fails
    LogClosed,
    /// The pipe that an engine's stderr goes to is full: writing to it waits
    LogStuck,
    /// No room for the data and the log of the embedded engine
    DiskFull,
    /// The wall clock of an engine is wrong
    Clock,
}

/// The victim of a fault: two faults of one kind never happen at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Engine,
    Mariadb,
    Redis,
    Log,
    Clock,
}

impl What {
    pub(crate) fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |possible_value| possible_value.get_name().to_owned())
    }

    const fn victim(self) -> Victim {
        match self {
            // What an engine writes can be taken from it only while it runs, and it is started with its disk.
            Self::EngineKill | Self::EnginePause | Self::EngineStop | Self::DiskFull => Victim::Engine,
            Self::LogClosed | Self::LogStuck => Victim::Log,
            Self::Clock => Victim::Clock,
            Self::MariadbKill
            | Self::MariadbPause
            | Self::MysqlCut
            | Self::MysqlSilent
            | Self::MysqlAnswersLost
            | Self::MysqlSlow
            | Self::MysqlVanish
            | Self::MysqlOneSilent => Victim::Mariadb,
            _ => Victim::Redis,
        }
    }

    /// True if the fault hits the server itself, not the way of an engine to it.
    const fn is_of_server(self) -> bool {
        matches!(
            self,
            Self::MariadbKill | Self::MariadbPause | Self::RedisKill | Self::RedisFlush | Self::RedisPause
        )
    }

    pub(crate) const fn is_of_way(self) -> bool {
        matches!(self.victim(), Victim::Mariadb | Victim::Redis) && !self.is_of_server()
    }

    pub(crate) const fn is_of_mysql_way(self) -> bool {
        matches!(self.victim(), Victim::Mariadb) && !self.is_of_server()
    }

    /// The database does not answer while it lasts; others are well.
    pub(crate) const fn takes_database_away(self) -> bool {
        matches!(self, Self::MysqlCut | Self::MysqlSilent | Self::MysqlAnswersLost | Self::MysqlVanish)
    }

    /// Engines may find no server to start on while it lasts, and shortly after.
    pub(crate) const fn breaks_a_server(self) -> bool {
        matches!(self.victim(), Victim::Mariadb | Victim::Redis)
    }

    /// True if the fault is over as soon as it has happened.
    pub(crate) const fn is_instant(self) -> bool {
        matches!(self, Self::RedisFlush | Self::MysqlOneSilent | Self::RedisOneSilent)
    }

    /// The faults that can happen to this installation.
    pub(crate) fn possible(has_mysql: bool, has_redis: bool) -> Vec<Self> {
        let fits = |what: &Self| match what.victim() {
            Victim::Mariadb => has_mysql,
            Victim::Redis => has_redis,
            Victim::Engine => *what != Self::DiskFull || !has_mysql,
            Victim::Log | Victim::Clock => true,
        };
        Self::value_variants().iter().copied().filter(fits).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedFault {
    pub(crate) what: What,
    /// `None` for the server itself, or the ways of all engines.
    pub(crate) engine: Option<usize>,
    /// The database of a way to MySQL.
    pub(crate) database: usize,
    /// The duration in milliseconds; 0 for a fault that is over at once.
    pub(crate) for_ms: i64,
    /// The deviation of a clock or the delay of a way, in milliseconds.
    pub(crate) by_ms: i64,
    /// The index of one of several connections.
    pub(crate) nth: usize,
}

impl PlannedFault {
    /// The victim in words.
    pub(crate) fn whom(&self) -> String {
        let engine = self.engine.map_or_else(|| "all engines".to_owned(), |n| format!("engine {n}"));
        match self.what.victim() {
            _ if self.what.is_of_server() => String::new(),
            Victim::Mariadb => format!("{engine}, database {}{}", self.database, self.slow()),
            Victim::Clock => format!("{engine}, by {:+} ms", self.by_ms),
            Victim::Redis => engine + &self.slow(),
            Victim::Engine | Victim::Log => engine,
        }
    }

    fn slow(&self) -> String {
        let is_slow = matches!(self.what, What::MysqlSlow | What::RedisSlow);
        if is_slow { format!(", {} ms a piece", self.by_ms) } else { String::new() }
    }
}

/// Begun together, one after the other ended, and then a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlanStep {
    pub(crate) faults: Vec<PlannedFault>,
    /// The pause after everything has recovered.
    pub(crate) pause_ms: i64,
}

/// Every fault happens once before one is repeated.
#[derive(Debug)]
pub(crate) struct FaultPlan {
    random: fastrand::Rng,
    whats: Vec<What>,
    bag: Vec<What>,
    engines: usize,
    databases: usize,
    longest_ms: i64,
}

const SHORTEST_MS: i64 = 1_000;
const LONGEST_MS: i64 = 10_000;
const CLOCK_STEPS_MS: [i64; 10] =
    [300, -300, 2_000, -2_000, 60_000, -60_000, 3_600_000, -3_600_000, 14_400_000, -14_400_000];

impl FaultPlan {
    pub(crate) fn new(seed: u64, whats: Vec<What>, engines: usize, databases: usize) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let (engines, databases) = (engines.max(1), databases.max(1));
        Self { random, whats, bag: Vec::new(), engines, databases, longest_ms: LONGEST_MS }
    }

    /// Many short faults instead of few long ones.
    pub(crate) fn lasting_at_most(self, longest_ms: i64) -> Self {
        Self { longest_ms: longest_ms.max(SHORTEST_MS), ..self }
    }

    pub(crate) fn next_step(&mut self) -> PlanStep {
        let mut faults = vec![self.fault()];
        if self.random.u8(..100) < 20 {
            let second = self.fault();
            if faults.iter().all(|fault| fault.what.victim() != second.what.victim())
                && self.may_be_paired(&second)
            {
                faults.push(second);
            } else {
                self.bag.push(second.what);
            }
        }
        PlanStep { faults, pause_ms: self.random.i64(500..2_500) }
    }

    /// A log is broken while its engine runs; one engine alone has one fault at a time.
    fn may_be_paired(&self, second: &PlannedFault) -> bool {
        self.engines > 1 && second.what.victim() != Victim::Log
    }

    fn fault(&mut self) -> PlannedFault {
        if self.bag.is_empty() {
            self.bag.clone_from(&self.whats);
            self.random.shuffle(&mut self.bag);
        }
        let what = self.bag.pop().unwrap_or(What::EngineKill);
        let (engine, is_of_all) = (self.random.usize(..self.engines), self.random.u8(..100) < 30);
        let (database, for_ms) =
            (self.random.usize(..self.databases), self.random.i64(SHORTEST_MS..=self.longest_ms));
        let (nth, slow_ms) = (self.random.usize(..64), self.random.i64(20..=200));
        let step_ms = CLOCK_STEPS_MS.get(self.random.usize(..CLOCK_STEPS_MS.len())).copied().unwrap_or(300);
        let is_of_all = what.is_of_server() || (what.is_of_way() && !what.is_instant() && is_of_all);
        PlannedFault {
            what,
            engine: (!is_of_all).then_some(engine),
            database,
            for_ms: if what.is_instant() { 0 } else { for_ms },
            by_ms: if what == What::Clock { step_ms } else { slow_ms },
            nth,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn steps(seed: u64, whats: Vec<What>, engines: usize) -> Vec<PlanStep> {
        let mut plan = FaultPlan::new(seed, whats, engines, 2);
        (0..60).map(|_| plan.next_step()).collect()
    }

    #[test]
    fn a_seed_is_a_plan_and_another_seed_is_another() {
        let all = What::possible(true, true);
        assert_eq!(steps(7, all.clone(), 3), steps(7, all.clone(), 3));
        assert_ne!(steps(7, all.clone(), 3), steps(8, all, 3));
    }

    #[test]
    fn faults_last_as_long_as_they_may() {
        for longest_ms in [1_500, LONGEST_MS] {
            let mut plan = FaultPlan::new(7, What::possible(true, true), 3, 2).lasting_at_most(longest_ms);
            let faults: Vec<PlannedFault> = (0..30).flat_map(|_| plan.next_step().faults).collect();
            let longest = faults.iter().map(|fault| fault.for_ms).max().unwrap();
            assert!((longest_ms * 3 / 4..=longest_ms).contains(&longest), "{longest}");
        }
    }

    #[test]
    fn every_fault_that_is_possible_comes() {
        for (has_mysql, has_redis, engines) in [(true, true, 3), (false, false, 1)] {
            let possible = What::possible(has_mysql, has_redis);
            let come: HashSet<What> = steps(1, possible.clone(), engines)
                .into_iter()
                .flat_map(|step| step.faults)
                .map(|fault| fault.what)
                .collect();
            assert_eq!(come, possible.into_iter().collect());
        }
        assert!(!What::possible(false, false).contains(&What::MariadbKill));
        assert!(What::possible(false, false).contains(&What::DiskFull));
        assert!(!What::possible(true, true).contains(&What::DiskFull));
    }

    #[test]
    fn two_at_a_time_fall_on_different_parts_and_one_engine_has_one_at_a_time() {
        let steps = |engines| steps(3, What::possible(engines > 1, engines > 1), engines);
        assert!(steps(1).iter().all(|step| step.faults.len() == 1));
        let pairs: Vec<PlanStep> = steps(3).into_iter().filter(|step| step.faults.len() == 2).collect();
        assert!(!pairs.is_empty());
        for pair in pairs {
            assert_ne!(pair.faults[0].what.victim(), pair.faults[1].what.victim(), "{pair:?}");
        }
    }

    #[test]
    fn it_is_said_what_happens_to_whom() {
        let fault = |what, engine| PlannedFault { what, engine, database: 1, for_ms: 1, by_ms: -300, nth: 0 };
        assert_eq!(fault(What::Clock, Some(2)).whom(), "engine 2, by -300 ms");
        assert_eq!(fault(What::MysqlCut, None).whom(), "all engines, database 1");
        assert_eq!(fault(What::MariadbKill, None).whom(), "");
        assert_eq!(What::MysqlOneSilent.name(), "mysql-one-silent");
    }
}
