//! Open pages that stay current: server-sent events. The page's own handler makes its live parts again, and what changed is
//! sent. Viewers of the same page with the same token share one rendering, and all renderings keep to a part of the time, so that
//! fifty open consoles cost little. Streams are bounded in number and time; a page whose stream ends opens another one.

pub(crate) mod state;
mod subscribers;
mod viewport;

use crate::{
    assets,
    context::{ZONE_COOKIE, theme},
    fault::Fault,
    options::Waiting,
    session::{Session, cookie},
    site::Site,
    visit::{self, Visit},
};
use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, Uri, request::Parts},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use blake3::Hash;
use futures_util::{future::BoxFuture, stream};
use punctual_protocol::Me;
use serde_json::json;
use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};
use subscribers::{Full, Subscription};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};
use viewport::{Fragment, RenderedLook, ShownViewport, Viewport};

/// The pause between two renderings.
const PERIOD: Duration = Duration::from_secs(2);
/// The interval in which viewers are notified that a rendering still runs.
const PATIENCE: Duration = Duration::from_secs(3);
/// A stream ends after this, and its page opens another one: so it meets other engines behind a balancer.
const LASTS: Duration = Duration::from_secs(300);
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// A page that found no place asks again after this.
const FULL_FOR: Duration = Duration::from_secs(60);

/// Streams a page. `of` is its address. The caller is identified before a place is occupied.
pub(crate) async fn stream(State(site): State<Arc<Site>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let query = crate::context::pairs(parts.uri.query().unwrap_or_default());
    let of = query.iter().find(|one| one.0 == "of").and_then(|one| one.1.parse::<Uri>().ok());
    let Some(of) = of.filter(|one| site.find(one.path()).is_some()) else {
        return (StatusCode::NOT_FOUND, "no such page").into_response();
    };
    let hello = event("hello", &json!({"build": assets::build()}));
    // Other failures are reported by the first rendering.
    if caller(&site, &parts).await.is_err_and(|one| one.is_sign_in()) {
        return reported([hello, event("end", &json!({"why": "signed_out"}))]);
    }
    let visit = Visit::of(&site, &parts.headers);
    let who = visit.session.token().map(|one| blake3::hash(one.as_bytes()));
    let subscription = match site.live.subscribers.take(who) {
        Ok(subscription) => subscription,
        Err(full) => {
            let why = match full {
                Full::OfOne => "token",
                Full::Of => "engine",
            };
            return reported([hello, event("full", &json!({"of": why, "again_ms": millis(FULL_FOR)}))]);
        }
    };
    let viewport = site.live.viewports.of(key(who, &parts.headers, &of));
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let state = Viewer {
        ends_at: Instant::now() + LASTS,
        session_ends_ms: visit.session.until_ms(),
        _seat: subscription,
        site,
        parts: Arc::new(parts),
        of,
        viewport,
        ticks,
        looking: None,
        sent: HashMap::new(),
        queue: VecDeque::from([hello]),
        is_over: false,
        refused: None,
    };
    let events = stream::unfold(state, |mut one| async move { Some((one.next().await?, one)) });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

fn event(name: &str, data: &serde_json::Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

/// These, and no more.
fn reported(events: [Event; 2]) -> Response {
    Sse::new(stream::iter(events.map(Ok::<_, Infallible>))).into_response()
}

fn millis(one: Duration) -> u64 {
    u64::try_from(one.as_millis()).unwrap_or(u64::MAX)
}

/// Checks that the API accepts the session.
async fn caller(site: &Site, parts: &Parts) -> Result<Me, Fault> {
    let visit = Visit::of(site, &parts.headers);
    site.api(parts, visit.session.shown(), "default").get("/v1/me").await
}

/// The key of viewers that see the same: the token, however often it has signed in, and what the page depends on.
fn key(who: Option<Hash>, headers: &HeaderMap, of: &Uri) -> Hash {
    let mut hasher = blake3::Hasher::new();
    let who = who.map(|one| one.to_hex().to_string()).unwrap_or_default();
    let zone = cookie(headers, ZONE_COOKIE).unwrap_or_default();
    for text in [&*who, &*zone, theme(headers).unwrap_or_default(), &*of.to_string()] {
        hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
    }
    hasher.finalize()
}

struct Viewer {
    site: Arc<Site>,
    parts: Arc<Parts>,
    of: Uri,
    viewport: Arc<Viewport>,
    ticks: Interval,
    looking: Option<BoxFuture<'static, ShownViewport>>,
    ends_at: Instant,
    /// The end of the session, by the cookie of the stream's request.
    session_ends_ms: Option<i64>,
    sent: HashMap<&'static str, Hash>,
    queue: VecDeque<Event>,
    is_over: bool,
    /// Done when the API would no longer accept the token, or `None` means not checked yet.
    refused: Option<Waiting>,
    _seat: Subscription,
}

enum StreamStep {
    Refused,
    Stopping,
    Look,
    Waits,
    Seen(ShownViewport),
}

impl Viewer {
    /// Returns `None` at the end of the stream.
    async fn next(&mut self) -> Option<Result<Event, Infallible>> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(Ok(event));
            }
            if self.is_over {
                return None;
            }
            let shutdown = self.site.options.shutdown.cancelled();
            let step = match &mut self.looking {
                None => tokio::select! {
                    () = until(self.refused.as_mut()) => StreamStep::Refused,
                    () = shutdown => StreamStep::Stopping,
                    _ = self.ticks.tick() => StreamStep::Look,
                },
                Some(looking) => tokio::select! {
                    () = until(self.refused.as_mut()) => StreamStep::Refused,
                    () = shutdown => StreamStep::Stopping,
                    shown = looking => StreamStep::Seen(shown),
                    () = sleep(PATIENCE) => StreamStep::Waits,
                },
            };
            match step {
                StreamStep::Refused => self.end("signed_out"),
                StreamStep::Stopping => self.end("stopping"),
                StreamStep::Look => self.look(),
                StreamStep::Waits => {
                    self.queue.push_back(event("slow", &json!({"as_of_ms": self.viewport.as_of_ms()})));
                }
                StreamStep::Seen(shown) => {
                    self.looking = None;
                    // Afterwards: the look has found the token if it was made at another engine just now.
                    let now = (self.site.options.now_ms)();
                    let is_tls = self.site.options.is_tls;
                    let token = || Session::of(&self.parts.headers, now, is_tls).token().map(str::to_owned);
                    self.refused.get_or_insert_with(|| (self.site.options.until_refused)(token()));
                    self.show(shown);
                }
            }
        }
    }

    fn end(&mut self, why: &str) {
        self.queue.push_back(event("end", &json!({"why": why})));
        self.is_over = true;
    }

    /// Another page of the browser may have extended a session that has ended: this page reconnects, and the answer
    /// shows that.
    fn is_out(&self) -> bool {
        self.session_ends_ms.is_some_and(|one| one <= (self.site.options.now_ms)())
    }

    fn look(&mut self) {
        if self.is_out() {
            return self.end("again");
        }
        let (site, parts) = (Arc::clone(&self.site), Arc::clone(&self.parts));
        let (of, viewport) = (self.of.clone(), Arc::clone(&self.viewport));
        self.looking = Some(Box::pin(async move {
            let now_ms = || (site.options.now_ms)();
            let shown = viewport.shared(&site.live.viewports, now_ms, rendered(&site, &parts, &of)).await;
            // Another has rendered it: of this one's token it is asked all the same, each time.
            if shown.is_shared && caller(&site, &parts).await.is_err_and(|one| one.is_sign_in()) {
                return ShownViewport { look: RenderedLook::SignedOut, ..shown };
            }
            shown
        }));
    }

    fn show(&mut self, shown: ShownViewport) {
        match shown.look {
            RenderedLook::SignedOut if self.is_out() => self.end("again"),
            RenderedLook::SignedOut => self.end("signed_out"),
            RenderedLook::Fault(text) => self.queue.push_back(event("fault", &json!({"text": &*text}))),
            // No page of ours asks for it.
            RenderedLook::Parts(fragments) if fragments.is_empty() => self.end("still"),
            RenderedLook::Parts(fragments) => {
                for one in fragments.iter() {
                    if self.sent.insert(one.id, one.hash) != Some(one.hash) {
                        self.queue.push_back(event("part", &json!({"id": one.id, "html": one.html})));
                    }
                }
                let ok = json!({"as_of_ms": shown.as_of_ms, "is_slow": shown.is_slow});
                self.queue.push_back(event("ok", &ok));
            }
        }
        if self.ends_at <= Instant::now() && !self.is_over {
            self.end("again");
        }
    }
}

async fn until(refused: Option<&mut Waiting>) {
    match refused {
        Some(refused) => refused.await,
        None => std::future::pending().await,
    }
}

async fn rendered(site: &Site, parts: &Parts, of: &Uri) -> RenderedLook {
    let Some((page, params)) = site.find(of.path()) else {
        return RenderedLook::Fault("no such page".into());
    };
    let shown = async {
        let mut context = visit::context(site, parts, of, params).await?;
        context.is_live = true;
        let view = (page.show)(&context).await?;
        Ok::<_, Fault>((view, context.api.met_store_away()))
    };
    let is_partly_away = || {
        let visit = Visit::of(site, &parts.headers);
        (site.options.without_store)(visit.session.token()).is_partly_away()
    };
    match shown.await {
        // What the page shows is worth more than that it cannot be read.
        Ok((_, true)) if !is_partly_away() => RenderedLook::Fault("The database does not answer.".into()),
        Ok((view, _)) => {
            let fragments = view.parts.into_iter().filter_map(|one| {
                let (id, html) = (one.live?, one.markup.into_string());
                Some(Fragment { id, hash: blake3::hash(html.as_bytes()), html })
            });
            RenderedLook::Parts(Arc::new(fragments.collect()))
        }
        Err(fault) if fault.is_sign_in() => RenderedLook::SignedOut,
        Err(fault) => RenderedLook::Fault(format!("{}: {}", fault.title(), fault.detail()).into()),
    }
}
