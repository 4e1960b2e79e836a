//! The console in the server: it gets the whole interface as a router, layers and all, and is mounted beside it. It gets no
//! engine.

use crate::{access::ClientAddress, app::Shared};
use axum::Router;
use punctual_console::Options;
use std::sync::Arc;

/// Over this interface.
pub(crate) fn over(api: Router, app: &Shared) -> Router {
    let (clock, access) = (Arc::clone(app), Arc::clone(app));
    let options = Options {
        carry: |from, to| {
            // The audit, and the slow-down of bad tokens, know from where.
            if let Some(address) = from.get::<ClientAddress>() {
                to.insert(*address);
            }
        },
        is_tls: app.certificates.is_some(),
        shutdown: app.shutdown.clone(),
        until_refused: Arc::new(move |token: Option<String>| {
            let app = Arc::clone(&access);
            Box::pin(async move { app.engine.until_not_identified(token.as_deref()).await })
        }),
        ..Options::new(Arc::new(move || clock.engine.now().0))
    };
    punctual_console::router(api, options)
}
