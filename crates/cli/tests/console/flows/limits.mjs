// A limit that is set in the form holds: of six tasks two are given out. What is not valid is said at its field.
import { ensure, until } from "../browser.mjs";

export default async function ({ tab, server }) {
  await tab.signIn(server.token);
  await tab.go("/console/queues/limited/settings");
  await tab.fill("#concurrency", "0");
  await tab.follow("#save");
  await tab.there(".faulty #concurrency");
  await tab.fill("#concurrency", "2");
  await tab.follow("#save");
  await tab.shows("The settings of limited are set.", "#flash");
  await tab.shows("Attempts at a time");
  for (let nth = 0; nth < 6; nth++) await server.insert({ queue: "limited", kind: "work", delay_ms: 1500 });
  let held = [];
  await until("as many as may be are leased", async () => { held = [...held, ...await server.lease("limited")]; return held.length >= 2; });
  await tab.go("/console/queues/limited");
  await tab.shows("2 of 2", "section.panel h2");
  await tab.until("the others are ready, and wait", () => [...document.querySelectorAll(".figure")].some(it => /^Ready\s*4/.test(it.innerText)));
  held = [...held, ...await server.lease("limited")];
  // It is told of the last seconds: some come in every one of them, however long the page takes.
  const comes = () => server.insert({ queue: "limited", kind: "work", delay_ms: 3_600_000 });
  await until("how many came a second", async () => { await comes(); return await tab.see(() => Number(document.querySelector("#rate-in")?.innerText) > 0); });
  await tab.there("figure#chart-rates");
  await tab.go("/console/queues?prefix=limited");
  await until("in the list too", async () => { await comes(); return await tab.see(() => /^[^,–]*[1-9]/.test(document.querySelector('tr[data-queue="limited"] td[data-label="In, done /s"]').innerText)); });
  ensure(held.length === 2, `two hold the slots, and not ${held.length}`);
}
