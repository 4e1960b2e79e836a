//! Documentation for people, served from the binary: Swagger UI (no network needed) and a page for each error code. Must not
//! load anything from elsewhere.

use crate::refusal::Refusal;
use axum::{
    extract::Path,
    http::{HeaderMap, header},
    response::{Html, IntoResponse as _, Redirect, Response},
};
use punctual_protocol::{CODES, Code, CodeInfo};
use std::fmt::Write as _;

/// Name, media type, contents: assets/README.md says where each is from.
const API_BROWSER: [(&str, &str, &[u8]); 4] = [
    ("index.html", "text/html; charset=utf-8", include_bytes!("../assets/index.html")),
    (
        "swagger-initializer.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/swagger-initializer.js"),
    ),
    (
        "swagger-ui-bundle.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../assets/swagger-ui-bundle.js"),
    ),
    ("swagger-ui.css", "text/css; charset=utf-8", include_bytes!("../assets/swagger-ui.css")),
];

/// Redirects temporarily: the target may change.
pub(crate) async fn to_start(headers: HeaderMap) -> Redirect {
    // People come with a browser; whatever else asks is led to the document of the interface.
    let accepted = headers.get(header::ACCEPT).and_then(|header| header.to_str().ok()).unwrap_or_default();
    Redirect::temporary(if accepted.contains("text/html") { "/console" } else { "/docs/" })
}

pub(crate) async fn to_index() -> Redirect {
    Redirect::permanent("/docs/")
}

/// The API browser.
pub(crate) async fn api_browser() -> Result<Response, Refusal> {
    api_browser_file(Path("index.html".to_owned())).await
}

/// A file of the API browser.
pub(crate) async fn api_browser_file(Path(name): Path<String>) -> Result<Response, Refusal> {
    let (_, media_type, contents) = API_BROWSER
        .into_iter()
        .find(|file| file.0 == name)
        .ok_or_else(|| Refusal::new(Code::RequestUnknownRoute, format!("there is no page /docs/{name}")))?;
    Ok(([(header::CONTENT_TYPE, media_type)], contents).into_response())
}

pub(crate) async fn errors() -> Html<String> {
    let rows = CODES.iter().fold(String::new(), |mut rows, code| {
        let _ = write!(
            rows,
            "<tr><td><a href=\"/docs/errors/{0}\"><code>{0}</code></a></td><td>{1}</td><td>{2}</td></tr>",
            code.name, code.status, code.title
        );
        rows
    });
    html("Errors", &format!("<table><tr><th>code</th><th>status</th><th></th></tr>{rows}</table>"))
}

/// The page that the `type` of a problem names.
pub(crate) async fn error(Path(name): Path<String>) -> Result<Html<String>, Refusal> {
    let unknown = || Refusal::new(Code::RequestUnknownRoute, format!("there is no error code {name:?}"));
    let info = Code::from_name(&name).ok_or_else(unknown)?.info();
    let text = format!(
        "<p>{} <code>{}</code></p><p>{}</p><p><a href=\"/docs/errors\">All errors</a></p>",
        info.status,
        info.name,
        ticks(info.doc)
    );
    Ok(html(info.title, &text))
}

fn html(title: &str, body: &str) -> Html<String> {
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title} - Punctual</title>\
        <style>body{{font:16px/1.5 system-ui;max-width:50em;margin:2em auto;padding:0 1em}}td{{padding:.2em 1em .2em 0}}</style>\
        <h1>{title}</h1>{body}</html>"
    ))
}

/// Text with `code` in backticks. Texts come from `CODES`, not from callers; they have no markup.
fn ticks(text: &str) -> String {
    let parts = text.split('`').enumerate();
    parts
        .map(|(nth, part)| if nth % 2 == 1 { format!("<code>{part}</code>") } else { escape(part) })
        .collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// `docs/errors.md`.
#[must_use]
pub fn errors_page() -> String {
    let mut page = String::from(
        "# Errors\n\n<!-- Written from crates/protocol/src/codes.rs by a test of crates/server; UPDATE_EXPECT=1 cargo test -p punctual-server rewrites it. -->\n\n\
        For developers. Every error is a problem document (RFC 9457, `application/problem+json`): `type`, `title`, `status`, `code`, `detail`,\n\
        and `errors` with a JSON pointer for each field that is not valid. Decide by `code`: it is never renamed.\n\
        A server shows the same texts at `/docs/errors`.\n",
    );
    for CodeInfo { name, status, title, doc, .. } in CODES {
        let _ = write!(page, "\n## {name}\n\n{status}: {title}. {doc}\n");
    }
    page
}
