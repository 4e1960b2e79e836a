/** Reporting: gathers outcomes briefly and sends them together. No outcome is dropped while it can still count: the server
 * may be unavailable for longer than a lease, and accept it nevertheless afterwards. */
import { Backoff } from "../call.js";
import type { Receipt } from "../client.js";
import { Refused } from "../errors.js";
import { STATUS_MSG_MAX_CHARS } from "../execute.js";
import { fitting } from "../text.js";
import { Latch, sleep, within } from "../waiting.js";
import type { Report, State } from "./state.js";

const REPORT_MAX = 500;
/** How long the first outcome of a report waits for others. */
const GATHER_MS = 2;
/** A lease that ended this many lease times ago without a word from the server is hopeless. */
const HOPELESS_AFTER_LEASES = 10;
const MARK = "the server refused the outcome: ";
const COUNTERS = { succeeded: "succeeded", failed: "failed", snooze: "snoozed", reject: "rejected" } as const;
/** The server does not understand what it got. */
const NOT_UNDERSTOOD = [400, 413, 422];

/** The way of outcomes from handlers to the server. */
export class Reporter {
  private waiting: Report[] = [];
  private changed = new Latch();
  private isOpen = true;

  constructor(private readonly state: State) {}

  add(report: Report): void {
    this.waiting.push(report);
    this.changed.set();
  }

  /** No further outcome comes: `run` ends when all are delivered. */
  close(): void {
    this.isOpen = false;
    this.changed.set();
  }

  /** An outcome that the server could not accept is sent again separately: the others do not wait for it. */
  async run(): Promise<void> {
    const backoff = new Backoff(50, 2_000);
    let left: Report[] = [];
    let againAt = performance.now();
    while (this.isOpen || this.waiting.length || left.length) {
      const batch = await this.next(left.length ? againAt : undefined);
      if (!batch.length) batch.push(...left.splice(0, REPORT_MAX));
      const unavailable = await this.deliver(batch);
      if (unavailable.length) {
        againAt = performance.now() + backoff.next();
        left.push(...unavailable);
      } else if (!left.length) {
        backoff.reset();
      }
    }
  }

  /** New outcomes, as they come within a moment; none at `until`, or if none will come. */
  private async next(until: number | undefined): Promise<Report[]> {
    if (!this.waiting.length && this.isOpen) {
      const { promise } = this.changed;
      await (until === undefined ? promise : within(Math.max(0, until - performance.now()), promise));
    }
    if (!this.waiting.length && until !== undefined) await sleep(Math.max(0, until - performance.now()));
    if (this.waiting.length) await sleep(GATHER_MS);
    this.changed = new Latch();
    const batch = this.waiting.splice(0, REPORT_MAX);
    if (this.waiting.length || !this.isOpen) this.changed.set();
    return batch;
  }

  /** Sends until each outcome has its receipt, is hopeless, or cannot be accepted now. Returns the last ones. */
  private async deliver(batch: Report[]): Promise<Report[]> {
    const parts = [batch];
    const unavailable: Report[] = [];
    while (parts.length) {
      const part = this.stillOurs(parts.pop()!);
      if (!part.length) continue;
      try {
        const { executor } = this.state.options;
        const receipts = await this.state.client.report(part.map((report) => report.outcome), { executor });
        parts.push(this.apply(part, receipts, unavailable));
      } catch (error) {
        if (error instanceof Refused && NOT_UNDERSTOOD.includes(error.status)) {
          parts.push(...this.narrow(part, error));
        } else {
          this.state.log.warn(`cannot report ${part.length} outcomes, trying again: ${(error as Error).message}`);
          unavailable.push(...part);
        }
      }
    }
    return unavailable;
  }

  /** Without those whose lease was lost or ended long ago. */
  private stillOurs(part: Report[]): Report[] {
    const hopelessMs = this.state.options.leaseMs * HOPELESS_AFTER_LEASES;
    return part.filter((report) => {
      const isOurs = !report.held.isLost && performance.now() - report.held.until < hopelessMs;
      if (!isOurs) this.giveUp(report, "its lease is over");
      return isOurs;
    });
  }

  private giveUp(report: Report, why: string): void {
    this.state.held.delete(report.held);
    this.state.worked[report.held.isLost ? "lost" : "unreported"] += 1;
    this.state.log.error(`the outcome of ${report.outcome.ref} was given up: ${why}`);
  }

  /** Applies the receipts; outcomes that the server could not understand are returned in an understandable form. */
  private apply(part: Report[], receipts: Receipt[], unavailable: Report[]): Report[] {
    const again: Report[] = [];
    part.forEach((report, nth) => {
      const { status, error } = receipts[nth]!;
      if (status === "accepted" || status === "accepted_for_later") {
        this.state.worked[report.isHandedBack ? "handedBack" : COUNTERS[report.outcome.outcome]] += 1;
      } else if (status === "stale") {
        this.state.worked.stale += 1;
      } else if (status === "invalid") {
        again.push(...this.reword(report, error?.detail ?? ""));
        return;
      } else {
        // The database of the task does not answer, or a newer server says something new: repeat.
        unavailable.push(report);
        return;
      }
      this.state.held.delete(report.held);
    });
    return again;
  }

  /** Halves a report that the server refuses for its content, down to the faulty outcome. */
  private narrow(part: Report[], error: Refused): Report[][] {
    if (part.length === 1) return [this.reword(part[0]!, error.message)];
    const half = part.length >> 1;
    return [part.slice(half), part.slice(0, half)];
  }

  /** An outcome that the server refuses becomes a failed attempt that says so; if it refuses that too, it is given up. */
  private reword(report: Report, why: string): Report[] {
    const { ref, token, statusMsg } = report.outcome;
    if (statusMsg?.startsWith(MARK)) {
      this.giveUp(report, why);
      return [];
    }
    const said = fitting(MARK + why, STATUS_MSG_MAX_CHARS);
    return [{ ...report, outcome: { ref, token, outcome: "failed", statusMsg: said } }];
  }
}
