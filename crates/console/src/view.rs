//! The results of a page's handler: parts, of which some are live.

use crate::{context::Context, fault::Fault, form::Form};
use futures_util::future::BoxFuture;
use maud::Markup;

pub(crate) type Show = for<'a> fn(&'a Context) -> BoxFuture<'a, Result<View, Fault>>;
pub(crate) type Act = for<'a> fn(&'a Context, &'a Form) -> BoxFuture<'a, Result<Done, Fault>>;

/// An address of the console.
pub(crate) struct Page {
    pub(crate) path: &'static str,
    pub(crate) show: Show,
    /// The handler of a POST.
    pub(crate) act: Option<Act>,
}

pub(crate) struct View {
    pub(crate) title: String,
    /// One sentence that describes the page.
    pub(crate) help: String,
    /// The way to the page: label and address, the nearest last.
    pub(crate) trail: Vec<(String, String)>,
    /// The actions beside the title.
    pub(crate) actions: Option<Markup>,
    pub(crate) parts: Vec<PagePart>,
}

/// The live part that is beside the title.
pub(crate) const ACTIONS: &str = "actions";

pub(crate) struct PagePart {
    /// The id of a live part, unique in the page.
    pub(crate) live: Option<&'static str>,
    pub(crate) markup: Markup,
}

/// The result of a POST.
pub(crate) enum Done {
    /// Redirects there. The page shows the message on top.
    To { address: String, said: Option<String> },
    /// The form once more, with what is wrong.
    Again(Box<View>),
    /// The view is shown once only.
    Show(Box<View>),
}

impl Done {
    pub(crate) fn to(address: impl Into<String>, said: impl Into<String>) -> Self {
        Self::To { address: address.into(), said: Some(said.into()) }
    }
}

impl View {
    pub(crate) fn new(title: impl Into<String>, help: impl Into<String>) -> Self {
        Self { title: title.into(), help: help.into(), trail: Vec::new(), actions: None, parts: Vec::new() }
    }

    #[must_use]
    pub(crate) fn under(mut self, label: impl Into<String>, address: String) -> Self {
        self.trail.push((label.into(), address));
        self
    }

    #[must_use]
    pub(crate) fn actions(mut self, markup: Markup) -> Self {
        self.actions = Some(markup);
        self
    }

    /// The same where they change with what the page is about: sent like a live part, and placed beside the title.
    #[must_use]
    pub(crate) fn live_actions(self, markup: Markup) -> Self {
        self.live(ACTIONS, markup)
    }

    #[must_use]
    pub(crate) fn part(mut self, markup: Markup) -> Self {
        self.parts.push(PagePart { live: None, markup });
        self
    }

    #[must_use]
    pub(crate) fn live(mut self, id: &'static str, markup: Markup) -> Self {
        self.parts.push(PagePart { live: Some(id), markup });
        self
    }
}
