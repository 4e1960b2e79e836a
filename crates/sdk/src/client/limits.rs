//! The limits of everything: of all namespaces together.

use punctual_protocol::{Limits, PutLimits};
use reqwest::Method;

use super::tasks::body;
use super::{Client, Repeat};
use crate::error::Error;

const PATH: &str = "/v1/limits";

impl Client {
    /// The limits that hold for all namespaces together.
    pub async fn limits(&self) -> Result<Limits, Error> {
        self.fetch(PATH.to_owned()).await
    }

    /// Sets the installation's limits: omitted ones are unlimited from then on. With a revision, only if it
    /// is the current one; otherwise the error is `precondition.failed`.
    pub async fn put_limits(&self, limits: &PutLimits, revision: Option<i64>) -> Result<Limits, Error> {
        let mut call = self.new_call(Method::PUT, PATH.to_owned(), body(limits)?);
        call.headers.extend(revision.map(|revision| ("If-Match", format!("\"{revision}\""))));
        self.call(call, Repeat::Safe).await
    }
}
