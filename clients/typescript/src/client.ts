/** The client: calls a Punctual server, and retries where that is safe. */
import { get, path, post } from "./call.js";
import { Bulk, Executors, Queues } from "./client/operations.js";
import { Schedules } from "./client/schedules.js";
import { Tasks } from "./client/tasks.js";
import { Workflows } from "./client/workflows.js";
import { contentFields, encode, present, type JsonObject } from "./json.js";
import { leasedTaskOf, type LeasedTask } from "./models.js";
import { settings, type ClientOptions, type Settings } from "./settings.js";
import { Transport } from "./transport.js";

/** The report about one attempt. */
export interface Outcome {
  readonly ref: string;
  /** Of the lease. */
  readonly token: string;
  readonly outcome: "succeeded" | "failed" | "snooze" | "reject";
  readonly statusMsg?: string | undefined;
  /** Any JSON value, or bytes. */
  readonly result?: unknown;
  readonly retryAfterMs?: number | undefined;
  readonly log?: readonly JsonObject[] | undefined;
}

/** What the server says to one outcome. `stale`: it came too late, and changes nothing. */
export interface Receipt {
  readonly ref: string;
  readonly status: "accepted" | "accepted_for_later" | "stale" | "invalid" | (string & {});
  readonly error?: { readonly detail?: string };
}

/** Tasks, and the executor's desired state: `quiet`, `drain`, or none to serve. */
export interface LeaseAnswer {
  readonly tasks: LeasedTask[];
  readonly wish: string | undefined;
}

/** News about one lease, with the fields of the API. */
export interface LeaseNews {
  readonly ref: string;
  readonly lost?: boolean;
  readonly unavailable?: boolean;
  readonly cancel_requested?: boolean;
  readonly has_begun?: boolean;
}

/** The answer to a heartbeat, in the order of its leases. */
export interface HeartbeatAnswer {
  readonly leases: LeaseNews[];
  readonly wish?: string;
}

/**
 * Calls a Punctual server. A call that may have happened is sent again only if the server recognizes it. Every error is a
 * `PunctualError`; `mayHaveHappened` says whether the call can have had its effect. There is nothing to close.
 */
export class Client extends Tasks {
  readonly settings: Settings;
  readonly queues: Queues;
  readonly schedules: Schedules;
  readonly workflows: Workflows;
  readonly bulk: Bulk;
  readonly executors: Executors;

  constructor(options: ClientOptions = {}) {
    const transport = new Transport(settings(options));
    super(transport);
    this.settings = transport.settings;
    this.queues = new Queues(transport);
    this.schedules = new Schedules(transport);
    this.workflows = new Workflows(transport);
    this.bulk = new Bulk(transport);
    this.executors = new Executors(transport);
  }

  /** Whether the server answers, and takes tasks; an error otherwise. */
  async ready(): Promise<boolean> {
    return this.send({ method: "GET", path: "/readyz", read: () => true, repeat: "never", isText: true });
  }

  /** Rates, lateness and backlog of the whole cluster. Fields of the API. */
  async stats(): Promise<JsonObject> {
    return this.send(get("/v1/stats", (raw) => raw as JsonObject));
  }

  // The calls of an executor: each is sent once, because the meaning of a failure differs from call to call.

  /**
   * Waits for tasks of a queue, or of the `queues` in the request (fields of the API). Most programs use `Worker` instead.
   * After an `Indeterminate` error tasks may be leased that no executor has; they come again.
   */
  async lease(request: JsonObject, options: { queue?: string; signal?: AbortSignal } = {}): Promise<LeaseAnswer> {
    return this.send({
      method: "POST",
      path: options.queue === undefined ? "/v1/lease" : path("queues", options.queue, "lease"),
      read: (raw) => ({ tasks: (raw.tasks as JsonObject[]).map(leasedTaskOf), wish: raw.wish }),
      repeat: "never",
      body: encode(request),
      waitsMs: Number(request.wait_ms ?? 0),
      signal: options.signal,
    });
  }

  /** Extends leases, and learns which were lost or should stop. */
  async heartbeat(request: JsonObject, options: { signal?: AbortSignal } = {}): Promise<HeartbeatAnswer> {
    const { signal } = options;
    return this.send({ ...post("/v1/heartbeats", (raw) => raw as HeartbeatAnswer, request, "never"), signal });
  }

  /** Reports outcomes; the receipts are in their order. Sending them again is safe: a lease accepts one. */
  async report(outcomes: readonly Outcome[], options: { executor?: string } = {}): Promise<Receipt[]> {
    const read = (raw: { results: Receipt[] }) => {
      const { length } = raw.results;
      if (length !== outcomes.length) throw new TypeError(`${length} receipts for ${outcomes.length} outcomes`);
      return raw.results;
    };
    const body = present({ outcomes: outcomes.map(outcomeFields), executor: options.executor });
    return this.send(post("/v1/outcomes", read, body, "never"));
  }
}

/** One outcome of a report. */
export function outcomeFields(outcome: Outcome): JsonObject {
  return present({
    ref: outcome.ref,
    token: outcome.token,
    outcome: outcome.outcome,
    status_msg: outcome.statusMsg,
    retry_after_ms: outcome.retryAfterMs,
    log: outcome.log?.length ? outcome.log : undefined,
    ...contentFields("result", outcome.result),
  });
}
