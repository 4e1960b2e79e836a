//! What each route needs, said where the route is registered: the router, the guard and the document have it from there, so
//! that they cannot say different things, and a route without it cannot be registered.

use crate::app::Shared;
use axum::http::Method;
use punctual_domain::access::Permission;
use std::{collections::HashMap, sync::Arc};
use utoipa::openapi::{
    OpenApi,
    extensions::ExtensionsBuilder,
    path::{Operation, PathItem},
    security::SecurityRequirement,
};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

/// The name of the one security scheme, and of the extension that says the permission.
pub(crate) const SCHEME: &str = "token";
pub(crate) const PERMISSION: &str = "x-permission";

/// Who looks at whether a token reaches what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeCheck {
    /// The handler: what is not reached is not there.
    Own,
    /// The guard: in a namespace that is not reached it is denied.
    Namespace,
    /// The guard: it is of all namespaces and queues.
    Everything,
}

/// Where it is written down who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recorded {
    /// Nothing is changed.
    Nowhere,
    /// In the histories of tasks and workflows alone: it comes by the thousand.
    InHistories,
    /// In the history of the one task that it changes, by the transaction that does it; and in the audit, beside it.
    Beside,
    /// In the audit, before it is done.
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

/// By path as it is registered, and method.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs(HashMap<String, Vec<(Method, Guard)>>);

impl Needs {
    /// What the method of a route needs; None: nothing is known of it.
    pub(crate) fn of(&self, method: &Method, route: &str) -> Option<&Guard> {
        // What is registered for GET answers HEAD too.
        let method = if method == Method::HEAD { &Method::GET } else { method };
        self.0.get(route)?.iter().find(|needs| needs.0 == *method).map(|needs| &needs.1)
    }

    /// As in `Allow`; None: nothing is known of the route.
    pub(crate) fn allowed(&self, route: &str) -> Option<String> {
        let guards = self.0.get(route)?;
        let mut words: Vec<&str> = guards.iter().map(|guard| guard.0.as_str()).collect();
        if words.contains(&Method::GET.as_str()) {
            words.push(Method::HEAD.as_str());
        }
        Some(words.join(","))
    }

    fn add(&mut self, path: &str, method: Method, guard: Guard) {
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

/// Routes with what they need.
pub(crate) struct Guarded {
    routes: OpenApiRouter<Shared>,
    needs: Needs,
}

impl Guarded {
    pub(crate) fn new() -> Self {
        Self { routes: OpenApiRouter::new(), needs: Needs::default() }
    }

    /// Anybody may.
    pub(crate) fn open(mut self, routes: UtoipaMethodRouter<Shared>) -> Self {
        for (path, item) in &routes.1.paths {
            for (method, _) in methods(item) {
                self.needs.add(path, method, Guard::Open);
            }
        }
        Self { routes: self.routes.routes(routes), ..self }
    }

    /// What changes something has its entry in the audit before it.
    pub(crate) fn needing(
        self,
        permission: Permission,
        scope_check: ScopeCheck,
        routes: UtoipaMethodRouter<Shared>,
    ) -> Self {
        self.recording(Recorded::Before, permission, scope_check, routes)
    }

    /// What changes something is written down there.
    pub(crate) fn recording(
        mut self,
        recorded: Recorded,
        permission: Permission,
        scope_check: ScopeCheck,
        mut routes: UtoipaMethodRouter<Shared>,
    ) -> Self {
        for (path, item) in &mut routes.1.paths {
            for (method, operation) in operations(item) {
                let name = operation.operation_id.clone().unwrap_or_default();
                let recorded = if method == Method::GET { Recorded::Nowhere } else { recorded };
                let need = Need { permission, scope_check, operation: name.into(), recorded };
                self.needs.add(path, method, Guard::Needs(need));
                let none: [&str; 0] = [];
                operation.security = Some(vec![SecurityRequirement::new(SCHEME, none)]);
                let said = ExtensionsBuilder::new().add(PERMISSION, permission.word()).build();
                operation.extensions = Some(said);
            }
        }
        Self { routes: self.routes.routes(routes), ..self }
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.needs.extend(other.needs);
        Self { routes: self.routes.merge(other.routes), ..self }
    }

    pub(crate) fn apart(self) -> (OpenApiRouter<Shared>, Needs) {
        (self.routes, self.needs)
    }

    pub(crate) fn document(self, base: OpenApi) -> OpenApi {
        OpenApiRouter::with_openapi(base).merge(self.routes).into_openapi()
    }
}

fn methods(item: &PathItem) -> Vec<(Method, &Operation)> {
    let all = [
        (Method::GET, &item.get),
        (Method::POST, &item.post),
        (Method::PATCH, &item.patch),
        (Method::PUT, &item.put),
        (Method::DELETE, &item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_ref()?))).collect()
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::POST, &mut item.post),
        (Method::PATCH, &mut item.patch),
        (Method::PUT, &mut item.put),
        (Method::DELETE, &mut item.delete),
    ];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}
