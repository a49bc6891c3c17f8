
// A part of the runner: packages that are installed while the interpreter runs. Node remembers for good that a
// package.json was missing, so that a package which is asked for, then installed, would be read without it. Directories that
// do not have a package are therefore not looked at by Node.

const Module = require("module");
const findPath = Module._findPath;

Module._findPath = (request, paths, isMain) => {
  const name = /^(?:@[^/]+\/)?[^./@][^/]*/.exec(request)?.[0];
  const known = name && Array.isArray(paths) ? paths.filter((place) => holds(place, name)) : paths;
  return known?.length === 0 && paths.length > 0 ? false : findPath.call(Module, request, known, isMain);
};

// The package's directory, or one file of that name.
function holds(place, name) {
  const found = path.resolve(place, name);
  return ["", ".js", ".json", ".node"].some((ending) => kept.existsSync(found + ending));
}
