// What changes under an open page changes on it: rows of a table of which one has asked for more, and the buttons beside a title.
import { ensure } from "../browser.mjs";

const rows = tab => tab.see(() => [...document.querySelectorAll("#queues tbody tr[data-key]")].map(it => it.dataset.key));

export default async function ({ tab, server }) {
  await tab.signIn(server.token);
  const name = nth => `paged-${String(nth).padStart(3, "0")}`;
  const tasks = Array.from({ length: 250 }, (_, nth) => ({ queue: name(2 * nth), kind: "row", delay_ms: 3_600_000 }));
  await server.api("POST", "/v1/tasks/batch", { tasks });
  await tab.go("/console/queues?prefix=paged-");
  await tab.isLive();
  await tab.see(() => { window.stays = true; });
  // Queues that are new are listed within seconds.
  await tab.until("a page has a hundred rows", () => document.querySelectorAll("#queues tbody tr[data-key]").length === 100);
  await tab.until("more rows come as one scrolls", () => { document.querySelector("a.next")?.scrollIntoView(); return document.querySelectorAll("#queues tbody tr[data-key]").length >= 250; });
  const all = await rows(tab);
  ensure(all.length === 250 && new Set(all).size === 250, `each stands there once: ${all.length}`);
  await server.api("POST", `/v1/queues/${name(4)}/pause`, { reason: "the printer burns", by: "ada" });
  await tab.shows("the printer burns", `tr[data-queue="${name(4)}"]`);
  ensure((await rows(tab)).length === 250, "the rows that one asked for are still there");
  await server.insert({ queue: name(5), kind: "row", delay_ms: 3_600_000 });
  await tab.there(`tr[data-queue="${name(5)}"]`);
  const now = await rows(tab);
  ensure(now.length === 251 && now.join() === [...now].sort().join(), `a new one stands in its place, and none was lost: ${now.length}`);
  await tab.shows("is live", "tr.as-of");
  ensure(await tab.see(() => window.stays), "the page was never loaded anew");

  const buttons = () => tab.see(() => [...document.querySelectorAll("#live-actions a")].map(it => it.innerText));
  await tab.go(`/console/queues/${name(0)}`);
  await tab.isLive();
  ensure((await buttons()).includes("Pause"), "it can be paused");
  await server.api("POST", `/v1/queues/${name(0)}/pause`, {});
  await tab.shows("Resume", "#live-actions a");
  await tab.shows("Paused", "#paused");
  ensure(!(await buttons()).includes("Pause"), "and not twice");
  await server.api("PUT", "/v1/schedules/changes", { every_ms: 3_600_000, task: { queue: "changes" } });
  await tab.go("/console/schedules/changes");
  await tab.isLive();
  await server.api("POST", "/v1/schedules/changes/pause", {});
  await tab.shows("Resume", "#live-actions a");
}
