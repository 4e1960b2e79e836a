//! The executors of this engine. Heartbeats are collected in memory and written together every few seconds, never on the path
//! of a lease. The desired state that operators set reaches every engine within seconds. Must not decide who has a task: a
//! dead executor loses a task when its lease ends, and not before.

pub(crate) mod state;

use crate::{core::Core, engine::Engine};
use punctual_contract::Error;
use punctual_domain::{
    executor::{DesiredState, Roll},
    name::Name,
    time::Millis,
};
use state::Heartbeat;
use std::{sync::Arc, time::Duration};

pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// The period in which desired states that other engines set are read.
const LOOK_AFTER_MS: i64 = 2_000;
const ROLL_AFTER_MS: i64 = 5_000;
/// The dead are shown for a day, and those that left are remembered while an older sign of theirs may be under way.
const FORGET_DEAD_MS: i64 = 24 * 3_600_000;
const FORGET_LEFT_MS: i64 = 60_000;

impl Engine {
    /// Remembers an executor's heartbeat, which is written soon. Returns its desired state.
    #[must_use]
    pub fn executor_seen(&self, seen: Heartbeat) -> DesiredState {
        self.core.callers.executor_registry.seen(seen, self.core.now())
    }

    /// Waits until an executor's desired state is to serve, or, if `serves` is false, is not.
    pub async fn until_executor(&self, namespace: &Name, name: &Name, serves: bool) {
        self.core.callers.executor_registry.until(namespace, name, serves).await;
    }

    /// Sets an executor's desired state and returns the previous one. It takes effect here before the answer, at
    /// other engines within seconds. `None` if no executor has this name.
    ///
    /// # Errors
    /// A failing store.
    pub async fn desired_state_of_executor(
        &self,
        namespace: &Name,
        name: &Name,
        desired: DesiredState,
    ) -> Result<Option<DesiredState>, crate::Error> {
        let (core, namespace, name) = (Arc::clone(&self.core), namespace.clone(), name.clone());
        self.run(async move { Ok(set_desired_state(&core, &namespace, &name, desired).await?) }).await
    }

    /// Executors of all namespaces as of a few seconds ago, and deaths found, at the engine that counts them;
    /// all zero at others.
    #[must_use]
    pub fn roll_of_executors(&self) -> Roll {
        self.core.callers.executor_registry.roll()
    }
}

/// Signs written.
pub(crate) async fn run_once(core: &Core, now: Millis) -> Result<usize, Error> {
    let _asking = core.callers.executor_registry.asking.lock().await;
    let written = write(core, now).await?;
    sweep_silent(core, now).await?;
    Ok(written)
}

async fn write(core: &Core, now: Millis) -> Result<usize, Error> {
    let signs = core.callers.executor_registry.signs(now);
    let looked_at = core.callers.executor_registry.roll.lock().looked_at;
    let written = signs.len();
    if written > 0 || is_time(looked_at, LOOK_AFTER_MS, now) {
        match core.store.note_executors(signs.clone()).await {
            Ok(wished) => core.callers.executor_registry.learn(wished),
            Err(error) => {
                core.callers.executor_registry.unwritten(signs);
                return Err(error);
            }
        }
        core.callers.executor_registry.roll.lock().looked_at = Some(now);
    }
    Ok(written)
}

async fn sweep_silent(core: &Core, now: Millis) -> Result<(), Error> {
    let rolled_at = core.callers.executor_registry.roll.lock().rolled_at;
    if core.leads() && is_time(rolled_at, ROLL_AFTER_MS, now) {
        let roll = core.store.sweep_silent(now, now.plus(-FORGET_DEAD_MS), now.plus(-FORGET_LEFT_MS)).await?;
        let mut called = core.callers.executor_registry.roll.lock();
        (called.rolled_at, called.died, called.roll) = (Some(now), called.died + roll.died, roll);
        if roll.died > 0 {
            tracing::warn!(
                executors = roll.died,
                "executors fell silent; their tasks run elsewhere as leases end"
            );
        }
    } else if !core.leads() {
        core.callers.executor_registry.roll.lock().roll = Roll::default();
    }
    Ok(())
}

fn is_time(at: Option<Millis>, after_ms: i64, now: Millis) -> bool {
    // A clock that was set back begins again.
    at.is_none_or(|at| at.plus(after_ms) <= now || at > now)
}

/// A desired state takes effect here before the answer, and at other engines within seconds.
pub(crate) async fn set_desired_state(
    core: &Core,
    namespace: &Name,
    name: &Name,
    desired: DesiredState,
) -> Result<Option<DesiredState>, Error> {
    let _asking = core.callers.executor_registry.asking.lock().await;
    let mut stood = core.store.desired_state_of_executor(namespace, name, desired).await?;
    if stood.is_none() {
        // The executor may be new.
        write(core, core.now()).await?;
        stood = core.store.desired_state_of_executor(namespace, name, desired).await?;
    }
    if stood.is_some() {
        core.callers.executor_registry.learn_one((namespace.clone(), name.clone()), desired);
    }
    Ok(stood)
}
