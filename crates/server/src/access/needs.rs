//! The permission that each route needs of the caller, by path and method. Must never import the server's state,
//! which holds this table.

use axum::http::Method;
use punctual_domain::access::Permission;
use std::{collections::HashMap, sync::Arc};

/// The name of the one security scheme, and of the extension that says the permission.
pub(crate) const SCHEME: &str = "token";
pub(crate) const PERMISSION: &str = "x-permission";

/// The place that checks that a token reaches the requested scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeCheck {
    /// The handler: what is not reached is not there.
    Own,
    /// The guard: in a namespace that is not reached it is denied.
    Namespace,
    /// The guard: it is of all namespaces and queues.
    Everything,
}

/// The place that records the author of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// The route changes nothing.
    Nowhere,
    /// Only the histories of tasks and workflows record the change: such changes are very frequent.
    InHistories,
    /// The transaction of the change records it in the history of the one task that it changes; the audit has an
    /// entry in addition.
    Beside,
    /// The audit records the change before it is made.
    Before,
}

#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub(crate) permission: Permission,
    pub(crate) scope_check: ScopeCheck,
    pub(crate) operation: Arc<str>,
    pub(crate) recorded: Recorded,
}

#[derive(Clone, Debug)]
pub(crate) enum Guard {
    /// Anybody may.
    Open,
    Needs(Need),
}

/// The needs by registered path, and method.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs(HashMap<String, Vec<(Method, Guard)>>);

impl Needs {
    /// The needs of a method of a route. `None` if it is not registered.
    pub(crate) fn of(&self, method: &Method, route: &str) -> Option<&Guard> {
        // What is registered for GET answers HEAD too.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.0.get(route)?.iter().find(|needs| needs.0 == *method).map(|needs| &needs.1)
    }

    /// The value of `Allow`. `None` if the route is not registered.
    pub(crate) fn allowed(&self, route: &str) -> Option<String> {
        let guards = self.0.get(route)?;
        let mut words: Vec<&str> = guards.iter().map(|guard| guard.0.as_str()).collect();
        if words.contains(&Method::GET.as_str()) {
            words.push(Method::HEAD.as_str());
        }
        Some(words.join(","))
    }

    pub(super) fn add(&mut self, path: &str, method: Method, guard: Guard) {
        self.0.entry(path.to_owned()).or_default().push((method, guard));
    }

    pub(crate) fn extend(&mut self, other: Self) {
        for (path, guards) in other.0 {
            self.0.entry(path).or_default().extend(guards);
        }
    }

    /// Pages for people, which are no part of the interface.
    pub(crate) fn open(&mut self, method: Method, path: &str) {
        self.add(path, method, Guard::Open);
    }
}
