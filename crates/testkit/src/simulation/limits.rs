//! Limits in the world: a limited queue, a limiter that can lose its grants, and the conditions after every
//! step and when all is quiet. Must not ask the engine which attempts are in flight: the store says so.

use super::{
    setup::Faults,
    world::{World, queue},
};
use crate::decorators::{methods_of, names::*};
use parking_lot::Mutex;
use punctual_domain::{
    settings::{QueueSettings, Rate, Retries, ScopeSettings, Setting},
    task::Demands,
};
use punctual_hot::MemoryLimiter;
use std::{collections::HashMap, sync::Arc, time::Duration};

const MOST: u32 = 3;
pub(super) const MOST_OF_A_KEY: u32 = 1;
pub(super) const MOST_RETRIES: u32 = 2;
const RATE: Rate = Rate { limit: 2, period_ms: 1_000, burst: 2 };
const KEYS: [Option<&str>; 4] = [Some("a"), Some("b"), None, Some("a")];
/// More than there ever is.
const ALL: usize = 10_000;
/// The number of steps after which the reconciler has checked everything, after its grace.
const QUIET_STEPS: usize = 10;
const QUIET_STEP_MS: u64 = 5_000;

/// A limiter in memory that outlives engines, and may lose some of its members.
#[derive(Debug, Default)]
pub(super) struct Losing(Mutex<Arc<MemoryLimiter>>);

impl Losing {
    fn now(&self) -> Arc<MemoryLimiter> {
        Arc::clone(&self.0.lock())
    }

    /// Only the `keep` oldest are left, as after a failover; and it knows that something may be missing.
    async fn lose(&self, keep: usize) -> Result<(), Error> {
        let mut members = self.now().members(Millis::MAX, 0, ALL).await?;
        members.sort_by_key(|member| (member.granted_at, member.member));
        members.truncate(keep);
        let left = MemoryLimiter::default();
        left.restore(members).await?;
        *self.0.lock() = Arc::new(left);
        Ok(())
    }
}

methods_of! { Limiter passes(now) Losing {} }

impl World {
    pub(super) async fn set_limits(&self) -> Result<(), String> {
        if !self.is_limited() {
            return Ok(());
        }
        let of_queue = QueueSettings {
            concurrency: Some(MOST),
            key_concurrency: Some(MOST_OF_A_KEY),
            rate: Some(RATE),
            retries: Retries { concurrency: Some(MOST_RETRIES), ..Retries::default() },
            ..QueueSettings::default()
        };
        let of_all = ScopeSettings { concurrency: Some(MOST), ..ScopeSettings::default() };
        let all = [
            (settings::Scope::Queue(queue()), Setting::Queue(Box::new(of_queue))),
            (settings::Scope::Everything, Setting::Scope(of_all)),
        ];
        for (scope, setting) in all {
            let save = SaveSetting { scope, setting: Some(setting), expected: None, by: "test".to_owned() };
            self.truth.save_setting(save, self.now()).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// The demands of the next task.
    pub(super) fn demands(&self) -> Demands {
        let key = KEYS.get(self.tasks.len() % KEYS.len()).copied().flatten();
        let concurrency_key = key.filter(|_| self.is_limited()).map(str::to_owned);
        Demands { concurrency_key, ..Demands::default() }
    }

    pub(super) async fn lose_members(&mut self, keep: usize) -> Result<(), String> {
        self.starts.clear();
        self.limiter.lose(keep).await.map_err(|error| error.to_string())
    }

    /// Checks that the store has no more in flight than the limits allow, and that executors received no more than
    /// the rate. If back ends fail, a lease may exist that its engine wanted to return: then the executors' own tasks
    /// count.
    pub(super) async fn check_limits(&self) -> Result<(), String> {
        if !self.is_limited() {
            return Ok(());
        }
        let mut leased = self.truth.in_flight(None, ALL).await.map_err(|error| error.to_string())?.0;
        if !self.is_without_faults() {
            let handed = |task: &Task| {
                let all = self.held.iter().chain(&self.given_up);
                all.into_iter().any(|known| known.place.id == task.place.id && known.fence == task.fence)
            };
            leased.retain(handed);
        }
        let mut keys = HashMap::<&str, u32>::new();
        for key in leased.iter().filter_map(|task| task.ask.demands.concurrency_key.as_deref()) {
            *keys.entry(key).or_default() += 1;
        }
        let count = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
        let retries = count(leased.iter().filter(|task| task.attempt > 1).count());
        let of_a_key = keys.into_values().max().unwrap_or(0);
        if count(leased.len()) > MOST || of_a_key > MOST_OF_A_KEY || retries > MOST_RETRIES {
            let shown: Vec<String> = leased.iter().map(super::check::summary).collect();
            return Err(format!(
                "limits: {} in flight, {of_a_key} of a key, {retries} retries: {}",
                leased.len(),
                shown.join("; ")
            ));
        }
        self.check_rate()
    }

    /// An engine that fell asleep hands over tasks that were granted earlier: only the starts of a single
    /// engine show the rate.
    fn check_rate(&self) -> Result<(), String> {
        if self.is_shared() {
            return Ok(());
        }
        for (nth, first) in self.starts.iter().enumerate() {
            for (count, last) in (1..).zip(self.starts.iter().skip(nth)) {
                let brought = last.since(*first) * i64::from(RATE.limit) / RATE.period_ms;
                if count > i64::from(RATE.burst) + brought {
                    return Err(format!("rate: {count} starts from {first} to {last}"));
                }
            }
        }
        Ok(())
    }

    /// Checks, after everything has finished, that nothing is in flight and no slot is held.
    pub(super) async fn check_no_slot_is_left(&mut self) -> Result<(), String> {
        if !self.is_limited() {
            return Ok(());
        }
        for _ in 0..QUIET_STEPS {
            self.wait(Duration::from_millis(QUIET_STEP_MS)).await;
            self.run_once().await;
        }
        let members = self.limiter.members(Millis::MAX, 0, ALL).await.map_err(|error| error.to_string())?;
        let leased = self.truth.in_flight(None, ALL).await.map_err(|error| error.to_string())?.0;
        match (members.as_slice(), leased.as_slice()) {
            ([], []) => Ok(()),
            _ => Err(format!("slots leaked: {members:?}; in flight: {}", leased.len())),
        }
    }

    fn is_without_faults(&self) -> bool {
        self.setup.faults == Faults::None
    }
}
