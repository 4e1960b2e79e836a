// A task that is inserted by the API appears in an open page, is explained, fires and ends there, and the page is never loaded anew.
import { ensure, until } from "../browser.mjs";

export default async function ({ tab, open, server }) {
  await tab.signIn(server.token);
  await tab.go("/console/queues?prefix=live");
  await tab.isLive();
  await tab.see(() => { window.stays = true; });
  const task = await server.insert({ queue: "live", kind: "greet", payload: { to: "ada" }, delay_ms: 4000 });
  await tab.there('tr[data-queue="live"]');

  const page = await open();
  await page.signIn(server.token);
  await page.go(`/console/tasks/${task.ref}`);
  await page.see(() => { window.stays = true; });
  await page.until("why says when it fires, or that it has fired", () => /\w/.test(document.querySelector("#why")?.innerText ?? "") && !!document.querySelector("ol.chain li"));
  await page.until("it has fired before one's eyes", () => document.querySelector("#state").dataset.state === "ready");
  const waits = await page.text("#why");
  ensure(/executor|slot/.test(waits), `why says what a fired task waits for: ${waits}`);
  const [leased] = await until("it can be leased", async () => { const it = await server.lease("live"); return it.length && it; });
  await page.until("it runs", () => ["dispatched", "running"].includes(document.querySelector("#state").dataset.state));
  await server.report(leased, { outcome: "succeeded", result: { greeted: "ada" } });
  await page.until("it has succeeded", () => document.querySelector("#state").dataset.state === "succeeded");
  await page.shows("greeted", "#result");
  ensure(await page.see(() => window.stays) && await tab.see(() => window.stays), "the pages were never loaded anew");
}
