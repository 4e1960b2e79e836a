/** The server that the tests of a file share, and what each test gets: a queue, an application, a client of its own. */
import { randomBytes } from "node:crypto";
import { after, test } from "node:test";
import { App, Client, Worker, type ClientOptions, type Logger, type WorkerOptions } from "punctual";
import { Server } from "punctual/testing";
import { Proxy } from "./proxy.js";
import { LIMIT_MS } from "./waiting.js";

/** The back ends that the caller names; the embedded ones otherwise. */
const environment = Object.fromEntries(
  ["PUNCTUAL_STORE_URL", "PUNCTUAL_HOT_URL"].flatMap((name) => (process.env[name] ? [[name, process.env[name]!]] : [])),
);

/** A place for one test; what it opens is closed after it. */
export class Site {
  /** A name that no other test has. */
  readonly queue = `ts-${randomBytes(6).toString("hex")}`;
  readonly client: Client;
  readonly app: App;
  private readonly closing: (() => Promise<unknown>)[] = [];

  constructor(readonly server: Server) {
    this.client = this.clientOf(server.url);
    this.app = new App({ queue: this.queue, client: this.client });
  }

  clientOf(url: string, options: ClientOptions = {}): Client {
    return new Client({ url, token: null, ...options });
  }

  async proxy(): Promise<Proxy> {
    const proxy = await Proxy.start(this.server.url);
    this.closing.push(() => proxy.stop());
    return proxy;
  }

  /** A server that the test may kill: with its own data, and so embedded. */
  async ownServer(options: Parameters<typeof Server.start>[0] = {}): Promise<Server> {
    const server = await Server.start(options);
    this.closing.push(() => server.stop());
    return server;
  }

  /** Works until the test is over, unless the test stops it. */
  work(app: App = this.app, options: WorkerOptions = {}): Worker {
    const worker = new Worker(app, { logger: silent, grace: "5s", ...options }).start();
    this.closing.push(() => worker.stop());
    return worker;
  }

  async close(): Promise<void> {
    for (const close of this.closing.reverse()) await close();
  }
}

export const silent: Logger = { debug() {}, info() {}, warn() {}, error() {} };

/** Keeps what is logged. */
export function notes(): Logger & { readonly lines: string[] } {
  const lines: string[] = [];
  const note = (message: string) => void lines.push(message);
  return { lines, debug: note, info: note, warn: note, error: note };
}

let shared: Promise<Server> | undefined;
after(async () => (await shared)?.stop());

/** A test of behaviours of `clients/conformance.md`, by their numbers. */
export function behaviour(numbers: readonly number[], name: string, run: (site: Site) => Promise<void>): void {
  test(`${numbers.join(", ")}: ${name}`, { timeout: 5 * LIMIT_MS }, async () => {
    shared ??= Server.start({ environment });
    const site = new Site(await shared);
    try {
      await run(site);
    } finally {
      await site.close();
    }
  });
}
