// A thousand sandboxes, and a server that dies and comes back.

import { LIMIT, assert, eventually, flow, stage } from "./harness.mjs";
import { test } from "node:test";

const the = stage();
const MANY = Number(process.env.PADDOCK_TEST_MANY ?? 1000);

const MEASURED_MS = 15_000;

/** Of one processor, in percent. */
async function cost() {
  const spent = async () => (await the.server.ask("GET", "/v1/server/load")).server.cpu_ms;
  const before = await spent();
  await new Promise((done) => setTimeout(done, MEASURED_MS));
  return (100 * ((await spent()) - before)) / MEASURED_MS;
}

test(`${MANY} sandboxes are made`, { timeout: LIMIT }, async () => {
  let left = MANY;
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      while (left > 0) {
        left -= 1;
        await the.server.create({ name: `many-${left}`, limits: { memory_bytes: 32 << 20 } });
      }
    }),
  );
});

flow(the, "a thousand sandboxes are in the list, and few of them in the page", async (page) => {
  await page.at("#/sandboxes");
  await page.getByRole("status").getByText(String(MANY), { exact: true }).waitFor();
  const rows = page.getByRole("listitem");
  assert.ok((await rows.count()) < 60, `${await rows.count()} rows`);
  await rows.first().focus();
  await page.keyboard.press("End");
  await page.getByRole("link", { name: `many-${MANY - 1}`, exact: true }).waitFor();
  await page.keyboard.press("Home");
  await page.getByRole("searchbox").fill(`many-${Math.floor(MANY / 2)}`);
  await page.getByRole("link", { name: `many-${Math.floor(MANY / 2)}`, exact: true }).waitFor();
});

flow(the, "the overview draws at once beside a thousand sandboxes", async (page) => {
  await page.at();
  await eventually(() => page.locator(".tile").filter({ hasText: "Running" }).locator("strong").innerText(), String(MANY));
  // Numbers for people: a test never decides by time.
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  const open = await cost();
  await page.goto("about:blank");
  const alone = await cost();
  console.log(`NUMBER dashboard: first paint ${Math.round(paint)} ms beside ${MANY} sandboxes; the server uses ${open.toFixed(2)} % of a core with an open overview, ${alone.toFixed(2)} % without`);
});

flow(the, "a server that dies and comes back is noticed, and the page goes on", async (page, server) => {
  const sandbox = await server.ask("GET", "/v1/sandboxes/many-0");
  await page.at(`#/sandboxes/${sandbox.id}/commands`);
  await page.getByLabel("Command", { exact: true }).fill("echo before; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo after");
  await page.keyboard.press("Enter");
  await page.getByLabel("Output").getByText("before").waitFor();
  await server.kill();
  await page.getByText("The server does not answer.").waitFor();
  await page.getByLabel("Output").getByText("before").waitFor();
  await server.start();
  await page.getByText("The server does not answer.").waitFor({ state: "detached" });
  await server.exec(sandbox.id, "touch /tmp/go");
  await page.getByLabel("Output").getByText("after").waitFor();
  assert.equal((await page.getByLabel("Output").innerText()).trim(), "before\nafter");
});
