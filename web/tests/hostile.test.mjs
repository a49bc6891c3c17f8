// What comes from inside a sandbox is shown, and does nothing.

import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { LIMIT, ROOT, assert, eventually, flow, screen, stage } from "./harness.mjs";

const the = stage();
const NAME = "<img src=x onerror=alert(1)>";

/** HTML that wants to reach a server of the attacker's in several ways, and the paths that it asks for there. */
const REACHES = ["/picture.png", "/style.css", "/ground.png", "/film.mp4", "/inside.html"];
const html = (base) => `<link rel="stylesheet" href="${base}/style.css"><style>#shown { background: url(${base}/ground.png) }</style>
<img src="${base}/picture.png" onerror="top.document.title='taken'"><video src="${base}/film.mp4"></video><iframe src="${base}/inside.html"></iframe>
<script>parent.document.title='taken'</script><a id="out" href="${base}/out.html">out</a><b id="shown">shown</b>`;

/** A server of the attacker's, on loopback: whatever reaches it is counted. */
async function listener() {
  const hits = [];
  const server = createServer((request, answer) => {
    hits.push(request.url);
    answer.end();
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { hits, base: `http://127.0.0.1:${server.address().port}`, close: () => new Promise((done) => (server.close(done), server.closeAllConnections())) };
}

flow(the, "a name that is HTML is shown as it is", async (page, server) => {
  // Names of sandboxes are checked by the server; metadata, commands and names of jobs are free.
  const refused = await fetch(`${server.url}/v1/sandboxes`, {
    method: "POST",
    headers: { authorization: `Bearer ${server.token}`, "content-type": "application/json" },
    body: JSON.stringify({ name: NAME }),
  });
  assert.equal(refused.status, 400);
  const sandbox = await server.create({ metadata: { note: NAME } });
  await server.ask("POST", "/v1/jobs", { name: NAME, command: "true" }).catch((error) => assert.match(error.message, /name/));
  await server.exec(sandbox.id, `echo '${NAME}'`);
  await page.at("#/sandboxes");
  await page.getByRole("searchbox").fill("onerror=alert(1)");
  await page.getByRole("listitem").first().click();
  await page.getByText(NAME).first().waitFor();
  await page.getByRole("tab", { name: "Commands" }).click();
  await page.getByLabel("Output").getByText(NAME).waitFor();
  await page.getByRole("tab", { name: "Timeline" }).click();
  await page.getByText(/onerror/).first().waitFor();
  await page.at("#/jobs");
  await page.getByRole("heading", { name: "Jobs" }).waitFor();
  assert.equal(await page.locator("img").count(), 0);
});

flow(the, "output cannot write to the clipboard or the title, nor make the terminal type", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/terminal`);
  await page.locator(".state.connected").waitFor();
  await eventually(async () => /[$#]$/m.test(await screen(page)));
  await page.evaluate(() => navigator.clipboard.writeText("what was there"));
  const title = await page.title();
  const osc = "\\033]52;c;aGFja2Vk\\007\\033]0;taken\\007\\033]2;taken\\033\\\\\\033]8;;http://evil.example/\\033\\\\link\\033]8;;\\033\\\\\\033[21t\\033P$qm\\033\\\\\\033]11;?\\007\\033]4;1;?\\007";
  await page.keyboard.type(`printf '${osc}'; echo "d"one`);
  await page.keyboard.press("Enter");
  await eventually(async () => /^link.*done$|^done$/m.test(await screen(page)));
  await page.keyboard.type("echo again");
  await page.keyboard.press("Enter");
  await eventually(async () => /^again$/m.test(await screen(page)));
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), "what was there");
  assert.equal(await page.title(), title);
  // Nothing was typed in answer: the lines behind the command are its output and the next prompt.
  const [first, ...more] = (await screen(page)).split("\n").slice(-4);
  assert.equal(first, "linkdone");
  assert.match(more.join("\n"), /^\S+[$#] echo again\nagain\n\S+[$#]$/);
  assert.equal(await page.locator(".xterm a, .xterm-underline-5").count(), 0);
}, { permissions: ["clipboard-read", "clipboard-write"] });

flow(the, "HTML of a result is shown in a frame that can do nothing, and reaches no server", async (page, server) => {
  const attacker = await listener();
  try {
    const refused = [];
    page.on("console", (message) => refused.push(message.text()));
    const sandbox = await server.create({ template: "code-interpreter" });
    await page.at(`#/sandboxes/${sandbox.id}/code`);
    const code = `class R:\n    def _repr_html_(self):\n        return ${JSON.stringify(html(attacker.base))}\nR()`;
    await page.getByLabel("Code", { exact: true }).fill(code);
    await page.getByRole("button", { name: "Run" }).click();
    const frame = page.frameLocator("iframe");
    await frame.getByText("shown").waitFor();
    assert.equal(await page.locator("iframe").getAttribute("sandbox"), "allow-scripts");
    const origin = await page.frames().find((one) => one.url().endsWith("/ui/frame")).evaluate(() => {
      try {
        return `${self.origin} ${parent.document.title}`;
      } catch {
        return self.origin;
      }
    });
    assert.equal(origin, "null");
    await frame.locator("#out").click();
    // The browser says of each that the policy forbids it: then it has decided, and nothing is on its way any more.
    const told = (what, directive) => refused.some((text) => text.includes(what) && text.includes(`Content Security Policy directive: "${directive}`));
    for (const [path, directive] of [["picture.png", "img-src data:"], ["ground.png", "img-src data:"], ["style.css", "style-src 'self'"], ["film.mp4", "default-src 'none'"]]) {
      await eventually(() => told(`${attacker.base}/${path}`, directive));
    }
    // Of frames it says the origin alone: the inner one by the frame's policy, the link by the page's.
    await eventually(() => told(`Framing '${attacker.base}/'`, "default-src 'none'"));
    await eventually(() => told(`Framing '${attacker.base}/'`, "frame-src 'self'"));
    await eventually(() => refused.some((text) => /inline event handler/.test(text)));
    assert.deepEqual(attacker.hits, []);
    assert.ok(!(await page.title()).includes("taken"));
    assert.ok(page.frames().every((one) => !one.url().startsWith(attacker.base)));
  } finally {
    await attacker.close();
  }
}, { allowed: [/http:\/\/127\.0\.0\.1/, /inline/], reaches: [/^http:\/\/127\.0\.0\.1:\d+\/(picture\.png|style\.css|ground\.png|film\.mp4|inside\.html|out\.html)$/] });

test("control: the same HTML in a page of its own reaches the attacker's server in each of these ways", { timeout: LIMIT }, async () => {
  const attacker = await listener();
  const page = await the.browser.newPage();
  try {
    await page.setContent(html(attacker.base));
    await eventually(() => REACHES.filter((path) => !attacker.hits.includes(path)), []);
    await page.locator("#out").click();
    await eventually(() => attacker.hits.includes("/out.html"));
  } finally {
    await page.close();
    await attacker.close();
  }
});

flow(the, "a drawing that is a program is a picture", async (page, server) => {
  const sandbox = await server.create({ template: "code-interpreter" });
  await page.at(`#/sandboxes/${sandbox.id}/code`);
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20" onload="alert(1)"><script>alert(2)</script><rect width="20" height="20"/></svg>`;
  await page.getByLabel("Code", { exact: true }).fill(`class R:\n    def _repr_svg_(self):\n        return ${JSON.stringify(svg)}\nR()`);
  await page.getByRole("button", { name: "Run" }).click();
  const image = page.locator(".result img");
  await image.waitFor();
  await eventually(() => image.evaluate((one) => one.naturalWidth), 20);
});

flow(the, "a file of 1 GB is opened by its beginning", async (page, server) => {
  const sandbox = await server.create();
  await server.exec(sandbox.id, "printf '<script>alert(1)</script> begins' > /workspace/large.txt && truncate -s 1G /workspace/large.txt");
  await page.at(`#/sandboxes/${sandbox.id}/files`);
  await page.getByRole("row", { name: /large\.txt/ }).getByText("1.0 GiB").waitFor();
  let read = 0;
  page.on("response", async (response) => {
    if (response.url().includes("/files/content")) read += Number(response.headers()["content-length"] ?? (await response.body().catch(() => "")).length);
  });
  await page.getByRole("link", { name: "large.txt" }).click();
  await page.getByText("only its first 64.0 KiB are shown").waitFor();
  assert.match(await page.getByLabel("Content").inputValue(), /^<script>alert\(1\)<\/script> begins/);
  assert.ok(read <= 1 << 17, `${read} bytes were read`);
  const downloading = page.waitForEvent("download");
  await page.getByRole("button", { name: "Download" }).click();
  const download = await downloading;
  assert.equal(download.suggestedFilename(), "large.txt");
  await download.cancel();
});

flow(the, "names of files cannot turn the text around them", async (page, server) => {
  const sandbox = await server.create();
  await server.exec(sandbox.id, "cd /workspace && touch \"$(printf 'a\\342\\200\\256gpj.sh')\" '<b>bold<' \"it's\"");
  await page.at(`#/sandboxes/${sandbox.id}/files`);
  await page.getByText("a\ufffdgpj.sh").waitFor();
  await page.getByText("<b>bold<").waitFor();
  assert.equal(await page.locator("td b").count(), 0);
});

flow(the, "in a patch nothing turns the order of a line, and nothing hides in it", async (page, server) => {
  // As in CVE-2021-42574: a browser shows the end of the comment where there is none.
  const trick = "if (role != 'user\u202e \u2066// admins alone\u2069 \u2066') {";
  const shown = "if (role != 'user<U+202E> <U+2066>// admins alone<U+2069> <U+2066>') {";
  const more = "a\u200bb \u009b31m \u{e0041} \u061c end";
  const sandbox = await server.create();
  await server.exec(sandbox.id, `cd /workspace && printf 'first\\n' > rights.js`);
  const fork = (await server.ask("POST", `/v1/sandboxes/${sandbox.id}/fork`, {})).sandboxes[0];
  const headers = { authorization: `Bearer ${server.token}`, "content-type": "application/octet-stream" };
  const put = await fetch(`${server.url}/v1/sandboxes/${fork.id}/files/content?path=/workspace/rights.js`, { method: "PUT", headers, body: `first\n${trick}\n${more}\n` });
  assert.ok(put.ok, await put.text());
  await page.at(`#/sandboxes/${fork.id}/changes`);
  const added = page.locator("table.patch td.added");
  await added.first().waitFor();
  assert.deepEqual(await added.allTextContents(), [shown, "a<U+200B>b <U+009B>31m <U+E0041> <U+061C> end"]);
  // What a command printed is read as well, and what is shown of it when the sandbox has ended.
  await server.exec(fork.id, `cat rights.js; printf 'joined: \\342\\200\\215 \\033(B\\n'`);
  await page.getByRole("tab", { name: "Commands" }).click();
  await page.getByLabel("Output").getByText(shown).waitFor();
  await page.getByLabel("Output").getByText("joined: \u200d").waitFor();
  assert.doesNotMatch(await page.locator("main").innerText(), /[\u202a-\u202e\u2066-\u2069\u0080-\u009f]/);
});

flow(the, "ten megabytes of output leave the page usable", async (page, server) => {
  const sandbox = await server.create();
  const exec = await server.ask("POST", `/v1/sandboxes/${sandbox.id}/execs`, { command: "head -c 10000000 /dev/zero | tr '\\0' x; echo; echo the end", background: true });
  await page.at(`#/sandboxes/${sandbox.id}/commands?exec=${exec.exec}`);
  await page.getByLabel("Output").getByText("the end").waitFor();
  const length = await page.getByLabel("Output").evaluate((one) => one.textContent.length);
  assert.ok(length < 300_000, `${length}`);
});

test("no source of the page makes HTML of text", () => {
  const bad = [];
  const look = (directory) => {
    for (const entry of readdirSync(directory, { withFileTypes: true })) {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) look(path);
      else if (/\.tsx?$/.test(entry.name) && !path.endsWith("src/frame.ts") && /dangerouslySetInnerHTML|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc/.test(readFileSync(path, "utf8"))) bad.push(path);
    }
  };
  look(join(ROOT, "src"));
  assert.deepEqual(bad, []);
});

// To the letter: a part more is as much a change as a part less.
const PAGE_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const FRAME_POLICY = "sandbox allow-scripts; default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'";

test("the pages are sent with their policies", async () => {
  for (const [path, policy, opener] of [["/ui/", PAGE_POLICY, "same-origin"], ["/ui/frame", FRAME_POLICY, null]]) {
    const page = await fetch(`${the.server.url}${path}`);
    assert.equal(page.headers.get("content-security-policy"), policy, path);
    assert.equal(page.headers.get("cross-origin-opener-policy"), opener, path);
    assert.equal(page.headers.get("x-content-type-options"), "nosniff", path);
    assert.equal(page.headers.get("referrer-policy"), "no-referrer", path);
    assert.equal(page.headers.get("permissions-policy"), "camera=(), microphone=(), geolocation=(), payment=(), usb=()", path);
    assert.equal(page.headers.get("set-cookie"), null, path);
    assert.doesNotMatch(await page.text(), /<script>|onload=|style=/, path);
  }
});
