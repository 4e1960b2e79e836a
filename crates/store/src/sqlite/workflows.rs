//! Workflows and the rows of their nodes. A change and the step that it was decided on are compared in the statement that makes
//! it; its rows are in its transaction.

use super::{lanes::Lane, ledger::Ledger, row, state::SqliteStore, statements::sql};
use crate::{rows, runs, workflows as texts};
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, WorkflowStore,
    store::Applied,
    workflows::{
        AdvanceWorkflow, CreatedWorkflow, MadeNode, NewWorkflow, NodeContent, StoredDefinition, StoredNode,
        StoredWorkflow, WorkflowId, WorkflowMark, WorkflowQuery,
    },
};
use punctual_domain::{time::Millis, workflow::WorkflowState};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

#[async_trait]
impl WorkflowStore for SqliteStore {
    async fn create_workflow(&self, new: NewWorkflow, now: Millis) -> Result<CreatedWorkflow, CallError> {
        self.writing("create a workflow", 1, move |conn, _: &mut Ledger| create(conn, &new, now)).await
    }

    async fn workflow(&self, id: WorkflowId) -> Result<Option<StoredWorkflow>, CallError> {
        let work = move |conn: &Connection| one(conn, id);
        self.reading("read a workflow", Lane::Urgent, work).await
    }

    async fn definition(&self, id: i64) -> Result<Option<StoredDefinition>, CallError> {
        let work = move |conn: &Connection| {
            conn.prepare_cached(sql!(workflows, read_definition))?
                .query_row([id], |row| rows::definition(row))
                .optional()
        };
        self.reading("read the document of a workflow", Lane::Urgent, work).await
    }

    async fn workflows(&self, query: &WorkflowQuery) -> Result<Vec<StoredWorkflow>, CallError> {
        let query = query.clone();
        let work = move |conn: &Connection| {
            let name = query.name.as_ref().map(|name| name.as_str());
            let state = query.state.map(WorkflowState::code);
            let asked =
                params![query.namespace.as_str(), texts::below(&query), name, state, most(query.limit)];
            conn.prepare_cached(sql!(workflows, list))?.query_map(asked, |row| rows::workflow(row))?.collect()
        };
        self.reading("list workflows", Lane::Bulk, work).await
    }

    async fn node_rows(&self, id: WorkflowId) -> Result<Vec<StoredNode>, CallError> {
        let work = move |conn: &Connection| {
            conn.prepare_cached(sql!(workflows, list_rows))?
                .query_map([id.0], |row| rows::node(row))?
                .collect()
        };
        self.reading("read the nodes of a workflow", Lane::Urgent, work).await
    }

    async fn node_contents(&self, id: WorkflowId, nodes: Vec<u32>) -> Result<Vec<NodeContent>, CallError> {
        let work = move |conn: &Connection| {
            let mut asking = conn.prepare_cached(sql!(workflows, read_contents))?;
            let mut all = Vec::new();
            for node in nodes {
                let found = asking.query_map(params![id.0, node], |row| rows::node_content(row))?;
                all.extend(found.collect::<rusqlite::Result<Vec<_>>>()?);
            }
            Ok(all)
        };
        self.reading("read what nodes of a workflow carry", Lane::Urgent, work).await
    }

    async fn advance_workflow(&self, advance: AdvanceWorkflow, now: Millis) -> Result<Applied, CallError> {
        let rows = advance.rows.len() + 1;
        let work = move |conn: &Connection, _: &mut Ledger| moved(conn, &advance, now);
        self.writing("move a workflow on", rows, work).await
    }

    async fn nodes_made(&self, id: WorkflowId, made: Vec<MadeNode>) -> Result<(), CallError> {
        let rows = made.len();
        let work = move |conn: &Connection, _: &mut Ledger| {
            let mut set = conn.prepare_cached(sql!(workflows, set_task))?;
            for MadeNode { key, attempt, task_ref } in &made {
                let item = texts::item(key);
                set.execute(params![id.0, key.node, item, key.role.code(), attempt, task_ref])?;
            }
            Ok(())
        };
        self.writing("note the tasks of a workflow", rows, work).await
    }

    async fn due_workflows(
        &self,
        slots: u32,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<StoredWorkflow>, CallError> {
        let work = move |conn: &Connection| {
            let asked = params![slots, now.0, most(limit)];
            conn.prepare_cached(sql!(workflows, list_due))?
                .query_map(asked, |row| rows::workflow(row))?
                .collect()
        };
        self.reading("look for due workflows", Lane::Urgent, work).await
    }

    async fn next_workflow_wake(&self) -> Result<Option<Millis>, CallError> {
        let work = |conn: &Connection| {
            conn.prepare_cached(sql!(workflows, find_next_wake))?
                .query_row([], |row| row::millis(row, 0))
                .optional()
        };
        self.reading("look for the next workflow", Lane::Urgent, work).await
    }

    async fn mark_workflows(&self, marks: Vec<WorkflowMark>, now: Millis) -> Result<(), CallError> {
        let rows = marks.len();
        let work = move |conn: &Connection, _: &mut Ledger| mark(conn, &marks, now);
        self.writing("mark workflows", rows, work).await
    }

    async fn marked_workflows(
        &self,
        slots: u32,
        before: Millis,
        limit: usize,
    ) -> Result<Vec<WorkflowMark>, CallError> {
        let work = move |conn: &Connection| {
            let asked = params![slots, before.0, most(limit)];
            let mut asking = conn.prepare_cached(sql!(workflows, list_marks))?;
            let marks = asking.query_map(asked, pair)?;
            marks.map(|mark| mark.map(|(id, of)| WorkflowMark { id, workflow: WorkflowId(of) })).collect()
        };
        self.reading("look for marked workflows", Lane::Urgent, work).await
    }

    async fn unmark_workflows(&self, ids: Vec<i64>) -> Result<(), CallError> {
        let rows = ids.len();
        let work = move |conn: &Connection, _: &mut Ledger| {
            let mut unmark = conn.prepare_cached(sql!(workflows, delete_mark))?;
            ids.iter().try_for_each(|id| unmark.execute([id]).map(drop))
        };
        self.writing("unmark workflows", rows, work).await
    }

    async fn forget_workflows(&self, finished_before: Millis, limit: usize) -> Result<usize, CallError> {
        let work = move |conn: &Connection, _: &mut Ledger| {
            let over: Vec<(i64, i64)> = conn
                .prepare_cached(sql!(workflows, list_finished))?
                .query_map(params![finished_before.0, most(limit)], pair)?
                .collect::<rusqlite::Result<_>>()?;
            forget(conn, &over, finished_before)
        };
        self.writing("forget old workflows", limit, work).await
    }
}

fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn pair(row: &Row<'_>) -> rusqlite::Result<(i64, i64)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// Workflows and the documents that nothing refers to any more.
fn forget(conn: &Connection, over: &[(i64, i64)], used_before: Millis) -> rusqlite::Result<usize> {
    for (id, definition) in over {
        conn.prepare_cached(sql!(workflows, delete_rows))?.execute([id])?;
        conn.prepare_cached(sql!(workflows, delete))?.execute([id])?;
        conn.prepare_cached(sql!(workflows, delete_definition))?.execute([used_before.0, *definition])?;
    }
    Ok(over.len())
}

/// Deletes the workflows of a namespace that is being deleted.
pub(super) fn forget_namespace(conn: &Connection, namespace: &str, limit: i64) -> rusqlite::Result<usize> {
    let all: Vec<(i64, i64)> = conn
        .prepare_cached(sql!(workflows, list_of_namespace))?
        .query_map(params![namespace, limit], pair)?
        .collect::<rusqlite::Result<_>>()?;
    let forgotten = forget(conn, &all, Millis::MAX)?;
    Ok(forgotten
        + conn.prepare_cached(sql!(workflows, delete_definitions))?.execute(params![namespace, limit])?)
}

fn one(conn: &Connection, id: WorkflowId) -> rusqlite::Result<Option<StoredWorkflow>> {
    conn.prepare_cached(sql!(workflows, read))?.query_row([id.0], |row| rows::workflow(row)).optional()
}

fn create(conn: &Connection, new: &NewWorkflow, now: Millis) -> rusqlite::Result<CreatedWorkflow> {
    let namespace = new.namespace.as_str();
    let document = texts::document(new);
    let asked = params![namespace, document.name, document.hash];
    let mut alike = conn.prepare_cached(sql!(workflows, find_definition))?;
    let triple = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
    let found = alike.query_row(asked, triple).optional()?;
    let (definition, version) = match found {
        Some((id, version, used_at)) => {
            if now.0 - used_at > texts::USED_WITHIN_MS {
                conn.prepare_cached(sql!(workflows, touch_definition))?.execute([now.0, id])?;
            }
            (id, version)
        }
        None => {
            let define = params![namespace, document.name, document.hash, document.body, now.0];
            conn.prepare_cached(sql!(workflows, insert_definition))?.execute(define)?;
            let (id, version, _) = alike.query_row(asked, triple)?;
            (id, version)
        }
    };
    let created = conn.prepare_cached(sql!(workflows, create))?.execute(params![
        namespace,
        document.name,
        version,
        definition,
        new.slot(now),
        new.key,
        runs::text(&new.progress),
        new.input,
        new.wake_at.map(|wake_at| wake_at.0),
        now.0,
        new.by,
    ])?;
    let is_new = created > 0;
    let workflow = match is_new {
        true => one(conn, WorkflowId(conn.last_insert_rowid()))?,
        false => {
            let asked = params![namespace, new.key];
            conn.prepare_cached(sql!(workflows, find_by_key))?
                .query_row(asked, |row| rows::workflow(row))
                .optional()?
        }
    };
    let workflow = workflow.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    Ok(CreatedWorkflow { workflow, is_new })
}

fn moved(conn: &Connection, advance_workflow: &AdvanceWorkflow, now: Millis) -> rusqlite::Result<Applied> {
    let progress = runs::text(&advance_workflow.progress);
    let (wake_at, finished_at) =
        (advance_workflow.wake_at.map(|wake_at| wake_at.0), texts::finished_at(advance_workflow, now));
    let set = params![
        advance_workflow.id.0,
        advance_workflow.step,
        advance_workflow.state.code(),
        progress,
        wake_at,
        now.0,
        finished_at
    ];
    if conn.prepare_cached(sql!(workflows, advance))?.execute(set)? == 0 {
        return Ok(Applied::Lost);
    }
    mark(conn, advance_workflow.mark.as_slice(), now)?;
    let mut write = conn.prepare_cached(sql!(workflows, save_row))?;
    for row in &advance_workflow.rows {
        write.execute(params![
            advance_workflow.id.0,
            row.key.node,
            texts::item(&row.key),
            row.key.role.code(),
            row.row.state.code(),
            row.row.attempt,
            texts::order(row),
            row.row.items,
            now.0,
            texts::ended_at(row, now),
            row.carried.result,
            row.carried.error,
            row.carried.items,
        ])?;
    }
    Ok(Applied::Moved)
}

fn mark(conn: &Connection, marks: &[WorkflowMark], now: Millis) -> rusqlite::Result<()> {
    let mut mark = conn.prepare_cached(sql!(workflows, insert_mark))?;
    marks.iter().try_for_each(|workflow_mark| {
        mark.execute(params![workflow_mark.id, workflow_mark.workflow.0, workflow_mark.slot(), now.0])
            .map(drop)
    })
}
