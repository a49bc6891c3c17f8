// A browser, and a server that is real. Every flow gets a browser context of its own, and every request that leaves it for another
// place than its server, every error of the page and every refusal of its policy fails the flow.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const run = promisify(execFile);
export const PADDOCK = process.env.PADDOCK_BIN;
export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
export const IMAGES = process.env.PADDOCK_TEST_IMAGES ?? join(dirname(ROOT), "target", "dashboard-images");
/** A directory whose files are shown in the place of those in the executable, so that nothing is compiled between two tries. */
const DIST = process.env.PADDOCK_TEST_DIST;
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** Long, because a busy host decides no test: none of these waits ends by time where all is well. */
export const PATIENCE = 120_000;
/** Of one flow, whatever it waits for. */
export const LIMIT = 900_000;

/** One server with a state directory of its own. */
export class Server {
  /** `words`: more of the command line. */
  constructor(words = []) {
    this.words = words;
    this.directory = mkdtempSync(join(tmpdir(), "paddock-ui-"));
    this.environment = { ...process.env, PADDOCK_STATE_DIR: join(this.directory, "state") };
    delete this.environment.PADDOCK_URL;
    delete this.environment.PADDOCK_TOKEN;
  }

  async start() {
    this.port ??= await freePort();
    this.url = `http://127.0.0.1:${this.port}`;
    const log = openSync(join(this.directory, "serve.log"), "a");
    const words = ["serve", "--socket", join(this.directory, "api.sock"), "--listen", `127.0.0.1:${this.port}`, ...this.words];
    this.process = spawn(PADDOCK, words, { env: this.environment, stdio: ["ignore", log, log] });
    for (let left = PATIENCE / 100; ; left -= 1) {
      const ready = await fetch(`${this.url}/readyz`).then((answer) => answer.ok, () => false);
      if (ready) break;
      assert.ok(left > 0 && this.process.exitCode === null, "the server does not come up");
      await new Promise((done) => setTimeout(done, 100));
    }
    this.token ??= (await this.paddock("token", "create", "--role", "admin")).trim();
  }

  async paddock(...words) {
    const environment = { ...this.environment, PADDOCK_URL: `unix:${this.directory}/api.sock` };
    const { stdout } = await run(PADDOCK, words, { env: environment, maxBuffer: 64 << 20 });
    return stdout;
  }

  /** As the API is asked, with the token. */
  async ask(method, path, body) {
    const answer = await fetch(`${this.url}${path}`, {
      method,
      headers: { authorization: `Bearer ${this.token}`, ...(body === undefined ? {} : { "content-type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  create(body = {}) {
    return this.ask("POST", "/v1/sandboxes", { ttl_seconds: 1200, ...body });
  }

  exec(sandbox, command) {
    return this.ask("POST", `/v1/sandboxes/${sandbox}/execs`, { command });
  }

  kill() {
    return ended(this.process, "SIGKILL");
  }

  async stop() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) await this.start();
    const ids = (await this.paddock("ps", "--quiet")).split(/\s+/).filter(Boolean);
    for (let at = 0; at < ids.length; at += 200) await this.paddock("kill", ...ids.slice(at, at + 200)).catch(() => undefined);
    await ended(this.process, "SIGTERM");
    const { stdout } = await run("sh", ["-c", "cut -d' ' -f5 /proc/self/mountinfo"]);
    const below = stdout.split("\n").filter((mount) => mount.startsWith(`${this.directory}/`));
    for (const mount of below.sort((a, b) => b.length - a.length)) await run("umount", [mount]).catch(() => undefined);
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function ended(process, signal) {
  return new Promise((done) => {
    process.once("exit", done);
    process.kill(signal);
  });
}

function freePort() {
  return new Promise((done) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => done(port));
    });
  });
}

/** The server and the browser of one file of flows. */
export function stage(words = []) {
  const the = { server: new Server(words) };
  before(async () => {
    await the.server.start();
    the.browser = await chromium.launch({ executablePath: process.env.PADDOCK_TEST_CHROMIUM ?? "/usr/bin/chromium", headless: true, args: FLAGS, timeout: PATIENCE });
  });
  after(async () => {
    await the.browser?.close();
    await the.server.stop();
  });
  return the;
}

/** A tab that is signed in, unless `token` is null. What it did that it must not is looked at when the flow is over. */
export async function tab(the, { token = the.server.token, theme = "light", width = 1280, height = 800, permissions = [], allowed = [], reaches = [] } = {}) {
  const context = await the.browser.newContext({ colorScheme: theme, viewport: { width, height }, acceptDownloads: true, permissions });
  if (DIST) await context.route((url) => url.pathname.startsWith("/ui/"), fromDirectory);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const wrong = [];
  const expected = (text) => allowed.some((pattern) => pattern.test(text));
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    wrong.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    const text = message.text();
    if (/Content Security Policy|Refused to|TrustedHTML|Trusted Type/.test(text) && !expected(text)) wrong.push(`policy: ${text}`);
  });
  page.on("request", (request) => {
    const url = request.url();
    const own = url.startsWith(`${the.server.url}/`) || reaches.some((pattern) => pattern.test(url));
    if (!own && !/^(data|blob|about):/.test(url)) wrong.push(`request: ${url}`);
  });
  if (token !== null) {
    await page.addInitScript((secret) => {
      if (window.top !== window || !location.pathname.startsWith("/ui/")) return;
      if (!sessionStorage.getItem("test.begun")) {
        sessionStorage.setItem("test.begun", "yes");
        sessionStorage.setItem("paddock.token", secret);
      }
    }, token);
  }
  page.wrong = wrong;
  page.at = async (hash = "") => {
    const target = `${the.server.url}/ui/${hash}`;
    if (page.url() === target) await page.reload();
    else await page.goto(target);
  };
  return page;
}

const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml", txt: "text/plain" };

/** The file with the headers, and so with the policy, that the server sends with the page. */
async function fromDirectory(route) {
  const { origin, pathname } = new URL(route.request().url());
  const file = { "/ui/": "index.html", "/ui/frame": "frame.html" }[pathname] ?? pathname.slice("/ui/".length);
  const path = join(DIST, file);
  if (file.includes("..") || !existsSync(path)) return route.fallback();
  const { headers } = await fetch(`${origin}${pathname.startsWith("/ui/frame") ? "/ui/frame" : "/ui/"}`);
  const kept = Object.fromEntries([...headers].filter(([name]) => !/^(content-(length|encoding|type)|etag|transfer-encoding|connection)$/.test(name)));
  await route.fulfill({ body: readFileSync(path), headers: { ...kept, "content-type": TYPES[file.split(".").at(-1)] ?? "application/octet-stream" } });
}

/** One flow: a test with a tab of its own. */
export function flow(the, name, work, options = {}) {
  test(name, { timeout: LIMIT }, async (context) => {
    const page = await tab(the, options);
    try {
      await work(page, the.server, (reason) => context.skip(reason));
      assert.deepEqual(page.wrong, []);
    } catch (error) {
      mkdirSync(IMAGES, { recursive: true });
      await page.screenshot({ path: join(IMAGES, `failed-${name.replace(/\W+/g, "-").slice(0, 80)}.png`) }).catch(() => undefined);
      throw error;
    } finally {
      await page.context().close();
    }
  });
}

export async function eventually(look, wanted = true, patience = PATIENCE) {
  const end = Date.now() + patience;
  let seen;
  do {
    seen = await look();
    if (JSON.stringify(seen) === JSON.stringify(wanted)) return;
    await new Promise((done) => setTimeout(done, 100));
  } while (Date.now() < end);
  assert.deepEqual(seen, wanted);
}

/** What the terminal shows. */
export async function screen(page) {
  const rows = await page.locator(".xterm-rows > div").allTextContents();
  return rows.map((row) => row.replaceAll("\u00a0", " ").trimEnd()).join("\n").trimEnd();
}

export { assert };
