// Builds of templates: those of the command line and those of tenants, with their logs.

import { copyFileSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, flow, stage } from "./harness.mjs";

const the = stage();
const BUSYBOX = "/bin/busybox";

/** A build file over a root of its own, which needs no network. */
function project(server, name, steps) {
  const directory = join(server.directory, name);
  mkdirSync(join(directory, "root/bin"), { recursive: true });
  for (const part of ["etc", "tmp", "home"]) mkdirSync(join(directory, "root", part));
  copyFileSync(BUSYBOX, join(directory, "root/bin/busybox"));
  for (const applet of ["sh", "echo", "true", "false"]) symlinkSync("busybox", join(directory, "root/bin", applet));
  writeFileSync(join(directory, `${name}.toml`), `base = "./root"\nrun = [${steps.map((step) => JSON.stringify(step)).join(", ")}]\n`);
  return join(directory, `${name}.toml`);
}

flow(the, "a build of the command line is listed with its log", async (page, server, skip) => {
  if (!existsSync(BUSYBOX)) return skip("there is no busybox");
  const hostile = "<img src=x onerror=alert(1)>";
  await server.paddock("template", "build", project(server, "good", [`echo '${hostile}'; printf '\\033[31mred\\033[0m\\033]52;c;aGFja2Vk\\007\\n'`]));
  await server.paddock("template", "build", project(server, "bad", ["echo before the end", "false"])).catch((error) => assert.equal(error.code, 1));
  const { builds } = await server.ask("GET", "/v1/template-builds");
  assert.deepEqual(builds.map((one) => [one.name, one.state, one.made_by]), [["bad", "failed", "command"], ["good", "ready", "command"]]);
  await page.at("#/templates");
  const table = page.getByRole("table", { name: "Builds" });
  const row = table.getByRole("row", { name: /^bad/ });
  await row.getByText("failed", { exact: true }).waitFor();
  await row.getByText("false").waitFor();
  await table.getByRole("link", { name: "good" }).click();
  const log = page.getByLabel("Log");
  await log.getByText(hostile).last().waitFor();
  await log.getByText(/ red$/m).waitFor();
  assert.equal(await page.locator("main img").count(), 0);
  await page.at(`#/templates/${builds[0].id}`);
  await log.getByText("before the end").last().waitFor();
  await page.getByLabel("Level").selectOption("error");
  await log.getByText("error: ").waitFor();
  await log.getByText("[1/").waitFor({ state: "detached" });
  assert.match(await server.paddock("template", "builds"), /bad +failed/);
  assert.match(await server.paddock("template", "log", builds[0].id), /before the end\n/);
});

flow(the, "a build that a tenant asked for is listed with why it failed", async (page, server) => {
  // Nothing of this host is a registry that a tenant may name.
  const build = await server.ask("POST", "/v1/template-builds", { name: "mine", image: "127.0.0.1:1/none", steps: [{ kind: "run", command: "true" }] });
  await page.at("#/templates");
  const row = page.getByRole("table", { name: "Builds" }).getByRole("row", { name: /^mine/ });
  await row.getByText("failed", { exact: true }).waitFor();
  await row.getByText("the server").waitFor();
  await row.getByRole("link", { name: "mine" }).click();
  assert.match(page.url(), new RegExp(build.id));
  await page.getByLabel("Log").getByText("not at a public address").waitFor();
});

flow(the, "another tenant sees no build, and a user of the owner's tenant none of the command line", async (page, server) => {
  const asked = async (...words) => {
    const token = (await server.paddock("token", "create", ...words)).trim();
    const headers = { authorization: `Bearer ${token}` };
    const { builds } = await (await fetch(`${server.url}/v1/template-builds`, { headers })).json();
    return { headers, builds };
  };
  assert.deepEqual((await asked("--tenant", "others", "--role", "admin")).builds, []);
  const user = await asked("--role", "user");
  assert.ok(user.builds.every((one) => one.made_by === "tenant"));
  const of = (await server.ask("GET", "/v1/template-builds")).builds.find((one) => one.made_by === "command");
  if (of) {
    for (const path of ["", "/log"]) assert.equal((await fetch(`${server.url}/v1/template-builds/${of.id}${path}`, { headers: user.headers })).status, 404);
  }
  await page.at("#/templates");
});

flow(the, "builds are read page by page", async (page, server) => {
  const all = (await server.ask("GET", "/v1/template-builds")).builds.map((one) => one.id);
  const found = [];
  let cursor = "";
  do {
    const part = await server.ask("GET", `/v1/template-builds?limit=1${cursor && `&cursor=${cursor}`}`);
    assert.ok(part.builds.length <= 1);
    found.push(...part.builds.map((one) => one.id));
    cursor = part.next_cursor ?? "";
  } while (cursor);
  assert.deepEqual(found, all);
  const refused = await fetch(`${server.url}/v1/template-builds?limit=0`, { headers: { authorization: `Bearer ${server.token}` } });
  assert.equal(refused.status, 400);
});
