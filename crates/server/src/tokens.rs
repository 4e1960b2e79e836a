//! Tokens: create, list, rotate, revoke. A secret is in the answer that made it and nowhere else. No token grants,
//! sees or changes more than it has.

use crate::{
    access::{Changed, Who},
    answer,
    app::{App, Shared},
    cursor,
    extract::{Body, Query, Segment},
    refusal::Refusal,
};
use axum::{extract::State, http::StatusCode, response::Response};
use punctual_contract::access::Token;
use punctual_domain::{
    access::{Grant, Pattern, Role, TokenId},
    time::Millis,
};
use punctual_engine::access::tokens::{Created, Issued, NOT_THE_FIRST, NewToken, Turned};
use punctual_protocol::{
    AccessToken, At, Code, CreateToken, FieldError, ListTokens, Page, Revealed, Role as WireRole,
    RotateToken, TokenState, limits::PAGE_DEFAULT, pattern_fault,
};

/// Create a token.
///
/// `token` is only in this answer: the server stores its hash. The roles, namespaces and queues of the new token must be
/// within those of the caller. An `Idempotency-Key` is refused, because the answer would have to be stored.
#[utoipa::path(
    post, path = "/v1/tokens", operation_id = "create_token", tag = "access",
    request_body(content = CreateToken, example = json!({
        "name": "billing", "roles": ["submitter"], "namespaces": ["shop"], "queues": ["mail-*"]
    })),
    responses((status = 201, description = "The token, with its secret.", body = AccessToken)),
)]
pub(crate) async fn create_token(
    State(app): State<Shared>,
    who: Who,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let asked = CreateToken::from_json(&body)?;
    let grant = grant(&asked)?;
    if !who.covers(&grant) {
        let detail = "it would have a role, a namespace or a queue that the token that asks has not";
        return Err(Refusal::new(Code::AuthDenied, detail));
    }
    let expires_at = asked.expires_ms().map(Millis);
    if expires_at.is_some_and(|expires_at| expires_at <= app.engine.now()) {
        return Err(Refusal::field("/expires_at", "is in the past"));
    }
    // A secret of the configuration is a token too.
    if asked.grace_ms.is_some() && app.engine.access_is_required() {
        return Err(Refusal::field("/grace_ms", NOT_THE_FIRST));
    }
    let new = NewToken { name: asked.name, grant, expires_at, grace_ms: asked.grace_ms };
    let issued = match app.engine.create_token(new, who.by()).await? {
        Created::Done(issued) => *issued,
        Created::NotTheFirst => return Err(Refusal::field("/grace_ms", NOT_THE_FIRST)),
    };
    let after = json_of(&shown(&issued.token, app.engine.now()));
    let response = answer::json(StatusCode::CREATED, &revealed(issued, app.engine.now()));
    Ok(Changed { after, ..Changed::default() }.reported_with(response))
}

/// List the tokens.
///
/// Tokens that reach no further than that of the caller, the newest first. Revoked and expired tokens are listed for
/// the retention time of the audit log.
#[utoipa::path(
    get, path = "/v1/tokens", operation_id = "list_tokens", tag = "access", params(ListTokens),
    responses((status = 200, description = "A page of the list.", body = Page<AccessToken>)),
)]
pub(crate) async fn list_tokens(
    State(app): State<Shared>,
    who: Who,
    Query(asked): Query<ListTokens>,
) -> Result<Response, Refusal> {
    asked.check()?;
    let limit = usize::try_from(asked.limit.unwrap_or(PAGE_DEFAULT)).unwrap_or(usize::MAX);
    let below = asked.cursor.as_deref().map(place_of).transpose()?;
    let now = app.engine.now();
    let mut tokens = app.engine.tokens().await?;
    tokens.retain(|token| {
        who.covers(&token.grant)
            && asked.state.is_none_or(|state| state == state_of(token, now))
            && below.as_ref().is_none_or(|below| place(token) < *below)
    });
    tokens.sort_by_cached_key(|token| std::cmp::Reverse(place(token)));
    let is_last = tokens.len() <= limit;
    tokens.truncate(limit);
    let next_cursor = tokens.last().filter(|_| !is_last).map(|token| {
        let (created_at, id) = place(token);
        format!("{created_at}-{id}")
    });
    let items = tokens.iter().map(|token| shown(token, now)).collect();
    Ok(answer::json(StatusCode::OK, &Page { items, next_cursor }))
}

/// The token's position in the list.
fn place(token: &Token) -> (i64, String) {
    (token.created_at.0, token.id.as_str().to_owned())
}

fn place_of(cursor: &str) -> Result<(i64, String), Refusal> {
    let (at, id) = cursor.rsplit_once('-').ok_or_else(cursor::refused)?;
    Ok((at.parse().map_err(|_| cursor::refused())?, id.to_owned()))
}

/// Revoke a token for good.
///
/// This server refuses the token from the answer on, the others within a second. Waiting calls end too. The token
/// stays in the list for the retention time of the audit log.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", operation_id = "revoke_token", tag = "access",
    params(("id" = String, Path, description = "Its id: the part between the first two underscores.")),
    responses((status = 200, description = "The token after the change.", body = AccessToken)),
)]
pub(crate) async fn revoke_token(
    State(app): State<Shared>,
    who: Who,
    Segment(id): Segment,
) -> Result<Response, Refusal> {
    let token = of_caller(&app, &who, &id).await?;
    match app.engine.revoke_token(token.id, who.by()).await? {
        Turned::Done { before, after } => {
            let now = app.engine.now();
            Ok(turned(&app, &before, &after).reported_with(answer::json(StatusCode::OK, &shown(&after, now))))
        }
        Turned::NotFound | Turned::Revoked(_) => Err(no_token(&id)),
    }
}

/// Give a token a new secret.
///
/// `token` is only in this answer. The previous secret stays valid for `overlap_ms`, by default one hour, so that clients
/// can be changed one after the other. The body is optional.
#[utoipa::path(
    post, path = "/v1/tokens/{id}/rotate", operation_id = "rotate_token", tag = "access",
    params(("id" = String, Path, description = "The id.")),
    request_body(content = Option<RotateToken>, example = json!({"overlap_ms": 3_600_000})),
    responses((status = 200, description = "The token, with its new secret.", body = AccessToken)),
)]
pub(crate) async fn rotate_token(
    State(app): State<Shared>,
    who: Who,
    Segment(id): Segment,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let asked = RotateToken::from_json(&body)?;
    let token = of_caller(&app, &who, &id).await?;
    match app.engine.rotate_token(token.id, asked.overlap_ms()).await? {
        Turned::Done { before, after: issued } => {
            let changed = turned(&app, &before, &issued.token);
            Ok(changed.reported_with(answer::json(StatusCode::OK, &revealed(issued, app.engine.now()))))
        }
        Turned::NotFound => Err(no_token(&id)),
        Turned::Revoked(_) => Err(Refusal::new(Code::TokenRevoked, format!("token {id} was revoked"))),
    }
}

fn no_token(id: &str) -> Refusal {
    Refusal::new(Code::TokenNotFound, format!("there is no token {id:?}"))
}

/// The token, if it reaches no further than the caller.
async fn of_caller(app: &App, who: &Who, id: &str) -> Result<Token, Refusal> {
    let Ok(id) = TokenId::new(id) else { return Err(no_token(id)) };
    let found = app.engine.tokens().await?.into_iter().find(|token| token.id == id);
    found.filter(|token| who.covers(&token.grant)).ok_or_else(|| no_token(id.as_str()))
}

fn turned(app: &App, before: &Token, after: &Token) -> Changed {
    let now = app.engine.now();
    Changed { before: json_of(&shown(before, now)), after: json_of(&shown(after, now)), ..Changed::default() }
}

fn json_of(token: &AccessToken) -> Option<String> {
    serde_json::to_string(token).ok()
}

/// Tokens from and to the wire, for commands that work on a store itself.
pub mod access_tokens {
    pub use super::{grant, revealed, shown};
}

/// Converts the requested grant.
///
/// # Errors
/// The first pattern that is none.
pub fn grant(asked: &CreateToken) -> Result<Grant, FieldError> {
    let mut roles: Vec<Role> = asked.roles.iter().map(|role| domain_role(*role)).collect();
    roles.sort_unstable();
    roles.dedup();
    let patterns = |list: &str, texts: &Option<Vec<String>>| {
        let Some(texts) = texts else { return Ok(vec![Pattern::All]) };
        let one = |(nth, text): (usize, &String)| {
            text.parse::<Pattern>().map_err(|problem| pattern_fault(list, nth, problem))
        };
        texts.iter().enumerate().map(one).collect()
    };
    Ok(Grant {
        roles,
        namespaces: patterns("namespaces", &asked.namespaces)?,
        queues: patterns("queues", &asked.queues)?,
    })
}

const fn domain_role(role: WireRole) -> Role {
    match role {
        WireRole::Viewer => Role::Viewer,
        WireRole::Submitter => Role::Submitter,
        WireRole::Executor => Role::Executor,
        WireRole::Operator => Role::Operator,
        WireRole::Admin => Role::Admin,
    }
}

pub(crate) const fn wire_role(role: Role) -> WireRole {
    match role {
        Role::Viewer => WireRole::Viewer,
        Role::Submitter => WireRole::Submitter,
        Role::Executor => WireRole::Executor,
        Role::Operator => WireRole::Operator,
        Role::Admin => WireRole::Admin,
    }
}

/// The token with its secret, for the one answer that shows it.
#[must_use]
pub fn revealed(Issued { token, secret }: Issued, now: Millis) -> AccessToken {
    AccessToken { token: Some(Revealed(secret.reveal().to_owned())), ..shown(&token, now) }
}

fn state_of(token: &Token, now: Millis) -> TokenState {
    match (&token.revoked, token.expires_at) {
        (Some(_), _) => TokenState::Revoked,
        (None, Some(at)) if at <= now => TokenState::Expired,
        (None, _) => TokenState::Active,
    }
}

/// The token without its secret.
#[must_use]
pub fn shown(token: &Token, now: Millis) -> AccessToken {
    let at = |instant: Option<Millis>| instant.map(|instant| At::from_ms(instant.0));
    let ms = |instant: Option<Millis>| instant.map(|instant| instant.0);
    let previous_until = token.previous.as_ref().map(|previous| previous.until);
    let revoked_at = token.revoked.as_ref().map(|revoked| revoked.at);
    let texts = |patterns: &[Pattern]| patterns.iter().map(ToString::to_string).collect();
    AccessToken {
        id: token.id.as_str().to_owned(),
        token: None,
        name: token.name.clone(),
        state: state_of(token, now),
        roles: token.grant.roles.iter().map(|role| wire_role(*role)).collect(),
        namespaces: texts(&token.grant.namespaces),
        queues: texts(&token.grant.queues),
        created_at: At::from_ms(token.created_at.0),
        created_at_ms: token.created_at.0,
        created_by: token.created_by.clone(),
        expires_at: at(token.expires_at),
        expires_at_ms: ms(token.expires_at),
        rotated_at: at(token.rotated_at),
        rotated_at_ms: ms(token.rotated_at),
        previous_until: at(previous_until),
        previous_until_ms: ms(previous_until),
        revoked_at: at(revoked_at),
        revoked_at_ms: ms(revoked_at),
        revoked_by: token.revoked.as_ref().map(|revoked| revoked.by.clone()),
        required_at: at(token.required_at),
        required_at_ms: ms(token.required_at),
        used_at: at(token.used_at),
        used_at_ms: ms(token.used_at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_the_same_words_on_the_wire_as_in_the_domain() {
        assert_eq!(Role::ALL.map(Role::word), WireRole::ALL.map(WireRole::word));
        for role in WireRole::ALL {
            assert_eq!(wire_role(domain_role(role)), role);
            assert_eq!(domain_role(role).word(), role.word());
            assert_eq!(serde_json::to_value(role).unwrap(), role.word());
        }
    }
}
