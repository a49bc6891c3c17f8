
// Second part of the runner: the standard streams, put back in order before each call, since code may close them.

const { Writable } = require("stream");
const OUTPUTS = [
  [1, "stdout"],
  [2, "stderr"],
];
// Node has no dup; to open a pipe anew by its descriptor is as good.
const outputs = new Map(OUTPUTS.map(([number]) => [number, kept.openSync(`/proc/self/fd/${number}`, "w")]));

function feed(given) {
  try {
    kept.closeSync(0);
  } catch {
    // Code closed it already.
  }
  if (given === undefined) return kept.openSync("/dev/null", "r");
  const name = path.join(os.tmpdir(), `.paddock-stdin-${process.pid}-${count}`);
  kept.writeFileSync(name, given, { mode: 0o600, flag: "wx" });
  kept.openSync(name, "r");
  kept.unlinkSync(name);
}

function restoreOutput() {
  for (const [number, name] of OUTPUTS) {
    if (!isSame(number, outputs.get(number))) {
      try {
        kept.closeSync(number);
      } catch {
        // Code closed it already.
      }
      // The lowest number that is free: those below are open.
      kept.openSync(`/proc/self/fd/${outputs.get(number)}`, "w");
    }
    if (!process[name] || !process[name].writable) install(number, name);
  }
}

// In the place of Node's own, which looks sound after its end but says nothing any more.
function install(number, name) {
  const made = new Writable({ write: (bytes, _encoding, done) => done(writeAll(number, bytes)) });
  made.fd = number;
  Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => made });
  console[`_${name}`] = made;
}
OUTPUTS.forEach(([number, name]) => install(number, name));

function isSame(one, other) {
  try {
    const [first, second] = [kept.fstatSync(one), kept.fstatSync(other)];
    return first.ino === second.ino && first.dev === second.dev;
  } catch {
    return false;
  }
}
