//! Workflows and the rows of their nodes, in the catalog. A change and the step that it was decided on are compared in the
//! statement that makes it; its rows are in its transaction.

use super::{
    connections::Connections,
    ids::counted_by,
    ownership::statement::{Statement, apart},
    row,
    state::{MySqlState, MysqlStore},
    statements::sql,
};
use crate::{rows, runs, workflows as texts};
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, Happened, WorkflowStore,
    store::Applied,
    workflows::{
        AdvanceWorkflow, ChangedNode, CreatedWorkflow, MadeNode, NewWorkflow, NodeContent, StoredDefinition,
        StoredNode, StoredWorkflow, WorkflowId, WorkflowMark, WorkflowQuery,
    },
};
use punctual_domain::{name::Name, time::Millis};
use serde_json::json;
use sqlx::{MySqlConnection, Row as _, mysql::MySqlRow};
use std::sync::Arc;

/// The lock by which definitions of documents wait for each other.
const VERSIONS: &str = "workflow_versions";
/// Rows of one statement, and about how many bytes they carry.
const ROWS_MAX: usize = 500;
const BYTES_MAX: usize = 2 << 20;
/// The number of rows that one statement deletes.
const FORGET_ROWS: i64 = 1_000;

#[async_trait]
impl WorkflowStore for MysqlStore {
    async fn create_workflow(&self, new: NewWorkflow, now: Millis) -> Result<CreatedWorkflow, CallError> {
        self.changing("create a workflow", move |tx| Box::pin(create(tx, new, now))).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<StoredWorkflow>, CallError> {
        let work =
            move |inner: Arc<MySqlState>| async move { one(&mut *inner.catalog.acquire().await?, id).await };
        self.reading("read a workflow", work).await
    }

    async fn definition(&self, id: i64) -> Result<Option<StoredDefinition>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(workflows, read_definition)).bind(id);
            let found = asked.fetch_optional(&mut *inner.catalog.acquire().await?).await?;
            found.map(|row| rows::definition(&row)).transpose()
        };
        self.reading("read the document of a workflow", work).await
    }

    async fn workflows(&self, query: &WorkflowQuery) -> Result<Vec<StoredWorkflow>, CallError> {
        let query = query.clone();
        let work = move |inner: Arc<MySqlState>| async move {
            let text = match (&query.name, query.state) {
                (None, None) => sql!(workflows, list),
                (Some(_), None) => sql!(workflows, list_named),
                (None, Some(_)) => sql!(workflows, list_in_state),
                (Some(_), Some(_)) => sql!(workflows, list_named_in_state),
            };
            let mut asked = sqlx::query(text).bind(query.namespace.as_str()).bind(texts::below(&query));
            if let Some(name) = &query.name {
                asked = asked.bind(name.as_str());
            }
            if let Some(state) = query.state {
                asked = asked.bind(i32::from(state.code()));
            }
            let asked = asked.bind(most(query.limit));
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::workflow).collect::<sqlx::Result<_>>()
        };
        self.reading("list workflows", work).await
    }

    async fn node_rows(&self, id: WorkflowId) -> Result<Vec<StoredNode>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(workflows, list_rows)).bind(id.0);
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::node).collect::<sqlx::Result<_>>()
        };
        self.reading("read the nodes of a workflow", work).await
    }

    async fn node_contents(&self, id: WorkflowId, nodes: Vec<u32>) -> Result<Vec<NodeContent>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(workflows, read_contents)).bind(runs::text(&nodes)).bind(id.0);
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::node_content).collect::<sqlx::Result<_>>()
        };
        self.reading("read what nodes of a workflow carry", work).await
    }

    async fn advance_workflow(&self, advance: AdvanceWorkflow, now: Millis) -> Result<Applied, CallError> {
        self.changing("move a workflow on", move |tx| Box::pin(moved(tx, advance, now))).await
    }

    async fn nodes_made(&self, id: WorkflowId, made: Vec<MadeNode>) -> Result<(), CallError> {
        let catalog = self.inner.catalog.clone();
        apart("note the tasks of a workflow", Happened::Maybe, async move {
            for some in made.chunks(ROWS_MAX) {
                let one = |MadeNode { key, attempt, task_ref }: &MadeNode| {
                    json!([key.node, texts::item(key), key.role.code(), attempt, task_ref])
                };
                let rows = runs::text(&some.iter().map(one).collect::<Vec<_>>());
                Statement::new(sql!(workflows, set_tasks)).text(&rows).int(id.0).execute(&catalog).await?;
            }
            Ok(())
        })
        .await
    }

    async fn due_workflows(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredWorkflow>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(workflows, list_due)).bind(now.0).bind(i64::from(slots));
            let rows = asked.bind(most(limit)).fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(rows::workflow).collect::<sqlx::Result<_>>()
        };
        self.reading("look for due workflows", work).await
    }

    async fn next_workflow_wake(&self) -> Result<Option<Millis>, CallError> {
        let work = |inner: Arc<MySqlState>| async move {
            let next = sqlx::query(sql!(workflows, find_next_wake));
            let next = next.fetch_optional(&mut *inner.catalog.acquire().await?).await?;
            next.map(|row| row::millis(&row, 0)).transpose()
        };
        self.reading("look for the next workflow", work).await
    }

    async fn mark_workflows(&self, marks: Vec<WorkflowMark>, now: Millis) -> Result<(), CallError> {
        let catalog = self.inner.catalog.clone();
        apart("mark workflows", Happened::Maybe, async move {
            for some in marks.chunks(ROWS_MAX) {
                Statement::new(sql!(workflows, insert_marks))
                    .int(now.0)
                    .text(&marked(some))
                    .execute(&catalog)
                    .await?;
            }
            Ok(())
        })
        .await
    }

    async fn marked_workflows(
        &self,
        slots: u32,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<WorkflowMark>, CallError> {
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(workflows, list_marks)).bind(before.0).bind(i64::from(slots));
            let rows = asked.bind(most(limit)).fetch_all(&mut *inner.catalog.acquire().await?).await?;
            let mark = |(id, of)| WorkflowMark { id, workflow: WorkflowId(of) };
            Ok::<_, sqlx::Error>(pairs(&rows)?.into_iter().map(mark).collect())
        };
        self.reading("look for marked workflows", work).await
    }

    async fn unmark_workflows(&self, ids: Vec<i64>) -> Result<(), CallError> {
        let catalog = self.inner.catalog.clone();
        apart("unmark workflows", Happened::Maybe, async move {
            for some in ids.chunks(ROWS_MAX) {
                let gone = runs::text(&some);
                Statement::new(sql!(workflows, delete_marks)).text(&gone).execute(&catalog).await?;
            }
            Ok(())
        })
        .await
    }

    async fn forget_workflows(&self, finished_before: Millis, limit: usize) -> Result<usize, CallError> {
        let catalog = self.inner.catalog.clone();
        apart("forget old workflows", Happened::Maybe, async move {
            let over = Statement::new(sql!(workflows, list_finished)).int(finished_before.0).int(most(limit));
            let over = pairs(&over.fetch(&catalog).await?)?;
            forget(&catalog, &over, finished_before).await
        })
        .await
    }
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn pairs(rows: &[MySqlRow]) -> sqlx::Result<Vec<(i64, i64)>> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// Workflows, and the documents that nothing refers to any more; each statement is short. Interrupted, it is continued.
async fn forget(catalog: &Connections, over: &[(i64, i64)], used_before: Millis) -> sqlx::Result<usize> {
    for (id, document) in over {
        let rows = Statement::new(sql!(workflows, delete_rows)).int(*id).int(FORGET_ROWS);
        while rows.execute(catalog).await? > 0 {}
        Statement::new(sql!(workflows, delete)).int(*id).execute(catalog).await?;
        let document = Statement::new(sql!(workflows, delete_definition)).int(used_before.0).int(*document);
        document.execute(catalog).await?;
    }
    Ok(over.len())
}

/// Deletes the workflows of a namespace that is being deleted.
pub(super) async fn forget_namespace(
    catalog: Connections,
    namespace: Name,
    limit: usize,
) -> Result<usize, CallError> {
    apart("delete workflows of a namespace", Happened::Maybe, async move {
        let of = |text| Statement::new(text).text(namespace.as_str()).int(most(limit));
        let all = pairs(&of(sql!(workflows, list_of_namespace)).fetch(&catalog).await?)?;
        let forgotten = forget(&catalog, &all, Millis::MAX).await?;
        let documents = of(sql!(workflows, delete_definitions)).execute(&catalog).await?;
        Ok(forgotten + usize::try_from(documents).unwrap_or(usize::MAX))
    })
    .await
}

async fn one(catalog: &mut MySqlConnection, id: WorkflowId) -> sqlx::Result<Option<StoredWorkflow>> {
    let asked = sqlx::query(sql!(workflows, read)).bind(id.0);
    asked.fetch_optional(catalog).await?.map(|row| rows::workflow(&row)).transpose()
}

async fn create(tx: &mut MySqlConnection, new: NewWorkflow, now: Millis) -> sqlx::Result<CreatedWorkflow> {
    let namespace = new.namespace.as_str();
    let document = texts::document(&new);
    let (definition, version) = defined(tx, namespace, &document, now).await?;
    let create = sqlx::query(sql!(workflows, create)).bind(namespace).bind(&document.name).bind(version);
    let create = create.bind(definition).bind(i32::from(new.slot(now))).bind(&new.key);
    let create =
        create.bind(runs::text(&new.progress)).bind(&new.input).bind(new.wake_at.map(|wake_at| wake_at.0));
    let created = create.bind(now.0).bind(now.0).bind(&new.by).execute(&mut *tx).await?;
    let is_new = created.rows_affected() > 0;
    let workflow = match is_new {
        true => one(tx, WorkflowId(created.last_insert_id().cast_signed())).await?,
        false => {
            let asked = sqlx::query(sql!(workflows, find_by_key)).bind(namespace).bind(&new.key);
            asked.fetch_optional(&mut *tx).await?.map(|row| rows::workflow(&row)).transpose()?
        }
    };
    Ok(CreatedWorkflow { workflow: workflow.ok_or(sqlx::Error::RowNotFound)?, is_new })
}

async fn defined(
    tx: &mut MySqlConnection,
    namespace: &str,
    document: &texts::Document,
    now: Millis,
) -> sqlx::Result<(i64, i64)> {
    if let Some((id, version, used_at)) = alike(tx, namespace, document).await? {
        if now.0 - used_at > texts::USED_WITHIN_MS {
            sqlx::query(sql!(workflows, touch_definition)).bind(now.0).bind(id).execute(&mut *tx).await?;
        }
        return Ok((id, version));
    }
    counted_by(tx, VERSIONS, 1).await?;
    // Another may have defined it before the turn came.
    if let Some((id, version, _)) = alike(tx, namespace, document).await? {
        return Ok((id, version));
    }
    let next = sqlx::query(sql!(workflows, next_version)).bind(namespace).bind(&document.name);
    let version: i64 = next.fetch_one(&mut *tx).await?.try_get(0)?;
    let define =
        sqlx::query(sql!(workflows, insert_definition)).bind(namespace).bind(&document.name).bind(version);
    let define = define.bind(&document.hash).bind(&document.body).bind(now.0).bind(now.0);
    define.execute(&mut *tx).await?;
    let made = alike(tx, namespace, document).await?;
    made.map(|row| (row.0, row.1)).ok_or(sqlx::Error::RowNotFound)
}

async fn alike(
    tx: &mut MySqlConnection,
    namespace: &str,
    document: &texts::Document,
) -> sqlx::Result<Option<(i64, i64, i64)>> {
    let asked = sqlx::query(sql!(workflows, find_definition)).bind(namespace).bind(&document.name);
    let found = asked.bind(&document.hash).fetch_optional(tx).await?;
    found.map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))).transpose()
}

async fn moved(
    tx: &mut MySqlConnection,
    advance_workflow: AdvanceWorkflow,
    now: Millis,
) -> sqlx::Result<Applied> {
    let advance = sqlx::query(sql!(workflows, advance)).bind(i32::from(advance_workflow.state.code()));
    let advance = advance
        .bind(runs::text(&advance_workflow.progress))
        .bind(advance_workflow.wake_at.map(|wake_at| wake_at.0))
        .bind(now.0);
    let advance = advance
        .bind(texts::finished_at(&advance_workflow, now))
        .bind(advance_workflow.id.0)
        .bind(advance_workflow.step);
    if advance.execute(&mut *tx).await?.rows_affected() == 0 {
        return Ok(Applied::Lost);
    }
    if let Some(mark) = &advance_workflow.mark {
        let marks = marked(std::slice::from_ref(mark));
        sqlx::query(sql!(workflows, insert_marks)).bind(now.0).bind(marks).execute(&mut *tx).await?;
    }
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for row in &advance_workflow.rows {
        let carried = [&row.carried.result, &row.carried.error, &row.carried.items];
        bytes += carried.into_iter().flatten().map(String::len).sum::<usize>();
        rows.push(columns(row, now));
        if rows.len() == ROWS_MAX || bytes >= BYTES_MAX {
            write(tx, advance_workflow.id, &std::mem::take(&mut rows)).await?;
            bytes = 0;
        }
    }
    write(tx, advance_workflow.id, &rows).await?;
    Ok(Applied::Moved)
}

fn marked(marks: &[WorkflowMark]) -> String {
    let one = |mark: &WorkflowMark| json!([mark.id, mark.workflow.0, mark.slot()]);
    runs::text(&marks.iter().map(one).collect::<Vec<_>>())
}

async fn write(tx: &mut MySqlConnection, id: WorkflowId, rows: &[serde_json::Value]) -> sqlx::Result<()> {
    if !rows.is_empty() {
        sqlx::query(sql!(workflows, save_rows)).bind(id.0).bind(runs::text(&rows)).execute(&mut *tx).await?;
    }
    Ok(())
}

fn columns(node: &ChangedNode, now: Millis) -> serde_json::Value {
    let (row, carried) = (&node.row, &node.carried);
    json!([
        node.key.node,
        texts::item(&node.key),
        node.key.role.code(),
        row.state.code(),
        row.attempt,
        texts::order(node),
        row.items,
        now.0,
        texts::ended_at(node, now),
        carried.result,
        carried.error,
        carried.items,
    ])
}
