// Every page of the console, twice: once with what looks like a script wherever it can be put, and once with the longest names, times and
// errors. axe finds nothing in either theme, what looks like a script is text, and every text fits, on a telephone and on a desktop. That no page asks another host, opens a dialog or offends the policy is watched in every flow.
import { ensure, until } from "../browser.mjs";

const CORPUS = [
  "<script>alert(1)</script>", "\"><img src=x onerror=alert(2)>", "'><svg/onload=alert(3)>", "javascript:alert(4)", "</textarea><script>alert(5)</script>",
  "<a href=\"javascript:alert(6)\">x</a>", "{{7*7}}${7*7}", "<iframe srcdoc=\"<script>alert(8)</script>\">", "&lt;b&gt;&#x3c;script&#x3e;", "\u202e</title><script>alert(9)</script>",
  "<style>*{display:none}</style>", "<base href=//evil.example>", "<form action=//evil.example><button>x", "--><script>alert(10)</script><!--", "hx-get=//evil.example",
];
const ALL = CORPUS.join(" ");

/** A sample of everything that there is to see. `texts` are put into every field that takes them. */
const SCRIPTS = { name: "every", kind: "page", texts: CORPUS, all: ALL, cron: ["0 9 * * MON-FRI"], zone: "Europe/Berlin", version: "1.2.3", delay_ms: 3_600_000 };

const PATH = "s3://invoices-of-the-northern-warehouses/2026/11/27/0f8fad5b-d9cd-469f-a165-70867728950e/attachments/summary-for-the-customer.pdf";
const LONG_TEXTS = [
  "order-2026-11-27-000000000000123456789-northern-warehouses-0f8fad5b-d9cd-469f-a165-70867728950e-second-delivery",
  "worker-7f9c6d5b8-x2k4q.fulfilment-and-returns.svc.cluster.eu-central-1.compute.example.internal",
  "card declined: insufficient funds (code 51) at the acquirer of the merchant, after three attempts within the allowed window of the network",
  `cannot read ${PATH}: connection reset by peer after 30000 ms`,
  "customer-0f8fad5b-d9cd-469f-a165-70867728950e/subscription-7c9e6679-7425-40de-944b-e07fc1f90ae7",
];
const LONG = {
  name: "regional-fulfilment-and-returns.of_the_northern_warehouses_of_2026", kind: "recompute_the_statement_of_the_customer_and_send_it", texts: LONG_TEXTS, all: LONG_TEXTS.join(" "),
  cron: ["*/7 8-19 * * MON-FRI", "0 9 L * *", "15,45 0-6/2 1-7 JAN,APR,JUL,OCT MON"], zone: "America/Argentina/ComodRivadavia", version: "2026.11.27-rc.4+build.20261127.113042.0f8fad5bd9cd",
  // Nine hundred and ninety days from now.
  delay_ms: 990 * 86_400_000,
};

async function fill(server, { name, kind, texts, all, cron, zone, version, delay_ms }) {
  const labels = Object.fromEntries(texts.slice(0, 5).map((text, nth) => [`l${nth}`, text]));
  const later = { queue: name, kind, delay_ms };
  const now = { queue: name, kind, delay_ms: 0 };
  const waits = await server.insert({ ...later, key: texts[0], name: texts[2], payload: { [texts[1]]: texts }, labels, concurrency_key: texts[3] });
  await server.insert({ ...later, payload_base64: "PHNjcmlwdD4=" });
  const dead = await server.insert({ ...now, payload: all, max_attempts: 1 });
  await server.insert({ ...now, labels });
  const leased = [];
  await until("two are leased", async () => { leased.push(...await server.lease(name, 10, name)); return leased.length === 2; });
  for (const task of leased) {
    const log = [{ at_ms: Date.now(), level: "error", text: all }];
    if (task.ref === dead.ref) await server.report(task, { outcome: "reject", status_code: 7, status_msg: all, result: { [texts[2]]: all }, log });
    else await server.api("POST", "/v1/heartbeats", { executor: name, host: texts[1], version, labels, leases: [{ ref: task.ref, token: task.token, progress: { said: all }, log }] });
  }
  const buried = await server.insert(later);
  await server.api("POST", `/v1/tasks/${buried.ref}/bury`, { reason: all });
  const retried = await server.insert(now);
  const [again] = await until("one more is leased", async () => { const tasks = await server.lease(name); return tasks.length && tasks; });
  await server.report(again, { outcome: "failed", status_msg: all, result: texts });
  const namespace = name === "every" ? "injected" : name.slice(0, 40);
  await server.api("PUT", `/v1/namespaces/${namespace}`, { description: all });
  const runs = leased.find(task => task.ref !== dead.ref).ref;
  await server.api("PATCH", `/v1/queues/${name}`, { concurrency: 5, indexed_labels: ["l0", texts[4]] });
  await server.api("POST", `/v1/queues/${name}/pause`, { reason: all.slice(0, 200), by: texts[0] });
  const bulk = await server.api("POST", "/v1/bulk", { action: "cancel", filter: { queue: name, error: texts[0] }, reason: all.slice(0, 200) });
  const preview = await server.api("POST", "/v1/bulk", { action: "redrive", filter: { queue: name } });
  const token = await server.api("POST", "/v1/tokens", { name: texts[0], roles: ["viewer"] });
  await server.api("PUT", `/v1/schedules/${name}`, { cron, time_zone: zone, description: all, owner: texts[1], exclude: ["2027-01-01"], overlap: "buffer_one", task: { queue: name, kind, payload: { x: all }, labels } });
  await server.api("POST", `/v1/schedules/${name}/run`);
  await server.api("PUT", `/v1/schedules/${name}-paused`, { cron, time_zone: zone, task: { queue: name, kind } });
  await server.api("POST", `/v1/schedules/${name}-paused/pause`, { reason: all.slice(0, 200), by: texts[0] });
  const node = more => ({ task: { queue: name, kind, payload: { x: all } }, ...more });
  const workflow = await server.api("POST", "/v1/workflows", { name, input: { [texts[0]]: all }, nodes: { first: node({ compensate: { task: { queue: name } } }), left: node({ after: ["first"] }), right: node({ after: ["first"], when: "input != null" }), last: node({ after: ["left", "right"] }) } });
  const over = await server.api("POST", "/v1/workflows", { name, nodes: { first: node() } });
  await server.api("POST", `/v1/workflows/${over.ref}/cancel`, { reason: all.slice(0, 200) });
  return { name, namespace, preview: preview.id, over: over.ref, waits: waits.ref, dead: dead.ref, buried: buried.ref, retried: retried.ref, runs, bulk: bulk.id, token: token.id, workflow: workflow.ref, texts };
}

/** A fan-out of eleven beside another node, edges over several ranks, and names that no box has room for. */
async function wide(server, { name, kind, texts }) {
  const node = (after = [], more = {}) => ({ task: { queue: `${name}-idle`, kind }, after, ...more });
  const nodes = { plan: node(), "reserve-the-stock-of-the-northern-warehouses": node(["plan"]), charge: node(["plan"]), invoice: node(["charge"]) };
  for (let nth = 0; nth < 11; nth++) nodes[`pack-${nth}`] = node(["reserve-the-stock-of-the-northern-warehouses"]);
  nodes.send = node(Object.keys(nodes).filter(name => name.startsWith("pack-")));
  nodes.label = node(["send"]);
  nodes.track = node(["label"]);
  nodes["notify-the-customer-of-the-second-delivery"] = node(["track", "invoice", "plan", "send"]);
  return (await server.api("POST", "/v1/workflows", { name: `${name}-wide`.slice(-60), input: texts, nodes })).ref;
}

function addresses(there) {
  return [
    "/console", "/console/queues", `/console/queues/${there.name}`, `/console/queues/${there.name}/settings`, `/console/queues/${there.name}/pause`, `/console/queues/${there.name}/resume`, `/console/queues/${there.name}/scan`, `/console/queues/${there.name}/reset`,
    "/console/tasks", `/console/tasks?queue=${there.name}&key=${encodeURIComponent(there.texts[0])}`, `/console/tasks?queue=${there.name}&label=${encodeURIComponent(`l0=${there.texts[0]}`)}&col=labels&col=key&col=error`, `/console/tasks/picked?action=cancel&ref=${there.waits}`,
    `/console/tasks/${there.waits}`, `/console/tasks/${there.dead}`, `/console/tasks/${there.runs}`, `/console/tasks/${there.waits}/change`, `/console/tasks/${there.waits}/cancel`, `/console/tasks/${there.waits}/bury`, `/console/tasks/${there.dead}/redrive`,
    `/console/tasks/${there.buried}`, `/console/tasks/${there.retried}`, `/console/dead-letters?error=${encodeURIComponent(there.texts[0])}`, `/console/tasks/${there.waits}/run-now`, `/console/tasks/${there.dead}/delete`,
    "/console/schedules", "/console/schedules/new", `/console/schedules/${there.name}`, `/console/schedules/${there.name}/change`, `/console/schedules/${there.name}/pause`, `/console/schedules/${there.name}/resume`, `/console/schedules/${there.name}/run`, `/console/schedules/${there.name}/backfill`, `/console/schedules/${there.name}/delete`, `/console/schedules/${there.name}-paused`,
    "/console/workflows", `/console/workflows/${there.workflow}`, `/console/workflows/${there.workflow}/cancel`, `/console/workflows/${there.workflow}/retry`, `/console/workflows/${there.workflow}/rerun`, `/console/workflows/${there.workflow}/nodes/last/skip`, `/console/workflows/${there.over}`,
    "/console/dead-letters", "/console/bulk", "/console/bulk/new", `/console/bulk/new?action=cancel&error=${encodeURIComponent(there.texts[1])}`, `/console/bulk/${there.bulk}`, `/console/bulk/${there.bulk}/confirm`,
    `/console/bulk/${there.bulk}/pause`, `/console/bulk/${there.bulk}/resume`, `/console/bulk/${there.bulk}/stop`, `/console/bulk/${there.bulk}/repeat`, `/console/bulk/${there.preview}`,
    "/console/executors", `/console/executors/${there.name}`, `/console/executors/${there.name}/quiet`, `/console/executors/${there.name}/resume`, `/console/executors/${there.name}/drain`, "/console/engines", "/console/events", "/console/lateness",
    "/console/namespaces", "/console/namespaces/default", `/console/namespaces/${there.namespace}`, `/console/namespaces/${there.namespace}/delete`, "/console/namespaces/default/delete", "/console/settings", "/console/settings/log",
    "/console/tokens", "/console/tokens/new", `/console/tokens/${there.token}/rotate`, `/console/tokens/${there.token}/revoke`, "/console/audit", "/console/preferences",
    `/console/find?q=${encodeURIComponent(there.texts[1])}`,
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
  await tab.fits(address);
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
  await tab.fits("the dialog of a queue");
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
  const there = await fill(server, SCRIPTS);
  const long = await fill(server, LONG);
  const drawn = await wide(server, LONG);
  await tab.go("/console/login?why=ended");
  if (setup.axe) await tab.axe("/console/login");
  await tab.fits("/console/login");
  await tab.signIn(server.token);
  const second = await open();
  await second.signIn(server.token);
  // The same elements with other texts: axe has seen them.
  const fitted = [...addresses(long), `/console/workflows/${drawn}`].map(address => [address, { ...setup, axe: false }]);
  const waiting = [...addresses(there).map(address => [address, setup]), ...fitted];
  let seen = 0;
  await Promise.all([faultPages(open, server, there, setup), ...[tab, second].map(async tab => {
    for (let next; (next = waiting.shift());) {
      await look(tab, ...next);
      if ((await tab.text("main")).includes("<script>alert(1)</script>")) seen += 1;
    }
  })]);
  ensure(seen >= 16, `the corpus stands as text on many pages, and not on ${seen} only`);
}
