// Chromium, and what a flow does with a page. Waits on conditions, up to the hang limit; never for a time. Every page is watched: one
// that asks another host, opens a dialog of its own, throws, or offends the console's policy has failed, whatever the flow says.
import puppeteer from "puppeteer-core";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { misfits, WIDTHS } from "./layout.mjs";

// The hang limit of all tests, which `main.mjs` is told. What a live page shows comes with its next rendering, and the console's
// longest period is a minute: a wait for it ends that much later.
const HANG_LIMIT_MS = JSON.parse(readFileSync(process.argv[2], "utf8")).hang_limit_ms;
const LONGEST_PERIOD_MS = 60_000;
const LOOK_EVERY_MS = 80;
// Of a page at a width. The first usually explain the others.
const MISFITS_TOLD = 8;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Until `look` answers something true, which is answered; what a page that is just leaving says does not count. */
export async function until(sentence, look) {
  const begun = performance.now();
  let last;
  for (;;) {
    try {
      const seen = await look();
      if (seen) return seen;
      last = undefined;
    } catch (error) {
      if (!/context was destroyed|Cannot find context|detached|Execution context/.test(error.message)) throw error;
      last = error;
    }
    if (performance.now() - begun > HANG_LIMIT_MS + LONGEST_PERIOD_MS) throw new Error(`waited in vain until ${sentence}${last ? ` (${last.message})` : ""}`);
    await new Promise(resolve => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

export function ensure(is, sentence) {
  if (!is) throw new Error(sentence);
}

/** In a profile of its own below `directory`; it ends with this program, whose pipe it listens to. */
export async function launch(directory, origin) {
  return await puppeteer.launch({
    executablePath: process.env.CHROMIUM || "/usr/bin/chromium-headless-shell",
    headless: true,
    pipe: true,
    userDataDir: join(directory, "profile"),
    args: [
      "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--mute-audio", "--no-first-run", "--lang=en",
      // One process for the pages of all flows, and none for a page that was left and could be gone back to.
      "--process-per-site", "--disable-features=BackForwardCache,SpareRendererForSitePerProcess",
      // Pages beside the one in front are live too.
      "--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding",
      // The browser itself calls nobody either.
      "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--metrics-recording-only",
      `--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE ${new URL(origin).hostname}`,
    ],
    env: { ...process.env, HOME: directory, XDG_CONFIG_HOME: directory, XDG_CACHE_HOME: directory, XDG_RUNTIME_DIR: directory },
    defaultViewport: { width: 1280, height: 900 },
    timeout: HANG_LIMIT_MS,
    protocolTimeout: HANG_LIMIT_MS,
  });
}

/** One flow's own browser: its cookies are nobody else's. */
export class Tab {
  static async open(browser, server, name, directory) {
    const context = await browser.createBrowserContext();
    const tab = new Tab();
    Object.assign(tab, { context, server, name, directory, faults: [], away: false, page: await context.newPage() });
    await tab.watch();
    return tab;
  }

  async watch() {
    const { page } = this;
    await page.setRequestInterception(true);
    page.on("request", request => {
      const url = new URL(request.url());
      if (url.origin === this.server.url || ["data:", "about:", "blob:"].includes(url.protocol)) return request.continue().catch(() => {});
      this.faults.push(`a request left the host: ${request.url()}`);
      return request.abort().catch(() => {});
    });
    page.on("dialog", dialog => {
      this.faults.push(`a dialog opened at ${page.url()}: ${dialog.message()}`);
      dialog.dismiss().catch(() => {});
    });
    page.on("pageerror", error => this.faults.push(`a script failed at ${page.url()}: ${error.message}`));
    page.on("console", message => {
      if (message.type() === "error" && /Content Security Policy|Refused to/.test(message.text())) this.faults.push(`the policy was offended at ${page.url()}: ${message.text()}`);
    });
  }

  /** With the session of whoever has this token. */
  async signIn(token) {
    const answer = await fetch(`${this.server.url}/console/login`, {
      method: "POST", redirect: "manual", headers: { "content-type": "application/x-www-form-urlencoded", origin: this.server.url }, body: new URLSearchParams({ token }),
    });
    ensure(answer.status === 303, `the console let nobody in: ${answer.status} ${await answer.text()}`);
    const [name, value] = answer.headers.getSetCookie()[0].split(";")[0].split("=", 2);
    await this.context.setCookie({ name, value, domain: new URL(this.server.url).hostname, path: "/console", httpOnly: true, sameSite: "Strict" });
  }

  async go(path, { expect = 200 } = {}) {
    const answer = await this.page.goto(this.server.url + path, { waitUntil: "load", timeout: HANG_LIMIT_MS });
    ensure(!expect || answer.status() === expect, `${path} answered ${answer.status()}, and not ${expect}`);
    return answer;
  }

  /** Runs in the page. */
  see(look, ...args) { return this.page.evaluate(look, ...args); }
  until(sentence, look, ...args) { return until(`${this.name}: ${sentence}`, () => this.page.evaluate(look, ...args)); }
  text(selector = "body") { return this.page.evaluate(it => document.querySelector(it)?.innerText ?? "", selector); }
  shows(text, selector = "body") {
    return this.until(`${selector} says "${text}"`, (text, selector) => [...document.querySelectorAll(selector)].some(it => (it.innerText ?? it.textContent).includes(text)), text, selector);
  }
  there(selector) { return this.until(`${selector} is there`, it => !!document.querySelector(it), selector); }
  /** Or slow: on a busy machine it is looked at less often, and says so. */
  isLive() { return this.until("the page is live", () => ["live", "slow"].includes(document.querySelector("#connection")?.dataset.state)); }

  press(...keys) { return keys.reduce((before, key) => before.then(() => this.page.keyboard.press(key)), Promise.resolve()); }

  /** By selector, or by what is written on a link or a button. Found and clicked at once: live parts are made anew in between. */
  click(what) {
    return until(`${this.name}: there is ${what} to click`, () => this.page.evaluate(what => {
      const all = [...document.querySelectorAll("a, button, summary, input")].filter(it => it.getClientRects().length > 0 && !it.disabled);
      const dialog = document.querySelector("dialog[open]");
      const here = dialog ? all.filter(it => dialog.contains(it)) : all;
      const found = what.startsWith("=") ? here.find(it => it.innerText?.trim() === what.slice(1)) : here.find(it => it.matches(what));
      found?.click();
      return !!found;
    }, what));
  }

  /** A click that leads to another page. */
  async follow(what) {
    await Promise.all([this.page.waitForNavigation({ waitUntil: "load", timeout: HANG_LIMIT_MS }), this.click(what)]);
  }

  async fill(selector, text) {
    await this.there(selector);
    await this.see((selector, text) => {
      const field = document.querySelector(selector);
      if (field.type === "checkbox") field.checked = text;
      else field.value = text;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      field.dispatchEvent(new Event("change", { bubbles: true }));
    }, selector, text);
  }

  /** What axe finds: by all of its rules, and once more by those of colours in the dark, which changes nothing else. */
  async axe(where) {
    await this.page.evaluate(axe);
    const found = [];
    for (const [theme, rules] of [["light", {}], ["dark", { runOnly: ["color-contrast", "link-in-text-block"] }]]) {
      found.push(...await this.page.evaluate(async (theme, rules) => {
        document.documentElement.dataset.theme = theme;
        const { violations } = await axe.run(document, { resultTypes: ["violations"], ...rules });
        return violations.map(it => `${theme}: ${it.id}: ${it.help}: ${it.nodes.slice(0, 3).map(node => `${node.target} ${node.any.concat(node.all).map(it => it.message).join("; ")}`).join(" | ")}`);
      }, theme, rules));
    }
    this.faults.push(...found.map(it => `axe at ${where}: ${it}`));
  }

  /** At the width of a telephone and of a desktop every text is in its box and on the page, and none lies over another. */
  async fits(where) {
    for (const width of WIDTHS) {
      await this.page.setViewport({ width, height: 900 });
      const found = await this.page.evaluate(misfits);
      const told = found.slice(0, MISFITS_TOLD).map(misfit => `\n    ${JSON.stringify(misfit)}`);
      if (found.length) this.faults.push(`at ${width} px of ${where} ${found.length} texts do not fit:${told.join("")}`);
    }
    await this.page.setViewport({ width: 1280, height: 900 });
  }

  /** What a person would want to see of a flow that failed. */
  async picture() {
    const path = join(this.directory, `${this.name.replace(/\W+/g, "-")}.png`);
    try {
      await this.page.screenshot({ path });
      return path;
    } catch (error) {
      return `no picture: ${error.message}`;
    }
  }

  async close() { await this.context.close().catch(() => {}); }
}
