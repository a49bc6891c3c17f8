//! Agents as npm has them, by the scripts of Windmill's documentation as they are: Claude Code by its SDK, Codex by its command;
//! and OpenCode by the script that Paddock writes.
//! The model is one of the tests' own. The sandbox gets the packages of their templates from the directory that
//! `scripts/packages.py` fills, in a root that looks as the built one does.

use crate::scripts::{nothing_lives, result};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Model, Server, as_ordinary_user, as_root, skip};
use serde_json::{Value, json};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const CLAUDE: &str = include_str!("../scripts/claude.ts");
const CODEX: &str = include_str!("../scripts/codex.ts");
const CODEX_TEMPLATE: &str = include_str!("../../../templates/codex.toml");
const OPENCODE_TEMPLATE: &str = include_str!("../../../templates/opencode.toml");
const PACKAGES: &str = "/usr/local/lib/node_modules";
/// Under which sandboxes know the model.
const NAME: &str = "model.test";

#[test]
fn claude_goes_on_with_its_conversation() -> Result<()> {
    as_ordinary_user("scripts_agents::claude_goes_on_with_its_conversation", claude)
}

#[test]
fn codex_finds_its_state_again() -> Result<()> {
    as_root("scripts_agents::codex_finds_its_state_again", codex)
}

#[test]
fn opencode_goes_on_with_its_session() -> Result<()> {
    as_ordinary_user("scripts_agents::opencode_goes_on_with_its_session", opencode)
}

/// The packages, where this caller may read them; nothing, with a word about it, where they are not.
fn packages(caller: &Caller) -> Result<Option<PathBuf>> {
    let from = std::env::var_os("PADDOCK_TEST_AGENTS").map(PathBuf::from).filter(|path| path.is_dir());
    let Some(from) = from.filter(|_| Path::new("/usr/bin/node").exists()) else {
        skip(
            "agents",
            "PADDOCK_TEST_AGENTS does not name a directory with agents, or there is no /usr/bin/node",
        );
        return Ok(None);
    };
    // They are large: used in place, if every user may look there, else links, if the file system has them.
    let is_open =
        |path: &Path| path.metadata().is_ok_and(|found| found.permissions().mode() & 0o005 == 0o005);
    if from.ancestors().all(is_open) {
        return Ok(Some(from));
    }
    let to = caller.place().join("agents");
    let copy = |how: &str| Command::new("cp").arg(how).arg(&from).arg(&to).output();
    if !copy("-al")?.status.success() {
        let _ = std::fs::remove_dir_all(&to);
        ensure!(copy("-a")?.status.success(), "{} could not be copied", from.display());
    }
    Ok(Some(to))
}

/// A server for which the model has a name.
fn serve<'a>(caller: &'a Caller, model: &Model) -> Result<(Server<'a>, String)> {
    let directory = caller.state().join("net");
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join("hosts"), format!("127.0.0.1 {NAME}\n"))?;
    caller.own_all(&caller.state())?;
    Ok((Server::start(caller)?, format!("http://{NAME}:{}", model.port)))
}

/// A template with the host's Node and shell, these programs in /usr/bin, and a way to the model.
fn template(
    server: &Server<'_>,
    caller: &Caller,
    packages: &Path,
    name: &str,
    programs: &[(&str, &str)],
    env: &[String],
    port: u16,
) -> Result<()> {
    let root = caller.directory("root")?;
    for place in
        ["usr/bin", "usr/lib", "usr/lib64", "usr/local/lib/node_modules", "host", "etc", "tmp", "home"]
    {
        std::fs::create_dir_all(root.join(place))?;
    }
    for (link, to) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        symlink(to, root.join(link))?;
    }
    let own = ["sh", "bash", "env", "node", "cat", "uname"].map(|name| (name, format!("/host/{name}")));
    for (name, to) in &own {
        symlink(to, root.join("usr/bin").join(name))?;
    }
    for (name, to) in programs {
        match to.starts_with('/') {
            true => symlink(to, root.join("usr/bin").join(name))?,
            false => {
                let path = root.join("usr/bin").join(name);
                std::fs::write(&path, to)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
            }
        }
    }
    caller.own_all(&root)?;
    let mut words: Vec<String> =
        ["template", "add", name, "--memory", "3GiB", "--pids", "512"].map(String::from).into();
    words.extend(["--image".into(), root.display().to_string()]);
    // The name, and the address behind it, which is this host's own.
    words.extend([format!("--allow-net={NAME}:{port}"), format!("--allow-net=127.0.0.1:{port}")]);
    for (from, to) in [("/usr/bin", "/host"), ("/usr/lib", "/usr/lib"), ("/usr/lib64", "/usr/lib64")] {
        words.extend(["--read".into(), format!("{from}:{to}")]);
    }
    words.extend(["--read".into(), format!("{}:{PACKAGES}", packages.display())]);
    let path = "PATH=/usr/local/bin:/usr/bin:/host".to_string();
    words.extend(env.iter().chain([&path]).flat_map(|pair| ["--env".to_string(), pair.clone()]));
    server.run(words)?.success()?;
    Ok(())
}

fn claude(caller: &Caller) -> Result<()> {
    let Some(packages) = packages(caller)? else { return Ok(()) };
    let model = Model::start(caller, "model", &json!([{ "text": "It is the one you asked for." }]))?;
    let (server, url) = serve(caller, &model)?;
    let program = format!("{PACKAGES}/@anthropic-ai/claude-agent-sdk-linux-x64/claude");
    let env = [
        format!("ANTHROPIC_BASE_URL={url}"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1".into(),
        "DISABLE_AUTOUPDATER=1".into(),
    ];
    template(&server, caller, &packages, "claude", &[("claude", &program)], &env, model.port)?;
    let set = ["resource", "set", "--type", "anthropic", "anthropic", r#"{"apiKey": "sk-ant-e2e"}"#];
    server.run(set)?.success()?;
    let file = caller.file("claude.ts", CLAUDE)?.display().to_string();
    // The script's imports tell which template it wants.
    let run = || server.run(["script", "run", &file, "--arg", "anthropic=$res:anthropic"]);
    let first = result(&run()?)?;
    assert_eq!(
        (&first["is_resume"], &first["response"]),
        (&json!(false), &json!("It is the one you asked for."))
    );
    let second = result(&run()?)?;
    assert_eq!(
        (&second["is_resume"], &second["previous_session_id"], &second["new_session_id"]),
        (&json!(true), &first["new_session_id"], &first["new_session_id"])
    );
    let asked = model.asked()?;
    let last = asked.last().context("the model was not asked")?;
    assert_eq!(last["headers"]["x-api-key"], "sk-ant-e2e");
    let messages = last["body"]["messages"].to_string();
    for words in [
        "What is the fastest OSS workflow engine?",
        "It is the one you asked for.",
        "What did I ask you before?",
    ] {
        ensure!(messages.contains(words), "no {words:?} in {messages}");
    }
    nothing_lives(&server)
}

/// The program that the template puts in front of Codex's own.
fn codex_front() -> Result<&'static str> {
    let (_, rest) = CODEX_TEMPLATE.split_once("<< 'END'\n").context("no program in the template")?;
    Ok(rest.split_once("\nEND\n").context("its end")?.0)
}

fn codex(caller: &Caller) -> Result<()> {
    let Some(packages) = packages(caller)? else { return Ok(()) };
    let model = Model::start(caller, "model", &json!([{ "text": "Mended." }]))?;
    let (server, url) = serve(caller, &model)?;
    let itself = format!("{PACKAGES}/@openai/codex/bin/codex.js");
    let programs = [("codex-itself", itself.as_str()), ("codex", codex_front()?)];
    let env = [format!("OPENAI_BASE_URL={url}/v1")];
    template(&server, caller, &packages, "codex", &programs, &env, model.port)?;
    let file = caller.file("codex.ts", CODEX)?.display().to_string();
    let sessions = || -> Result<usize> {
        let listed: Value = server.run(["volume", "files", "codex-state", "--json"])?.json()?;
        Ok(listed.to_string().matches("rollout-").count())
    };
    for count in 1..=2 {
        let ran = server.run(["script", "run", &file, "--arg", "prompt=mend it"])?;
        assert_eq!(result(&ran)?, json!("Mended.\n"), "{}", ran.err());
        assert_eq!(sessions()?, count);
    }
    let asked = model.asked()?;
    let last = asked.last().context("the model was not asked")?;
    assert_eq!(
        (&last["path"], &last["headers"]["authorization"]),
        (&json!("/v1/responses"), &json!("Bearer ..."))
    );
    ensure!(last["body"]["input"].to_string().contains("mend it"), "{}", last["body"]["input"]);
    nothing_lives(&server)
}

fn opencode(caller: &Caller) -> Result<()> {
    let Some(packages) = packages(caller)? else { return Ok(()) };
    let model = Model::start(caller, "model", &json!([{ "text": "Noted." }]))?;
    let (server, url) = serve(caller, &model)?;
    let program = format!("{PACKAGES}/opencode-ai/bin/opencode.exe");
    let provider = json!({ "provider": { "anthropic": { "options": { "baseURL": format!("{url}/v1") } } } });
    let mut env = vec![format!("OPENCODE_CONFIG_CONTENT={provider}")];
    let template_env = OPENCODE_TEMPLATE.lines().filter(|line| line.starts_with("OPENCODE_"));
    env.extend(template_env.map(|line| line.replace(" = ", "=").replace('"', "")));
    template(&server, caller, &packages, "opencode", &[("opencode", &program)], &env, model.port)?;
    let file = caller.home().join("opencode.ts").display().to_string();
    server.run(["script", "new", "opencode", &file])?.success()?;
    let run = |prompt: &str| {
        let arguments = json!({ "prompt": prompt, "anthropic": { "apiKey": "sk-ant-e2e" } }).to_string();
        server.run(["script", "run", &file, "--args", &arguments])
    };
    for (prompt, resumed) in [("remember the barn", false), ("what was it?", true)] {
        assert_eq!(result(&run(prompt)?)?, json!({ "resumed": resumed, "response": "Noted." }));
    }
    let asked = model.asked()?;
    let last = asked.last().context("the model was not asked")?["body"]["messages"].to_string();
    ensure!(last.contains("remember the barn") && last.contains("what was it?"), "{last}");
    nothing_lives(&server)
}
