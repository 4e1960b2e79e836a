/** The examples run as they are. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { NestFactory } from "@nestjs/core";
import { AlreadyFired } from "punctual";
import { Server } from "punctual/testing";
import { Reminders, TasksModule, WorkerModule } from "../examples/nestjs.js";
import { errorOf } from "./support/waiting.js";

test("NestJS inserts and works", async () => {
  const server = await Server.start();
  process.env.PUNCTUAL_URL = server.url;
  try {
    const web = await NestFactory.createApplicationContext(TasksModule, { logger: false });
    const reminders = web.get(Reminders);
    const tea = { to: "ada", text: "tea" };
    const later = new Date(Date.now() + 3_600_000);
    assert.equal((await reminders.create("a", tea, later)).outcome, "created");
    assert.equal((await reminders.create("a", tea, later)).outcome, "replaced");
    await reminders.withdraw("a");
    assert.equal((await server.client.get("key:reminder:a")).state, "cancelled");
    const due = await reminders.create("b", tea, new Date());
    const worker = await NestFactory.createApplicationContext(WorkerModule, { logger: false });
    assert.equal((await server.client.wait(due)).result, "to ada: tea");
    await errorOf(AlreadyFired, reminders.withdraw("b"));
    await worker.close();
    await web.close();
    await worksUntilSigterm(server, reminders, tea);
  } finally {
    await server.stop();
    delete process.env.PUNCTUAL_URL;
  }
});

/** The example as a program. */
async function worksUntilSigterm(server: Server, reminders: Reminders, tea: { to: string; text: string }): Promise<void> {
  const file = fileURLToPath(new URL("../examples/nestjs.js", import.meta.url));
  const program = spawn(process.execPath, [file], { stdio: ["ignore", "ignore", "inherit"] });
  const exited = once(program, "exit");
  const task = await reminders.create("c", tea, new Date());
  assert.equal((await server.client.wait(task)).result, "to ada: tea");
  program.kill("SIGTERM");
  const [code, signal] = (await exited) as [number | null, string | null];
  assert(code === 0 || signal === "SIGTERM", `${code} ${signal}`);
}
