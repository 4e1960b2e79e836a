//! The calls about queues: their settings, their contents, pause and resume.

use bytes::Bytes;
use punctual_protocol::{Alert, Page, PauseRequest, PutQueue, Queue, QueueStats, ScanReport, SettingChange};
use reqwest::Method;

use super::cluster::query;
use super::tasks::{body, segment};
use super::{Client, Repeat};
use crate::error::Error;

impl Client {
    /// The queues of the namespace that have tasks or settings, and their number of tasks by state.
    pub async fn queues(&self) -> Result<Page<Queue>, Error> {
        self.fetch("/v1/queues".into()).await
    }

    /// One queue, with its settings.
    pub async fn queue(&self, queue: &str) -> Result<Queue, Error> {
        self.fetch(path(queue, "")).await
    }

    /// Rates and lateness of a queue in the last hour, minute by minute.
    pub async fn queue_stats(&self, queue: &str) -> Result<QueueStats, Error> {
        self.fetch(path(queue, "/stats")).await
    }

    /// Sets all settings of a queue: omitted ones get their default, and only a pause is unchanged. With a
    /// revision, only if it is the current one; otherwise the error is `precondition.failed`.
    pub async fn put_queue(
        &self,
        queue: &str,
        settings: &PutQueue,
        revision: Option<i64>,
    ) -> Result<Queue, Error> {
        settings.check()?;
        let mut call = self.new_call(Method::PUT, path(queue, ""), body(settings)?);
        call.headers.extend(revision.map(|revision| ("If-Match", format!("\"{revision}\""))));
        self.call(call, Repeat::Safe).await
    }

    /// Changes the settings that are named and leaves the others; one that is `null` has its default from then on. With a
    /// revision, only if that is the queue's.
    pub async fn patch_queue(
        &self,
        queue: &str,
        settings: &serde_json::Map<String, serde_json::Value>,
        revision: Option<i64>,
    ) -> Result<Queue, Error> {
        let mut call = self.new_call(Method::PATCH, path(queue, ""), body(settings)?);
        call.headers.extend(revision.map(|revision| ("If-Match", format!("\"{revision}\""))));
        self.call(call, Repeat::Safe).await
    }

    /// The changes of a queue's settings, the newest first.
    pub async fn queue_changes(
        &self,
        queue: &str,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<SettingChange>, Error> {
        let cursor = cursor.map(|cursor| format!("&cursor={}", segment(cursor))).unwrap_or_default();
        self.fetch(path(queue, &format!("/changes?limit={limit}{cursor}"))).await
    }

    /// The alerts of all namespaces that the token reaches.
    pub async fn alerts(&self) -> Result<Page<Alert>, Error> {
        self.fetch("/v1/alerts".into()).await
    }

    /// The alerts of one namespace.
    pub async fn alerts_of(&self, namespace: &str) -> Result<Page<Alert>, Error> {
        self.fetch(format!("/v1/alerts?{}", query(&[("namespace", namespace)])?)).await
    }

    /// Pauses a queue. After this returns, no task of the queue starts at any engine.
    pub async fn pause(&self, queue: &str, request: &PauseRequest) -> Result<Queue, Error> {
        self.post(path(queue, "/pause"), body(request)?, Repeat::Safe).await
    }

    /// Scans now for the due tasks of a queue whose `source` is `store`.
    pub async fn scan(&self, queue: &str) -> Result<ScanReport, Error> {
        self.post(path(queue, "/scan"), Bytes::new(), Repeat::Safe).await
    }

    /// Waiting tasks continue, in their order.
    pub async fn resume(&self, queue: &str) -> Result<Queue, Error> {
        self.post(path(queue, "/resume"), Bytes::new(), Repeat::Safe).await
    }
}

fn path(queue: &str, tail: &str) -> String {
    format!("/v1/queues/{}{tail}", segment(queue))
}
