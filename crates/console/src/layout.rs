//! The frame of every page: menu, namespace, zone and theme, the state of the connection, and the calls of the API
//! that the page is on.

use crate::{
    addresses, api, assets,
    context::{self, Context},
    fault::Fault,
    form, parts,
    shell::quoted,
    view::{ACTIONS, View},
};
use axum::{
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use maud::{DOCTYPE, Markup, html};

/// Address, label, permission without which it is not shown.
type Item = (&'static str, &'static str, &'static str);

const MENU: [(&str, &[Item]); 3] = [
    (
        "Work",
        &[
            ("/console", "Overview", "read"),
            ("/console/queues", "Queues", "read"),
            ("/console/tasks", "Tasks", "read"),
            ("/console/schedules", "Schedules", "read"),
            ("/console/workflows", "Workflows", "read"),
            ("/console/dead-letters", "Dead letters", "read"),
            ("/console/bulk", "Bulk operations", "read"),
        ],
    ),
    (
        "Machines",
        &[
            ("/console/executors", "Executors", "read"),
            ("/console/engines", "Engines and shards", "read"),
            ("/console/lateness", "Alerts and lateness", "read"),
        ],
    ),
    (
        "Keys",
        &[
            ("/console/namespaces", "Namespaces", "read"),
            ("/console/settings", "Settings", "read"),
            ("/console/tokens", "Tokens", "manage_access"),
            ("/console/audit", "Audit", "read_audit"),
        ],
    ),
];

const HTMX: &str = r#"{"allowEval":false,"includeIndicatorStyles":false,"selfRequestsOnly":true,"historyCacheSize":0,"scrollBehavior":"auto"}"#;

pub(crate) fn page(context: &Context, view: View, status: StatusCode) -> Response {
    let is_live = view.parts.iter().any(|part| part.live.is_some());
    let live_of = is_live.then(|| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("of", &context.here());
        format!("{}?{}", addresses::LIVE, query.finish())
    });
    let body = html! {
        a.skip href="#main" { "To the page" }
        (header(context))
        (menu(context))
        main #main tabindex="-1" data-live=[live_of] data-now=(context.now_ms) data-build=(assets::build()) {
            (head(context, &view))
            @for part in view.parts.into_iter().filter(|part| part.live != Some(ACTIONS)) {
                @match part.live {
                    Some(id) => div.part id={ "live-" (id) } data-part=(id) { (part.markup) },
                    None => (part.markup),
                }
            }
        }
        (footer(context))
        dialog #dialog aria-label="Confirm" {}
        div #said role="status" aria-live="polite" {}
    };
    document(&Head { title: &view.title, theme: context.theme, next: None }, &body, status)
}

fn head(context: &Context, view: &View) -> Markup {
    let live_actions = view.parts.iter().find(|part| part.live == Some(ACTIONS));
    html! {
        @if !view.trail.is_empty() {
            nav.trail aria-label="Where this is" {
                @for (label, address) in &view.trail { a href=(address) { (label) } " / " }
            }
        }
        div.page-head {
            h1 { (view.title) }
            @if let Some(actions) = &view.actions { div.actions { (actions) } }
            @if let Some(part) = live_actions { div.actions #live-actions data-part=(ACTIONS) { (part.markup) } }
        }
        p.help { (view.help) }
        @if let Some(said) = &context.flash { p.note.good #flash role="status" { (parts::short(said, 500)) } }
    }
}

fn header(context: &Context) -> Markup {
    html! {
        header.top {
            a.brand href=(context.href("/console", &[])) { img src=(assets::address("icon.svg")) alt="Punctual" width="20" height="20"; span aria-hidden="true" { "Punctual" } }
            form.find role="search" action="/console/find" method="get" {
                @if context.namespace != "default" { input type="hidden" name="ns" value=(context.namespace); }
                label.hidden for="find" { "Find a task, a queue, a key" }
                input #find type="search" name="q" placeholder="Find: ref, task id, key, queue" autocomplete="off" spellcheck="false";
                kbd aria-hidden="true" { "/" }
            }
            div #connection data-state="still" { span.dot {} span.word {} }
            (chooser(context))
            (caller(context))
        }
        div #banner role="alert" hidden {}
    }
}

/// Namespace, zone and theme.
fn chooser(context: &Context) -> Markup {
    let back = context.here();
    let preferences = context.href(addresses::PREFERENCES, &[("back", &back)]);
    html! {
        details.menu-box #context {
            summary title="Namespace and time zone" { (context.namespace) " · " span #zone-name { (context.zone.name) } }
            div.box {
                form method="get" action=(context.path) {
                    label for="ns" { "Namespace" }
                    div.row { input #ns name="ns" value=(context.namespace) spellcheck="false" autocapitalize="none"; button type="submit" { "Go" } }
                    a href=(context.href("/console/namespaces", &[])) { "All namespaces" }
                }
                form method="post" action=(addresses::PREFERENCES) data-zone-form {
                    input type="hidden" name=(form::TOKEN) value=(context.form_token);
                    input type="hidden" name="back" value=(back);
                    label for="zone-quick" { "Times are shown in" }
                    div.row {
                        select #zone-quick name="zone" {
                            @for name in zones(&context.zone.name) { option value=(name) selected[name == context.zone.name] { (name) } }
                        }
                        button type="submit" { "Set" }
                    }
                    a href=(preferences) { "All zones, theme" }
                }
            }
        }
        form method="post" action=(addresses::PREFERENCES) data-theme-form {
            input type="hidden" name=(form::TOKEN) value=(context.form_token);
            input type="hidden" name="back" value=(back);
            input type="hidden" name="theme" value=(if context.theme == Some("dark") { "light" } else { "dark" });
            button.plain #theme-switch type="submit" title="Light or dark" aria-label="Light or dark" { "◐" }
        }
    }
}

fn zones(present: &str) -> Vec<&str> {
    let mut zones = vec![
        "UTC",
        "Europe/London",
        "Europe/Berlin",
        "Europe/Kyiv",
        "America/New_York",
        "America/Chicago",
        "America/Los_Angeles",
        "America/Sao_Paulo",
        "Asia/Dubai",
        "Asia/Kolkata",
        "Asia/Shanghai",
        "Asia/Singapore",
        "Asia/Tokyo",
        "Australia/Sydney",
    ];
    if !zones.contains(&present) {
        zones.insert(1, present);
    }
    zones
}

fn caller(context: &Context) -> Markup {
    let me = &context.me;
    let roles: Vec<&str> = me.roles.iter().map(|role| role.word()).collect();
    html! {
        @if me.needs_token {
            details.menu-box #me {
                summary { (me.name) }
                div.box {
                    dl.facts {
                        (parts::fact("Roles", roles.join(", ")))
                        (parts::fact("Namespaces", me.namespaces.join(", ")))
                        (parts::fact("Queues", me.queues.join(", ")))
                        @if let Some(id) = &me.token_id { (parts::fact("Token", html! { code { (id) } })) }
                        @if let Some(at) = me.expires_at_ms { (parts::fact("Expires", parts::time(context, at))) }
                    }
                    @if context.session.token().is_some() {
                        form method="post" action=(addresses::LOGOUT) {
                            input type="hidden" name=(form::TOKEN) value=(context.form_token);
                            button #sign-out type="submit" { "Sign out" }
                        }
                    }
                }
            }
        } @else {
            span.badge.off title="No token exists: anyone who reaches this server may do everything" { "no tokens" }
        }
    }
}

fn menu(context: &Context) -> Markup {
    let is_here = |path: &str| {
        context.path == path || (path != "/console" && context.path.starts_with(&format!("{path}/")))
    };
    html! {
        nav.menu aria-label="Pages" {
            @for (title, items) in MENU {
                div.group { span.group-title { (title) }
                    ul { @for (path, label, permission) in items.iter().filter(|row| context.may(row.2)) {
                        li data-needs=(permission) { a href=(context.href(path, &[])) aria-current=[is_here(path).then_some("page")] { (label) } }
                    } }
                }
            }
        }
    }
}

fn footer(context: &Context) -> Markup {
    let calls = context.api.calls();
    html! {
        footer {
            @if !calls.is_empty() {
                details #calls {
                    summary { "This page as JSON: " (crate::texts::count(calls.len() as u64, "call", "calls")) " of the API" }
                    ul.calls {
                        @for call in &calls {
                            li {
                                a href=(context.href(addresses::JSON, &[("call", call)])) { "GET " (call) }
                                " " (parts::copy(&curl(context, "GET", call, None), "Copy as curl"))
                            }
                        }
                    }
                    p.dim { "With curl, add " code { "-H \"Authorization: Bearer $PUNCTUAL_TOKEN\"" } " where the server has tokens." }
                }
            }
            p.dim {
                "As of " (parts::exact(context, context.now_ms)) " " (context.zone.name)
                " · Punctual " (env!("CARGO_PKG_VERSION"))
                " · " a href="/docs/" { "API" } " · keys: " kbd { "/" } " find, " kbd { "j" } " " kbd { "k" } " rows, " kbd { "?" } " all"
            }
        }
    }
}

/// A call as one types it, in a POSIX shell.
pub(crate) fn curl(context: &Context, method: &str, call: &str, body: Option<&str>) -> String {
    let mut text = String::from("curl");
    if method != "GET" {
        text.push_str(&format!(" -X {}", quoted(method)));
    }
    if context.namespace != "default" {
        text.push_str(&format!(" -H {}", quoted(&format!("Punctual-Namespace: {}", context.namespace))));
    }
    if context.me.needs_token {
        text.push_str(" -H \"Authorization: Bearer $PUNCTUAL_TOKEN\"");
    }
    if let Some(body) = body {
        text.push_str(&format!(" -H 'Content-Type: application/json' -d {}", quoted(body)));
    }
    text.push_str(&format!(" \"$PUNCTUAL_URL\"{}", quoted(call)));
    text
}

/// A fault as a page, in the frame that the caller knows.
pub(crate) fn fault(context: &Context, fault: &Fault) -> View {
    View::new(fault.title(), "The server's answer.").part(html! {
        (parts::missing(fault))
        p { a.button href=(context.href("/console", &[])) { "To the overview" } }
    })
}

/// A page for one who is not known: without a menu.
pub(crate) fn bare(headers: &HeaderMap, title: &str, inside: &Markup, status: StatusCode) -> Response {
    bare_under(&Head { title, theme: context::theme(headers), next: None }, inside, status)
}

/// A page that continues to another address of the console by itself, as a page of this origin.
pub(crate) fn bare_on(headers: &HeaderMap, address: &str) -> Response {
    let inside = html! {
        h1 { "One moment" }
        p.help { "Another site opened this page, so the browser sent no session. The page reloads itself." }
        p { a.button href=(address) { "Go on" } }
    };
    let head = Head { title: "One moment", theme: context::theme(headers), next: Some((0, address)) };
    bare_under(&head, &inside, StatusCode::OK)
}

/// A page for now, which loads anew by itself after so many seconds.
pub(crate) fn bare_again(headers: &HeaderMap, title: &str, inside: &Markup, next: (u32, &str)) -> Response {
    let head = Head { title, theme: context::theme(headers), next: Some(next) };
    bare_under(&head, inside, StatusCode::SERVICE_UNAVAILABLE)
}

fn bare_under(head: &Head<'_>, inside: &Markup, status: StatusCode) -> Response {
    let body = html! {
        main.bare #main {
            p.brand { img src=(assets::address("icon.svg")) alt="" width="28" height="28"; "Punctual" }
            (inside)
        }
        div #said role="status" aria-live="polite" {}
    };
    document(head, &body, status)
}

pub(crate) fn bare_fault(headers: &HeaderMap, fault: &Fault, status: StatusCode) -> Response {
    let inside = html! {
        h1 { (fault.title()) }
        p.note.bad { (fault.detail()) }
        p { a.button href="/console" { "To the overview" } }
    };
    bare(headers, fault.title(), &inside, status)
}

struct Head<'a> {
    title: &'a str,
    theme: Option<&'static str>,
    /// The address to which the page continues, after so many seconds.
    next: Option<(u32, &'a str)>,
}

fn document(head: &Head<'_>, body: &Markup, status: StatusCode) -> Response {
    let Head { title, theme, next } = head;
    let page = html! {
        (DOCTYPE)
        html lang="en" data-theme=[*theme] {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content=(theme.unwrap_or("light dark"));
                meta name="htmx-config" content=(HTMX);
                @if let Some((after_s, next)) = next { meta http-equiv="refresh" content=(format!("{after_s};url={next}")); }
                title { (title) " · Punctual" }
                link rel="icon" type="image/svg+xml" href=(assets::address("icon.svg"));
                link rel="stylesheet" href=(assets::address("uplot.min.css"));
                link rel="stylesheet" href=(assets::address("console.css"));
                script src=(assets::address("htmx.min.js")) defer {}
                script src=(assets::address("uplot.min.js")) defer {}
                script src=(assets::address("console.js")) defer {}
            }
            body { (body) }
        }
    };
    let media_type = HeaderValue::from_static("text/html; charset=utf-8");
    (status, [(header::CONTENT_TYPE, media_type)], page.into_string()).into_response()
}

/// The name as a segment of a path of the console.
pub(crate) fn under(path: &str, name: &str) -> String {
    format!("{path}/{}", api::segment(name))
}
