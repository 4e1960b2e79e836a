//! The caller's own permissions, so that a client knows beforehand what is refused. Callers without permission to read get none.

use crate::{access::Who, answer, refusal::Refusal, tokens::wire_role};
use axum::{http::StatusCode, response::Response};
use punctual_domain::access::{Grant, Permission, Role};
use punctual_protocol::{At, Me};

/// Get the caller and its permissions.
///
/// The roles of the token, their permissions, and the namespaces and queues in which they hold.
#[utoipa::path(
    get, path = "/v1/me", operation_id = "get_me", tag = "access",
    responses((status = 200, description = "The caller.", body = Me)),
)]
pub(crate) async fn get_me(who: Who) -> Result<Response, Refusal> {
    let everything = Grant::everywhere(Role::Admin);
    let identity = who.identity();
    let grant = identity.map_or(&everything, |identity| &identity.grant);
    let permitted = Permission::ALL.into_iter().filter(|permission| grant.permits(*permission));
    let expires_at = identity.and_then(|identity| identity.expires_at());
    let me = Me {
        name: who.name().to_owned(),
        token_id: who.token_id().map(str::to_owned),
        needs_token: identity.is_some(),
        roles: grant.roles.iter().map(|role| wire_role(*role)).collect(),
        permissions: permitted.map(|permission| permission.word().to_owned()).collect(),
        namespaces: grant.namespaces.iter().map(ToString::to_string).collect(),
        queues: grant.queues.iter().map(ToString::to_string).collect(),
        expires_at: expires_at.map(|expires_at| At::from_ms(expires_at.0)),
        expires_at_ms: expires_at.map(|expires_at| expires_at.0),
    };
    Ok(answer::json(StatusCode::OK, &me))
}
