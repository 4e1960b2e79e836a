/**
 * How a call reaches a server: over HTTP, to one server or to several of one cluster. A failure says whether the request can
 * have been sent, because retries rest on it; when in doubt, it was.
 */
import { allowsRepeat, Backoff, target, type Call } from "./call.js";
import { fromProblem, Indeterminate, PunctualError, Refused, Unreachable } from "./errors.js";
import { decode, type JsonObject } from "./json.js";
import type { Settings } from "./settings.js";
import { sleep } from "./waiting.js";

/** The next server is asked after these. */
const ASK_ANOTHER = [502, 503, 504];
/** Codes of failures before the request was sent, in Node and Bun. Certificates are checked before it, too. */
const NOT_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
  "UND_ERR_CONNECT_TIMEOUT",
  "ConnectionRefused",
  "FailedToOpenSocket",
  "ERR_SSL_WRONG_VERSION_NUMBER",
  "ERR_TLS_CERT_ALTNAME_INVALID",
  "HOSTNAME_MISMATCH",
  "INVALID_CA",
]);
const NOT_SENT_FAMILIES = /^(EAI|CERT|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|UNKNOWN_CERTIFICATE)_/;
/** Deno says it in words. */
const NOT_SENT_IN_WORDS = /connection refused|dns error|invalid peer certificate/i;

interface Answer {
  readonly status: number;
  readonly isOk: boolean;
  readonly retryAfter: string | null;
  readonly text: string;
}

/** Sends calls, again where that is safe. */
export class Transport {
  /** Which server is asked first: the one that answered last. */
  private current = 0;

  constructor(readonly settings: Settings) {}

  /** Sends a call and reads its answer. */
  async send<T>(call: Call<T>): Promise<T> {
    const backoff = new Backoff(50, 2_000);
    const repeat = call.repeat ?? (call.method === "GET" ? "safe" : "if_not_done");
    for (;;) {
      try {
        return await this.once(call);
      } catch (error) {
        const waitMs = backoff.next();
        const isOver = call.signal?.aborted || backoff.tries >= this.settings.tries;
        if (!(error instanceof PunctualError) || isOver || !allowsRepeat(repeat, error)) throw error;
        const afterMs = error instanceof Refused ? (error.retryAfterMs ?? 0) : 0;
        await sleep(Math.max(waitMs, afterMs), call.signal);
      }
    }
  }

  private async once<T>(call: Call<T>): Promise<T> {
    const answer = await this.sendToAny(call);
    if (!answer.isOk) throw errorOf(answer);
    if (call.isText) return call.read(answer.text);
    const document = parsed(answer.text);
    try {
      return call.read(document);
    } catch (error) {
      if (error instanceof PunctualError) throw error;
      throw new Indeterminate(`the answer to ${call.method} ${call.path} cannot be read: ${said(error)}`, { cause: error });
    }
  }

  /** Tries each server until one accepts the call: one that was not sent may be sent to the next. */
  private async sendToAny(call: Call<unknown>): Promise<Answer> {
    const { bases } = this.settings;
    const first = this.current;
    let notSent: unknown;
    for (let step = 0; step < bases.length; step += 1) {
      const nth = (first + step) % bases.length;
      try {
        const answer = await this.exchange(bases[nth]!, call);
        if (ASK_ANOTHER.includes(answer.status)) this.leave(nth);
        return answer;
      } catch (error) {
        this.leave(nth);
        if (!wasNotSent(error)) {
          throw new Indeterminate(`no answer from ${bases[nth]}: ${said(error)}`, { cause: error });
        }
        notSent ??= error;
      }
    }
    throw new Unreachable(`${bases.join(", ")} cannot be reached: ${said(notSent)}`, { cause: notSent });
  }

  private async exchange(base: string, call: Call<unknown>): Promise<Answer> {
    const { requestTimeoutMs, headers, fetch } = this.settings;
    const limitMs = requestTimeoutMs + (call.waitsMs ?? 0);
    const end = new AbortController();
    const onAbort = () => end.abort(call.signal?.reason ?? new Error("the caller ended the call"));
    const timer = setTimeout(() => end.abort(new Error(`no answer within ${limitMs} ms`)), limitMs);
    call.signal?.addEventListener("abort", onAbort);
    if (call.signal?.aborted) onAbort();
    try {
      const answer = await fetch(base + target(call), {
        method: call.method,
        headers: {
          ...headers,
          ...call.headers,
          ...(call.body === undefined ? {} : { "Content-Type": "application/json" }),
        },
        redirect: "manual",
        signal: end.signal,
        ...(call.body === undefined ? {} : { body: call.body }),
      });
      const text = await answer.text();
      return { status: answer.status, isOk: answer.ok, retryAfter: answer.headers.get("Retry-After"), text };
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", onAbort);
    }
  }

  /** The next call uses the next server; of many calls that fail at one server, only the first changes it. */
  private leave(nth: number): void {
    if (this.current === nth) this.current = (nth + 1) % this.settings.bases.length;
  }
}

function errorOf(answer: Answer): PunctualError {
  const document = parsed(answer.text) as JsonObject | undefined;
  // Otherwise something on the way answered that does not speak problem documents, a proxy for example.
  const problem: JsonObject =
    document && typeof document === "object" && "code" in document
      ? { ...document }
      : { code: "foreign", title: "The answer is not a problem document", detail: answer.text.slice(0, 200) };
  if (answer.retryAfter && /^\d+$/.test(answer.retryAfter)) {
    problem.retry_after_ms ??= Number(answer.retryAfter) * 1_000;
  }
  return fromProblem(problem, answer.status);
}

function parsed(text: string): unknown {
  try {
    return text === "" ? undefined : decode(text);
  } catch {
    return undefined;
  }
}

/** Whether the request cannot have reached the server. `fetch` hides the failure in its cause. */
function wasNotSent(error: unknown): boolean {
  for (let each = error; each instanceof Error; each = each.cause) {
    const code = String((each as { code?: unknown }).code ?? "");
    if (NOT_SENT.has(code) || NOT_SENT_FAMILIES.test(code)) return true;
    if (NOT_SENT_IN_WORDS.test(each.message)) return true;
  }
  return false;
}

function said(error: unknown): string {
  const words: string[] = [];
  for (let each = error; each instanceof Error; each = each.cause) {
    const { code } = each as { code?: unknown };
    const text = each.message || String(code ?? each.name);
    if (text !== "fetch failed" && !words.includes(text)) words.push(text);
  }
  return words.join(": ") || String(error);
}
