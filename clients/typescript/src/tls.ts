/**
 * A `fetch` with authorities and a certificate of the caller's. The global one has no option for them, so that this is
 * `node:https` in the form of a `fetch`, as far as the client needs it: a text as the body, a signal, an answer.
 */
import { readFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { ConfigurationError } from "./errors.js";

/** Below the server's own 75 s, so that no call is sent on a connection that it just closes. */
const IDLE_MS = 60_000;

/** Trusts the authorities of the file, if there is one, in place of the system's. */
export function fetchWithTls(
  caFile: string | undefined,
  certificate: { readonly cert: string; readonly key: string } | undefined,
): typeof fetch {
  const agent = new Agent({
    keepAlive: true,
    timeout: IDLE_MS,
    ...(caFile ? { ca: pem(caFile) } : {}),
    ...(certificate ? { cert: pem(certificate.cert), key: pem(certificate.key) } : {}),
  });
  return (input, init = {}) => {
    const url = input instanceof Request ? input.url : String(input);
    if (url.startsWith("http:")) return fetch(input, init);
    return new Promise((resolve, reject) => {
      const { method = "GET", headers, signal, body } = init;
      const sent = request(
        url,
        {
          agent,
          method,
          headers: Object.fromEntries(new Headers(headers)),
          ...(signal ? { signal } : {}),
        },
        (answer) => {
          const chunks: Uint8Array[] = [];
          answer.on("data", (chunk: Uint8Array) => chunks.push(chunk));
          answer.on("error", reject);
          answer.on("aborted", () => reject(new Error("the answer was cut off")));
          answer.on("end", () => {
            const status = answer.statusCode ?? 502;
            const after = answer.headers["retry-after"];
            const text = chunks.length ? Buffer.concat(chunks) : null;
            resolve(new Response(text, { status, headers: after ? { "Retry-After": after } : {} }));
          });
        },
      );
      sent.on("error", reject);
      sent.end(typeof body === "string" ? body : undefined);
    });
  };
}

function pem(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new ConfigurationError(`${file} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  if (!text.includes("-----BEGIN ")) throw new ConfigurationError(`${file} has no certificate or key in PEM`);
  return text;
}
