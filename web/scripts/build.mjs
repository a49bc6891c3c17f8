// Builds the dashboard into web/dist, and writes there the digest of what it was built from. Stale files are found by that digest
// (web/run_tests.py), so nobody has to build anything to find them.

import { build as bundle } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const dist = join(root, "dist");
const MOST_BYTES = 600_000;

const named = (name, end, content) => `${name}-${createHash("sha256").update(content).digest("hex").slice(0, 10)}.${end}`;

async function frame() {
  // A classic script: the frame has an origin of its own, from which modules are not fetched.
  const made = await bundle({ entryPoints: [join(root, "src/frame.ts")], bundle: true, minify: true, write: false, format: "iife" });
  const script = made.outputFiles[0].contents;
  const style = readFileSync(join(root, "src/frame.css"));
  const [scriptName, styleName] = [named("frame", "js", script), named("frame", "css", style)];
  writeFileSync(join(dist, "assets", scriptName), script);
  writeFileSync(join(dist, "assets", styleName), style);
  const page = readFileSync(join(root, "frame.html"), "utf8");
  writeFileSync(join(dist, "frame.html"), page.replace("FRAME_SCRIPT", scriptName).replace("FRAME_STYLE", styleName));
}

/** The packages that are in the assets ask that their licences go along. */
function licences() {
  const packages = ["preact", "@xterm/xterm", "@xterm/addon-fit"];
  const text = packages.map((name) => `${name}\n\n${readFileSync(join(root, "node_modules", name, "LICENSE"), "utf8").trim()}\n`);
  writeFileSync(join(dist, "assets", "licences.txt"), text.join("\n"));
}

/** The same digest as `sources` of web/run_tests.py. */
function sources() {
  const files = ["package.json", "package-lock.json", "index.html", "frame.html", "tsconfig.json", "scripts/build.mjs"];
  const walk = (directory) => {
    for (const entry of readdirSync(join(root, directory), { withFileTypes: true })) {
      const path = `${directory}/${entry.name}`;
      if (entry.isDirectory()) walk(path);
      else files.push(path);
    }
  };
  walk("src");
  const digest = createHash("sha256");
  for (const path of files.sort()) {
    const content = readFileSync(join(root, path));
    digest.update(`${path}\0${content.length}\0`).update(content);
  }
  return digest.digest("hex");
}

rmSync(dist, { recursive: true, force: true });
mkdirSync(join(dist, "assets"), { recursive: true });
await build({
  root,
  base: "/ui/",
  configFile: false,
  logLevel: "warn",
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: { outDir: dist, emptyOutDir: false, assetsInlineLimit: 0, modulePreload: false, target: "es2022", reportCompressedSize: false },
});
await frame();
licences();
writeFileSync(join(dist, "sources.sha256"), `${sources()}\n`);
const sizes = readdirSync(join(dist, "assets")).map((name) => gzipSync(readFileSync(join(dist, "assets", name)), { level: 9 }).length);
const bytes = sizes.reduce((sum, size) => sum + size, 0);
console.log(`web/dist: ${sizes.length} assets, ${bytes} bytes compressed`);
if (bytes > MOST_BYTES) throw new Error(`the assets have ${bytes} bytes compressed, and ${MOST_BYTES} are the most`);
