/** A task as its handler has it (`Context`), and its other end (`Control`), by which the worker asks the handler to stop and
 * reads its progress and its log lines. */
import { toMs, type Duration } from "./durations.js";
import { decode, encode, type JsonObject } from "./json.js";
import type { LeasedTask } from "./models.js";
import { fitting } from "./text.js";
import { sleep } from "./waiting.js";

const LOG_LINES_MAX = 100;
const LOG_TEXT_MAX_CHARS = 4_096;
const LOG_LEVEL_MAX_CHARS = 16;

/** Why a handler should end: `cancelled` by an operator or caller, `lost` lease, `timeout`, or `shutdown` of the worker. */
export type StopReason = "cancelled" | "lost" | "timeout" | "shutdown";

/** The reason of the handler's signal: what `fetch` and the like throw when the signal ends them. A handler that throws it
 * ends, and its task is handled as its worker decided (a cancelled one is reported as failed). */
export class Stopped extends Error {
  override readonly name = "Stopped";

  constructor(readonly reason: StopReason) {
    super(reason);
  }
}

/** The worker's end of a running task. */
export class Control {
  private readonly end = new AbortController();
  private progress: { readonly value: unknown } | undefined;
  private log: JsonObject[] = [];

  get signal(): AbortSignal {
    return this.end.signal;
  }

  /** Asks the handler to stop; the first reason stays. */
  stop(reason: StopReason): void {
    if (!this.end.signal.aborted) this.end.abort(new Stopped(reason));
  }

  /** As it is now; what cannot be written is the handler's error, and must not spoil a heartbeat. */
  setProgress(value: unknown): void {
    this.progress = { value: decode(encode(value)) };
  }

  /** Adds a log line; of too many, the oldest are dropped. */
  say(level: string, text: string): void {
    this.log.push({ text: fitting(text, LOG_TEXT_MAX_CHARS), ...(level ? { level: fitting(level, LOG_LEVEL_MAX_CHARS) } : {}) });
    if (this.log.length > LOG_LINES_MAX) this.log.shift();
  }

  /** What a heartbeat carries since the last one: progress and log lines, each once. */
  takeNews(): { progress?: unknown; log?: JsonObject[] } {
    const news = {
      ...(this.progress ? { progress: this.progress.value } : {}),
      ...(this.log.length ? { log: this.log } : {}),
    };
    this.progress = undefined;
    this.log = [];
    return news;
  }

  /** Puts back what was not sent, unless there is newer. */
  restoreNews(unsent: { progress?: unknown; log?: JsonObject[] }): void {
    if ("progress" in unsent) this.progress ??= { value: unsent.progress };
    this.log = [...(unsent.log ?? []), ...this.log].slice(-LOG_LINES_MAX);
  }
}

/** A running attempt; the second argument of a handler. */
export class Context {
  constructor(
    readonly task: LeasedTask,
    private readonly control: Control = new Control(),
  ) {}

  get ref(): string {
    return this.task.ref;
  }

  /** Number of this attempt, from 1. */
  get attempt(): number {
    return this.task.attempt;
  }

  get isLastAttempt(): boolean {
    return this.task.attempt >= this.task.maxAttempts;
  }

  /** Any JSON value, or bytes. */
  get payload(): unknown {
    return this.task.payload;
  }

  /**
   * Aborted when the handler should end; pass it on: `fetch(url, { signal: ctx.signal })`. The result of a handler that was
   * `cancelled` still counts.
   */
  get signal(): AbortSignal {
    return this.control.signal;
  }

  /** Why the handler should end; `undefined` while it should not. */
  get stopReason(): StopReason | undefined {
    const { reason } = this.signal;
    return reason instanceof Stopped ? reason.reason : undefined;
  }

  /** Sets the task's progress, any JSON value; the newest is sent with the next heartbeat. */
  progress(value: unknown): void {
    this.control.setProgress(value);
  }

  /** Adds a log line that is kept with the task (`punctual task get`, console). */
  log(text: string, level = "info"): void {
    this.control.say(level, text);
  }

  /** Sleeps, and throws `Stopped` when the handler should end before. */
  async sleep(duration: Duration): Promise<void> {
    await sleep(toMs(duration), this.signal);
  }

  /** Throws `Stopped` if the handler should end. */
  throwIfStopping(): void {
    this.signal.throwIfAborted();
  }
}
