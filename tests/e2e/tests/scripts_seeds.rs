//! Scripts as they were written for Windmill: an agent by Claude's SDK, one by Codex's command, one of one's own. Their
//! text is the documentation's; stand-ins for the programs of others print their input.

use crate::scripts::{nothing_lives, result};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers};
use serde_json::json;

for_both_callers!(an_agent_of_ones_own_remembers, agents_by_sdk_and_command_run_unchanged);

const PYTHON: &str = include_str!("../scripts/agent.py");
const CLAUDE: &str = include_str!("../scripts/claude.ts");
const CODEX: &str = include_str!("../scripts/codex.ts");

/// Tells which session it goes on with, and the instructions.
const CLAUDE_SDK: &str = "import * as fs from 'node:fs'\n\
    export async function* query({ prompt, options }) {\n\
      if (options.pathToClaudeCodeExecutable !== '/usr/bin/claude') throw new Error('another executable')\n\
      yield { type: 'system', subtype: 'init', session_id: 'session-' + (options.resume ? 2 : 1) }\n\
      const said = [prompt, options.resume ?? 'new', fs.readFileSync('CLAUDE.md', 'utf8'), process.env.ANTHROPIC_API_KEY].join('|')\n\
      const usage = { input_tokens: 3, output_tokens: 4 }\n\
      for (const id of ['m1', 'm1']) yield { type: 'assistant', message: { id, usage, content: [{ type: 'text', text: said }, { type: 'tool' }] } }\n\
    }\n";

fn an_agent_of_ones_own_remembers(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let file = caller.file("agent.py", PYTHON)?.display().to_string();
    for prompt in ["first", "second"] {
        let ran = server.run(["script", "run", &file, "--arg", &format!("prompt={prompt}")])?;
        assert_eq!(result(&ran)?, json!({ "role": "user", "content": prompt }));
    }
    let history = server.run(["volume", "get", "agent-memory", "history.json"])?.json()?;
    assert_eq!(
        history,
        json!([{ "role": "user", "content": "first" }, { "role": "user", "content": "second" }])
    );
    nothing_lives(&server)
}

fn agents_by_sdk_and_command_run_unchanged(caller: &Caller) -> Result<()> {
    if !std::path::Path::new("/usr/bin/node").exists() {
        paddock_e2e::skip("scripts of agents", "there is no /usr/bin/node");
        return Ok(());
    }
    let packages = caller.directory("packages")?.display().to_string();
    let sdk = format!("{packages}/@anthropic-ai/claude-agent-sdk");
    std::fs::create_dir_all(&sdk)?;
    std::fs::write(format!("{sdk}/package.json"), r#"{"type": "module", "exports": "./sdk.mjs"}"#)?;
    std::fs::write(format!("{sdk}/sdk.mjs"), CLAUDE_SDK)?;
    caller.own_all(std::path::Path::new(&packages))?;
    let tools = caller.directory("tools")?;
    let codex =
        "#!/bin/sh\necho \"$2\" >> .codex/asked\necho \"$1 $(wc -l < .codex/asked) $OPENAI_API_KEY\"\n";
    let program = caller.file("tools/codex", codex)?;
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let server = Server::start(caller)?;
    let add = [
        "template",
        "add",
        "agents",
        "--read",
        &format!("{packages}:/node_modules"),
        "--read",
        &format!("{}:/opt/tools", tools.display()),
        "--env",
        "PATH=/opt/tools:/usr/local/bin:/usr/bin:/bin",
    ];
    server.run(add)?.success()?;

    let key = r#"{"apiKey": "sk-plain-0123456789"}"#;
    server
        .paddock(["resource", "set", "--type", "anthropic", "anthropic"])?
        .input(key)
        .finish()?
        .success()?;
    let file = caller.file("claude.ts", CLAUDE)?.display().to_string();
    let instructions = r#"{"anthropic": "$res:anthropic", "agent_instructions": {"CLAUDE.md": "be brief", ".claude/skills/one/SKILL.md": "skill"}}"#;
    let run = || server.run(["script", "run", &file, "--template", "agents", "--args", instructions]);
    let first = run()?;
    ensure!(first.err().contains("7 tokens"), "{}", first.err());
    let expected = json!({
        "is_resume": false, "previous_session_id": null, "new_session_id": "session-1",
        "prompt": "What is the fastest OSS workflow engine?",
        "response": "What is the fastest OSS workflow engine?|new|be brief|sk-plain-0123456789".repeat(2),
    });
    assert_eq!(result(&first)?, expected);
    let second = result(&run()?)?;
    assert_eq!((&second["is_resume"], &second["previous_session_id"]), (&json!(true), &json!("session-1")));
    assert_eq!(second["prompt"], "What did I ask you before?");
    // The files of the instructions were written and taken away again; the session stays.
    let files = server.run(["volume", "files", "claude", "--json"])?.success()?;
    ensure!(files.contains("session-id.txt") && !files.contains("SKILL.md"), "{files}");

    let file = caller.file("codex.ts", CODEX)?.display().to_string();
    for count in ["1", "2"] {
        let ran = server.run(["script", "run", &file, "--template", "agents", "--arg", "prompt=mend it"])?;
        assert_eq!(result(&ran)?, json!(format!("--quiet {count} ...\n")));
    }
    let missing = server.run(["script", "run", &file, "--template", "agents"])?;
    ensure!(missing.exited(1)?.err().contains("argument `prompt` is missing"), "{}", missing.err());
    nothing_lives(&server)
}
