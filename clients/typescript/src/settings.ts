/** Settings of a client: options before the environment before defaults, checked before anything is sent. */
import { toMs, type Duration } from "./durations.js";
import { ConfigurationError } from "./errors.js";
import { fetchWithTls } from "./tls.js";
import { VERSION } from "./version.js";

/** Options of a client. Those that are not given come from the environment. */
export interface ClientOptions {
  /** Of one engine, or of several with commas between; `PUNCTUAL_URL`, or `http://127.0.0.1:7450`. */
  readonly url?: string | undefined;
  /** `PUNCTUAL_TOKEN`; `null`: none, whatever the environment says. */
  readonly token?: string | null | undefined;
  /** `default` unless given. */
  readonly namespace?: string | undefined;
  /** How long an answer may take, beside the time that a call waits by itself; 10 s. */
  readonly requestTimeout?: Duration | undefined;
  /** How often a call is sent that may be repeated; 5. */
  readonly tries?: number | undefined;
  /** Authorities to trust instead of the system's, a PEM file; `PUNCTUAL_CA_FILE`. `null`: the system's. */
  readonly caFile?: string | null | undefined;
  /** PEM files; `PUNCTUAL_CLIENT_CERT` and `PUNCTUAL_CLIENT_KEY`. */
  readonly clientCertificate?: { readonly cert: string; readonly key: string } | undefined;
  /** In place of the global `fetch`: a proxy, an instrumented one. */
  readonly fetch?: typeof fetch | undefined;
}

/** What a client is made of. */
export interface Settings {
  readonly bases: readonly string[];
  readonly namespace: string;
  readonly requestTimeoutMs: number;
  readonly tries: number;
  /** Has the token; not shown. */
  readonly headers: { readonly [name: string]: string };
  readonly fetch: typeof fetch;
}

const DEFAULT_URL = "http://127.0.0.1:7450";

/** From the options of a client. */
export function settings(options: ClientOptions): Settings {
  const bases = (options.url ?? environment("PUNCTUAL_URL") ?? DEFAULT_URL).split(",").map((part) => base(part.trim()));
  const tries = options.tries ?? 5;
  if (!Number.isInteger(tries) || tries < 1) throw new ConfigurationError("tries must be at least 1");
  const made = {
    bases,
    namespace: options.namespace ?? "default",
    requestTimeoutMs: toMs(options.requestTimeout ?? "10s"),
    tries,
    fetch: options.fetch ?? fetchFor(options, bases),
  };
  // Not enumerable: a log of the settings shows no token.
  return Object.defineProperty(made, "headers", { value: headers(options) }) as unknown as Settings;
}

function fetchFor(options: ClientOptions, bases: readonly string[]): typeof fetch {
  const caFile = options.caFile === undefined ? environment("PUNCTUAL_CA_FILE") : (options.caFile ?? undefined);
  const certificate = options.clientCertificate ?? certificateOfEnvironment();
  const isTls = bases.some((each) => each.startsWith("https:"));
  if (isTls && (caFile || certificate)) return fetchWithTls(caFile, certificate);
  // Looked up for each call, so that a program may replace it.
  return (input, init) => globalThis.fetch(input, init);
}

function environment(name: string): string | undefined {
  return process.env[name] || undefined;
}

/** An address without a trailing slash. */
function base(address: string): string {
  let url: URL | undefined;
  try {
    url = new URL(address);
  } catch {
    // Said below.
  }
  const isUsable = url && /^https?:$/.test(url.protocol) && url.hostname && !url.search && !url.hash && url.port !== "0";
  if (!isUsable || url?.username || url?.password) {
    const shown = url?.username || url?.password ? "with a password" : `"${address}"`;
    throw new ConfigurationError(`url ${shown}: must be http://host:port or https://host:port, several with commas between`);
  }
  return address.replace(/\/+$/, "");
}

function headers(options: ClientOptions): { [name: string]: string } {
  const token = options.token === undefined ? environment("PUNCTUAL_TOKEN") : options.token;
  const made: { [name: string]: string } = { "User-Agent": `punctual-typescript/${VERSION}` };
  if (token) made.Authorization = `Bearer ${token}`;
  if (options.namespace) made["Punctual-Namespace"] = options.namespace;
  for (const [name, value] of Object.entries(made)) {
    if (!/^[ -~]*$/.test(value)) {
      throw new ConfigurationError(`the value for header ${name} has characters that no header can carry`);
    }
  }
  return made;
}

function certificateOfEnvironment(): { cert: string; key: string } | undefined {
  const [cert, key] = [environment("PUNCTUAL_CLIENT_CERT"), environment("PUNCTUAL_CLIENT_KEY")];
  if (cert && key) return { cert, key };
  if (cert || key) {
    throw new ConfigurationError("a client certificate and its key go together: PUNCTUAL_CLIENT_CERT, PUNCTUAL_CLIENT_KEY");
  }
  return undefined;
}
