//! Back ends that wrap others: the name of each method of the contract, once, and the four ways in which a
//! decorator forwards a call. Decides nothing: a decorator's own behaviour is defined by itself.

/// `methods_of!(Trait HOW TYPE { … })` implements the trait for a decorator. HOW is one of:
///
/// - `passes(inner)`: forwards to the same method of `self.inner()`;
/// - `lives`: forwards to that of `self.inner`, as a call of `self.life`;
/// - `opens(inner)`: as `passes`, but such a decorator implements the methods under `own` itself, in the braces;
/// - `fails(run Group)`: the same, by `self.faults.run` under the group and the words of the list. Such a
///   decorator implements the methods under `own` itself, in the braces.
///
/// Methods whose answer is no `Result` are in the braces, too.
macro_rules! methods_of {
    (SettingStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* SettingStore {
        Settings "look at the settings": settings_revision() -> i64;
        Settings "read the settings": settings() -> Settings;
        Settings "save a setting": save_setting(save: SaveSetting, now: Millis) -> Saved;
        Settings "read changes of settings": setting_changes(scope: &settings::Scope, before: Option<i64>, limit: usize) -> Vec<SettingChange>;
    } own {} } };
    (Store $($with:tt)*) => { $crate::decorators::decorate! { $($with)* Store {
        Apply "request a stop": request_stop(place: TaskRef, now: Millis) -> Applied;
        Look "look for what is overdue": overdue(look: OverdueLook) -> OverduePage;
        Leases "find ended leases": leases_ended_in(part: usize, now: Millis, limit: usize) -> Vec<Task>;
        Read "read versions": versions(namespace: &Name, task_id: i64, version: Option<i64>, limit: usize) -> Vec<Task>;
        Read "read the latest versions": latest_versions(namespace: &Name, task_ids: &[i64]) -> Vec<Task>;
        Read "list tasks": list(query: &Query) -> Page;
        Retire "retire tasks": retire_in(part: usize, now: Millis, stopped_until: Millis, limit: usize) -> Retired;
        Writers "check the writers": check_writers_in(part: usize) -> ();
        Replies "reserve a reply": reserve_reply(key: &ReplyKey, reservation: &Reservation, now: Millis) -> Reserved;
        Replies "release a reply": release_reply(key: &ReplyKey, owner: &str) -> ();
        Replies "save a reply": save_reply(key: &ReplyKey, reply: &Reply) -> ();
        Replies "load a reply": load_reply(key: &ReplyKey, now: Millis) -> Option<Reply>;
        Executors "note executors": note_executors(signs: Vec<Sign>) -> Vec<(Name, Name, executor::DesiredState)>;
        Executors "list executors": executors(namespace: &Name, from: &str, limit: usize) -> Vec<Executor>;
        Executors "wish of an executor": desired_state_of_executor(namespace: &Name, name: &Name, desired: executor::DesiredState) -> Option<executor::DesiredState>;
        Executors "call the roll": sweep_silent(now: Millis, silent_since: Millis, left_before: Millis) -> Roll;
    } own {
        insert_each(tasks: Vec<NewTask>, by: &str, now: Millis) -> Vec<Result<Inserted, Error>>;
        apply(steps: Vec<Step>, now: Millis) -> Vec<Stepped>;
        dispatch(grants: Vec<Grant>, now: Millis) -> Vec<Dispatched>;
        extend(beats: Vec<Beat>, now: Millis) -> Vec<Extended>;
        scan(scan: Scan) -> Vec<HotEntry>;
        scan_together(scans: Vec<Scan>) -> Vec<Option<Vec<HotEntry>>>;
        in_flight(after: Option<LeasePosition>, limit: usize) -> (Vec<Task>, Option<LeasePosition>);
        read(places: &[TaskRef]) -> Vec<Option<Task>>;
        books() -> Books;
        audit() -> Books;
    } } };
    (AccessStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* AccessStore {
        Access "look at the tokens": access_revision() -> i64;
        Access "read the tokens": tokens() -> Tokens;
        Access "save a token": save_token(token: Token, expected: i64) -> Saved;
        Access "forget tokens": forget_tokens(ended_before: Millis, limit: usize) -> usize;
        Access "note tokens used": note_tokens_used(used: Vec<(TokenId, Millis)>) -> ();
    } own {} } };
    (AuditStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* AuditStore {
        Audit "append to the audit": append_audit(entry: AuditEntry) -> i64;
        Audit "complete an entry of the audit": complete_audit(id: i64, result: AuditResult) -> ();
        Audit "read the audit": audit_entries(query: AuditQuery) -> AuditPage;
        Audit "trim the audit": trim_audit(before: Millis, limit: usize) -> usize;
    } own {} } };
    (LabelStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* LabelStore {
        Settings "look how far labels are indexed": label_indexes() -> Vec<LabelIndex>;
        Settings "index labels": index_labels_in(part: usize, limit: usize) -> usize;
    } own {} } };
    (LedgerStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* LedgerStore {
        Read "count the ledger": count_ledger(part: usize) -> Option<LedgerCount>;
        Read "read reports of the ledger": ledger_reports() -> Vec<LedgerReport>;
        Settings "keep a report of the ledger": save_ledger_report(part: usize, report: &str, answers: i64) -> ();
        Settings "request a count": request_ledger_count(part: usize) -> ();
    } own {} } };
    (NamespaceStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* NamespaceStore {
        Namespaces "delete tasks of a namespace": delete_tasks_in(part: usize, asked: DeleteTasks) -> DeletedTasks;
        Namespaces "delete traces of a namespace": delete_traces(namespace: &Name, limit: usize) -> usize;
        Namespaces "delete finished tasks": delete_finished(tasks: Vec<FinishedTask>) -> Vec<Applied>;
        Namespaces "list namespaces with schedules": namespaces_with_schedules() -> Vec<Name>;
    } own {} } };
    (IdentityStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* IdentityStore {
        Write "keep the secret of ids": identity_secret(offered: IdentitySecret) -> IdentitySecret;
    } own {} } };
    (ScheduleStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* ScheduleStore {
        Read "read a schedule": schedule(key: &ScheduleKey) -> Option<StoredSchedule>;
        Read "list schedules": schedules(namespace: &Name, after: &str, limit: usize) -> Vec<StoredSchedule>;
        Write "save a schedule": save_schedule(save: SaveSchedule, now: Millis) -> Option<StoredSchedule>;
        Write "remove a schedule": remove_schedule(id: i64, step: i64) -> Applied;
        Read "look for due schedules": due_schedules(slots: u32, now: Millis, limit: usize) -> Vec<StoredSchedule>;
        Read "look for the next schedule": next_wake() -> Option<Millis>;
        Write "move schedules on": advance_schedules(all: Vec<Advance>, now: Millis) -> Vec<Applied>;
        Write "settle runs": record_runs(runs: Vec<RecordRun>) -> ();
        Read "look for runs that are not settled": unsettled_runs(of: Option<OlderDocuments>, before: Millis, limit: usize) -> Vec<(StoredSchedule, Run)>;
        Write "put runs off": put_off_runs(runs: Vec<RunKey>, now: Millis) -> ();
        Read "read runs": runs(query: &RunQuery) -> Vec<Run>;
        Read "read the tasks of runs": run_tasks(runs: Vec<RunKey>) -> Vec<RunTask>;
        Write "cancel runs": withdraw_runs(runs: Vec<RunKey>, outcome: Outcome, reason: &str) -> ();
        Write "forget runs": forget_runs(created_before: Millis, limit: usize) -> usize;
    } own {} } };
    (WorkflowStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* WorkflowStore {
        Write "create a workflow": create_workflow(new: NewWorkflow, now: Millis) -> CreatedWorkflow;
        Read "read a workflow": workflow(id: WorkflowId) -> Option<StoredWorkflow>;
        Read "read a document": definition(id: i64) -> Option<StoredDefinition>;
        Read "list workflows": workflows(query: &WorkflowQuery) -> Vec<StoredWorkflow>;
        Read "read what nodes carry": node_contents(id: WorkflowId, nodes: Vec<u32>) -> Vec<NodeContent>;
        Write "note tasks": nodes_made(id: WorkflowId, made: Vec<MadeNode>) -> ();
        Read "look for due workflows": due_workflows(slots: u32, now: Millis, limit: usize) -> Vec<StoredWorkflow>;
        Read "look for the next workflow": next_workflow_wake() -> Option<Millis>;
        Mark "mark workflows": mark_workflows(marks: Vec<WorkflowMark>, now: Millis) -> ();
        Read "look for marks": marked_workflows(slots: u32, before: Millis, limit: usize) -> Vec<WorkflowMark>;
        Unmark "unmark workflows": unmark_workflows(ids: Vec<i64>) -> ();
        Write "forget workflows": forget_workflows(finished_before: Millis, limit: usize) -> usize;
    } own {
        node_rows(id: WorkflowId) -> Vec<StoredNode>;
        advance_workflow(advance: AdvanceWorkflow, now: Millis) -> Applied;
    } } };
    (BulkStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* BulkStore {
        Write "make a bulk operation": create_bulk(new: NewBulk, now: Millis) -> StoredBulk;
        Read "read a bulk operation": bulk(namespace: &Name, id: i64) -> Option<StoredBulk>;
        Read "list bulk operations": bulks(namespace: &Name, below: i64, limit: usize) -> Vec<StoredBulk>;
        Read "look for due bulk operations": due_bulks(slots: u32, now: Millis, limit: usize) -> Vec<StoredBulk>;
        Read "look for the next bulk operation": next_bulk_wake() -> Option<Millis>;
        Write "move a bulk operation on": advance_bulk(advance: AdvanceBulk, now: Millis) -> Applied;
        Read "read what failed": bulk_failures(bulk: i64, above: i64, limit: usize) -> Vec<BulkFailure>;
        Write "forget old bulk operations": forget_bulks(unchanged_since: Millis, limit: usize) -> usize;
        Read "look for matching tasks": matching(look: &TaskFilter) -> Matching;
    } own {} } };
    (Hot $($with:tt)*) => { $crate::decorators::decorate! { $($with)* Hot {
        Withdraw "withdraw an entry": withdraw(partition: Partition, id: i64, fence: i64) -> Withdrawn;
        Look "count what is due": count_due() -> usize;
        Look "look whether it is whole": is_whole(tenures: &[Tenure]) -> Vec<Wholeness>;
        Clear "clear a partition": clear(tenure: Tenure) -> ();
        Look "look how full it is": fullness() -> u32;
    } own {
        load(entries: Vec<HotEntry>) -> usize;
    } } };
    (Limiter $($with:tt)*) => { $crate::decorators::decorate! { $($with)* Limiter {
        GiveUp "give slots up": release(members: &[Member]) -> Vec<Option<Held>>;
        GiveUp "take grants back": retract(granted: &[(Member, Millis)]) -> Vec<Option<Held>>;
        Repair "prolong slots": prolong(members: &[(Member, Millis)]) -> ();
        Repair "restore slots": restore(held: Vec<Held>) -> ();
        Look "look at who holds slots": members(until: Millis, skip: usize, limit: usize) -> Vec<Held>;
        Look "look at what attempts hold": find(members: &[Member]) -> Vec<Held>;
        Look "look at who holds a scope": holders(scope: &limits::Scope, limit: usize) -> Holders;
        Look "count who holds scopes": held(scopes: &[limits::Scope]) -> Vec<usize>;
        Look "tell of demands": demands(engine: &str, seen: &[Demand], now: Millis) -> Vec<Demand>;
        Look "look whether slots were lost": is_whole() -> bool;
        Repair "begin to restore slots": begin_anew(who: Rebuilding) -> ();
        Repair "note that all slots are restored": make_whole(who: Rebuilding) -> bool;
    } own {
        grant(requests: Vec<SlotRequest>, now: Millis) -> Vec<Verdict>;
        room(limits: &[Limit], rates: &[Flowing], now: Millis) -> Room;
    } } };
    (Ownership $($with:tt)*) => { $crate::decorators::decorate! { $($with)* Ownership {} own {
        beat(engine: &str, ttl: Duration, says: &Says) -> Vec<Live>;
        acquire(engine: &str, partitions: &[Partition], ttl: Duration) -> Vec<Option<Tenure>>;
        renew(engine: &str, held: &[Tenure], ttl: Duration) -> Vec<bool>;
        raise(engine: &str, held: &[Tenure], above: i64) -> Vec<Option<Tenure>>;
        release(engine: &str, held: &[Tenure]) -> ();
        leave(engine: &str) -> ();
        now() -> Option<Millis>;
        owners() -> Vec<Owner>;
    } } };
    (Bus $($with:tt)*) => { $crate::decorators::decorate! { $($with)* Bus {
        Receive "receive messages": receive(queue: &QueueKey, limit: usize, wait: Duration, now: Millis) -> Vec<Delivery>;
        Acknowledge "acknowledge messages": acknowledge(queue: &QueueKey, ids: &[u64]) -> ();
        Reclaim "reclaim messages": reclaim(queue: &QueueKey, before: Millis) -> usize;
    } own {} } };
    (EvaluationStore $($with:tt)*) => { $crate::decorators::decorate! { $($with)* EvaluationStore {} own {
        begin_evaluations(pass: &EvaluationPass, subjects: &[Subject], crowd: Crowd, now: Millis) -> Vec<SubjectMarks>;
        end_evaluations(pass: &EvaluationPass, ids: &[i64]) -> ();
        release_evaluations(kind: EvaluationKind, ids: &[i64], engine: &str) -> usize;
        set_aside(engine: &str, limit: usize) -> Vec<SetAside>;
        ended_subjects(engine: &str, limit: usize) -> Vec<(EvaluationKind, i64)>;
        leave_evaluations(engine: &str) -> ();
    } } };
}

macro_rules! decorate {
    (passes($to:ident) $type:ty { $($written:tt)* } $trait:ident {
        $($group:ident $doing:literal: $name:ident($($arg:ident: $of:ty),*) -> $answer:ty;)*
    } own { $($own:ident($($own_arg:ident: $own_of:ty),*) -> $own_answer:ty;)* }) => {
        #[async_trait::async_trait]
        impl punctual_contract::$trait for $type {
            $(async fn $name(&self, $($arg: $of),*) -> Result<$answer, punctual_contract::Error> {
                self.$to().$name($($arg),*).await
            })*
            $(async fn $own(&self, $($own_arg: $own_of),*) -> Result<$own_answer, punctual_contract::Error> {
                self.$to().$own($($own_arg),*).await
            })*
            $($written)*
        }
    };
    (opens($to:ident) $type:ty { $($written:tt)* } $trait:ident {
        $($group:ident $doing:literal: $name:ident($($arg:ident: $of:ty),*) -> $answer:ty;)*
    } own { $($own:tt)* }) => {
        #[async_trait::async_trait]
        impl punctual_contract::$trait for $type {
            $(async fn $name(&self, $($arg: $of),*) -> Result<$answer, punctual_contract::Error> {
                self.$to().$name($($arg),*).await
            })*
            $($written)*
        }
    };
    (lives $type:ty { $($written:tt)* } $trait:ident {
        $($group:ident $doing:literal: $name:ident($($arg:ident: $of:ty),*) -> $answer:ty;)*
    } own { $($own:ident($($own_arg:ident: $own_of:ty),*) -> $own_answer:ty;)* }) => {
        #[async_trait::async_trait]
        impl punctual_contract::$trait for $type {
            $(async fn $name(&self, $($arg: $of),*) -> Result<$answer, punctual_contract::Error> {
                self.life.call(self.inner.$name($($arg),*)).await
            })*
            $(async fn $own(&self, $($own_arg: $own_of),*) -> Result<$own_answer, punctual_contract::Error> {
                self.life.call(self.inner.$own($($own_arg),*)).await
            })*
            $($written)*
        }
    };
    (fails($run:ident $groups:ident) $type:ty { $($written:tt)* } $trait:ident {
        $($group:ident $doing:literal: $name:ident($($arg:ident: $of:ty),*) -> $answer:ty;)*
    } own { $($own:tt)* }) => {
        #[async_trait::async_trait]
        impl punctual_contract::$trait for $type {
            $(async fn $name(&self, $($arg: $of),*) -> Result<$answer, punctual_contract::Error> {
                self.faults.$run($groups::$group, $doing, self.inner.$name($($arg),*)).await
            })*
            $($written)*
        }
    };
}

pub(crate) use decorate;
pub(crate) use methods_of;

/// The types that the list names, for its users.
pub(crate) mod names {
    pub(crate) use punctual_contract::{
        BulkStore, Bus, Error, EvaluationStore, Hot, Limiter, Ownership, ScheduleStore, Store, WorkflowStore,
        access::{Token, Tokens},
        audit::{AuditEntry, AuditPage, AuditQuery, AuditResult},
        bulk::{AdvanceBulk, BulkFailure, Matching, NewBulk, StoredBulk, TaskFilter},
        bus::Delivery,
        evaluations::{Crowd, EvaluationKind, EvaluationPass, SetAside, Subject, SubjectMarks},
        hot::{HotEntry, Keeps, Wholeness, Withdrawn},
        labels::LabelIndex,
        ledger::{LedgerCount, LedgerReport},
        limiter::{Demand, Flowing, Held, Holders, Limit, Member, Rebuilding, Room, SlotRequest, Verdict},
        namespaces::{DeleteTasks, DeletedTasks, FinishedTask},
        ownership::{Live, Owner, Says, Tenure},
        schedules::{
            Advance, OlderDocuments, RecordRun, Run, RunKey, RunQuery, RunTask, SaveSchedule, ScheduleKey,
            StoredSchedule,
        },
        settings::{SaveSetting, Saved, SettingChange, Settings},
        store::{
            Applied, Assignment, Beat, Books, Dispatched, Extended, Grant, Inserted, LeasePosition,
            OverdueLook, OverduePage, Page, Query, Reply, ReplyKey, Reservation, Reserved, Retired, Scan,
            Step, Stepped,
        },
        workflows::{
            AdvanceWorkflow, CreatedWorkflow, MadeNode, NewWorkflow, NodeContent, StoredDefinition,
            StoredNode, StoredWorkflow, WorkflowId, WorkflowMark, WorkflowQuery,
        },
    };
    pub(crate) use punctual_domain::{
        access::TokenId,
        executor::{self, Executor, Roll, Sign},
        identity::IdentitySecret,
        limits,
        name::{Name, QueueKey},
        place::{Partition, TaskRef},
        schedule::Outcome,
        settings,
        task::{NewTask, Task},
        time::Millis,
    };
    pub(crate) use std::time::Duration;
}
