/** Sleeping, and waiting for an event, without a timer that is left behind. */

/** A longer timer would fire at once. */
const TIMER_MAX_MS = 2 ** 31 - 1;

/** Resolves after so many milliseconds; rejects with the signal's reason when that is first. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  for (let leftMs = ms; leftMs > TIMER_MAX_MS; leftMs -= TIMER_MAX_MS) await timer(TIMER_MAX_MS, signal);
  await timer(ms > TIMER_MAX_MS ? ms % TIMER_MAX_MS : ms, signal);
}

function timer(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      clearTimeout(running);
      reject(signal?.reason);
    };
    const running = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** The same, but an early end is no error. Whether the whole time is over. */
export async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  try {
    await sleep(ms, signal);
    return true;
  } catch {
    return false;
  }
}

/** Something that happens once or never, and the promise of it. */
export class Latch<T = void> {
  readonly promise: Promise<T>;
  isSet = false;
  private resolve!: (value: T) => void;

  constructor() {
    this.promise = new Promise((resolve) => (this.resolve = resolve));
  }

  /** Only the first counts. */
  set(value: T): void {
    this.isSet = true;
    this.resolve(value);
  }
}

/** What a promise gives within so many milliseconds, else `undefined`. */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T | undefined> {
  const end = new AbortController();
  try {
    return await Promise.race([promise, pause(ms, end.signal).then(() => undefined)]);
  } finally {
    end.abort();
  }
}
