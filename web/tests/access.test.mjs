// The way in, and what keeps others out.

import { assert, eventually, flow, stage, tab } from "./harness.mjs";
import { test } from "node:test";

const the = stage();

flow(the, "a token that is typed signs in, and stays in its tab", async (page, server) => {
  await page.at();
  await page.getByLabel("Token").fill(server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.reload();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  const other = await page.context().newPage();
  await other.goto(`${server.url}/ui/`);
  await other.getByLabel("Token").waitFor();
  assert.deepEqual(await page.context().cookies(), []);
  assert.ok(!(await page.evaluate((token) => JSON.stringify({ ...localStorage }).includes(token), server.token)));
}, { token: null });

flow(the, "a wrong token is refused, and says what to do", async (page) => {
  await page.at();
  await page.getByLabel("Token").fill("pdk_wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  const alert = page.getByRole("alert");
  await alert.getByText("this token is not known").waitFor();
  await alert.getByText("Copy it again as paddock token create printed it").waitFor();
  await alert.getByText("paddock token create").waitFor();
}, { token: null });

flow(the, "the link of paddock ui signs in once", async (page, server) => {
  const link = (await server.paddock("ui", "--print")).trim();
  assert.match(link, new RegExp(`^${server.url}/ui/#code=[A-Za-z0-9_-]{43}$`));
  await page.goto(link);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  assert.ok(!page.url().includes("code="), page.url());
  const tokens = JSON.parse(await server.paddock("token", "ls", "--json"));
  const made = tokens.find((one) => one.label === "dashboard");
  assert.equal(made.tenant, "owner");
  const hours = (made.expires_at_ms - made.created_at_ms) / 3_600_000;
  assert.equal(hours, 8);
  const second = await tab(the, { token: null });
  await second.goto(link);
  await second.getByText("it was used, or is too old").waitFor();
  await second.context().close();
}, { token: null });

flow(the, "a link for a tenant shows that tenant and nothing else", async (page, server) => {
  const mine = await server.create({ name: "of-the-owner" });
  const link = (await server.paddock("ui", "--print", "--tenant", "team-a", "--role", "read-only", "--lasts", "1h")).trim();
  await page.goto(link);
  await page.getByText("The numbers of the whole server are for its owner").waitFor();
  await page.goto(`${server.url}/ui/#/sandboxes`);
  await page.getByText("No sandbox here yet").waitFor();
  await page.goto(`${server.url}/ui/#/sandboxes/${mine.id}`);
  await page.getByRole("alert").waitFor();
  await page.goto(`${server.url}/ui/#/sandboxes`);
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("dialog").getByText("a read-only token changes nothing").waitFor();
}, { token: null });

flow(the, "a token that is revoked ends the session", async (page, server) => {
  const created = JSON.parse(await server.paddock("token", "create", "--role", "admin", "--json"));
  await page.at();
  await page.getByLabel("Token").fill(created.secret);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await server.paddock("token", "revoke", created.id);
  await page.getByLabel("Token").waitFor();
}, { token: null });

flow(the, "signing out ends the token that was made for the tab", async (page, server) => {
  await page.goto((await server.paddock("ui", "--print", "--lasts", "3h")).trim());
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  const threeHours = async () => JSON.parse(await server.paddock("token", "ls", "--json")).filter((one) => one.expires_at_ms - one.created_at_ms === 3 * 3_600_000).length;
  assert.equal(await threeHours(), 1);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal(await threeHours(), 0);
}, { token: null });

flow(the, "a session ends when its time is over", async (page, server) => {
  await page.goto((await server.paddock("ui", "--print", "--lasts", "5s")).trim());
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.getByLabel("Token").waitFor();
  const labels = JSON.parse(await server.paddock("token", "ls", "--json")).filter((one) => one.expires_at_ms - one.created_at_ms === 5000);
  assert.deepEqual(labels, []);
}, { token: null });

flow(the, "signing out forgets the token", async (page) => {
  await page.at();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("paddock.token")), null);
});

flow(the, "tokens are made, shown once and revoked", async (page) => {
  await page.at("#/access");
  await page.getByRole("button", { name: "New token" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Label").fill("<b>for ci</b>");
  await dialog.getByLabel("Ends after days").fill("2");
  await dialog.getByRole("button", { name: "Make" }).click();
  assert.match(await dialog.getByLabel("Secret").inputValue(), /^pdk_/);
  await dialog.getByRole("button", { name: "Close" }).click();
  const row = page.getByRole("row", { name: /<b>for ci<\/b>/ });
  await row.getByText("in 1 d 23 h").waitFor();
  await row.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("button", { name: "Yes" }).click();
  await row.waitFor({ state: "detached" });
});

flow(the, "tenants and their quotas are shown", async (page, server) => {
  await server.paddock("quota", "team-b", "--sandboxes", "7");
  await page.at("#/access");
  await page.getByRole("row", { name: /team-b/ }).getByText("0 of 7").waitFor();
});

flow(the, "the owner's admin sets the quota of a tenant, and what is wrong is told", async (page, server) => {
  await server.paddock("quota", "team-c", "--sandboxes", "3", "--memory", "2GiB");
  await page.at("#/access");
  const row = page.getByRole("row", { name: /team-c/ });
  await row.getByRole("button", { name: "Set quota" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByLabel("Living sandboxes").inputValue(), "3");
  assert.equal(await dialog.getByLabel("Memory, MiB").inputValue(), "2048");
  await dialog.getByLabel("Processors").fill("0");
  await dialog.getByRole("button", { name: "Set" }).click();
  await dialog.getByRole("alert").getByText("a quota of cpus is a number above 0").waitFor();
  await dialog.getByLabel("Processors").fill("1.5");
  await dialog.getByLabel("Living sandboxes").fill("5");
  await dialog.getByLabel("Memory, MiB").fill("");
  await dialog.getByRole("button", { name: "Set" }).click();
  await row.getByText("0 of 5").waitFor();
  const tenants = JSON.parse(await server.paddock("quota", "team-c", "--json"));
  const quota = Object.fromEntries(Object.entries(tenants[0].quota).filter(([, value]) => value !== null));
  assert.deepEqual(quota, { live_sandboxes: 5, cpus: 1.5 });
});

flow(the, "a quota is set for a tenant that has nothing yet, and holds", async (page, server) => {
  await page.at("#/access");
  await page.getByRole("button", { name: "Quota of another tenant" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Tenant").fill("<b>");
  await dialog.getByLabel("Living sandboxes").fill("0");
  await dialog.getByRole("button", { name: "Set" }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Tenant").fill("team-d");
  await dialog.getByRole("button", { name: "Set" }).click();
  await page.getByRole("row", { name: /team-d/ }).getByText("0 of 0").waitFor();
  const token = (await server.paddock("token", "create", "--tenant", "team-d", "--role", "user")).trim();
  const create = await fetch(`${server.url}/v1/sandboxes`, { method: "POST", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: "{}" });
  assert.ok(create.status >= 400, `${create.status}`);
});

flow(the, "another tenant's admin is told who sets quotas, and cannot", async (page, server) => {
  const token = (await server.paddock("token", "create", "--tenant", "team-e", "--role", "admin")).trim();
  await page.at();
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.at("#/access");
  await page.getByText("Quotas are set by the owner of the host").waitFor();
  assert.equal(await page.getByRole("button", { name: /quota/i }).count(), 0);
  const refused = await fetch(`${server.url}/v1/tenants/team-e/quota`, { method: "PUT", headers: { authorization: `Bearer ${token}`, "content-type": "application/json" }, body: "{}" });
  assert.equal(refused.status, 403);
  await page.at("#/verify");
  await page.getByText("The results of verify are for the owner of the host").waitFor();
}, { token: null });

test("another name, another origin and another site are refused", async () => {
  const { port, token } = the.server;
  const { request } = await import("node:http");
  const status = (headers, path = "/v1/sandboxes", method = "GET") =>
    new Promise((done, fail) => {
      const asked = request({ host: "127.0.0.1", port, path, method, headers }, (answer) => (answer.resume(), done(answer.statusCode)));
      asked.on("error", fail);
      asked.end();
    });
  const bearer = { authorization: `Bearer ${token}` };
  const own = `127.0.0.1:${port}`;
  assert.equal(await status({ ...bearer, host: own }), 200);
  for (const path of ["/v1/sandboxes", "/ui/", "/v1/sign-in"]) {
    assert.equal(await status({ ...bearer, host: `rebound.example:${port}` }, path), 403, path);
  }
  assert.equal(await status({ ...bearer, host: own, origin: "https://evil.example" }), 403);
  assert.equal(await status({ ...bearer, host: own, origin: "null" }, "/v1/sign-in", "POST"), 403);
  // The frame for results has no origin, and asks for the dashboard's own code; by another name that is refused too.
  assert.equal(await status({ host: own, origin: "null" }, "/ui/assets/none.js"), 404);
  assert.equal(await status({ host: `rebound.example:${port}` }, "/ui/assets/none.js"), 403);
  // A session is never a cookie.
  assert.equal(await status({ host: own, cookie: `paddock_token=${token}` }), 401);
});

test("the socket serves no dashboard", async () => {
  const { request } = await import("node:http");
  const answer = await new Promise((done) => request({ socketPath: `${the.server.directory}/api.sock`, path: "/ui/" }, done).end());
  assert.equal(answer.statusCode, 404);
  let body = "";
  for await (const part of answer) body += part;
  assert.match(body, /--listen/);
});

flow(the, "a page behind a port has an origin of its own, and cannot take the session", async (page, server) => {
  const sandbox = await server.create({ name: "web" });
  const script = "try{document.title='token '+sessionStorage.getItem('paddock.token')}catch(e){document.title='kept apart'}";
  await server.ask("POST", `/v1/sandboxes/${sandbox.id}/execs`, {
    command: `mkdir -p /tmp/w && cd /tmp/w && printf '%s' "<script>${script}</script>" > index.html && exec python3 -m http.server 8000`,
    background: true,
  });
  await eventually(() => server.ask("GET", `/v1/sandboxes/${sandbox.id}/ports/8000/nothing`).then(() => true, (error) => / 404 /.test(error.message)));
  await page.at();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  // In the very tab that has the session.
  await page.goto(`${server.url}/v1/sandboxes/${sandbox.id}/ports/8000/?paddock_token=${server.token}`);
  await eventually(() => page.title(), "kept apart");
});
