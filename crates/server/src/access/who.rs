//! The caller of a request, and the scope of its token. Must never look up a token: the guard does.

use crate::{app::App, refusal::Refusal};
use axum::{extract::FromRequestParts, http::request::Parts};
use punctual_domain::{
    access::{Grant, Permission},
    name::{Name, QueueKey},
    task::Task,
};
use punctual_engine::access::{Admitted, Identity};
use punctual_protocol::Code;
use std::{borrow::Cow, net::IpAddr, sync::Arc};

/// The author in histories if there are no tokens.
const API: &str = "api";

#[derive(Clone, Debug)]
pub(crate) struct Who {
    is: Is,
    pub(crate) address: Option<IpAddr>,
}

#[derive(Clone, Debug)]
enum Is {
    /// There are no tokens: they may do everything.
    Anyone,
    /// They have shown no token, and may do what needs none.
    Unidentified,
    Known(Admitted),
    /// A service of this process, as it is called in histories: the relay of an inbox, or the dispatcher of webhooks. The user
    /// who may write into the inbox's table may insert everything.
    Relay(Arc<str>),
}

impl Who {
    pub(crate) const fn anyone(address: Option<IpAddr>) -> Self {
        Self { is: Is::Anyone, address }
    }

    pub(crate) const fn unidentified(address: Option<IpAddr>) -> Self {
        Self { is: Is::Unidentified, address }
    }

    pub(crate) const fn known(admitted: Admitted, address: Option<IpAddr>) -> Self {
        Self { is: Is::Known(admitted), address }
    }

    /// `inbox:NAME`.
    pub(crate) fn relay(inbox: &str) -> Self {
        Self { is: Is::Relay(format!("inbox:{inbox}").into()), address: None }
    }

    /// The dispatcher of webhooks.
    pub(crate) fn dispatcher() -> Self {
        Self { is: Is::Relay("webhook".into()), address: None }
    }

    /// `None` if the caller may do everything, or nothing.
    pub(crate) fn grant(&self) -> Option<&Grant> {
        self.identity().map(|identity| &identity.grant)
    }

    /// `None` if the caller may do everything, or nothing.
    pub(crate) fn identity(&self) -> Option<&Identity> {
        match &self.is {
            Is::Known(admitted) => admitted.identity(),
            Is::Anyone | Is::Unidentified | Is::Relay(_) => None,
        }
    }

    fn may(&self, asked: impl FnOnce(&Grant) -> bool) -> bool {
        match &self.is {
            Is::Anyone | Is::Relay(_) => true,
            Is::Unidentified => false,
            Is::Known(_) => self.grant().is_some_and(asked),
        }
    }

    pub(crate) fn permits(&self, permission: Permission) -> bool {
        self.may(|grant| grant.permits(permission))
    }

    pub(crate) fn reaches_namespace(&self, namespace: &Name) -> bool {
        self.may(|grant| grant.reaches_namespace(namespace))
    }

    pub(crate) fn reaches(&self, queue: &QueueKey) -> bool {
        self.may(|grant| grant.reaches(queue))
    }

    pub(crate) fn reaches_everything(&self) -> bool {
        self.may(Grant::reaches_everything)
    }

    /// All queues of the namespaces that are reached.
    pub(crate) fn reaches_all_queues(&self) -> bool {
        self.may(Grant::reaches_all_queues)
    }

    /// True if the caller may give this grant to another token.
    pub(crate) fn covers(&self, grant: &Grant) -> bool {
        self.may(|this_grant| this_grant.covers(grant))
    }

    /// True if the caller may see a task of this namespace.
    pub(crate) fn sees(&self, task: &Task) -> bool {
        self.grant().is_none_or(|grant| grant.reaches(&task.ask.queue))
    }

    /// The author in histories.
    pub(crate) fn by(&self) -> &str {
        match &self.is {
            Is::Relay(name) => name,
            _ => self.identity().map_or(API, |identity| &identity.by),
        }
    }

    /// The author in histories, if the caller names itself: the name is shown with that of its token.
    pub(crate) fn by_as<'a>(&'a self, said: Option<&'a str>) -> Cow<'a, str> {
        match (said, self.identity()) {
            (None, _) => Cow::Borrowed(self.by()),
            (Some(said), Some(identity)) => Cow::Owned(format!("{said} by {}", identity.by)),
            (Some(said), None) => Cow::Borrowed(said),
        }
    }

    /// The caller's name in the audit.
    pub(crate) fn name(&self) -> &str {
        match &self.is {
            Is::Known(_) => self.identity().map_or("unknown", |identity| &identity.name),
            Is::Anyone => "local",
            Is::Relay(name) => name,
            Is::Unidentified => "unknown",
        }
    }

    pub(crate) fn token_id(&self) -> Option<&str> {
        self.identity()?.id.as_ref().map(|id| id.as_str())
    }

    /// The prefix of the idempotency keys of one owner: no caller reads the answers that were given to another.
    /// `None` if there are no owners.
    pub(crate) fn owner(&self) -> Option<&str> {
        self.identity().map(|identity| identity.id.as_ref().map_or("", |id| id.as_str()))
    }

    /// Refuses a caller that would not be admitted any more, during long work that it began. Costs a look-up.
    pub(crate) fn must_be_good_still(&self, app: &App) -> Result<(), Refusal> {
        let refusal = self.admitted().and_then(|admitted| app.engine.refusal_of(&admitted));
        refusal.map_or(Ok(()), |reason| Err(Refusal::new(Code::AuthRequired, reason)))
    }

    /// Waits until they would be let in no more.
    pub(crate) async fn until_refused(&self, app: &App) -> Refusal {
        match self.admitted() {
            Some(admitted) => Refusal::new(Code::AuthRequired, app.engine.until_refused(&admitted).await),
            None => std::future::pending().await,
        }
    }

    /// `None` if the request needs no token.
    fn admitted(&self) -> Option<Admitted> {
        match &self.is {
            Is::Known(admitted) => Some(admitted.clone()),
            Is::Anyone | Is::Relay(_) => Some(Admitted::without_token()),
            Is::Unidentified => None,
        }
    }

    /// Denied unless the queue is reached.
    pub(crate) fn must_reach(&self, queue: &QueueKey) -> Result<(), Refusal> {
        if self.reaches(queue) {
            return Ok(());
        }
        if !self.reaches_namespace(&queue.namespace) {
            return Err(beyond_namespace(&queue.namespace));
        }
        let detail = format!("the token does not reach queue {:?}", queue.queue.as_str());
        Err(Refusal::new(Code::AuthDenied, detail))
    }

    /// Denied unless all queues of the namespace are reached.
    pub(crate) fn must_reach_all_of(&self, namespace: &Name) -> Result<(), Refusal> {
        if !self.reaches_namespace(namespace) {
            return Err(beyond_namespace(namespace));
        }
        if self.reaches_all_queues() {
            return Ok(());
        }
        Err(Refusal::new(Code::AuthDenied, "it is of all queues, and the token reaches only some of them"))
    }
}

pub(crate) fn beyond_namespace(namespace: &Name) -> Refusal {
    Refusal::new(Code::AuthDenied, format!("the token does not reach namespace {:?}", namespace.as_str()))
}

impl<S: Sync> FromRequestParts<S> for Who {
    type Rejection = Refusal;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        Self::of(parts)
    }
}

impl Who {
    /// A request that did not pass the guard is refused.
    pub(crate) fn of(parts: &Parts) -> Result<Self, Refusal> {
        let unguarded = || Refusal::new(Code::Internal, "the request did not pass the guard");
        parts.extensions.get::<Self>().cloned().ok_or_else(unguarded)
    }
}
