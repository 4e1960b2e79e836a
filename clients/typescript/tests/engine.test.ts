/** The engine whose time a test moves: behaviour 71. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { App, Reject, retry } from "punctual";
import { Engine, findBinary } from "punctual/testing";
import { behaviour } from "./support/site.js";

/** With an engine of its own. */
async function withEngine(run: (engine: Engine) => Promise<void>): Promise<void> {
  const engine = await Engine.start();
  try {
    await run(engine);
  } finally {
    await engine.stop();
  }
}

behaviour([71], "time moves when the test moves it", () =>
  withEngine(async (engine) => {
    const ran: [string, number][] = [];
    const app = new App({ queue: "mail" });
    const began = engine.now.getTime();
    const remind = app.task("remind", { retry: retry.fixed("10m"), maxAttempts: 3 }, async (name: string, ctx) => {
      ran.push([name, Math.round((engine.now.getTime() - began) / 60_000)]);
      if (name === "flaky" && ctx.attempt < 3) throw new Error("not yet");
      if (name === "parent") await remind.insert("child", { delay: "30m" });
      return name;
    });
    engine.work(app);
    const week = await remind.insert("week", { delay: "7d" });
    const flaky = await remind.insert("flaky", { delay: "1h" });
    await remind.insert("parent", { delay: "70m" });
    assert.equal(await engine.advance("59m"), 0);
    assert.equal(await engine.advance("2m"), 1);
    assert.equal((await engine.client.get(flaky)).state, "retrying");
    assert.equal(await engine.advance("1d"), 4);
    assert.equal((await engine.client.get(flaky)).result, "flaky");
    assert.equal((await engine.client.get(week)).state, "scheduled");
    assert.equal(await engine.advance("6d"), 1);
    const minutes = ran.map(([, minute]) => minute);
    assert.deepEqual(minutes, [60, 70, 70, 80, 100, 7 * 24 * 60]);
    assert.deepEqual(ran.map(([name]) => name).sort(), ["child", "flaky", "flaky", "flaky", "parent", "week"]);
  }),
);

behaviour([71], "schedules and workflows follow", () =>
  withEngine(async (engine) => {
    const ran: string[] = [];
    const app = new App({ queue: "reports", version: "1.0.0" });
    const report = app.task("report", { handlerVersions: ">=1" }, (name: string) => {
      ran.push(name);
      return name;
    });
    const broken = app.task("broken", () => {
      throw new Reject("never");
    });
    engine.work(app);
    await engine.advance("3d");
    await engine.client.schedules.put("hourly", { task: report.task("hourly"), every: "1h" });
    await engine.advance("6h");
    assert([6, 7].includes(ran.length), ran.join());
    await engine.client.schedules.delete("hourly");
    ran.length = 0;
    const nodes = { a: { task: report.task("a") }, b: { task: report.task("b"), after: ["a"] } };
    const workflow = await engine.client.workflows.create({ nodes });
    assert.equal(await engine.runDue(), 2);
    assert.equal((await engine.client.workflows.get(workflow.ref)).state, "succeeded");
    assert.deepEqual(ran, ["a", "b"]);
    const dead = await broken.insert();
    assert.equal(await engine.runDue(), 1);
    assert.equal((await engine.client.get(dead)).lastError, "never");
  }),
);

test("a program that is missing is named", () => {
  assert.throws(() => findBinary("/no/such/punctual"), { name: "ConfigurationError", message: /PUNCTUAL_BIN/ });
});
