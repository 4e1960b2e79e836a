//! The log filter of the answering server.

use punctual_protocol::{LogFilter, PutLogFilter};
use reqwest::Method;

use super::tasks::body;
use super::{Client, Repeat};
use crate::error::Error;

const PATH: &str = "/v1/log-filter";

impl Client {
    /// Reads the engine's log filter, and until when it is in effect.
    pub async fn log_filter(&self) -> Result<LogFilter, Error> {
        self.fetch(PATH.to_owned()).await
    }

    /// Changes its log filter, without a restart.
    pub async fn put_log_filter(&self, asked: &PutLogFilter) -> Result<LogFilter, Error> {
        self.call(self.new_call(Method::PUT, PATH.to_owned(), body(asked)?), Repeat::Safe).await
    }
}
