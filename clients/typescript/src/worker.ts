/** The worker: leases tasks for its free slots, runs their handlers, extends their leases, reports their outcomes. No error of
 * a server or a handler ends it; only a stop or an operator's drain does. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import type { App } from "./app.js";
import { toMs, type Duration } from "./durations.js";
import { ConfigurationError } from "./errors.js";
import { execute, failed, handBack } from "./execute.js";
import type { LeasedTask } from "./models.js";
import { pause, within } from "./waiting.js";
import { beatOn, farewell, granted } from "./worker/heartbeat.js";
import { lease } from "./worker/leasing.js";
import { Reporter } from "./worker/reporting.js";
import { Slots, State, type Held, type Logger, type Options, type Report, type Worked } from "./worker/state.js";

/** How long the last outcomes may take to be reported, and a program to end by itself. */
const LAST_WORDS_MS = 5_000;

/** Warnings and errors go to the console. */
const QUIET: Logger = {
  debug: () => {},
  info: () => {},
  warn: (message) => console.warn(`punctual: ${message}`),
  error: (message) => console.error(`punctual: ${message}`),
};

/** Options of a worker. */
export interface WorkerOptions {
  /** Those that the application's tasks name, unless given; the concurrency bounds one of them. */
  readonly queues?: readonly (string | { readonly name: string; readonly concurrency?: number })[];
  /** Tasks that run at the same time; 16. */
  readonly concurrency?: number;
  /** How long a task stays this worker's without a heartbeat; 30 s. Heartbeats extend it. */
  readonly lease?: Duration;
  /** How long one call waits for tasks; 20 s. */
  readonly wait?: Duration;
  /** How long running handlers may take after a stop; 30 s. */
  readonly grace?: Duration;
  /** The name in histories; made of the process id unless given. */
  readonly executor?: string;
  /** Of the handlers, `major.minor.patch`; the application's unless given. */
  readonly version?: string;
  /** Of this machine; the system's name unless given. */
  readonly host?: string;
  readonly labels?: { readonly [key: string]: string };
  /** The most tasks that all workers of this name hold at one time. */
  readonly executorConcurrency?: number;
  /** Tasks of other kinds stay for other workers. */
  readonly onlyOwnKinds?: boolean;
  /** `server`, unless given: an attempt that was delivered twice runs once, for one call more per batch of leases. */
  readonly guard?: "server" | "none";
  /** Warnings and errors go to the console unless given. */
  readonly logger?: Logger;
}

/**
 * Runs an application's handlers for tasks of one or more queues.
 *
 * `await new Worker(app).run()` works until SIGTERM or SIGINT. `start` and `stop` are for programs that do more.
 */
export class Worker {
  private readonly options: Options;
  private readonly bounds: Map<string, number | undefined>;
  private readonly log: Logger;
  private readonly attempts = new Set<Promise<void>>();
  /** Handlers that have not returned, reported or not. */
  private running = 0;
  private state: State | undefined;
  private serving: Promise<Worked> | undefined;

  constructor(
    readonly app: App,
    options: WorkerOptions = {},
  ) {
    const queues = options.queues ?? app.queues;
    this.bounds = new Map(queues.map((each) => (typeof each === "string" ? [each, undefined] : [each.name, each.concurrency])));
    this.log = options.logger ?? QUIET;
    this.options = {
      executor: options.executor ?? `worker-${process.pid}-${randomBytes(2).toString("hex")}`,
      concurrency: options.concurrency ?? 16,
      leaseMs: toMs(options.lease ?? "30s"),
      waitMs: toMs(options.wait ?? "20s"),
      graceMs: toMs(options.grace ?? "30s"),
      version: options.version ?? app.version,
      host: options.host ?? (hostname().slice(0, 253) || undefined),
      executorConcurrency: options.executorConcurrency,
      labels: options.labels,
      onlyOwnKinds: options.onlyOwnKinds ?? false,
      guard: options.guard ?? "server",
    };
    check(app, this.options, this.bounds);
  }

  /** In the history of tasks. */
  get name(): string {
    return this.options.executor;
  }

  /**
   * Works until SIGTERM, SIGINT, `stop` or a drain: then no new leases, running handlers get the grace period, and the rest
   * is handed back. A second signal ends the process at once. If handlers still run that were handed back, the process ends
   * 5 s after this, because they would keep it alive.
   */
  async run(): Promise<Worked> {
    let isSignalled = false;
    const onSignal = () => {
      isSignalled = true;
      leave();
      this.state?.shutDown();
    };
    const leave = () => {
      process.off("SIGTERM", onSignal);
      process.off("SIGINT", onSignal);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
    try {
      return await this.start().ended();
    } finally {
      leave();
      // Such a timer keeps no process alive; only what still runs does.
      if (isSignalled && this.running) setTimeout(() => process.exit(), LAST_WORDS_MS).unref();
    }
  }

  /** Begins to work, beside the rest of the program. */
  start(): this {
    if (this.serving) throw new ConfigurationError("a worker works once: make another one");
    const [{ app }, { concurrency }] = [this, this.options];
    const slots = new Slots(concurrency, new Map(this.bounds));
    this.state = new State(app, app.client, this.options, [...this.bounds.keys()], slots, this.log);
    this.serving = this.serve(this.state);
    // An error is the caller's who waits for the end.
    this.serving.catch(() => {});
    return this;
  }

  /** Ends in order, as `run` says, and answers what was done. */
  async stop(): Promise<Worked> {
    this.state?.shutDown();
    return this.ended();
  }

  /** When it has ended: by `stop`, or by an operator's drain. */
  async ended(): Promise<Worked> {
    if (!this.serving) throw new ConfigurationError("the worker was not started");
    return this.serving;
  }

  private async serve(state: State): Promise<Worked> {
    const reporter = new Reporter(state);
    const reporting = reporter.run();
    const endOfBeats = new AbortController();
    const beating = beatOn(state, endOfBeats.signal);
    // Without reports or heartbeats no work: it ends then, with the error.
    for (const service of [reporting, beating]) service.catch(() => state.shutDown());
    this.log.info(`${this.name} works: queues ${state.queues.join(", ")}`);
    try {
      await lease(state, (tasks) => this.begin(state, reporter, tasks));
      await this.windDown(state, reporter, reporting);
    } finally {
      endOfBeats.abort();
    }
    await beating;
    await farewell(state);
    this.log.info(`${this.name} has ended: ${JSON.stringify(state.worked)}`);
    return state.worked;
  }

  /** Begins what the guard grants. */
  private async begin(state: State, reporter: Reporter, leased: LeasedTask[]): Promise<void> {
    const tasks = this.options.guard === "server" ? await granted(state, leased) : leased;
    for (const task of tasks) {
      const held = state.hold(task);
      if (state.slots.take(task.queue)) {
        const attempt = this.attempt(state, held).then((report) => {
          this.attempts.delete(attempt);
          if (report) reporter.add(report);
        });
        this.attempts.add(attempt);
      } else {
        // More than was requested.
        reporter.add({ outcome: handBack(task), held, isHandedBack: true });
      }
    }
  }

  /** Runs the handler until it ends, its time is over, its lease is lost, or the worker must go. Exactly one report follows,
   * or none if the lease was lost. The slot is free when the handler has returned. */
  private async attempt(state: State, held: Held): Promise<Report | undefined> {
    const { task, control } = held;
    this.running += 1;
    const handled = execute(this.app, task, control).finally(() => {
      this.running -= 1;
      state.slots.release(task.queue);
    });
    const end = new AbortController();
    const timeout = task.timeoutMs === undefined ? [] : [pause(task.timeoutMs, end.signal).then(() => "timeout" as const)];
    const first = await Promise.race([handled, held.gone.promise, ...timeout]);
    end.abort();
    if (held.isLost) {
      control.stop("lost");
      state.held.delete(held);
      state.worked.lost += 1;
      this.log.warn(`the lease of ${task.ref} was lost while it ran`);
      return undefined;
    }
    let outcome = typeof first === "object" ? first : handBack(task);
    if (first === "timeout") {
      outcome = failed(task, `ran longer than its timeout of ${(task.timeoutMs ?? 0) / 1_000} s`);
    }
    if (typeof first === "string") control.stop(first);
    return { outcome: { ...outcome, log: control.takeNews().log }, held, isHandedBack: first === "shutdown" };
  }

  /** Lets handlers finish, hands back what is left, and reports all of it. */
  private async windDown(state: State, reporter: Reporter, reporting: Promise<void>): Promise<void> {
    this.log.info(`${this.name} takes no new tasks; ${this.attempts.size} still run`);
    const finished = Promise.all(this.attempts);
    if (!state.shutdown.aborted) {
      // Drained: there is time.
      const shutdown = new Promise<void>((resolve) => state.shutdown.addEventListener("abort", () => resolve()));
      await Promise.race([finished, shutdown]);
    }
    await within(this.options.graceMs, finished);
    for (const held of state.held) held.leave("shutdown");
    await finished;
    reporter.close();
    const isReported = await within(LAST_WORDS_MS, reporting.then(() => true));
    if (!isReported) this.log.error("the last outcomes were not all reported; tasks without one run again");
    state.worked.unreported += state.held.size;
  }
}

function check(app: App, options: Options, bounds: Map<string, number | undefined>): void {
  const refuse = (isWrong: boolean, why: string) => {
    if (isWrong) throw new ConfigurationError(why);
  };
  const counts = [options.concurrency, ...bounds.values()].filter((count) => count !== undefined);
  refuse(bounds.size === 0, "a worker needs at least one queue");
  refuse(!app.hasHandlers, "a worker needs at least one handler: app.task(…)");
  refuse(options.onlyOwnKinds && !app.kinds.length, "a worker with a handler for any kind takes tasks of any kind");
  refuse(counts.some((count) => !Number.isInteger(count) || count < 1), "concurrency must be at least 1");
  refuse(options.leaseMs < 100 || options.leaseMs > 86_400_000, "a lease lasts from 100 ms to a day");
  refuse(options.waitMs > 60_000, "a worker waits for tasks at most 60 s at a time");
}
