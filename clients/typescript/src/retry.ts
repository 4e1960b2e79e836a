/** When the next attempt follows a failed one: policies for tasks and queues. */
import { toMs, type Duration } from "./durations.js";

/** As the wire has it; made by the functions of this module. */
export type RetryPolicy =
  | { readonly strategy: "immediate" }
  | { readonly strategy: "fixed"; readonly delay_ms: number }
  | {
      readonly strategy: "exponential";
      readonly delay_ms: number;
      readonly factor?: number;
      readonly max_delay_ms?: number;
      readonly jitter?: number;
    }
  | { readonly strategy: "list"; readonly delays_ms: readonly number[] };

/** Immediately. */
export function immediate(): RetryPolicy {
  return { strategy: "immediate" };
}

/** After the same delay each time. */
export function fixed(delay: Duration): RetryPolicy {
  return { strategy: "fixed", delay_ms: toMs(delay) };
}

/** `factor` times as long each time (2), up to `maxDelay` (10 minutes), varied at random by the share `jitter` (0.2). */
export function exponential(
  delay: Duration,
  options: { factor?: number; maxDelay?: Duration; jitter?: number } = {},
): RetryPolicy {
  const delay_ms = toMs(delay);
  const { factor = 2, maxDelay = "10m", jitter = 0.2 } = options;
  return { strategy: "exponential", delay_ms, factor, max_delay_ms: Math.max(toMs(maxDelay), delay_ms), jitter };
}

/** After the first of these, then the second; the last one repeats. */
export function delays(each: readonly Duration[]): RetryPolicy {
  return { strategy: "list", delays_ms: each.map(toMs) };
}
