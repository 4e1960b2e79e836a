/** Workers: behaviours 44 to 52, 61 and 70. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { App, ConfigurationError, Reject, retry, RetryLater, Snooze, Worker, type StandardSchema } from "punctual";
import { behaviour } from "./support/site.js";
import { until } from "./support/waiting.js";

behaviour([44], "a handler gets its payload and gives its result", async (site) => {
  const { app, client, queue } = site;
  const plain = app.task("plain", ({ name, count = 2 }: { name: string; count?: number }) => name.repeat(count));
  const waits = app.task("waits", async (name: string, ctx) => {
    await sleep(1);
    return { name, attempt: ctx.attempt, ref: ctx.ref };
  });
  app.handleAny((ctx) => [ctx.task.kind, ctx.payload]);
  site.work();
  const one = await client.wait(await plain.insert({ name: "a" }));
  const two = await client.wait(await plain.insert({ name: "a", count: 3 }));
  const three = await client.wait(await waits.insert("b"));
  assert.deepEqual([one.result, two.result], ["aa", "aaa"]);
  assert.deepEqual(three.result, { name: "b", attempt: 1, ref: three.ref });
  const other = await client.insert({ queue, payload: [1], kind: "other" });
  assert.deepEqual((await client.wait(other)).result, ["other", [1]]);
  assert.deepEqual(plain.task({ name: "a" }, { priority: 1 }), { queue, kind: "plain", priority: 1, payload: { name: "a" } });
});

behaviour([45], "an error is retried by the policy", async (site) => {
  const attempts: [number, boolean][] = [];
  const flaky = site.app.task("flaky", { maxAttempts: 3, retry: retry.delays(["10ms", "30ms"]) }, (_: unknown, ctx) => {
    attempts.push([ctx.attempt, ctx.isLastAttempt]);
    throw new TypeError(`attempt ${ctx.attempt}: größe`, { cause: new Error("the \ud800 cause") });
  });
  site.work();
  const ended = await site.client.wait(await flaky.insert());
  assert.deepEqual(attempts, [[1, false], [2, false], [3, true]]);
  assert.deepEqual([ended.state, ended.phase, ended.attempt], ["dead", "failed", 3]);
  const said = ended.lastError!;
  assert(said.startsWith("TypeError: attempt 3: größe\n"), said);
  assert.match(said, /at .*worker\.test\.js/);
  assert.match(said, /caused by: Error: the \ufffd cause/);
  assert.doesNotMatch(said, /execute\.js|node:internal/);
});

behaviour([46], "a handler sets the time of its next attempt", async (site) => {
  const busy = site.app.task("busy", { retry: retry.fixed("1h") }, (_: unknown, ctx) => {
    if (ctx.attempt === 1) throw new RetryLater("20ms", "the provider says 429");
    return ctx.attempt;
  });
  site.work();
  const ended = await site.client.wait(await busy.insert());
  assert.equal(ended.result, 2);
  assert.match(JSON.stringify(ended.history), /the provider says 429/);
});

behaviour([47], "a rejected task is dead at once", async (site) => {
  const never = site.app.task("never", { maxAttempts: 5 }, async () => {
    throw new Reject("no such customer");
  });
  site.work();
  const ended = await site.client.wait(await never.insert());
  assert.deepEqual([ended.state, ended.attempt, ended.lastError], ["dead", 1, "no such customer"]);
});

behaviour([48], "a snoozed attempt does not count", async (site) => {
  let runs = 0;
  const later = site.app.task("later", { maxAttempts: 1 }, () => {
    runs += 1;
    if (runs < 3) throw new Snooze("10ms");
    return runs;
  });
  site.work();
  const ended = await site.client.wait(await later.insert());
  assert.deepEqual([ended.state, ended.result], ["succeeded", 3]);
});

/** As libraries of schemas have it. */
const numberSchema: StandardSchema<{ number: number }> = {
  "~standard": {
    validate: (value) => {
      const { number } = (value ?? {}) as { number?: unknown };
      return typeof number === "number"
        ? { value: { number } }
        : { issues: [{ message: "must be a number", path: ["number"] }] };
    },
  },
};

behaviour([49], "a payload that does not fit is rejected", async (site) => {
  const { app, client, queue } = site;
  const double = app.task("double", { schema: numberSchema }, ({ number }) => number * 2);
  app.task("positive", { schema: (payload) => positive(payload) }, (number) => number);
  site.work();
  assert.equal((await client.wait(await double.insert({ number: 4 }))).result, 8);
  for (const kind of ["double", "positive"]) {
    for (const payload of [{ other: 1 }, {}, undefined, "text", -1]) {
      const ended = await client.wait(await client.insert({ queue, payload, kind, maxAttempts: 5 }));
      assert.deepEqual([ended.state, ended.attempt], ["dead", 1]);
      const why = kind === "double" ? "number: must be a number" : "not above 0";
      assert.equal(ended.lastError, `the payload does not fit: ${why}`);
    }
  }
});

function positive(payload: unknown): number {
  if (typeof payload !== "number" || payload <= 0) throw new Error("not above 0");
  return payload;
}

behaviour([50], "a task without a handler fails or is left to others", async (site) => {
  const { app, client, queue } = site;
  const known = app.task("known", () => "known");
  const taking = site.work();
  const ended = await client.wait(await client.insert({ queue, kind: "unknown", maxAttempts: 1 }));
  assert.deepEqual([ended.state, ended.lastError], ["dead", "no handler for kind unknown"]);
  await taking.stop();
  site.work(app, { onlyOwnKinds: true });
  const left = await client.insert({ queue, kind: "unknown" });
  assert.equal((await client.wait(await known.insert())).result, "known");
  assert.equal((await client.get(left)).state, "ready");
  const other = new App({ queue, client });
  other.task("unknown", () => "the other");
  site.work(other, { onlyOwnKinds: true });
  assert.equal((await client.wait(left)).result, "the other");
});

behaviour([51], "a result that cannot be written is rejected", async (site) => {
  const { app, client } = site;
  let deep: unknown = null;
  for (let level = 0; level < 200; level += 1) deep = [deep];
  const results: Record<string, unknown> = { set: new Set([1]), nan: NaN, deep, half: "\ud800", good: "good" };
  const result = app.task("result", { maxAttempts: 1 }, (name: string) => results[name]);
  const tasks = [];
  for (const name of Object.keys(results)) tasks.push(await result.insert(name));
  site.work();
  const ended = await Promise.all(tasks.map((task) => client.wait(task)));
  assert.deepEqual(ended.map((task) => task.state), ["dead", "dead", "dead", "dead", "succeeded"]);
  assert.match(ended[0]!.lastError!, /Set is not JSON/);
  assert.match(ended[1]!.lastError!, /NaN is not JSON/);
  for (const refused of ended.slice(2, 4)) assert.match(refused.lastError!, /the server refused the outcome/);
});

behaviour([52], "a handler that runs too long has failed", async (site) => {
  const begun: boolean[] = [];
  const reasons: unknown[] = [];
  const slow = site.app.task("slow", { timeout: "150ms", maxAttempts: 1 }, async (isPolite: boolean, ctx) => {
    begun.push(isPolite);
    if (isPolite) {
      await ctx.sleep("60s").catch(() => reasons.push(ctx.stopReason));
      return "too late";
    }
    return sleep(60_000, undefined, { signal: ctx.signal }).catch((error: Error) => {
      reasons.push((error.cause as Error).message);
      throw error;
    });
  });
  site.work();
  for (const isPolite of [true, false]) {
    // Where the machine is slow, the server may say it before the handler has begun.
    while (!begun.includes(isPolite)) {
      const ended = await site.client.wait(await slow.insert(isPolite));
      assert.equal(ended.state, "dead");
      // The worker's word or the server's: whichever is first.
      assert.match(ended.lastError!, /ran longer than its timeout of 0.15 s|did not finish within 150 ms/);
    }
  }
  await until(() => reasons.length === begun.length);
  assert(reasons.every((reason) => reason === "timeout"), reasons.join());
});

behaviour([61], "versions of handlers", async (site) => {
  const { app, client } = site;
  const handler = app.task("handler", { handlerVersions: ">=2.1, <3" }, () => undefined);
  const task = await handler.insert();
  site.work(app, { version: "1.9.0", executor: "old" });
  const plain = await handler.insert(undefined, { handlerVersions: undefined });
  assert.equal((await client.wait(plain)).state, "succeeded");
  assert.equal((await client.get(task)).state, "ready");
  site.work(app, { version: "2.1.0", executor: "new" });
  const ended = await client.wait(task);
  assert(ended.history.some((entry) => entry.by === "new"));
});

behaviour([70], "the trace context is handed over", async (site) => {
  const handler = site.app.task("handler", (_: unknown, ctx) => ctx.task.traceparent);
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  site.work();
  const { result } = await site.client.wait(await handler.insert(undefined, { traceparent }));
  assert.equal(result?.split("-")[1], traceparent.split("-")[1]);
});

test("wrong settings are refused at once", () => {
  const app = new App();
  assert.throws(() => new Worker(app), { message: /at least one handler/ });
  app.task("handler", () => undefined);
  const wrong = [{ concurrency: 0 }, { concurrency: 1.5 }, { lease: "50ms" }, { queues: [] }, { wait: "2m" }];
  for (const options of wrong) assert.throws(() => new Worker(app, options), ConfigurationError);
  assert.throws(() => new Worker(app, { queues: [{ name: "mail", concurrency: 0 }] }), ConfigurationError);
  assert.throws(() => app.task("handler", () => undefined), { message: /two tasks named handler/ });
  app.handleAny(() => undefined);
  assert.throws(() => new Worker(app, { onlyOwnKinds: true }), ConfigurationError);
});
