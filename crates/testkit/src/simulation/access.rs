//! Tokens, the audit and the deletion of namespaces as a mortal engine sees them. They are no steps of a task's path: an engine is cut between those,
//! and these do not count.

use super::mortal::Mortal;
use async_trait::async_trait;
use punctual_contract::{
    AccessStore, AuditStore, Error, LabelStore, NamespaceStore, Store,
    access::{Token, Tokens},
    audit::{AuditEntry, AuditPage, AuditQuery, AuditResult},
    labels::LabelIndex,
    namespaces::{DeleteTasks, DeletedTasks, FinishedTask},
    settings::Saved,
    store::Applied,
};
use punctual_domain::{access::TokenId, name::Name, time::Millis};

#[async_trait]
impl AccessStore for Mortal<dyn Store> {
    async fn access_revision(&self) -> Result<i64, Error> {
        self.inner.access_revision().await
    }
    async fn tokens(&self) -> Result<Tokens, Error> {
        self.inner.tokens().await
    }
    async fn save_token(&self, token: Token, expected: i64) -> Result<Saved, Error> {
        self.inner.save_token(token, expected).await
    }
    async fn forget_tokens(&self, ended_before: Millis, limit: usize) -> Result<usize, Error> {
        self.inner.forget_tokens(ended_before, limit).await
    }
    async fn note_tokens_used(&self, used: Vec<(TokenId, Millis)>) -> Result<(), Error> {
        self.inner.note_tokens_used(used).await
    }
}

#[async_trait]
impl AuditStore for Mortal<dyn Store> {
    async fn append_audit(&self, entry: AuditEntry) -> Result<i64, Error> {
        self.inner.append_audit(entry).await
    }
    async fn complete_audit(&self, id: i64, result: AuditResult) -> Result<(), Error> {
        self.inner.complete_audit(id, result).await
    }
    async fn audit_entries(&self, query: AuditQuery) -> Result<AuditPage, Error> {
        self.inner.audit_entries(query).await
    }
    async fn trim_audit(&self, before: Millis, limit: usize) -> Result<usize, Error> {
        self.inner.trim_audit(before, limit).await
    }
}

#[async_trait]
impl LabelStore for Mortal<dyn Store> {
    async fn label_indexes(&self) -> Result<Vec<LabelIndex>, Error> {
        self.inner.label_indexes().await
    }
    async fn index_labels_in(&self, part: usize, limit: usize) -> Result<usize, Error> {
        self.inner.index_labels_in(part, limit).await
    }
}

#[async_trait]
impl NamespaceStore for Mortal<dyn Store> {
    async fn delete_tasks_in(&self, part: usize, asked: DeleteTasks) -> Result<DeletedTasks, Error> {
        self.inner.delete_tasks_in(part, asked).await
    }
    async fn delete_traces(&self, namespace: &Name, limit: usize) -> Result<usize, Error> {
        self.inner.delete_traces(namespace, limit).await
    }
    async fn delete_finished(&self, tasks: Vec<FinishedTask>) -> Result<Vec<Applied>, Error> {
        self.inner.delete_finished(tasks).await
    }

    async fn namespaces_with_schedules(&self) -> Result<Vec<Name>, Error> {
        self.inner.namespaces_with_schedules().await
    }
}
