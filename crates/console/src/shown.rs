//! The answer to a GET of a page: its rendering, or, if that is late or a database did not answer, the last good one
//! and its time, or the engine's own knowledge without a database. Never answers a POST, and never returns an earlier
//! rendering without a new check that its caller may see it; that check waits for no database.

use crate::{
    context::{FLASH_COOKIE, ZONE_COOKIE, theme, zone},
    fault::Fault,
    kept::{PageKey, Rendering, SessionState},
    layout,
    options::EngineView,
    parts as look,
    reply::{failed, put_cookie, with_session},
    session::{LASTS_MS, cookie},
    site::Site,
    texts,
    visit::{self, Visit},
};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header, request::Parts},
    response::Response,
};
use blake3::Hash;
use maud::{Markup, html};
use std::{pin::pin, sync::Arc, time::Duration};
use tokio::time::timeout;

/// A rendering that takes longer is given up.
const RENDERED_WITHIN: Duration = Duration::from_secs(30);
/// The pause after which a page without a stored rendering asks again.
const AGAIN_S: u32 = 2;
/// A page that was never shown is waited for so many times as long as another.
const FIRST_RENDERING_TIMES: u32 = 5;
const MAIN: &str = "<main id=\"main\"";

pub(crate) async fn shown(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let response = answer(&site, &parts).await;
    with_session(&site, &parts.headers, response)
}

async fn answer(site: &Arc<Site>, parts: &Parts) -> Response {
    let Some(viewport) = viewport(site, parts) else {
        site.kept.forget(who(site, parts));
        return fresh(site, parts).await;
    };
    let rendered = in_time(site, parts, viewport).await;
    let is_away = |one: &Rendering| match one.state {
        SessionState::Unavailable => true,
        SessionState::Partial => !view(site, parts).is_partly_away(),
        SessionState::Whole | SessionState::Refused => false,
    };
    match rendered {
        Some(Some((one, false))) if !is_away(&one) => response(&one, one.body.clone()),
        // Of another request, or of an earlier one: who may see it is looked at again.
        _ if self::viewport(site, parts).is_none_or(|now| now.key != viewport.key) => {
            site.kept.forget(viewport.who);
            fresh(site, parts).await
        }
        // Redirects and refusals are of the request that they answer. And one that panicked is not answered by it.
        Some(Some((one, true))) if one.state == SessionState::Refused => fresh(site, parts).await,
        Some(None) => fresh(site, parts).await,
        Some(Some((one, true))) if !is_away(&one) => response(&one, one.body.clone()),
        late => {
            let failed = late.flatten().map(|(one, _)| one);
            let oldest_ms = (site.options.now_ms)() - LASTS_MS;
            let kept = site.kept.get(viewport).filter(|kept| kept.as_of_ms > oldest_ms);
            match (kept, failed) {
                (Some(kept), _) => as_of(site, parts, &kept),
                (None, Some(one)) if one.state == SessionState::Partial => response(&one, one.body.clone()),
                (None, failed) => without_store(site, parts, failed.is_some()),
            }
        }
    }
}

/// `None` if the request has no session.
fn who(site: &Site, parts: &Parts) -> Option<Hash> {
    Visit::of(site, &parts.headers).session.token().map(|token| blake3::hash(token.as_bytes()))
}

/// `None` if the engine would not accept the token, or does not know yet.
fn viewport(site: &Site, parts: &Parts) -> Option<PageKey> {
    let visit = Visit::of(site, &parts.headers);
    let token = visit.session.token();
    let grant = (site.options.identify)(token)?;
    let who = who(site, parts);
    let mut hasher = blake3::Hasher::new();
    let of = who.map(|who| who.to_hex().to_string()).unwrap_or_default();
    let zone = cookie(&parts.headers, ZONE_COOKIE).unwrap_or_default();
    let address = parts.uri.path_and_query().map_or("", |one| one.as_str());
    for text in [&*of, &*grant, &*zone, theme(&parts.headers).unwrap_or_default(), address] {
        hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
    }
    Some(PageKey { who, key: hasher.finalize() })
}

/// The rendering. `None` if it takes longer than is waited for. A page of which there is an earlier rendering to show
/// is waited for less long: one that is only slow is not to be mistaken for a database that does not answer.
async fn in_time(
    site: &Arc<Site>,
    parts: &Parts,
    viewport: PageKey,
) -> Option<Option<(Arc<Rendering>, bool)>> {
    let patience = site.options.patience;
    let mut rendering = pin!(rendered(site, parts, viewport));
    if let Ok(done) = timeout(patience, rendering.as_mut()).await {
        return Some(done);
    }
    if site.kept.get(viewport).is_some() {
        return None;
    }
    timeout(patience * (FIRST_RENDERING_TIMES - 1), rendering).await.ok()
}

/// The flag is true if another request renders the page.
async fn rendered(site: &Arc<Site>, parts: &Parts, viewport: PageKey) -> Option<(Arc<Rendering>, bool)> {
    // The result of a change is shown once, on this page: it is neither shared nor kept.
    if cookie(&parts.headers, FLASH_COOKIE).is_some_and(|one| !one.is_empty()) {
        return Some((Arc::new(render(site, parts).await), false));
    }
    let (of, again) = (parts.clone(), parts.clone());
    let (rendering_site, looking_site) = (Arc::clone(site), Arc::clone(site));
    let rendering = async move {
        let shutdown = rendering_site.options.shutdown.clone();
        let rendering = timeout(RENDERED_WITHIN, render(&rendering_site, &of));
        shutdown.run_until_cancelled(rendering).await?.ok()
    };
    // A grant that has changed meanwhile gives another page.
    let may_keep = move || self::viewport(&looking_site, &again).is_some_and(|one| one.key == viewport.key);
    let pending = site.kept.begin(viewport, rendering, may_keep);
    let is_joined = pending.is_joined;
    Some((pending.wait().await?, is_joined))
}

async fn render(site: &Site, parts: &Parts) -> Rendering {
    let as_of_ms = (site.options.now_ms)();
    let (response, state) = match show(site, parts).await {
        Ok((response, true)) => (response, SessionState::Partial),
        Ok((response, false)) => (response, SessionState::Whole),
        Err(fault) => {
            let state = if fault.is_store_away() { SessionState::Unavailable } else { SessionState::Refused };
            (failed(site, parts, fault).await, state)
        }
    };
    let (head, body) = response.into_parts();
    // All of it is in memory.
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
    Rendering { state, status: head.status, headers: head.headers, body, as_of_ms }
}

/// The flag is true if a part is missing because a database did not answer.
async fn show(site: &Site, parts: &Parts) -> Result<(Response, bool), Fault> {
    let uri = &parts.uri;
    let (page, params) = site.find(uri.path()).ok_or(Fault::NotFound)?;
    let context = visit::context(site, parts, uri, params).await?;
    let view = (page.show)(&context).await?;
    let mut response = layout::page(&context, view, StatusCode::OK);
    if context.flash.is_some() {
        let cookie = format!("{FLASH_COOKIE}=; Path=/console; Max-Age=0; HttpOnly; SameSite=Strict");
        put_cookie(&mut response, &cookie);
    }
    Ok((response, context.api.met_store_away()))
}

async fn fresh(site: &Site, parts: &Parts) -> Response {
    let one = render(site, parts).await;
    response(&one, one.body.clone())
}

fn response(one: &Rendering, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = one.status;
    *response.headers_mut() = one.headers.clone();
    response
}

fn view(site: &Site, parts: &Parts) -> EngineView {
    (site.options.without_store)(Visit::of(site, &parts.headers).session.token())
}

/// The stored rendering, with its time above it.
fn as_of(site: &Site, parts: &Parts, kept: &Rendering) -> Response {
    let at = zone(&parts.headers).time_of_day(kept.as_of_ms);
    let since = texts::rfc3339(kept.as_of_ms);
    let line = html! {
        p.note.bad #kept role="status" {
            strong { "As of " time datetime=(since) title=(since) { (at) } ": the database does not answer" (which(&view(site, parts))) "." }
            " This is the last good rendering of this page. It is read anew in the background; load the page again to see what came of it."
        }
    };
    let text = String::from_utf8_lossy(&kept.body);
    // The attributes are written escaped: the next bracket ends the tag.
    let main = text.split_once(MAIN).and_then(|(before, rest)| Some((before, rest.split_once('>')?)));
    let Some((before, (attributes, after))) = main else { return response(kept, kept.body.clone()) };
    response(kept, [before, MAIN, &at_present(site, attributes), ">", &line.into_string(), after].concat())
}

/// Scripts count relative times from it.
fn at_present(site: &Site, attributes: &str) -> String {
    let Some((before, rest)) = attributes.split_once("data-now=\"") else { return attributes.to_owned() };
    let after = rest.split_once('"').map_or("", |(_, after)| after);
    format!("{before}data-now=\"{}\"{after}", (site.options.now_ms)())
}

/// Names the database if there are several; empty if the engine does not know yet.
fn which(view: &EngineView) -> String {
    if view.databases < 2 {
        return String::new();
    }
    let numbers: Vec<String> = view.databases_away.iter().map(usize::to_string).collect();
    if numbers.is_empty() { String::new() } else { format!(" (database {})", numbers.join(", ")) }
}

/// The answer for a page without a rendering: the engine's own knowledge. The page asks again by itself.
fn without_store(site: &Site, parts: &Parts, failed: bool) -> Response {
    let view = view(site, parts);
    let zone = zone(&parts.headers);
    let inside = html! {
        h1 { "The database does not answer" (which(&view)) }
        p.note.bad role="status" {
            @if failed { "A database did not answer." } @else { "This page did not arrive within " ((site.options.patience * FIRST_RENDERING_TIMES).as_secs_f32()) " s." }
            " There is no earlier rendering of it for your token at this engine. The page loads anew by itself every " (AGAIN_S) " s."
        }
        (facts(&view, &zone))
        (alerts(&view))
    };
    let address = parts.uri.path_and_query().map_or("/console", |one| one.as_str());
    let mut response =
        layout::bare_again(&parts.headers, "The database does not answer", &inside, (AGAIN_S, address));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(AGAIN_S));
    response
}

fn facts(view: &EngineView, zone: &texts::Zone) -> Markup {
    html! {
        h2 { "What this engine knows without the database" }
        dl.facts {
            @for problem in &view.problems { (look::fact("Last tried", problem)) }
            @for (label, text) in &view.facts { (look::fact(label, text)) }
            @if let Some(at) = view.started_at_ms { (look::fact("Up since", zone.day_and_second(at))) }
        }
    }
}

fn alerts(view: &EngineView) -> Markup {
    html! {
        h2 { "Alerts" }
        @if view.alerts.is_empty() { p.dim { "No alert that this engine knows and your token may see." } }
        ul {
            @for alert in &view.alerts {
                li { strong { (alert.name) } ": " (alert.text) ". " (alert.what_to_do) }
            }
        }
    }
}
