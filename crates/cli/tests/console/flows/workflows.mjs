// A workflow is drawn, its states change before one's eyes, it fails, is undone or retried from what has failed, and a node is skipped.
import { ensure, until } from "../browser.mjs";

const node = (queue, more = {}) => ({ task: { queue, kind: "step", max_attempts: 1 }, ...more });

/** Leases of a queue, one after the other, and reports each. */
async function work(server, queue, outcome) {
  const [task] = await until(`there is work in ${queue}`, async () => { const it = await server.lease(queue, 1); return it.length && it; });
  await server.report(task, outcome);
}

const stateOf = (tab, name, state) => tab.until(`${name} is drawn as ${state}`, (name, state) => document.querySelector(`#graph a[data-node="${name}"]`)?.dataset.state === state, name, state);

export default async function ({ tab, server }) {
  await tab.signIn(server.token);
  const order = await server.api("POST", "/v1/workflows", { name: "order", input: { items: [1, 2] }, nodes: {
    charge: node("wf-charge"), pack: node("wf-pack", { after: ["charge"] }), label: node("wf-label", { after: ["charge"] }), send: node("wf-send", { after: ["pack", "label"] }),
  } });
  await tab.go("/console/workflows?name=order");
  await tab.follow(`tr[data-workflow="${order.ref}"] a`);
  await tab.isLive();
  await tab.see(() => { window.stays = true; });
  ensure(await tab.see(() => document.querySelectorAll("#graph a[data-node]").length === 4 && document.querySelectorAll("#graph path.edge").length === 4), "four nodes and four lines are drawn");
  const at = await tab.see(() => Object.fromEntries([...document.querySelectorAll("#graph a[data-node]")].map(it => [it.dataset.node, Number(it.querySelector("rect").getAttribute("x"))])));
  ensure(at.charge < at.pack && at.pack === at.label && at.label < at.send, `they stand in layers: ${JSON.stringify(at)}`);
  await tab.click('[data-zoom="in"]');
  const wide = await tab.see(() => Number(document.querySelector("#graph").getAttribute("width")));
  await work(server, "wf-charge", { outcome: "succeeded" });
  await stateOf(tab, "charge", "succeeded");
  ensure(await tab.see(() => Number(document.querySelector("#graph").getAttribute("width"))) === wide, "it stays as large as one made it");
  await work(server, "wf-pack", { outcome: "reject", status_msg: "no boxes" });
  await stateOf(tab, "pack", "failed");
  await tab.until("the workflow has failed", () => document.querySelector("#state").dataset.state === "failed");
  await tab.shows("no boxes", "#nodes");
  ensure(await tab.see(() => window.stays), "the page was never loaded anew");

  await tab.click("=Retry from failed");
  await tab.follow("=Retry it");
  await stateOf(tab, "pack", "running");
  await work(server, "wf-pack", { outcome: "succeeded" });
  await stateOf(tab, "pack", "succeeded");
  await tab.click('tr[data-name="label"] a.button');
  await tab.follow("=Skip the node");
  await stateOf(tab, "label", "skipped");
  const task = await tab.until("send leads to its task", () => { const it = document.querySelector('#graph a[data-node="send"]'); return it.dataset.state === "running" && it.getAttribute("href").includes("/tasks/") && it.getAttribute("href"); });
  await work(server, "wf-send", { outcome: "succeeded" });
  await tab.until("the workflow has succeeded", () => document.querySelector("#state").dataset.state === "succeeded");
  await tab.go(task);
  await tab.shows("Task", "h1");

  // Cancelled, what was done is undone.
  const trip = await server.api("POST", "/v1/workflows", { name: "trip", nodes: { book: node("wf-book", { compensate: { task: { queue: "wf-unbook" } } }), fly: node("wf-fly", { after: ["book"] }) } });
  await work(server, "wf-book", { outcome: "succeeded" });
  await tab.go(`/console/workflows/${trip.ref}`);
  await stateOf(tab, "book", "succeeded");
  await tab.click("=Cancel");
  await tab.fill("dialog[open] #reason", "no holidays");
  await tab.follow("=Cancel the workflow");
  await work(server, "wf-unbook", { outcome: "succeeded" });
  await tab.until("it says that it was undone", () => /undo succeeded/.test(document.querySelector('#graph a[data-node="book"]')?.textContent ?? ""));

  // Thousands of nodes are few boxes.
  const nodes = { first: node("wf-many") };
  for (let nth = 0; nth < 1500; nth++) nodes[`n${nth}`] = node("wf-many", { after: ["first"] });
  nodes.last = node("wf-many", { after: Object.keys(nodes) });
  const many = await server.api("POST", "/v1/workflows", { name: "many", nodes });
  await tab.go(`/console/workflows/${many.ref}`);
  await tab.shows("1", "#graph a[data-layer]");
  ensure(await tab.see(() => document.querySelectorAll("#graph a").length) === 3, "three boxes");
  await tab.go((await tab.see(() => document.querySelector("#graph a[data-layer]").getAttribute("href"))));
  await tab.until("its nodes are listed", () => document.querySelectorAll("#nodes tbody tr").length === 100 && !document.querySelector('#nodes tr[data-name="first"]'));

  // So are a thousand that follow one another.
  const chain = {};
  for (let nth = 0; nth < 1000; nth++) chain[`c${nth}`] = node("wf-chain", nth ? { after: [`c${nth - 1}`] } : {});
  const long = await server.api("POST", "/v1/workflows", { name: "chain", nodes: chain });
  await tab.go(`/console/workflows/${long.ref}`);
  const boxes = await tab.see(() => document.querySelectorAll("#graph a").length);
  ensure(boxes > 1 && boxes <= 60, `a thousand nodes in a row are few boxes: ${boxes}`);
  await tab.go((await tab.see(() => document.querySelectorAll("#graph a[data-layer]")[1].getAttribute("href"))));
  await tab.until("its nodes are listed", () => document.querySelectorAll("#nodes tbody tr").length === 17 && !!document.querySelector('#nodes tr[data-name="c17"]'));
}
