//! The state that all requests of the console share. Must never import a handler or the router, which are above it; nothing
//! in it must survive the process.

use crate::{api::Api, kept::KeptPages, live::state::Live, options::Options, session::SealKey, view::Page};
use axum::{Router, http::request::Parts};
use percent_encoding::percent_decode_str;
use std::fmt;

/// The state that all requests share.
pub(crate) struct Site {
    pub(crate) api: Router,
    pub(crate) pages: &'static [Page],
    pub(crate) options: Options,
    /// Signs forms where there are no tokens.
    pub(crate) key: SealKey,
    pub(crate) live: Live,
    pub(crate) kept: KeptPages,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site").finish_non_exhaustive()
    }
}

impl Site {
    /// The API for one request.
    pub(crate) fn api(&self, parts: &Parts, token: Option<&str>, namespace: &str) -> Api {
        let mut extensions = axum::http::Extensions::new();
        (self.options.carry)(&parts.extensions, &mut extensions);
        let api = Api::new(self.api.clone(), token, namespace, extensions);
        match parts.headers.get("x-request-id").and_then(|x_request_id| x_request_id.to_str().ok()) {
            Some(id) => api.under(id),
            None => api,
        }
    }

    /// The page at this path, with the parameters of the path.
    pub(crate) fn find(&self, path: &str) -> Option<(&Page, Vec<(&'static str, String)>)> {
        self.pages.iter().find_map(|page| Some((page, params(page.path, path)?)))
    }
}

/// Returns `None` if the path does not match this pattern.
fn params(pattern: &'static str, path: &str) -> Option<Vec<(&'static str, String)>> {
    let path = if path.len() > 1 { path.strip_suffix('/').unwrap_or(path) } else { path };
    if pattern.matches('/').count() != path.matches('/').count() {
        return None;
    }
    let mut found = Vec::new();
    for (wanted, given) in pattern.split('/').zip(path.split('/')) {
        match wanted.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) => found.push((name, percent_decode_str(given).decode_utf8().ok()?.into_owned())),
            None if wanted == given => {}
            None => return None,
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_matched_segment_by_segment_and_its_parameters_are_decoded() {
        assert_eq!(params("/console", "/console"), Some(vec![]));
        let found = params("/console/queues/{queue}/pause", "/console/queues/a%20%2Fb/pause");
        assert_eq!(found, Some(vec![("queue", "a /b".to_owned())]));
        assert_eq!(params("/console/queues/{queue}", "/console/queues"), None);
        assert_eq!(params("/console/queues/{queue}", "/console/tasks/a"), None);
        assert_eq!(params("/console/queues/{queue}", "/console/queues/%ff"), None);
    }
}
