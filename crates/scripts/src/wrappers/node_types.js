
// Third part of the runner: TypeScript to JavaScript, by whatever the template has for it.

const PACKAGES = ["/usr/lib/node_modules", "/usr/local/lib/node_modules", "/usr/share/nodejs"];

function strip(source) {
  const { stripTypeScriptTypes } = require("module");
  if (typeof stripTypeScriptTypes === "function") return stripTypeScriptTypes(source, { mode: "transform" });
  for (const place of [cwd(), ...PACKAGES]) {
    const load = createRequire(path.join(place, "x.js"));
    for (const [name, transpile] of [["typescript", byTypescript], ["esbuild", byEsbuild]]) {
      let found;
      try {
        found = load(name);
      } catch {
        continue;
      }
      return transpile(found, source);
    }
  }
  const error = new Error(
    `Node ${process.versions.node} cannot strip types by itself, and neither typescript nor esbuild is installed; ` +
      "install one of them in the template, or use Node 22.13 or later",
  );
  error.name = "TypeScriptUnavailable";
  error.stack = error.message;
  throw error;
}

function byTypescript(typescript, source) {
  const options = {
    target: typescript.ScriptTarget.ESNext,
    module: typescript.ModuleKind.ESNext,
    isolatedModules: true,
    removeComments: false,
  };
  const made = typescript.transpileModule(source, { compilerOptions: options, reportDiagnostics: true, fileName: "cell.ts" });
  const wrong = made.diagnostics.find((one) => one.category === typescript.DiagnosticCategory.Error);
  if (wrong) {
    const message = typescript.flattenDiagnosticMessageText(wrong.messageText, "\n");
    const { line, character } = wrong.file ? wrong.file.getLineAndCharacterOfPosition(wrong.start) : { line: 0, character: 0 };
    throw misspelt(message, line + 1, character + 1, source);
  }
  return made.outputText.replace(/^export \{\};?$/m, "");
}

function byEsbuild(esbuild, source) {
  try {
    return esbuild.transformSync(source, { loader: "ts", target: "esnext", logLevel: "silent" }).code;
  } catch (failure) {
    const wrong = failure.errors && failure.errors[0];
    if (!wrong || !wrong.location) throw failure;
    throw misspelt(wrong.text, wrong.location.line, wrong.location.column + 1, source);
  }
}

// In the form that a SyntaxError has elsewhere: what, where, and the line.
function misspelt(message, line, column, source) {
  const error = new SyntaxError(`${message} (line ${line}, column ${column})`);
  const text = (source.split("\n")[line - 1] ?? "").slice(0, 400);
  error.stack = `SyntaxError: ${error.message}\n${line} | ${text}`;
  return error;
}
