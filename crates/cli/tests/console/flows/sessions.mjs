// In with a token, and not with a wrong one; back to where one was; out; and out when the session or its token has ended.
import { ensure } from "../browser.mjs";

export default async function ({ tab, server, setup }) {
  await tab.go("/console/tasks?queue=some");
  await tab.shows("Sign in", "h1");
  await tab.fill("#token", "punctual_wrong_token-of-nobody");
  await tab.follow("=Sign in");
  await tab.shows("This token is not good", "#login-fault");
  ensure((await tab.context.cookies()).length === 0, "and there is no cookie");
  await tab.fill("#token", server.token);
  await tab.follow("=Sign in");
  ensure(tab.page.url().endsWith("/console/tasks?queue=some"), `one is where one was: ${tab.page.url()}`);
  const [cookie] = await tab.context.cookies();
  ensure(cookie.httpOnly && cookie.sameSite === "Strict", "no script and no other site has the session");
  await tab.click("#me summary");
  await tab.follow("#sign-out");
  await tab.shows("You are signed out.");
  await tab.go("/console");
  await tab.shows("Sign in", "h1");

  // Its time is over, a second ago; or nobody has sealed it.
  for (const value of [setup.ended, cookie.value.replace("v1.", "v1.1")]) {
    await tab.context.setCookie({ ...cookie, value });
    await tab.go("/console/queues");
    await tab.shows("Your session has ended");
    ensure((await tab.context.cookies()).length === 0, "the cookie is taken away");
  }

  // A token that ends under the open page.
  const { id, token } = await server.api("POST", "/v1/tokens", { name: "brief", roles: ["viewer"] });
  await tab.signIn(token);
  await tab.go("/console/queues");
  await tab.isLive();
  await server.api("DELETE", `/v1/tokens/${id}`, undefined, { expect: [200, 204] });
  await tab.shows("You are signed out", "#banner");
  await tab.follow("#banner a");
  await tab.fill("#token", server.token);
  await tab.follow("=Sign in");
  ensure(tab.page.url().endsWith("/console/queues"), "one is where one was");
}
