//! A browser without scripts: keeps cookies, sends forms, and follows no redirect by itself. Parses only the
//! needed parts of a page.

use crate::access::site::AccessSite;
use axum::{
    body::Body,
    http::{HeaderMap, Request},
};
use punctual_server::ClientAddress;
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};
use tower::ServiceExt as _;

pub(super) const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 7));

pub(super) struct Browser<'a> {
    site: &'a AccessSite,
    pub(super) cookies: BTreeMap<String, String>,
    /// Of every request.
    pub(super) headers: Vec<(&'static str, &'static str)>,
    /// As browsers do of each form that they send.
    pub(super) names_its_page: bool,
}

pub(super) struct BrowserPage {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) headers: HeaderMap,
}

impl BrowserPage {
    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |header| header.to_str().unwrap())
    }

    pub(super) fn location(&self) -> &str {
        self.header("location")
    }

    /// The seal of its first form.
    #[track_caller]
    pub(super) fn seal(&self) -> String {
        let rest = self.text.split_once("name=\"form_token\" value=\"").expect("a form with its seal").1;
        rest.split_once('"').unwrap().0.to_owned()
    }

    #[track_caller]
    pub(super) fn must_have(&self, text: &str) -> &Self {
        assert!(self.text.contains(text), "{text:?} is not in {}", self.text);
        self
    }
}

impl<'a> Browser<'a> {
    pub(super) const fn at(site: &'a AccessSite) -> Self {
        Self { site, cookies: BTreeMap::new(), headers: Vec::new(), names_its_page: true }
    }

    /// At the overview, with this token.
    pub(super) async fn signed_in(site: &'a AccessSite, token: &str) -> Self {
        let mut browser = Self::at(site);
        let page = browser.post("/console/login", &[("token", token)]).await.expect(303);
        assert_eq!(page.location(), "/console");
        browser
    }

    pub(super) async fn get(&mut self, path: &str) -> BrowserPage {
        self.send("GET", path, None).await
    }

    pub(super) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> BrowserPage {
        let mut body = String::new();
        for (name, value) in fields {
            let separator = if body.is_empty() { "" } else { "&" };
            body.push_str(&format!("{separator}{}={}", encoded(name), encoded(value)));
        }
        self.send("POST", path, Some(body)).await
    }

    /// Opens a page and sends its form, with these fields besides its seal.
    pub(super) async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> BrowserPage {
        let seal = self.get(path).await.expect(200).seal();
        let mut all = vec![("form_token", seal.as_str())];
        all.extend(fields);
        self.post(path, &all).await
    }

    async fn send(&mut self, method: &str, path: &str, body: Option<String>) -> BrowserPage {
        let (parts, body) = self.open(method, path, body).await.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        BrowserPage {
            status: parts.status.as_u16(),
            text: String::from_utf8(bytes.to_vec()).unwrap(),
            headers: parts.headers,
        }
    }

    /// The answer, of which the body has not been read.
    pub(super) async fn open(
        &mut self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> axum::response::Response {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        let is_said = self.headers.iter().any(|header| matches!(header.0, "origin" | "sec-fetch-site"));
        if method == "POST" && self.names_its_page && !is_said {
            request = request.header("origin", "http://localhost");
        }
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        if !self.cookies.is_empty() {
            let pairs: Vec<String> =
                self.cookies.iter().map(|cookie| format!("{}={}", cookie.0, cookie.1)).collect();
            request = request.header("cookie", pairs.join("; "));
        }
        let body = body.map_or_else(Body::empty, Body::from);
        let mut request =
            request.header("content-type", "application/x-www-form-urlencoded").body(body).unwrap();
        request.extensions_mut().insert(ClientAddress(FROM));
        let response = self.site.router.clone().oneshot(request).await.unwrap();
        for cookie in response.headers().get_all("set-cookie") {
            let (name, value) = cookie.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
            match value {
                "" => self.cookies.remove(name),
                _ => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
        response
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}
