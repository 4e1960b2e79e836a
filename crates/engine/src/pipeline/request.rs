//! A request for tasks, and what its executor accepts. Pure: leases nothing, and knows no engine.

use punctual_contract::{hot::HotEntry, limiter::Limit};
use punctual_domain::{
    limits::Scope,
    name::{Name, QueueKey},
    versions,
};
use std::{collections::BTreeSet, sync::Arc};

#[derive(Debug, Clone)]
pub struct LeaseRequest {
    pub queue: Arc<QueueKey>,
    pub max: usize,
    /// The maximum time to wait for the first task.
    pub wait_ms: u64,
    pub lease_ms: i64,
    pub executor: String,
    /// The version of its handlers. `None` if it gets only tasks that demand none.
    pub version: Option<String>,
}

/// Restrictions that keep an executor from accepting any task of a queue; usually none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restrictions {
    /// The maximum number of tasks that the executor holds.
    pub(crate) bound: Option<Limit>,
    pub(crate) kinds: Option<Arc<BTreeSet<Name>>>,
}

impl Restrictions {
    pub(crate) fn are_none(&self) -> bool {
        self.bound.is_none() && self.kinds.is_none()
    }
}

/// The restrictions that an executor declares.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// The maximum number of tasks that the executor holds at a time, over all queues of the namespace, leased at any
    /// engine.
    pub concurrency: Option<u32>,
    /// `None` accepts tasks of any kind.
    pub kinds: Option<BTreeSet<Name>>,
}

impl Only {
    pub(crate) fn restrictions(self, request: &LeaseRequest) -> Option<Restrictions> {
        let bound = match self.concurrency {
            None => None,
            Some(most) => {
                let executor = Name::new(&request.executor).ok()?;
                Some(Limit { scope: Scope::Executor(request.queue.namespace.clone(), executor), most })
            }
        };
        Some(Restrictions { bound, kinds: self.kinds.map(Arc::new) })
    }
}

/// True if the executor's version may run the task.
pub(crate) fn may_run(entry: &HotEntry, request: &LeaseRequest) -> bool {
    let demanded = entry.demands().handler_versions.as_deref();
    versions::may_run(demanded, request.version.as_deref())
}
