// Dead letters of one cause are one group, which is redriven or deleted at once, after it was counted; what is dead for another cause stays.
// Where no text says which tasks are meant, there is no button: it would be on all that is dead.
import { ensure, until } from "../browser.mjs";

/** Tasks that are dead, each with its error; the last that are given first. */
async function dead(server, queue, errors) {
  const tasks = [];
  for (const error of errors) {
    const task = await server.insert({ queue, kind: "charge", max_attempts: 1, delay_ms: 0 });
    const [leased] = await until("it can be leased", async () => { const it = await server.lease(queue); return it.length && it; });
    await server.report(leased, { outcome: "reject", status_msg: error });
    tasks.push(task);
  }
  await until("all are dead", async () => (await Promise.all(tasks.map(it => server.task(it)))).every(it => it.state === "dead"));
  return tasks;
}

const groups = tab => tab.see(() => [...document.querySelectorAll("[data-group]")].map(it => ({
  error: it.querySelector("pre").innerText, links: [...it.querySelectorAll(".buttons a")].map(it => it.innerText), dead: [...it.querySelectorAll(".buttons button:disabled")].map(it => it.title),
})));

export default async function ({ tab, server }) {
  await tab.signIn(server.token);
  const cards = await dead(server, "redriven", [1, 2, 3, 4, 5].map(nth => `card ${nth} was refused`));
  await tab.go("/console/dead-letters?queue=redriven");
  await tab.shows("1 cause in 5 dead tasks", "#counted");
  await tab.follow("=Redrive the group…");
  await tab.follow("#preview");
  await tab.shows("previewed", "#state");
  ensure((await tab.see(() => document.querySelectorAll("#sample tbody tr").length)) === 5, "the preview shows the five");
  await tab.click("=Confirm…");
  await tab.shows("5 tasks", "dialog[open] #count");
  await tab.follow("#confirm-button");
  await tab.until("the operation is done", () => document.querySelector("#state").dataset.state === "done");
  await until("they wait again", async () => (await Promise.all(cards.map(it => server.task(it)))).every(it => it.state !== "dead"));
  await tab.go("/console/dead-letters?queue=redriven");
  await tab.shows("No dead task is like that.");

  // Errors that begin with numbers are a group by what stands behind them, and it is no more than the group that is deleted.
  const items = await dead(server, "deleted", ["12 items failed", "9 items failed"]);
  const others = await dead(server, "deleted", ["disk full", "502"]);
  await tab.go("/console/dead-letters?queue=deleted");
  await tab.shows("3 causes in 4 dead tasks", "#counted");
  const found = await groups(tab);
  const without = found.find(it => it.error === "502");
  ensure(without && without.links.length === 0 && without.dead.length === 2, `a group without a telling text has no button, which would act on all: ${JSON.stringify(found)}`);
  ensure(found.filter(it => it.links.length === 2).length === 2, `the others have theirs: ${JSON.stringify(found)}`);
  await tab.see(() => [...document.querySelectorAll("[data-group]")].find(it => /items failed/.test(it.innerText)).querySelectorAll(".buttons a")[1].click());
  await tab.until("the filter is what its errors have in common", () => document.querySelector("#bulk #error")?.value === "items failed");
  await tab.follow("#preview");
  await tab.shows("previewed", "#state");
  ensure((await tab.see(() => document.querySelectorAll("#sample tbody tr").length)) === 2, "the preview shows the two, and not all that is dead");
  await tab.click("=Confirm…");
  await tab.shows("2 tasks", "dialog[open] #count");
  await tab.follow("#confirm-button");
  await tab.until("the operation is done", () => document.querySelector("#state").dataset.state === "done");
  for (const it of items) await server.api("GET", `/v1/tasks/${it.ref}`, undefined, { expect: 404 });
  for (const it of others) ensure((await server.task(it)).state === "dead", "what is dead for another cause stays");
}
