//! The way of rows of an inbox into the engine: that of calls of the API, with the relay as their caller. Must not know a
//! table.

use crate::{
    access::Who,
    ask::{self, Context},
    extract::Caller,
    insert::{self, Numbered},
    options::ServerOptions,
    refusal::Refusal,
};
use async_trait::async_trait;
use punctual_domain::{
    key::Key,
    name::{Name, QueueKey},
    task::NewTask,
    time::Millis,
};
use punctual_engine::Engine;
use punctual_inbox::{Intake, RowVerdict, Trouble};
use punctual_protocol::{BatchItem, Code, InsertTask, Problem};

/// Inserts for relays.
#[derive(Clone, Debug)]
pub struct EngineIntake {
    engine: Engine,
    options: ServerOptions,
}

impl EngineIntake {
    /// Of the options the limits of payloads count.
    #[must_use]
    pub const fn new(engine: Engine, options: ServerOptions) -> Self {
        Self { engine, options }
    }

    async fn insert_checked(
        &self,
        caller: &Caller,
        tasks: Vec<InsertTask>,
        by: Millis,
    ) -> Result<Vec<RowVerdict>, Refusal> {
        let context =
            Context { caller, now: self.engine.now(), options: &self.options, engine: &self.engine };
        insert::not_too_many(context)?;
        let (mut open, mut verdicts) = (Vec::with_capacity(tasks.len()), Vec::with_capacity(tasks.len()));
        for (nth, task) in tasks.into_iter().enumerate() {
            let checked = task.check().map_err(Refusal::from);
            match checked.and_then(|()| ask::new_task(task, context)) {
                Ok(task) => {
                    open.push(Numbered { nth, task: NewTask { insert_by: Some(by), ..task } });
                    verdicts.push(None);
                }
                Err(refusal) => verdicts.push(Some(refused(&refusal.into_problem()))),
            }
        }
        let mut inserted = insert::insert_all(context, open).await?.into_iter().map(verdict);
        let lost = || RowVerdict::Unknown("the engine answered for fewer tasks".to_owned());
        Ok(verdicts
            .into_iter()
            .map(|verdict| verdict.unwrap_or_else(|| inserted.next().unwrap_or_else(lost)))
            .collect())
    }
}

#[async_trait]
impl Intake for EngineIntake {
    fn now(&self) -> Millis {
        self.engine.now()
    }

    fn known_for_ms(&self, namespace: &Name, queue: &str) -> i64 {
        let queue = Name::chosen(queue).map(|queue| QueueKey { namespace: namespace.clone(), queue });
        queue.map_or(0, |queue| self.engine.known_for_ms(&queue))
    }

    fn payload_max_bytes(&self) -> u64 {
        u64::try_from(self.options.payload_max_bytes).unwrap_or(u64::MAX)
    }

    async fn insert(
        &self,
        inbox: &str,
        namespace: &Name,
        tasks: Vec<InsertTask>,
        by: Millis,
    ) -> Vec<RowVerdict> {
        let count = tasks.len();
        let caller = Caller {
            who: Who::relay(inbox),
            namespace: namespace.clone(),
            idempotency_key: None,
            traceparent: None,
        };
        match self.insert_checked(&caller, tasks, by).await {
            Ok(verdicts) => verdicts,
            Err(refusal) => vec![for_all(refusal.into_problem()); count],
        }
    }

    async fn is_known(&self, namespace: &Name, key: &str, version: i64) -> Result<bool, String> {
        let key = Key::caller(key).map_err(|error| error.to_string())?;
        let found = self.engine.versions_of_key(namespace, &key, Some(version), 1).await;
        found.map(|tasks| !tasks.is_empty()).map_err(|error| error.to_string())
    }

    fn report(&self, inbox: &str, trouble: Trouble) {
        self.engine.report_inbox(inbox, trouble.behind, trouble.refused);
    }
}

fn verdict(item: BatchItem) -> RowVerdict {
    match item.error {
        None if item.status == 201 => RowVerdict::Inserted,
        None => RowVerdict::Existing,
        Some(problem) => refused(&problem),
    }
}

/// Of one task.
fn refused(problem: &Problem) -> RowVerdict {
    let code = Code::from_name(&problem.code);
    match (code, problem.status) {
        (Some(Code::TaskVersionSuperseded), _) => RowVerdict::Superseded,
        (Some(Code::StoreOutcomeUnknown | Code::Internal), _) => RowVerdict::Unknown(said(problem)),
        (Some(Code::StoreUnavailable | Code::Stopping | Code::Overload), _) => {
            RowVerdict::Closed(said(problem))
        }
        (_, 429 | 500..) => RowVerdict::NotNow(said(problem)),
        _ => RowVerdict::Refused(said(problem)),
    }
}

/// The call failed as a whole: it is not about a row.
fn for_all(problem: Problem) -> RowVerdict {
    match Code::from_name(&problem.code) {
        Some(Code::StoreOutcomeUnknown | Code::Internal) => RowVerdict::Unknown(said(&problem)),
        _ => RowVerdict::Closed(said(&problem)),
    }
}

/// The code, and what is wrong: each field with its rule.
fn said(problem: &Problem) -> String {
    let fields: Vec<String> = problem
        .errors
        .iter()
        .map(|error| format!("{}: {}", error.pointer.trim_start_matches('/'), error.detail))
        .collect();
    let detail = if fields.is_empty() { problem.detail.clone() } else { fields.join("; ") };
    format!("{}: {detail}", problem.code)
}
