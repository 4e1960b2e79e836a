// Every page of the console: axe finds nothing in either theme, nothing is wider than a telephone, and what looks like a script is text,
// wherever it can be put. That no page asks another host, opens a dialog or offends the policy is watched in every flow.
import { ensure, until } from "../browser.mjs";

const CORPUS = [
  "<script>alert(1)</script>", "\"><img src=x onerror=alert(2)>", "'><svg/onload=alert(3)>", "javascript:alert(4)", "</textarea><script>alert(5)</script>",
  "<a href=\"javascript:alert(6)\">x</a>", "{{7*7}}${7*7}", "<iframe srcdoc=\"<script>alert(8)</script>\">", "&lt;b&gt;&#x3c;script&#x3e;", "\u202e</title><script>alert(9)</script>",
  "<style>*{display:none}</style>", "<base href=//evil.example>", "<form action=//evil.example><button>x", "--><script>alert(10)</script><!--", "hx-get=//evil.example",
];
const ALL = CORPUS.join(" ");

/** What there is to see, with the corpus in every field that takes it. */
async function fill(server) {
  const labels = Object.fromEntries(CORPUS.slice(0, 5).map((it, nth) => [`l${nth}`, it]));
  const waits = await server.insert({ queue: "every", kind: "page", key: CORPUS[0], payload: { [CORPUS[1]]: CORPUS }, labels, concurrency_key: CORPUS[3], delay_ms: 3_600_000 });
  await server.insert({ queue: "every", kind: "page", payload_base64: "PHNjcmlwdD4=", delay_ms: 3_600_000 });
  const dead = await server.insert({ queue: "every", kind: "page", payload: ALL, max_attempts: 1, delay_ms: 0 });
  await server.insert({ queue: "every", kind: "page", delay_ms: 0, labels });
  const leased = await until("two are leased", async () => { fill.leased = [...fill.leased ?? [], ...await server.lease("every")]; return fill.leased.length === 2 && fill.leased; });
  for (const it of leased) {
    const log = [{ at_ms: Date.now(), level: "error", text: ALL }];
    if (it.ref === dead.ref) await server.report(it, { outcome: "reject", status_code: 7, status_msg: ALL, result: { [CORPUS[2]]: ALL }, log });
    else await server.api("POST", "/v1/heartbeats", { executor: "every", host: CORPUS[1], version: "1.2.3", labels, leases: [{ ref: it.ref, token: it.token, progress: { said: ALL }, log }] });
  }
  const buried = await server.insert({ queue: "every", kind: "page", delay_ms: 3_600_000 });
  await server.api("POST", `/v1/tasks/${buried.ref}/bury`, { reason: ALL });
  const retried = await server.insert({ queue: "every", kind: "page", delay_ms: 0 });
  const [again] = await until("one more is leased", async () => { const it = await server.lease("every"); return it.length && it; });
  await server.report(again, { outcome: "failed", status_msg: ALL, result: CORPUS });
  await server.api("PUT", "/v1/namespaces/injected", { description: ALL });
  const runs = leased.find(it => it.ref !== dead.ref).ref;
  await server.api("PATCH", "/v1/queues/every", { concurrency: 5, indexed_labels: ["l0", CORPUS[4]] });
  await server.api("POST", "/v1/queues/every/pause", { reason: ALL.slice(0, 200), by: CORPUS[0] });
  const bulk = await server.api("POST", "/v1/bulk", { action: "cancel", filter: { queue: "every", error: CORPUS[0] }, reason: ALL.slice(0, 200) });
  const token = await server.api("POST", "/v1/tokens", { name: CORPUS[0], roles: ["viewer"] });
  await server.api("PUT", "/v1/schedules/every", { cron: "0 9 * * MON-FRI", time_zone: "Europe/Berlin", description: ALL, owner: CORPUS[1], exclude: ["2027-01-01"], task: { queue: "every", kind: "page", payload: { x: ALL }, labels } });
  await server.api("POST", "/v1/schedules/every/run");
  const node = more => ({ task: { queue: "every", kind: "page", payload: { x: ALL } }, ...more });
  const workflow = await server.api("POST", "/v1/workflows", { name: "every", input: { [CORPUS[0]]: ALL }, nodes: { first: node({ compensate: { task: { queue: "every" } } }), left: node({ after: ["first"] }), right: node({ after: ["first"], when: "input != null" }), last: node({ after: ["left", "right"] }) } });
  return { waits: waits.ref, dead: dead.ref, buried: buried.ref, retried: retried.ref, runs, bulk: bulk.id, token: token.id, workflow: workflow.ref };
}

function addresses(there) {
  return [
    "/console", "/console/queues", "/console/queues/every", "/console/queues/every/settings", "/console/queues/every/pause", "/console/queues/every/resume", "/console/queues/every/reset",
    "/console/tasks", `/console/tasks?queue=every&key=${encodeURIComponent(CORPUS[0])}`, `/console/tasks?queue=every&label=${encodeURIComponent(`l0=${CORPUS[0]}`)}&col=labels&col=key&col=error`, `/console/tasks/picked?action=cancel&ref=${there.waits}`,
    `/console/tasks/${there.waits}`, `/console/tasks/${there.dead}`, `/console/tasks/${there.runs}`, `/console/tasks/${there.waits}/change`, `/console/tasks/${there.waits}/cancel`, `/console/tasks/${there.waits}/bury`, `/console/tasks/${there.dead}/redrive`,
    `/console/tasks/${there.buried}`, `/console/tasks/${there.retried}`, `/console/dead-letters?error=${encodeURIComponent(CORPUS[0])}`, `/console/tasks/${there.waits}/run-now`, `/console/tasks/${there.dead}/delete`,
    "/console/schedules", "/console/schedules/new", "/console/schedules/every", "/console/schedules/every/change", "/console/schedules/every/pause", "/console/schedules/every/resume", "/console/schedules/every/run", "/console/schedules/every/backfill", "/console/schedules/every/delete",
    "/console/workflows", `/console/workflows/${there.workflow}`, `/console/workflows/${there.workflow}/cancel`, `/console/workflows/${there.workflow}/retry`, `/console/workflows/${there.workflow}/rerun`, `/console/workflows/${there.workflow}/nodes/last/skip`,
    "/console/dead-letters", "/console/bulk", "/console/bulk/new", `/console/bulk/new?action=cancel&error=${encodeURIComponent(CORPUS[1])}`, `/console/bulk/${there.bulk}`, `/console/bulk/${there.bulk}/confirm`,
    `/console/bulk/${there.bulk}/pause`, `/console/bulk/${there.bulk}/resume`, `/console/bulk/${there.bulk}/stop`, `/console/bulk/${there.bulk}/repeat`,
    "/console/executors", "/console/executors/every", "/console/executors/every/quiet", "/console/executors/every/resume", "/console/executors/every/drain", "/console/engines", "/console/events", "/console/lateness",
    "/console/namespaces", "/console/namespaces/default", "/console/namespaces/injected", "/console/namespaces/injected/delete", "/console/namespaces/default/delete", "/console/settings", "/console/settings/log",
    "/console/tokens", "/console/tokens/new", `/console/tokens/${there.token}/rotate`, `/console/tokens/${there.token}/revoke`, "/console/audit", "/console/preferences",
    `/console/find?q=${encodeURIComponent(CORPUS[1])}`,
  ];
}

/** Pages that say that there is nothing, or that it is not for this token. */
const FAULTS = [["/console/nothing-of-ours", 404], ["/console/tasks/none", 404], ["/console/queues/every?cursor=%3Cx%3E", 200], ["/console/tasks?cursor=broken", 200]];
const NOT_FOR_VIEWERS = [["/console/tokens", 403], ["/console/audit", 403]];
/** Where nothing is, pages say what to do next. */
const EMPTY = ["queues", "tasks", "schedules", "workflows", "dead-letters", "executors"];

/** Nothing of the corpus became an element, an attribute that runs, or an address that runs. Only charts place themselves by styles. */
function inert() {
  const bad = [];
  for (const it of document.querySelectorAll("*")) {
    for (const { name, value } of it.attributes) {
      if (/^on/i.test(name) || name === "srcdoc" || (name === "style" && !it.closest(".uplot"))) bad.push(`${it.tagName} ${name}`);
      if (/^(href|src|action|formaction|hx-get|hx-post|data)$/i.test(name) && /^\s*(javascript:|\/\/|https?:|data:text)/i.test(value)) bad.push(`${it.tagName} ${name}=${value}`);
    }
    if (/^(IFRAME|STYLE|BASE|OBJECT|EMBED|MARQUEE)$/.test(it.tagName)) bad.push(it.tagName);
    if (it.tagName === "SCRIPT" && !it.getAttribute("src")?.startsWith("/console/assets/")) bad.push("SCRIPT");
  }
  return bad;
}

/** One page in every way. */
async function look(tab, address, setup, expect = 200) {
  await tab.go(address, { expect });
  const bad = await tab.see(inert);
  ensure(bad.length === 0, `at ${address} what was put in became more than text: ${bad}`);
  if (setup.axe) await tab.axe(address);
  await tab.narrow(address);
}

async function faultPages(open, server, there, setup) {
  const tab = await open();
  await tab.signIn(server.token);
  for (const [address, status] of FAULTS) await look(tab, address, setup, status);
  for (const page of EMPTY) {
    await look(tab, `/console/${page}?ns=nothing-is-here`, setup);
    ensure((await tab.text(".empty")).length > 20, `${page} of an empty namespace says what to do`);
  }
  // A question as a dialog.
  await tab.go("/console/queues/every");
  await tab.click("=Resume");
  await tab.there("dialog[open] #confirm-button");
  if (setup.axe) await tab.axe("the dialog of a queue");
  await tab.narrow("the dialog of a queue");
  await tab.click("dialog[open] [data-dismiss]");
  // A form with a mistake says so at the field.
  await tab.go("/console/queues/every/settings");
  await tab.fill("#concurrency", "0");
  await tab.follow("#save");
  const field = await tab.see(() => { const it = document.querySelector("#concurrency"); return { invalid: it.getAttribute("aria-invalid"), says: it.getAttribute("aria-describedby").split(" ").map(id => document.getElementById(id)?.innerText).join(" ") }; });
  ensure(field.invalid === "true" && /at least|1/.test(field.says), `the field says that it is wrong, and why: ${JSON.stringify(field)}`);
  if (setup.axe) await tab.axe("a form with a mistake");
  const { token } = await server.api("POST", "/v1/tokens", { name: "who may look", roles: ["viewer"] });
  const viewer = await open();
  await viewer.signIn(token);
  for (const [address, status] of NOT_FOR_VIEWERS) await look(viewer, address, setup, status);
  await look(viewer, `/console/tasks/${there.waits}`, setup);
}

export default async function ({ tab, open, server, setup }) {
  const there = await fill(server);
  await tab.go("/console/login?why=ended");
  if (setup.axe) await tab.axe("/console/login");
  await tab.narrow("/console/login");
  await tab.signIn(server.token);
  const second = await open();
  await second.signIn(server.token);
  const waiting = addresses(there);
  let seen = 0;
  await Promise.all([faultPages(open, server, there, setup), ...[tab, second].map(async tab => {
    for (let address; (address = waiting.shift());) {
      await look(tab, address, setup);
      if ((await tab.text("main")).includes("<script>alert(1)</script>")) seen += 1;
    }
  })]);
  ensure(seen >= 16, `the corpus stands as text on many pages, and not on ${seen} only`);
}
