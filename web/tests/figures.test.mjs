// Rich results: figures from their numbers, tables, and values that mean harm.

import { assert, eventually, flow, stage } from "./harness.mjs";

const the = stage();

async function shows(page, server, code) {
  const sandbox = await server.create({ template: "code-interpreter" });
  await page.at(`#/sandboxes/${sandbox.id}/code`);
  await page.getByLabel("Code", { exact: true }).fill(code);
  await page.getByRole("button", { name: "Run" }).click();
  return page.locator(".result");
}

/** Whatever the interpreter has installed: the representation is the one that figures have. */
function result(fields) {
  const made = Object.entries(fields).map(([kind, value]) => `${JSON.stringify(kind)}: ${value}`);
  return `import json, base64\nclass R:\n    def _repr_mimebundle_(self, *_, **__):\n        return {${made.join(", ")}}\nR()`;
}

const chart = (value) => result({ "application/vnd.paddock.chart+json": `json.loads(${JSON.stringify(JSON.stringify(value))})`, "text/plain": '"figure"' });

flow(the, "a line, its scales and its legend are drawn from the numbers", async (page, server) => {
  const found = await shows(page, server, chart({
    type: "line", title: "Speed", x_label: "time", y_label: "km/h", x_scale: "linear", y_scale: "linear",
    elements: [{ label: "one", points: [[0, 0], [1, 10], [2, 5]] }, { label: "two", points: [[0, 5], [2, 7]] }],
  }));
  const figure = found.locator("figure.figure");
  await figure.getByText("Speed").waitFor();
  await figure.getByText("km/h").waitFor();
  assert.equal(await figure.locator("polyline").count(), 2);
  const points = (await figure.locator("polyline").first().getAttribute("points")).split(" ").map((point) => point.split(",").map(Number));
  assert.equal(points.length, 3);
  // Upwards is less: the second point is the highest.
  assert.ok(points[1][1] < points[2][1] && points[2][1] < points[0][1], JSON.stringify(points));
  assert.deepEqual((await figure.locator(".legend li").allInnerTexts()).map((text) => text.trim()), ["one", "two"]);
});

flow(the, "bars, pies, boxes and points are drawn", async (page, server) => {
  const part = { x_label: null, y_label: null, x_scale: "linear", y_scale: "linear" };
  const found = await shows(page, server, chart({
    type: "superchart", title: "All", elements: [
      { ...part, type: "line", drawn: "lines", title: "empty", elements: [] },
      { ...part, type: "bar", title: "bars", elements: [{ label: "a", group: "", value: 3 }, { label: "b", group: "", value: -2 }] },
      { ...part, type: "pie", title: "pie", elements: [{ label: "x", angle: 90, share: 0.25 }, { label: "y", angle: 270, share: 0.75 }] },
      { ...part, type: "box", title: "box", elements: [{ label: "q", min: 1, first_quartile: 2, median: 3, third_quartile: 4, max: 9 }] },
      { ...part, type: "scatter", title: "points", x_scale: "datetime", elements: [{ label: "", points: [["2026-01-01T00:00:00", 1], ["2026-03-01T00:00:00", 100]] }] },
      { ...part, type: "line", title: "log", y_scale: "log", elements: [{ label: "", points: [[1, 1], [2, 1000], [3, 0], [4, -5]] }] },
    ],
  }));
  for (const [title, count] of [["bars", 2], ["pie", 2], ["box", 4], ["points", 2], ["log", 1]]) {
    const figure = found.locator("figure.figure").filter({ has: page.getByText(title, { exact: true }) });
    await figure.waitFor();
    const drawn = figure.locator("svg :is(rect, path, circle, polyline)");
    await eventually(() => drawn.count(), title === "box" ? 3 : count);
  }
  await found.locator("figure.figure").nth(3).getByText(/^2026-0/).first().waitFor();
  // On a scale of logarithms there is no zero.
  assert.equal((await found.locator("figure.figure").nth(4).locator("polyline").getAttribute("points")).split(" ").length, 2);
});

flow(the, "a real figure is drawn from its numbers, and its picture is a press away", async (page, server, skip) => {
  const found = await shows(page, server, "try:\n    import matplotlib.pyplot as plt\n    plt.plot([1, 2, 3], [4, 1, 3], label='real')\n    plt.title('of matplotlib')\nexcept ImportError:\n    print('no matplotlib')");
  const missing = page.getByText("no matplotlib", { exact: true });
  await found.or(missing).first().waitFor();
  if (await missing.count()) return skip("the host has no matplotlib");
  await found.getByText("of matplotlib").waitFor();
  assert.equal(await found.locator("polyline").count(), 1);
  await found.getByRole("button", { name: "Show it as the code drew it" }).click();
  await eventually(() => found.locator("img").evaluate((image) => image.naturalWidth > 100));
  await found.getByRole("button", { name: "Draw it from its numbers" }).click();
  await found.locator("polyline").waitFor();
});

flow(the, "hostile values in a chart draw nothing that is not there", async (page, server) => {
  const hostile = "</text></svg><img src=x onerror=alert(1)>";
  const points = [[0, 1], [1, null], [2, "x"], [{ toString: "y" }, 3], [3], "points", null, [4, 1e308], [5, -1e308], [6, 2], ["<script>", 1]];
  const found = await shows(page, server, chart({
    type: "line", title: hostile, x_label: `\u202e${hostile}`, y_label: "l".repeat(100_000), x_scale: { a: 1 }, y_scale: "javascript:alert(1)",
    elements: [{ label: hostile, points }, null, 7, { label: { a: 1 }, points: "none" }, ...Array.from({ length: 500 }, () => ({ label: hostile, points: [[1, 1], [2, 2]] }))],
  }));
  const figure = found.locator("figure.figure");
  await figure.getByText("</text></svg><img").first().waitFor();
  assert.equal(await page.locator("main img, main script, main foreignObject").count(), 0);
  assert.ok((await figure.locator("polyline").count()) <= 12);
  const texts = await figure.locator("text, figcaption, li").allTextContents();
  assert.ok(texts.every((text) => text.length <= 60), `${Math.max(...texts.map((text) => text.length))}`);
  for (const drawn of await figure.locator("polyline").evaluateAll((lines) => lines.map((line) => line.getAttribute("points")))) {
    assert.doesNotMatch(drawn, /NaN|Infinity|undefined|[a-df-z<>]/);
  }
});

flow(the, "what is no chart is shown as text, and a chart of a million points as its first", async (page, server) => {
  const found = await shows(page, server, chart({ type: "line", elements: [{ label: "", points: [[null, null], [{}, []]] }] }));
  await found.getByText("figure").waitFor();
  assert.equal(await found.locator("svg").count(), 0);
  for (const odd of [[], 7, "line", { type: "toString", elements: [] }, { type: "bar" }, { type: "superchart", elements: [{ type: "superchart", elements: [] }] },
    { type: "bar", drawn: "several", elements: [{ label: "a", group: "", value: 3 }], lines: [{ label: "", points: [[0, 1], [1, 2]] }] }]) {
    const shown = await shows(page, server, chart(odd));
    await shown.getByText("figure").waitFor();
    assert.equal(await shown.locator("svg").count(), 0, JSON.stringify(odd));
  }
  const many = await shows(page, server, result({ "application/vnd.paddock.chart+json": "{'type': 'scatter', 'elements': [{'label': '', 'points': [[n, n] for n in range(20000)]}]}", "text/plain": '"figure"' }));
  await many.locator("circle").first().waitFor();
  assert.equal(await many.locator("circle").count(), 2000);
});

flow(the, "a table is bounded in rows, columns and cells, and its words do nothing", async (page, server) => {
  const data = "{'columns': [f'<b>{n}</b>' for n in range(300)], 'rows': [['<img src=x onerror=alert(1)>' + 'y' * 1500] + [n] * 299 for n in range(250)], 'total_rows': 7000}";
  const found = await shows(page, server, result({ "application/vnd.paddock.data+json": data, "text/plain": '"frame"' }));
  const table = found.getByRole("table");
  await table.waitFor().catch(async () => assert.fail(await found.innerText()));
  await found.getByText("200 of 7000 rows, 100 of 300 columns").waitFor();
  assert.equal(await table.locator("tbody tr").count(), 200);
  assert.equal(await table.locator("th").count(), 100);
  assert.ok((await table.locator("td").first().innerText()).length <= 1001);
  assert.equal(await page.locator("main img, td b, th b").count(), 0);
});
