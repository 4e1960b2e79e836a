/** One call of the API, before it is sent: what it says, and whether it may be said twice. Knows no transport. */
import { randomUUID } from "node:crypto";
import { ConfigurationError, Indeterminate, mayPass, type PunctualError } from "./errors.js";
import { encode } from "./json.js";

/**
 * Whether a call with an unknown result may be sent again. `safe`: the server recognizes it, or the call changes nothing.
 * `if_not_done`: only after an answer that nothing was done. `never`: the caller has a patience of its own.
 */
export type Repeat = "safe" | "if_not_done" | "never";

/** Whether a call may be sent again after this error. */
export function allowsRepeat(repeat: Repeat, error: PunctualError): boolean {
  if (repeat === "never" || !mayPass(error)) return false;
  return repeat === "safe" || !(error instanceof Indeterminate);
}

/** A request, and how its answer is read. For calls that the client has no method for: `client.send(call)`. */
export interface Call<T> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** From `/v1` on; `path` makes one. */
  readonly path: string;
  /** Takes the document of the answer, with the fields of the API. */
  readonly read: (document: any) => T;
  /** Unless set: `safe` for GET, else `if_not_done`. */
  readonly repeat?: Repeat | undefined;
  /** `undefined` is left out. */
  readonly query?: { readonly [name: string]: string | number | bigint | boolean | undefined } | undefined;
  /** A JSON document. */
  readonly body?: string | undefined;
  readonly headers?: { readonly [name: string]: string } | undefined;
  /** Milliseconds that it may take longer than other calls: a long poll, a large batch. */
  readonly waitsMs?: number | undefined;
  /** Whether the answer is a text. */
  readonly isText?: boolean | undefined;
  /** Ends the call: the error is `Indeterminate`. */
  readonly signal?: AbortSignal | undefined;
}

/** A call that changes nothing. */
export function get<T>(path: string, read: (document: any) => T, query: Call<T>["query"] = {}): Call<T> {
  return { method: "GET", path, read, query };
}

/** A call with a body, or without. */
export function post<T>(path: string, read: (document: any) => T, body?: unknown, repeat?: Repeat): Call<T> {
  return { method: "POST", path, read, repeat, body: body === undefined ? undefined : encode(body) };
}

/** Path and query. */
export function target(call: Call<unknown>): string {
  const given = Object.entries(call.query ?? {}).filter(([, value]) => value !== undefined);
  const pairs = given.map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`);
  return pairs.length ? `${call.path}?${pairs.join("&")}` : call.path;
}

/** `/v1/` and these segments, percent-encoded: a name cannot leave its place in the path. */
export function path(...segments: (string | number)[]): string {
  return `/v1/${segments.map((segment) => encodeSegment(String(segment))).join("/")}`;
}

function encodeSegment(text: string): string {
  // Every URL parser reads such a segment as a step in the path, whether it is encoded or not.
  if (text === "." || text === "..") throw new ConfigurationError(`"${text}" cannot be a name in a URL`);
  return encodeURIComponent(text).replaceAll("%3A", ":");
}

/** A header by which the server recognizes a call that comes twice. */
export function idempotencyKey(): { [name: string]: string } {
  return { "Idempotency-Key": randomUUID() };
}

/** Only if it is at this revision. */
export function ifMatch(revision: number | string | undefined): { [name: string]: string } {
  return revision === undefined ? {} : { "If-Match": `"${revision}"` };
}

/** Waits between tries: exponential, with jitter, so that the clients of a restarted server do not return in step. Knows
 * no clock; the caller sleeps. */
export class Backoff {
  tries = 0;

  constructor(
    private readonly firstMs: number,
    private readonly longestMs: number,
  ) {}

  /** Between half of the full wait and all of it, in milliseconds. */
  next(): number {
    const full = Math.min(this.firstMs * 2 ** Math.min(this.tries, 20), this.longestMs);
    this.tries += 1;
    return full * (0.5 + Math.random() / 2);
  }

  reset(): void {
    this.tries = 0;
  }
}
