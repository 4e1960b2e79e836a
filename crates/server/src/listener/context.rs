//! The state that all connections share. Must never import a step of a connection: they all import this file.

use super::certificates::Certificates;
use crate::{app::Shared, options::ListenerOptions};
use axum::Router;
use hyper_util::{rt::TokioExecutor, server::conn::auto};
use std::sync::Arc;

/// The state that all connections share.
pub(super) struct ListenerContext {
    pub(super) app: Shared,
    pub(super) router: Router,
    pub(super) options: ListenerOptions,
    pub(super) http: auto::Builder<TokioExecutor>,
    pub(super) certificates: Option<Arc<Certificates>>,
}
