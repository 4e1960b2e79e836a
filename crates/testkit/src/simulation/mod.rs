//! The whole engine under a clock that only the simulation moves, against seeded lists of operations, with the
//! promises checked after each step. A failing seed prints its operations; `run` replays them. Deterministic but
//! for the engine's jitter, which no check rests on.

mod check;
mod ops;
mod world;

pub use ops::{How, Op, seeded};
pub use world::{Faults, World};

/// Runs a list of operations in a fresh world, then lets everything that is left finish.
///
/// # Errors
/// The first broken promise, and the step that broke it.
pub async fn run(ops: &[Op], faults: Faults) -> Result<(), String> {
    let mut world = World::new(faults);
    for (nth, op) in ops.iter().enumerate() {
        world.step(op).await.map_err(|it| format!("step {nth}, {op:?}: {it}"))?;
        world.check(nth).await.map_err(|it| format!("after step {nth}, {op:?}: {it}"))?;
    }
    world.finish().await.map_err(|it| format!("at the end: {it}"))
}
