/**
 * An engine whose time a test moves. The server keeps the machine's clock: instead of the clock, due tasks are moved. `advance`
 * goes from one instant to the next at which a task, a retry or a schedule is due, makes it due now (`run-now`), and runs its
 * handler. What follows only from the server's own clock does not move: deadlines, timeouts, retention, and the instants in
 * histories.
 */
import type { App } from "../app.js";
import type { Outcome } from "../client.js";
import { Control } from "../context.js";
import { toMs, type Duration } from "../durations.js";
import { NotFound, PunctualError, Refused } from "../errors.js";
import { execute } from "../execute.js";
import type { Schedule, Task } from "../models.js";
import { sleep } from "../waiting.js";
import { Server, type ServerOptions } from "./server.js";

/** Attempts at one instant; more is a handler that never lets go. */
const STEPS_MAX = 100_000;
/** How long the server may take for what it does by itself. */
const SETTLED_AFTER_MS = 30_000;
const LEASE_MS = 3_600_000;
const LEASE_QUEUES_MAX = 16;
/** The server begins the next nodes of a workflow a moment after an outcome. */
const WORKFLOW_WAIT_MS = 300;
const WAITING = ["scheduled", "retrying"];

/** `const engine = await Engine.start()`, `engine.work(app)`, then `await engine.advance("7d")`. */
export class Engine extends Server {
  private readonly queues = new Map<string, App>();
  private version: string | undefined;
  /** When time was moved, by the machine's clock; and by how much in all since then. */
  private readonly moves = [{ atMs: 0, byMs: 0 }];
  /** Of each schedule the instant up to which its runs were made. */
  private readonly madeUntil = new Map<string, number>();

  /** Starts one, empty. */
  static override async start(options: ServerOptions = {}): Promise<Engine> {
    const engine = new Engine(options);
    await engine.begin();
    return engine;
  }

  /** The engine's time: the machine's, and what it was moved by. */
  get now(): Date {
    return new Date(Date.now() + this.moves.at(-1)!.byMs);
  }

  /** Runs the tasks of an application, in the process of the test, whenever time is moved. The application inserts into this
   * engine from then on. */
  work(app: App, options: { queues?: readonly string[] } = {}): this {
    app.use(this.client);
    this.version ??= app.version;
    for (const queue of options.queues ?? app.queues) this.queues.set(queue, app);
    return this;
  }

  /** Moves time, and stops at each instant at which something is due. Answers how many attempts ran. */
  async advance(by: Duration): Promise<number> {
    const target = this.now.getTime() + toMs(by);
    let ran = await this.runDue();
    for (;;) {
      const dueMs = await this.nextDueMs();
      if (dueMs > target) {
        this.moveTo(target);
        return ran + (await this.fire());
      }
      this.moveTo(dueMs);
      ran += await this.fire();
    }
  }

  /** Runs what is due, without moving time. Answers how many attempts ran. */
  async runDue(): Promise<number> {
    for (let ran = 0; ; ) {
      const progressed = await this.runReady();
      ran += progressed;
      if (ran > STEPS_MAX) {
        throw new PunctualError(`${ran} attempts at one instant: does a handler snooze for no time at all?`);
      }
      if (!progressed) return ran;
    }
  }

  private moveTo(instantMs: number): void {
    const byMs = instantMs - Date.now();
    if (byMs > this.moves.at(-1)!.byMs) this.moves.push({ atMs: Date.now(), byMs });
  }

  /** By how much time had been moved when the machine's clock said this. */
  private movedUntil(machine: Date): number {
    return this.moves.filter(({ atMs }) => atMs <= machine.getTime()).at(-1)?.byMs ?? 0;
  }

  /** In the engine's time: its instant was set when time had been moved by less than now. */
  private dueMs(task: Task): number {
    return task.executeAt.getTime() + this.movedUntil(task.updatedAt);
  }

  private async *waiting(): AsyncGenerator<Task> {
    for (const state of WAITING) yield* this.client.iterate({ state, limit: 1_000 });
  }

  private async nextDueMs(): Promise<number> {
    let next = Infinity;
    for await (const task of this.waiting()) next = Math.min(next, this.dueMs(task));
    for (const schedule of await this.schedules()) {
      next = Math.min(next, (await this.instants(schedule))[0] ?? Infinity);
    }
    return next;
  }

  /** Makes due what is due by now, and runs it. */
  private async fire(): Promise<number> {
    const nowMs = this.now.getTime();
    const due: string[] = [];
    for await (const task of this.waiting()) if (this.dueMs(task) <= nowMs) due.push(task.ref);
    for (const schedule of await this.schedules()) due.push(...(await this.makeRuns(schedule, nowMs)));
    for (const ref of due) {
      try {
        await this.client.runNow(ref);
      } catch (error) {
        // It fired by itself, or was withdrawn.
        if (!(error instanceof Refused)) throw error;
      }
    }
    await this.waitUntilFired(due);
    return this.runDue();
  }

  private async waitUntilFired(refs: string[]): Promise<void> {
    const until = performance.now() + SETTLED_AFTER_MS;
    for (const ref of refs) {
      while (await this.isWaiting(ref)) {
        if (performance.now() > until) {
          throw new PunctualError(`task ${ref} did not fire: ${JSON.stringify(await this.client.why(ref))}`);
        }
        await sleep(2);
      }
    }
  }

  private async isWaiting(ref: string): Promise<boolean> {
    try {
      return WAITING.includes((await this.client.get(ref)).state);
    } catch (error) {
      if (error instanceof NotFound) return false;
      throw error;
    }
  }

  private async schedules(): Promise<Schedule[]> {
    const { items } = await this.client.schedules.list({ limit: 1_000 });
    return items.filter((schedule) => schedule.enabled && !schedule.pause);
  }

  /** Those whose runs were not made yet. */
  private async instants(schedule: Schedule): Promise<number[]> {
    const stored = schedule.updatedAt;
    const made = this.madeUntil.get(schedule.name) ?? stored.getTime() + this.movedUntil(stored);
    this.madeUntil.set(schedule.name, made);
    const coming = await this.client.schedules.nextRuns(schedule.name, 1_000);
    return coming.map((instant) => instant.getTime()).filter((instant) => instant > made);
  }

  /** Makes the runs up to now; those that the server made ahead are tasks already. */
  private async makeRuns(schedule: Schedule, nowMs: number): Promise<string[]> {
    const due = (await this.instants(schedule)).filter((instant) => instant <= nowMs);
    if (!due.length) return [];
    const runs = await this.client.schedules.runs(schedule.name, { limit: 1_000 });
    const ahead = new Set(runs.items.map((run) => run.at.getTime()));
    const refs: string[] = [];
    for (const instant of due) {
      this.madeUntil.set(schedule.name, instant);
      if (ahead.has(instant)) continue;
      const run = await this.client.schedules.run(schedule.name);
      if (run.taskRef) refs.push(run.taskRef);
    }
    return refs;
  }

  /** One call to the server for each sixteen queues, and the handlers of what it gave. */
  private async runReady(): Promise<number> {
    const names = [...this.queues.keys()].sort();
    let ran = 0;
    for (let first = 0; first < names.length; first += LEASE_QUEUES_MAX) {
      ran += await this.runReadyOf(names.slice(first, first + LEASE_QUEUES_MAX));
    }
    return ran;
  }

  private async runReadyOf(names: string[]): Promise<number> {
    const workflows = await this.client.workflows.list({ state: "running", limit: 1 });
    const { tasks } = await this.client.lease({
      queues: names.map((name) => ({ name })),
      max: 100,
      lease_ms: LEASE_MS,
      wait_ms: workflows.items.length ? WORKFLOW_WAIT_MS : 0,
      executor: "test",
      ...(this.version ? { version: this.version } : {}),
    });
    const outcomes: Outcome[] = [];
    for (const task of tasks) {
      const control = new Control();
      const outcome = await execute(this.queues.get(task.queue)!, task, control);
      outcomes.push({ ...outcome, log: control.takeNews().log });
    }
    if (outcomes.length) await this.client.report(outcomes, { executor: "test" });
    return outcomes.length;
  }
}
