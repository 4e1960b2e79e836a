/** Queues, schedules, workflows, bulk operations: behaviours 36 to 43. */
import assert from "node:assert/strict";
import {
  ConfigurationError,
  expr,
  NotFound,
  PreconditionFailed,
  QueueFull,
  Reject,
  WaitTimeout,
  type NewSchedule,
} from "punctual";
import { behaviour } from "./support/site.js";
import { errorOf, until } from "./support/waiting.js";

behaviour([36], "settings change with a revision", async ({ client, queue }) => {
  const first = await client.queues.put(queue, { concurrency: 5, maxAttempts: 2 });
  const { revision } = first;
  const second = await client.queues.patch(queue, { concurrency: null, maxWaiting: 10 }, { revision });
  assert.deepEqual([second.concurrency, second.maxAttempts, second.maxWaiting], [undefined, 2, 10]);
  const refused = await errorOf(PreconditionFailed, client.queues.patch(queue, { concurrency: 1 }, { revision }));
  assert.equal(refused.code, "precondition.failed");
  assert.equal((await client.queues.get(queue)).revision, second.revision);
  assert((await client.queues.list({ prefix: queue })).items.some((each) => each.queue === queue));
  assert.equal((await client.queues.reset(queue)).maxWaiting, undefined);
});

behaviour([37], "no task of a paused queue starts", async (site) => {
  const { app, client, queue } = site;
  const handler = app.task("handler", () => undefined);
  const paused = await client.queues.pause(queue, { reason: "the provider is down" });
  assert.equal(paused.pause?.reason, "the provider is down");
  site.work();
  const task = await handler.insert();
  await until(async () => (await client.get(task)).state === "ready");
  await errorOf(WaitTimeout, client.wait(task, { timeout: "300ms" }));
  assert.equal((await client.queues.resume(queue)).pause, undefined);
  assert.equal((await client.wait(task)).state, "succeeded");
});

behaviour([38], "a full queue refuses", async (site) => {
  const client = site.clientOf(site.server.url, { tries: 1 });
  await client.queues.patch(site.queue, { maxWaiting: 2 });
  // Engines apply a change within a second.
  const refused = await until(async () => {
    const inserted = client.insert({ queue: site.queue, delay: "1h" });
    return inserted.then(() => undefined, (error: unknown) => error as QueueFull);
  });
  assert(refused instanceof QueueFull);
  assert.deepEqual([refused.code, refused.mayHaveHappened], ["queue.full", false]);
  assert(refused.retryAfterMs !== undefined);
});

behaviour([39], "the life of a schedule", async ({ client, queue }) => {
  const { schedules } = client;
  const wanted: NewSchedule = {
    task: { queue, kind: "digest", payload: { at: expr("scheduled_at") } },
    cron: "0 9 * * MON-FRI",
    timeZone: "Europe/Berlin",
    overlap: "skip",
  };
  const stored = await schedules.put(queue, wanted);
  assert.deepEqual([stored.cron, stored.timeZone, stored.task.kind], [["0 9 * * MON-FRI"], "Europe/Berlin", "digest"]);
  const again = await schedules.put(queue, wanted);
  assert.equal(again.revision, stored.revision);
  const coming = await schedules.nextRuns(queue, 3);
  assert.equal(coming.length, 3);
  assert.deepEqual(coming[0], again.nextRunAt);
  const run = await schedules.run(queue);
  assert.equal((await client.get(run.taskRef!)).kind, "digest");
  assert.equal((await schedules.runs(queue)).items[0]?.taskRef, run.taskRef);
  assert((await schedules.pause(queue, { reason: "a holiday" })).pause);
  assert.equal((await schedules.resume(queue)).pause, undefined);
  assert((await schedules.list({ limit: 1_000 })).items.some((each) => each.name === queue));
  await schedules.delete(queue);
  await errorOf(NotFound, schedules.get(queue));
  const task = { queue, delay: "1h" };
  assert.match((await errorOf(ConfigurationError, schedules.put(queue, { task, every: "1h" }))).message, /delay/);
});

behaviour([40], "a schedule makes its tasks by itself", async (site) => {
  const { app, client, queue } = site;
  const seen: string[] = [];
  const tick = app.task("tick", (name: string) => void seen.push(name));
  site.work();
  await client.schedules.put(queue, { task: tick.task("a tick"), every: "1s" });
  await until(() => seen.length >= 2);
  await client.schedules.delete(queue);
  assert.deepEqual(new Set(seen), new Set(["a tick"]));
});

behaviour([41], "a workflow passes results on", async (site) => {
  const { app, client } = site;
  const price = app.task("price", ({ item }: { item: string }) => ({ item, cents: 2n ** 60n }));
  const bill = app.task("bill", ({ of }: { of: { cents: bigint } }) => of.cents + 1n);
  site.work();
  const created = await client.workflows.create({
    name: "order",
    input: { item: "tea" },
    nodes: {
      price: { task: price.task({ item: expr("input.item") }) },
      bill: { task: bill.task({ of: expr("nodes.price.result") }), after: ["price"] },
    },
  });
  const workflow = await client.workflows.wait(created.ref);
  assert.equal(workflow.state, "succeeded");
  assert.equal(workflow.nodes.bill?.result, 2n ** 60n + 1n);
  assert.match(await client.workflows.graph(workflow.ref), /bill/);
  const { nodes } = (await client.workflows.graphData(workflow.ref)) as { nodes: { name: string }[] };
  assert.deepEqual(nodes.map((node) => node.name).sort(), ["bill", "price"]);
  assert((await client.workflows.list({ name: "order" })).items.some((each) => each.ref === workflow.ref));
});

behaviour([42], "a workflow compensates", async (site) => {
  const { app, client, queue } = site;
  const seen: string[] = [];
  const step = app.task("step", (name: string) => {
    seen.push(name);
    if (name === "pay") throw new Reject("no money");
    return name;
  });
  site.work();
  const created = await client.workflows.create({
    nodes: {
      reserve: { task: step.task("reserve"), compensate: { task: step.task("release") } },
      pay: { task: step.task("pay"), after: ["reserve"] },
    },
  });
  assert.equal((await client.workflows.wait(created.ref)).state, "compensated");
  assert.deepEqual(seen, ["reserve", "pay", "release"]);
  const idle = await client.workflows.create({ nodes: { a: { task: { queue: `${queue}-idle` } } } });
  await client.workflows.cancel(idle.ref, { reason: "a test" });
  assert.equal((await client.workflows.wait(idle.ref)).state, "cancelled");
});

behaviour([43], "a bulk operation", async ({ client, queue }) => {
  const labels = { campaign: "spring" };
  await client.insertMany(Array.from({ length: 20 }, (_, payload) => ({ queue, payload, delay: "1h", labels })));
  const filter = { queue, label: "campaign=spring" };
  const preview = await client.bulk.preview({ action: "cancel", filter, reason: "a test" });
  assert.deepEqual([preview.state, preview.count], ["previewed", 20]);
  const done = await client.bulk.wait((await client.bulk.confirm(preview)).id);
  assert.deepEqual([done.state, done.done, done.failed], ["done", 20, 0]);
  for await (const task of client.iterate({ queue })) assert.equal(task.state, "cancelled");
  assert((await client.bulk.list()).items.some((each) => each.id === preview.id));
});
