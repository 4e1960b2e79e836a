//! What users ask of schedules: to store, change, pause, resume and forget them, and which runs come next.

use crate::{Error, Planner, expressions, planner::Eyes, take_back};
use punctual_contract::{
    Error as BackendError,
    schedules::{SaveSchedule, ScheduleKey, StoredSchedule},
    store::Applied,
};
use punctual_domain::{
    name::Name,
    schedule::{Invalid, Payload, Progress, RunKind, Schedule, SchedulePause, TaskIdentity, Timing},
    time::Millis,
};
use std::sync::Arc;

/// Changes that lose their race to others, one after the other.
pub(crate) const TRIES: usize = 16;

/// Longest payload of a schedule: each look at it reads it, and each run copies it.
const PAYLOAD_MAX_BYTES: usize = 64 << 10;

/// A schedule after a change, and what became of the runs that had been made ahead.
#[derive(Clone, Debug)]
pub struct TakenBack {
    /// What stood when it was changed. None: it is new.
    pub before: Option<StoredSchedule>,
    pub schedule: StoredSchedule,
    /// They will not fire.
    pub cancelled: usize,
    /// They had fired already.
    pub fired: usize,
}

/// A run that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// The instant of the schedule.
    pub scheduled_at: Millis,
    /// When it fires: later by the jitter.
    pub at: Millis,
}

impl Planner {
    /// # Errors
    /// [`Error::NotFound`], or a failing store.
    pub async fn get(&self, key: &ScheduleKey) -> Result<StoredSchedule, Error> {
        let stored = self.inner.store.schedule(key).await?.ok_or(Error::NotFound)?;
        if self.eyes.see(&stored) { Ok(stored) } else { Err(Error::NotFound) }
    }

    /// The same planner for somebody who does not see all: what stands at the moment of a change decides, and whoever may not
    /// see that is told [`Error::NotFound`]. Lists and `put` are not narrowed.
    #[must_use]
    pub fn seen_by(&self, sees: impl Fn(&StoredSchedule) -> bool + Send + Sync + 'static) -> Self {
        Self { inner: Arc::clone(&self.inner), eyes: Eyes::new(sees) }
    }

    /// Those of a namespace by name, after a name.
    ///
    /// # Errors
    /// A failing store.
    pub async fn list(
        &self,
        namespace: &Name,
        after: &str,
        limit: usize,
    ) -> Result<Vec<StoredSchedule>, Error> {
        Ok(self.inner.store.schedules(namespace, after, limit).await?)
    }

    /// Checks a document as a store of it would, and says which runs come next.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn preview(
        &self,
        key: &ScheduleKey,
        schedule: &Schedule,
        count: usize,
    ) -> Result<Vec<Upcoming>, Error> {
        let now = self.inner.engine.now();
        let timing = checked(schedule, now)?;
        Ok(upcoming(key, schedule, &timing, now, count))
    }

    /// The runs that come next. None, while it is paused or disabled, or has had all its runs.
    ///
    /// # Errors
    /// [`Error::Invalid`], where the document cannot be read.
    pub fn next(&self, stored: &StoredSchedule, count: usize) -> Result<Vec<Upcoming>, Error> {
        let (now, schedule) = (self.inner.engine.now(), &stored.schedule);
        if !schedule.enabled {
            return Ok(Vec::new());
        }
        let timing = Timing::of(schedule)?;
        let begins = match schedule.pause.as_ref().filter(|_| schedule.is_paused(now)) {
            None => now,
            Some(SchedulePause { until: Some(until), .. }) => Millis(until.0 - 1),
            Some(_) => return Ok(Vec::new()),
        };
        let left = schedule.max_runs.map(|it| it.saturating_sub(stored.progress.runs));
        let mut all = upcoming(&stored.key, schedule, &timing, begins, count);
        if let Some(left) = left {
            // Those that are made already count among the runs that it has had.
            let made = all.iter().filter(|it| it.scheduled_at <= stored.progress.decided_until).count();
            all.truncate(made.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)));
        }
        Ok(all)
    }

    /// Stores a document, in the place of what stands. A pause stays. `fits` is given the revision that stands, 0 if
    /// there is none.
    ///
    /// # Errors
    /// [`Error::Invalid`], [`Error::Otherwise`], a failing store.
    pub async fn put(
        &self,
        key: &ScheduleKey,
        schedule: Schedule,
        by: &str,
        fits: impl Fn(i64) -> bool,
    ) -> Result<TakenBack, Error> {
        let now = self.inner.engine.now();
        let change = move |stands: Option<&StoredSchedule>| {
            let pause = stands.and_then(|it| it.schedule.pause.clone());
            let schedule = Schedule { pause, ..schedule.clone() };
            checked(&schedule, now)?;
            Ok(schedule)
        };
        self.change(key, by, fits, change).await
    }

    /// For whatever changes a schedule that is there.
    fn standing<'s>(&self, stands: Option<&'s StoredSchedule>) -> Result<&'s StoredSchedule, Error> {
        stands.filter(|it| self.eyes.see(it)).ok_or(Error::NotFound)
    }

    /// Changes what stands.
    ///
    /// # Errors
    /// As [`Planner::put`]; [`Error::NotFound`].
    pub async fn patch(
        &self,
        key: &ScheduleKey,
        by: &str,
        fits: impl Fn(i64) -> bool,
        patched: impl Fn(&Schedule) -> Result<Schedule, Error>,
    ) -> Result<TakenBack, Error> {
        let now = self.inner.engine.now();
        let change = move |stands: Option<&StoredSchedule>| {
            let stands = self.standing(stands)?;
            let pause = stands.schedule.pause.clone();
            let schedule = Schedule { pause, ..patched(&stands.schedule)? };
            checked(&schedule, now)?;
            Ok(schedule)
        };
        self.change(key, by, fits, change).await
    }

    /// When this returns, nothing of it fires that had not fired.
    ///
    /// # Errors
    /// As [`Planner::patch`].
    pub async fn pause(
        &self,
        key: &ScheduleKey,
        reason: Option<String>,
        until: Option<Millis>,
        by: &str,
    ) -> Result<TakenBack, Error> {
        let at = self.inner.engine.now();
        if until.is_some_and(|it| it <= at) {
            return Err(Invalid { field: "until".to_owned(), problem: "has passed".to_owned() }.into());
        }
        let pause = SchedulePause { at, by: by.to_owned(), reason, until };
        let change = move |stands: Option<&StoredSchedule>| {
            let stands = self.standing(stands)?;
            // Who paused first, and why, stays.
            let stood =
                stands.schedule.pause.clone().filter(|_| stands.schedule.is_paused(at) && until.is_none());
            Ok(Schedule { pause: Some(stood.unwrap_or_else(|| pause.clone())), ..stands.schedule.clone() })
        };
        self.change(key, by, |_| true, change).await
    }

    /// It goes on; what it has missed is treated as it says.
    ///
    /// # Errors
    /// As [`Planner::patch`].
    pub async fn resume(&self, key: &ScheduleKey, by: &str) -> Result<TakenBack, Error> {
        let change = |stands: Option<&StoredSchedule>| {
            let stands = self.standing(stands)?;
            Ok(Schedule { pause: None, ..stands.schedule.clone() })
        };
        self.change(key, by, |_| true, change).await
    }

    /// Forgets a schedule, when what was made ahead is taken back.
    ///
    /// # Errors
    /// As [`Planner::patch`].
    pub async fn delete(
        &self,
        key: &ScheduleKey,
        by: &str,
        fits: impl Fn(i64) -> bool,
    ) -> Result<TakenBack, Error> {
        let disabled = |stands: Option<&StoredSchedule>| {
            let stands = self.standing(stands)?;
            Ok(Schedule { enabled: false, ..stands.schedule.clone() })
        };
        let taken = self.change(key, by, fits, disabled).await?;
        // From here on it is what this call has made of it: disabled, and its runs are taken back.
        for _ in 0..TRIES {
            let stands = self.inner.store.schedule(key).await.map_err(BackendError::after_a_change)?;
            let Some(stands) = stands else { return Ok(taken) };
            if stands.revision != taken.schedule.revision {
                return Err(Error::Contended);
            }
            let removed = self.inner.store.remove_schedule(stands.id, stands.step).await;
            if removed.map_err(BackendError::after_a_change)? == Applied::Moved {
                return Ok(taken);
            }
        }
        Err(Error::Contended)
    }

    async fn change(
        &self,
        key: &ScheduleKey,
        by: &str,
        fits: impl Fn(i64) -> bool,
        change: impl Fn(Option<&StoredSchedule>) -> Result<Schedule, Error>,
    ) -> Result<TakenBack, Error> {
        for _ in 0..TRIES {
            let stands = self.inner.store.schedule(key).await?;
            let revision = stands.as_ref().map_or(0, |it| it.revision);
            if !fits(revision) {
                return Err(Error::Otherwise(revision));
            }
            let schedule = change(stands.as_ref())?;
            let now = self.inner.engine.now();
            let progress = progress_after(stands.as_ref(), &schedule, now);
            let save = SaveSchedule {
                key: key.clone(),
                schedule,
                progress,
                wake_at: Some(now),
                expected: stands.as_ref().map(|it| it.step),
                by: by.to_owned(),
            };
            if let Some(saved) = self.inner.store.save_schedule(save, now).await? {
                return self.taken_back(stands, saved).await;
            }
        }
        Err(Error::Contended)
    }

    /// After a change was committed: what was made before it is taken back.
    async fn taken_back(
        &self,
        before: Option<StoredSchedule>,
        saved: StoredSchedule,
    ) -> Result<TakenBack, Error> {
        if !saved.progress.takes_back {
            return Ok(TakenBack { before, schedule: saved, cancelled: 0, fired: 0 });
        }
        let now = self.inner.engine.now();
        let (taken, _) =
            take_back::finish(&self.inner, &saved, now).await.map_err(BackendError::after_a_change)?;
        // Where a planner was faster, it has done the same, and counts are in the history.
        let stands = self.inner.store.schedule(&saved.key).await.map_err(BackendError::after_a_change)?;
        let schedule = stands.filter(|it| it.revision == saved.revision).unwrap_or(saved);
        Ok(TakenBack { before, schedule, cancelled: taken.cancelled, fired: taken.fired })
    }
}

/// Every rule, those of payloads included.
fn checked(schedule: &Schedule, now: Millis) -> Result<Timing, Error> {
    let timing = schedule.check(now)?;
    let len = match &schedule.task.payload {
        None => 0,
        Some(Payload::Json(text)) => text.len(),
        Some(Payload::Bytes(bytes)) => bytes.len(),
    };
    if len > PAYLOAD_MAX_BYTES {
        let problem = format!(
            "has {len} bytes, and may have at most {PAYLOAD_MAX_BYTES}: keep it elsewhere, and send its key"
        );
        return Err(Invalid { field: "task/payload".to_owned(), problem }.into());
    }
    if let Some(Payload::Json(text)) = &schedule.task.payload {
        let wrong = |problem| Invalid { field: "task/payload".to_owned(), problem };
        expressions::check(text).map_err(wrong)?;
    }
    Ok(timing)
}

/// Where a changed schedule goes on from.
fn progress_after(stands: Option<&StoredSchedule>, schedule: &Schedule, now: Millis) -> Progress {
    let Some(stands) = stands else { return Progress::beginning(now) };
    let mut progress = stands.progress.clone();
    // Made ahead, or still to be taken back after the change before.
    progress.jitter_ms = progress.jitter_ms.max(stands.schedule.jitter_ms);
    progress.takes_back |= progress.decided_until > now.plus(-progress.jitter_ms);
    // A disabled one has missed nothing.
    let was_at_work = stands.schedule.enabled && schedule.enabled;
    progress.decided_until = if was_at_work { progress.decided_until.min(now) } else { now };
    progress.was_paused |= stands.schedule.pause.is_some();
    progress
}

fn upcoming(
    key: &ScheduleKey,
    schedule: &Schedule,
    timing: &Timing,
    after: Millis,
    count: usize,
) -> Vec<Upcoming> {
    let fires = |scheduled_at: Millis| {
        let (namespace, schedule_name) = (&key.namespace, &key.name);
        let identity =
            TaskIdentity { namespace, schedule: schedule_name, kind: RunKind::Planned, at: scheduled_at };
        Upcoming { scheduled_at, at: scheduled_at.plus(identity.jitter_ms(schedule.jitter_ms)) }
    };
    timing.occurrences(after, count).into_iter().map(fires).collect()
}
