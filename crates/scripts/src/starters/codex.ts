// sandbox
// volume: codex-state .codex

// OpenAI's Codex by its command. Its configuration and sessions are in .codex, which is a volume.
//   paddock resource set --type openai --secret apiKey@api.openai.com openai '{"apiKey": "..."}'

import { execFileSync } from "child_process";
import * as fs from "fs";

type OpenAI = { apiKey: string };

export async function main(prompt: string, openai: OpenAI) {
  const known = fs.existsSync(".codex/sessions");
  // The sandbox is the fence: Codex needs none of its own, and has nobody to ask.
  const options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
  const words = known ? ["exec", ...options, "resume", "--last", prompt] : ["exec", ...options, prompt];
  const response = execFileSync("codex", words, {
    encoding: "utf-8",
    env: { ...process.env, OPENAI_API_KEY: openai.apiKey },
    stdio: ["ignore", "pipe", "inherit"],
  });
  return { resumed: known, response: response.trim() };
}
