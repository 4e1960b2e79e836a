/** Punctual: tasks that fire at their time. See the README of this package. */
export { App, AppTask, type AppOptions, type AppTaskOptions, type Handler } from "./app.js";
export { BatchError } from "./batch.js";
export { path, type Call, type Repeat } from "./call.js";
export {
  Client,
  type HeartbeatAnswer,
  type LeaseAnswer,
  type LeaseNews,
  type Outcome,
  type Receipt,
} from "./client.js";
export type { NewBulk, PageOptions, QueueSettings } from "./client/operations.js";
export type { NewSchedule } from "./client/schedules.js";
export type { Reschedule, Search, TaskRef, WaitOptions } from "./client/tasks.js";
export type { NewNode, NewWorkflow } from "./client/workflows.js";
export { Context, Stopped, type StopReason } from "./context.js";
export type { Duration, Instant } from "./durations.js";
export {
  AccessDenied,
  AlreadyFired,
  Busy,
  ConfigurationError,
  Conflict,
  Indeterminate,
  InvalidRequest,
  NotFound,
  PreconditionFailed,
  PunctualError,
  QueueFull,
  Refused,
  TaskExists,
  Unreachable,
  VersionSuperseded,
  WaitTimeout,
  type FieldError,
} from "./errors.js";
export type { JsonObject } from "./json.js";
export { isFinished, isFinishedWorkflow } from "./models.js";
export type * from "./models.js";
export { expr, type InsertOptions, type NewTask, type ScheduledTask, type TaskSettings } from "./new-task.js";
export { Reject, RetryLater, Snooze } from "./outcomes.js";
export * as retry from "./retry.js";
export type { RetryPolicy } from "./retry.js";
export type { Schema, StandardSchema } from "./schema.js";
export type { ClientOptions, Settings } from "./settings.js";
export { VERSION } from "./version.js";
export { Worker, type WorkerOptions } from "./worker.js";
export type { Logger, Worked } from "./worker/state.js";
