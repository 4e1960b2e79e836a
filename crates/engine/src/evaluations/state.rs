//! An engine's memory of evaluations: marks to remove, suspects, and subjects that are set aside. Marks nothing
//! itself.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use punctual_contract::evaluations::{EvaluationKind, EvaluationPass, SetAside};
use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, atomic::AtomicI64},
};

/// The maximum number of subjects that an alert names.
const NAMED_MAX: usize = 5;

pub(super) type BeforeHook = dyn Fn(EvaluationKind, &str) -> BoxFuture<'static, ()> + Send + Sync;
pub(super) type ThreadHook = dyn Fn(EvaluationKind, &str) + Send + Sync;

/// Called before each evaluation, so that a test can end the engine there, or make the evaluation panic.
#[derive(Clone)]
pub struct Probe {
    pub(super) before: Arc<BeforeHook>,
    pub(super) on_thread: Arc<ThreadHook>,
}

impl Probe {
    pub fn new(
        before: impl Fn(EvaluationKind, &str) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self { before: Arc::new(before), on_thread: Arc::new(|_, _| ()) }
    }

    /// Also called on the thread that evaluates.
    #[must_use]
    pub fn on_thread(self, hears: impl Fn(EvaluationKind, &str) + Send + Sync + 'static) -> Self {
        Self { on_thread: Arc::new(hears), ..self }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Probe")
    }
}

#[derive(Debug)]
pub(crate) struct Evaluations {
    /// The name in heartbeats; without heartbeats, each engine draws one.
    pub(super) engine: String,
    pub(super) turns: AtomicI64,
    pub(super) alone: Arc<tokio::sync::Mutex<()>>,
    /// Marks whose callers are gone, or that could not be removed: removed with the next.
    pub(super) left: Mutex<Vec<(EvaluationPass, Vec<i64>)>>,
    /// Other engines have marked these.
    pub(super) suspects: Mutex<HashSet<(EvaluationKind, i64)>>,
    /// The subjects that are set aside, as of the last check.
    pub(super) set_aside: Mutex<Vec<SetAside>>,
}

impl Evaluations {
    pub(crate) fn of(name: &str, is_shared: bool) -> Self {
        let engine = if is_shared { name.to_owned() } else { format!("{name}-{:016x}", fastrand::u64(..)) };
        Self {
            engine,
            turns: AtomicI64::new(1),
            alone: Arc::default(),
            left: Mutex::default(),
            suspects: Mutex::default(),
            set_aside: Mutex::default(),
        }
    }

    /// The text of the alert. `None` if nothing is set aside.
    pub(crate) fn alert(&self) -> Option<String> {
        let all = self.set_aside.lock();
        if all.is_empty() {
            return None;
        }
        let named = all.iter().take(NAMED_MAX).map(named);
        let more = all.len().saturating_sub(NAMED_MAX);
        let more = (more > 0).then(|| format!("{more} more"));
        let names: Vec<String> = named.chain(more).collect();
        Some(format!(
            "engines have died, or panicked, while they evaluated it, and it is not evaluated any more: {}",
            names.join(", ")
        ))
    }
}

fn named(set_aside: &SetAside) -> String {
    format!("{} {}/{}", set_aside.kind.word(), set_aside.namespace, set_aside.name)
}
