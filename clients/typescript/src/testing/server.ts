/** A Punctual server for tests: the real program, on a free port, with a data directory of its own that goes with it. */
import { spawn, type ChildProcess } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "../client.js";
import { ConfigurationError, PunctualError } from "../errors.js";
import { Latch, within } from "../waiting.js";

const STOP_PATIENCE_MS = 30_000;
const LOG_LINES_MAX = 1_000;

/** Options of a server. */
export interface ServerOptions {
  /** Unless given: `PUNCTUAL_BIN`, or `punctual` in the `PATH`. */
  readonly binary?: string | undefined;
  /** A free port of the loopback address unless given. */
  readonly listen?: string | undefined;
  /** Variables such as `PUNCTUAL_STORE_URL`; those of the test's process that begin with `PUNCTUAL_` are not passed on. */
  readonly environment?: { readonly [name: string]: string } | undefined;
  /** By key, as `--set` takes them. */
  readonly settings?: { readonly [key: string]: string | number | boolean } | undefined;
  /** `warn` unless given. */
  readonly logFilter?: string | undefined;
}

/** A test that fails before its `stop` leaves no server behind. */
const started = new Set<Server>();
const discardAll = () => started.forEach((server) => server.discard());

/** The program: as given, or `PUNCTUAL_BIN`, or `punctual` in the `PATH`. */
export function findBinary(binary?: string): string {
  const wanted = binary || process.env.PUNCTUAL_BIN || "punctual";
  const places = /[\\/]/.test(wanted) ? [""] : (process.env.PATH ?? "").split(delimiter);
  for (const place of places) {
    const file = place ? join(place, wanted) : wanted;
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      // The next one.
    }
  }
  throw new ConfigurationError(
    `there is no program ${wanted}: install punctual, or name it in the variable PUNCTUAL_BIN`,
  );
}

/** `Server.start()`; `stop` at the end of the test. */
export class Server {
  /** Where it answers. */
  url = "";
  /** The last lines that it wrote. */
  readonly log: string[] = [];
  private readonly data = mkdtempSync(join(tmpdir(), "punctual-test-"));
  private process: ChildProcess | undefined;
  private exited = new Latch();
  private listen: string;
  private ownClient: Client | undefined;
  protected constructor(private readonly options: ServerOptions) {
    this.listen = options.listen ?? "127.0.0.1:0";
    if (!started.size) process.on("exit", discardAll);
    started.add(this);
  }

  /** Starts one. */
  static async start(options: ServerOptions = {}): Promise<Server> {
    const server = new Server(options);
    await server.begin();
    return server;
  }

  /** For the namespace `default`. */
  get client(): Client {
    this.ownClient ??= new Client({ url: this.url, token: null });
    return this.ownClient;
  }

  /** Starts it again, with the data and the port that it had. */
  async restart(): Promise<void> {
    await this.terminate();
    await this.begin();
  }

  protected async begin(): Promise<void> {
    const settings = Object.entries(this.options.settings ?? {}).map(([key, value]) => `--set=${key}=${value}`);
    const filter = `--log-filter=${this.options.logFilter ?? "warn"}`;
    const places = ["--listen", this.listen, "--data", this.data];
    const environment = Object.entries(process.env).filter(([name]) => !name.startsWith("PUNCTUAL_"));
    const child = spawn(findBinary(this.options.binary), ["serve", "--json", ...places, ...settings, filter], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...Object.fromEntries(environment), ...this.options.environment },
    });
    this.process = child;
    const exited = new Latch();
    this.exited = exited;
    child.once("exit", () => exited.set());
    child.once("error", () => exited.set());
    const first = new Latch<string>();
    createInterface(child.stdout).on("line", (line) => (first.isSet ? this.note(line) : first.set(line)));
    createInterface(child.stderr).on("line", (line) => this.note(line));
    const line = await Promise.race([first.promise, exited.promise]);
    if (line === undefined) {
      await this.stop();
      throw new PunctualError(`the server did not start: ${this.log.join("\n")}`);
    }
    this.url = new URL((JSON.parse(line) as { api: string }).api).origin;
    this.listen = this.url.replace(/^.*\/\//, "");
    // A server that is not stopped does not keep the process of the test alive.
    for (const each of [child, child.stdout, child.stderr]) (each as unknown as { unref?: () => void }).unref?.();
  }

  private note(line: string): void {
    this.log.push(line);
    if (this.log.length > LOG_LINES_MAX) this.log.shift();
  }

  /** As a crash: nothing is finished. `restart` starts it again. */
  async kill(): Promise<void> {
    await this.end("SIGKILL");
  }

  /** In order, with its data kept. `restart` starts it again. */
  async terminate(): Promise<void> {
    await this.end("SIGTERM");
  }

  private async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    this.process?.ref();
    this.process?.kill(signal);
    const ended = await within(STOP_PATIENCE_MS, this.exited.promise.then(() => true));
    if (!ended) this.process?.kill("SIGKILL");
    if (this.process) await this.exited.promise;
  }

  /** Ends it, and removes its data. */
  async stop(): Promise<void> {
    if (this.process) await this.terminate();
    this.discard();
    started.delete(this);
    if (!started.size) process.off("exit", discardAll);
  }

  /** Ends it at once, and removes its data. */
  discard(): void {
    this.process?.kill("SIGKILL");
    this.process = undefined;
    rmSync(this.data, { recursive: true, force: true });
  }
}
