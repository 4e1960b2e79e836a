/** Tasks that exist: behaviours 29 to 35. */
import assert from "node:assert/strict";
import { AlreadyFired, isFinished, NotFound, Reject, WaitTimeout, type Task } from "punctual";
import { behaviour } from "./support/site.js";
import { errorOf, until } from "./support/waiting.js";

const HOUR_MS = 3_600_000;

behaviour([29], "a task is cancelled before its time", async ({ client, queue }) => {
  const task = await client.insert({ queue, delay: "1h" });
  assert.equal(await client.cancel(task), "cancelled");
  assert.equal((await client.get(task)).state, "cancelled");
  const fired = await client.insert({ queue });
  await until(async () => (await client.get(fired)).state !== "scheduled");
  const refused = await errorOf(AlreadyFired, client.cancel(fired));
  assert.equal(refused.code, "task.already_fired");
  assert.equal(await client.cancel(fired.ref, { stopIfFired: true }), "cancelled");
});

behaviour([30], "a task is rescheduled", async ({ client, queue }) => {
  const task = await client.insert({ queue, payload: 1, delay: "1h" });
  const at = new Date(Math.floor(Date.now() / 1_000) * 1_000 + 72 * HOUR_MS);
  const changed = await client.reschedule(task, { at, priority: 1, payload: { new: true } });
  assert.deepEqual([changed.executeAt, changed.priority, changed.payload], [at, 1, { new: true }]);
  const later = await client.reschedule(task, { delay: "4d" });
  assert(later.executeAt > at);
  assert.deepEqual((await client.get(task)).executeAt, later.executeAt);
});

behaviour([31], "a task is made due now", async ({ client, queue }) => {
  const task = await client.insert({ queue, delay: "1h" });
  assert.equal(await client.runNow(task), "scheduled");
  await until(async () => (await client.get(task)).state === "ready");
});

behaviour([32], "a search goes through all pages", async ({ client, queue }) => {
  const numbers = Array.from({ length: 25 }, (_, nth) => nth);
  await client.insertMany(numbers.map((payload) => ({ queue, payload, delay: "1h", labels: { odd: String(payload % 2) } })));
  const page = await client.search({ queue, limit: 10 });
  assert.equal(page.items.length, 10);
  assert(page.nextCursor);
  const found: number[] = [];
  for await (const task of client.iterate({ queue, limit: 10 })) found.push(task.payload as number);
  assert.deepEqual(found.sort((a, b) => a - b), numbers);
  const odd = await client.search({ queue, label: "odd=1", limit: 1_000 });
  assert(odd.items.length === 12 && odd.items.every((task) => (task.payload as number) % 2 === 1));
  const soon = new Date(Date.now() + HOUR_MS / 2);
  assert.equal((await client.search({ queue, dueBefore: soon })).items.length, 0);
  assert.equal((await client.search({ queue, dueAfter: soon })).items.length, 25);
});

behaviour([33], "a wait ends with the task or with its time", async (site) => {
  const { app, client } = site;
  const handler = app.task("handler", () => "done");
  const waiting = await handler.insert(undefined, { delay: "1h" });
  const given = await errorOf(WaitTimeout, client.wait(waiting, { timeout: "50ms" }));
  assert.match(given.message, /scheduled/);
  assert.equal((await client.get(waiting)).state, "scheduled");
  const left = errorOf(Error, client.wait(waiting, { signal: AbortSignal.timeout(50) }));
  assert.equal((await left).name, "TimeoutError");
  site.work();
  // Typed: as the handler returns it.
  const ended: Task<string> = await client.wait(await handler.insert());
  assert.deepEqual([ended.result?.toUpperCase(), isFinished(ended)], ["DONE", true]);
});

behaviour([34], "a dead task is found, redriven and deleted", async (site) => {
  const { app, client, queue } = site;
  let isFixed = false;
  const handler = app.task("handler", () => {
    if (!isFixed) throw new Reject("the mailbox is full");
    return "sent";
  });
  site.work();
  const task = await client.wait(await handler.insert());
  assert.equal(task.state, "dead");
  const dead = await client.deadLetters({ queue, error: "mailbox" });
  assert.deepEqual(dead.items.map((each) => each.ref), [task.ref]);
  isFixed = true;
  assert.equal(await client.redrive(task), "redriven");
  assert.equal((await client.wait(task)).result, "sent");
  assert.equal(await client.delete(task), "deleted");
  await errorOf(NotFound, client.get(task));
});

behaviour([35], "a task says what it waits for", async ({ client, queue }) => {
  assert.equal((await client.why(await client.insert({ queue, delay: "1h" }))).state, "scheduled");
  const buried = await client.insert({ queue, delay: "1h" });
  assert.equal(await client.bury(buried, { reason: "a test" }), "buried");
});
