/**
 * Errors between a client and the server. Their types answer the one important question after an error: may it have
 * happened nevertheless? Decide further by `code`, which the server never renames.
 */
import type { JsonObject } from "./json.js";

/** Any error of this package. */
export class PunctualError extends Error {
  override readonly name: string = "PunctualError";
  /** Whether the call may have had its effect in spite of the error. */
  readonly mayHaveHappened: boolean = false;
}

/** A client, task or worker is set up in a way that cannot work. Nothing was sent. */
export class ConfigurationError extends PunctualError {
  override readonly name: string = "ConfigurationError";
}

/** The request never reached the server. It did not happen. */
export class Unreachable extends PunctualError {
  override readonly name: string = "Unreachable";
}

/** The request was sent, and no answer has its result. It may have happened. */
export class Indeterminate extends PunctualError {
  override readonly name: string = "Indeterminate";
  override readonly mayHaveHappened: boolean = true;
  /** The server's problem document, if it sent one. */
  readonly problem: JsonObject;
  readonly status: number | undefined;

  constructor(message: string, options: { cause?: unknown; problem?: JsonObject; status?: number } = {}) {
    super(message, { cause: options.cause });
    this.problem = options.problem ?? {};
    this.status = options.status;
  }

  /** The server's code, if it sent one: `store.unavailable` for example. */
  get code(): string | undefined {
    return this.problem.code as string | undefined;
  }
}

/** A task or workflow was not over in time. It continues. */
export class WaitTimeout extends PunctualError {
  override readonly name: string = "WaitTimeout";
}

/** A field that is not valid. */
export interface FieldError {
  /** JSON pointer, `/tasks/3/queue` for example. */
  readonly pointer: string;
  readonly detail: string;
}

/** The server refused it. It did not happen. */
export class Refused extends PunctualError {
  override readonly name: string = "Refused";
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  /** Each field that is not valid. */
  readonly errors: readonly FieldError[];
  /** The page of the server about this code, with the way out: a path such as `/docs/errors/task.exists`. */
  readonly help: string;
  /** The task that is the obstacle, as the server has it (fields of the API). */
  readonly existing: JsonObject | undefined;
  /** Milliseconds after which the same call may succeed. */
  readonly retryAfterMs: number | undefined;

  constructor(
    readonly problem: JsonObject,
    readonly status: number,
  ) {
    const code = String(problem.code ?? "foreign");
    const title = String(problem.title ?? "");
    const detail = String(problem.detail ?? "");
    super(`${title} (${code}, ${status})${detail ? `: ${detail}` : ""}`);
    this.code = code;
    this.title = title;
    this.detail = detail;
    this.errors = Array.isArray(problem.errors) ? (problem.errors as FieldError[]) : [];
    this.help = String(problem.type ?? "");
    this.existing = problem.existing as JsonObject | undefined;
    this.retryAfterMs = problem.retry_after_ms === undefined ? undefined : Number(problem.retry_after_ms);
  }

  /** The first field that is not valid, as a JSON pointer. */
  get field(): string | undefined {
    return this.errors[0]?.pointer;
  }
}

/** The request is not valid; `errors` names each field. Sending it again cannot succeed. */
export class InvalidRequest extends Refused {
  override readonly name = "InvalidRequest";
}

/** No token, a bad one, or one that does not allow this. */
export class AccessDenied extends Refused {
  override readonly name = "AccessDenied";
}

/** No such task, queue, schedule, workflow … */
export class NotFound extends Refused {
  override readonly name = "NotFound";
}

/** The present state does not allow it. */
export class Conflict extends Refused {
  override readonly name: string = "Conflict";
}

/** `task.already_fired`: the change came too late. `cancel(ref, { stopIfFired: true })` asks it to stop. */
export class AlreadyFired extends Conflict {
  override readonly name = "AlreadyFired";
}

/** `task.exists`: see `existing`. */
export class TaskExists extends Conflict {
  override readonly name = "TaskExists";
}

/** `task.version_superseded`: a newer version of the task is known, see `existing`. */
export class VersionSuperseded extends Conflict {
  override readonly name = "VersionSuperseded";
}

/** `precondition.failed`: it has changed since it was read. Read it again, and decide again. */
export class PreconditionFailed extends Refused {
  override readonly name = "PreconditionFailed";
}

/** Refused for now (408, 429, a server that stops): the same call can succeed after `retryAfterMs`. */
export class Busy extends Refused {
  override readonly name: string = "Busy";
}

/** `queue.full`: as many tasks wait as its `maxWaiting` allows. */
export class QueueFull extends Busy {
  override readonly name = "QueueFull";
}

type RefusedClass = new (problem: JsonObject, status: number) => Refused;

const BY_CODE: Record<string, RefusedClass> = {
  "task.already_fired": AlreadyFired,
  "task.exists": TaskExists,
  "task.version_superseded": VersionSuperseded,
  "precondition.failed": PreconditionFailed,
  "queue.full": QueueFull,
  stopping: Busy,
  "connections.full": Busy,
  "idempotency.in_progress": Busy,
};
const BY_STATUS: Record<number, RefusedClass> = {
  400: InvalidRequest,
  401: AccessDenied,
  403: AccessDenied,
  404: NotFound,
  408: Busy,
  409: Conflict,
  412: PreconditionFailed,
  413: InvalidRequest,
  422: InvalidRequest,
  429: Busy,
};
const NOTHING_WAS_DONE = new Set(["stopping", "connections.full"]);

/** The error of an answer that is not 2xx. */
export function fromProblem(problem: JsonObject, status: number): PunctualError {
  const code = String(problem.code ?? "foreign");
  if (status >= 500 && !NOTHING_WAS_DONE.has(code)) {
    const said = problem.detail || problem.title || `status ${status}`;
    return new Indeterminate(`it is not known whether the server has done it: ${said}`, { problem, status });
  }
  return refusal(problem, status);
}

/** The error of a refusal; one item of a batch has no status of its own. */
export function refusal(problem: JsonObject, status = Number(problem.status ?? 400)): Refused {
  const kind = BY_CODE[String(problem.code)] ?? BY_STATUS[status] ?? Refused;
  return new kind(problem, status);
}

/** Whether the very same call can succeed later. */
export function mayPass(error: PunctualError): boolean {
  return error instanceof Unreachable || error instanceof Indeterminate || error instanceof Busy;
}
