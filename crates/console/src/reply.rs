//! Answers that several handlers give: redirects, cookies, and the page of a fault. Must never do what a form asks for.

use crate::{
    addresses::{self, HOME},
    fault::Fault,
    layout, session,
    site::Site,
    visit::{self, Visit},
};
use axum::{
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
};

/// A page that describes the fault. A caller without a session is sent to the login, and back afterwards.
pub(crate) async fn failed(site: &Site, parts: &Parts, fault: Fault) -> Response {
    if fault.is_sign_in() {
        let wanted = if parts.method == Method::GET {
            parts.uri.path_and_query().map_or(HOME, |path_and_query| path_and_query.as_str())
        } else {
            parts.uri.path()
        };
        let session = Visit::of(site, &parts.headers).session;
        let had_one = session::was_sent(&parts.headers);
        let why = match (session, had_one) {
            (session::Session::Of { .. }, _) => "refused",
            (_, true) => "ended",
            (_, false) => "",
        };
        let mut response = to(&addresses::login(wanted, why));
        if had_one {
            session::cleared().iter().for_each(|cookie| put_cookie(&mut response, cookie));
        }
        return response;
    }
    let status = fault.status();
    // With the menu around it, where the caller is known.
    match visit::context(site, parts, &parts.uri, Vec::new()).await {
        Ok(context) => layout::page(&context, layout::fault(&context, &fault), status),
        Err(_) => layout::bare_fault(&parts.headers, &fault, status),
    }
}

pub(crate) fn to(address: &str) -> Response {
    let location = HeaderValue::try_from(address).unwrap_or(HeaderValue::from_static(HOME));
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}

pub(crate) fn put_cookie(response: &mut Response, cookie: &str) {
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
}

/// Lengthens the session with its use.
pub(crate) fn with_session(site: &Site, headers: &HeaderMap, mut response: Response) -> Response {
    let visit = Visit::of(site, headers);
    let session::Session::Of { token, is_tls: came_over_tls, .. } = &visit.session else { return response };
    if !visit.session.slides(visit.now_ms) {
        return response;
    }
    if !response.headers().contains_key(header::SET_COOKIE) {
        put_cookie(
            &mut response,
            &session::written(
                token,
                visit.now_ms,
                *came_over_tls || site.options.is_tls || is_https(headers),
            ),
        );
    }
    response
}

/// True if the browser uses TLS, at least as far as a proxy.
pub(crate) fn is_https(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|header| header.to_str().ok()).unwrap_or_default();
    text(header::ORIGIN).starts_with("https://") || text(header::REFERER).starts_with("https://")
}
