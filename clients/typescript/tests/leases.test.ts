/** Leases, queues, concurrency and the guard: behaviours 53 to 60, 62 and 63. */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { App, type Context, type JsonObject } from "punctual";
import { behaviour, notes, type Site } from "./support/site.js";
import { Gate, LIMIT_MS, until } from "./support/waiting.js";

/** Resolves when the handler should end. */
async function stopped(ctx: Context): Promise<void> {
  await ctx.sleep("60s").catch(() => undefined);
}

/** An application of the same handlers that reaches the server through a proxy. */
async function through(site: Site, handlers: (app: App) => void) {
  const proxy = await site.proxy();
  const app = new App({ queue: site.queue, client: site.clientOf(proxy.url, { tries: 1 }) });
  handlers(app);
  return { proxy, app };
}

behaviour([53], "a handler that outlives its lease keeps it", async (site) => {
  const runs: number[] = [];
  const long = site.app.task("long", async (_: unknown, ctx) => {
    runs.push(ctx.attempt);
    await sleep(4_500);
    return ctx.signal.aborted;
  });
  site.work(site.app, { lease: "3s" });
  const ended = await site.client.wait(await long.insert());
  assert.deepEqual(runs, [1]);
  assert.deepEqual([ended.result, ended.attempt], [false, 1]);
});

behaviour([54], "a lost lease is noticed and its outcome is not reported", async (site) => {
  const began: number[] = [];
  const reasons: unknown[] = [];
  const handlers = (app: App) =>
    app.task("handler", async (_: unknown, ctx) => {
      began.push(ctx.attempt);
      if (ctx.attempt === 1) {
        await stopped(ctx);
        reasons.push(ctx.stopReason);
      }
      return ctx.attempt;
    });
  const { proxy, app } = await through(site, handlers);
  const task = await handlers(site.app).insert();
  const cutOff = site.work(app, { lease: "3s", concurrency: 1, executor: "cut-off" });
  await until(() => began.length === 1);
  proxy.always("refuse", "POST", "/v1/heartbeats");
  site.work();
  assert.equal((await site.client.wait(task, { timeout: LIMIT_MS })).result, 2);
  proxy.never();
  await until(() => reasons.length === 1);
  assert.deepEqual(reasons, ["lost"]);
  assert.equal((await cutOff.stop()).lost, 1);
  assert.equal(proxy.count("POST", "/v1/outcomes"), 0);
  assert.deepEqual(began, [1, 2]);
});

behaviour([55], "an outcome that is too late is stale", async ({ client, queue }) => {
  const task = await client.insert({ queue });
  await until(async () => (await client.get(task)).state === "ready");
  const early = await client.lease({ max: 1, lease_ms: 100, executor: "late", wait_ms: 5_000 }, { queue });
  const first = early.tasks[0]!;
  const second = await until(async () => (await client.lease({ executor: "heir", wait_ms: 1_000 }, { queue })).tasks[0]);
  const report = async (leased: typeof first, result: string) =>
    (await client.report([{ ref: leased.ref, token: leased.token, outcome: "succeeded", result }]))[0]!.status;
  assert.equal(await report(first, "late"), "stale");
  assert.deepEqual([await report(second, "good"), await report(second, "again")], ["accepted", "stale"]);
  assert.equal((await client.get(task)).result, "good");
});

behaviour([56], "progress and log lines are seen while a handler runs", async (site) => {
  const { app, client } = site;
  const seen = new Gate();
  const wrong: unknown[] = [];
  const handler = app.task("handler", async (_: unknown, ctx) => {
    ctx.progress({ percent: 10 });
    ctx.progress({ percent: 50 });
    try {
      ctx.progress(NaN);
    } catch (error) {
      wrong.push(error);
    }
    ctx.log("half of it", "warn");
    ctx.log("größe \ud800");
    await seen.opened;
    ctx.log("the last line");
  });
  site.work(app, { lease: "3s" });
  const task = await handler.insert();
  await until(async () => ((await client.get(task)).progress as JsonObject | undefined)?.percent === 50);
  assert.deepEqual((await client.get(task)).log.map((line) => line.text), ["half of it", "größe \ufffd"]);
  seen.open();
  const ended = await client.wait(task);
  const lines = ended.log.map((line) => [line.level, line.text]);
  assert.deepEqual(lines, [["warn", "half of it"], ["info", "größe \ufffd"], ["info", "the last line"]]);
  assert(wrong[0] instanceof TypeError);
});

behaviour([53, 56], "progress that the server refuses costs no lease", async (site) => {
  const { app, client } = site;
  const began: number[] = [];
  let deep: unknown = null;
  for (let level = 0; level < 200; level += 1) deep = [deep];
  const handler = app.task("handler", async (_: unknown, ctx) => {
    began.push(ctx.attempt);
    ctx.progress(deep);
    await sleep(4_500);
  });
  site.work(app, { lease: "3s" });
  assert.equal((await client.wait(await handler.insert())).state, "succeeded");
  assert.deepEqual(began, [1]);
});

behaviour([57], "a cancelled handler is notified", async (site) => {
  const { app, client } = site;
  let began = 0;
  const polite = app.task("polite", async (_: unknown, ctx) => {
    began += 1;
    await stopped(ctx);
    return `ended: ${ctx.stopReason}`;
  });
  const obedient = app.task("obedient", { maxAttempts: 1 }, async (_: unknown, ctx) => {
    began += 1;
    for (;;) {
      await sleep(1);
      ctx.throwIfStopping();
    }
  });
  site.work(app, { lease: "3s" });
  const tasks = [await polite.insert(), await obedient.insert()] as const;
  await until(() => began === 2);
  for (const task of tasks) assert.equal(await client.cancel(task, { stopIfFired: true }), "stop_requested");
  const [first, second] = [await client.wait(tasks[0]), await client.wait(tasks[1])];
  assert.deepEqual([first.state, first.result], ["succeeded", "ended: cancelled"]);
  assert.deepEqual([second.state, second.lastError], ["cancelled", "stopped by its handler: cancelled"]);
});

behaviour([58], "several queues, each with its bound", async (site) => {
  const gate = new Gate();
  const running = new Map<string, number>();
  const most = new Map<string, number>();
  const handlers = (app: App) =>
    app.task("handler", async (name: string) => {
      const count = (running.get(name) ?? 0) + 1;
      running.set(name, count);
      most.set(name, Math.max(most.get(name) ?? 0, count));
      await gate.opened;
      running.set(name, running.get(name)! - 1);
    });
  const [slow, fast] = [`${site.queue}-slow`, `${site.queue}-fast`];
  const handler = handlers(site.app);
  const tasks = [slow, fast].flatMap((queue) => Array.from({ length: 6 }, () => handler.task(queue, { queue })));
  const items = await site.client.insertMany(tasks);
  const { proxy, app } = await through(site, handlers);
  site.work(app, { queues: [{ name: slow, concurrency: 2 }, fast], concurrency: 8 });
  await until(() => running.get(slow) === 2 && running.get(fast) === 6);
  gate.open();
  for (const { task } of items) assert.equal((await site.client.wait(task!)).state, "succeeded");
  assert.deepEqual([most.get(slow), most.get(fast)], [2, 6]);
  assert.equal(proxy.count("POST", "/v1/queues"), 0);
  assert(proxy.count("POST", "/v1/lease") >= 2);
});

behaviour([59], "as many run as the concurrency and no more", async (site) => {
  const gate = new Gate();
  let [running, most] = [0, 0];
  const handler = site.app.task("handler", async () => {
    running += 1;
    most = Math.max(most, running);
    await gate.opened;
    running -= 1;
  });
  const items = await site.client.insertMany(Array.from({ length: 20 }, () => handler.task()));
  site.work(site.app, { concurrency: 4 });
  await until(() => running === 4);
  gate.open();
  for (const { task } of items) assert.equal((await site.client.wait(task!)).state, "succeeded");
  assert.equal(most, 4);
});

behaviour([60], "several tasks are leased with one call", async (site) => {
  const { client } = site;
  const handlers = (app: App) => app.task("handler", () => undefined);
  const handler = handlers(site.app);
  const items = await client.insertMany(Array.from({ length: 50 }, () => handler.task()));
  await until(async () => (await client.search({ queue: site.queue, state: "ready" })).items.length === 50);
  const { proxy, app } = await through(site, handlers);
  site.work(app, { concurrency: 100 });
  for (const { task } of items) assert.equal((await client.wait(task!)).state, "succeeded");
  const leases = proxy.calls.filter((call) => call.path.endsWith("/lease"));
  assert.deepEqual([leases[0]?.body.max, leases[0]?.body.wait_ms], [100, 20_000]);
  assert(leases.length < 10);
  assert(proxy.count("POST", "/v1/outcomes") < 25);
  assert(proxy.count("POST", "/v1/heartbeats") < 10);
});

/** A `fetch` after which another worker has begun the first attempt of each leased task, and is faster. */
function overtaken(site: Site): typeof fetch {
  return async (input, init) => {
    const answer = await fetch(input, init);
    if (!String(input).endsWith("/lease")) return answer;
    const text = await answer.text();
    const { tasks } = JSON.parse(text) as { tasks: { ref: string; token: string; attempt: number }[] };
    const leases = tasks.filter((task) => task.attempt === 1).map(({ ref, token }) => ({ ref, token }));
    if (leases.length) {
      const begun = await site.client.heartbeat({ executor: "the-other", leases });
      assert.deepEqual(begun.leases.map((lease) => lease.has_begun), leases.map(() => true));
    }
    return new Response(text, { status: answer.status });
  };
}

behaviour([62], "of two workers the guard lets one execute it", async (site) => {
  const runs: number[] = [];
  const client = site.clientOf(site.server.url, { fetch: overtaken(site) });
  const app = new App({ queue: site.queue, client });
  const handler = app.task("handler", (_: unknown, ctx) => {
    runs.push(ctx.attempt);
    return ctx.attempt;
  });
  const task = await handler.insert();
  const logger = notes();
  const worker = site.work(app, { lease: "3s", logger });
  assert.equal((await site.client.wait(task, { timeout: LIMIT_MS })).result, 2);
  assert.deepEqual(runs, [2]);
  const said = `task ${task.ref} attempt 1 is not executed here: another executor has begun it`;
  assert(logger.lines.includes(said), logger.lines.join("\n"));
  assert.equal((await worker.stop()).guarded, 1);
});

behaviour([63], "a guard that does not answer keeps no task from running", async (site) => {
  for (const fault of ["hang", "refuse"] as const) {
    const handlers = (app: App) => app.task("handler", () => "ran");
    const { proxy, app } = await through(site, handlers);
    proxy.always(fault, "POST", "/v1/heartbeats");
    const worker = site.work(app, { lease: "1s" });
    const task = await site.client.insert({ queue: site.queue, kind: "handler" });
    assert.equal((await site.client.wait(task, { timeout: LIMIT_MS })).result, "ran");
    await worker.stop();
  }
});
