// Calls main of a script with its arguments, and writes down what it returned: for Node, Bun and Deno. Runs inside, beside
// the script: nothing that it says is trusted outside. parameters.js and, for Node, node_types.js follow: they are one program.
class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

async function run() {
  fs.mkdirSync(path.dirname(CALL.script), { recursive: true });
  fs.writeFileSync(CALL.script, CALL.source);
  let answer;
  try {
    const result = plain(await outcome(), "$", []);
    answer = { result: result === undefined ? null : result };
  } catch (error) {
    if (error instanceof Refused) {
      answer = { error: { code: error.code, message: error.message } };
    } else {
      const isError = error !== null && typeof error === "object" && "message" in error;
      console.error(isError && error.stack ? error.stack : error);
      const message = String(isError ? error.message : error).slice(0, 4000);
      answer = { error: { code: "script_failed", name: isError ? String(error.name) : "", message } };
    }
  }
  fs.writeFileSync(CALL.result, JSON.stringify(answer));
  process.exit(answer.error ? 1 : 0);
}

async function outcome() {
  const script = await load(CALL.transpile ? transpiled() : CALL.script);
  const main = script[CALL.main] ?? script.default?.[CALL.main];
  if (typeof main !== "function")
    throw new Refused("no_main", `the script exports no function ${CALL.main}: write \`export async function ${CALL.main}(...)\``);
  return await main(...fitting(parametersOf(main), bound()));
}

// A package that lies where only `require` looks is made to be found, and the script is asked for again.
async function load(file) {
  for (let attempt = 0; ; attempt++) {
    try {
      return await import(`file://${file}${attempt ? `?${attempt}` : ""}`);
    } catch (error) {
      const name = error?.code === "ERR_MODULE_NOT_FOUND" && /Cannot find package '([^']+)'/.exec(error.message)?.[1];
      if (!name || attempt >= 64 || !linked(name)) throw error;
    }
  }
}

function linked(name) {
  const wanted = name.split("/").slice(0, name.startsWith("@") ? 2 : 1).join("/");
  const own = path.join(path.dirname(CALL.script), "node_modules", wanted);
  const places = [...(process.env.NODE_PATH ?? "").split(":"), "/usr/local/lib/node_modules", "/usr/lib/node_modules", "/usr/share/nodejs"];
  const found = places.filter(Boolean).map((place) => path.join(place, wanted)).find((place) => fs.existsSync(place));
  if (!found || fs.existsSync(own)) return false;
  fs.mkdirSync(path.dirname(own), { recursive: true });
  fs.symlinkSync(found, own);
  return true;
}

function transpiled() {
  const made = CALL.script.replace(/\.ts$/, ".mjs");
  fs.writeFileSync(made, strip(CALL.source));
  return made;
}

function parametersOf(main) {
  const declared = declaration(CALL.source, CALL.main);
  return parameters(declared ?? head(String(main)) ?? "");
}

// Values that never enter: their placeholders are put where the arguments have them.
function bound() {
  for (const [place, variable] of Object.entries(CALL.secrets)) {
    const steps = place.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    const last = steps.pop();
    let inside = CALL.args;
    for (const step of steps) inside = inside[step];
    inside[last] = process.env[variable];
  }
  return CALL.args;
}

function fitting(wanted, given) {
  const names = wanted.map((one) => one.name);
  const known = names.map((name) => name ?? "{...}").join(", ") || "none";
  for (const name of Object.keys(given))
    if (!names.includes(name))
      throw new Refused("arguments_do_not_fit", `main has no parameter \`${name}\`; its parameters are: ${known}`);
  const values = [];
  for (const { name, optional, rest } of wanted) {
    if (name === null) throw new Refused("arguments_do_not_fit", "main takes a parameter apart that has no name: give it one");
    const has = Object.hasOwn(given, name);
    if (!has && !optional && !rest)
      throw new Refused("arguments_do_not_fit", `argument \`${name}\` is missing; main's parameters are: ${known}`);
    if (rest) values.push(...(has ? [given[name]].flat() : []));
    else values.push(has ? given[name] : undefined);
  }
  return values;
}

// The result as JSON has it, or where it is something else.
function plain(value, where, above) {
  if (value === null || value === undefined || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw notJson(where, `${value}, which JSON has no number for`);
    return value;
  }
  if (typeof value !== "object") throw notJson(where, `a ${typeof value}`);
  if (above.includes(value)) throw notJson(where, "a reference to itself");
  if (typeof value.toJSON === "function" && !Buffer.isBuffer(value)) return plain(value.toJSON(), where, [...above, value]);
  const inner = [...above, value];
  if (Array.isArray(value)) return value.map((one, number) => plain(one, `${where}[${number}]`, inner) ?? null);
  const prototype = Object.getPrototypeOf(value);
  const kind = value.constructor?.name ?? "object";
  const isPlain = prototype === null || Object.getPrototypeOf(prototype) === null;
  if (!isPlain && (kind === "Map" || kind === "Set" || ArrayBuffer.isView(value) || value instanceof ArrayBuffer))
    throw notJson(where, `a ${kind}`);
  if (kind === "Map" || kind === "Set" || kind === "Promise" || kind === "ArrayBuffer") throw notJson(where, `a ${kind}`);
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one, `${where}.${name}`, inner)]));
}

function notJson(where, what) {
  const hint = what === "a Set" ? "; return an array" : what === "a Map" ? "; return an object" : "";
  return new Refused("result_not_json", `the result is no JSON: at ${where} it has ${what}${hint}`);
}
