//! Marks of evaluations, in the catalog. Heartbeats determine which engines are alive, on the database's clock. A
//! mark is made before the others are read, each in a statement of its own: of engines that begin at once, the last
//! one sees the others.

use super::{
    ownership::statement::{Statement, apart},
    row,
    state::{MySqlState, MysqlStore},
    statements::sql,
};
use crate::{
    evaluations::{Mark, marks_of_subject},
    runs,
};
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, EvaluationStore, Happened,
    evaluations::{Crowd, DEATHS_MAX, EvaluationKind, EvaluationPass, SetAside, Subject, SubjectMarks},
};
use punctual_domain::time::Millis;
use serde_json::json;
use sqlx::{Row as _, mysql::MySqlRow};
use std::sync::Arc;

/// Subjects of one statement.
const ROWS_MAX: usize = 500;

#[async_trait]
impl EvaluationStore for MysqlStore {
    async fn begin_evaluations(
        &self,
        pass: &EvaluationPass,
        subjects: &[Subject],
        crowd: Crowd,
        now: Millis,
    ) -> Result<Vec<SubjectMarks>, CallError> {
        let (catalog, pass, subjects) = (self.inner.catalog.clone(), pass.clone(), subjects.to_vec());
        apart("mark what is evaluated", Happened::Maybe, async move {
            let mut all = Vec::with_capacity(subjects.len());
            for some in subjects.chunks(ROWS_MAX) {
                let kind = i64::from(pass.kind.code());
                // Another engine that marks the same at once locks in the same order.
                let mut wanted: Vec<&Subject> = some.iter().collect();
                wanted.sort_unstable_by_key(|subject| subject.id);
                let one = |subject: &&Subject| json!([subject.id, subject.namespace.as_str(), subject.name]);
                let rows = runs::text(&wanted.iter().map(one).collect::<Vec<_>>());
                let begin = Statement::new(sql!(evaluations, mark)).int(kind).text(&pass.engine);
                let begin = begin.int(pass.number).int(now.0).text(&rows).int(kind).text(&pass.engine);
                begin.int(count(crowd.others_max())).execute(&catalog).await?;
                let ids: Vec<i64> = some.iter().map(|subject| subject.id).collect();
                let marks = Statement::new(sql!(evaluations, list_marks)).text(&runs::text(&ids)).int(kind);
                let marks = marks.fetch(&catalog).await?;
                let marks = marks.iter().map(mark).collect::<sqlx::Result<_>>()?;
                all.extend(marks_of_subject(&pass, some, marks));
            }
            Ok(all)
        })
        .await
    }

    async fn end_evaluations(&self, pass: &EvaluationPass, ids: &[i64]) -> Result<(), CallError> {
        let (catalog, pass, ids) = (self.inner.catalog.clone(), pass.clone(), ids.to_vec());
        apart("unmark what was evaluated", Happened::Maybe, async move {
            for some in ids.chunks(ROWS_MAX) {
                let end = Statement::new(sql!(evaluations, unmark)).text(&runs::text(&some));
                let end = end.int(i64::from(pass.kind.code())).text(&pass.engine).int(pass.number);
                end.execute(&catalog).await?;
            }
            Ok(())
        })
        .await
    }

    async fn release_evaluations(
        &self,
        kind: EvaluationKind,
        ids: &[i64],
        engine: &str,
    ) -> Result<usize, CallError> {
        let (catalog, ids, engine) = (self.inner.catalog.clone(), ids.to_vec(), engine.to_owned());
        apart("release what was set aside", Happened::Maybe, async move {
            let mut released = 0;
            for some in ids.chunks(ROWS_MAX) {
                let release = Statement::new(sql!(evaluations, delete_dead_marks)).text(&runs::text(&some));
                released += release.int(i64::from(kind.code())).text(&engine).execute(&catalog).await?;
            }
            Ok(usize::try_from(released).unwrap_or(usize::MAX))
        })
        .await
    }

    async fn set_aside(&self, engine: &str, limit: usize) -> Result<Vec<SetAside>, CallError> {
        let engine = engine.to_owned();
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(evaluations, list_set_aside)).bind(engine);
            let asked = asked.bind(count(DEATHS_MAX)).bind(count(limit));
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(set_aside).collect::<sqlx::Result<_>>()
        };
        self.reading("list what is set aside", work).await
    }

    async fn ended_subjects(
        &self,
        engine: &str,
        limit: usize,
    ) -> Result<Vec<(EvaluationKind, i64)>, CallError> {
        let engine = engine.to_owned();
        let work = move |inner: Arc<MySqlState>| async move {
            let asked = sqlx::query(sql!(evaluations, list_ended)).bind(engine).bind(count(limit));
            let rows = asked.fetch_all(&mut *inner.catalog.acquire().await?).await?;
            rows.iter().map(|row| Ok((kind(row)?, row.try_get(1)?))).collect::<sqlx::Result<_>>()
        };
        self.reading("list what is evaluated no more", work).await
    }

    async fn leave_evaluations(&self, engine: &str) -> Result<(), CallError> {
        let (catalog, engine) = (self.inner.catalog.clone(), engine.to_owned());
        apart("remove the marks of an engine", Happened::Maybe, async move {
            Statement::new(sql!(evaluations, delete_marks_of_engine)).text(&engine).execute(&catalog).await?;
            Ok(())
        })
        .await
    }
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

fn mark(row: &MySqlRow) -> sqlx::Result<Mark> {
    Ok(Mark {
        id: row.try_get(0)?,
        engine: row.try_get(1)?,
        pass: row.try_get(2)?,
        is_alive: row.try_get::<Option<String>, _>(3)?.is_some(),
    })
}

/// The kind in the first column.
fn kind(row: &MySqlRow) -> sqlx::Result<EvaluationKind> {
    let code = u8::try_from(row.try_get::<i32, _>(0)?).ok();
    code.and_then(EvaluationKind::from_code).ok_or_else(|| row::odd(0, "is no kind"))
}

fn set_aside(row: &MySqlRow) -> sqlx::Result<SetAside> {
    Ok(SetAside {
        kind: kind(row)?,
        id: row.try_get(1)?,
        namespace: row::name(row, 2)?,
        name: row.try_get(3)?,
        since: row::millis(row, 4)?,
        died: usize::try_from(row.try_get::<i64, _>(5)?).unwrap_or(usize::MAX),
    })
}
