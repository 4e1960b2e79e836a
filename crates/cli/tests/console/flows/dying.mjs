// The engine is killed under an open page: the page says so, asks again and again, and goes on when it is back.
import { ensure } from "../browser.mjs";

export default async function ({ tab, server, please }) {
  await tab.signIn(server.token);
  await tab.go("/console/queues?prefix=dying");
  await tab.isLive();
  await tab.see(() => { window.stays = true; });
  await please("kill");
  await tab.until("it says that nobody answers", () => document.querySelector("#connection").dataset.state === "lost");
  await tab.shows("The server does not answer since", "#banner");
  await please("start");
  await tab.isLive();
  await tab.shows("The server answers again.", "#banner");
  await server.insert({ queue: "dying", kind: "after", delay_ms: 3_600_000 });
  await tab.there('tr[data-queue="dying"]');
  ensure(await tab.see(() => window.stays), "the page was never loaded anew");
}
