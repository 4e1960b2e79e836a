//! Routes that are registered together with what they need: the router, the guard and the document all read it from here, so
//! that they cannot differ, and a route without a permission cannot be registered. Must never check a request.

use super::needs::{Guard, Need, Needs, PERMISSION, Recorded, SCHEME, ScopeCheck};
use crate::app::Shared;
use axum::http::Method;
use punctual_domain::access::Permission;
use utoipa::openapi::{
    OpenApi,
    extensions::ExtensionsBuilder,
    path::{Operation, PathItem},
    security::SecurityRequirement,
};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

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

    /// Adds routes. A route that changes something writes its audit entry before the change.
    pub(crate) fn needing(
        self,
        permission: Permission,
        scope_check: ScopeCheck,
        routes: UtoipaMethodRouter<Shared>,
    ) -> Self {
        self.recording(Recorded::Before, permission, scope_check, routes)
    }

    /// Adds routes that record their changes in the given place.
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
