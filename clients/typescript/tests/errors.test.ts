/** Errors and repetition: behaviours 17 to 28. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import {
  AccessDenied,
  BatchError,
  Busy,
  Client,
  ConfigurationError,
  Indeterminate,
  NotFound,
  Unreachable,
  path,
  type NewTask,
} from "punctual";
import { behaviour } from "./support/site.js";
import { errorOf } from "./support/waiting.js";

const TOKEN = "secret-of-tests-0123456789abcdefghijkl";

async function freePort(): Promise<number> {
  const listener = createServer();
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address() as AddressInfo;
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

for (const isKeyed of [false, true]) {
  const keyed = isKeyed ? "with a key" : "without a key";
  behaviour([17], `an insert ${keyed} whose answer is lost makes one task`, async (site) => {
    const { client, queue } = site;
    const proxy = await site.proxy();
    proxy.once("lose", "POST", "/v1/tasks");
    const identity = isKeyed ? { key: queue } : {};
    const task = await site.clientOf(proxy.url).insert({ queue, delay: "1h", ...identity });
    assert.equal(proxy.count("POST", "/v1/tasks"), 2);
    assert.deepEqual((await client.search({ queue })).items.map((found) => found.ref), [task.ref]);
  });
}

behaviour([18], "a batch whose answer is lost makes each task once", async (site) => {
  const { client, queue } = site;
  const proxy = await site.proxy();
  proxy.once("lose", "POST", "/v1/tasks/batch");
  const tasks: NewTask[] = [0, 1, 2, 3, 4].map((payload) => ({ queue, payload, delay: "1h" }));
  const items = await site.clientOf(proxy.url).insertMany(tasks);
  assert.equal(proxy.count("POST", "/v1/tasks/batch"), 2);
  const found = (await client.search({ queue })).items.map((task) => task.ref);
  assert.deepEqual(items.map((item) => item.task?.ref).sort(), found.sort());
  proxy.always("lose", "POST", "/v1/tasks/batch");
  const stopped = await errorOf(BatchError, site.clientOf(proxy.url, { tries: 1 }).insertMany(tasks));
  assert.deepEqual([stopped.done.length, stopped.mayHaveHappened], [0, true]);
  assert(stopped.cause instanceof Indeterminate);
});

behaviour([19], "a cancel whose answer is lost is not sent again", async (site) => {
  const { client, queue } = site;
  const proxy = await site.proxy();
  const task = await client.insert({ queue, delay: "1h" });
  proxy.once("lose", "POST", `/v1/tasks/${task.ref}/cancel`);
  const unknown = await errorOf(Indeterminate, site.clientOf(proxy.url).cancel(task));
  assert(unknown.mayHaveHappened);
  assert.equal(proxy.count("POST", `/v1/tasks/${task.ref}/cancel`), 1);
  assert.equal((await client.get(task)).state, "cancelled");
});

behaviour([20], "a refusal for now is waited for", async (site) => {
  const { queue } = site;
  const proxy = await site.proxy();
  proxy.once("refuse", "POST", "/v1/tasks");
  assert.equal((await site.clientOf(proxy.url).insert({ queue, delay: "1h" })).outcome, "created");
  proxy.always("refuse", "POST", "/v1/tasks");
  const busy = await errorOf(Busy, site.clientOf(proxy.url, { tries: 2 }).insert({ queue }));
  assert.deepEqual([busy.code, busy.retryAfterMs, busy.mayHaveHappened], ["overload", 300, false]);
});

behaviour([21], "nothing happened at a server that cannot be reached", async (site) => {
  for (const host of ["127.0.0.1", "localhost", "no-such-host.invalid"]) {
    const client = site.clientOf(`http://${host}:${await freePort()}`, { tries: 2 });
    const unreachable = await errorOf(Unreachable, client.insert({ queue: "mail" }));
    assert.equal(unreachable.mayHaveHappened, false);
  }
});

behaviour([22], "no answer in time may mean that it happened", async (site) => {
  const proxy = await site.proxy();
  proxy.always("hang", "POST", "/v1/tasks");
  const client = site.clientOf(proxy.url, { requestTimeout: "100ms", tries: 2 });
  const unknown = await errorOf(Indeterminate, client.insert({ queue: "mail" }));
  assert(unknown.mayHaveHappened);
  assert.match(unknown.message, /no answer within 100 ms/);
  assert.equal(proxy.count("POST", "/v1/tasks"), 2);
});

behaviour([23], "the next server is asked when one is unreachable", async (site) => {
  const url = `http://127.0.0.1:${await freePort()}, ${site.server.url}/`;
  const client = site.clientOf(url, { tries: 1 });
  assert.equal((await client.insert({ queue: site.queue, delay: "1h" })).outcome, "created");
});

behaviour([24], "a bad token is refused and none is shown", async (site) => {
  const server = await site.ownServer({ environment: { PUNCTUAL_AUTH_ADMIN_TOKEN: TOKEN } });
  const good = new Client({ url: server.url, token: TOKEN });
  assert.equal((await good.insert({ queue: "mail", delay: "1h" })).outcome, "created");
  const bad = new Client({ url: server.url, token: `${TOKEN.slice(0, -1)}x` });
  const refused = await errorOf(AccessDenied, bad.insert({ queue: "mail" }));
  assert.equal(refused.code, "auth.required");
  const shown = [good, good.settings, refused].map((each) => inspect(each, { depth: 9 }) + JSON.stringify(each) + String(each));
  assert(!shown.join().includes(TOKEN.slice(0, 15)));
  const faulty = await errorOf(ConfigurationError, Promise.resolve().then(() => new Client({ token: "secret\n" })));
  assert(!faulty.message.includes("secret"));
});

/** A certificate for the loopback address that is its own authority, and its key. */
function authority(directory: string): { cert: string; key: string } {
  const files = { cert: join(directory, "cert.pem"), key: join(directory, "key.pem") };
  const request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"];
  const names = ["-subj", "/CN=a test", "-addext", "subjectAltName=IP:127.0.0.1"];
  execFileSync("openssl", [...request, ...names, "-out", files.cert, "-keyout", files.key], { stdio: "pipe" });
  return files;
}

behaviour([25], "only the caller's authority is trusted", async (site) => {
  const directory = mkdtempSync(join(tmpdir(), "punctual-tls-"));
  try {
    const files = authority(directory);
    const tls = { PUNCTUAL_TLS_CERT: files.cert, PUNCTUAL_TLS_KEY: files.key };
    const server = await site.ownServer({ environment: { ...tls, PUNCTUAL_AUTH_ADMIN_TOKEN: TOKEN } });
    assert(server.url.startsWith("https://"));
    const client = new Client({ url: server.url, token: TOKEN, caFile: files.cert });
    assert.equal((await client.insert({ queue: "mail", delay: "1h", payload: "größe" })).outcome, "created");
    await errorOf(NotFound, client.get("key:none"));
    await errorOf(Indeterminate, client.lease({ wait_ms: 20_000 }, { queue: "mail", signal: AbortSignal.timeout(50) }));
    const strangers = [null, authority(mkdtempSync(join(directory, "other-"))).cert];
    for (const caFile of strangers) {
      const stranger = new Client({ url: server.url, token: TOKEN, caFile, tries: 1 });
      const refused = await errorOf(Unreachable, stranger.insert({ queue: "mail" }));
      assert.match(refused.message, /self-signed certificate/);
    }
  } finally {
    rmSync(directory, { recursive: true });
  }
  const faulty = () => new Client({ url: "https://example.org", caFile: "/no/such/ca.pem" });
  assert.throws(faulty, { name: "ConfigurationError", message: /\/no\/such\/ca\.pem/ });
});

behaviour([26], "a namespace does not see the tasks of another", async (site) => {
  const { client, queue } = site;
  const other = site.clientOf(site.server.url, { namespace: "another" });
  const task = await other.insert({ queue, delay: "1h", key: queue });
  assert.deepEqual([task.namespace, other.settings.namespace], ["another", "another"]);
  assert.deepEqual(await client.find({ key: queue }), []);
  await errorOf(NotFound, client.get(`key:${queue}`));
});

behaviour([27], "an unknown task has a code and a page", async ({ client }) => {
  const refused = await errorOf(NotFound, client.get("key:no-such-task"));
  assert.equal(refused.code, "task.not_found");
  assert.equal(refused.help, "/docs/errors/task.not_found");
  assert(refused.detail.includes("no-such-task"));
});

behaviour([28], "a key of any letters reads its task", async ({ client, queue }) => {
  for (const start of ["a/b/../c", "..", "why?", "50 % #1 &x=y+z", "Größe:日本", "%2E%2E", "\u{1f600}\\"]) {
    const key = start === ".." ? ".." : start + queue.slice(-6);
    const task = await client.insert({ queue, key, delay: "1h" });
    assert.equal((await client.get(`key:${key}`)).ref, task.ref);
    assert.equal((await client.find({ key }))[0]?.key, key);
  }
  // No name can leave its place in the path.
  assert.equal(path("tasks", "a/../b?c#d e", "why"), "/v1/tasks/a%2F..%2Fb%3Fc%23d%20e/why");
  assert.equal(path("v1.x", "é", "key:a"), "/v1/v1.x/%C3%A9/key:a");
  await errorOf(ConfigurationError, client.queues.reset(".."));
});

behaviour([21], "an address that cannot work is refused at once", async () => {
  for (const url of ["ftp://x", "127.0.0.1:7450", "http://", "http://x/?a=b", "http://x,", "http://x,y", "http://a:b@x", ""]) {
    assert.throws(() => new Client({ url }), { name: "ConfigurationError" });
  }
});
