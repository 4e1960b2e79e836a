//! The JSON that travels between Punctual and the outside, shared by server and sdk: names, shapes, limits, error codes.
//! It holds no rule of a task's life (that is the domain's) and must never read a clock or do I/O.

// Values on the wire.
mod at;
mod base64_bytes;
mod int64;
mod json;

// Refusals and their form.
mod codes;
mod fields;
pub mod limits;
mod lists;
mod log_filter;
mod parse;
mod problem;
mod readable;
mod words;

// The calls, in the order a task meets them.
pub mod headers;
mod inboxes;
mod insert;
mod retry;
mod scan;
mod schedule;
mod scope_limits;
mod task;

mod bulk;
mod change;
mod dead;
mod search;
mod why;

mod executors;
mod heartbeat;
mod lease;
mod outcome;
mod token;

mod access;
mod alerts;
mod away;
mod cluster;
mod ledger;
mod namespaces;
mod pause;
mod queues;
mod schedule_runs;
mod schedules;
mod set_aside;
mod waiting;
mod webhook;
mod workflow_graph;
mod workflow_status;
mod workflows;

pub use access::{
    AccessToken, AuditEntry, CreateToken, ListTokens, Me, Revealed, Role, RotateToken, SearchAudit,
    TokenState, pattern_fault,
};
pub use alerts::{Alert, Consequence, Severity};
pub use at::At;
pub use away::WhileStoreIsAway;
pub use base64_bytes::Base64;
pub use bulk::{
    BULK_RATE_DEFAULT, BULK_RATE_MAX, BulkAction, BulkArgs, BulkFailure, BulkFilter, BulkOperation,
    BulkState, CreateBulk, ListBulk,
};
pub use change::{ActionAnswer, ActionOutcome, BuryRequest, CancelRequest, PatchTask};
pub use cluster::{
    Backlog, Bucket, Due, DueStep, Engine, EngineState, Event, HotSet, Lateness, ListPartitions, Partition,
    QueueStats, Rates, SearchEvents, Shard, Stats, StatsStep,
};
pub use codes::{CODES, Code, CodeInfo};
pub use dead::{RedriveAnswer, RedriveDead, SearchDead};
pub use executors::{Executor, ExecutorState, HeldLease, ListExecutors, LogLine, NewLogLine, Wish};
pub use fields::{FieldError, Invalid, in_words};
pub use heartbeat::{HeartbeatAnswer, HeartbeatRequest, LeaseBeat, LeaseNews};
pub use inboxes::{Inbox, InboxState};
pub use insert::{BatchAnswer, BatchItem, InsertBatch, InsertTask, OnConflict};
pub use int64::Int64;
pub use json::{Body, Json};
pub use lease::{LeaseAnswer, LeaseQueue, LeaseRequest, LeasedTask};
pub use ledger::{Ledger, LedgerFinding, LedgerPartition, LedgerTotals};
pub use lists::{ListAlerts, ListQueues};
pub use log_filter::{LogFilter, PutLogFilter};
pub use namespaces::{
    DeleteNamespace, ListNamespaces, Namespace, NamespaceDeletion, NamespaceState, PutNamespace, Usage,
};
pub use outcome::{Outcome, OutcomeBatch, OutcomeKind, OutcomeReceipt, OutcomeStatus, OutcomesAnswer};
pub use parse::{parse, parse_settings};
pub use pause::{Pause, PauseRequest, PauseWish};
pub use problem::{PROBLEM_CONTENT_TYPE, Problem};
pub use queues::{
    Choice, Indexing, Keep, Mode, Parked, ParkedFor, PutQueue, Queue, QueueCounts, Retries, SearchChanges,
    SettingChange, SlotHolder, Slots,
};
pub use retry::Retry;
pub use scan::{ScanReport, Source};
pub use schedule::When;
pub use schedule_runs::{
    BackfillAnswer, BackfillSchedule, HowMany, ListSchedules, NEXT_MAX, PauseSchedule, RunKind, RunOutcome,
    ScheduleRun, UpcomingRun,
};
pub use schedules::{
    Exclude, Instant, Missed, OneOrMany, Overlap, PutSchedule, RunsTakenBack, Schedule, SchedulePause,
    ScheduledTask,
};
pub use scope_limits::{Limits, PutLimits, Rate};
pub use search::{FoundTasks, Page, SearchTasks, Searched, SearchedAlong, SortTasks, TimeBound};
pub use set_aside::SetAside;
pub use task::{HistoryEntry, InsertOutcome, Phase, State, Task, TaskLease, TaskResult};
pub use token::{NotAToken, Token, WORKFLOW_LABEL, WORKFLOW_NODE_LABEL};
pub use waiting::WaitForEnd;
pub use webhook::{BodyFormat, Webhook};
pub use why::Why;
pub use words::{fault_in_words, nearest};
pub use workflow_graph::{DrawWorkflow, GraphEdge, GraphFormat, GraphNode, WorkflowGraph};
pub use workflow_status::{Compensation, NodeState, NodeStatus, Workflow, WorkflowState};
pub use workflows::{
    CancelWorkflow, Compensate, CreateWorkflow, Join, ListWorkflows, OnFailure, RerunWorkflow, WorkflowNode,
};
