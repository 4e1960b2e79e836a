//! Reads the form of a request, and refuses a form that no page of the console has sent. Must never act on the form's
//! content.

use crate::{
    fault::Fault,
    form::{self, Form},
    site::Site,
    visit::Visit,
};
use axum::{
    body::Body,
    http::{HeaderMap, Uri, header, request::Parts},
};
use bytes::Bytes;
use std::time::Duration;

/// Longest form, in bytes: a payload that is edited, as a form writes it.
const FORM_MAX_BYTES: usize = 8 << 20;
const FORM_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads a form that a page of ours has sent, and no other.
pub(crate) async fn sealed_form(site: &Site, parts: &Parts, body: Body) -> Result<Form, Fault> {
    let form = own_form(parts, body, FORM_MAX_BYTES).await?;
    let visit = Visit::of(site, &parts.headers);
    if visit.key.made_form_token(form.raw(form::TOKEN), visit.now_ms) {
        return Ok(form);
    }
    Err(Fault::Forged(
        "The form's CSRF token is missing, expired, or from another session. Reload the page and submit it again. Nothing was done.",
    ))
}

/// Reads a form that no page of another site has sent.
pub(crate) async fn own_form(parts: &Parts, body: Body, max_bytes: usize) -> Result<Form, Fault> {
    refuse_foreign(&parts.headers, &parts.uri)?;
    Ok(Form::parse(&read(body, max_bytes).await?))
}

async fn read(body: Body, max_bytes: usize) -> Result<Bytes, Fault> {
    let reading = axum::body::to_bytes(body, max_bytes);
    match tokio::time::timeout(FORM_TIMEOUT, reading).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(_)) => Err(Fault::Invalid(format!(
            "The form is longer than {max_bytes} bytes or incomplete. Nothing was done."
        ))),
        Err(_) => Err(Fault::Invalid("The form did not arrive within 30 s. Nothing was done.".to_owned())),
    }
}

/// Required of a form without a CSRF token, from a caller without a session: browsers say where a form is from. A form that does
/// not say so could come from any site, and sign its sender in as another caller.
pub(crate) fn demand_site(headers: &HeaderMap) -> Result<(), Fault> {
    if headers.contains_key("sec-fetch-site") || headers.contains_key(header::ORIGIN) {
        return Ok(());
    }
    Err(Fault::Forged(
        "The request says neither in Origin nor in Sec-Fetch-Site which page it is from, as browsers do; nothing was done. A \
         program needs no session: it sends its token to /v1 in the header Authorization.",
    ))
}

/// Refuses a form of another site. Browsers say which site it is from, or else which origin.
pub(crate) fn refuse_foreign(headers: &HeaderMap, uri: &Uri) -> Result<(), Fault> {
    const FOREIGN: Fault = Fault::Forged("Another site sent this form. Nothing was done.");
    let text = |name: &str| headers.get(name).and_then(|header| header.to_str().ok());
    match text("sec-fetch-site") {
        Some("same-origin" | "none") => return Ok(()),
        Some(_) => return Err(FOREIGN),
        None => {}
    }
    let Some(origin) = text("origin") else { return Ok(()) };
    let host =
        text("host").or_else(|| uri.authority().map(|authority| authority.as_str())).unwrap_or_default();
    let from = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    if from.is_some_and(|from| from.eq_ignore_ascii_case(host)) { Ok(()) } else { Err(FOREIGN) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_form_of_another_site_is_refused() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            HeaderMap::from_iter(
                pairs.iter().map(|pair| (pair.0.parse().unwrap(), HeaderValue::from_static(pair.1))),
            )
        };
        let uri = Uri::from_static("/console");
        for good in [
            headers(&[]),
            headers(&[
                ("sec-fetch-site", "same-origin"),
                ("origin", "https://public.example"),
                ("host", "inner:1"),
            ]),
            headers(&[("origin", "http://a.example:7450"), ("host", "a.example:7450")]),
        ] {
            assert!(refuse_foreign(&good, &uri).is_ok(), "{good:?}");
        }
        for bad in [
            headers(&[("sec-fetch-site", "same-site")]),
            headers(&[("sec-fetch-site", "cross-site"), ("origin", "http://a"), ("host", "a")]),
            headers(&[("origin", "http://b.example"), ("host", "a.example")]),
            headers(&[("origin", "null"), ("host", "a.example")]),
        ] {
            assert!(refuse_foreign(&bad, &uri).is_err(), "{bad:?}");
        }
    }
}
