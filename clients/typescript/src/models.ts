/**
 * What the server answers. Names are those of the API in camelCase; instants are a `Date` (`execute_at_ms` is
 * `executeAt`), other times are milliseconds (`…Ms`). Fields that a newer server adds are there too. Absent fields are
 * `undefined`.
 */
import { refusal, type Refused } from "./errors.js";
import { contentOf, type JsonObject } from "./json.js";
import type { RetryPolicy } from "./retry.js";

/** In the machine's word. */
export type TaskState =
  | "scheduled"
  | "ready"
  | "dispatched"
  | "running"
  | "retrying"
  | "succeeded"
  | "dead"
  | "cancelled"
  | "stopped"
  | (string & {});

/** In the general word. */
export type TaskPhase = "pending" | "processing" | "success" | "failed" | "stopped" | (string & {});

/** A line of a task's log. */
export interface LogLine {
  readonly text: string;
  readonly level?: string;
  readonly at?: Date;
}

/** One change of a task's state. */
export interface HistoryEntry {
  readonly at: Date;
  readonly event: string;
  readonly from?: TaskState;
  readonly to: TaskState;
  readonly attempt: number;
  readonly by?: string;
  readonly reason?: string;
  readonly error?: string;
  readonly dueAt?: Date;
}

/** A task. `R` is the type of its result, as its handler returned it. */
export interface Task<R = unknown> {
  /** Works for ever, also after a reschedule. */
  readonly ref: string;
  readonly namespace: string;
  /** 64 bits, as decimal digits: a `number` would lose some, and a `bigint` does not go into JSON. */
  readonly taskId: string;
  readonly key?: string;
  readonly name?: string;
  /** A `bigint` beyond 2^53 only. */
  readonly taskVersion: number | bigint;
  readonly queue: string;
  readonly kind: string;
  readonly priority: number;
  readonly state: TaskState;
  readonly phase: TaskPhase;
  /** Of an insert. */
  readonly outcome?: "created" | "replaced" | "existing";
  readonly executeAt: Date;
  readonly firedAt?: Date;
  readonly latenessMs?: number;
  readonly startedAt?: Date;
  readonly finishedAt?: Date;
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** Any JSON value, or bytes (`Uint8Array`). */
  readonly payload?: unknown;
  /** What the handler returned: any JSON value, or bytes; `undefined` before, and without a result. */
  readonly result?: R;
  readonly lastError?: string;
  readonly labels: { readonly [key: string]: string };
  readonly timeoutMs?: number;
  readonly deadlineMs?: number;
  readonly retry?: RetryPolicy;
  readonly concurrencyKey?: string;
  readonly handlerVersions?: string;
  readonly traceparent?: string;
  readonly progress?: unknown;
  readonly log: readonly LogLine[];
  readonly history: readonly HistoryEntry[];
  readonly [field: string]: unknown;
}

/** A task in an executor's hands. */
export interface LeasedTask {
  readonly ref: string;
  readonly taskId: string;
  readonly taskVersion: number | bigint;
  readonly queue: string;
  readonly kind: string;
  readonly priority: number;
  /** Number of this attempt, from 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  /** Belongs to this lease; its outcome is reported with it. */
  readonly token: string;
  readonly payload?: unknown;
  readonly executeAt: Date;
  readonly firedAt: Date;
  readonly leaseUntil: Date;
  readonly timeoutMs?: number;
  readonly labels: { readonly [key: string]: string };
  readonly traceparent?: string;
  readonly [field: string]: unknown;
}

/** A page of a list; `nextCursor` continues. */
export interface Page<T> {
  readonly items: T[];
  readonly nextCursor?: string;
}

/** The result of one task of a batch: the task, or why it was refused. */
export type BatchItem<R = unknown> =
  | { readonly status: number; readonly task: Task<R>; readonly error?: undefined }
  | { readonly status: number; readonly task?: undefined; readonly error: Refused };

/** Why a queue or schedule is paused. */
export interface Pause {
  readonly reason?: string;
  readonly by?: string;
  readonly [field: string]: unknown;
}

/** A queue: settings and counts; settings that are not set are absent. */
export interface Queue {
  readonly queue: string;
  readonly namespace: string;
  readonly revision: number;
  readonly pause?: Pause;
  /** By state. */
  readonly tasks: { readonly [state: string]: number };
  readonly waiting: number;
  readonly ready: number;
  readonly [field: string]: unknown;
}

/** A schedule. */
export interface Schedule {
  readonly name: string;
  readonly namespace: string;
  readonly description?: string;
  readonly owner?: string;
  readonly enabled: boolean;
  readonly cron?: readonly string[];
  readonly everyMs?: number;
  readonly timeZone: string;
  /** With the fields of the API. */
  readonly task: JsonObject;
  readonly pause?: Pause;
  readonly revision: number;
  readonly nextRunAt?: Date;
  readonly lastRunAt?: Date;
  readonly updatedAt: Date;
  readonly runs: number;
  readonly [field: string]: unknown;
}

/** What became of one instant of a schedule. */
export interface ScheduleRun {
  readonly at: Date;
  readonly outcome: string;
  readonly reason?: string;
  readonly taskRef?: string;
  readonly run: number;
}

/** A node of a workflow, or an item of its fan-out. */
export interface NodeStatus {
  readonly state: string;
  readonly taskRef?: string;
  readonly result?: unknown;
  readonly error?: string;
  readonly items?: readonly NodeStatus[];
  readonly [field: string]: unknown;
}

/** A workflow with its nodes. */
export interface Workflow {
  readonly ref: string;
  readonly namespace: string;
  readonly name?: string;
  readonly state: "running" | "succeeded" | "failed" | "compensating" | "compensated" | "cancelled" | (string & {});
  readonly reason?: string;
  readonly input?: unknown;
  readonly nodes: { readonly [node: string]: NodeStatus };
  readonly createdAt: Date;
  readonly finishedAt?: Date;
  readonly [field: string]: unknown;
}

/** A bulk operation and its progress. */
export interface BulkOperation {
  readonly id: number;
  readonly revision: number;
  readonly action: string;
  readonly state: "previewed" | "running" | "paused" | "done" | "stopped" | (string & {});
  readonly count: number;
  readonly done: number;
  readonly skipped: number;
  readonly failed: number;
  readonly [field: string]: unknown;
}

/** An executor, as the cluster knows it. */
export interface Executor {
  readonly name: string;
  readonly state: string;
  readonly host?: string;
  readonly version?: string;
  readonly capacity?: number;
  readonly kinds?: readonly string[];
  readonly queues?: readonly string[];
  readonly labels?: { readonly [key: string]: string };
  readonly [field: string]: unknown;
}

const FINISHED: ReadonlySet<string> = new Set(["succeeded", "dead", "cancelled", "stopped"]);

/** Whether a task is over. */
export function isFinished(task: Task): boolean {
  return FINISHED.has(task.state);
}

/** Whether a workflow is over. */
export function isFinishedWorkflow(workflow: Workflow): boolean {
  return !["running", "compensating"].includes(workflow.state);
}

/** A task of an answer. */
export function taskOf<R = unknown>(raw: JsonObject): Task<R> {
  const { payload, payload_base64, result, ...rest } = raw;
  return {
    ...fieldsOf(rest),
    taskId: String(raw.task_id),
    labels: raw.labels ?? {},
    payload: contentOf("payload", raw),
    result: contentOf("result", (result ?? {}) as JsonObject),
    log: listOf(raw.log, fieldsOf),
    history: listOf(raw.history, fieldsOf),
  } as unknown as Task<R>;
}

/** A task of a lease's answer. */
export function leasedTaskOf(raw: JsonObject): LeasedTask {
  const { payload, payload_base64, ...rest } = raw;
  return {
    ...fieldsOf(rest),
    taskId: String(raw.task_id),
    labels: raw.labels ?? {},
    payload: contentOf("payload", raw),
  } as unknown as LeasedTask;
}

/** One result of a batch. */
export function batchItemOf(raw: JsonObject): BatchItem {
  const status = raw.status as number;
  if (raw.task) return { status, task: taskOf(raw.task as JsonObject) };
  return { status, error: refusal(raw.error as JsonObject) };
}

/** A queue of an answer. */
export function queueOf(raw: JsonObject): Queue {
  return { ...fieldsOf(raw), ...pauseOf(raw) } as unknown as Queue;
}

/** A schedule of an answer. */
export function scheduleOf(raw: JsonObject): Schedule {
  return { ...fieldsOf(raw), ...pauseOf(raw) } as unknown as Schedule;
}

/** A run of an answer. */
export function scheduleRunOf(raw: JsonObject): ScheduleRun {
  return fieldsOf(raw) as unknown as ScheduleRun;
}

/** A workflow of an answer. */
export function workflowOf(raw: JsonObject): Workflow {
  const nodes = Object.entries((raw.nodes ?? {}) as { [node: string]: JsonObject });
  return {
    ...fieldsOf(raw),
    nodes: Object.fromEntries(nodes.map(([name, node]) => [name, nodeOf(node)])),
  } as unknown as Workflow;
}

function nodeOf(raw: JsonObject): NodeStatus {
  const items = raw.items ? { items: listOf(raw.items, nodeOf) } : {};
  return { ...fieldsOf(raw), ...items } as unknown as NodeStatus;
}

/** A bulk operation of an answer. */
export function bulkOf(raw: JsonObject): BulkOperation {
  return fieldsOf(raw) as unknown as BulkOperation;
}

/** An executor of an answer. */
export function executorOf(raw: JsonObject): Executor {
  return fieldsOf(raw) as unknown as Executor;
}

/** Reads pages whose items are read by `each`. */
export function pageOf<T>(each: (raw: JsonObject) => T): (raw: JsonObject) => Page<T> {
  return (raw) => {
    const cursor = raw.next_cursor;
    return { items: listOf(raw.items, each), ...(cursor ? { nextCursor: cursor as string } : {}) };
  };
}

function pauseOf(raw: JsonObject): JsonObject {
  return raw.pause ? { pause: fieldsOf(raw.pause as JsonObject) } : {};
}

function listOf<T>(raw: unknown, each: (raw: JsonObject) => T): T[] {
  return ((raw ?? []) as JsonObject[]).map(each);
}

/** The fields of one object in camelCase, instants as a `Date`. What is inside of a field stays as it is. */
export function fieldsOf(raw: JsonObject): JsonObject {
  const made: JsonObject = {};
  for (const [name, value] of Object.entries(raw)) {
    const twin = `${name}_ms`;
    // The same instant as a text; or what the API has as null, and this package as absent.
    if (twin in raw || value === null) continue;
    const isInstant = /(^|_)(at|until|since)_ms$/.test(name) && typeof value === "number";
    made[camelCase(isInstant ? name.slice(0, -3) : name)] = isInstant ? new Date(value) : value;
  }
  return made;
}

function camelCase(name: string): string {
  return name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** The other way round, for settings that are sent by their names. `undefined` is left out, and `null` is not. */
export function wireNames(fields: object): JsonObject {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]));
}
