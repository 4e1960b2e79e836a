//! Authentication and authorization. Every request passes here before its body is read: the token is looked up in
//! memory, and the permission of the route is compared with those of the token. Handlers hide queues and namespaces
//! that the token does not reach; they ask `Who`.

mod address;
mod attempts;
mod audited;
mod challenge;
mod guarded;
mod needs;
mod who;

pub use address::{Cidr, ClientAddress, TrustedProxies};
pub(crate) use attempts::Attempts;
pub(crate) use audited::Changed;
pub(crate) use challenge::challenged;
pub(crate) use guarded::Guarded;
pub(crate) use needs::{Needs, Recorded, SCHEME, ScopeCheck};
pub(crate) use who::Who;

use crate::{
    app::{App, Shared},
    extract,
    refusal::Refusal,
};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use challenge::with_challenge;
use needs::{Guard, Need};
use punctual_domain::access::Permission;
use punctual_engine::access::Identified;
use punctual_protocol::Code;
use std::net::IpAddr;

/// The layer.
pub(crate) async fn guard(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let address = request.extensions().get::<ClientAddress>().map(|extension| extension.0);
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let guard = app.needs.of(request.method(), route).cloned();
    if matches!(guard, Some(Guard::Open)) {
        request.extensions_mut().insert(Who::unidentified(address));
        return next.run(request).await;
    }
    let who = match identify(&app, request.headers(), address).await {
        Ok(who) => who,
        Err(refusal) => {
            return audited::refused(&app, &Who::unidentified(address), guard.as_ref(), &request, refusal);
        }
    };
    let Some(Guard::Needs(need)) = guard else {
        return unregistered(&app, who, request, next).await;
    };
    if let Err(refusal) = permitted(&who, &need, request.headers()) {
        let guard = Guard::Needs(need);
        return audited::refused(&app, &who, Some(&guard), &request, refusal);
    }
    request.extensions_mut().insert(who.clone());
    let response = match need.recorded {
        Recorded::Nowhere | Recorded::InHistories => next.run(request).await,
        Recorded::Beside | Recorded::Before => audited::run(app, who, need, request, next).await,
    };
    // Its token may have ended while it waited.
    with_challenge(response)
}

/// Answers a request for an unknown address or method, if its caller is known. A route that the router has and this
/// table does not have is never run.
async fn unregistered(app: &App, who: Who, mut request: Request, next: Next) -> Response {
    let Some(route) = request.extensions().get::<MatchedPath>().cloned() else {
        request.extensions_mut().insert(who);
        return next.run(request).await;
    };
    if let Some(allowed) = app.needs.allowed(route.as_str()) {
        let allow = HeaderValue::try_from(allowed).unwrap_or_else(|_| HeaderValue::from_static(""));
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, allow)]).into_response();
    }
    let (method, route) = (request.method(), route.as_str());
    tracing::error!(%method, route, "a route declares no permission, so every call is refused");
    let refusal =
        Refusal::new(Code::AuthDenied, "the route declares no permission, so every call is refused");
    audited::refused(app, &who, None, &request, refusal)
}

async fn identify(app: &App, headers: &HeaderMap, address: Option<IpAddr>) -> Result<Who, Refusal> {
    app.engine.access_is_known().await?;
    let sent = bearer(headers);
    let guess = sent.map(|_| app.attempts.admit(address)).transpose()?;
    let mut found = app.engine.identify(sent);
    if matches!(found, Identified::Refused(_)) && sent.is_some() && !app.attempts.are_too_many(address) {
        // It may have been made at another engine just now.
        app.engine.look_for_tokens().await?;
        found = app.engine.identify(sent);
    }
    match found {
        Identified::Anyone => Ok(Who::anyone(address)),
        Identified::As(admitted) => Ok(Who::known(admitted, address)),
        Identified::Refused(reason) => match guess {
            Some(guess) if app.attempts.failed(address) => Err(app.attempts.slowed(guess, address).await),
            _ => Err(Refusal::new(Code::AuthRequired, reason)),
        },
    }
}

/// Checks the token of a call that needs none, and that answers more with one. An invalid token is refused as
/// everywhere, so that tokens cannot be guessed here faster than elsewhere. Without a token, and with a valid one,
/// the store is not called: the answer is needed while the store is unavailable.
pub(crate) async fn may_read_metrics(
    app: &App,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<bool, Refusal> {
    if bearer(headers).is_none() {
        return Ok(matches!(app.engine.identify(None), Identified::Anyone));
    }
    let who = identify(app, headers, address).await?;
    Ok(who.permits(Permission::ReadMetrics) && who.reaches_everything())
}

/// The token after `Bearer`, whose case does not matter.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn permitted(who: &Who, need: &Need, headers: &HeaderMap) -> Result<(), Refusal> {
    if !who.permits(need.permission) {
        let detail = format!("its roles do not have the permission `{}`", need.permission.word());
        return Err(Refusal::new(Code::AuthDenied, detail));
    }
    match need.scope_check {
        ScopeCheck::Own => Ok(()),
        ScopeCheck::Namespace => {
            let namespace = extract::namespace(headers)?;
            if who.reaches_namespace(&namespace) { Ok(()) } else { Err(who::beyond_namespace(&namespace)) }
        }
        ScopeCheck::Everything if who.reaches_everything() => Ok(()),
        ScopeCheck::Everything => {
            let detail = "it is of all namespaces and queues, and the token reaches only some of them";
            Err(Refusal::new(Code::AuthDenied, detail))
        }
    }
}
