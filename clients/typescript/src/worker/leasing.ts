/** Leasing: one long poll at a time, for all queues that have free slots. */
import { Backoff } from "../call.js";
import type { LeaseAnswer } from "../client.js";
import type { LeasedTask } from "../models.js";
import { pause } from "../waiting.js";
import type { State } from "./state.js";

const LEASE_QUEUES_MAX = 16;
/** The pause after an immediate empty answer to a long poll. */
const EMPTY_PAUSE_MS = 50;
/** The longest wait of a call that omits a queue: a longer one would delay that queue's turn. */
const SHORT_WAIT_MS = 500;

/** Until the worker stops. Cutting a running poll is the price of a prompt stop: tasks that the server leases just then run
 * again when their lease ends. */
export async function lease(state: State, start: (tasks: LeasedTask[]) => Promise<void>): Promise<void> {
  const backoff = new Backoff(100, 10_000);
  let turn = [...state.queues];
  while (!state.stop.aborted) {
    const free = await state.slots.of(turn.slice(0, LEASE_QUEUES_MAX), state.stop);
    if (!free.size) continue;
    const began = performance.now();
    let answer: LeaseAnswer;
    try {
      answer = await ask(state, free);
    } catch (error) {
      if (state.stop.aborted) return;
      const waitMs = backoff.next();
      state.log.warn(`cannot lease, trying again in ${Math.round(waitMs)} ms: ${(error as Error).message}`);
      await pause(waitMs, state.stop);
      continue;
    }
    backoff.reset();
    state.hearWish(answer.wish);
    if (answer.tasks.length) {
      await start(answer.tasks);
    } else {
      await pause(Math.max(0, EMPTY_PAUSE_MS - (performance.now() - began)), state.stop);
    }
    // The queues that were omitted are next.
    turn = [...turn.slice(LEASE_QUEUES_MAX), ...turn.slice(0, LEASE_QUEUES_MAX)];
  }
}

async function ask(state: State, free: Map<string, number>): Promise<LeaseAnswer> {
  const { options, queues, client } = state;
  const counts = [...free.values()];
  const sum = counts.reduce((all, count) => all + count, 0);
  const request = {
    ...state.declared(),
    max: counts.length === 1 ? counts[0] : Math.min(options.concurrency, sum),
    wait_ms: free.size === queues.length ? options.waitMs : Math.min(options.waitMs, SHORT_WAIT_MS),
    lease_ms: options.leaseMs,
    ...(options.executorConcurrency === undefined ? {} : { concurrency: options.executorConcurrency }),
    ...(options.onlyOwnKinds ? { only_kinds: true } : {}),
  };
  if (queues.length === 1) return client.lease(request, { queue: queues[0]!, signal: state.stop });
  const named = [...free].map(([name, max]) => ({ name, max }));
  return client.lease({ ...request, queues: named }, { signal: state.stop });
}
