//! Nodes on one store, each of which dies or sleeps at any of its calls, for the simulations of schedules, of
//! their changes and of workflows. Does not know their work.

use super::mortal::{Life, LifeEnd, Mortal};
use crate::clock::ManualClock;
use punctual_bus::MemoryBus;
use punctual_contract::Store;
use punctual_domain::name::{Name, QueueKey};
use punctual_engine::{Backends, Engine, Options};
use punctual_hot::{MemoryLimiter, NoHot};
use punctual_store::sqlite::SqliteStore;
use std::{pin::Pin, sync::Arc};

pub(super) type NodeWork = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) fn queue() -> QueueKey {
    QueueKey { namespace: Name::default_namespace(), queue: Name::new("sim").expect("a plain name") }
}

pub(super) fn engine_on(store: Arc<dyn Store>, clock: &ManualClock) -> Engine {
    let backends = Backends {
        store,
        hot: Arc::new(NoHot),
        limiter: Arc::new(MemoryLimiter::default()),
        bus: Arc::new(MemoryBus::default()),
        clock: Arc::new(clock.clone()),
        blobs: None,
        shared: None,
    };
    Engine::new(backends, Options { keep_succeeded_ms: 86_400_000, ..Options::default() })
}

/// Creates the part of an engine on the store of its life.
type Make<P> = fn(Engine, Arc<SqliteStore>, Arc<Life>) -> P;

struct MortalNode<P> {
    /// The part that works on the node.
    part: P,
    life: Arc<Life>,
    asleep: Option<NodeWork>,
}

pub(super) struct Nodes<P> {
    store: Arc<SqliteStore>,
    clock: ManualClock,
    make: Make<P>,
    nodes: Vec<MortalNode<P>>,
}

impl<P: Clone> Nodes<P> {
    pub(super) fn new(count: usize, store: &Arc<SqliteStore>, clock: &ManualClock, make: Make<P>) -> Self {
        let mut nodes = Self { store: Arc::clone(store), clock: clock.clone(), make, nodes: Vec::new() };
        nodes.nodes = (0..count).map(|_| nodes.begin()).collect();
        nodes
    }

    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }

    fn begin(&self) -> MortalNode<P> {
        let (life, inner) = (Life::new(), self.store.clone() as Arc<dyn Store>);
        let engine = engine_on(Arc::new(Mortal { inner, life: Arc::clone(&life) }), &self.clock);
        let part = (self.make)(engine, Arc::clone(&self.store), Arc::clone(&life));
        MortalNode { part, life, asleep: None }
    }

    /// Lets a running node work; with an end, for at most this many calls. A new one replaces a node that died.
    pub(super) async fn work(
        &mut self,
        nth: usize,
        end: Option<LifeEnd>,
        calls: usize,
        work: impl FnOnce(P) -> NodeWork,
    ) {
        let Some(node) = self.nodes.get_mut(nth).filter(|node| node.asleep.is_none()) else { return };
        let mut work = work(node.part.clone());
        if let Some(end) = end {
            node.life.end_after(calls, end);
        }
        let has_ended = tokio::select! {
            biased;
            () = &mut work => true,
            () = node.life.fell_asleep() => false,
        };
        if !has_ended {
            node.asleep = Some(work);
        } else if node.life.is_dead() {
            let fresh = self.begin();
            if let Some(place) = self.nodes.get_mut(nth) {
                *place = fresh;
            }
        } else {
            node.life.wake();
        }
    }

    /// One that fell asleep continues where it was.
    pub(super) async fn go_on(&mut self, nth: usize) {
        let Some(node) = self.nodes.get_mut(nth) else { return };
        if let Some(work) = node.asleep.take() {
            node.life.wake();
            work.await;
        }
    }
}
