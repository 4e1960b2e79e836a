//! The addresses of the console that several files name. Must never import a page or a handler.

pub(crate) const HOME: &str = "/console";
pub(crate) const JSON: &str = "/console/json";
pub(crate) const LIVE: &str = "/console/live";
pub(crate) const LOGIN: &str = "/console/login";
pub(crate) const LOGOUT: &str = "/console/logout";
pub(crate) const PREFERENCES: &str = "/console/preferences";

/// The address of the login page. `next` is the page that is shown after it.
pub(crate) fn login(next: &str, why: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    if next != HOME {
        query.append_pair("next", next);
    }
    if !why.is_empty() {
        query.append_pair("why", why);
    }
    let query = query.finish();
    if query.is_empty() { LOGIN.to_owned() } else { format!("{LOGIN}?{query}") }
}
