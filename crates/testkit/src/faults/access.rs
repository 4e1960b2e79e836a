//! Tokens, the audit and the deletion of namespaces behind the dials of a store.

use super::{FaultyStore, StoreGroup};
use async_trait::async_trait;
use punctual_contract::{
    AccessStore, AuditStore, Error, LabelStore, NamespaceStore,
    access::{Token, Tokens},
    audit::{AuditEntry, AuditPage, AuditQuery, AuditResult},
    labels::LabelIndex,
    namespaces::{DeleteTasks, DeletedTasks, FinishedTask},
    settings::Saved,
    store::Applied,
};
use punctual_domain::{access::TokenId, name::Name, time::Millis};

#[async_trait]
impl AccessStore for FaultyStore {
    async fn access_revision(&self) -> Result<i64, Error> {
        let call = self.inner.access_revision();
        self.faults.run_beside(StoreGroup::Access, "look at the tokens", call).await
    }

    async fn tokens(&self) -> Result<Tokens, Error> {
        self.faults.run_beside(StoreGroup::Access, "read the tokens", self.inner.tokens()).await
    }

    async fn save_token(&self, token: Token, expected: i64) -> Result<Saved, Error> {
        let call = self.inner.save_token(token, expected);
        self.faults.run_beside(StoreGroup::Access, "save a token", call).await
    }

    async fn forget_tokens(&self, ended_before: Millis, limit: usize) -> Result<usize, Error> {
        let call = self.inner.forget_tokens(ended_before, limit);
        self.faults.run_beside(StoreGroup::Access, "forget tokens", call).await
    }

    async fn note_tokens_used(&self, used: Vec<(TokenId, Millis)>) -> Result<(), Error> {
        let call = self.inner.note_tokens_used(used);
        self.faults.run_beside(StoreGroup::Access, "note tokens used", call).await
    }
}

#[async_trait]
impl AuditStore for FaultyStore {
    async fn append_audit(&self, entry: AuditEntry) -> Result<i64, Error> {
        let call = self.inner.append_audit(entry);
        self.faults.run_beside(StoreGroup::Audit, "append to the audit", call).await
    }

    async fn complete_audit(&self, id: i64, result: AuditResult) -> Result<(), Error> {
        let call = self.inner.complete_audit(id, result);
        self.faults.run_beside(StoreGroup::Audit, "complete an entry of the audit", call).await
    }

    async fn audit_entries(&self, query: AuditQuery) -> Result<AuditPage, Error> {
        let call = self.inner.audit_entries(query);
        self.faults.run_beside(StoreGroup::Audit, "read the audit", call).await
    }

    async fn trim_audit(&self, before: Millis, limit: usize) -> Result<usize, Error> {
        let call = self.inner.trim_audit(before, limit);
        self.faults.run_beside(StoreGroup::Audit, "trim the audit", call).await
    }
}

#[async_trait]
impl LabelStore for FaultyStore {
    async fn label_indexes(&self) -> Result<Vec<LabelIndex>, Error> {
        let call = self.inner.label_indexes();
        self.faults.run(StoreGroup::Settings, "look how far labels are indexed", call).await
    }

    async fn index_labels_in(&self, part: usize, limit: usize) -> Result<usize, Error> {
        let call = self.inner.index_labels_in(part, limit);
        self.faults.run(StoreGroup::Settings, "index labels", call).await
    }
}

#[async_trait]
impl NamespaceStore for FaultyStore {
    async fn delete_tasks_in(&self, part: usize, asked: DeleteTasks) -> Result<DeletedTasks, Error> {
        let call = self.inner.delete_tasks_in(part, asked);
        self.faults.run(StoreGroup::Namespaces, "delete tasks of a namespace", call).await
    }

    async fn delete_traces(&self, namespace: &Name, limit: usize) -> Result<usize, Error> {
        let call = self.inner.delete_traces(namespace, limit);
        self.faults.run(StoreGroup::Namespaces, "delete traces of a namespace", call).await
    }

    async fn delete_finished(&self, tasks: Vec<FinishedTask>) -> Result<Vec<Applied>, Error> {
        let call = self.inner.delete_finished(tasks);
        self.faults.run(StoreGroup::Namespaces, "delete finished tasks", call).await
    }

    async fn namespaces_with_schedules(&self) -> Result<Vec<Name>, Error> {
        let call = self.inner.namespaces_with_schedules();
        self.faults.run(StoreGroup::Namespaces, "list namespaces with schedules", call).await
    }
}
