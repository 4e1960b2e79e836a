/** Heartbeats, beside leasing and reporting so that neither delays them: three in the time of a lease. They extend leases,
 * carry progress and log lines, and report which leases were lost or should stop. */
import type { HeartbeatAnswer, LeaseNews } from "../client.js";
import { Refused } from "../errors.js";
import type { JsonObject } from "../json.js";
import type { LeasedTask } from "../models.js";
import { pause } from "../waiting.js";
import type { Held, State } from "./state.js";

/** An idle worker says this often that it lives. */
const IDLE_MS = 10_000;
/** An unavailable server does not delay the end. */
const FAREWELL_MS = 2_000;
const BATCH_MAX = 10_000;

/** Until the signal ends it. */
export async function beatOn(state: State, end: AbortSignal): Promise<void> {
  const periodMs = state.options.leaseMs / 3;
  let nextMs = periodMs;
  let saidIdle = performance.now();
  while (await pause(nextMs, end)) {
    const began = performance.now();
    const leases = state.alive();
    let isHeard = true;
    if (leases.length || began - saidIdle >= Math.min(IDLE_MS, 3 * periodMs)) {
      saidIdle = began;
      for (let first = 0; first < Math.max(leases.length, 1); first += BATCH_MAX) {
        isHeard = (await beat(state, leases.slice(first, first + BATCH_MAX), periodMs)) && isHeard;
      }
    }
    // After a failure sooner, as the leases run on.
    nextMs = Math.max(0, (isHeard ? periodMs : periodMs / 4) - (performance.now() - began));
  }
}

/** Whether the server received all of it. */
async function beat(state: State, leases: Held[], patienceMs: number): Promise<boolean> {
  const news = leases.map((held) => held.control.takeNews());
  const beats = leases.map(({ task }, nth) => ({ ref: task.ref, token: task.token, ...news[nth] }));
  let answer: HeartbeatAnswer;
  try {
    answer = await sendBeats(state, beats, patienceMs);
  } catch (error) {
    // Progress or lines that the server does not take are dropped: with them, no lease would be extended any more.
    const isRefused = error instanceof Refused && [400, 413, 422].includes(error.status);
    if (!isRefused) leases.forEach((held, nth) => held.control.restoreNews(news[nth]!));
    state.log.warn(`a heartbeat for ${leases.length} leases failed, trying again: ${(error as Error).message}`);
    return false;
  }
  state.hearWish(answer.wish);
  let isHeard = true;
  leases.forEach((held, nth) => {
    const said = answer.leases[nth];
    if (said === undefined || said.unavailable) {
      isHeard = false;
      held.control.restoreNews(news[nth]!);
    } else {
      hear(state, held, said);
    }
  });
  return isHeard;
}

function hear(state: State, held: Held, said: LeaseNews): void {
  if (said.ref !== held.task.ref) {
    // The answer is in the order of the request; otherwise it says nothing about this lease.
    state.log.error(`the heartbeat's answer about ${held.task.ref} is about another task`);
  } else if (said.lost) {
    held.leave("lost");
  } else {
    held.until = performance.now() + state.options.leaseMs;
    if (said.cancel_requested) held.control.stop("cancelled");
  }
}

async function sendBeats(state: State, leases: JsonObject[], patienceMs: number, more: JsonObject = {}) {
  const request = { ...state.declared(), queues: [...state.queues].sort(), leases, ...more };
  return state.client.heartbeat(request, { signal: AbortSignal.timeout(Math.ceil(patienceMs)) });
}

/** Reports the regular end. Best effort: without it, the worker is found silent. */
export async function farewell(state: State): Promise<void> {
  try {
    await sendBeats(state, [], FAREWELL_MS, { leaving: true });
  } catch (error) {
    state.log.debug(`the farewell was not heard: ${(error as Error).message}`);
  }
}

/**
 * The guard: the first heartbeat of an attempt begins it, and only its sender executes the task, so that an attempt that was
 * delivered twice runs once. An answer that comes later than a third of the lease is not waited for; without an answer the
 * tasks run, as the server refuses the second outcome anyway. A task that another executor runs is left to its lease.
 */
export async function granted(state: State, tasks: LeasedTask[]): Promise<LeasedTask[]> {
  let answer: HeartbeatAnswer;
  try {
    const beats = tasks.map(({ ref, token }) => ({ ref, token }));
    answer = await sendBeats(state, beats, state.options.leaseMs / 3);
  } catch (error) {
    state.log.warn(`the server does not guard ${tasks.length} tasks, the fence alone decides: ${(error as Error).message}`);
    return tasks;
  }
  state.hearWish(answer.wish);
  return tasks.filter((task, nth) => {
    const news = answer.leases[nth];
    const why = news?.ref === task.ref ? whyNot(news) : undefined;
    if (why === undefined) return true;
    state.worked.guarded += 1;
    state.log.info(`task ${task.ref} attempt ${task.attempt} is not executed here: ${why}`);
    return false;
  });
}

/** An engine older than 0.3 does not say who has begun a task. */
function whyNot(news: LeaseNews): string | undefined {
  if (news.lost) return "its lease is over";
  return news.has_begun === false ? "another executor has begun it" : undefined;
}
