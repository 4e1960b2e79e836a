//! The calls about tokens and the audit. A call that makes a secret is never sent twice: its answer is stored
//! nowhere.

use bytes::Bytes;
use punctual_protocol::{AccessToken, AuditEntry, CreateToken, ListTokens, Page, RotateToken, SearchAudit};
use reqwest::Method;

use super::tasks::{body, segment};
use super::{Client, Repeat};
use crate::error::Error;

impl Client {
    /// Makes a token. Its secret is in this answer and nowhere again.
    pub async fn create_token(&self, token: &CreateToken) -> Result<AccessToken, Error> {
        token.check()?;
        self.post("/v1/tokens".into(), body(token)?, Repeat::IfNotDone).await
    }

    /// A page of the tokens that reach no further than this client's; for the next one set `cursor` to its `next_cursor`.
    pub async fn tokens(&self, list: &ListTokens) -> Result<Page<AccessToken>, Error> {
        list.check()?;
        let query = serde_urlencoded::to_string(list).map_err(|e| Error::configuration(e.to_string()))?;
        self.fetch(format!("/v1/tokens?{query}")).await
    }

    /// Gives a token a new secret; the one before stays good for a while.
    pub async fn rotate_token(&self, id: &str, request: &RotateToken) -> Result<AccessToken, Error> {
        let path = format!("/v1/tokens/{}/rotate", segment(id));
        self.post(path, body(request)?, Repeat::IfNotDone).await
    }

    /// Revokes a token permanently, at every engine within a second.
    pub async fn revoke_token(&self, id: &str) -> Result<AccessToken, Error> {
        let path = format!("/v1/tokens/{}", segment(id));
        self.call(self.new_call(Method::DELETE, path, Bytes::new()), Repeat::Safe).await
    }

    /// A page of the audit; for the next one set `cursor` to its `next_cursor`.
    pub async fn audit(&self, search: &SearchAudit) -> Result<Page<AuditEntry>, Error> {
        search.check()?;
        let query = serde_urlencoded::to_string(search).map_err(|e| Error::configuration(e.to_string()))?;
        self.fetch(format!("/v1/audit?{query}")).await
    }
}
