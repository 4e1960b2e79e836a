// Executors, engines and lateness: who has a task since when, and what is wished of an executor; each engine, database and partition; the
// promises, and each event.
import { ensure, until } from "../browser.mjs";

async function executors(tab, server) {
  await server.insert({ queue: "in-hand", kind: "work", delay_ms: 0 });
  await server.insert({ queue: "in-hand", kind: "work", delay_ms: 1_800_000 });
  const before = Date.now();
  const lease = () => server.api("POST", "/v1/queues/in-hand/lease", { max: 1, wait_ms: 0, lease_ms: 600_000, executor: "box-1", version: "2.0.1" });
  const [task] = await until("it can be leased", async () => { const it = (await lease()).tasks; return it.length && it; });
  await server.api("POST", "/v1/heartbeats", { executor: "box-1", host: "rack-7", version: "2.0.1", leases: [{ ref: task.ref, token: task.token }] });
  await tab.go("/console/executors");
  await tab.shows("alive", 'tr[data-executor="box-1"]');
  await tab.follow('tr[data-executor="box-1"] a');
  await tab.isLive();
  await tab.until("its task is named", ref => [...document.querySelectorAll("#held tbody tr")].some(it => it.innerText.includes(ref)), task.ref);
  const since = await tab.see(() => Number(document.querySelector('#held td[data-label="Since"] time').dataset.rel));
  ensure(since >= before - 1_000 && since <= Date.now() + 1_000, `it says since when it has it: ${since}`);
  for (const [button, does, state, wish] of [["Quiet", "Quiet the executor", "quiet", "quiet"], ["Resume", "Resume the executor", "alive", null], ["Drain and end", "Drain the executor", "draining", "drain"]]) {
    await tab.click(`=${button}`);
    await tab.shows("1 task", "dialog[open]");
    await tab.follow(`=${does}`);
    // It asks all along, as an executor does: one that is silent is neither.
    await until(`it is ${state}`, async () => { await lease(); return await tab.see(state => document.querySelector("#state").dataset.state === state, state); });
    ensure(((await lease()).wish ?? null) === wish, `the executor is told: ${wish}`);
  }
}

async function engines(tab, server) {
  const { items } = await server.api("GET", "/v1/partitions?limit=1000");
  await tab.go("/console/engines");
  await tab.shows("alive", "#engines");
  await tab.shows("answers", "#shards");
  ensure((await tab.see(() => document.querySelectorAll("#owners rect").length)) === items.length, "a square for each partition");
  const { items: [shard] } = await server.api("GET", "/v1/shards");
  ensure(await tab.see(() => /^\d/.test(document.querySelector('#shards td[data-label="Size, about"]')?.innerText ?? "")), "a database says how large it is");
  ensure((await tab.see(() => document.querySelectorAll("svg.axis rect").length)) === (shard.time_axis ?? []).length, "a bar for each bucket");
  const hot_set = await until("what is due soon is counted", async () => { const it = (await server.api("GET", "/v1/stats")).hot_set; return it?.due >= 1 && it; });
  ensure(hot_set.fullness >= 0 && hot_set.fullness < 1, `the hot set is told: ${JSON.stringify(hot_set)}`);
  await tab.shows("Due soon", "#hot-set");
  ensure(await tab.see(() => [...document.querySelectorAll("#hot-set dd")].every(it => /^[\d\u202f,. ]+( %)?$/.test(it.innerText))), "in numbers");
  ensure(await tab.see(() => /has taken over|None/.test(document.querySelector("#owner-changes").innerText)), "who got which partitions");
  await tab.click("#terms summary");
  ensure((await tab.see(() => document.querySelectorAll("#terms tbody tr").length)) === items.length, "a line for each partition");
  await tab.go("/console/events");
  await tab.there('tr[data-event="engine_started"]');
  await tab.fill("#event", "engine_lost");
  await tab.until("what one looks for stands in the address", () => location.search.includes("event=engine_lost"));
  await tab.until("and nothing else is shown", () => !document.querySelector('tr[data-event="engine_started"]'));
}

export default async function ({ tab, server }) {
  await tab.signIn(server.token);
  await executors(tab, server);
  await engines(tab, server);
  await tab.go("/console/lateness");
  ensure((await tab.text("#early")) === "0" && (await tab.text("#unaccounted")) === "0", "the promises hold");
  await tab.there("svg.heat");
  await tab.until("a queue stands against its budget", () => [...document.querySelectorAll("#by-queue tbody tr")].some(it => it.dataset.key === "in-hand" && it.querySelector('[data-label="Budget"]').innerText === "1 s"));
}
