// All tasks of a search are cancelled: counted, shown, confirmed, done. Before it is confirmed nothing happens.
import { ensure, until } from "../browser.mjs";

export default async function ({ tab, server }) {
  await tab.signIn(server.token);
  const tasks = [];
  for (let nth = 0; nth < 12; nth++) tasks.push(await server.insert({ queue: "many", kind: nth < 9 ? "old" : "new", delay_ms: 3_600_000 }));
  await tab.go("/console/tasks?queue=many&kind=old&state=scheduled");
  await tab.follow("=Cancel…");
  await tab.follow("#preview");
  await tab.shows("previewed", "#state");
  ensure((await tab.see(() => document.querySelectorAll("#sample tbody tr").length)) === 9, "the preview shows the nine");
  ensure((await Promise.all(tasks.map(it => server.task(it)))).every(it => it.state === "scheduled"), "nothing has happened yet");
  await tab.click("=Confirm…");
  await tab.shows("9 tasks", "dialog[open] #count");
  await tab.follow("#confirm-button");
  await tab.until("the operation is done", () => document.querySelector("#state").dataset.state === "done");
  const states = await until("the nine are cancelled", async () => {
    const states = (await Promise.all(tasks.map(it => server.task(it)))).map(it => it.state);
    return states.slice(0, 9).every(it => it === "cancelled") && states;
  });
  ensure(states.slice(9).every(it => it === "scheduled"), `the other three were left alone: ${states}`);
}
