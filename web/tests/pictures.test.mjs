// Pictures for the documents: docs/images has those that they show, and `PADDOCK_WRITE_IMAGES=1` writes these anew.

import { existsSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { IMAGES, ROOT, assert, eventually, flow, screen, stage } from "./harness.mjs";

const the = stage();
const DOCUMENTS = join(dirname(ROOT), "docs/images");
const made = {};

/** A server as it looks while agents work. */
async function furnish(server) {
  if (made.agent) return;
  await server.ask("PUT", "/v1/pools/code-interpreter", { min: 1, max: 3 });
  const names = ["fix-flaky-tests", "summarise-reports", "port-to-python-3", "review-4711", "plot-sales"];
  for (const name of names) {
    const { id } = await server.create({ name, template: name === "plot-sales" ? "code-interpreter" : undefined });
    await server.exec(id, "true");
    if (name === "review-4711") await server.ask("POST", `/v1/sandboxes/${id}/pause`);
    if (name === "port-to-python-3") await server.ask("DELETE", `/v1/sandboxes/${id}?failed=true`);
  }
  const agent = await server.create({ name: "weather-agent", template: "code-interpreter", network: { allow: ["pypi.org", "api.weather.example:443"] } });
  await server.exec(agent.id, "mkdir -p /workspace/app && cd /workspace/app && printf 'def forecast(city):\\n    return \"rain in \" + city\\n\\n\\nprint(forecast(\"Oslo\"))\\n' > main.py");
  for (const host of ["telemetry.example", "metrics.tracker.example:8443"]) await server.exec(agent.id, `curl -sS -m 3 http://${host}/ || true`);
  made.agent = agent.id;
  made.fork = (await server.ask("POST", `/v1/sandboxes/${agent.id}/fork`, {})).sandboxes[0].id;
  await server.exec(made.fork, "cd /workspace/app && sed -i 's/rain in/sunshine over/' main.py && echo requests > requirements.txt");
}

for (const theme of ["light", "dark"]) {
  flow(the, `pictures, ${theme}`, async (page, server) => {
    await furnish(server);
    const take = (name) => page.screenshot({ path: join(IMAGES, `dashboard-${name}-${theme}.png`) });
    await page.at();
    await page.getByText("Half of the creates within").waitFor();
    await page.getByRole("link", { name: "weather-agent" }).first().waitFor();
    // The host's load is drawn from its second sample on.
    await page.locator("figure").filter({ hasText: "Processors" }).locator("strong").getByText("%").waitFor();
    await take("overview");
    await page.at(`#/sandboxes/${made.agent}/terminal`);
    await page.locator(".state.connected").waitFor();
    await eventually(async () => /[$#]$/m.test(await screen(page)));
    await page.keyboard.type("python3 app/main.py && ls -la app");
    await page.keyboard.press("Enter");
    await page.locator(".xterm-rows").getByText(/ main\.py$/).first().waitFor();
    await take("terminal");
    await page.at(`#/sandboxes/${made.agent}/network`);
    await page.getByText("telemetry.example").first().waitFor();
    await take("network");
    await page.at(`#/sandboxes/${made.fork}/changes`);
    await page.getByText("sunshine over").first().waitFor();
    await take("changes");
  }, { theme });
}

test("each picture of the documents is one of these", () => {
  const shown = readdirSync(DOCUMENTS).filter((name) => name.startsWith("dashboard-"));
  assert.ok(shown.length > 0);
  assert.deepEqual(shown.filter((name) => !existsSync(join(IMAGES, name))), []);
});
