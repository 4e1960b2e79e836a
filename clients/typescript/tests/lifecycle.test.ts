/** Servers that go and come back, workers that end: behaviours 64 to 69. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { App, Unreachable, type WorkerOptions } from "punctual";
import { behaviour, notes, type Site } from "./support/site.js";
import { errorOf, Gate, LIMIT_MS, until } from "./support/waiting.js";

const APPLICATION = fileURLToPath(new URL("support/application.js", import.meta.url));

/** Runs a worker in a process of its own while the test uses it. */
async function withProcess(
  site: Site,
  options: WorkerOptions,
  use: (worker: ChildProcess, lines: string[]) => Promise<void>,
): Promise<void> {
  const env = { ...process.env, PUNCTUAL_URL: site.server.url, TEST_QUEUE: site.queue };
  const worker = spawn(process.execPath, [APPLICATION], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...env, TEST_OPTIONS: JSON.stringify(options) },
  });
  const lines: string[] = [];
  worker.stdout.setEncoding("utf8").on("data", (text: string) => lines.push(...text.split("\n")));
  try {
    await use(worker, lines);
  } finally {
    worker.kill("SIGKILL");
  }
}

async function exitCode(worker: ChildProcess): Promise<number | null> {
  await until(() => worker.exitCode !== null || worker.signalCode !== null);
  return worker.exitCode;
}

behaviour([64], "the server was gone and is back", async (site) => {
  const server = await site.ownServer();
  const gate = new Gate();
  const began: string[] = [];
  const app = new App({ queue: "mail", client: site.clientOf(server.url) });
  const handler = app.task("handler", async (name: string) => {
    began.push(name);
    await gate.opened;
    return name;
  });
  const task = await handler.insert("meanwhile");
  site.work(app, { lease: "10s" });
  await until(() => began.length === 1);
  await server.terminate();
  gate.open();
  await errorOf(Unreachable, site.clientOf(server.url, { tries: 1 }).get(task));
  await server.restart();
  const ended = await server.client.wait(task, { timeout: LIMIT_MS });
  assert.deepEqual([ended.result, ended.attempt, began], ["meanwhile", 1, ["meanwhile"]]);
  const after = await handler.insert("after");
  assert.equal((await server.client.wait(after, { timeout: LIMIT_MS })).result, "after");
});

behaviour([65], "a killed server loses no task", async (site) => {
  const server = await site.ownServer();
  const app = new App({ queue: "mail", client: site.clientOf(server.url) });
  const handler = app.task("handler", (number: number) => number);
  const insert = async (from: number) => {
    const tasks = Array.from({ length: 20 }, (_, nth) => handler.task(from + nth));
    return (await app.client.insertMany(tasks)).map((item) => item.task!);
  };
  const tasks = await insert(0);
  site.work(app, { lease: "1s" });
  await until(async () => (await app.client.get(tasks[0]!)).state === "succeeded");
  tasks.push(...(await insert(20)), await handler.insert(40, { delay: "200ms" }));
  await server.kill();
  await server.restart();
  const ended = [];
  for (const task of tasks) ended.push((await app.client.wait(task, { timeout: LIMIT_MS })).result);
  assert.deepEqual(ended, Array.from({ length: 41 }, (_, nth) => nth));
});

behaviour([66], "SIGTERM lets handlers finish", async (site) => {
  const { client, queue } = site;
  const directory = mkdtempSync(join(tmpdir(), "punctual-held-"));
  const file = join(directory, "held");
  writeFileSync(file, "");
  const running = await client.insert({ queue, kind: "held-by", payload: file });
  await withProcess(site, { grace: "40s", executor: "ends-in-order" }, async (worker, lines) => {
    await until(() => existsSync(`${file}.begun`));
    worker.kill("SIGTERM");
    await until(() => lines.some((line) => line.includes("takes no new tasks; 1 still run")));
    const later = await client.insert({ queue, kind: "double", payload: 4 });
    await until(async () => (await client.get(later)).state === "ready");
    rmSync(directory, { recursive: true });
    assert.equal(await exitCode(worker), 0);
    assert(lines.some((line) => line.startsWith('worked: {"succeeded":1,')), lines.join("\n"));
    const ended = await client.get(running);
    assert.deepEqual([ended.state, ended.result, ended.attempt], ["succeeded", "finished", 1]);
    assert.equal((await client.get(later)).state, "ready");
  });
});

behaviour([67], "what has not ended in time is handed back", async (site) => {
  const { client, queue } = site;
  const stubborn = await client.insert({ queue, kind: "endless", maxAttempts: 1 });
  await withProcess(site, { grace: "100ms", lease: "3s" }, async (worker) => {
    await until(async () => (await client.get(stubborn)).progress === "begun");
    worker.kill("SIGTERM");
    const { tasks } = await client.lease({ max: 1, wait_ms: 20_000, executor: "heir" }, { queue });
    const again = tasks[0]!;
    assert.deepEqual([again.ref, again.attempt], [stubborn.ref, 1]);
    const receipts = await client.report([{ ref: again.ref, token: again.token, outcome: "succeeded" }]);
    assert.equal(receipts[0]?.status, "accepted");
    // The handler goes on, and does not keep the process from ending.
    assert.equal(await exitCode(worker), 0);
  });
});

behaviour([67], "a handler is asked to end when it is handed back", async (site) => {
  const reasons: unknown[] = [];
  const handler = site.app.task("handler", async (_: unknown, ctx) => {
    await ctx.sleep("60s").catch(() => reasons.push(ctx.stopReason));
  });
  const worker = site.work(site.app, { grace: "50ms", lease: "3s" });
  const task = await handler.insert();
  await until(async () => (await site.client.get(task)).state === "running");
  assert.deepEqual([(await worker.stop()).handedBack, reasons], [1, ["shutdown"]]);
});

behaviour([68], "a drained worker finishes and ends", async (site) => {
  const { app, client, queue } = site;
  const gate = new Gate();
  let hasBegun = false;
  const handler = app.task("handler", async () => {
    hasBegun = true;
    await gate.opened;
    return "finished";
  });
  const logger = notes();
  const worker = site.work(app, { lease: "3s", executor: `drained-${queue}`, logger });
  const first = await handler.insert();
  await until(() => hasBegun);
  await client.executors.drain(worker.name);
  await until(() => logger.lines.some((line) => line.endsWith("takes no new tasks; 1 still run")));
  const left = await handler.insert();
  gate.open();
  assert.equal((await worker.ended()).succeeded, 1);
  assert.equal((await client.get(first)).result, "finished");
  assert(["scheduled", "ready"].includes((await client.get(left)).state));
});

behaviour([69], "a worker is known and is gone when it has ended", async (site) => {
  const { app, client, queue } = site;
  const handler = app.task("handler", () => undefined);
  const name = `known-${queue}`;
  const said = { version: "2.1.0", host: "a.example.org", labels: { zone: "a" } };
  const worker = site.work(app, { lease: "3s", executor: name, concurrency: 3, ...said });
  assert.equal((await client.wait(await handler.insert())).state, "succeeded");
  const isKnown = async () => (await client.executors.list({ limit: 1_000 })).items.some((each) => each.name === name);
  await until(isKnown);
  const { queues, version, host, labels, capacity, kinds } = await client.executors.get(name);
  assert.deepEqual({ version, host, labels }, said);
  assert.deepEqual({ queues, capacity, kinds }, { queues: [queue], capacity: 3, kinds: ["handler"] });
  await worker.stop();
  await until(async () => !(await isKnown()));
});
