//! The console in the server: it gets the complete interface as a router, layers and all, and is mounted beside it.
//! It gets no engine.

use crate::{
    access::{ClientAddress, Who},
    alerts,
    app::{App, Shared},
};
use axum::Router;
use futures_util::FutureExt as _;
use punctual_console::{EngineView, Identify, Options, WithoutStore};
use punctual_domain::access::Permission;
use punctual_engine::access::Identified;
use std::sync::Arc;

/// The console over this interface.
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
        identify: identified(app),
        without_store: without_store(app),
        patience: app.options.console_patience,
        ..Options::new(Arc::new(move || clock.engine.now().0))
    };
    punctual_console::router(api, options)
}

/// Identifies a caller by memory alone. `None` if it is refused, or the tokens were not read yet.
fn who(app: &App, token: Option<&str>) -> Option<Who> {
    let known = app.engine.access_is_known().now_or_never();
    if !matches!(known, Some(Ok(()))) {
        return None;
    }
    match app.engine.identify(token) {
        Identified::Anyone => Some(Who::anyone(None)),
        Identified::As(admitted) => Some(Who::known(admitted, None)),
        Identified::Refused(_) => None,
    }
}

fn identified(app: &Shared) -> Identify {
    let app = Arc::clone(app);
    Arc::new(move |token| {
        let who = who(&app, token)?;
        Some(format!("{:?} {:?}", who.token_id(), who.identity().map(|identity| &identity.grant)))
    })
}

fn without_store(app: &Shared) -> WithoutStore {
    let app = Arc::clone(app);
    Arc::new(move |token| who(&app, token).map(|who| view(&app, &who)).unwrap_or_default())
}

fn view(app: &App, who: &Who) -> EngineView {
    let engine = &app.engine;
    let mut view = EngineView {
        databases: engine.store().parts(),
        databases_away: engine.databases_away(),
        alerts: alerts::remembered(app, who),
        ..EngineView::default()
    };
    if who.reaches_everything() {
        let hot = match (engine.has_hot_set(), engine.hot_is_away()) {
            (false, _) => "none; tasks fire from the store".to_owned(),
            (true, true) => "does not answer".to_owned(),
            (true, false) => hot_fullness(app),
        };
        let fires = engine.can_fire().err().unwrap_or_else(|| "at work".to_owned());
        view.facts =
            vec![("Engine", engine.name().to_owned()), ("What fires tasks", fires), ("Hot set", hot)];
        view.started_at_ms = Some(app.started_at.0);
    }
    // It may name where the database is.
    if who.reaches_everything() && who.permits(Permission::ReadMetrics) {
        view.problems = engine.write_problems();
    }
    view
}

fn hot_fullness(app: &App) -> String {
    match app.engine.hot_fullness() {
        0 => "answered when last asked".to_owned(),
        fullness => format!("answered when last asked; {} % of its memory is used", fullness / 10),
    }
}
