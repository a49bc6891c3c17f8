// What a person presses, and what the charts say: on the first page, in the list, in dialogs, by mouse and by keyboard.

import { cpus } from "node:os";
import { assert, eventually, flow, stage } from "./harness.mjs";

const the = stage();

const card = (page, title) => page.locator("section.card").filter({ has: page.getByRole("heading", { name: title, exact: true }) });
const yes = (page) => page.getByRole("dialog", { name: "Are you sure?" }).getByRole("button", { name: "Yes" }).click();
const stateOf = (server, id) => server.ask("GET", `/v1/sandboxes/${id}`).then((one) => one.state);

flow(the, "the overview counts creates by the minute", async (page, server) => {
  await page.at();
  const creates = card(page, "Creates");
  const chart = creates.getByRole("img", { name: /^Per minute, the last 30: \d+ this minute$/ });
  await chart.waitFor();
  // The titles of the bars, whatever minute it is when the flow runs.
  const counted = async () => {
    const titles = await chart.locator("title").allTextContents();
    const sum = (pattern) => titles.reduce((all, title) => all + Number(pattern.exec(title)[1]), 0);
    return [titles.length, sum(/: (\d+) created/), sum(/, (\d+) failed/)];
  };
  const [, created, failed] = await counted();
  for (let number = 0; number < 3; number += 1) await server.create();
  await eventually(counted, [30, created + 3, failed]);
  await creates.getByText(`${created + 3} created, ${failed} failed`, { exact: true }).waitFor();
});

flow(the, "the overview shows the host's processors and memory as they are", async (page, server) => {
  await page.at();
  const host = card(page, "Host");
  await host.getByRole("img", { name: new RegExp(`^Processors \\(${cpus().length}\\), now \\d+ %$`) }).waitFor();
  const memory = host.getByRole("img", { name: /^Memory in use, now [\d.]+ [KMGT]iB$/ });
  // One point more with each sample.
  const points = async () => (await memory.locator("polyline").getAttribute("points")).split(" ").length;
  const before = await points();
  await eventually(async () => (await points()) > before);
  const load = await server.ask("GET", "/v1/server/load");
  const gigabytes = (load.host.memory_bytes / 2 ** 30).toFixed(load.host.memory_bytes >= 100 * 2 ** 30 ? 0 : 1);
  await host.getByText(new RegExp(` of ${gigabytes} GiB$`)).waitFor();
});

flow(the, "the overview shows pools with what they have ready", async (page, server) => {
  await server.ask("PUT", "/v1/pools/code-interpreter", { min: 1, max: 2 });
  try {
    await page.at();
    const row = card(page, "Pools").getByRole("listitem").filter({ hasText: "code-interpreter" });
    await row.getByText("1 ready, 0 in use").waitFor();
    await row.getByText("not asked yet").waitFor();
    await server.create({ template: "code-interpreter" });
    await row.getByText(/100 % of 1 creates at once/).waitFor();
  } finally {
    await server.ask("DELETE", "/v1/pools/code-interpreter");
  }
});

flow(the, "memory, processor and disk of a sandbox are drawn over time", async (page, server) => {
  const sandbox = await server.create();
  await server.ask("POST", `/v1/sandboxes/${sandbox.id}/execs`, { command: "while :; do :; done", background: true, timeout_seconds: 60 });
  await page.at(`#/sandboxes/${sandbox.id}/usage`);
  const chart = (label) => card(page, "Over time").getByRole("img", { name: new RegExp(`^${label}, now `) });
  const points = async (label) => (await chart(label).locator("polyline").getAttribute("points")).split(" ").map((point) => point.split(",").map(Number));
  await chart("Processor, of one").waitFor();
  for (const label of ["Processor, of one", "Memory", "Disk"]) {
    await eventually(async () => (await points(label)).length >= 3);
    assert.ok((await points(label)).every((point) => point.length === 2 && point.every((number) => number >= 0 && number <= 320)));
  }
  // It works without pause.
  await eventually(async () => Number(/now ([\d.]+) %$/.exec(await chart("Processor, of one").getAttribute("aria-label"))[1]) > 5);
});

flow(the, "the theme is the system's until the person chooses, and stays chosen", async (page) => {
  await page.at();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  const button = page.locator(".foot").getByRole("button", { name: /system|light|dark/ });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await ground();
  await page.emulateMedia({ colorScheme: "dark" });
  const dark = await ground();
  assert.notEqual(dark, light);
  for (const [theme, wanted] of [["light", light], ["dark", dark], ["system", dark]]) {
    await button.click();
    await button.getByText(theme).waitFor();
    assert.equal(await ground(), wanted, theme);
  }
  await button.click();
  await page.reload();
  await button.getByText("light").waitFor();
  assert.equal(await ground(), light);
});

flow(the, "a sandbox is paused, resumed, forked and killed from its row", async (page, server) => {
  const sandbox = await server.create({ name: "in-a-row" });
  await page.at("#/sandboxes");
  const list = page.getByRole("list", { name: "Sandboxes" });
  const row = list.getByRole("listitem").filter({ hasText: "in-a-row" });
  await row.getByRole("button", { name: "Pause" }).click();
  await row.getByText("paused", { exact: true }).waitFor();
  assert.equal(await stateOf(server, sandbox.id), "paused");
  await row.getByRole("button", { name: "Resume" }).click();
  await row.getByText("running", { exact: true }).waitFor();
  await row.getByRole("button", { name: "Fork" }).click();
  await page.getByText("Forked from").waitFor();
  const fork = (await server.ask("GET", "/v1/sandboxes")).sandboxes.find((one) => one.parent === sandbox.id);
  assert.ok(page.url().endsWith(`#/sandboxes/${fork.id}`), page.url());
  await page.at("#/sandboxes");
  await row.getByRole("button", { name: "Kill" }).click();
  await page.getByRole("dialog").getByText("in-a-row ends, and what is in it is gone.").waitFor();
  await page.getByRole("button", { name: "No", exact: true }).click();
  assert.equal(await stateOf(server, sandbox.id), "running");
  await row.getByRole("button", { name: "Kill" }).click();
  await yes(page);
  await row.waitFor({ state: "detached" });
  await eventually(() => stateOf(server, sandbox.id), "ended");
});

flow(the, "a sandbox that sleeps is woken, with its files", async (page, server) => {
  const sandbox = await server.create({ name: "sleeper" });
  await server.exec(sandbox.id, "echo kept > /workspace/note");
  await server.ask("POST", `/v1/sandboxes/${sandbox.id}/hibernate`);
  await page.at(`#/sandboxes/${sandbox.id}`);
  await page.locator(".head").getByText("hibernated", { exact: true }).waitFor();
  assert.equal(await page.locator(".head").getByRole("button", { name: "Pause" }).count(), 0);
  await page.locator(".head").getByRole("button", { name: "Wake" }).click();
  await page.locator(".head").getByText("running", { exact: true }).waitFor();
  assert.equal((await server.exec(sandbox.id, "cat /workspace/note")).stdout, "kept\n");
});

flow(the, "a rule is typed, and what was tried shows the rule that it would need", async (page, server) => {
  const sandbox = await server.create({ network: { allow: ["first.example"] } });
  const allowed = async () => (await server.ask("GET", `/v1/sandboxes/${sandbox.id}/network`)).rules.allow.map(String);
  await page.at(`#/sandboxes/${sandbox.id}/network`);
  const form = card(page, "What may leave");
  assert.ok(await form.getByRole("button", { name: "Allow" }).isDisabled());
  await form.getByLabel("New rule").fill("*.typed.example:8443");
  await page.keyboard.press("Enter");
  await form.getByRole("listitem").filter({ hasText: "*.typed.example:8443" }).waitFor();
  assert.deepEqual(await allowed(), ["first.example", "*.typed.example:8443"]);
  await eventually(() => form.getByLabel("New rule").inputValue(), "");
  // What is no rule is told, and stays in the field.
  await form.getByLabel("New rule").fill("no rule at all");
  await form.getByRole("button", { name: "Allow" }).click();
  await page.locator(".toast.bad").first().waitFor();
  assert.equal(await form.getByLabel("New rule").inputValue(), "no rule at all");
  await server.exec(sandbox.id, "curl -sS -m 5 http://wanted.example:8080/ || true");
  const wanted = card(page, "Traffic").getByRole("listitem").filter({ hasText: "wanted.example" }).first();
  const rule = await wanted.locator("code").innerText();
  await wanted.getByRole("button", { name: "Allow" }).click();
  await eventually(async () => (await allowed()).includes(rule));
  await card(page, "Traffic").getByText(rule, { exact: true }).waitFor({ state: "detached" });
});

flow(the, "a directory is made, and files that are dropped on it are uploaded", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/files`);
  await page.getByRole("button", { name: "New directory" }).click();
  await page.getByRole("dialog", { name: "New directory" }).getByLabel("Name").fill("dropped here");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "dropped here" }).click();
  await page.getByText("Nothing is here. Drop files to upload them.").waitFor();
  const dataTransfer = await page.evaluateHandle(() => {
    const data = new DataTransfer();
    data.items.add(new File(["one\n"], "one.txt", { type: "text/plain" }));
    data.items.add(new File([new Uint8Array([0, 255, 10, 13])], "two.bin"));
    return data;
  });
  const place = page.locator("div.files");
  await place.dispatchEvent("dragover", { dataTransfer });
  await page.locator("div.files.over").waitFor();
  await place.dispatchEvent("drop", { dataTransfer });
  await page.locator("div.files.over").waitFor({ state: "detached" });
  await page.getByRole("link", { name: "one.txt" }).waitFor();
  await page.getByRole("link", { name: "two.bin" }).waitFor();
  assert.equal((await server.exec(sandbox.id, "cd '/workspace/dropped here' && cat one.txt && od -An -tx1 two.bin")).stdout, "one\n 00 ff 0a 0d\n");
});

flow(the, "code that runs is interrupted, and an interpreter is begun anew", async (page, server) => {
  const sandbox = await server.create({ template: "code-interpreter" });
  await page.at(`#/sandboxes/${sandbox.id}/code`);
  const code = page.getByLabel("Code", { exact: true });
  const newest = page.getByRole("article").first();
  const run = async (text) => {
    const before = await page.getByRole("article").count();
    await code.fill(text);
    await code.press("Control+Enter");
    await eventually(() => page.getByRole("article").count(), before + 1);
  };
  await run("x = 41");
  await newest.getByText("done").waitFor();
  await run("while True: pass");
  await page.getByRole("button", { name: "Interrupt" }).click();
  await newest.getByText(/KeyboardInterrupt/).first().waitFor();
  // An interrupt takes nothing of what it remembers away.
  await run("x + 1");
  await newest.getByText("42", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Restart" }).click();
  await page.getByRole("button", { name: "Restart", disabled: false }).waitFor();
  await run("x + 1");
  await newest.getByText(/NameError/).first().waitFor();
});

flow(the, "a job that runs is cancelled", async (page, server) => {
  const job = await server.ask("POST", "/v1/jobs", { name: "endless", command: "echo begun; sleep 600" });
  await page.at(`#/jobs/${job.id}`);
  await page.getByRole("table", { name: "Tasks" }).getByText("running").waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await yes(page);
  await page.getByRole("table", { name: "Tasks" }).getByText("cancelled").waitFor();
  assert.equal((await server.ask("GET", `/v1/jobs/${job.id}`)).state, "cancelled");
  await page.getByRole("button", { name: "Cancel" }).waitFor({ state: "detached" });
});

flow(the, "builds are turned over, older and newer", async (page, server) => {
  const BUILDS = 53;
  for (let number = 0; number < BUILDS; number += 1) {
    const { id } = await server.ask("POST", "/v1/template-builds", { name: `build-${number}`, image: "127.0.0.1:1/none", steps: [{ kind: "run", command: "true" }] });
    // A tenant has ten unfinished ones at most.
    await eventually(() => server.ask("GET", `/v1/template-builds/${id}`).then((build) => build.state), "failed");
  }
  await page.at("#/templates");
  const table = page.getByRole("table", { name: "Builds" });
  const rows = () => table.locator("tbody tr").count();
  const [newer, older] = [page.getByRole("button", { name: "Newer" }), page.getByRole("button", { name: "Older" })];
  await table.getByRole("link", { name: `build-${BUILDS - 1}`, exact: true }).waitFor();
  assert.equal(await rows(), 50);
  assert.ok(await newer.isDisabled());
  await older.click();
  await table.getByRole("link", { name: "build-0", exact: true }).waitFor();
  assert.equal(await rows(), BUILDS - 50);
  assert.ok(await older.isDisabled());
  await newer.click();
  await table.getByRole("link", { name: `build-${BUILDS - 1}`, exact: true }).waitFor();
  assert.ok(await newer.isDisabled());
});

flow(the, "dialogs are worked by keyboard alone, and Escape changes nothing", async (page, server) => {
  const sandbox = await server.create({ name: "kept-by-escape" });
  await page.at(`#/sandboxes/${sandbox.id}`);
  const kill = page.locator(".head").getByRole("button", { name: "Kill" });
  const dialog = page.getByRole("dialog", { name: "Are you sure?" });
  await kill.focus();
  await page.keyboard.press("Enter");
  await dialog.waitFor();
  // What is behind the dialog is out of reach.
  for (let times = 0; times < 6; times += 1) {
    await page.keyboard.press("Tab");
    assert.ok(await page.evaluate(() => document.activeElement === document.body || document.activeElement.closest("dialog") !== null));
  }
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.equal(await stateOf(server, sandbox.id), "running");
  await eventually(() => kill.evaluate((button) => button === document.activeElement && !button.disabled));
  await page.keyboard.press("Enter");
  await dialog.waitFor();
  await eventually(() => page.evaluate(() => document.activeElement.textContent), "Yes");
  await page.keyboard.press("Enter");
  await page.locator(".head").getByText("ended", { exact: true }).waitFor();
  await page.keyboard.press("2");
  await page.getByRole("button", { name: "Create", exact: true }).focus();
  await page.keyboard.press("Enter");
  const create = page.getByRole("dialog", { name: "Create a sandbox" });
  await create.waitFor();
  await eventually(() => page.evaluate(() => document.activeElement.getAttribute("name")), "name");
  await page.keyboard.type("typed-alone");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "typed-alone" }).waitFor();
  assert.equal((await server.ask("GET", "/v1/sandboxes/typed-alone")).state, "running");
});
