// sandbox
// volume: codex-state .codex

import { execSync } from "child_process";
import * as fs from "fs";

export async function main(prompt: string) {
// Codex reads/writes state in .codex/
const result = execSync(`codex --quiet "${prompt}"`, {
encoding: "utf-8",
env: { ...process.env, OPENAI_API_KEY: "..." },
});
return result;
}
