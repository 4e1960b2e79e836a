/** Tests wait for what must come, with one generous limit, and never ask how fast the machine is. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

export const LIMIT_MS = 40_000;

/** The first answer that is true. */
export async function until<T>(condition: () => T | Promise<T>): Promise<NonNullable<T>> {
  const end = performance.now() + LIMIT_MS;
  for (;;) {
    const answer = await condition();
    if (answer) return answer;
    assert(performance.now() < end, `it did not come: ${condition}`);
    await sleep(10);
  }
}

/** A door that handlers wait for, and a test opens. */
export class Gate {
  readonly opened: Promise<void>;
  open!: () => void;

  constructor() {
    this.opened = new Promise((resolve) => (this.open = resolve));
  }
}

/** The error of a promise, of a class. */
export async function errorOf<E extends Error>(kind: abstract new (...args: any[]) => E, promise: Promise<unknown>): Promise<E> {
  try {
    await promise;
  } catch (error) {
    assert(error instanceof kind, `${(error as Error).stack}`);
    return error;
  }
  assert.fail(`no ${kind.name}`);
}
