// How it is looked at: by keys alone, in another zone, in the dark, and on paper.
import { ensure } from "../browser.mjs";

async function keys(tab, server) {
  await server.api("POST", "/v1/tasks/batch", { tasks: Array.from({ length: 60 }, () => ({ queue: "keys", kind: "row", delay_ms: 3_600_000 })) });
  await tab.go("/console/tasks?queue=keys");
  await tab.press("/");
  ensure(await tab.see(() => document.activeElement.id === "find"), "/ leads to the search");
  await tab.press("Escape");
  const current = () => tab.see(() => [...document.querySelectorAll("[data-row]")].findIndex(it => it.classList.contains("current-row")));
  await tab.press("j", "j", "j", "k");
  ensure((await current()) === 1, `j and k go from row to row: ${await current()}`);
  await tab.press("x");
  ensure((await tab.see(() => document.querySelectorAll("[data-select]:checked").length)) === 1, "x picks the row");
  const before = await tab.see(() => document.querySelectorAll("[data-row]").length);
  await tab.press("n");
  await tab.until("n brings the next page", before => document.querySelectorAll("[data-row]").length > before || location.search.includes("cursor="), before);
  await tab.go("/console/tasks?queue=keys");
  await tab.press("j");
  const ref = await tab.see(() => document.querySelector(".current-row a").innerText);
  await Promise.all([tab.page.waitForNavigation({ waitUntil: "load" }), tab.press("o")]);
  ensure(tab.page.url().includes(`/console/tasks/${ref}`), `o opens it: ${tab.page.url()}`);
  await tab.press("?");
  await tab.shows("n next", "#said");
  const theme = () => tab.see(() => document.documentElement.dataset.theme ?? "light");
  const was = await theme();
  await tab.press("t");
  ensure((await theme()) !== was, "t changes the theme");
  await tab.go("/console");
  ensure((await theme()) !== was, "and it stays");
  await tab.press("Tab", "Enter");
  ensure(await tab.see(() => location.hash === "#main"), "the first of all is the way past the menu");
}

async function zones(tab, server) {
  const task = await server.insert({ queue: "zones", execute_at: "2031-01-01T00:00:00Z" });
  await tab.go(`/console/tasks/${task.ref}`);
  await tab.shows("00:00:00", 'time[datetime^="2031-01-01T00:00:00"]');
  await tab.click("#context summary");
  await tab.fill("#zone-quick", "Asia/Tokyo");
  await tab.follow("=Set");
  ensure(tab.page.url().endsWith(`/console/tasks/${task.ref}`), "one stays where one is");
  await tab.shows("Asia/Tokyo", "#zone-name");
  await tab.shows("09:00:00", 'time[datetime^="2031-01-01T00:00:00"]');
  await tab.go("/console/preferences");
  await tab.fill("#zone", "Pacific/Apia");
  await tab.fill("#theme", "dark");
  await tab.follow("=Keep");
  await tab.shows("Pacific/Apia", "#zone-name");
  ensure((await tab.see(() => document.documentElement.dataset.theme)) === "dark", "the theme is kept");
}

/** Of a colour as `rgb(..)`: 0 is black, 1 is white. */
const BRIGHT = text => { const [r, g, b] = text.match(/[\d.]+/g).map(Number); return (0.299 * r + 0.587 * g + 0.114 * b) / 255; };

/** Also in the dark what is printed is black on white, and nothing of the frame is on the paper. */
async function print(tab) {
  await tab.page.emulateMediaType("print");
  for (const address of ["/console", "/console/queues", "/console/lateness", "/console/engines"]) {
    await tab.go(address);
    ensure((await tab.see(() => document.documentElement.dataset.theme)) === "dark", "the screen is dark");
    const seen = await tab.see(() => {
      const style = it => getComputedStyle(document.querySelector(it));
      return { text: style("h1").color, dim: style(".help").color, panel: style(".panel, .list").backgroundColor, page: style("body").backgroundColor, frame: [".top", ".menu"].map(it => style(it).display) };
    });
    ensure(BRIGHT(seen.text) < 0.3 && BRIGHT(seen.dim) < 0.5 && BRIGHT(seen.panel) > 0.9 && BRIGHT(seen.page) > 0.95, `black on white: ${address} ${JSON.stringify(seen)}`);
    ensure(seen.frame.every(it => it === "none"), `without the menu: ${seen.frame}`);
  }
  await tab.page.emulateMediaType("screen");
}

export default async function ({ tab, server }) {
  await tab.signIn(server.token);
  await keys(tab, server);
  await zones(tab, server);
  await print(tab);
}
