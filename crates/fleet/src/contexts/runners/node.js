// The runner of JavaScript and TypeScript contexts. It shares its process with the code that it runs, so that nothing
// here is a fence. Code is evaluated by V8's own REPL mode, through the inspector of this very process: declarations are
// kept and may be made again, and `await` works at the top.
// Given by the loader: require, CONTROL (number of the control stream), LANGUAGE. node_streams.js, node_packages.js and
// node_types.js follow it: the four are one program.
"use strict";
const fs = require("fs");
const net = require("net");
const os = require("os");
const path = require("path");
const util = require("util");
const vm = require("vm");
const inspector = require("inspector");
const { createRequire } = require("module");

const TEXT_LIMIT = 1 << 20;
const BINARY_LIMIT = 8 << 20;
const FRAME_LIMIT = 12 << 20;
const NAME = /^[!-~]{1,100}$/;
const BINARY = new Set(["image/png", "image/jpeg", "application/pdf"]);

// Kept here, so that code which replaces them does not break the next call.
const { parse: parseJson, stringify: toJson } = JSON;
const { concat, from: bufferFrom, isBuffer, alloc } = Buffer;
const { writeSync, closeSync, openSync, unlinkSync, fstatSync, writeFileSync, existsSync } = fs;
const kept = { writeSync, closeSync, openSync, unlinkSync, fstatSync, writeFileSync, existsSync };
const { chdir, cwd } = process;
const inspect = util.inspect;
const runInThisContext = vm.runInThisContext;
const later = setImmediate;

function encode(kind, fields) {
  const parts = [bufferFrom(`${kind} ${fields.length}\n`)];
  for (const [name, value] of fields) {
    const bytes = isBuffer(value) ? value : bufferFrom(String(value));
    parts.push(bufferFrom(`${name} ${bytes.length}\n`), bytes, bufferFrom("\n"));
  }
  return concat(parts);
}

// Written at once and whole: what is said before a crash is said.
const napping = new Int32Array(new SharedArrayBuffer(4));
function writeAll(number, bytes) {
  let at = 0;
  while (at < bytes.length) {
    try {
      at += kept.writeSync(number, bytes, at, bytes.length - at);
    } catch (error) {
      if (error.code !== "EAGAIN") return error;
      Atomics.wait(napping, 0, 0, 1);
    }
  }
  return null;
}

function send(bytes) {
  writeAll(CONTROL, bytes);
}

// Results

function cutText(text, cut, name) {
  if (text.length <= TEXT_LIMIT) return text;
  cut.push(name);
  return `${text.slice(0, TEXT_LIMIT)}\n... ${text.length - TEXT_LIMIT} characters were cut`;
}

function sendResult(representations, main) {
  const fields = main ? [["main", "1"]] : [];
  const cut = [];
  let size = 0;
  for (let [name, value] of Object.entries(representations)) {
    if (!NAME.test(name) || value === undefined || value === null) continue;
    if (name.endsWith("json")) {
      value = typeof value === "string" ? value : toJson(value);
      if (value === undefined) continue;
      if (value.length > TEXT_LIMIT) {
        cut.push(name);
        continue;
      }
    }
    if (BINARY.has(name) && typeof value === "string") value = bufferFrom(value, "base64");
    if (value instanceof Uint8Array && !isBuffer(value)) value = bufferFrom(value);
    if (!isBuffer(value)) value = bufferFrom(name === "text/plain" ? cutText(String(value), cut, name) : String(value));
    size += value.length;
    if (value.length > BINARY_LIMIT || size > FRAME_LIMIT || fields.length > 50) {
      cut.push(name);
      continue;
    }
    fields.push([name, value]);
  }
  if (cut.length) fields.push(["cut", cut.join(",")]);
  send(encode("result", fields));
}

function bundle(value) {
  const found = {};
  if (value !== null && typeof value === "object") {
    const own = value[Symbol.for("Jupyter.display")] ?? value._toMime;
    if (typeof own === "function") {
      try {
        Object.assign(found, own.call(value));
      } catch {
        // Costs these representations only.
      }
    }
    const prototype = Object.getPrototypeOf(value);
    if (Array.isArray(value) || prototype === Object.prototype || prototype === null) {
      try {
        found["application/json"] ??= toJson(value);
      } catch {
        // Circular, or with a getter that throws.
      }
    }
  }
  found["text/plain"] ??= typeof value === "string" ? inspect(cutText(value, [], ""), { maxStringLength: null }) : inspect(value);
  return found;
}

// Calls

const session = new inspector.Session();
session.connect();
const post = session.post.bind(session);
let current = null;
let count = 0;

const slot = Symbol("paddock.slot");
Object.defineProperty(globalThis, slot, { value: {}, enumerable: false });
const hooks = globalThis[slot];
const reach = `globalThis[Object.getOwnPropertySymbols(globalThis).find((s) => s.description === "paddock.slot")]`;

// The value itself, not what the inspector tells of it.
function materialize(remote) {
  if (remote.objectId === undefined) {
    if (remote.type === "undefined") return undefined;
    if (remote.unserializableValue === undefined) return remote.value;
    const text = remote.unserializableValue;
    return text.endsWith("n") ? BigInt(text.slice(0, -1)) : Number(text);
  }
  let value;
  hooks.take = (given) => (value = given);
  post("Runtime.callFunctionOn", {
    objectId: remote.objectId,
    functionDeclaration: `function () { ${reach}.take(this); }`,
    silent: true,
  });
  post("Runtime.releaseObject", { objectId: remote.objectId });
  // `this` is never a plain symbol or number.
  return remote.type === "symbol" && typeof value === "object" ? value.valueOf() : value;
}

function evaluate(code) {
  return new Promise((resolve, reject) => {
    current.interrupt = () => reject(interrupted());
    hooks.go = () =>
      post("Runtime.evaluate", { expression: code, replMode: true }, (failure, answer) => {
        if (failure) return reject(Object.assign(new Error(failure.message), { name: "SyntaxError" }));
        if (answer.exceptionDetails) return reject(materialize(answer.exceptionDetails.exception));
        resolve(answer.result);
      });
    try {
      // The outer script is what a signal can break, and with it whatever runs inside.
      runInThisContext(`${reach}.go()`, { breakOnSigint: true });
    } catch (error) {
      reject(error && error.code === "ERR_SCRIPT_EXECUTION_INTERRUPTED" ? interrupted() : error);
    }
  });
}

function interrupted() {
  const error = new Error("the code was interrupted");
  error.name = "KeyboardInterrupt";
  error.stack = "KeyboardInterrupt: the code was interrupted";
  return error;
}

// Frames of the runner itself say nothing about the code.
function traceback(error) {
  const lines = String(error.stack ?? error).split("\n");
  const own = /at new Promise \(<anonymous>\)$|\(?(node:|evalmachine\.<anonymous>|eval at <anonymous> \(\[eval\])/;
  return lines
    .filter((line, index) => index === 0 || !(/^\s+at /.test(line) && own.test(line)))
    .map((line) => line.replace(/<anonymous>:(\d+):(\d+)(\)?)$/, `<cell ${count}>:$1:$2$3`))
    .join("\n");
}

function sourceLine(error, code) {
  const place = /<anonymous>:(\d+):(\d+)/.exec(String(error.stack ?? ""));
  const line = place && code.split("\n")[Number(place[1]) - 1];
  return line === null || line === undefined ? "" : `\n${place[1]} | ${line.slice(0, 400)}`;
}

function describe(error, code) {
  if (error === null || typeof error !== "object" || !("message" in error)) {
    const text = inspect(error);
    return ["Error", text, `Uncaught ${text}`];
  }
  let value = String(error.message);
  if (error.code === "ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING") {
    value = "import() does not work here with this version of Node; use require(...) or await importModule(...)";
  } else if (error.name === "SyntaxError" && /import statement/.test(value)) {
    value += "; use require(...) or await importModule(...)";
  }
  return [String(error.name ?? "Error"), value, traceback(error) + sourceLine(error, code)];
}

async function answer(request) {
  current = { interrupt: () => {} };
  count += 1;
  const env = {};
  let back;
  let error;
  const source = String(request.code);
  let code = source;
  try {
    feed(request.stdin);
    restoreOutput();
    for (const entry of request.env) {
      const text = String(entry);
      const name = text.slice(0, text.indexOf("="));
      env[name] = process.env[name];
      process.env[name] = text.slice(text.indexOf("=") + 1);
    }
    if (request.cwd !== undefined) {
      back = cwd();
      chdir(String(request.cwd));
    }
    globalThis.require = createRequire(path.join(cwd(), "x.js"));
    if (LANGUAGE === "typescript") code = strip(source);
    const result = await evaluate(code);
    // Asked of what the caller wrote: a transpiler ends everything with a semicolon.
    if (result.type !== "undefined" && !/;\s*$/.test(source)) {
      sendResult(bundle(materialize(result)), true);
    }
  } catch (failure) {
    try {
      error = describe(failure, code);
    } catch {
      error = ["Error", "the error itself could not be told", "Error: the error itself could not be told"];
    }
  }
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  if (back !== undefined) {
    try {
      chdir(back);
    } catch {
      // Code removed it.
    }
  }
  current = null;
  const parts = [];
  if (error) {
    // For whoever reads only what was printed.
    try {
      kept.writeSync(2, `${error[2].slice(0, TEXT_LIMIT)}\n`);
    } catch {
      // Code closed it.
    }
    const names = ["name", "value", "traceback"];
    parts.push(encode("error", names.map((name, index) => [name, String(error[index]).slice(0, TEXT_LIMIT)])));
  }
  parts.push(encode("done", [["call", request.call], ["exit_code", error ? "1" : "0"]]));
  send(concat(parts));
}

// The host's frames

let buffer = alloc(0);
const waiting = [];
let busy = false;

function nextFrame() {
  let at = 0;
  const line = () => {
    const end = buffer.indexOf(10, at);
    if (end < 0) return null;
    const [word, number] = buffer.toString("latin1", at, end).split(" ");
    at = end + 1;
    return [word, Number(number)];
  };
  const head = line();
  if (!head) return null;
  const fields = [];
  for (let index = 0; index < head[1]; index += 1) {
    const field = line();
    if (!field || buffer.length < at + field[1] + 1) return null;
    fields.push([field[0], buffer.subarray(at, at + field[1])]);
    at += field[1] + 1;
  }
  buffer = buffer.subarray(at);
  return [head[0], fields];
}

async function work() {
  if (busy) return;
  busy = true;
  while (waiting.length) await answer(waiting.shift());
  busy = false;
}

const control = new net.Socket({ fd: CONTROL, readable: true, writable: false });
control.on("data", (bytes) => {
  buffer = buffer.length ? concat([buffer, bytes]) : bytes;
  for (let frame = nextFrame(); frame; frame = nextFrame()) {
    if (frame[0] !== "run") continue;
    const request = { env: [] };
    for (const [name, value] of frame[1]) {
      if (name === "env") request.env.push(value);
      else request[name] = value;
    }
    waiting.push(request);
  }
  work();
});
control.on("end", () => process.exit(0));
control.on("error", () => process.exit(0));

// Between calls an interrupt does nothing; what awaits is broken off.
process.on("SIGINT", () => current && current.interrupt());
const tell = (error) => process.stderr.write(`${error && error.stack ? traceback(error) : inspect(error)}\n`);
process.on("uncaughtException", tell);
process.on("unhandledRejection", tell);

globalThis.require = createRequire(path.join(cwd(), "x.js"));
globalThis.module = { exports: {} };
globalThis.exports = globalThis.module.exports;
globalThis.importModule = (name) => {
  const found = /^[./]/.test(name) ? path.resolve(name) : name;
  try {
    return import(globalThis.require.resolve(found));
  } catch {
    return import(found);
  }
};
globalThis.display = (...values) => values.forEach((value) => sendResult(bundle(value), false));
globalThis.displayMime = (representations) => sendResult(representations, false);

send(encode("ready", [["version", process.versions.node]]));
