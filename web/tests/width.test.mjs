// Every page and every tab of a sandbox, full of long words, on a phone and on a desk: nothing is wider than the screen.

import { join } from "node:path";
import { IMAGES, assert, flow, stage } from "./harness.mjs";

const the = stage();
const LONG = "a-name-that-is-as-long-as-a-name-of-a-sandbox-may-be-here";
const WORD = "w".repeat(300);
const made = {};

const TABLE = "class T:\n    def _repr_mimebundle_(self, *_, **__):\n        return {'application/vnd.paddock.data+json': {'columns': [f'column {n}' for n in range(12)], 'rows': [['a cell of words'] * 12] * 5, 'total_rows': 5}, 'text/plain': 'table'}\nT()";
const FIGURE = "class F:\n    def _repr_mimebundle_(self, *_, **__):\n        return {'application/vnd.paddock.chart+json': {'type': 'line', 'title': 'Speed ' * 20, 'x_label': 'time', 'y_label': 'km/h', 'x_scale': 'linear', 'y_scale': 'linear', 'elements': [{'label': 'a label ' * 8, 'points': [[0, 0], [1, 10], [2, 5]]}]}, 'text/plain': 'figure'}\nF()";

/** Once for all flows: a sandbox with something in each tab, and something on each page. */
async function furnish(server) {
  if (made.sandbox) return;
  const base = await server.create({ name: "trunk", template: "code-interpreter" });
  await server.exec(base.id, "cd /workspace && seq 200 > lines.txt && printf 'print(1)\\n' > main.py");
  const fork = (await server.ask("POST", `/v1/sandboxes/${base.id}/fork`, {})).sandboxes[0];
  await server.ask("POST", `/v1/sandboxes/${fork.id}/fork`, {});
  await server.ask("DELETE", `/v1/sandboxes/${fork.id}?failed=true`);
  const { id } = await server.create({ name: LONG, template: "code-interpreter", network: { allow: ["pypi.org", `${"long-".repeat(10)}name.example`] }, metadata: { note: WORD, team: "red" } });
  await server.exec(id, `cd /workspace && mkdir -p deep/${"directory-".repeat(8)} && echo ${WORD} > '${"file-with-a-long-name-".repeat(6)}.txt' && sed -n p /etc/passwd > copied.txt && echo ${WORD}; echo ${WORD} >&2; exit 3`);
  await server.exec(id, `curl -sS -m 3 http://${"very-".repeat(9)}long.example:8080/${WORD} || true`);
  made.fork = (await server.ask("POST", `/v1/sandboxes/${id}/fork`, {})).sandboxes[0].id;
  await server.exec(made.fork, `cd /workspace && echo '${WORD} changed' > copied.txt && echo new > '${"another-long-name-".repeat(7)}.txt'`);
  const volume = await fetch(`${server.url}/v1/volumes/${"volume-".repeat(5)}x/files/content?path=/note`, { method: "PUT", headers: { authorization: `Bearer ${server.token}`, "content-type": "application/octet-stream" }, body: "x" });
  if (!volume.ok) {
    await server.ask("POST", "/v1/volumes", { name: "long-lasting-notes-of-an-agent" });
    for (const body of ["one", "two"]) await fetch(`${server.url}/v1/volumes/long-lasting-notes-of-an-agent/files/content?path=/note`, { method: "PUT", headers: { authorization: `Bearer ${server.token}`, "content-type": "application/octet-stream" }, body });
  }
  made.job = (await server.ask("POST", "/v1/jobs", { name: "count-the-words-of-every-document-there-is", command: `echo ${WORD}; exit 1` })).id;
  made.build = (await server.ask("POST", "/v1/template-builds", { name: "a-template-with-a-long-name", image: "127.0.0.1:1/none", steps: [{ kind: "run", command: `echo ${WORD}` }] })).id;
  await server.ask("POST", "/v1/tokens", { role: "user", label: `for ${"the continuous integration ".repeat(4)}` });
  await server.paddock("quota", `tenant-${"of-a-long-name-".repeat(3)}x`, "--sandboxes", "7", "--memory", "64GiB", "--cpus", "16");
  await server.paddock("verify", "--backend", "process", "--group", "A1").catch((error) => assert.equal(error.code, 1));
  made.sandbox = id;
}

/** Where to go, what is to stand there before it is measured, and what is done first. */
const PLACES = {
  overview: ["", "Half of the creates within"],
  sandboxes: ["#/sandboxes", LONG],
  create: ["#/sandboxes?new=1", "Lives for, minutes"],
  ended: ["#/sandboxes?state=ended", "sb-"],
  summary: [() => `#/sandboxes/${made.sandbox}`, "What it may use"],
  terminal: [() => `#/sandboxes/${made.sandbox}/terminal`, "connected"],
  commands: [() => `#/sandboxes/${made.sandbox}/commands`, "exit code 3"],
  files: [() => `#/sandboxes/${made.sandbox}/files`, "copied.txt"],
  editor: [() => `#/sandboxes/${made.sandbox}/files?file=/workspace/copied.txt`, "Save"],
  usage: [() => `#/sandboxes/${made.sandbox}/usage`, "of "],
  network: [() => `#/sandboxes/${made.sandbox}/network`, "denied"],
  ports: [() => `#/sandboxes/${made.sandbox}/ports`, "This server has no domain for ports"],
  changes: [() => `#/sandboxes/${made.fork}/changes`, "changed since its beginning"],
  forks: [() => `#/sandboxes/${made.fork}/forks`, "Merge into parent"],
  timeline: [() => `#/sandboxes/${made.sandbox}/timeline`, "Each line holds the hash"],
  guarantees: [() => `#/sandboxes/${made.sandbox}/guarantees`, "Kernel boundary"],
  templates: ["#/templates", "a-template-with-a-long-name"],
  build: [() => `#/templates/${made.build}`, "not at a public address"],
  pools: ["#/pools", "Keep ready"],
  volumes: ["#/volumes", "long-lasting-notes-of-an-agent"],
  volume: ["#/volumes/long-lasting-notes-of-an-agent", "current"],
  jobs: ["#/jobs", "count-the-words"],
  job: [() => `#/jobs/${made.job}`, "Attempts"],
  access: ["#/access", "0 of 7"],
  verify: ["#/verify", "process, only A1"],
};

/** What stands out of the screen, unless something around it scrolls. */
function tooWide() {
  const wide = [];
  const most = document.documentElement.clientWidth;
  const scrolls = (element) => element && element !== document.body && (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(element).overflowX) && element.tagName !== "MAIN" ? true : scrolls(element.parentElement));
  for (const element of document.querySelectorAll("main *, dialog *, nav")) {
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > most + 1 || box.left < -1) && !scrolls(element.parentElement)) wide.push(`${element.tagName}.${element.getAttribute("class")} ${Math.round(box.left)} to ${Math.round(box.right)}: ${element.textContent.slice(0, 40)}`);
  }
  const main = document.querySelector("main");
  if (main.scrollWidth > main.clientWidth) wide.push(`main: ${main.scrollWidth - main.clientWidth} too wide`);
  if (document.documentElement.scrollWidth > most) wide.push(`page: ${document.documentElement.scrollWidth - most} too wide`);
  return wide.slice(0, 5);
}

for (const [device, options] of Object.entries({ phone: { width: 390, height: 844, theme: "dark" }, small: { width: 320, height: 640 }, desk: { width: 1280, height: 800 }, night: { width: 1280, height: 800, theme: "dark" } })) {
  flow(the, `no page and no tab is wider than the screen: ${device}`, async (page, server) => {
    await furnish(server);
    const found = {};
    const look = async (name) => {
      await page.locator("main .waiting").first().waitFor({ state: "detached" });
      found[name] = await page.evaluate(tooWide);
      await page.screenshot({ path: join(IMAGES, `${device}-${name}.png`) });
    };
    for (const [name, [at, text]] of Object.entries(PLACES)) {
      await page.at(typeof at === "string" ? at : at());
      await page.getByText(text).locator("visible=true").first().waitFor().catch(() => assert.fail(`${name}: there is no ${text}`));
      await look(name);
    }
    await page.at(`#/sandboxes/${made.sandbox}/code`);
    for (const [code, result] of [[TABLE, ".result table"], [FIGURE, ".result figure"], [`print('${WORD}')\n1 / 0`, "text=ZeroDivisionError"]]) {
      await page.getByLabel("Code", { exact: true }).fill(code);
      await page.getByLabel("Code", { exact: true }).press("Control+Enter");
      await page.locator(result).first().waitFor();
    }
    await look("code");
    // Control: what is too wide is found.
    await page.evaluate(() => document.querySelector("main h1").after(Object.assign(document.createElement("p"), { textContent: "wide".repeat(200) })));
    assert.ok((await page.evaluate(tooWide)).length > 0);
    assert.deepEqual(Object.entries(found).filter(([, wide]) => wide.length > 0), []);
  }, options);
}
