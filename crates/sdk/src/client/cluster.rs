//! The calls about all engines together: events, live engines and owners, rates, tasks that fall due.

use punctual_protocol::{
    Due, Engine, Event, Inbox, ListPartitions, Page, Partition, SearchEvents, Shard, Stats,
};
use serde::Serialize;

use super::Client;
use crate::error::Error;

impl Client {
    /// A page of the cluster's events; for the next one set `cursor` to its `next_cursor`.
    pub async fn events(&self, search: &SearchEvents) -> Result<Page<Event>, Error> {
        search.check()?;
        self.fetch(format!("/v1/events?{}", query(search)?)).await
    }

    /// The inboxes of the engine that answers, with their rows that wait or were refused.
    pub async fn inboxes(&self) -> Result<Page<Inbox>, Error> {
        self.fetch("/v1/inboxes".into()).await
    }

    /// The engines of the cluster.
    pub async fn engines(&self) -> Result<Page<Engine>, Error> {
        self.fetch("/v1/engines".into()).await
    }

    /// A page of partitions; for the next one set `cursor` to its `next_cursor`.
    pub async fn partitions(&self, asked: &ListPartitions) -> Result<Page<Partition>, Error> {
        asked.check()?;
        self.fetch(format!("/v1/partitions?{}", query(asked)?)).await
    }

    /// The databases of the store.
    pub async fn shards(&self) -> Result<Page<Shard>, Error> {
        self.fetch("/v1/shards".into()).await
    }

    /// Reads rates, lateness and backlog of the complete cluster.
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.fetch("/v1/stats".into()).await
    }

    /// Tasks that fall due in each minute of the next hour.
    pub async fn due(&self) -> Result<Due, Error> {
        self.fetch("/v1/stats/due".into()).await
    }
}

pub(super) fn query(of: &impl Serialize) -> Result<String, Error> {
    serde_urlencoded::to_string(of).map_err(|e| Error::configuration(e.to_string()))
}
