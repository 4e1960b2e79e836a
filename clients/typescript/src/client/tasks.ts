/** The calls about tasks. */
import { BatchError, parts } from "../batch.js";
import { get, idempotencyKey, path, post, type Call } from "../call.js";
import { instantFields, instantText, optionalMs, toMs, type Duration, type Instant } from "../durations.js";
import { ConfigurationError, Indeterminate, WaitTimeout } from "../errors.js";
import { contentFields, encode, present, type JsonObject } from "../json.js";
import { batchItemOf, isFinished, pageOf, taskOf, type BatchItem, type Page, type Task } from "../models.js";
import { needsKey, newTaskFields, type NewTask } from "../new-task.js";
import type { RetryPolicy } from "../retry.js";
import type { Transport } from "../transport.js";
import { sleep } from "../waiting.js";

/** A task, or its reference: its `ref`, or `key:` and its key. */
export type TaskRef<R = unknown> = string | { readonly ref: string; readonly result?: R };

/** Which tasks a search finds; all that is given must match. */
export interface Search {
  readonly queue?: string | undefined;
  readonly state?: string | undefined;
  readonly phase?: string | undefined;
  readonly kind?: string | undefined;
  /** `key=value`. */
  readonly label?: string | undefined;
  readonly dueAfter?: Instant | undefined;
  readonly dueBefore?: Instant | undefined;
  readonly sort?: string | undefined;
  /** Of a page. */
  readonly limit?: number | undefined;
}

/** What a reschedule changes. */
export interface Reschedule {
  readonly delay?: Duration | undefined;
  readonly at?: Instant | undefined;
  readonly priority?: number | undefined;
  readonly payload?: unknown;
  readonly queue?: string | undefined;
  readonly maxAttempts?: number | undefined;
  readonly retry?: RetryPolicy | undefined;
  readonly timeout?: Duration | undefined;
}

/** How long to wait for the end of something. */
export interface WaitOptions {
  /** `WaitTimeout` after this long; 30 s for tasks and workflows, 60 s for bulk operations. */
  readonly timeout?: Duration | undefined;
  /** Ends the wait with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** A part of 10,000 tasks may take so much longer than other calls. */
const BATCH_WAITS_MS = 50_000;
/** One call of `wait` lasts at most so long, so that no proxy takes the connection for a dead one. */
const WAIT_MAX_MS = 20_000;
/** Between two calls of `wait`. */
const PAUSE_MS = 100;

/** Calls about tasks; a part of `Client`. */
export class Tasks {
  constructor(protected readonly transport: Transport) {}

  /** Sends a call that was made by hand; the other methods use it. */
  send<T>(call: Call<T>): Promise<T> {
    return this.transport.send(call);
  }

  /**
   * Inserts a task. The answer's `outcome` says whether it is new.
   *
   * `await client.insert({ queue: "mail", kind: "welcome", payload: { to: "ada@example.org" }, delay: "1h" })`
   */
  async insert<R = unknown>(task: NewTask<R>): Promise<Task<R>> {
    const headers = needsKey(task) ? idempotencyKey() : {};
    const body = encode(newTaskFields(task));
    return this.send({ method: "POST", path: "/v1/tasks", read: taskOf<R>, repeat: "safe", body, headers });
  }

  /**
   * Inserts any number of tasks, in parts of up to 10,000. The results are in the order of the tasks; one that is refused
   * does not spoil the others.
   * @throws BatchError with the results so far.
   */
  async insertMany<R = unknown>(tasks: Iterable<NewTask<R>> | AsyncIterable<NewTask<R>>): Promise<BatchItem<R>[]> {
    const done: BatchItem[] = [];
    try {
      for await (const part of parts(tasks)) {
        done.push(...(await this.insertPart(part.tasks, part.isKeyed)));
      }
    } catch (error) {
      throw new BatchError(done, error);
    }
    return done as BatchItem<R>[];
  }

  private async insertPart(tasks: string[], isKeyed: boolean): Promise<BatchItem[]> {
    const results = await this.send({
      method: "POST",
      path: "/v1/tasks/batch",
      read: (raw) => (raw.results as JsonObject[]).map(batchItemOf),
      repeat: "safe",
      body: `{"tasks":[${tasks.join(",")}]}`,
      headers: isKeyed ? idempotencyKey() : {},
      waitsMs: BATCH_WAITS_MS,
    });
    if (results.length !== tasks.length) throw new Indeterminate(`${results.length} results for ${tasks.length} tasks`);
    return results;
  }

  /** One task, with its history. */
  async get<R = unknown>(task: TaskRef<R>): Promise<Task<R>> {
    return this.send(get(taskPath(task), taskOf<R>));
  }

  /** The tasks of a caller's id or key: all versions, or the one that is named. */
  async find(by: {
    taskId?: number | bigint | string;
    key?: string;
    taskVersion?: number | bigint;
  }): Promise<Task[]> {
    const query = { task_id: by.taskId, key: by.key, task_version: by.taskVersion };
    return (await this.send(get("/v1/tasks", pageOf<Task>(taskOf), query))).items;
  }

  /** A page of the tasks that match. */
  async search(search: Search & { cursor?: string | undefined } = {}): Promise<Page<Task>> {
    const { dueAfter, dueBefore, ...rest } = search;
    const query = {
      ...rest,
      due_after: dueAfter === undefined ? undefined : instantText(dueAfter),
      due_before: dueBefore === undefined ? undefined : instantText(dueBefore),
    };
    return this.send(get("/v1/tasks", pageOf<Task>(taskOf), query));
  }

  /** All tasks that match, page by page: `for await (const task of client.iterate({ queue: "mail" }))`. */
  async *iterate(search: Search = {}): AsyncGenerator<Task> {
    let cursor: string | undefined;
    do {
      const page = await this.search({ ...search, cursor });
      yield* page.items;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }

  /** Waits until a task is over. The task is not affected: after a `WaitTimeout` it continues. */
  async wait<R = unknown>(task: TaskRef<R>, options: WaitOptions = {}): Promise<Task<R>> {
    const limitMs = toMs(options.timeout ?? "30s");
    const until = performance.now() + limitMs;
    for (;;) {
      const leftMs = Math.max(0, Math.ceil(until - performance.now()));
      const last = await this.getAtEnd<R>(task, Math.min(leftMs, WAIT_MAX_MS), options.signal);
      if (isFinished(last)) return last;
      if (performance.now() >= until) throw timeoutOf(`task ${last.ref} is ${last.state}`, limitMs);
      // A server that stops answers at once.
      await sleep(PAUSE_MS, options.signal);
    }
  }

  /** One task, when it has ended, or after so long. */
  private async getAtEnd<R>(task: TaskRef<R>, waitsMs: number, signal: AbortSignal | undefined): Promise<Task<R>> {
    try {
      return await this.send({ ...get(taskPath(task), taskOf<R>, { wait_ms: waitsMs }), waitsMs, signal });
    } catch (error) {
      throw signal?.aborted ? signal.reason : error;
    }
  }

  /**
   * Withdraws a task: `cancelled`. One that has fired is refused (`AlreadyFired`), unless it should be stopped: then it is
   * `cancelled`, or `stop_requested` of the executor that runs it.
   */
  async cancel(task: TaskRef, options: { stopIfFired?: boolean } = {}): Promise<"cancelled" | "stop_requested"> {
    return this.act(task, "cancel", options.stopIfFired ? { stop_if_fired: true } : undefined);
  }

  /** Changes a task that has not fired; `AlreadyFired` otherwise. */
  async reschedule(task: TaskRef, change: Reschedule): Promise<Task> {
    if (change.delay !== undefined && change.at !== undefined) {
      throw new ConfigurationError("a task has a delay or an instant (at), not both");
    }
    const body = present({
      delay_ms: optionalMs(change.delay),
      ...instantFields("execute_at", change.at),
      priority: change.priority,
      queue: change.queue,
      max_attempts: change.maxAttempts,
      retry: change.retry,
      timeout_ms: optionalMs(change.timeout),
      ...contentFields("payload", change.payload),
    });
    // A delay counts from the server's now: sent twice it is not the same change.
    const repeat = change.delay === undefined ? "safe" : "if_not_done";
    return this.send({ method: "PATCH", path: taskPath(task), read: taskOf, repeat, body: encode(body) });
  }

  /** Makes a task due now. */
  async runNow(task: TaskRef): Promise<string> {
    return this.act(task, "run-now");
  }

  /** Gives a dead task its attempts again. */
  async redrive(task: TaskRef): Promise<string> {
    return this.act(task, "redrive");
  }

  /** Puts a task that no executor has among the dead. */
  async bury(task: TaskRef, options: { reason?: string } = {}): Promise<string> {
    return this.act(task, "bury", present(options));
  }

  /** Deletes a finished task with its history and its payload. */
  async delete(task: TaskRef): Promise<string> {
    return this.send({ method: "DELETE", path: taskPath(task), read: outcomeOf });
  }

  /** Why a task has not run: its state, what it waits for, and when it is expected. Fields of the API. */
  async why(task: TaskRef): Promise<JsonObject> {
    return this.send(get(taskPath(task, "why"), (raw) => raw as JsonObject));
  }

  /** A page of the tasks that are dead; `error` is a part of their last error. */
  async deadLetters(
    search: { queue?: string; kind?: string; error?: string; limit?: number; cursor?: string } = {},
  ): Promise<Page<Task>> {
    return this.send(get("/v1/dead-letters", pageOf<Task>(taskOf), search));
  }

  private async act<T extends string>(task: TaskRef, action: string, body?: JsonObject): Promise<T> {
    return this.send(post(taskPath(task, action), (raw) => outcomeOf(raw) as T, body));
  }
}

/** Asks again, more and more rarely, until it is over. */
export async function waitFor<T>(
  ask: () => Promise<T>,
  isOver: (last: T) => boolean,
  name: (last: T) => string,
  options: WaitOptions,
  timeout: Duration = "30s",
): Promise<T> {
  const limitMs = toMs(options.timeout ?? timeout);
  const until = performance.now() + limitMs;
  for (let pauseMs = 20; ; pauseMs = Math.min(pauseMs * 2, 2_000)) {
    const last = await ask();
    if (isOver(last)) return last;
    const leftMs = until - performance.now();
    if (leftMs <= 0) throw timeoutOf(name(last), limitMs);
    await sleep(Math.min(pauseMs, leftMs), options.signal);
  }
}

function timeoutOf(what: string, limitMs: number): WaitTimeout {
  return new WaitTimeout(`${what}, not over, after ${limitMs} ms`);
}

function taskPath(task: TaskRef, ...more: string[]): string {
  return path("tasks", typeof task === "string" ? task : task.ref, ...more);
}

function outcomeOf(raw: JsonObject): string {
  return String(raw.outcome);
}
