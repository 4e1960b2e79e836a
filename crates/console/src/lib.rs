//! The web console: what an operator has open on a bad day, at `/console`. It is a client of the API that lives in the
//! same process: every page asks the API's own router, with the caller's token, so that roles, namespaces, quotas and the
//! audit are the API's and there is nothing here that the API cannot do. It must never know the engine or a store, never
//! ask another host for anything, and never need JavaScript for what matters.
//!
//! # How a page is made
//!
//! A page is one file under `pages/`, with a function `pages` that `pages::all` names in one line. Nothing else is touched;
//! only a page that belongs into the menu has a line in `layout::MENU`.
//!
//! ```ignore
//! pub(super) fn pages() -> Vec<Page> {
//!     vec![
//!         Page { path: "/console/things", show: |context| Box::pin(list(context)), act: None },
//!         Page { path: "/console/things/{thing}/stop", show: |context| Box::pin(ask(context)), act: Some(|context, form| Box::pin(stop(context, form))) },
//!     ]
//! }
//! ```
//!
//! 1. **Handler.** `show(&Context) -> Result<View, Fault>` answers GET; `act(&Context, &Form) -> Result<Done, Fault>`
//!    POST. Parameters of the path: `context.param("thing")`; of the query: `context.query("cursor")`. A returned
//!    `Fault` becomes a complete page with the API's message; one that concerns a part only is shown in its place:
//!    `parts::missing(&fault)`.
//! 2. **Calls.** `context.api.get::<T>("/v1/things")` with the types of `punctual_protocol`; `api.send(..)` for changes. Every GET is
//!    noted and is in the page's footer, with its JSON and as curl. Segments of a path go through `api::segment`.
//! 3. **View.** `View::new("Things", "One sentence that describes it.")`, then `.part(markup)` for what does not change and
//!    `.live("id", markup)` for what changes. Links are made with `context.href("/console/things", &[("state", "dead")])`, which
//!    keeps the namespace. Markup is maud, which escapes; never `PreEscaped` on anything that came from outside.
//!    Times, numbers, references, badges, JSON, charts: `parts` and `texts`, so that they look alike everywhere. No inline style
//!    and no inline script: the policy refuses them.
//! 4. **Live.** The same `show` renders the live parts again every two seconds, and those that changed are sent. So
//!    `show` must be cheap, must read a page of a list and not all of it, and a live part must have no form in it
//!    (forms carry a token that changes): buttons in it are links to a page that asks (`parts::button`). `View::live`
//!    ids are unique in the page; `details` in it stay open if they have an id.
//! 5. **Changes.** Whatever changes something is a page of its own that says what will happen and to how many
//!    (`confirm::Confirm`), and whose `act` does it and answers `Done::to(address, "what was done")`. Scripts show that page in a dialog.
//!    What the API refuses comes back as a `Fault::Refused`; `Done::again(view)` shows a form once more with its faults.
//!    Buttons name the permission that the call needs, and are dead, with the reason, for those who do not have it.
//! 6. **Stored.** The last good rendering of each page is shown while a database does not answer (`shown`): a handler
//!    does nothing for that.
//! 7. **Test.** `crates/testkit/tests/all/console`: add the address to `pages::every_page`, which is walked over an empty and a filled engine,
//!    with the corpus of injections, and has its headers checked; and a test of what the page does.

// What all requests share, and what a page is given.
mod addresses;
mod context;
mod kept;
mod options;
mod session;
mod site;
mod visit;

// What every request passes.
mod assets;
mod headers;
mod live;
mod login;
mod preferences;
mod reply;
mod router;
mod shown;
mod submitted;

// What the API is asked.
mod api;
mod fault;
mod form;

// How it looks.
mod charts;
mod confirm;
mod json;
mod layout;
mod parts;
mod shell;
mod texts;
mod view;

mod pages;

pub use headers::protect;
pub use options::{EngineView, Identify, Options, PATIENCE, UntilRefused, Waiting, WithoutStore};
pub use router::{router, routes};
