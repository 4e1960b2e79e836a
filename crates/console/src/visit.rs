//! The caller of a request: its session, and the context of a page. Must never answer a request.

use crate::{
    context::{Context, DEFAULT_NAMESPACE, FLASH_COOKIE, NAMESPACE, first, pairs, theme, zone},
    fault::Fault,
    session::{SealKey, Session, cookie},
    site::Site,
};
use axum::http::{HeaderMap, Uri, request::Parts};
use percent_encoding::percent_decode_str;
use punctual_protocol::limits::NAME_MAX_CHARS;

/// The session of a request, before the API has identified the caller.
pub(crate) struct Visit {
    pub(crate) session: Session,
    pub(crate) key: SealKey,
    pub(crate) now_ms: i64,
}

impl Visit {
    pub(crate) fn of(site: &Site, headers: &HeaderMap) -> Self {
        let now_ms = (site.options.now_ms)();
        let session = Session::of(headers, now_ms, site.options.is_tls);
        let key = session.token().map_or_else(|| site.key.clone(), SealKey::of_token);
        Self { session, key, now_ms }
    }
}

/// The context of the page's handler. Fails if the namespace is no name, or the API does not accept the token.
pub(crate) async fn context(
    site: &Site,
    parts: &Parts,
    uri: &Uri,
    params: Vec<(&'static str, String)>,
) -> Result<Context, Fault> {
    let visit = Visit::of(site, &parts.headers);
    let query = pairs(uri.query().unwrap_or_default());
    let namespace = first(&query, NAMESPACE)
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or(DEFAULT_NAMESPACE)
        .to_owned();
    // Not every call looks at it, and every page shows it.
    if !is_name(&namespace) {
        return Err(Fault::Misnamed(format!(
            "{:?} is not a name of a namespace, which Punctual-Namespace would have: 1 to {NAME_MAX_CHARS} of the characters A-Z a-z 0-9 . _ : -.",
            namespace.chars().take(NAME_MAX_CHARS).collect::<String>()
        )));
    }
    let flash = cookie(&parts.headers, FLASH_COOKIE).filter(|cookie| !cookie.is_empty());
    let api = site.api(parts, visit.session.shown(), &namespace);
    // What was done just now is seen.
    let api = if flash.is_some() { api } else { api.lately() };
    let me = api.get("/v1/me").await?;
    Ok(Context {
        api,
        me,
        namespace,
        path: uri.path().to_owned(),
        params,
        query,
        zone: zone(&parts.headers),
        theme: theme(&parts.headers),
        now_ms: visit.now_ms,
        is_live: false,
        form_token: visit.key.form_token(visit.now_ms),
        session: visit.session,
        flash: flash.map(|flash| percent_decode_str(&flash).decode_utf8_lossy().into_owned()),
    })
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=NAME_MAX_CHARS).contains(&text.len()) && text.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_a_name_or_nothing() {
        assert!(is_name("shop-2.eu:a_B") && is_name(&"a".repeat(128)));
        for bad in ["", "x';curl evil|sh;'", "a b", "ä", "a\n", &"a".repeat(129)] {
            assert!(!is_name(bad), "{bad:?}");
        }
    }
}
