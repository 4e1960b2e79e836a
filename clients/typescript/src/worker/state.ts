/** What the services of a worker share: its options, the leases in its hands, its slots and its counts. */
import type { App } from "../app.js";
import type { Client, Outcome } from "../client.js";
import { Control, type StopReason } from "../context.js";
import { present, type JsonObject } from "../json.js";
import type { LeasedTask } from "../models.js";
import { Latch } from "../waiting.js";

const LEASE_MAX = 10_000;

/** A worker's counts, from its start to its end. */
export interface Worked {
  succeeded: number;
  failed: number;
  snoozed: number;
  rejected: number;
  /** Handed back unfinished at shutdown. */
  handedBack: number;
  /** Leases that ended while a handler ran. */
  lost: number;
  /** Left to another worker, which had begun the same attempt. */
  guarded: number;
  /** Outcomes that were too late to count. */
  stale: number;
  /** Outcomes that could not be reported before their lease was long over, or before the end. */
  unreported: number;
}

/** Where a worker says what happens. `console` is one. */
export interface Logger {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** Settings of a worker. */
export interface Options {
  readonly executor: string;
  readonly concurrency: number;
  readonly leaseMs: number;
  readonly waitMs: number;
  readonly graceMs: number;
  readonly version: string | undefined;
  readonly host: string | undefined;
  readonly executorConcurrency: number | undefined;
  readonly labels: { readonly [key: string]: string } | undefined;
  readonly onlyOwnKinds: boolean;
  readonly guard: "server" | "none";
}

/** A lease, from the answer to the receipt of its outcome. Heartbeats extend exactly these. */
export class Held {
  readonly control = new Control();
  /** Set when its handler must end. */
  readonly gone = new Latch<StopReason>();
  isLost = false;

  constructor(
    readonly task: LeasedTask,
    /** By the monotonic clock, so that the server's wall clock may differ. */
    public until: number,
  ) {}

  leave(why: "lost" | "shutdown"): void {
    this.isLost ||= why === "lost";
    this.gone.set(why);
  }
}

/** An outcome on its way. */
export interface Report {
  readonly outcome: Outcome;
  readonly held: Held;
  readonly isHandedBack: boolean;
}

/** Tasks that run at the same time: a bound for the worker, and one for each of its queues. Leases are requested only for
 * free slots, so that no task waits in a worker that cannot run it while another could. */
export class Slots {
  private changed = new Latch();

  constructor(
    private free: number,
    private readonly ofQueues: Map<string, number | undefined>,
  ) {}

  private freeOf(queue: string): number {
    return Math.min(this.free, this.ofQueues.get(queue) ?? this.free, LEASE_MAX);
  }

  /** False: the server sent more than was requested. */
  take(queue: string): boolean {
    if (!this.ofQueues.has(queue) || this.freeOf(queue) < 1) return false;
    this.add(queue, -1);
    return true;
  }

  release(queue: string): void {
    this.add(queue, 1);
    this.changed.set();
  }

  private add(queue: string, count: number): void {
    this.free += count;
    const most = this.ofQueues.get(queue);
    if (most !== undefined) this.ofQueues.set(queue, most + count);
  }

  /** The free slots of those queues that have some; waits until one has. */
  async of(queues: readonly string[], stop: AbortSignal): Promise<Map<string, number>> {
    for (;;) {
      const free = queues.map((queue): [string, number] => [queue, this.freeOf(queue)]).filter(([, count]) => count > 0);
      if (free.length || stop.aborted) return new Map(free);
      this.changed = new Latch();
      const onStop = () => this.changed.set();
      stop.addEventListener("abort", onStop, { once: true });
      await this.changed.promise;
      stop.removeEventListener("abort", onStop);
    }
  }
}

/** Shared by the services. */
export class State {
  readonly held = new Set<Held>();
  readonly worked: Worked = {
    succeeded: 0,
    failed: 0,
    snoozed: 0,
    rejected: 0,
    handedBack: 0,
    lost: 0,
    guarded: 0,
    stale: 0,
    unreported: 0,
  };
  private readonly stopping = new AbortController();
  private readonly shuttingDown = new AbortController();
  private wish: string | undefined;

  constructor(
    readonly app: App,
    readonly client: Client,
    readonly options: Options,
    readonly queues: readonly string[],
    readonly slots: Slots,
    readonly log: Logger,
  ) {}

  /** No new leases: a shutdown, or a drain. */
  get stop(): AbortSignal {
    return this.stopping.signal;
  }

  /** The grace period runs. */
  get shutdown(): AbortSignal {
    return this.shuttingDown.signal;
  }

  shutDown(): void {
    this.shuttingDown.abort();
    this.stopping.abort();
  }

  hold(task: LeasedTask): Held {
    const held = new Held(task, performance.now() + this.options.leaseMs);
    this.held.add(held);
    return held;
  }

  /** Those that are still ours as far as is known. */
  alive(): Held[] {
    return [...this.held].filter((held) => !held.isLost);
  }

  /** A drain cannot be revoked: the worker is on its way out. */
  hearWish(wish: string | undefined): void {
    if (wish !== this.wish) this.log.info(`an operator wishes of ${this.options.executor}: ${wish ?? "to serve"}`);
    this.wish = wish;
    if (wish === "drain") this.stopping.abort();
  }

  /** What every call of the executor says of it. */
  declared(): JsonObject {
    const { executor, version, host, concurrency: capacity, labels } = this.options;
    return present({ executor, version, host, capacity, kinds: this.app.kinds, labels });
  }
}
