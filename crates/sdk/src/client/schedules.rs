//! The calls about schedules, and schedules that are declared in code. Missing schedules are created, and differing
//! ones are changed. Schedules that disappeared from the code stay, are disabled, or are deleted, as requested.

use bytes::Bytes;
use punctual_protocol::{
    BackfillAnswer, BackfillSchedule, Page, PauseSchedule, PutSchedule, Schedule, ScheduleRun, UpcomingRun,
};
use reqwest::Method;
use std::collections::BTreeMap;

use super::tasks::{body, segment};
use super::{Client, Repeat};
use crate::error::Error;

/// Schedules of one page.
const PAGE: u32 = 1_000;

/// The treatment of schedules that this owner declared before, and no longer does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vanished {
    #[default]
    Keep,
    Disable,
    Delete,
}

/// The result of a synchronisation, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synchronised {
    pub created: Vec<String>,
    pub changed: Vec<String>,
    pub unchanged: Vec<String>,
    /// Disabled or deleted.
    pub retired: Vec<String>,
}

impl Client {
    /// A page of the schedules of the namespace, by name.
    pub async fn schedules(&self, limit: u32, cursor: Option<&str>) -> Result<Page<Schedule>, Error> {
        let cursor = cursor.map(|cursor| format!("&cursor={}", segment(cursor))).unwrap_or_default();
        self.fetch(format!("/v1/schedules?limit={limit}{cursor}")).await
    }

    /// One schedule.
    pub async fn schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.fetch(path(name, "")).await
    }

    /// Stores a schedule, replacing an existing one; only a pause is unchanged. With a revision, only if it
    /// is the current one (0: only a new schedule); otherwise the error is `precondition.failed`.
    pub async fn put_schedule(
        &self,
        name: &str,
        schedule: &PutSchedule,
        revision: Option<i64>,
    ) -> Result<Schedule, Error> {
        schedule.check()?;
        let mut call = self.new_call(Method::PUT, path(name, ""), body(schedule)?);
        call.headers.extend(revision.map(|revision| ("If-Match", format!("\"{revision}\""))));
        // A repetition stores the same document, except for its revision.
        self.call(call, if revision.is_none() { Repeat::Safe } else { Repeat::IfNotDone }).await
    }

    /// Revokes runs that were made ahead, and deletes the schedule.
    pub async fn delete_schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.call(self.new_call(Method::DELETE, path(name, ""), Bytes::new()), Repeat::IfNotDone).await
    }

    /// The next runs.
    pub async fn next_runs(&self, name: &str, count: u32) -> Result<Page<UpcomingRun>, Error> {
        self.fetch(path(name, &format!("/next?n={count}"))).await
    }

    /// Lists the runs that a schedule would have, without storing it.
    pub async fn preview_schedule(
        &self,
        schedule: &PutSchedule,
        count: u32,
    ) -> Result<Page<UpcomingRun>, Error> {
        schedule.check()?;
        self.post(format!("/v1/schedules/preview?n={count}"), body(schedule)?, Repeat::Safe).await
    }

    /// Pauses a schedule. After this returns, no further run fires.
    pub async fn pause_schedule(&self, name: &str, request: &PauseSchedule) -> Result<Schedule, Error> {
        self.post(path(name, "/pause"), body(request)?, Repeat::Safe).await
    }

    /// The schedule continues; missed runs are treated by its policy.
    pub async fn resume_schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.post(path(name, "/resume"), Bytes::new(), Repeat::Safe).await
    }

    /// Makes a run now, beside the others.
    pub async fn run_schedule(&self, name: &str) -> Result<ScheduleRun, Error> {
        self.post(path(name, "/run"), Bytes::new(), Repeat::IfNotDone).await
    }

    /// Makes the runs of a past range.
    pub async fn backfill_schedule(
        &self,
        name: &str,
        request: &BackfillSchedule,
    ) -> Result<BackfillAnswer, Error> {
        self.post(path(name, "/backfill"), body(request)?, Repeat::Safe).await
    }

    /// The results of a schedule's instants, the latest first.
    pub async fn schedule_runs(
        &self,
        name: &str,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<ScheduleRun>, Error> {
        let cursor = cursor.map(|cursor| format!("&cursor={}", segment(cursor))).unwrap_or_default();
        self.fetch(path(name, &format!("/runs?limit={limit}{cursor}"))).await
    }

    /// Makes the schedules of `owner` be those that are declared. Each gets that owner; schedules of others are not touched,
    /// and one of another owner that has a declared name is refused. To be called when a program starts.
    pub async fn synchronise_schedules(
        &self,
        owner: &str,
        declared: &BTreeMap<String, PutSchedule>,
        vanished: Vanished,
    ) -> Result<Synchronised, Error> {
        let standing = self.all_schedules().await?;
        let mut done = Synchronised::default();
        for (name, schedule) in declared {
            let wanted = PutSchedule { owner: Some(owner.to_owned()), ..schedule.clone() };
            let stored = standing.iter().find(|schedule| schedule.name == *name);
            match stored {
                Some(schedule) if schedule.owner.as_deref() != Some(owner) => {
                    let other = schedule.owner.as_deref().unwrap_or("nobody");
                    let problem =
                        format!("schedule {name:?} belongs to {other}, and {owner} declares it too");
                    return Err(Error::configuration(problem));
                }
                Some(schedule) if says(schedule, &wanted)? => done.unchanged.push(name.clone()),
                Some(schedule) => {
                    self.put_schedule(name, &wanted, Some(schedule.revision)).await?;
                    done.changed.push(name.clone());
                }
                None => {
                    self.put_schedule(name, &wanted, Some(0)).await?;
                    done.created.push(name.clone());
                }
            }
        }
        let gone = standing.iter().filter(|schedule| schedule.owner.as_deref() == Some(owner));
        for schedule in gone.filter(|schedule| !declared.contains_key(&schedule.name)) {
            match vanished {
                Vanished::Keep => continue,
                Vanished::Disable if !schedule.enabled => continue,
                Vanished::Disable => {
                    let disabled = Bytes::from_static(br#"{"enabled":false}"#);
                    let call = self.new_call(Method::PATCH, path(&schedule.name, ""), disabled);
                    self.call::<Schedule>(call, Repeat::Safe).await?;
                }
                Vanished::Delete => drop(self.delete_schedule(&schedule.name).await?),
            }
            done.retired.push(schedule.name.clone());
        }
        Ok(done)
    }

    async fn all_schedules(&self) -> Result<Vec<Schedule>, Error> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = self.schedules(PAGE, cursor.as_deref()).await?;
            all.extend(page.items);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(all);
            }
        }
    }
}

/// True if the stored schedule equals the wanted one: in all given fields, and with defaults for the others.
fn says(stored: &Schedule, wanted: &PutSchedule) -> Result<bool, Error> {
    let failed = |error: serde_json::Error| Error::configuration(error.to_string());
    let text = serde_json::to_string(stored).map_err(failed)?;
    let stored: PutSchedule = serde_json::from_str(&text).map_err(failed)?;
    Ok(plain(stored) == plain(wanted.clone()))
}

/// The schedule with every omitted default, and each value in one form.
fn plain(schedule: PutSchedule) -> PutSchedule {
    use punctual_protocol::{Exclude, Instant, OneOrMany};
    let ms = |text: Option<Instant>, ms: Option<i64>| {
        text.and_then(|instant| instant.ms()).or(ms).map(Instant::Ms)
    };
    let exclude = schedule.exclude.unwrap_or_default().into_iter();
    let mut at: Vec<Instant> = schedule.at.unwrap_or_default();
    at.iter_mut().for_each(|instant| *instant = instant.ms().map_or_else(|| instant.clone(), Instant::Ms));
    let mut task = schedule.task;
    task.kind.get_or_insert_with(|| "default".to_owned());
    task.priority.get_or_insert(3);
    PutSchedule {
        enabled: Some(schedule.enabled.unwrap_or(true)),
        cron: Some(OneOrMany::Many(schedule.cron.map(OneOrMany::into_vec).unwrap_or_default())),
        at: Some(at),
        time_zone: Some(schedule.time_zone.unwrap_or_else(|| "UTC".to_owned())),
        start_at: ms(schedule.start_at, schedule.start_at_ms),
        start_at_ms: None,
        end_at: ms(schedule.end_at, schedule.end_at_ms),
        end_at_ms: None,
        jitter_ms: Some(schedule.jitter_ms.unwrap_or(0)),
        exclude: Some(exclude.map(|exclude| Exclude::Text(exclude.into_text())).collect()),
        overlap: Some(schedule.overlap.unwrap_or_default()),
        missed: Some(schedule.missed.unwrap_or_default()),
        missed_window_ms: Some(schedule.missed_window_ms.unwrap_or(86_400_000)),
        task,
        description: schedule.description,
        owner: schedule.owner,
        every_ms: schedule.every_ms,
        phase_ms: schedule.phase_ms,
        max_runs: schedule.max_runs,
        ..PutSchedule::default()
    }
}

fn path(name: &str, tail: &str) -> String {
    format!("/v1/schedules/{}{tail}", segment(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_protocol::ScheduledTask;

    fn stored(more: &str) -> Schedule {
        let text = format!(
            r#"{{"name":"a","namespace":"default","enabled":true,"time_zone":"UTC","jitter_ms":0,"overlap":"allow",
            "missed":"latest","missed_window_ms":86400000,"task":{{"queue":"q","kind":"default","priority":3}},
            "revision":1,"runs":0,"created_at":"2026-01-01T00:00:00.000Z","created_at_ms":0,
            "updated_at":"2026-01-01T00:00:00.000Z","updated_at_ms":0,"updated_by":"api"{more}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_is_said_in_another_way_is_not_a_change() {
        use punctual_protocol::{Instant, OneOrMany};
        let stored = stored(r#","cron":["@daily"],"start_at":"2026-01-01T00:00:00.000Z""#);
        let wanted = PutSchedule {
            cron: Some(OneOrMany::One("@daily".to_owned())),
            start_at: Some(Instant::Text("2026-01-01T01:00:00+01:00".to_owned())),
            ..PutSchedule::new(ScheduledTask::new("q"))
        };
        assert!(says(&stored, &wanted).unwrap());
        assert!(!says(&stored, &PutSchedule { jitter_ms: Some(1), ..wanted.clone() }).unwrap());
        assert!(!says(&stored, &PutSchedule { start_at: None, ..wanted }).unwrap());
    }
}
