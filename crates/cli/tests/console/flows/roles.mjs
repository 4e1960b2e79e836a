// Who may only look sees every page and finds the buttons dead, with the reason; and a form that is sent all the same is refused.
import { ensure } from "../browser.mjs";

export default async function ({ tab, server }) {
  const task = await server.insert({ queue: "looked-at", kind: "work", delay_ms: 3_600_000 });
  const { token } = await server.api("POST", "/v1/tokens", { name: "looker", roles: ["viewer"] });
  await tab.signIn(token);
  await tab.go("/console/queues/looked-at");
  const pause = await tab.see(() => { const it = [...document.querySelectorAll("button")].find(it => it.innerText === "Pause"); return it && { dead: it.disabled, why: it.title }; });
  ensure(pause?.dead && /Needs the permission operate, which your role \(viewer\)/.test(pause.why), `the button is dead and says why: ${JSON.stringify(pause)}`);
  await tab.go(`/console/tasks/${task.ref}`);
  ensure(await tab.see(() => [...document.querySelectorAll("#actions button")].length > 0 && !document.querySelector("#actions a")), "nothing can be done with the task");
  ensure(!(await tab.see(() => [...document.querySelectorAll("nav.menu a")].some(it => it.innerText === "Tokens"))), "what is not for viewers is not in the menu");
  await tab.go("/console/tokens", { expect: 403 });

  await tab.go("/console/queues/looked-at/pause");
  ensure(await tab.see(() => document.querySelector("#confirm button").disabled), "the question cannot be answered with yes");
  const [answer] = await Promise.all([tab.page.waitForNavigation({ waitUntil: "load" }), tab.see(() => document.querySelector("#confirm form").submit())]);
  ensure(answer.status() === 403, `the API refuses it: ${answer.status()}`);
  await tab.shows("Not for your token.");
  ensure((await server.api("GET", "/v1/queues/looked-at")).pause == null, "and nothing was done");
}
