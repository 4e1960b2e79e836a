//! Marks of evaluations. A file belongs to one process: all engines but the one that asks are dead.

use super::{lanes::Lane, ledger::Ledger, row, state::SqliteStore, statements::sql};
use async_trait::async_trait;
use punctual_contract::{
    Error as CallError, EvaluationStore,
    evaluations::{Crowd, DEATHS_MAX, EvaluationKind, EvaluationPass, SetAside, Subject, SubjectMarks},
};
use punctual_domain::time::Millis;
use rusqlite::{Connection, Row, params, types::Type};

#[async_trait]
impl EvaluationStore for SqliteStore {
    async fn begin_evaluations(
        &self,
        pass: &EvaluationPass,
        subjects: &[Subject],
        crowd: Crowd,
        now: Millis,
    ) -> Result<Vec<SubjectMarks>, CallError> {
        let (pass, subjects) = (pass.clone(), subjects.to_vec());
        let rows = subjects.len();
        let work = move |conn: &Connection, _: &mut Ledger| {
            subjects.iter().map(|subject| begin(conn, &pass, subject, crowd, now)).collect()
        };
        self.writing("mark what is evaluated", rows, work).await
    }

    async fn end_evaluations(&self, pass: &EvaluationPass, ids: &[i64]) -> Result<(), CallError> {
        let (pass, ids) = (pass.clone(), ids.to_vec());
        let rows = ids.len();
        let work = move |conn: &Connection, _: &mut Ledger| {
            let mut end = conn.prepare_cached(sql!(evaluations, unmark))?;
            for id in &ids {
                end.execute(params![pass.kind.code(), id, pass.engine, pass.number])?;
            }
            Ok(())
        };
        self.writing("unmark what was evaluated", rows, work).await
    }

    async fn release_evaluations(
        &self,
        kind: EvaluationKind,
        ids: &[i64],
        engine: &str,
    ) -> Result<usize, CallError> {
        let (ids, engine) = (ids.to_vec(), engine.to_owned());
        let rows = ids.len();
        let work = move |conn: &Connection, _: &mut Ledger| {
            let mut release = conn.prepare_cached(sql!(evaluations, delete_dead_marks))?;
            ids.iter().try_fold(0, |sum, id| Ok(sum + release.execute(params![kind.code(), id, engine])?))
        };
        self.writing("release what was set aside", rows, work).await
    }

    async fn set_aside(&self, engine: &str, limit: usize) -> Result<Vec<SetAside>, CallError> {
        let engine = engine.to_owned();
        let work = move |conn: &Connection| {
            let asked = params![engine, count(DEATHS_MAX), count(limit)];
            conn.prepare_cached(sql!(evaluations, list_set_aside))?.query_map(asked, set_aside)?.collect()
        };
        self.reading("list what is set aside", Lane::Urgent, work).await
    }

    async fn ended_subjects(
        &self,
        engine: &str,
        limit: usize,
    ) -> Result<Vec<(EvaluationKind, i64)>, CallError> {
        let engine = engine.to_owned();
        let work = move |conn: &Connection| {
            let subject = |row: &Row<'_>| Ok((kind(row)?, row.get(1)?));
            let asked = params![engine, count(limit)];
            conn.prepare_cached(sql!(evaluations, list_ended))?.query_map(asked, subject)?.collect()
        };
        self.reading("list what is evaluated no more", Lane::Urgent, work).await
    }

    async fn leave_evaluations(&self, engine: &str) -> Result<(), CallError> {
        let engine = engine.to_owned();
        let work = move |conn: &Connection, _: &mut Ledger| {
            conn.prepare_cached(sql!(evaluations, delete_marks_of_engine))?.execute([engine])?;
            Ok(())
        };
        self.writing("remove the marks of an engine", 1, work).await
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn begin(
    conn: &Connection,
    pass: &EvaluationPass,
    subject: &Subject,
    crowd: Crowd,
    now: Millis,
) -> rusqlite::Result<SubjectMarks> {
    let (kind, id) = (pass.kind.code(), subject.id);
    let others = params![kind, id, pass.engine];
    let died: i64 = conn
        .prepare_cached(sql!(evaluations, count_other_engines))?
        .query_row(others, |value| value.get(0))?;
    let died = usize::try_from(died).unwrap_or(usize::MAX);
    let is_marked = died < crowd.others_max();
    if is_marked {
        let (namespace, name) = (subject.namespace.as_str(), &subject.name);
        let mark = params![kind, id, pass.engine, pass.number, namespace, name, now.0];
        conn.prepare_cached(sql!(evaluations, mark))?.execute(mark)?;
    }
    Ok(SubjectMarks { is_marked, died, at_work: 0 })
}

/// The kind in the first column.
fn kind(row: &Row<'_>) -> rusqlite::Result<EvaluationKind> {
    let odd = || rusqlite::Error::FromSqlConversionFailure(0, Type::Integer, "is no kind".into());
    EvaluationKind::from_code(row.get(0)?).ok_or_else(odd)
}

fn set_aside(row: &Row<'_>) -> rusqlite::Result<SetAside> {
    Ok(SetAside {
        kind: kind(row)?,
        id: row.get(1)?,
        namespace: row::name(row, 2)?,
        name: row.get(3)?,
        since: row::millis(row, 4)?,
        died: usize::try_from(row.get::<_, i64>(5)?).unwrap_or(usize::MAX),
    })
}
