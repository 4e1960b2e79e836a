/** An application's tasks: functions that run later, elsewhere. `App` collects them, for inserting and running. */
import { Client } from "./client.js";
import type { Context } from "./context.js";
import { ConfigurationError } from "./errors.js";
import type { Task } from "./models.js";
import type { InsertOptions, NewTask, TaskSettings } from "./new-task.js";
import { fit, type Schema } from "./schema.js";

/** Takes an attempt to its result: JSON or bytes, or nothing. A thrown error is a failed attempt; `RetryLater`, `Snooze` and
 * `Reject` say more. */
export type Handler<P, R> = (payload: P, context: Context) => R | Promise<R>;

/** Settings of all tasks of one kind. */
export interface AppTaskOptions<P> extends TaskSettings {
  /** The application's unless given. */
  readonly queue?: string | undefined;
  /** Checks the payload before the handler runs; what does not fit is rejected. */
  readonly schema?: Schema<P> | undefined;
}

/** A payload may be left out where the handler takes none. */
type Arguments<P> = undefined extends P ? [payload?: P, options?: InsertOptions] : [payload: P, options?: InsertOptions];

/** A kind of task: its handler, and what inserts it. */
export class AppTask<P, R> {
  constructor(
    private readonly app: App,
    readonly kind: string,
    readonly handler: Handler<P, R>,
    private readonly settings: TaskSettings & { readonly queue: string },
    private readonly schema: Schema<P> | undefined,
  ) {}

  get queue(): string {
    return this.settings.queue;
  }

  /**
   * Inserts a task: due now, or as the options say.
   *
   * `await welcome.insert({ name: "Ada" }, { delay: "1h", key: "welcome:ada" })`
   */
  async insert(...[payload, options]: Arguments<P>): Promise<Task<R>> {
    return this.app.client.insert<R>(this.newTask(payload, options));
  }

  /** The task to insert: for `insertMany`, schedules and workflows. */
  task(...[payload, options]: Arguments<P>): NewTask<R> {
    return this.newTask(payload, options);
  }

  private newTask(payload: P | undefined, options: InsertOptions = {}): NewTask<R> {
    return { ...this.settings, ...options, queue: options.queue ?? this.queue, kind: this.kind, payload };
  }

  /** Runs an attempt. */
  async run(context: Context): Promise<R> {
    return this.handler(await fit(this.schema, context.payload), context);
  }
}

/** Options of an application. */
export interface AppOptions {
  /** Of tasks that name none; `default`. */
  readonly queue?: string | undefined;
  /** Of the handlers, `major.minor.patch`. */
  readonly version?: string | undefined;
  /** Made of the environment unless given, when it is first used. */
  readonly client?: Client | undefined;
}

/**
 * The tasks of an application, and the way to the server.
 *
 * ```ts
 * const app = new App({ queue: "mail" });
 * const welcome = app.task("welcome", { maxAttempts: 3 }, async (user: { name: string }) => `hello, ${user.name}`);
 * ```
 */
export class App {
  readonly queue: string;
  readonly version: string | undefined;
  private readonly byKind = new Map<string, AppTask<any, any>>();
  private any: ((context: Context) => unknown) | undefined;
  private ownClient: Client | undefined;

  constructor(options: AppOptions = {}) {
    this.queue = options.queue ?? "default";
    this.version = options.version;
    this.ownClient = options.client;
  }

  get client(): Client {
    this.ownClient ??= new Client();
    return this.ownClient;
  }

  /** Calls this server from now on: for tests. */
  use(client: Client): void {
    this.ownClient = client;
  }

  /** Makes a kind of task. Its handler gets the payload, and the attempt as a `Context`. */
  task<P, R>(kind: string, handler: Handler<P, R>): AppTask<P, Awaited<R>>;
  task<P, R>(kind: string, options: AppTaskOptions<P>, handler: Handler<P, R>): AppTask<P, Awaited<R>>;
  task<P, R>(
    kind: string,
    first: AppTaskOptions<P> | Handler<P, R>,
    second?: Handler<P, R>,
  ): AppTask<P, Awaited<R>> {
    const [options, handler] = typeof first === "function" ? [{}, first] : [first, second!];
    if (this.byKind.has(kind)) throw new ConfigurationError(`there are two tasks named ${kind}: give one another name`);
    const { schema, queue, ...settings } = options as AppTaskOptions<P>;
    const made = new AppTask(this, kind, handler, { ...settings, queue: queue ?? this.queue }, schema);
    this.byKind.set(kind, made);
    return made as AppTask<P, Awaited<R>>;
  }

  /** A handler for every kind that has none of its own. */
  handleAny(handler: (context: Context) => unknown): this {
    this.any = handler;
    return this;
  }

  /** Those that its tasks name. */
  get queues(): string[] {
    const named = new Set([...this.byKind.values()].map((task) => task.queue));
    if (this.any || !named.size) named.add(this.queue);
    return [...named].sort();
  }

  /** Those that have a handler; none if there is one for any. */
  get kinds(): string[] {
    return this.any ? [] : [...this.byKind.keys()].sort();
  }

  get hasHandlers(): boolean {
    return this.byKind.size > 0 || this.any !== undefined;
  }

  /** What runs tasks of a kind. */
  handlerOf(kind: string): ((context: Context) => unknown) | undefined {
    const task = this.byKind.get(kind);
    return task ? (context) => task.run(context) : this.any;
  }
}
