//! The routes of the console, and what a POST of a page passes: session, CSRF token of the form, the page's handler. Must never
//! be imported by a page or a handler: what they need is in `site`, `visit`, `submitted` and `reply`.

use crate::{
    addresses::{self, HOME},
    assets,
    context::FLASH_COOKIE,
    fault::Fault,
    headers,
    kept::KeptPages,
    layout,
    live::{self, state::Live},
    login,
    options::Options,
    pages, preferences,
    reply::{failed, put_cookie, to, with_session},
    session::SealKey,
    shown::shown,
    site::Site,
    submitted::sealed_form,
    view::{Act, Done, Page},
    visit,
};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode, header, request::Parts},
    middleware::from_fn,
    response::{IntoResponse as _, Response},
    routing::{MethodRouter, get, post},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::{Arc, LazyLock};

/// The console over the API as one router, layers and all.
///
/// # Panics
/// When the system has no random numbers.
pub fn router(api: Router, options: Options) -> Router {
    let site = Arc::new(Site {
        api,
        pages: &PAGES,
        live: Live::new(options.streams_max, options.streams_of_one_max),
        kept: KeptPages::default(),
        options,
        key: SealKey::random().expect("the system gives random numbers"),
    });
    MADE.router.clone().layer(from_fn(headers::guarded)).with_state(site)
}

/// Each route, with a method that it takes. They need no permission: the calls behind them do.
#[must_use]
pub fn routes() -> Vec<(Method, &'static str)> {
    MADE.routes.clone()
}

static PAGES: LazyLock<Vec<Page>> = LazyLock::new(pages::all);
static MADE: LazyLock<Made> = LazyLock::new(made);

fn made() -> Made {
    let mut made = Made::default();
    for page in PAGES.iter() {
        made.route(Method::GET, page.path, get(shown));
        if page.act.is_some() {
            made.route(Method::POST, page.path, post(acted));
        }
    }
    made.route(Method::GET, addresses::LOGIN, get(login::shown));
    made.route(Method::POST, addresses::LOGIN, post(login::signed_in));
    made.route(Method::POST, addresses::LOGOUT, post(login::signed_out));
    made.route(Method::GET, addresses::PREFERENCES, get(preferences::shown));
    made.route(Method::POST, addresses::PREFERENCES, post(preferences::set));
    made.route(Method::GET, addresses::LIVE, get(live::stream));
    made.route(Method::GET, addresses::JSON, get(json));
    made.route(Method::GET, assets::PATH, get(assets::asset));
    made.route(Method::GET, "/console/", get(unknown));
    made.route(Method::GET, "/console/{*rest}", get(unknown));
    made
}

/// The one table of routes.
#[derive(Default)]
struct Made {
    router: Router<Arc<Site>>,
    routes: Vec<(Method, &'static str)>,
}

impl Made {
    fn route(&mut self, method: Method, path: &'static str, handler: MethodRouter<Arc<Site>>) {
        self.router = std::mem::take(&mut self.router).route(path, handler);
        self.routes.push((method, path));
    }
}

async fn acted(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let response = match act(&site, &parts, body).await {
        Ok(response) => response,
        Err(fault) => failed(&site, &parts, fault).await,
    };
    with_session(&site, &parts.headers, response)
}

async fn act(site: &Site, parts: &Parts, body: Body) -> Result<Response, Fault> {
    let (page, params) = site.find(parts.uri.path()).ok_or(Fault::NotFound)?;
    let act: Act = page.act.ok_or(Fault::NotFound)?;
    // A caller without a session is refused before the form is read.
    let context = visit::context(site, parts, &parts.uri, params).await?;
    let form = sealed_form(site, parts, body).await?;
    match act(&context, &form).await? {
        Done::To { address, said } => {
            let mut response = to(&address);
            if let Some(said) = said {
                let said = utf8_percent_encode(&said, NON_ALPHANUMERIC);
                put_cookie(
                    &mut response,
                    &format!("{FLASH_COOKIE}={said}; Path={HOME}; Max-Age=30; HttpOnly; SameSite=Strict"),
                );
            }
            Ok(response)
        }
        Done::Again(view) => Ok(layout::page(&context, *view, StatusCode::UNPROCESSABLE_ENTITY)),
        Done::Show(view) => Ok(layout::page(&context, *view, StatusCode::OK)),
    }
}

async fn unknown(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    match parts.uri.path() {
        "/console/" => to(HOME),
        _ => failed(&site, &parts, Fault::NotFound).await,
    }
}

/// The maximum size of a JSON answer. For longer ones the user must call the API itself.
const JSON_MAX_BYTES: usize = 8 << 20;

/// A GET of the API with the caller's session: what a page is on.
async fn json(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let context = match visit::context(&site, &parts, &parts.uri, Vec::new()).await {
        Ok(context) => context,
        Err(fault) => return failed(&site, &parts, fault).await,
    };
    let call = context.query("call").filter(|query| query.starts_with("/v1/")).map(str::to_owned);
    let Some(call) = call else { return failed(&site, &parts, Fault::NotFound).await };
    match context.api.exactly().get_raw(&call, JSON_MAX_BYTES).await {
        // Byte for byte: numbers of 64 bits stay what they are.
        Ok(answer) => {
            (answer.status, [(header::CONTENT_TYPE, "application/json; charset=utf-8")], answer.body)
                .into_response()
        }
        Err(fault) => failed(&site, &parts, fault).await,
    }
}
