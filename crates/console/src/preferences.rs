//! Zone and theme: stored in cookies of the browser, and nowhere else. No session is needed, and nothing here is
//! secret.

use crate::{
    addresses,
    context::{Context, THEME_COOKIE, ZONE_COOKIE},
    fault::Fault,
    form::{self, Form},
    layout, parts as look,
    reply::{self, put_cookie, to},
    site::Site,
    submitted,
    texts::{self, Zone},
    view::View,
    visit,
};
use axum::{
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use maud::html;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;

const YEAR_S: u32 = 31_536_000;

pub(crate) async fn shown(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match visit::context(&site, &parts, &parts.uri, Vec::new()).await {
        Ok(context) => layout::page(&context, view(&context), StatusCode::OK),
        Err(fault) => reply::failed(&site, &parts, fault).await,
    }
}

fn view(context: &Context) -> View {
    let back = context.query("back").unwrap_or("/console");
    let names = texts::zone_names();
    let form = html! {
        form.settings #preferences method="post" action=(addresses::PREFERENCES) {
            input type="hidden" name=(form::TOKEN) value=(context.form_token);
            input type="hidden" name="back" value=(back);
            (look::field("zone", "Time zone", Some("All pages show times in this zone. The API uses UTC."), &html! {
                select #zone name="zone" {
                    @for name in names {
                        option value=(name) selected[*name == context.zone.name] { (name) }
                    }
                }
            }, None))
            (look::field("theme", "Theme", None, &html! {
                select #theme name="theme" {
                    @for (value, label) in [("", "As the system has it"), ("light", "Light"), ("dark", "Dark")] {
                        option value=(value) selected[value == context.theme.unwrap_or("")] { (label) }
                    }
                }
            }, None))
            button.primary type="submit" { "Keep" }
        }
    };
    View::new("Preferences", "How this browser shows the console. The server does not store it.")
        .part(look::panel("How it looks", &form))
}

pub(crate) async fn set(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let form = match submitted::sealed_form(&site, &parts, body).await {
        Ok(form) => form,
        Err(fault) => return reply::failed(&site, &parts, fault).await,
    };
    match kept(&form, site.options.is_tls) {
        Ok(cookies) => {
            let back = form
                .get("back")
                .filter(|back| back.starts_with("/console") && !back.contains("//"))
                .unwrap_or("/console");
            let mut response = to(back);
            cookies.iter().for_each(|cookie| put_cookie(&mut response, cookie));
            response
        }
        Err(fault) => reply::failed(&site, &parts, fault).await,
    }
}

fn kept(form: &Form, is_tls: bool) -> Result<Vec<String>, Fault> {
    let secure = if is_tls { "; Secure" } else { "" };
    let cookie = |name: &str, value: &str| {
        let value = utf8_percent_encode(value, NON_ALPHANUMERIC);
        format!("{name}={value}; Path=/console; Max-Age={YEAR_S}; SameSite=Strict{secure}")
    };
    let mut cookies = Vec::new();
    if let Some(zone) = form.get("zone") {
        if Zone::named(zone).name != zone {
            return Err(Fault::Invalid(format!(
                "{zone:?} is not the name of a time zone, such as Europe/Berlin."
            )));
        }
        cookies.push(cookie(ZONE_COOKIE, zone));
    }
    if form.all("theme").next().is_some() {
        let theme = form.get("theme").unwrap_or_default();
        cookies.push(cookie(THEME_COOKIE, if matches!(theme, "light" | "dark") { theme } else { "" }));
    }
    Ok(cookies)
}
