/** One attempt: runs a handler, and says its outcome. Knows no leases and no servers, so that a worker and a test engine run
 * the same handlers the same way. */
import type { App } from "./app.js";
import type { Outcome } from "./client.js";
import { Context, Stopped, type Control } from "./context.js";
import { contentFields, encode } from "./json.js";
import type { LeasedTask } from "./models.js";
import { Reject, RetryLater, Snooze } from "./outcomes.js";
import { fitting } from "./text.js";

/** Of an outcome. */
export const STATUS_MSG_MAX_CHARS = 262_144;
const CAUSES_MAX = 5;
/** Frames of this package say nothing about the handler. */
const OWN_FILES = new URL(".", import.meta.url).href;

/** Runs an attempt to its outcome. Never rejects. */
export async function execute(app: App, task: LeasedTask, control: Control): Promise<Outcome> {
  const handler = app.handlerOf(task.kind);
  if (handler === undefined) return failed(task, `no handler for kind ${task.kind}`);
  try {
    return succeeded(task, await handler(new Context(task, control)));
  } catch (error) {
    return outcomeOf(task, error, control);
  }
}

function succeeded(task: LeasedTask, result: unknown): Outcome {
  try {
    encode(contentFields("result", result));
  } catch (error) {
    throw new Reject(`the result cannot be written as JSON: ${(error as Error).message}`);
  }
  return { ref: task.ref, token: task.token, outcome: "succeeded", result };
}

/** A failed attempt. */
export function failed(task: LeasedTask, message: string): Outcome {
  const statusMsg = fitting(message, STATUS_MSG_MAX_CHARS);
  return { ref: task.ref, token: task.token, outcome: "failed", statusMsg };
}

/** Due again immediately, and the attempt does not count. */
export function handBack(task: LeasedTask): Outcome {
  return { ref: task.ref, token: task.token, outcome: "snooze", retryAfterMs: 0 };
}

function outcomeOf(task: LeasedTask, error: unknown, control: Control): Outcome {
  if (error instanceof Reject) return { ...failed(task, error.message), outcome: "reject" };
  if (error instanceof Snooze) return { ...handBack(task), retryAfterMs: error.afterMs };
  if (error instanceof RetryLater) return { ...failed(task, error.message), retryAfterMs: error.afterMs };
  const stopped = stopOf(error, control);
  return failed(task, stopped ? `stopped by its handler: ${stopped.reason}` : described(error));
}

/** The wish to stop that ended the handler: thrown as it is, or as the error of a call that got the signal. */
function stopOf(error: unknown, control: Control): Stopped | undefined {
  if (error instanceof Stopped) return error;
  const { reason } = control.signal;
  const isAbort = error instanceof Error && error.name === "AbortError";
  return isAbort && reason instanceof Stopped ? reason : undefined;
}

/** The error with its causes, and where each arose. */
function described(error: unknown): string {
  const parts: string[] = [];
  let each = error;
  for (let count = 0; each !== undefined && each !== null && count < CAUSES_MAX; count += 1) {
    parts.push(each instanceof Error ? oneDescribed(each) : String(each));
    each = each instanceof Error ? each.cause : undefined;
  }
  return parts.join("\ncaused by: ");
}

function oneDescribed(error: Error): string {
  const frames = String(error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  const own = frames.filter((line) => !line.includes(OWN_FILES) && !line.includes("node:internal"));
  return [`${error.name}: ${error.message}`, ...own].join("\n");
}
