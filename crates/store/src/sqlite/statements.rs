//! Every statement, by name. The text lives in `sql/sqlite`, one file each, with its parameters in the header.

use punctual_domain::state::Event;

macro_rules! sql {
    ($file:literal) => {
        without_header(include_str!(concat!("../../sql/sqlite/", $file)))
    };
}

/// A file without the comment lines that it begins with: the statement cache hashes the text at every use.
const fn without_header(file: &'static str) -> &'static str {
    let mut rest = file;
    while let [b'-', b'-', line @ ..] = rest.as_bytes() {
        let mut after = line;
        while let [byte, more @ ..] = after {
            after = more;
            if *byte == b'\n' {
                break;
            }
        }
        rest = rest.split_at(rest.len() - after.len()).1;
    }
    rest
}

pub(crate) const STANDING: &str = sql!("insert/standing.sql");
pub(crate) const INSERT_TASK: &str = sql!("insert/task.sql");
pub(crate) const INSERT_BODY: &str = sql!("insert/body.sql");
pub(crate) const BODY_GONE: &str = sql!("insert/body_gone.sql");

pub(crate) const PRISTINE_TABLES: &str = sql!("pristine/tables.sql");
pub(crate) const PRISTINE_ROWS: &str = sql!("pristine/rows.sql");
pub(crate) const PRISTINE_CLEAR: &str = sql!("pristine/clear.sql");
pub(crate) const PRISTINE_ADD: &str = sql!("pristine/add.sql");

pub(crate) const AT: &str = sql!("move/at.sql");

pub(crate) const GRANT: &str = sql!("lease/grant.sql");
pub(crate) const HELD: &str = sql!("lease/held.sql");
pub(crate) const EXTEND: &str = sql!("lease/extend.sql");
pub(crate) const FIRED: &str = sql!("lease/fired.sql");
pub(crate) const STOP: &str = sql!("lease/stop.sql");
pub(crate) const LOG: &str = sql!("lease/log.sql");

pub(crate) const EXECUTOR_NOTE: &str = sql!("executor/note.sql");
pub(crate) const EXECUTOR_WISHES: &str = sql!("executor/wishes.sql");
pub(crate) const EXECUTOR_LIST: &str = sql!("executor/list.sql");
pub(crate) const EXECUTOR_WISH: &str = sql!("executor/wish.sql");
pub(crate) const EXECUTOR_WISHED: &str = sql!("executor/wished.sql");
pub(crate) const EXECUTOR_DIED: &str = sql!("executor/died.sql");
pub(crate) const EXECUTOR_FORGET: &str = sql!("executor/forget.sql");
pub(crate) const EXECUTOR_ROLL: &str = sql!("executor/roll.sql");

pub(crate) const READ: &str = sql!("query/read.sql");
pub(crate) const VERSIONS: &str = sql!("query/versions.sql");
pub(crate) const VERSION: &str = sql!("query/version.sql");
pub(crate) const LATEST_VERSIONS: &str = sql!("query/latest_versions.sql");
pub(crate) const SCAN: &str = sql!("query/scan.sql");
pub(crate) const SCAN_INSTANT: &str = sql!("query/scan_instant.sql");
pub(crate) const LEASES_ENDED: &str = sql!("query/leases_ended.sql");
pub(crate) const IN_FLIGHT: &str = sql!("query/in_flight.sql");
pub(crate) const LIST: &str = sql!("query/list.sql");
pub(crate) const LIST_BY_LABEL: &str = sql!("query/list_by_label.sql");
pub(crate) const BELOW: &str = sql!("query/below.sql");

pub(crate) const LIST_RISING: &str = sql!("query/list_rising.sql");
pub(crate) const ABOVE: &str = sql!("query/above.sql");
pub(crate) const LIST_BY_DUE: &str = sql!("query/list_by_due.sql");
pub(crate) const DUE_BOUND: &str = sql!("query/due_bound.sql");
pub(crate) const LIST_BY_DUE_RISING: &str = sql!("query/list_by_due_rising.sql");
pub(crate) const DUE_BOUND_RISING: &str = sql!("query/due_bound_rising.sql");
pub(crate) const LIST_DEAD: &str = sql!("query/list_dead.sql");
pub(crate) const DEAD_NEWEST: &str = sql!("label/dead_newest.sql");
pub(crate) const DEAD_FLOOR: &str = sql!("label/dead_floor.sql");
pub(crate) const LABEL_DECLARE: &str = sql!("label/declare.sql");
pub(crate) const LABEL_UNDECLARE: &str = sql!("label/undeclare.sql");
pub(crate) const LABELS_OF_QUEUE: &str = sql!("label/of_queue.sql");
pub(crate) const LABEL_PROGRESS: &str = sql!("label/progress.sql");
pub(crate) const LABEL_ENTER: &str = sql!("label/enter.sql");
pub(crate) const LABEL_ADVANCE: &str = sql!("label/advance.sql");
pub(crate) const LABEL_WHOLE: &str = sql!("label/whole.sql");
pub(crate) const LABEL_NOT_WHOLE: &str = sql!("label/not_whole.sql");
pub(crate) const LABEL_NEWEST: &str = sql!("label/newest.sql");
pub(crate) const LABEL_FLOOR: &str = sql!("label/floor.sql");

pub(crate) const CHUNK_ENTER: &str = sql!("chunk/enter.sql");
pub(crate) const CHUNK_BEHIND: &str = sql!("chunk/behind.sql");
pub(crate) const CHUNKS_STOOD: &str = sql!("chunk/stood.sql");
pub(crate) const CHUNKS_ADVANCE: &str = sql!("chunk/advance.sql");
pub(crate) const CHUNKS_NEWEST: &str = sql!("chunk/newest.sql");

pub(crate) const LEDGER_ADD: &str = sql!("ledger/add.sql");
pub(crate) const LEDGER_COUNT: &str = sql!("ledger/count.sql");
pub(crate) const BODY_BYTES: &str = sql!("ledger/body.sql");
pub(crate) const BOOKS: &str = sql!("ledger/books.sql");
pub(crate) const AUDIT: &str = sql!("ledger/audit.sql");

pub(crate) const META_READ: &str = sql!("meta/read.sql");
pub(crate) const META_KEEP: &str = sql!("meta/keep.sql");
pub(crate) const META_CHECK: &str = sql!("meta/check.sql");
pub(crate) const OBJECTS: &str = sql!("meta/objects.sql");

pub(crate) const RETENTION_OVER: &str = sql!("retire/over.sql");
pub(crate) const STOPPING: &str = sql!("retire/stopping.sql");
pub(crate) const DELETE_FINISHED: &str = sql!("retire/delete_finished.sql");
pub(crate) const DELETE: &str = sql!("retire/delete.sql");
pub(crate) const REPLIES_OVER: &str = sql!("retire/replies.sql");

pub(crate) const ARCHIVE_WAITING: &str = sql!("archive/waiting.sql");
pub(crate) const ARCHIVE_INSTANT: &str = sql!("archive/instant.sql");
pub(crate) const ARCHIVE_OVER: &str = sql!("archive/over.sql");
pub(crate) const ARCHIVE_FORGET: &str = sql!("archive/forget.sql");

pub(crate) const SETTINGS: &str = sql!("setting/all.sql");
pub(crate) const SETTING_STANDS: &str = sql!("setting/stands.sql");
pub(crate) const SETTING_NEXT: &str = sql!("setting/next.sql");
pub(crate) const SETTING_SAVE: &str = sql!("setting/save.sql");
pub(crate) const SETTING_REMOVE: &str = sql!("setting/remove.sql");
pub(crate) const SETTING_RECORD: &str = sql!("setting/record.sql");
pub(crate) const SETTING_CHANGES: &str = sql!("setting/changes.sql");
pub(crate) const PAUSED: &str = sql!("setting/paused.sql");

pub(crate) const NAMESPACE_PAGE: &str = sql!("namespace/page.sql");
pub(crate) const NAMESPACE_DELETE: &str = sql!("namespace/delete.sql");
pub(crate) const NAMESPACE_REPLIES: &str = sql!("namespace/replies.sql");
pub(crate) const NAMESPACE_EXECUTORS: &str = sql!("namespace/executors.sql");
pub(crate) const NAMESPACES_SCHEDULING: &str = sql!("namespace/scheduling.sql");
pub(crate) const NAMESPACE_SCHEDULES: &str = sql!("namespace/schedules.sql");
pub(crate) const NAMESPACE_BULKS: &str = sql!("namespace/bulks.sql");
pub(crate) const NAMESPACE_BULK_FAILURES: &str = sql!("namespace/bulk_failures.sql");
pub(crate) const NAMESPACE_EVALUATIONS: &str = sql!("namespace/evaluations.sql");
pub(crate) const NAMESPACE_CHANGES: &str = sql!("namespace/changes.sql");

pub(crate) const TOKENS: &str = sql!("token/all.sql");
pub(crate) const TOKEN_STANDS: &str = sql!("token/stands.sql");
pub(crate) const TOKEN_NEXT: &str = sql!("token/next.sql");
pub(crate) const TOKEN_SAVE: &str = sql!("token/save.sql");
pub(crate) const TOKEN_FORGET: &str = sql!("token/forget.sql");
pub(crate) const TOKEN_USED: &str = sql!("token/used.sql");

pub(crate) const EVALUATION_OTHERS: &str = sql!("evaluation/others.sql");
pub(crate) const EVALUATION_BEGIN: &str = sql!("evaluation/begin.sql");
pub(crate) const EVALUATION_END: &str = sql!("evaluation/end.sql");
pub(crate) const EVALUATION_RELEASE: &str = sql!("evaluation/release.sql");
pub(crate) const EVALUATION_SET_ASIDE: &str = sql!("evaluation/set_aside.sql");
pub(crate) const EVALUATION_ENDED: &str = sql!("evaluation/ended.sql");
pub(crate) const EVALUATION_LEAVE: &str = sql!("evaluation/leave.sql");

pub(crate) const SCHEDULE_ONE: &str = sql!("schedule/one.sql");
pub(crate) const SCHEDULE_LIST: &str = sql!("schedule/list.sql");
pub(crate) const SCHEDULE_DUE: &str = sql!("schedule/due.sql");
pub(crate) const SCHEDULE_NEXT_WAKE: &str = sql!("schedule/next_wake.sql");
pub(crate) const SCHEDULE_NEXT: &str = sql!("schedule/next.sql");
pub(crate) const SCHEDULE_CREATE: &str = sql!("schedule/create.sql");
pub(crate) const SCHEDULE_REPLACE: &str = sql!("schedule/replace.sql");
pub(crate) const SCHEDULE_REF: &str = sql!("schedule/ref.sql");
pub(crate) const SCHEDULE_REMOVE: &str = sql!("schedule/remove.sql");
pub(crate) const SCHEDULE_ADVANCE: &str = sql!("schedule/advance.sql");
pub(crate) const SCHEDULE_RUN: &str = sql!("schedule/run.sql");
pub(crate) const SCHEDULE_SETTLE: &str = sql!("schedule/settle.sql");
pub(crate) const SCHEDULE_WITHDRAW: &str = sql!("schedule/withdraw.sql");
pub(crate) const IDENTITY_OFFER: &str = sql!("identity/offer.sql");
pub(crate) const IDENTITY_SECRET: &str = sql!("identity/secret.sql");
pub(crate) const SCHEDULE_UNSETTLED: &str = sql!("schedule/unsettled.sql");
pub(crate) const SCHEDULE_RUNS: &str = sql!("schedule/runs.sql");
pub(crate) const SCHEDULE_PUT_OFF: &str = sql!("schedule/put_off.sql");
pub(crate) const SCHEDULE_FORGET: &str = sql!("schedule/forget.sql");

pub(crate) const WORKFLOW_ADVANCE: &str = sql!("workflow/advance.sql");
pub(crate) const WORKFLOW_ALIKE: &str = sql!("workflow/alike.sql");
pub(crate) const WORKFLOW_CONTENTS: &str = sql!("workflow/contents.sql");
pub(crate) const WORKFLOW_CREATE: &str = sql!("workflow/create.sql");
pub(crate) const WORKFLOW_DEFINE: &str = sql!("workflow/define.sql");
pub(crate) const WORKFLOW_DEFINITION: &str = sql!("workflow/definition.sql");
pub(crate) const WORKFLOW_DUE: &str = sql!("workflow/due.sql");
pub(crate) const WORKFLOW_FORGET: &str = sql!("workflow/forget.sql");
pub(crate) const WORKFLOW_FORGET_DEFINITION: &str = sql!("workflow/forget_definition.sql");
pub(crate) const WORKFLOW_FORGET_DEFINITIONS: &str = sql!("workflow/forget_definitions.sql");
pub(crate) const WORKFLOW_FORGET_ROWS: &str = sql!("workflow/forget_rows.sql");
pub(crate) const WORKFLOW_KEYED: &str = sql!("workflow/keyed.sql");
pub(crate) const WORKFLOW_LIST: &str = sql!("workflow/list.sql");
pub(crate) const WORKFLOW_MADE: &str = sql!("workflow/made.sql");
pub(crate) const WORKFLOW_MARK: &str = sql!("workflow/mark.sql");
pub(crate) const WORKFLOW_MARKED: &str = sql!("workflow/marked.sql");
pub(crate) const WORKFLOW_NEXT_WAKE: &str = sql!("workflow/next_wake.sql");
pub(crate) const WORKFLOW_OF_NAMESPACE: &str = sql!("workflow/of_namespace.sql");
pub(crate) const WORKFLOW_ONE: &str = sql!("workflow/one.sql");
pub(crate) const WORKFLOW_OVER: &str = sql!("workflow/over.sql");
pub(crate) const WORKFLOW_ROW: &str = sql!("workflow/row.sql");
pub(crate) const WORKFLOW_ROWS: &str = sql!("workflow/rows.sql");
pub(crate) const WORKFLOW_UNMARK: &str = sql!("workflow/unmark.sql");
pub(crate) const WORKFLOW_USED: &str = sql!("workflow/used.sql");

pub(crate) const BULK_ONE: &str = sql!("bulk/one.sql");
pub(crate) const BULK_LIST: &str = sql!("bulk/list.sql");
pub(crate) const BULK_DUE: &str = sql!("bulk/due.sql");
pub(crate) const BULK_NEXT_WAKE: &str = sql!("bulk/next_wake.sql");
pub(crate) const BULK_CREATE: &str = sql!("bulk/create.sql");
pub(crate) const BULK_ADVANCE: &str = sql!("bulk/advance.sql");
pub(crate) const BULK_FAILED: &str = sql!("bulk/failed.sql");
pub(crate) const BULK_MENDED: &str = sql!("bulk/mended.sql");
pub(crate) const BULK_FAILURES: &str = sql!("bulk/failures.sql");
pub(crate) const BULK_OLD: &str = sql!("bulk/old.sql");
pub(crate) const BULK_FORGET: &str = sql!("bulk/forget.sql");
pub(crate) const BULK_FORGET_FAILURES: &str = sql!("bulk/forget_failures.sql");
pub(crate) const BULK_MATCHING: &str = sql!("bulk/matching.sql");
pub(crate) const BULK_MATCHING_DEAD: &str = sql!("bulk/matching_dead.sql");
pub(crate) const BULK_MATCHING_BY_LABEL: &str = sql!("bulk/matching_by_label.sql");

pub(crate) const AUDIT_APPEND: &str = sql!("audit/append.sql");
pub(crate) const AUDIT_COMPLETE: &str = sql!("audit/complete.sql");
pub(crate) const AUDIT_BOUNDS: &str = sql!("audit/bounds.sql");
pub(crate) const AUDIT_SINCE: &str = sql!("audit/since.sql");
pub(crate) const AUDIT_PAGE: &str = sql!("audit/page.sql");
pub(crate) const AUDIT_TRIM: &str = sql!("audit/trim.sql");

pub(crate) const CLUSTER_APPEND: &str = sql!("cluster/append.sql");
pub(crate) const CLUSTER_EVENTS: &str = sql!("cluster/events.sql");
pub(crate) const CLUSTER_TRIM_OLD: &str = sql!("cluster/trim_old.sql");
pub(crate) const CLUSTER_TRIM_BEYOND: &str = sql!("cluster/trim_beyond.sql");
pub(crate) const CLUSTER_SAVE_SAMPLE: &str = sql!("cluster/save_sample.sql");
pub(crate) const CLUSTER_SAMPLES: &str = sql!("cluster/samples.sql");
pub(crate) const CLUSTER_SAVE_QUEUE_SAMPLE: &str = sql!("cluster/save_queue_sample.sql");
pub(crate) const CLUSTER_QUEUE_SAMPLES: &str = sql!("cluster/queue_samples.sql");
pub(crate) const CLUSTER_QUEUE_SAMPLES_OF: &str = sql!("cluster/queue_samples_of.sql");
pub(crate) const CLUSTER_TRIM_QUEUE_SAMPLES: &str = sql!("cluster/trim_queue_samples.sql");
pub(crate) const CLUSTER_TRIM_SAMPLES: &str = sql!("cluster/trim_samples.sql");
pub(crate) const CLUSTER_SIZE: &str = sql!("cluster/size.sql");
pub(crate) const CLUSTER_DUE: &str = sql!("cluster/due.sql");

pub(crate) const REPLY_SAVE: &str = sql!("reply/save.sql");
pub(crate) const REPLY_RESERVE: &str = sql!("reply/reserve.sql");
pub(crate) const REPLY_RESERVED: &str = sql!("reply/reserved.sql");
pub(crate) const REPLY_RELEASE: &str = sql!("reply/release.sql");
pub(crate) const REPLY_LOAD: &str = sql!("reply/load.sql");

/// The guarded statement of an event.
pub(crate) const fn of_event(event: Event) -> &'static str {
    match event {
        Event::Replace => sql!("move/replace.sql"),
        Event::Unblock => sql!("move/unblock.sql"),
        Event::Claim => sql!("move/claim.sql"),
        Event::Reclaim => sql!("move/reclaim.sql"),
        Event::HandBack => sql!("move/hand_back.sql"),
        Event::Fire => sql!("move/fire.sql"),
        Event::Dispatch => sql!("move/dispatch.sql"),
        Event::FailDispatch => sql!("move/fail_dispatch.sql"),
        Event::Release => sql!("move/release.sql"),
        Event::Start => sql!("move/start.sql"),
        Event::Succeed => sql!("move/succeed.sql"),
        Event::Retry => sql!("move/retry.sql"),
        Event::Snooze => sql!("move/snooze.sql"),
        Event::Bury => sql!("move/bury.sql"),
        Event::Expire => sql!("move/expire.sql"),
        Event::DeadLetter => sql!("move/dead_letter.sql"),
        Event::Cancel => sql!("move/cancel.sql"),
        Event::Withdraw => sql!("move/withdraw.sql"),
        Event::Abort => sql!("move/abort.sql"),
        Event::Reschedule => sql!("move/reschedule.sql"),
        Event::Amend => sql!("move/amend.sql"),
        Event::Redrive => sql!("move/redrive.sql"),
        Event::Retire => sql!("move/retire.sql"),
    }
}
