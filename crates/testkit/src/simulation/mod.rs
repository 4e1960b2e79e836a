//! The complete engine, or several that share a store, against seeded lists of operations. Only the simulation moves
//! the clock, and the runtime's timers with it: run it on a runtime whose time is paused. The promises are checked
//! after each step. While one engine makes a call, the other running engines answer its requests. A failing seed
//! prints its operations; `run` replays them. Deterministic except for the engine's jitter, on which no check
//! depends.

mod back_ends;
mod callers;
mod changes;
mod check;
mod engines;
mod known;
mod limits;
mod mortal;
mod nodes;
mod ops;
mod order;
mod recorder;
mod schedules;
mod setup;
mod stores;
mod workflows;
mod world;

use crate::twins::Twin;

pub use changes::run_changes;
pub use ops::{
    EngineWork, How, Op, seeded, seeded_for_many, seeded_with_order, with_a_bus, with_limits,
    with_the_hot_set_away,
};
pub use order::{Ready, ReadyOrder, judge};
pub use schedules::run_schedules;
pub use setup::{Due, Faults, Hands, Setup};
pub use workflows::run_workflows;
pub use world::World;

/// Runs a list of operations in a fresh world, then lets all remaining work finish. Returns the engines'
/// choices.
///
/// # Errors
/// The first broken promise, and the step that broke it.
pub async fn run(ops: &[Op], setup: Setup) -> Result<ReadyOrder, String> {
    live(ops, setup).await.map(|world| world.order)
}

/// As `run`, and the checker of histories looks at what callers and executors saw. Not for a bus: it may deliver what its
/// engine believes refused, and the specification of a task does not know such hand-overs.
///
/// # Errors
/// The first broken promise, or a history that no single task can have had.
pub async fn run_recorded(ops: &[Op], setup: Setup) -> Result<(), String> {
    live(ops, setup).await?.check_histories().await
}

async fn live(ops: &[Op], setup: Setup) -> Result<World, String> {
    let mut world = World::new(setup, None);
    world.set_limits().await?;
    for (nth, op) in ops.iter().enumerate() {
        world.step(op).await.map_err(|error| format!("step {nth}, {op:?}: {error}"))?;
        world.check(nth).await.map_err(|error| format!("after step {nth}, {op:?}: {error}"))?;
    }
    world.finish().await.map_err(|error| format!("at the end: {error}"))?;
    world.check_no_slot_is_left().await.map_err(|error| format!("after all is over: {error}"))?;
    Ok(world)
}

/// Who looks at a run on a broken twin: the checks after each step, or the checker of histories at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finder {
    Checks,
    Histories,
}

/// Runs a list of operations on a back end that breaks a promise on purpose.
///
/// # Errors
/// What was found.
pub async fn run_twin(ops: &[Op], setup: Setup, twin: Twin, finder: Finder) -> Result<(), String> {
    let mut world = World::new(setup, Some(twin));
    world.set_limits().await?;
    // A finder must not profit from what the other one has found.
    let heard = |found: Result<(), String>| if finder == Finder::Checks { found } else { Ok(()) };
    for (nth, op) in ops.iter().enumerate() {
        heard(world.step(op).await)?;
        heard(world.check(nth).await)?;
    }
    heard(world.finish().await)?;
    if finder == Finder::Histories { world.check_histories().await } else { Ok(()) }
}
