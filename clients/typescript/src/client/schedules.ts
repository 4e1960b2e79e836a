/** The calls about schedules: tasks that are made again and again. */
import { get, ifMatch, path, post } from "../call.js";
import { instantFields, instantText, optionalMs, type Duration, type Instant } from "../durations.js";
import { encode, present, type JsonObject } from "../json.js";
import { pageOf, scheduleOf, scheduleRunOf, wireNames, type Page, type Schedule, type ScheduleRun } from "../models.js";
import { scheduledTaskFields, type ScheduledTask } from "../new-task.js";
import { Group, type PageOptions } from "./operations.js";

/** A schedule to store. */
export interface NewSchedule {
  readonly task: ScheduledTask;
  /** `"0 9 * * MON-FRI"`, or several. */
  readonly cron?: string | readonly string[];
  readonly every?: Duration;
  readonly at?: readonly Instant[];
  /** `Europe/Berlin`; `UTC` unless given. */
  readonly timeZone?: string;
  readonly startAt?: Instant;
  readonly endAt?: Instant;
  readonly maxRuns?: number;
  readonly jitter?: Duration;
  readonly exclude?: readonly unknown[];
  /** While a run is not over: */
  readonly overlap?: "skip" | "buffer_one" | "buffer_all" | "allow" | "cancel_other";
  /** After an outage: */
  readonly missed?: "skip" | "latest" | "all";
  readonly missedWindowMs?: number;
  readonly description?: string;
  readonly owner?: string;
  readonly enabled?: boolean;
}

/** Schedules. */
export class Schedules extends Group {
  async list(options: PageOptions = {}): Promise<Page<Schedule>> {
    return this.send(get("/v1/schedules", pageOf(scheduleOf), { ...options }));
  }

  async get(name: string): Promise<Schedule> {
    return this.send(get(path("schedules", name), scheduleOf));
  }

  /**
   * Creates or replaces a schedule; the same document changes nothing. With a revision, only if it is the present one (0:
   * only a new one).
   *
   * `await client.schedules.put("digest", { task: digest.task({}), cron: "0 9 * * MON-FRI", timeZone: "Europe/Berlin" })`
   */
  async put(name: string, schedule: NewSchedule, options: { revision?: number } = {}): Promise<Schedule> {
    const { task, every, at, startAt, endAt, jitter, ...rest } = schedule;
    const body = present({
      ...wireNames(rest),
      task: scheduledTaskFields(task),
      every_ms: optionalMs(every),
      at: at?.map(instantText),
      jitter_ms: optionalMs(jitter),
      ...instantFields("start_at", startAt),
      ...instantFields("end_at", endAt),
    });
    return this.send({
      method: "PUT",
      path: path("schedules", name),
      read: scheduleOf,
      repeat: options.revision === undefined ? "safe" : "if_not_done",
      body: encode(body),
      headers: ifMatch(options.revision),
    });
  }

  /** Changes what is named, by the fields of the API in camelCase. */
  async patch(name: string, fields: JsonObject): Promise<Schedule> {
    const body = encode(wireNames(fields));
    return this.send({ method: "PATCH", path: path("schedules", name), read: scheduleOf, repeat: "safe", body });
  }

  /** Revokes runs that were made ahead, and deletes the schedule. */
  async delete(name: string): Promise<Schedule> {
    return this.send({ method: "DELETE", path: path("schedules", name), read: scheduleOf });
  }

  /** After this, no further run fires. */
  async pause(name: string, options: { reason?: string } = {}): Promise<Schedule> {
    return this.send(post(path("schedules", name, "pause"), scheduleOf, present(options), "safe"));
  }

  async resume(name: string): Promise<Schedule> {
    return this.send(post(path("schedules", name, "resume"), scheduleOf, undefined, "safe"));
  }

  /** Makes a run now, beside the others. */
  async run(name: string): Promise<ScheduleRun> {
    return this.send(post(path("schedules", name, "run"), scheduleRunOf));
  }

  /** The next instants. */
  async nextRuns(name: string, count = 10): Promise<Date[]> {
    const read = (raw: { items: { at_ms: number }[] }) => raw.items.map((run) => new Date(run.at_ms));
    return this.send(get(path("schedules", name, "next"), read, { n: count }));
  }

  /** What became of its instants, the latest first. */
  async runs(name: string, options: { limit?: number } = {}): Promise<Page<ScheduleRun>> {
    return this.send(get(path("schedules", name, "runs"), pageOf(scheduleRunOf), options));
  }

  /** Makes the runs of a past range. Answers with the fields of the API. */
  async backfill(name: string, from: Instant, to: Instant): Promise<JsonObject> {
    const body = { from: instantText(from), to: instantText(to) };
    return this.send(post(path("schedules", name, "backfill"), (raw) => raw as JsonObject, body, "safe"));
  }
}
