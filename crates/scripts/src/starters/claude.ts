// sandbox
// volume: claude .claude

// Claude Code by its SDK. Its sessions are in .claude, which is a volume: the next run goes on with the conversation.
//   paddock resource set --type anthropic --secret apiKey@api.anthropic.com anthropic '{"apiKey": "..."}'

import { query } from "@anthropic-ai/claude-agent-sdk";
import * as fs from "fs";

type Anthropic = { apiKey: string };

const sessionFile = ".claude/session-id.txt";

export async function main(prompt: string, anthropic: Anthropic, model = "opus") {
  process.env.ANTHROPIC_API_KEY = anthropic.apiKey;
  const previous = fs.existsSync(sessionFile) ? fs.readFileSync(sessionFile, "utf-8").trim() : undefined;
  let session = previous;
  let response = "";

  const options = {
    model,
    pathToClaudeCodeExecutable: "/usr/bin/claude",
    // The sandbox is the fence: nothing has to be asked for inside.
    permissionMode: "bypassPermissions" as const,
    allowDangerouslySkipPermissions: true,
    ...(previous ? { resume: previous } : {}),
  };
  for await (const message of query({ prompt, options })) {
    if (message.type === "system" && message.subtype === "init") session = message.session_id;
    if (message.type === "assistant") {
      for (const block of message.message.content) if (block.type === "text") response += block.text;
    }
  }
  if (session) fs.writeFileSync(sessionFile, session);
  return { resumed: previous !== undefined, session, response };
}
