//! Everything that a page's handler is given: the caller, the page, and how it is to be shown. Must never import the state
//! of the console: `visit` makes a context of a request.

use crate::{
    api::Api,
    session::{Session, cookie},
    texts::Zone,
};
use axum::http::HeaderMap;
use percent_encoding::percent_decode_str;
use punctual_protocol::Me;

pub(crate) const THEME_COOKIE: &str = "punctual_theme";
pub(crate) const ZONE_COOKIE: &str = "punctual_zone";
pub(crate) const FLASH_COOKIE: &str = "punctual_done";
pub(crate) const NAMESPACE: &str = "ns";
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

#[derive(Debug)]
pub(crate) struct Context {
    /// The API with the caller's token and namespace.
    pub(crate) api: Api,
    pub(crate) me: Me,
    pub(crate) namespace: String,
    pub(crate) path: String,
    pub(crate) params: Vec<(&'static str, String)>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) zone: Zone,
    /// `light`, `dark`, or `None` means as the system has it.
    pub(crate) theme: Option<&'static str>,
    pub(crate) now_ms: i64,
    /// True for a page that is open already: parts that scripts fill in are left out.
    pub(crate) is_live: bool,
    /// The token of every form.
    pub(crate) form_token: String,
    pub(crate) session: Session,
    /// The result of the last change.
    pub(crate) flash: Option<String>,
}

impl Context {
    /// A parameter of the path; the page's own table ensures that it exists.
    pub(crate) fn param(&self, name: &str) -> &str {
        self.params.iter().find(|param| param.0 == name).map_or("", |param| &param.1)
    }

    /// A parameter of the query; an empty one is `None`.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        first(&self.query, name).filter(|text| !text.is_empty())
    }

    /// All of this name.
    pub(crate) fn query_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |pair| pair.0 == name).map(|pair| pair.1.as_str())
    }

    /// The address of another page, in the same namespace.
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

    /// The address of this page, with one parameter changed; an empty value removes it.
    pub(crate) fn here_with(&self, name: &str, value: &str) -> String {
        let kept = self.query.iter().filter(|pair| pair.0 != NAMESPACE && pair.0 != name);
        let mut query: Vec<(&str, &str)> = kept.map(|pair| (pair.0.as_str(), pair.1.as_str())).collect();
        query.push((name, value));
        self.href(&self.path, &query)
    }

    /// The address of this page.
    pub(crate) fn here(&self) -> String {
        self.here_with("", "")
    }

    /// Why the caller may not do it, or `None` if the caller has the permission.
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

pub(crate) fn first<'a>(pairs: &'a [(String, String)], name: &str) -> Option<&'a str> {
    pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_str())
}
