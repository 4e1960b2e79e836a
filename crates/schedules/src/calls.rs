//! Users' requests about schedules: to store, change, pause, resume and delete them, and to show their next
//! runs.

use crate::{
    Error, Planner, evaluate, expressions,
    planner::Eyes,
    revoke::{self, RevokedSchedule},
};
use punctual_contract::{
    Error as BackendError,
    schedules::{SaveSchedule, ScheduleKey, StoredSchedule},
    store::Applied,
};
use punctual_domain::{
    name::Name,
    schedule::{Budget, Invalid, Payload, Progress, Schedule, SchedulePause, Timing, jitter_ms},
    time::Millis,
};
use punctual_expressions::TimeSlice;
use std::sync::Arc;

/// Changes that lose their race to others, one after the other.
pub(crate) const TRIES: usize = 16;

/// Steps of the calendar for one request.
const STEPS: u32 = 500_000;

/// The maximum size of a schedule's payload: each planning step reads it, and each run copies it.
const PAYLOAD_MAX_BYTES: usize = 64 << 10;

/// A schedule after a change, and what happened to runs that had been made ahead.
#[derive(Clone, Debug)]
pub struct TakenBack {
    /// The schedule before the change. `None` if it is new.
    pub before: Option<StoredSchedule>,
    pub schedule: StoredSchedule,
    /// They will not fire.
    pub cancelled: usize,
    /// They had fired already.
    pub fired: usize,
}

/// A future run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upcoming {
    /// The instant of the schedule.
    pub scheduled_at: Millis,
    /// The instant at which the run fires: later by the jitter.
    pub at: Millis,
}

impl Planner {
    /// # Errors
    /// [`Error::NotFound`], or a failing store.
    pub async fn get(&self, key: &ScheduleKey) -> Result<StoredSchedule, Error> {
        let stored = self.inner.store.schedule(key).await?.ok_or(Error::NotFound)?;
        if self.eyes.see(&stored) { Ok(stored) } else { Err(Error::NotFound) }
    }

    /// The same planner for a caller with limited access. The state at the moment of a change decides: a
    /// caller that may not see it gets [`Error::NotFound`]. Lists and `put` are not restricted.
    #[must_use]
    pub fn seen_by(&self, sees: impl Fn(&StoredSchedule) -> bool + Send + Sync + 'static) -> Self {
        Self { inner: Arc::clone(&self.inner), eyes: Eyes::new(sees) }
    }

    /// The schedules of a namespace by name, after a name.
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

    /// Checks a document as storing it would, and returns its next runs.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub async fn preview(
        &self,
        key: &ScheduleKey,
        schedule: Schedule,
        count: usize,
    ) -> Result<Vec<Upcoming>, Error> {
        let (now, key) = (self.inner.engine.now(), key.clone());
        let namespace = key.namespace.clone();
        let work = move |pass: &TimeSlice| {
            let mut budget = evaluate::calendar(STEPS, pass);
            let timing = checked(&schedule, now, &mut budget)?;
            let found = upcoming(&key, &schedule, &timing, now, count, &mut budget);
            if found.is_empty() && count > 0 {
                let problem =
                    format!("no instant was found within {STEPS} steps: make `exclude` or `cron` simpler");
                return Err(Invalid { field: "exclude".to_owned(), problem }.into());
            }
            Ok::<_, Error>(found)
        };
        evaluate::for_request(self.inner.options.pool, &namespace, work).await?
    }

    /// The next runs. Empty while it is paused or disabled, or has had all its runs.
    ///
    /// # Errors
    /// [`Error::Invalid`], if the document cannot be read.
    pub async fn next(&self, stored: &StoredSchedule, count: usize) -> Result<Vec<Upcoming>, Error> {
        let mut all = self.next_of_each(vec![stored.clone()], count).await?;
        all.pop().unwrap_or_else(|| Ok(Vec::new()))
    }

    /// The same for several, in order. They share one cost limit, so the last ones may have no result.
    ///
    /// # Errors
    /// If nothing can be computed.
    pub async fn next_of_each(
        &self,
        all: Vec<StoredSchedule>,
        count: usize,
    ) -> Result<Vec<Result<Vec<Upcoming>, Error>>, Error> {
        let now = self.inner.engine.now();
        let Some(namespace) = all.first().map(|stored| stored.key.namespace.clone()) else {
            return Ok(Vec::new());
        };
        let work = move |pass: &TimeSlice| {
            let mut budget = evaluate::calendar(STEPS, pass);
            let next =
                |stored: &StoredSchedule| next_of(stored, now, count, &mut budget).map_err(Error::from);
            all.iter().map(next).collect::<Vec<_>>()
        };
        evaluate::for_request(self.inner.options.pool, &namespace, work).await
    }

    /// Stores a document, replacing an existing one. A pause remains. `fits` gets the current revision, 0 if
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
        let change = move |current: Option<&StoredSchedule>| {
            let pause = current.and_then(|schedule| schedule.schedule.pause.clone());
            Ok(Schedule { pause, ..schedule.clone() })
        };
        let taken = self.change(key, by, fits, change, Checks::All).await?;
        if taken.before.is_some() {
            self.release(&taken.schedule).await?;
        }
        Ok(taken)
    }

    /// Returns the existing schedule, for a change.
    fn existing<'s>(&self, current: Option<&'s StoredSchedule>) -> Result<&'s StoredSchedule, Error> {
        current.filter(|schedule| self.eyes.see(schedule)).ok_or(Error::NotFound)
    }

    /// Changes an existing schedule.
    ///
    /// # Errors
    /// Fails like [`Planner::put`], and with [`Error::NotFound`].
    pub async fn patch(
        &self,
        key: &ScheduleKey,
        by: &str,
        fits: impl Fn(i64) -> bool,
        patched: impl Fn(&Schedule) -> Result<Schedule, Error>,
    ) -> Result<TakenBack, Error> {
        let change = move |current: Option<&StoredSchedule>| {
            let current = self.existing(current)?;
            let pause = current.schedule.pause.clone();
            Ok(Schedule { pause, ..patched(&current.schedule)? })
        };
        let taken = self.change(key, by, fits, change, Checks::All).await?;
        self.release(&taken.schedule).await?;
        Ok(taken)
    }

    /// Pauses a schedule. After this returns, no further run fires.
    ///
    /// # Errors
    /// Fails like [`Planner::patch`].
    pub async fn pause(
        &self,
        key: &ScheduleKey,
        reason: Option<String>,
        until: Option<Millis>,
        by: &str,
    ) -> Result<TakenBack, Error> {
        let at = self.inner.engine.now();
        if until.is_some_and(|millis| millis <= at) {
            return Err(Invalid { field: "until".to_owned(), problem: "has passed".to_owned() }.into());
        }
        let pause = SchedulePause { at, by: by.to_owned(), reason, until };
        let change = move |current: Option<&StoredSchedule>| {
            let current = self.existing(current)?;
            // The author and reason of the first pause remain.
            let stood =
                current.schedule.pause.clone().filter(|_| current.schedule.is_paused(at) && until.is_none());
            Ok(Schedule { pause: Some(stood.unwrap_or_else(|| pause.clone())), ..current.schedule.clone() })
        };
        self.change(key, by, |_| true, change, Checks::None).await
    }

    /// The schedule continues; missed runs are treated by its policy.
    ///
    /// # Errors
    /// Fails like [`Planner::patch`].
    pub async fn resume(&self, key: &ScheduleKey, by: &str) -> Result<TakenBack, Error> {
        let change = |current: Option<&StoredSchedule>| {
            let current = self.existing(current)?;
            Ok(Schedule { pause: None, ..current.schedule.clone() })
        };
        let taken = self.change(key, by, |_| true, change, Checks::None).await?;
        self.release(&taken.schedule).await?;
        Ok(taken)
    }

    /// Deletes a schedule, once its runs that were made ahead are revoked.
    ///
    /// # Errors
    /// Fails like [`Planner::patch`].
    pub async fn delete(
        &self,
        key: &ScheduleKey,
        by: &str,
        fits: impl Fn(i64) -> bool,
    ) -> Result<TakenBack, Error> {
        let disabled = |current: Option<&StoredSchedule>| {
            let current = self.existing(current)?;
            Ok(Schedule { enabled: false, ..current.schedule.clone() })
        };
        let mut before = None;
        for _ in 0..TRIES {
            let taken = match self.change(key, by, &fits, disabled, Checks::None).await {
                // Another has removed it after this call had disabled it.
                Err(Error::NotFound) if before.is_some() => break,
                taken => taken?,
            };
            let current = taken.schedule.clone();
            let taken = before.get_or_insert(taken);
            taken.schedule = current;
            if self.remove(&taken.schedule).await? {
                break;
            }
            // Another caller has stored it meanwhile: it existed before this call ended.
        }
        let taken = before.ok_or(Error::Contended)?;
        self.release(&taken.schedule).await?;
        Ok(taken)
    }

    /// False if it has another document by now.
    async fn remove(&self, disabled: &StoredSchedule) -> Result<bool, Error> {
        for _ in 0..TRIES {
            let current =
                self.inner.store.schedule(&disabled.key).await.map_err(BackendError::after_a_change)?;
            let Some(current) = current.filter(|schedule| schedule.id == disabled.id) else {
                return Ok(true);
            };
            if current.revision != disabled.revision {
                return Ok(false);
            }
            // Runs that were made ahead are revoked before the schedule is deleted, whichever caller disabled
            // it.
            if current.progress.takes_back {
                self.finish(&current).await?;
                continue;
            }
            let removed = self.inner.store.remove_schedule(current.id, current.step).await;
            if removed.map_err(BackendError::after_a_change)? == Applied::Moved {
                return Ok(true);
            }
        }
        Err(Error::Contended)
    }

    /// One `now`, before the commit, decides which runs have fired and which are revoked. A document without
    /// a change is not stored, and revokes nothing.
    async fn change(
        &self,
        key: &ScheduleKey,
        by: &str,
        fits: impl Fn(i64) -> bool,
        change: impl Fn(Option<&StoredSchedule>) -> Result<Schedule, Error>,
        checks: Checks,
    ) -> Result<TakenBack, Error> {
        for _ in 0..TRIES {
            let current = self.inner.store.schedule(key).await?;
            let revision = current.as_ref().map_or(0, |schedule| schedule.revision);
            if !fits(revision) {
                return Err(Error::Otherwise(revision));
            }
            let mut schedule = change(current.as_ref())?;
            if let Some(current) =
                current.as_ref().filter(|stored_schedule| stored_schedule.schedule == schedule)
            {
                return self.unchanged(current.clone()).await;
            }
            if checks == Checks::All {
                let now = self.inner.engine.now();
                let work = move |pass: &TimeSlice| {
                    checked(&schedule, now, &mut evaluate::calendar(STEPS, pass))?;
                    Ok::<_, Error>(schedule)
                };
                let pool = self.inner.options.pool;
                schedule = evaluate::for_request(pool, &key.namespace, work).await??;
            }
            let now = self.inner.engine.now();
            let save = SaveSchedule {
                key: key.clone(),
                progress: progress_after(current.as_ref(), &schedule, now),
                schedule,
                wake_at: Some(now),
                expected: current.as_ref().map(|schedule| schedule.step),
                by: by.to_owned(),
            };
            if let Some(saved) = self.inner.store.save_schedule(save, now).await? {
                let (schedule, taken) = self.finish(&saved).await?;
                let RevokedSchedule { cancelled, fired } = taken;
                return Ok(TakenBack { before: current, schedule, cancelled, fired });
            }
        }
        Err(Error::Contended)
    }

    /// Completes the revocation of an earlier change before this returns.
    async fn unchanged(&self, current: StoredSchedule) -> Result<TakenBack, Error> {
        let (schedule, taken) = self.finish(&current).await?;
        let RevokedSchedule { cancelled, fired } = taken;
        Ok(TakenBack { before: Some(current), schedule, cancelled, fired })
    }

    /// Finishes a change after its commit: revokes the runs that were created before it. Returns the resulting
    /// schedule.
    async fn finish(&self, saved: &StoredSchedule) -> Result<(StoredSchedule, RevokedSchedule), Error> {
        let (mut current, mut all) = (saved.clone(), RevokedSchedule::default());
        for _ in 0..TRIES {
            if !current.progress.takes_back {
                break;
            }
            let now = self.inner.engine.now();
            let finished = revoke::finish(&self.inner, &current, now).await;
            let (taken, _) = finished.map_err(BackendError::after_a_change)?;
            all = RevokedSchedule {
                cancelled: all.cancelled.max(taken.cancelled),
                fired: all.fired.max(taken.fired),
            };
            let found = self.inner.store.schedule(&saved.key).await.map_err(BackendError::after_a_change)?;
            // If a planner was faster, it has done the same, and the counts are in the history. If a manual
            // run was requested meanwhile, runs are revoked once more.
            match found.filter(|schedule| schedule.revision == saved.revision) {
                Some(found) => current = found,
                None => break,
            }
        }
        Ok((current, all))
    }
}

/// States if a changed document is checked. An existing one that is only paused or disabled may violate newer rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checks {
    All,
    None,
}

/// Every rule, those of payloads included.
fn checked(schedule: &Schedule, now: Millis, budget: &mut Budget) -> Result<Timing, Error> {
    let timing = schedule.check(now, budget)?;
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
        expressions::check(text)?;
    }
    Ok(timing)
}

/// The progress from which a changed schedule continues.
fn progress_after(current: Option<&StoredSchedule>, schedule: &Schedule, now: Millis) -> Progress {
    let Some(current) = current else { return Progress::beginning(now) };
    let mut progress = current.progress.clone();
    // A disabled schedule has missed nothing.
    let was_at_work = current.schedule.enabled && schedule.enabled;
    progress.begin_taking_back(now, current.schedule.jitter_ms, was_at_work);
    if !schedule.enabled || schedule.is_paused(now) {
        progress.rest(now);
    }
    progress.was_paused |= current.schedule.pause.is_some();
    progress
}

fn next_of(
    stored: &StoredSchedule,
    now: Millis,
    count: usize,
    budget: &mut Budget,
) -> Result<Vec<Upcoming>, Invalid> {
    let schedule = &stored.schedule;
    if !schedule.enabled {
        return Ok(Vec::new());
    }
    let timing = Timing::of(schedule)?;
    let begins = match schedule.pause.as_ref().filter(|_| schedule.is_paused(now)) {
        None => now,
        Some(SchedulePause { until: Some(until), .. }) => Millis(until.0 - 1),
        Some(_) => return Ok(Vec::new()),
    };
    let left = schedule.max_runs.map(|max_runs| max_runs.saturating_sub(stored.progress.runs));
    let mut all = upcoming(&stored.key, schedule, &timing, begins, count, budget);
    if let Some(left) = left {
        // Those that are made already count among the runs that it has had.
        let made =
            all.iter().filter(|upcoming| upcoming.scheduled_at <= stored.progress.decided_until).count();
        all.truncate(made.saturating_add(usize::try_from(left).unwrap_or(usize::MAX)));
    }
    Ok(all)
}

fn upcoming(
    key: &ScheduleKey,
    schedule: &Schedule,
    timing: &Timing,
    after: Millis,
    count: usize,
    budget: &mut Budget,
) -> Vec<Upcoming> {
    let fires = |scheduled_at: Millis| {
        let late_ms = jitter_ms(&key.namespace, &key.name, scheduled_at, schedule.jitter_ms);
        Upcoming { scheduled_at, at: scheduled_at.plus(late_ms) }
    };
    timing.occurrences(after, count, budget).into_iter().map(fires).collect()
}
