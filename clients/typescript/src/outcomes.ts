/** What a handler throws to say how its attempt ended. Any other error is a failed attempt, which the task's retry policy
 * treats. */
import { toMs, type Duration } from "./durations.js";

/** A wish of a handler about its task. */
export abstract class HandlerSignal extends Error {}

/** Tried in vain; again after this long, whatever the retry policy says. */
export class RetryLater extends HandlerSignal {
  override readonly name = "RetryLater";
  readonly afterMs: number;

  constructor(after: Duration, message = "retried on the handler's wish") {
    super(message);
    this.afterMs = toMs(after);
  }
}

/** Will never succeed: dead immediately, whatever attempts are left. */
export class Reject extends HandlerSignal {
  override readonly name = "Reject";
}

/** Not now: again after this long, and this attempt does not count. */
export class Snooze extends HandlerSignal {
  override readonly name = "Snooze";
  readonly afterMs: number;

  constructor(after: Duration) {
    super(`snoozed for ${after}`);
    this.afterMs = toMs(after);
  }
}
