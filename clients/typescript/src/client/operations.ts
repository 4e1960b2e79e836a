/** The calls about queues, bulk operations and executors: each group is a field of the client. */
import { get, ifMatch, path, post, type Call } from "../call.js";
import { encode, present, type JsonObject } from "../json.js";
import {
  bulkOf,
  executorOf,
  pageOf,
  queueOf,
  taskOf,
  wireNames,
  type BulkOperation,
  type Executor,
  type Page,
  type Queue,
  type Task,
} from "../models.js";
import type { RetryPolicy } from "../retry.js";
import type { Transport } from "../transport.js";
import { waitFor, type WaitOptions } from "./tasks.js";

/** Settings of a queue; the others of the API go by their names, in camelCase. `null` in a patch: the default. */
export interface QueueSettings {
  /** Tasks that run at the same time. */
  readonly concurrency?: number | null;
  /** The same for each concurrency key. */
  readonly keyConcurrency?: number | null;
  readonly maxWaiting?: number | null;
  readonly maxAttempts?: number | null;
  readonly retry?: RetryPolicy | null;
  readonly timeoutMs?: number | null;
  readonly weight?: number | null;
  readonly [setting: string]: unknown;
}

/** A page of a list. */
export interface PageOptions {
  readonly limit?: number;
  readonly cursor?: string;
}

/** Common to the groups of calls. */
export abstract class Group {
  constructor(private readonly transport: Transport) {}

  protected send<T>(call: Call<T>): Promise<T> {
    return this.transport.send(call);
  }
}

/** Queues: settings, contents, pause. */
export class Queues extends Group {
  /** Those that have tasks or settings. */
  async list(options: { prefix?: string; limit?: number } = {}): Promise<Page<Queue>> {
    return this.send(get("/v1/queues", pageOf(queueOf), options));
  }

  async get(queue: string): Promise<Queue> {
    return this.send(get(path("queues", queue), queueOf));
  }

  /** Sets all settings: omitted ones get their default. With a revision, only if it is the present one. */
  async put(queue: string, settings: QueueSettings, options: { revision?: number } = {}): Promise<Queue> {
    return this.change("PUT", queue, settings, options.revision);
  }

  /** Changes the settings that are named. */
  async patch(queue: string, settings: QueueSettings, options: { revision?: number } = {}): Promise<Queue> {
    return this.change("PATCH", queue, settings, options.revision);
  }

  private async change(method: "PUT" | "PATCH", queue: string, settings: QueueSettings, revision: number | undefined) {
    return this.send({
      method,
      path: path("queues", queue),
      read: queueOf,
      repeat: revision === undefined ? "safe" : "if_not_done",
      body: encode(wireNames(settings)),
      headers: ifMatch(revision),
    });
  }

  /** After this, no task of the queue starts at any engine. */
  async pause(queue: string, options: { reason?: string } = {}): Promise<Queue> {
    return this.send(post(path("queues", queue, "pause"), queueOf, present(options), "safe"));
  }

  async resume(queue: string): Promise<Queue> {
    return this.send(post(path("queues", queue, "resume"), queueOf, undefined, "safe"));
  }

  /** All settings get their defaults. */
  async reset(queue: string): Promise<Queue> {
    return this.send({ method: "DELETE", path: path("queues", queue), read: queueOf, repeat: "safe" });
  }

  /** Rates and lateness in the last hour, minute by minute. Fields of the API. */
  async stats(queue: string): Promise<JsonObject> {
    return this.send(get(path("queues", queue, "stats"), (raw) => raw as JsonObject));
  }
}

/** What a bulk operation does, and to which tasks. */
export interface NewBulk {
  readonly action: "cancel" | "reschedule" | "set_priority" | "run_now" | "redrive" | "bury" | "delete" | "export";
  /** As in `search`, with the fields of the API. */
  readonly filter?: JsonObject;
  /** Of the action, with the fields of the API. */
  readonly args?: JsonObject;
  /** Tasks a second. */
  readonly rate?: number;
  readonly reason?: string;
  /** Allows an empty filter. */
  readonly all?: boolean;
}

/** Bulk operations: preview, confirm, watch. */
export class Bulk extends Group {
  /** Counts matching tasks. Nothing else happens before it is confirmed. */
  async preview(operation: NewBulk): Promise<BulkOperation> {
    return this.send(post("/v1/bulk", bulkOf, present({ ...operation })));
  }

  /** Starts a previewed operation, if nothing has changed it since. */
  async confirm(operation: BulkOperation): Promise<BulkOperation> {
    const headers = ifMatch(`${operation.id}.${operation.revision}`);
    return this.send({ method: "POST", path: path("bulk", operation.id, "confirm"), read: bulkOf, repeat: "safe", headers });
  }

  async get(id: number): Promise<BulkOperation> {
    return this.send(get(path("bulk", id), bulkOf));
  }

  /** The newest first. */
  async list(options: PageOptions = {}): Promise<Page<BulkOperation>> {
    return this.send(get("/v1/bulk", pageOf(bulkOf), { ...options }));
  }

  /** Waits until an operation has ended. */
  async wait(id: number, options: WaitOptions = {}): Promise<BulkOperation> {
    const isOver = (last: BulkOperation) => ["done", "stopped"].includes(last.state);
    const name = (last: BulkOperation) => `bulk operation ${id} is ${last.state}`;
    return waitFor(() => this.get(id), isOver, name, options, "60s");
  }

  async pause(id: number): Promise<BulkOperation> {
    return this.send(post(path("bulk", id, "pause"), bulkOf, {}, "safe"));
  }

  async resume(id: number): Promise<BulkOperation> {
    return this.send(post(path("bulk", id, "resume"), bulkOf, undefined, "safe"));
  }

  /** Ends it permanently; completed changes remain. */
  async stop(id: number): Promise<BulkOperation> {
    return this.send(post(path("bulk", id, "stop"), bulkOf, {}, "safe"));
  }

  /** Of an export its result, of others the remaining tasks. */
  async tasks(id: number, options: PageOptions = {}): Promise<Page<Task>> {
    return this.send(get(path("bulk", id, "tasks"), pageOf<Task>(taskOf), { ...options }));
  }
}

/** Executors: who they are, and what an operator wants of them. */
export class Executors extends Group {
  async list(options: PageOptions = {}): Promise<Page<Executor>> {
    return this.send(get("/v1/executors", pageOf(executorOf), { ...options }));
  }

  async get(name: string): Promise<Executor> {
    return this.send(get(path("executors", name), executorOf));
  }

  /** No new tasks; it finishes its tasks, and ends. */
  async drain(name: string): Promise<Executor> {
    return this.wish(name, "drain");
  }

  /** No new tasks until it is resumed. */
  async quiet(name: string): Promise<Executor> {
    return this.wish(name, "quiet");
  }

  async resume(name: string): Promise<Executor> {
    return this.wish(name, "resume");
  }

  private async wish(name: string, wish: string): Promise<Executor> {
    return this.send(post(path("executors", name, wish), executorOf, undefined, "safe"));
  }
}
