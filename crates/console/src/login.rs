//! Sign-in and sign-out. A token is shown once to the API; if that accepts it, it is stored in the cookie, and
//! nowhere else.

use crate::{
    addresses::{self, HOME, LOGIN},
    api::Api,
    context::pairs,
    fault::Fault,
    form::Form,
    layout,
    reply::{self, put_cookie, to},
    session,
    site::Site,
    submitted,
    visit::Visit,
};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use maud::{Markup, html};
use punctual_protocol::Me;
use std::sync::Arc;

const AGAIN: &str = "again";
/// The maximum size of a form of a caller without a session.
const FORM_MAX_BYTES: usize = 16 << 10;

/// The same once more, and only once.
fn again(next: &str, why: &str) -> String {
    let address = addresses::login(next, why);
    let separator = if address.contains('?') { '&' } else { '?' };
    format!("{address}{separator}{AGAIN}=1")
}

/// The browser followed a link of another site: it has sent no `SameSite=Strict` cookie, whether it has one or not.
fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|header| header.to_str().ok());
    matches!(text("sec-fetch-site"), Some("cross-site" | "same-site")) && !session::was_sent(headers)
}

/// Only a page of the console.
fn next(text: Option<&str>) -> &str {
    let is_ours = |text: &&str| {
        (*text == HOME || text.starts_with("/console/") || text.starts_with("/console?"))
            && !text.starts_with(LOGIN)
    };
    text.filter(is_ours).unwrap_or(HOME)
}

pub(crate) async fn shown(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let query = pairs(parts.uri.query().unwrap_or_default());
    let given = |name: &str| query.iter().find(|pair| pair.0 == name).map(|query| query.1.as_str());
    let next = next(given("next"));
    let visit = Visit::of(&site, &parts.headers);
    let api = site.api(&parts, visit.session.shown(), "default");
    if api.get::<Me>("/v1/me").await.is_ok() {
        return to(next);
    }
    if given(AGAIN).is_none() && is_from_elsewhere(&parts.headers) {
        return layout::bare_on(&parts.headers, &again(next, given("why").unwrap_or_default()));
    }
    let said = match given("why") {
        Some("ended") => {
            Some("Your session has ended after 12 hours without use. Sign in again to continue.")
        }
        Some("refused") => {
            Some("The token of your session is no longer valid: it was revoked, rotated or has expired.")
        }
        Some("out") => Some("You are signed out."),
        _ => None,
    };
    page(&parts.headers, next, said, None, StatusCode::OK)
}

pub(crate) async fn signed_in(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    // This form has no CSRF token: it may reach another engine than the one that made the page. Its origin is checked.
    let own = match submitted::demand_site(&parts.headers) {
        Ok(()) => submitted::own_form(&parts, body, FORM_MAX_BYTES).await,
        Err(fault) => Err(fault),
    };
    let form = match own {
        Ok(form) => form,
        Err(fault) => return page(&parts.headers, HOME, None, Some(fault.detail()), fault.status()),
    };
    let next = next(form.get("next"));
    match taken(&site, &parts, &form).await {
        Ok(token) => {
            let is_tls = site.options.is_tls || reply::is_https(&parts.headers);
            let mut response = to(next);
            put_cookie(&mut response, &session::written(&token, (site.options.now_ms)(), is_tls));
            response
        }
        Err(fault) => {
            let said = match &fault {
                Fault::SignIn(detail) => format!("This token is not valid: {detail}."),
                Fault::Refused(problem) if problem.status == 403 => {
                    "This token may not read. The console needs the role viewer, submitter, operator or admin.".to_owned()
                }
                other => format!("{}. {}", other.title(), other.detail()),
            };
            page(&parts.headers, next, None, Some(&said), fault.status())
        }
    }
}

async fn taken(site: &Site, parts: &axum::http::request::Parts, form: &Form) -> Result<String, Fault> {
    let token = form.get("token").ok_or_else(|| Fault::Invalid("Give a token.".to_owned()))?;
    if !session::is_presentable(token) {
        return Err(Fault::Invalid("A token has at most 512 printable ASCII characters.".to_owned()));
    }
    let api: Api = site.api(parts, Some(token), "default");
    api.get::<Me>("/v1/me").await?;
    Ok(token.to_owned())
}

pub(crate) async fn signed_out(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(fault) = submitted::sealed_form(&site, &parts, body).await {
        return reply::failed(&site, &parts, fault).await;
    }
    let visit = Visit::of(&site, &parts.headers);
    site.kept.forget(visit.session.token().map(|token| blake3::hash(token.as_bytes())));
    let mut response = to(&addresses::login(HOME, "out"));
    session::cleared().iter().for_each(|cookie| put_cookie(&mut response, cookie));
    response
}

fn page(
    headers: &HeaderMap,
    next: &str,
    said: Option<&str>,
    fault: Option<&str>,
    status: StatusCode,
) -> Response {
    let body: Markup = html! {
        h1 { "Sign in" }
        p.help { "With a token of this server. A cookie of this browser keeps it until 12 hours after its last use." }
        @if let Some(said) = said { p.note role="status" { (said) } }
        @if let Some(fault) = fault { p.note.bad #login-fault role="alert" { (fault) } }
        form #login method="post" action=(LOGIN) {
            input type="hidden" name="next" value=(next);
            label for="token" { "Token" }
            input #token type="password" name="token" required autofocus autocomplete="current-password"
                autocapitalize="none" spellcheck="false" placeholder="punctual_…";
            button.primary type="submit" { "Sign in" }
        }
        details {
            summary { "I have no token" }
            p { "An administrator of the server creates one:" }
            pre { "punctual token create --name me --role operator" }
            p { "A viewer reads everything. An operator also pauses queues, redrives and drains. An admin may do everything." }
        }
    };
    layout::bare(headers, "Sign in", &body, status)
}
