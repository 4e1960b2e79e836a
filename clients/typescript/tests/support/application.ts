/** The worker of processes that tests start: it knows its server and its queue from the environment. */
import { existsSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { App, Worker } from "punctual";

const app = new App({ queue: process.env.TEST_QUEUE! });

app.task("double", (number: number) => number * 2);

app.task("endless", async (_: unknown, ctx) => {
  ctx.progress("begun");
  for (;;) await sleep(50);
});

/** Runs while the file is there. */
app.task("held-by", async (file: string) => {
  writeFileSync(`${file}.begun`, "");
  while (existsSync(file)) await sleep(10);
  return "finished";
});

const worked = await new Worker(app, { ...JSON.parse(process.env.TEST_OPTIONS ?? "{}"), logger: console }).run();
console.info(`worked: ${JSON.stringify(worked)}`);
