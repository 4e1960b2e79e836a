//! The calls about namespaces: their settings, their contents, and their deletion.

use bytes::Bytes;
use punctual_protocol::{ListNamespaces, Namespace, Page, PutNamespace};
use reqwest::Method;

use super::cluster::query;
use super::tasks::{body, segment};
use super::{Client, Repeat};
use crate::error::Error;

impl Client {
    /// The namespaces that the token reaches, by name.
    pub async fn namespaces(&self, limit: u32, cursor: Option<&str>) -> Result<Page<Namespace>, Error> {
        let cursor = cursor.map(|cursor| format!("&cursor={}", segment(cursor))).unwrap_or_default();
        self.fetch(format!("/v1/namespaces?limit={limit}{cursor}")).await
    }

    /// The same, with query parameters.
    pub async fn list_namespaces(&self, asked: &ListNamespaces) -> Result<Page<Namespace>, Error> {
        self.fetch(format!("/v1/namespaces?{}", query(asked)?)).await
    }

    /// One namespace; one that was never made or used is `absent`.
    pub async fn get_namespace(&self, name: &str) -> Result<Namespace, Error> {
        self.fetch(path(name)).await
    }

    /// Makes a namespace, or gives it all of its limits. With a revision, only if that is its own; else the error is
    /// `precondition.failed`.
    pub async fn put_namespace(
        &self,
        name: &str,
        settings: &PutNamespace,
        revision: Option<i64>,
    ) -> Result<Namespace, Error> {
        let mut call = self.new_call(Method::PUT, path(name), body(settings)?);
        call.headers.extend(revision.map(|revision| ("If-Match", format!("\"{revision}\""))));
        self.call(call, Repeat::Safe).await
    }

    /// Begins to delete a namespace with all its contents; `deletion` in the answer, and in
    /// [`Client::get_namespace`], shows the progress. It cannot be undone.
    pub async fn delete_namespace(&self, name: &str) -> Result<Namespace, Error> {
        let confirmed = format!("{}?confirm={}", path(name), segment(name));
        self.call(self.new_call(Method::DELETE, confirmed, Bytes::new()), Repeat::Safe).await
    }
}

fn path(name: &str) -> String {
    format!("/v1/namespaces/{}", segment(name))
}
