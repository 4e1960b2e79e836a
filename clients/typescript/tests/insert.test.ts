/** Insert: behaviours 1 to 16. */
import assert from "node:assert/strict";
import { ConfigurationError, InvalidRequest, retry, TaskExists, VersionSuperseded, type NewTask } from "punctual";
import { behaviour, type Site } from "./support/site.js";
import { errorOf } from "./support/waiting.js";

/** What a handler returns that returns its payload. */
async function echo(site: Site, payloads: unknown[]): Promise<unknown[]> {
  const handler = site.app.task("echo", (payload: unknown) => payload);
  const refs = [];
  for (const payload of payloads) refs.push(await handler.insert(payload));
  site.work();
  const ended = await Promise.all(refs.map((ref) => site.client.wait(ref)));
  for (const task of ended) assert.equal(task.state, "succeeded", task.lastError);
  assert.deepEqual(ended.map((task) => task.payload), payloads);
  return ended.map((task) => task.result);
}

async function comesBack(site: Site, payloads: unknown[]): Promise<void> {
  assert.deepEqual(await echo(site, payloads), payloads);
}

behaviour([1], "a task without a time is due now", async ({ client, queue }) => {
  const task = await client.insert({ queue, kind: "welcome", payload: { to: "ada" } });
  assert.deepEqual([task.outcome, task.queue, task.kind], ["created", queue, "welcome"]);
  assert(task.executeAt <= task.createdAt);
  assert.equal((await client.get(task.ref)).ref, task.ref);
});

behaviour([2], "a task with a delay does not fire before it", async (site) => {
  const handler = site.app.task("handler", () => undefined);
  const began = Date.now();
  site.work();
  const ended = await site.client.wait(await handler.insert(undefined, { delay: "150ms" }));
  assert(ended.executeAt.getTime() >= began + 150);
  assert(ended.latenessMs! >= 0);
  assert.equal(ended.firedAt!.getTime(), ended.executeAt.getTime() + ended.latenessMs!);
});

behaviour([3], "an instant is the same in every time zone", async ({ client, queue }) => {
  const at = new Date("2031-07-04T12:30:00.250+05:30");
  for (const form of [at, at.getTime(), at.toISOString(), "2031-07-04T12:30:00.250+05:30", "2031-07-04t07:00:00.250z"]) {
    assert.deepEqual((await client.insert({ queue, at: form })).executeAt, at);
  }
  for (const form of ["2031-07-04T12:30:00", "2031-07-04", new Date(NaN), NaN]) {
    await errorOf(ConfigurationError, client.insert({ queue, at: form }));
  }
  await errorOf(ConfigurationError, client.search({ queue, dueAfter: "2031-07-04T12:30:00" }));
});

behaviour([4], "any text comes back letter for letter", async (site) => {
  const texts = [
    "na\u00efve Z\u00fcrich",
    "\u65e5\u672c\u8a9e",
    "\u{1f600}\u{1f469}\u200d\u{1f467}",
    "e\u0301\u202e\u200b\u2028",
    'a\0b\n"\\',
    "\ud7ff\ue000\u{10ffff}",
    "\u000112345678901234567890:1",
  ];
  await comesBack(site, texts.map((text) => ({ [text]: [text] })));
});

behaviour([5], "numbers are exact", async (site) => {
  const numbers = [2n ** 53n + 1n, -(2n ** 63n), 2n ** 64n + 1n, 10n ** 40n + 7n, 2 ** 53 - 1, 0.1, -1.5e-300, 1e21];
  const results = await echo(site, [numbers, { large: { in: [2n ** 60n] }, text: '1152921504606846977, "1152921504606846977"' }]);
  // JSON has one form for 10^21 as an integer and as a fraction.
  assert.deepEqual(results[0], numbers);
  assert.deepEqual(results[1], { large: { in: [2n ** 60n] }, text: '1152921504606846977, "1152921504606846977"' });
  assert.equal(typeof (results[0] as unknown[])[4], "number");
});

behaviour([6], "empty payloads are kept apart", async (site) => {
  await comesBack(site, [undefined, {}, [], "", 0, false]);
});

behaviour([7], "bytes are a payload and a result", async (site) => {
  await comesBack(site, [Uint8Array.from({ length: 256 }, (_, nth) => nth)]);
});

behaviour([8], "long payloads come back whole", async (site) => {
  await comesBack(site, [{ text: "ä".repeat(100_000), numbers: Array.from({ length: 3_000 }, (_, nth) => nth) }]);
});

behaviour([9], "a task_id is exact", async ({ client, queue }) => {
  const taskId = 2n ** 63n - 1n - BigInt(`0x${queue.slice(-6)}`);
  const task = await client.insert({ queue, taskId, delay: "1h" });
  assert.equal(task.taskId, taskId.toString());
  assert.deepEqual((await client.find({ taskId })).map((found) => found.ref), [task.ref]);
  assert.equal((await client.insert({ queue, taskId: task.taskId, delay: "2h" })).outcome, "replaced");
  await errorOf(ConfigurationError, client.insert({ queue, taskId: 2 ** 53 + 2 }));
});

behaviour([10], "a key is an identity", async ({ client, queue }) => {
  const first = await client.insert({ queue, payload: 1, key: queue, delay: "1h" });
  const second = await client.insert({ queue, payload: 2, key: queue, delay: "2h" });
  const kept = await client.insert({ queue, payload: 3, key: queue, onConflict: "keep" });
  assert.deepEqual([first.outcome, second.outcome, kept.outcome], ["created", "replaced", "existing"]);
  assert.equal((await client.get(`key:${queue}`)).payload, 2);
  const refused = await errorOf(TaskExists, client.insert({ queue, payload: 4, key: queue, onConflict: "fail" }));
  assert.equal(refused.code, "task.exists");
  assert.equal(refused.existing?.payload, 2);
});

behaviour([11], "a higher version supersedes a lower one", async ({ client, queue }) => {
  await client.insert({ queue, payload: "old", key: queue, taskVersion: 1, delay: "1h" });
  await client.insert({ queue, payload: "new", key: queue, taskVersion: 2, delay: "1h" });
  const older = client.insert({ queue, payload: "old", key: queue, taskVersion: 1 });
  const refused = await errorOf(VersionSuperseded, older);
  assert.equal(refused.code, "task.version_superseded");
  assert.equal(refused.existing?.task_version, 2);
  assert((await client.find({ key: queue })).some((task) => task.taskVersion === 2));
});

behaviour([12], "all settings of a task arrive", async ({ client, queue }) => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const inserted = await client.insert({
    queue,
    delay: "1h",
    name: "Ada's welcome",
    labels: { team: "growth", größe: "klein" },
    priority: 1,
    timeout: "1.5s",
    deadline: 7_200_000,
    maxAttempts: 7,
    retry: retry.exponential("1s", { factor: 3, maxDelay: "1m", jitter: 0.1 }),
    concurrencyKey: "customer-7",
    handlerVersions: ">=2.1, <3",
    traceparent,
  });
  const task = await client.get(inserted);
  assert.deepEqual([task.name, task.priority, task.timeoutMs, task.deadlineMs], ["Ada's welcome", 1, 1_500, 7_200_000]);
  assert.deepEqual(task.labels, { team: "growth", größe: "klein" });
  assert.deepEqual([task.maxAttempts, task.concurrencyKey, task.handlerVersions], [7, "customer-7", ">=2.1, <3"]);
  const policy = { strategy: "exponential", delay_ms: 1_000, factor: 3, max_delay_ms: 60_000, jitter: 0.1 };
  assert.deepEqual(task.retry, policy);
  assert.equal(task.traceparent?.split("-")[1], traceparent.split("-")[1]);
});

behaviour([13], "a field that is not valid is named", async (site) => {
  const proxy = await site.proxy();
  const client = site.clientOf(proxy.url);
  const refused = await errorOf(InvalidRequest, client.insert({ queue: "no spaces", priority: 9 }));
  assert.deepEqual(new Set(refused.errors.map((error) => error.pointer)), new Set(["/queue", "/priority"]));
  assert.equal(refused.code, "request.invalid");
  assert.equal(refused.mayHaveHappened, false);
  assert.equal(proxy.count("POST", "/v1/tasks"), 1);
  for (const payload of [NaN, { in: [Infinity] }, new Map(), { bytes: new Uint8Array(1) }, [() => 1]]) {
    await errorOf(TypeError, client.insert({ queue: "mail", payload }));
  }
  for (const delay of ["1 hour", "", -1, NaN, "1.5"]) {
    await errorOf(ConfigurationError, client.insert({ queue: "mail", delay }));
  }
  await errorOf(ConfigurationError, client.insert({ queue: "mail", delay: "1s", at: new Date() }));
  assert.equal(proxy.count("POST", "/v1/tasks"), 1);
});

behaviour([14], "a faulty task does not spoil its batch", async ({ client, queue }) => {
  const items = await client.insertMany([
    { queue, payload: 0 },
    { queue: "no spaces", payload: 1 },
    { queue, payload: 2, priority: 9 },
    { queue, payload: 3 },
  ]);
  assert.deepEqual(items.map((item) => item.status), [201, 400, 400, 201]);
  assert.deepEqual(items.map((item) => item.task?.payload), [0, undefined, undefined, 3]);
  assert.deepEqual([items[2]?.error?.code, items[2]?.error?.field], ["request.invalid", "/tasks/2/priority"]);
  assert(items[1]?.error instanceof InvalidRequest);
});

behaviour([15], "a batch of any length is sent in parts", async (site) => {
  const proxy = await site.proxy();
  async function* tasks(): AsyncGenerator<NewTask> {
    for (let nth = 0; nth < 10_003; nth += 1) yield { queue: site.queue, payload: nth, delay: "1d" };
  }
  const items = await site.clientOf(proxy.url).insertMany(tasks());
  assert.deepEqual(items.map((item) => item.task?.payload), Array.from({ length: 10_003 }, (_, nth) => nth));
  assert.deepEqual(proxy.calls.map((call) => call.body.tasks.length), [10_000, 3]);
});

behaviour([16], "an empty batch sends nothing", async (site) => {
  const proxy = await site.proxy();
  assert.deepEqual(await site.clientOf(proxy.url).insertMany([]), []);
  assert.deepEqual(proxy.calls, []);
});
