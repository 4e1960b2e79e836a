// Drives the console of one server through every flow: `node main.mjs SETUP.json`. Says a line of JSON for each flow that has ended;
// and asks its parent, who holds the server, to kill it and to start it again. Its parent answers each line with one.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { launch, Tab, ensure } from "./browser.mjs";

// Side by side. Most of a flow is waiting for the page to be sent what changed.
const AT_ONCE = 4;
const setup = JSON.parse(readFileSync(process.argv[2], "utf8"));

const server = {
  url: setup.url,
  token: setup.token,
  async api(method, path, body, { expect = [200, 201, 202], token = this.token, namespace } = {}) {
    const headers = { authorization: `Bearer ${token}`, ...(namespace ? { "punctual-namespace": namespace } : {}), ...(body === undefined ? {} : { "content-type": "application/json" }) };
    const ask = () => fetch(this.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    let answer = await ask();
    // As any client does: a store that is slow beside everything else tells inserts to come again.
    for (const begun = performance.now(); answer.status === 429 && ![expect].flat().includes(429) && performance.now() - begun < setup.hang_limit_ms; ) {
      await sleep(1_000 * Number(answer.headers.get("retry-after") ?? 1));
      answer = await ask();
    }
    const text = await answer.text();
    ensure([expect].flat().includes(answer.status), `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  },
  insert(task) { return this.api("POST", "/v1/tasks", task); },
  async lease(queue, max = 10, executor = "flow") { return (await this.api("POST", `/v1/queues/${queue}/lease`, { max, wait_ms: 0, lease_ms: 600_000, executor })).tasks; },
  report(task, outcome) { return this.api("POST", "/v1/outcomes", { outcomes: [{ ref: task.ref, token: task.token, ...outcome }] }); },
  task(task) { return this.api("GET", `/v1/tasks/${task.ref}`); },
};

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
/** `kill` or `start`: done when it is done. */
async function please(what) {
  process.stdout.write(`${JSON.stringify({ please: what })}\n`);
  const { value } = await lines.next();
  ensure(value === "done", `the test did not ${what} the server: ${value}`);
}

const browser = await launch(setup.directory, setup.url);
async function run(name) {
  const begun = performance.now();
  const tab = await Tab.open(browser, server, name, setup.directory);
  const tabs = [tab];
  const open = async () => { const it = await Tab.open(browser, server, `${name} ${tabs.length + 1}`, setup.directory); tabs.push(it); return it; };
  let fault = null;
  try {
    const { default: flow } = await import(`./flows/${name}.mjs`);
    await flow({ tab, open, server, please, setup });
    fault = tabs.flatMap(it => it.faults).join("\n") || null;
  } catch (error) {
    fault = [error.stack, ...tabs.flatMap(it => it.faults)].join("\n");
  }
  if (fault) fault += `\nat ${tab.page.url()}, as in ${await tab.picture()}`;
  for (const it of tabs) await it.close();
  process.stdout.write(`${JSON.stringify({ flow: name, fault, took_ms: Math.round(performance.now() - begun) })}\n`);
}

const waiting = setup.flows.filter(it => !setup.alone.includes(it));
await Promise.all(Array.from({ length: AT_ONCE }, async () => { for (let name; (name = waiting.shift());) await run(name); }));
for (const name of setup.flows.filter(it => setup.alone.includes(it))) await run(name);
await browser.close();
process.exit(0);
