/** Durations and instants as callers write them, and as the wire has them: whole milliseconds. */
import { ConfigurationError } from "./errors.js";

/** Milliseconds, or a text such as `"250ms"`, `"90s"`, `"1h30m"` or `"7d"`. */
export type Duration = number | string;

/** A `Date`, epoch milliseconds, or RFC 3339 with a time zone (`"2031-07-04T12:30:00Z"`). */
export type Instant = Date | number | string;

const UNITS_MS: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const PART = /(\d+(?:\.\d+)?)(ms|[smhdw])/g;
const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+$/;
const WITH_ZONE = /^\d{4}-\d\d-\d\d[Tt ].*(?:[Zz]|[+-]\d\d:\d\d)$/;

/** Whole milliseconds, rounded up: nothing fires earlier than the caller asked for. */
export function toMs(duration: Duration): number {
  const ms = typeof duration === "string" ? textToMs(duration) : duration;
  if (typeof ms !== "number" || !Number.isFinite(ms) || ms < 0) {
    throw new ConfigurationError(`a duration is milliseconds from 0 on, or a text such as "90s", not ${String(duration)}`);
  }
  return Math.ceil(Number(ms.toFixed(6)));
}

/** The same, unless it is absent. */
export function optionalMs(duration: Duration | undefined): number | undefined {
  return duration === undefined ? undefined : toMs(duration);
}

function textToMs(text: string): number {
  const compact = text.replaceAll(" ", "");
  if (!WHOLE.test(compact)) {
    throw new ConfigurationError(`"${text}" is not a duration: write for example "250ms", "90s", "1h30m" or "7d"`);
  }
  return [...compact.matchAll(PART)].reduce((sum, [, count, unit]) => sum + Number(count) * UNITS_MS[unit!]!, 0);
}

/** The field of the wire that carries an instant: `NAME` for a text, which may be finer than a `Date`, else `NAME_ms`. */
export function instantFields(name: string, at: Instant | undefined): { [field: string]: unknown } {
  if (at === undefined) return {};
  if (typeof at === "string") return { [name]: instantText(at) };
  return { [`${name}_ms`]: epochMs(at) };
}

/** RFC 3339, where the wire has no twin in milliseconds. */
export function instantText(at: Instant): string {
  if (typeof at !== "string") return new Date(epochMs(at)).toISOString();
  if (!WITH_ZONE.test(at)) {
    throw new ConfigurationError(`"${at}" has no time zone: write RFC 3339, for example "2031-07-04T12:30:00+02:00"`);
  }
  return at;
}

function epochMs(at: Date | number): number {
  const ms = typeof at === "number" ? at : at.getTime();
  if (!Number.isFinite(ms)) throw new ConfigurationError("an instant is a valid Date, epoch milliseconds or RFC 3339");
  return Math.ceil(ms);
}
