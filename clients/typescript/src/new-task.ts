/** A task to insert. Holds what the caller wants; the wire's fields are made here and nowhere else. */
import { instantFields, optionalMs, type Duration, type Instant } from "./durations.js";
import { ConfigurationError } from "./errors.js";
import { contentFields, present, type JsonObject } from "./json.js";
import type { RetryPolicy } from "./retry.js";

/** How a task runs, of an insert, a schedule or a workflow. */
export interface TaskSettings {
  /** 1 (first) to 5 (last); 3. */
  readonly priority?: number | undefined;
  readonly maxAttempts?: number | undefined;
  /** See `retry`. */
  readonly retry?: RetryPolicy | undefined;
  /** How long one attempt may run. */
  readonly timeout?: Duration | undefined;
  /** How long after its time an attempt may still begin. */
  readonly deadline?: Duration | undefined;
  readonly labels?: { readonly [key: string]: string } | undefined;
  readonly concurrencyKey?: string | undefined;
  /** Versions of the worker that may run it: `>=2.1, <3`. */
  readonly handlerVersions?: string | undefined;
}

/** When a task is due, and who it is. */
export interface InsertOptions extends TaskSettings {
  /** Due after this long; unless it has `delay` or `at`, it is due now. */
  readonly delay?: Duration | undefined;
  readonly at?: Instant | undefined;
  /** The identity: a second insert with it replaces a task that has not begun, and is otherwise answered by it. */
  readonly key?: string | undefined;
  /** The identity as a number of 64 bits, instead of `key`; beyond 2^53 a `bigint` or decimal digits. */
  readonly taskId?: number | bigint | string | undefined;
  /** A higher version supersedes a lower one. */
  readonly taskVersion?: number | bigint | undefined;
  /** `replace` unless given. */
  readonly onConflict?: "replace" | "keep" | "fail" | undefined;
  /** For people. */
  readonly name?: string | undefined;
  readonly queue?: string | undefined;
  /** W3C trace context. */
  readonly traceparent?: string | undefined;
}

/** A task to insert. `R` is the type of the result of its handler. */
export interface NewTask<R = unknown> extends InsertOptions {
  readonly queue: string;
  /** Selects the handler; `default` unless given. */
  readonly kind?: string | undefined;
  /** Any JSON value, or bytes. */
  readonly payload?: unknown;
  /** Only for the compiler; never set. */
  readonly _result?: R;
}

/** The task of a schedule or of a workflow's node, which have no time and no identity of their own. */
export interface ScheduledTask extends TaskSettings {
  readonly queue: string;
  readonly kind?: string | undefined;
  readonly payload?: unknown;
}

/** A part of a payload that the server computes, in schedules and workflows: `expr("nodes.a.result")`. */
export function expr(cel: string): any {
  return { $expr: cel };
}

const ONLY_OF_INSERTS = ["delay", "at", "key", "taskId", "taskVersion", "onConflict", "name", "traceparent"] as const;

/** The body of `POST /v1/tasks`. */
export function newTaskFields(task: NewTask): JsonObject {
  if (task.delay !== undefined && task.at !== undefined) {
    throw new ConfigurationError("a task has a delay or an instant (at), not both");
  }
  return present({
    queue: task.queue,
    kind: task.kind,
    ...contentFields("payload", task.payload),
    delay_ms: optionalMs(task.delay),
    ...instantFields("execute_at", task.at),
    key: task.key,
    task_id: int64("taskId", task.taskId),
    task_version: int64("taskVersion", task.taskVersion),
    on_conflict: task.onConflict,
    name: task.name,
    priority: task.priority,
    max_attempts: task.maxAttempts,
    retry: task.retry,
    timeout_ms: optionalMs(task.timeout),
    deadline_ms: optionalMs(task.deadline),
    labels: task.labels,
    concurrency_key: task.concurrencyKey,
    handler_versions: task.handlerVersions,
    traceparent: task.traceparent,
  });
}

/** The `task` of a schedule or of a workflow's node. */
export function scheduledTaskFields(task: ScheduledTask): JsonObject {
  const given = ONLY_OF_INSERTS.filter((name) => (task as NewTask)[name] !== undefined);
  if (given.length) throw new ConfigurationError(`the task of a schedule or node has no ${given.join(", ")}`);
  return newTaskFields(task);
}

/** Sent again it could double a task, or be refused because of its own first try. */
export function needsKey(task: NewTask): boolean {
  return (task.taskId === undefined && task.key === undefined) || task.onConflict === "fail";
}

function int64(name: string, value: number | bigint | string | undefined): number | bigint | string | undefined {
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new ConfigurationError(`${name} ${value} is no exact integer: give a bigint beyond 2^53`);
  }
  return value;
}
