// A schedule is made in the form, whose next runs are computed while one types; a mistake is told at its field; the calendar shows it in
// another zone; it is run by hand, paused, changed and deleted. And without scripts the same form computes by a button.
import { ensure, until } from "../browser.mjs";

export default async function ({ tab, open, server }) {
  await tab.signIn(server.token);
  await tab.go("/console/schedules/new");
  await tab.until("ten runs of what stands there are shown", () => document.querySelectorAll("#next-runs li").length === 10);
  await tab.fill("#time_zone", "Asia/Tokyo");
  await tab.fill("#cron", "30 18 24 12 *");
  await tab.until("the runs are those of the new expression", () => {
    const runs = [...document.querySelectorAll("#next-runs li time")].map(it => it.dateTime);
    return runs.length === 10 && runs.every(it => it.endsWith("-12-24T09:30:00.000Z"));
  });
  await tab.fill("#cron", "61 * * * *");
  await tab.shows("Cron expressions", "#next-runs .note");
  await tab.fill("#queue", "scheduled");
  await tab.fill("#name", "digest");
  await tab.fill("#payload", "{\"big\": 12345678901234567890, \"x\": 1.0}");
  await tab.follow("#save");
  await tab.there(".faulty #cron");
  ensure((await tab.see(() => document.querySelector("#payload").value)).includes("12345678901234567890"), "what was typed is still there");
  await tab.fill("#cron", "30 18 * * *");
  await tab.follow("#save");
  await tab.shows("digest is made.", "#flash");
  const made = await server.api("GET", "/v1/schedules/digest");
  ensure(made.time_zone === "Asia/Tokyo" && made.cron[0] === "30 18 * * *" && made.enabled, `it is stored as it was typed: ${JSON.stringify(made)}`);
  await tab.shows("18:30", "#coming li.some");
  await tab.go("/console/schedules/digest?zone=UTC");
  await tab.shows("09:30", "#coming li.some");

  await tab.click("=Run now");
  await tab.follow("=Make one run now");
  await tab.shows("by hand", "#runs");
  await until("its task is there", async () => (await server.lease("scheduled")).some(it => it.payload && JSON.stringify(it.payload).includes("big")));
  await tab.click("=Pause");
  await tab.fill("dialog[open] #reason", "the printer burns");
  await tab.follow("=Pause the schedule");
  await tab.shows("the printer burns", "#paused");
  await tab.shows("None is to come");
  await tab.click("=Resume");
  await tab.follow("=Resume the schedule");
  await tab.follow("=Change");
  await tab.fill("#description", "every evening");
  await tab.follow("#save");
  await tab.shows("every evening", "#state");
  const changed = await server.api("GET", "/v1/schedules/digest");
  ensure(changed.cron[0] === "30 18 * * *" && changed.time_zone === "Asia/Tokyo", "what was left as it is stays");

  const plain = await open();
  await plain.page.setJavaScriptEnabled(false);
  await plain.signIn(server.token);
  await plain.go("/console/schedules/digest/change");
  const answer = await plain.page.evaluate(() => {
    const form = document.querySelector("#schedule-form");
    form.querySelector("#cron").value = "15 6 * * *";
    return [form.method, form.querySelector("#show-next").name];
  });
  ensure(answer.join() === "post,preview", "the button is of the form");
  await Promise.all([plain.page.waitForNavigation({ waitUntil: "load" }), plain.page.click("#show-next")]);
  ensure((await plain.see(() => [...document.querySelectorAll("#next-runs li time")].map(it => it.dateTime))).every(it => it.endsWith("T21:15:00.000Z")), "the runs are computed without scripts");
  ensure((await server.api("GET", "/v1/schedules/digest")).revision === changed.revision, "and nothing was stored");

  await tab.go("/console/schedules/digest");
  await tab.click("=Delete");
  await tab.follow("=Delete the schedule");
  await tab.shows("digest is deleted.", "#flash");
  await server.api("GET", "/v1/schedules/digest", undefined, { expect: 404 });
}
