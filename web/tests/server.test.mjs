// The server's own pages: overview, list, pools, volumes, jobs, templates.

import { assert, eventually, flow, stage } from "./harness.mjs";

const the = stage();

flow(the, "the overview counts, and follows without reloading", async (page, server) => {
  await page.at();
  const running = page.locator(".tile").filter({ hasText: "Running" }).locator("strong");
  await running.waitFor();
  const before = Number(await running.innerText());
  const sandbox = await server.create({ name: "seen-at-once" });
  await page.getByRole("link", { name: "seen-at-once" }).waitFor();
  await eventually(() => running.innerText(), String(before + 1));
  await server.exec(sandbox.id, "true");
  await page.getByText("exec ended").first().waitFor();
  await server.ask("DELETE", `/v1/sandboxes/${sandbox.id}`);
  await eventually(() => running.innerText(), String(before));
});

flow(the, "what failed lately is shown with its reason", async (page, server) => {
  const [bad, good] = [await server.create({ name: "eater" }), await server.create({ name: "finisher" })];
  await server.ask("DELETE", `/v1/sandboxes/${bad.id}?failed=true`);
  await server.ask("DELETE", `/v1/sandboxes/${good.id}`);
  await page.at();
  const failed = page.locator(".card").filter({ has: page.getByRole("heading", { name: "Failed lately" }) });
  await failed.getByRole("link", { name: "eater" }).waitFor();
  await failed.getByText("ended by a call, as failed").waitFor();
  assert.equal(await failed.getByText("finisher").count(), 0);
});

flow(the, "a sandbox is created from a template, paused, resumed, forked and killed", async (page, server) => {
  await page.at("#/sandboxes");
  await page.getByRole("button", { name: "Create" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("made-here");
  await dialog.getByLabel("Template").selectOption("code-interpreter");
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "made-here" }).waitFor();
  const head = page.locator(".head");
  await head.getByRole("button", { name: "Pause" }).click();
  await head.getByText("paused").waitFor();
  await head.getByRole("button", { name: "Resume" }).click();
  await head.getByText("running").waitFor();
  await head.getByRole("button", { name: "Fork" }).click();
  await page.getByText("Forked from").waitFor();
  await page.locator(".head").getByRole("button", { name: "Kill" }).click();
  await page.getByRole("button", { name: "Yes" }).click();
  await page.locator(".head").getByText("ended").waitFor();
  const made = await server.ask("GET", "/v1/sandboxes/made-here");
  assert.equal(made.template, "code-interpreter");
});

flow(the, "a template leads to a create with it", async (page, server) => {
  await page.at("#/templates");
  await page.getByRole("row", { name: /code-interpreter/ }).getByRole("link", { name: "Create a sandbox" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Name").fill("of-the-template");
  assert.equal(await dialog.getByLabel("Template").inputValue(), "code-interpreter");
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: "of-the-template" }).waitFor();
  assert.equal((await server.ask("GET", "/v1/sandboxes/of-the-template")).template, "code-interpreter");
});

flow(the, "a create that fails says why, in the dialog", async (page, server) => {
  await server.create({ name: "taken" });
  await page.at("#/sandboxes");
  await page.getByRole("button", { name: "Create" }).click();
  await page.getByRole("dialog").getByLabel("Name").fill("taken");
  await page.getByRole("dialog").getByRole("button", { name: "Create" }).click();
  await page.getByRole("dialog").getByRole("alert").getByText("the name `taken` is taken").waitFor();
});

flow(the, "the list is filtered by text, metadata and state", async (page, server) => {
  await server.create({ name: "alpha", metadata: { team: "red" } });
  const blue = await server.create({ name: "beta", metadata: { team: "blue" } });
  await server.ask("POST", `/v1/sandboxes/${blue.id}/pause`);
  await page.at("#/sandboxes");
  const list = page.getByRole("list", { name: "Sandboxes" });
  await list.getByText("alpha").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("team=blue");
  await list.getByText("alpha").waitFor({ state: "detached" });
  await list.getByText("beta").waitFor();
  await page.getByRole("searchbox").fill("");
  await page.getByLabel("State").selectOption("paused");
  // Until the filtered list has come, the whole one is shown.
  await list.getByText("alpha").waitFor({ state: "detached" });
  await list.getByText("beta").waitFor();
  await server.ask("POST", `/v1/sandboxes/${blue.id}/resume`);
  await page.getByText("No sandbox is paused.").waitFor();
});

flow(the, "an open overview asks for a few rows at a time, and a hidden one for nothing", async (page, server) => {
  await page.addInitScript(() => {
    Object.defineProperty(document, "hidden", { get: () => window.isHidden === true });
  });
  await page.at();
  await page.getByText("Half of the creates within").waitFor();
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url())));
  const newest = page.locator("section.card").filter({ has: page.getByRole("heading", { name: "Newest sandboxes" }) });
  // A stream of events does not put the list off.
  let last;
  for (let number = 0; number < 40; number += 1) last = await server.create({ name: `stream-${number}` });
  await newest.getByRole("link", { name: last.name, exact: true }).waitFor();
  const lists = asked.filter((url) => url.pathname === "/v1/sandboxes");
  assert.ok(lists.length > 0 && lists.every((url) => Number(url.searchParams.get("limit")) <= 50), lists.join(" "));
  assert.ok(lists.length < 40, `${lists.length} lists for 40 creates`);
  assert.ok(asked.every((url) => ["/v1/sandboxes", "/v1/server/load", "/v1/pools", "/v1/whoami", "/v1/events"].includes(url.pathname)), asked.join(" "));
  await page.evaluate(() => {
    window.isHidden = true;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  asked.length = 0;
  const unseen = await server.create({ name: "unseen" });
  await server.exec(unseen.id, "sleep 6");
  assert.deepEqual(asked.map((url) => url.pathname), []);
  await page.evaluate(() => {
    window.isHidden = false;
    document.dispatchEvent(new Event("visibilitychange"));
  });
  await newest.getByRole("link", { name: "unseen", exact: true }).waitFor();
});

flow(the, "pools are set, filled and removed", async (page) => {
  await page.at("#/pools");
  await page.getByLabel("Template").selectOption("code-interpreter");
  await page.getByLabel("at least").fill("1");
  await page.getByLabel("at most").fill("2");
  await page.getByRole("button", { name: "Keep ready" }).click();
  const row = page.getByRole("row").filter({ hasText: "code-interpreter" }).filter({ hasText: "owner" });
  await eventually(async () => Number(await row.getByRole("cell").nth(2).innerText()) >= 1);
  await row.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("button", { name: "Yes" }).click();
  await row.waitFor({ state: "detached" });
});

flow(the, "a volume has a history, and an earlier version comes back", async (page, server) => {
  await page.at("#/volumes");
  await page.getByLabel("Name of a new volume").fill("memory");
  await page.getByRole("button", { name: "Make a volume" }).click();
  await page.getByRole("link", { name: "memory" }).waitFor();
  for (const text of ["first", "second"]) {
    const put = await fetch(`${server.url}/v1/volumes/memory/files/content?path=/note`, { method: "PUT", headers: { authorization: `Bearer ${server.token}`, "content-type": "application/octet-stream" }, body: text });
    assert.ok(put.ok, await put.text());
  }
  await page.getByRole("link", { name: "memory" }).click();
  const versions = page.getByRole("table", { name: "Versions" });
  await versions.getByText("current").waitFor();
  await versions.getByRole("row").filter({ has: page.getByRole("button", { name: "Restore" }) }).last().getByRole("button").click();
  await page.getByText(/is the current one again/).waitFor();
});

flow(the, "a job shows its tasks and what they print", async (page, server) => {
  const job = await server.ask("POST", "/v1/jobs", { name: "counting", command: "echo task output; exit 0" });
  await page.at("#/jobs");
  await page.getByRole("link", { name: "counting" }).click();
  await page.getByRole("table", { name: "Tasks" }).getByText("succeeded").waitFor();
  await page.getByRole("table", { name: "Tasks" }).getByRole("button", { name: "Output" }).click();
  await page.getByLabel("Output", { exact: true }).last().getByText("task output").waitFor();
  assert.match(page.url(), new RegExp(job.id));
});

flow(the, "what a task prints shows as it comes, and is read once", async (page, server) => {
  const asked = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  const job = await server.ask("POST", "/v1/jobs", { name: "slow", command: "echo first; sleep 5; echo second" });
  await page.at(`#/jobs/${job.id}`);
  await page.getByRole("table", { name: "Tasks" }).getByRole("button", { name: "Output" }).click();
  const output = page.getByLabel("Output", { exact: true }).last();
  await output.getByText("first").waitFor();
  await output.getByText("second").waitFor();
  await page.getByRole("table", { name: "Tasks" }).getByText("succeeded").waitFor();
  // The list of jobs is asked for every four seconds, and the output of a task that is over no more.
  const lists = () => asked.filter((path) => path === "/v1/jobs").length;
  const before = lists();
  await eventually(() => lists() >= before + 2);
  assert.equal(asked.filter((path) => path === `/v1/jobs/${job.id}/logs`).length, 1);
});

flow(the, "templates are listed", async (page) => {
  await page.at("#/templates");
  await page.getByRole("row", { name: /code-interpreter/ }).getByText("the server's").waitFor();
});

flow(the, "every page is reached by keyboard alone", async (page, server) => {
  await server.create({ name: "by-keyboard" });
  await page.at();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  for (const [key, title] of [["3", "Templates"], ["4", "Pools"], ["5", "Volumes"], ["6", "Jobs"], ["7", "Access"], ["8", "Verify"], ["2", "Sandboxes"]]) {
    await page.keyboard.press(key);
    await page.getByRole("heading", { name: title, exact: true }).waitFor();
  }
  await page.getByRole("listitem").first().focus();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await page.getByRole("tab", { name: "Summary" }).waitFor();
});
