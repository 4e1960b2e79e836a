//! The callers of the simulated world: they insert, cancel, move and redrive tasks, and believe only the answers.

use super::{
    known::Known,
    ops::Op,
    recorder::{CallBegin, Inserting},
    world::{RETRY_GUESS, World, queue},
};
use punctual_contract::store::{Change, Inserted};
use punctual_domain::{
    insert::Decision,
    name::Name,
    retry::RetryPolicy,
    state::State,
    task::{Content, NewTask, Priority},
    time::Millis,
};
use punctual_engine::{Cancelled, Changed, Error};
use punctual_linear::InsertAnswer;

impl World {
    pub(super) async fn insert(&mut self, op: &Op) -> Result<(), String> {
        let Op::Insert { delay_ms, id, max_attempts, retry_ms, deadline_ms, priority } = op else {
            return Ok(());
        };
        let now = self.now();
        let mut task = NewTask::new(queue(), Name::new("k").expect("a plain name"), now.plus(*delay_ms));
        (task.task_id, task.task_version) = id.map_or((None, 0), |(id, version)| (Some(id), version));
        task.max_attempts = *max_attempts;
        task.retry = RetryPolicy::Fixed { delay_ms: *retry_ms };
        task.deadline_ms = *deadline_ms;
        task.priority = Priority::new(*priority).unwrap_or_default();
        task.demands = self.demands();
        let due_at = task.execute_at.max(now);
        let inserting = Inserting {
            id: *id,
            due_at,
            has_deadline: deadline_ms.is_some(),
            max_attempts: *max_attempts,
            retry_ms: *retry_ms,
        };
        let Some(engine) = self.engine() else { return Ok(()) };
        let call = self.begin();
        match engine.insert(vec![task], "caller").await {
            Ok(answers) => {
                let answer = answers.first().ok_or("no answer to an insert")?;
                self.record_insert(answer, call, inserting);
                self.learn_insert(answer, due_at)
            }
            Err(_) => {
                self.recorder.insert_unanswered(call, inserting);
                self.uncertain_inserts += 1;
                let same = |known: &&mut Known| known.place.partition.0 < u16::MAX && id.is_some();
                self.tasks.iter_mut().filter(same).for_each(|task| task.uncertain = true);
                Ok(())
            }
        }
    }

    fn record_insert(&mut self, made: &Inserted, call: CallBegin, inserting: Inserting) {
        let answer = match made.decision {
            Decision::Create => InsertAnswer::Created,
            Decision::Replace => InsertAnswer::Replaced,
            Decision::ReturnExisting => InsertAnswer::Existing,
            Decision::Superseded | Decision::Exists => return,
        };
        let until = self.until();
        self.recorder.inserted(made.task.place.id, call, until, (inserting, answer));
    }

    fn learn_insert(&mut self, made: &Inserted, due_at: Millis) -> Result<(), String> {
        let known = self.by_id.get(&made.task.place.id).copied();
        match made.decision {
            Decision::Create => {
                if known.is_some() && self.uncertain_inserts == 0 {
                    return Err(format!("{:?} was created twice", made.task.place));
                }
                self.know(Known::new(made.task.place, Some(due_at)));
            }
            Decision::Replace => {
                self.given_up.extend(self.held.extract_if(.., |held| held.place.id == made.task.place.id));
                self.know(Known::new(made.task.place, Some(due_at)));
            }
            Decision::ReturnExisting => {
                let state = made.task.state;
                if !(state.is_in_flight() || state == State::Succeeded) {
                    return Err(format!("an existing task was answered in state {state:?}"));
                }
            }
            Decision::Superseded | Decision::Exists => {}
        }
        Ok(())
    }

    pub(super) fn know(&mut self, known: Known) {
        if let Some(nth) = self.by_id.get(&known.place.id) {
            if let Some(task) = self.tasks.get_mut(*nth) {
                *task = known;
            }
        } else {
            self.by_id.insert(known.place.id, self.tasks.len());
            self.tasks.push(known);
        }
    }

    pub(super) async fn cancel(&mut self, pick: usize, stop_if_fired: bool) -> Result<(), String> {
        let Some(place) = self.pick(pick) else { return Ok(()) };
        let Some(engine) = self.engine() else { return Ok(()) };
        let had_fired = self.has_fired(&engine, place).await;
        let call = self.begin();
        let answer = engine.cancel(place, stop_if_fired, "caller").await;
        let until = self.until();
        self.recorder.cancelled((place.id, stop_if_fired), call, until, Some(&answer));
        let Some(known) = self.known(place.id) else { return Ok(()) };
        match answer {
            Ok(Cancelled::Cancelled(_)) => {
                if known.succeeded && !known.uncertain {
                    return Err("a task that had succeeded was cancelled".into());
                }
                if had_fired && !stop_if_fired && !known.cancelled && !known.uncertain {
                    return Err("promise 5: a task that had fired was cancelled".into());
                }
                known.cancelled = true;
                known.owes_a_lease = false;
            }
            Ok(Cancelled::AlreadyFired(task)) => known.owes_a_lease |= task.state.is_waiting(),
            Ok(Cancelled::StopRequested(_)) | Err(Error::NotFound) => {}
            Err(_) => known.uncertain = true,
        }
        Ok(())
    }

    pub(super) async fn reschedule(&mut self, pick: usize, delay_ms: Option<i64>) -> Result<(), String> {
        let Some(place) = self.pick(pick) else { return Ok(()) };
        let now = self.now();
        let execute_at = delay_ms.map(|delay_ms| now.plus(delay_ms));
        let payload = delay_ms.is_none().then(|| Content::json("1"));
        let change = Change::Reschedule { execute_at, priority: None, payload, queue: None };
        let Some(engine) = self.engine() else { return Ok(()) };
        let had_fired = self.has_fired(&engine, place).await;
        let call = self.begin();
        let answer = engine.reschedule(place, change, "caller", |_| true).await;
        let until = self.until();
        let due_at = execute_at.map(|at| at.max(now));
        self.recorder.rescheduled((place.id, due_at), call, until, &answer);
        let Some(known) = self.known(place.id) else { return Ok(()) };
        match answer {
            Ok(Some(Changed::Changed(task))) => {
                if (known.cancelled || known.succeeded || had_fired) && !known.uncertain {
                    return Err(format!("a task that had fired or finished was rescheduled: {task:?}"));
                }
                if let Some(at) = execute_at {
                    known.due_at = Some(at.max(now));
                }
                known.owes_a_lease = false;
            }
            Ok(Some(Changed::Refused(task))) => known.owes_a_lease |= task.state.is_waiting(),
            Ok(None) | Err(Error::NotFound) => {}
            Err(_) => (known.uncertain, known.due_at) = (true, RETRY_GUESS),
        }
        Ok(())
    }

    pub(super) async fn redrive(&mut self, pick: usize) -> Result<(), String> {
        let Some(place) = self.pick(pick) else { return Ok(()) };
        let now = self.now();
        let Some(engine) = self.engine() else { return Ok(()) };
        let call = self.begin();
        let answer = engine.redrive(place, Vec::new(), "caller").await;
        let until = self.until();
        self.recorder.redriven(place.id, call, until, &answer);
        let Some(known) = self.known(place.id) else { return Ok(()) };
        match answer {
            Ok(Changed::Changed(_)) => *known = Known::new(place, Some(now)),
            Ok(Changed::Refused(task)) if task.state == State::Dead => {
                return Err("a dead task was not redriven".into());
            }
            Ok(Changed::Refused(_)) | Err(Error::NotFound) => {}
            Err(_) => (known.uncertain, known.due_at) = (true, RETRY_GUESS),
        }
        Ok(())
    }
}
