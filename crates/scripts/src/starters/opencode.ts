// sandbox
// volume: opencode-state .local/share/opencode

// OpenCode by its command. Its sessions are in .local/share/opencode, which is a volume: the next run goes on with the last one.
//   paddock resource set --type anthropic --secret apiKey@api.anthropic.com anthropic '{"apiKey": "..."}'

import { execFileSync } from "child_process";
import * as fs from "fs";

type Anthropic = { apiKey: string };

const mark = ".local/share/opencode/has-a-session";

export async function main(prompt: string, anthropic: Anthropic, model = "anthropic/claude-opus-4-5") {
  const known = fs.existsSync(mark);
  // The sandbox is the fence: nothing has to be asked for inside.
  const words = ["run", "--auto", "--model", model, ...(known ? ["--continue"] : []), prompt];
  const response = execFileSync("opencode", words, {
    encoding: "utf-8",
    env: { ...process.env, ANTHROPIC_API_KEY: anthropic.apiKey },
    stdio: ["ignore", "pipe", "inherit"],
  });
  fs.writeFileSync(mark, "");
  return { resumed: known, response: response.trim() };
}
