// The page of the last verify: it shows what `paddock verify` kept, and runs nothing.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, flow, stage } from "./harness.mjs";

const the = stage();
const HOSTILE = "<img src=x onerror=alert(1)>\u202e gnp";

flow(the, "before the first verify the page says how to run it", async (page, server) => {
  await page.at("#/verify");
  await page.getByText("This host was never verified").waitFor();
  await page.getByText("sudo paddock verify").waitFor();
  assert.deepEqual(await server.ask("GET", "/v1/verify"), { results: [] });
});

flow(the, "what paddock verify found is kept and shown, and a part of it says so", async (page, server) => {
  // A part of the suite, so that it takes seconds. Its exit code is that of the attacks; here it is about the record.
  await server.paddock("verify", "--backend", "process", "--group", "A1").catch((error) => assert.equal(error.code, 1));
  const { results } = await server.ask("GET", "/v1/verify");
  assert.equal(results.length, 1);
  const [result] = results;
  assert.equal(result.backend, "process");
  assert.deepEqual(result.only, ["A1"]);
  assert.ok(result.rows.length > 0 && result.rows.every((row) => row.attacks.length > 0));
  await page.at("#/verify");
  await page.getByText("process, only A1").waitFor();
  const table = page.getByRole("table", { name: "Verify of process" });
  const [row] = result.rows;
  const held = row.attacks.filter((attack) => attack.id.startsWith("A") && attack.verdict === "held").length;
  await table.getByRole("row", { name: new RegExp(`${row.engine}, as ${row.user}`) }).getByText(`${held} / `).waitFor();
  await page.getByLabel("Attacks of process", { exact: true }).selectOption("held");
  await page.getByText(row.attacks.find((attack) => attack.verdict === "held").id).first().waitFor();
  const shown = await server.paddock("verify", "--last").catch((error) => error.stdout);
  assert.match(shown, /process .*A1/);
});

flow(the, "what was not held stands first, and hostile words of it do nothing", async (page, server) => {
  const { results } = await server.ask("GET", "/v1/verify");
  const [result] = results;
  Object.assign(result, { held: false, only: [], version: HOSTILE, left_behind: [`a mount ${HOSTILE}`] });
  result.rows[0].attacks.push({ id: "C99-hostile", title: HOSTILE, verdict: "failed", detail: `it said ${HOSTILE}` });
  writeFileSync(join(server.environment.PADDOCK_STATE_DIR, "verify/process.json"), JSON.stringify(result));
  await page.at("#/verify");
  await page.getByText("1 not held").waitFor();
  await page.getByRole("row", { name: /C99-hostile/ }).getByText("it said <img src=x onerror=alert(1)>\ufffd gnp").waitFor();
  await page.getByText("Left behind: a mount").waitFor();
  assert.equal(await page.locator("main img").count(), 0);
});

flow(the, "a damaged record shows nothing as held", async (page, server) => {
  const path = join(server.environment.PADDOCK_STATE_DIR, "verify/process.json");
  const text = readFileSync(path, "utf8");
  writeFileSync(path, text.slice(0, text.length / 2));
  const { results } = await server.ask("GET", "/v1/verify");
  assert.ok(results.every((result) => result.only?.length > 0), "only the partial run is left");
  await page.at("#/verify");
  await page.getByText("process, only A1").waitFor();
  assert.equal(await page.getByText("1 not held").count(), 0);
});
