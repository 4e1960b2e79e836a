// A task is cancelled when it is about to fire: either the cancel came first, and it never runs; or it had fired, the cancel says so, and it
// runs. Before its time the cancel wins, and afterwards it does not, unless one says that it shall be stopped all the same.
import { ensure, until } from "../browser.mjs";

async function ask(tab, task) {
  await tab.go(`/console/tasks/${task.ref}`);
  await tab.click("=Cancel");
  await tab.shows("One task will not run", "dialog[open]");
}

export default async function ({ tab, server }) {
  await tab.signIn(server.token);
  const early = await server.insert({ queue: "cancelled-early", kind: "launch", delay_ms: 3_600_000 });
  await ask(tab, early);
  ensure(!(await tab.see(() => document.querySelector("dialog[open] [name=stop_if_fired]").checked)), "of what waits nothing else is meant");
  await tab.follow("=Cancel the task");
  await tab.until("it is cancelled", () => document.querySelector("#state").dataset.state === "cancelled");
  ensure((await server.task(early)).state === "cancelled", "the API says so too");

  const late = await server.insert({ queue: "cancelled-late", kind: "launch", delay_ms: 2_000 });
  await ask(tab, late);
  await until("it has fired", async () => (await server.task(late)).state === "ready");
  // On a busy machine it had fired before it was asked for, and then this is meant unless one says otherwise.
  await tab.fill("dialog[open] [name=stop_if_fired]", false);
  await tab.follow("=Cancel the task");
  await tab.there("#faults");
  await tab.shows("fired", "#faults");
  ensure((await server.task(late)).state === "ready", "a cancel that came too late changes nothing");
  await ask(tab, late);
  await tab.fill("dialog[open] [name=stop_if_fired]", true);
  await tab.follow("=Cancel the task");
  await tab.until("it is cancelled", () => document.querySelector("#state").dataset.state === "cancelled");
  ensure((await server.lease("cancelled-late")).length === 0, "nobody is given it");

  // At the last moment it is one or the other, and the page tells which.
  const last = await server.insert({ queue: "cancelled-last", kind: "launch", delay_ms: 3_000 });
  await ask(tab, last);
  const at = Number((await server.task(last)).execute_at_ms);
  await tab.until("it is about to fire", at => Date.now() > at - 100, at);
  await tab.follow("=Cancel the task");
  const has = await tab.until("the page tells what came of it", () => (document.querySelector("#faults") ? "fired" : document.querySelector("#state")?.dataset.state === "cancelled" && "cancelled"));
  await until("its time has come", () => Date.now() > at);
  if (has === "cancelled") {
    ensure((await server.task(last)).state === "cancelled", "the API says so too");
    ensure((await server.lease("cancelled-last")).length === 0, "it never runs");
  } else {
    await tab.shows("fired", "#faults");
    await until("it runs", async () => (await server.lease("cancelled-last")).some(it => it.ref === last.ref));
  }
}
