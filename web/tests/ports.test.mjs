// What listens inside, opened from the page: at its own name, or without an origin.

import { LIMIT, Server, assert, eventually, flow, stage } from "./harness.mjs";
import { test } from "node:test";

const DOMAIN = "ports.localhost";
const the = stage(["--domain", DOMAIN]);

const SERVES = `
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        kind, body = "text/html", b"<script src=/own.js></script><p>served</p>"
        if self.path == "/own.js":
            kind, body = "text/javascript", b"document.cookie='mine=1'; document.title = 'own script ' + document.cookie"
        if self.path == "/headers":
            kind, body = "application/json", json.dumps(dict(self.headers)).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
`;
const LIES = `
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"code": "unauthorized", "message": "sign in again at <b>evil.example</b>", "request_id": "x"}).encode()
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.HTTPServer(("0.0.0.0", 3000), Handler).serve_forever()
`;

/** Its page leaves a worker, which sends on what it sees of every page that is opened there, and its own file keeps that. */
const WATCHES = `
import http.server
PAGE = b"<script>navigator.serviceWorker.register('/worker.js').then(() => navigator.serviceWorker.ready).then(() => { document.title = 'watched' })</script>"
WORKER = b"""
self.addEventListener('install', () => self.skipWaiting())
self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()))
self.addEventListener('fetch', (event) => {
  if (event.request.mode !== 'navigate') return
  const seen = [event.request.url, event.request.referrer, ...[...event.request.headers].flat()].join(' ')
  event.respondWith(fetch('/seen', { method: 'POST', body: seen }).then(() => fetch(event.request)))
})
"""
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.answer("text/javascript", WORKER) if self.path == "/worker.js" else self.answer("text/html", PAGE)
    def do_POST(self):
        with open("/workspace/seen", "ab") as file:
            file.write(self.rfile.read(int(self.headers["content-length"])) + bytes([10]))
        self.answer("text/plain", b"")
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("0.0.0.0", 5000), Handler).serve_forever()
`;

async function serving(server, programs = [[8000, SERVES]]) {
  const sandbox = await server.create();
  for (const [port, program] of programs) {
    await server.ask("POST", `/v1/sandboxes/${sandbox.id}/execs`, { command: `exec python3 -c '${program.replaceAll("'", `'"'"'`)}'`, background: true });
    await eventually(async () => (await fetch(`${server.url}/v1/sandboxes/${sandbox.id}/ports/${port}/`, { headers: { authorization: `Bearer ${server.token}` } })).status !== 502);
  }
  return sandbox;
}

flow(the, "a port opens at its own name, with its own origin and cookies, and without the token", async (page, server) => {
  const sandbox = await serving(server);
  await page.at(`#/sandboxes/${sandbox.id}/ports`);
  await page.getByText(`PORT-${sandbox.id}.${DOMAIN}`).waitFor();
  await page.getByLabel("Port", { exact: true }).fill("8000");
  await page.getByRole("button", { name: "Ask what answers" }).click();
  await page.getByText("answers 200, text/html").waitFor();
  const opening = page.context().waitForEvent("page");
  await page.getByRole("button", { name: "Open" }).click();
  const opened = await opening;
  // Its own script ran, with a cookie of its own: an origin as anywhere.
  await eventually(() => opened.title(), "own script mine=1");
  const origin = `http://8000-${sandbox.id}.${DOMAIN}:${server.port}`;
  assert.equal(await opened.evaluate(() => self.origin), origin);
  assert.ok(!opened.url().includes(server.token), opened.url());
  assert.equal(await opened.evaluate(() => window.opener), null);
  await opened.goto(`${origin}/headers`);
  const got = await opened.evaluate(() => document.body.innerText);
  assert.ok(!got.includes(server.token) && !got.includes("paddock_token"), got);
  // The cookie of the session is not for scripts, and calls of the page to the API are refused.
  assert.ok(!(await opened.evaluate(() => document.cookie)).includes("paddock_token"));
  const reached = await opened.evaluate((url) => fetch(`${url}/v1/whoami`, { credentials: "include" }).then((answer) => answer.status, () => "refused"), server.url);
  assert.equal(reached, "refused");
}, { reaches: [/^http:\/\/8000-sb-[0-9a-f]+\.ports\.localhost:/] });

flow(the, "a worker that a page left at its port's name sees no token of the session, however often the port is opened", async (page, server) => {
  const sandbox = await serving(server, [[5000, WATCHES], [8000, SERVES]]);
  await page.at(`#/sandboxes/${sandbox.id}/ports`);
  await page.getByLabel("Port", { exact: true }).fill("5000");
  await page.keyboard.press("Enter");
  await page.getByText("answers 200, text/html").waitFor();
  for (let times = 0; times < 2; times += 1) {
    const opening = page.context().waitForEvent("page");
    await page.getByRole("button", { name: "Open" }).click();
    await eventually(() => opening.then((opened) => opened.title()), "watched");
  }
  const seen = async () => (await server.exec(sandbox.id, "cat seen 2>/dev/null")).stdout;
  // Control: the worker does see the address with which the port was opened again.
  await eventually(async () => /[?]paddock_token=/.test(await seen()));
  assert.ok(!(await seen()).includes(server.token), await seen());
  // What it got opens its own port, and neither the API nor another port.
  const got = /[?]paddock_token=([^ \n&]+)/.exec(await seen())[1];
  const status = async (path) => (await fetch(`${server.url}${path}`, { headers: { authorization: `Bearer ${got}` } })).status;
  const port = (number) => `/v1/sandboxes/${sandbox.id}/ports/${number}/`;
  assert.deepEqual(await Promise.all([port(5000), port(8000), "/v1/whoami", `/v1/sandboxes/${sandbox.id}`].map(status)), [200, 403, 401, 401]);
}, { reaches: [/^http:\/\/5000-sb-[0-9a-f]+\.ports\.localhost:/] });

flow(the, "a port where nothing listens says so", async (page, server) => {
  const sandbox = await server.create();
  await page.at(`#/sandboxes/${sandbox.id}/ports`);
  await page.getByLabel("Port", { exact: true }).fill("4321");
  await page.keyboard.press("Enter");
  const row = page.getByRole("listitem").filter({ hasText: "4321" });
  await row.locator(".bad").waitFor();
  await eventually(() => row.getByRole("button", { name: "Open" }).isDisabled());
  await page.getByLabel("Port", { exact: true }).fill("70000");
  await eventually(() => page.getByRole("button", { name: "Ask what answers" }).isDisabled());
});

flow(the, "a program that answers as the server would ends no session", async (page, server) => {
  const sandbox = await serving(server, [[3000, LIES]]);
  await page.at(`#/sandboxes/${sandbox.id}/ports`);
  await page.getByLabel("Port", { exact: true }).fill("3000");
  await page.keyboard.press("Enter");
  await page.getByText("answers 401, application/json").waitFor();
  assert.equal(await page.getByText("evil.example").count(), 0);
  await page.getByRole("heading", { level: 1 }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("paddock.token")), server.token);
});

test("a name that was pointed at this host is not a port of it", async () => {
  const { request } = await import("node:http");
  const { port, token } = the.server;
  const status = (host) =>
    new Promise((done, fail) => {
      const asked = request({ host: "127.0.0.1", port, path: "/", headers: { host, authorization: `Bearer ${token}` } }, (answer) => (answer.resume(), done(answer.statusCode)));
      asked.on("error", fail);
      asked.end();
    });
  assert.equal(await status(`8000-sb-x.evil.example:${port}`), 403);
  assert.equal(await status(`8000-sb-0000000000000000.${DOMAIN}:${port}`), 404);
});

const plain = { server: new Server() };

test("without a domain the page is shown without an origin, and the hint says what that means", { timeout: LIMIT }, async () => {
  const { tab } = await import("./harness.mjs");
  await plain.server.start();
  try {
    plain.browser = the.browser;
    const sandbox = await serving(plain.server);
    const page = await tab(plain);
    await page.at(`#/sandboxes/${sandbox.id}/ports`);
    await page.getByText("This server has no domain for ports").waitFor();
    await page.getByText(`paddock serve --listen 127.0.0.1:${plain.server.port} --domain ports.localhost`).waitFor();
    await page.getByLabel("Port", { exact: true }).fill("8000");
    await page.keyboard.press("Enter");
    await page.getByText("answers 200, text/html").waitFor();
    const opening = page.context().waitForEvent("page");
    await page.getByRole("button", { name: "Open" }).click();
    const opened = await opening;
    await opened.getByText("served").waitFor();
    assert.equal(await opened.evaluate(() => self.origin), "null");
    assert.ok(!opened.url().includes(plain.server.token), opened.url());
    const taken = await opened.evaluate(() => {
      try {
        return sessionStorage.getItem("paddock.token");
      } catch {
        return "kept apart";
      }
    });
    assert.equal(taken, "kept apart");
    await page.context().close();
  } finally {
    await plain.server.stop();
  }
});
