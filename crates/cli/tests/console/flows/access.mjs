// Tokens, namespaces and settings: a token is made, seen once, rotated and revoked; a namespace is limited, and deleted only by its name; the
// limits of everything and the levels of the log are set and taken back.
import { ensure, until } from "../browser.mjs";

async function tokens(tab, server) {
  const may = (token, expect) => server.api("GET", "/v1/me", undefined, { token, expect });
  const secret = async () => { await tab.there("#secret code"); return await tab.text("#secret code"); };
  await tab.go("/console/tokens/new");
  await tab.follow("#make");
  await tab.there("#faults");
  await tab.fill("#name", "billing");
  await tab.fill("input[name=role][value=submitter]", true);
  await tab.fill("#queues", "invoices*");
  await tab.fill("#expires", "90 d");
  await tab.follow("#make");
  const first = await secret();
  const me = await may(first, 200);
  ensure(me.name === "billing" && me.roles.join() === "submitter" && me.queues.join() === "invoices*" && me.expires_at_ms > Date.now(), `it is what was asked for: ${JSON.stringify(me)}`);
  await tab.follow("=I have it");
  ensure(!(await tab.text("main")).includes(first), "it is shown this once");
  const row = `tr[data-token="${me.token_id}"]`;
  await tab.shows("billing", row);
  await tab.click(`${row} a[href$="/rotate"]`);
  await tab.fill("dialog[open] #overlap", "0");
  await tab.follow("#confirm-button");
  const second = await secret();
  await may(second, 200);
  await until("the old secret is good no more", async () => { try { await may(first, 401); return true; } catch { return false; } });
  await tab.go("/console/tokens");
  await tab.click(`${row} a[href$="/revoke"]`);
  await tab.follow("#confirm-button");
  await tab.shows("revoked", row);
  await until("nor is the new one", async () => { try { await may(second, 401); return true; } catch { return false; } });
  await tab.go("/console/audit?action=revoke_token");
  await tab.shows(me.token_id, "#audit");
}

async function namespaces(tab, server) {
  const insert = expect => server.api("POST", "/v1/tasks", { queue: "mail", delay_ms: 3_600_000 }, { namespace: "tenant", ...(expect ? { expect } : {}) });
  await insert();
  await tab.go("/console/namespaces");
  await tab.follow('tr[data-namespace="tenant"] th a');
  await tab.fill("#max_waiting", "1");
  await tab.follow("#save");
  await tab.shows("The limits of tenant are set.", "#flash");
  await until("what is one too many is refused", async () => { try { await insert([409, 429, 503]); return true; } catch { return false; } });
  await tab.click("=Delete");
  await tab.fill("dialog[open] #name_again", "tenants");
  await tab.follow("=Delete the namespace");
  await tab.there("#faults");
  ensure((await server.api("GET", "/v1/namespaces/tenant")).state === "active", "by a wrong name nothing is deleted");
  await tab.fill("#name_again", "tenant");
  await tab.follow("=Delete the namespace");
  await tab.shows("tenant is being deleted.", "#flash");
  await until("it is gone", async () => (await server.api("GET", "/v1/namespaces/tenant")).state !== "active");
}

async function settings(tab, server) {
  await tab.go("/console/settings");
  await tab.fill("#max_payload_bytes", "many");
  await tab.follow("#save");
  await tab.shows("is not a number", "#faults");
  await tab.fill("#max_payload_bytes", "1 000 000 000 000");
  await tab.follow("#save");
  await tab.shows("The limits of everything are set.", "#flash");
  ensure((await server.api("GET", "/v1/limits")).max_payload_bytes === 1e12, "it is set");
  await tab.fill("#max_payload_bytes", "");
  await tab.follow("#save");
  ensure((await server.api("GET", "/v1/limits")).max_payload_bytes == null, "and taken back");
  await tab.click("=Change");
  await tab.fill("dialog[open] #filter", "warn,punctual_server=info");
  await tab.follow("=Change it");
  await tab.shows("punctual_server=info", "main");
  ensure((await server.api("GET", "/v1/log-filter")).filter.includes("punctual_server=info"), "the engine logs by it");
  await tab.click("=Change");
  await tab.fill("dialog[open] #filter", "");
  await tab.follow("=Change it");
}

export default async function ({ tab, server }) {
  await tab.signIn(server.token);
  await tokens(tab, server);
  await namespaces(tab, server);
  await settings(tab, server);
}
