//! The calls about bulk operations.

use bytes::Bytes;
use punctual_protocol::{BulkFailure, BulkOperation, CreateBulk, Page, PauseRequest, Task};
use reqwest::Method;

use super::tasks::{body, segment};
use super::{Client, Repeat};
use crate::error::Error;

impl Client {
    /// Counts matching tasks. Nothing else happens before it is confirmed.
    pub async fn preview_bulk(&self, request: &CreateBulk) -> Result<BulkOperation, Error> {
        request.check()?;
        self.post("/v1/bulk".to_owned(), body(request)?, Repeat::IfNotDone).await
    }

    /// Starts a previewed operation, if it is at this revision (None: at any).
    pub async fn confirm_bulk(&self, id: i64, revision: Option<i64>) -> Result<BulkOperation, Error> {
        let mut call = self.new_call(Method::POST, path(id, "/confirm"), Bytes::new());
        call.headers.extend(revision.map(|revision| ("If-Match", format!("\"{id}.{revision}\""))));
        self.call(call, Repeat::Safe).await
    }

    /// Pauses an operation. No further batch begins; a running batch is finished.
    pub async fn pause_bulk(&self, id: i64, request: &PauseRequest) -> Result<BulkOperation, Error> {
        self.post(path(id, "/pause"), body(request)?, Repeat::Safe).await
    }

    /// It continues.
    pub async fn resume_bulk(&self, id: i64) -> Result<BulkOperation, Error> {
        self.post(path(id, "/resume"), Bytes::new(), Repeat::Safe).await
    }

    /// Ends it permanently; completed changes remain.
    pub async fn stop_bulk(&self, id: i64, request: &PauseRequest) -> Result<BulkOperation, Error> {
        self.post(path(id, "/stop"), body(request)?, Repeat::Safe).await
    }

    /// Retries the failures of a completed operation.
    pub async fn repeat_bulk(&self, id: i64) -> Result<BulkOperation, Error> {
        self.post(path(id, "/repeat"), Bytes::new(), Repeat::IfNotDone).await
    }

    /// One operation, and its progress.
    pub async fn bulk(&self, id: i64) -> Result<BulkOperation, Error> {
        self.fetch(path(id, "")).await
    }

    /// A page of the operations of the namespace, the newest first.
    pub async fn bulks(&self, limit: u32, cursor: Option<&str>) -> Result<Page<BulkOperation>, Error> {
        self.fetch(format!("/v1/bulk?limit={limit}{}", behind(cursor))).await
    }

    /// A page of its tasks: for an export its result, for others the remaining tasks.
    pub async fn bulk_tasks(&self, id: i64, limit: u32, cursor: Option<&str>) -> Result<Page<Task>, Error> {
        self.fetch(path(id, &format!("/tasks?limit={limit}{}", behind(cursor)))).await
    }

    /// A page of its failures.
    pub async fn bulk_failures(
        &self,
        id: i64,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<BulkFailure>, Error> {
        self.fetch(path(id, &format!("/failures?limit={limit}{}", behind(cursor)))).await
    }
}

fn path(id: i64, what: &str) -> String {
    format!("/v1/bulk/{id}{what}")
}

fn behind(cursor: Option<&str>) -> String {
    cursor.map(|cursor| format!("&cursor={}", segment(cursor))).unwrap_or_default()
}
