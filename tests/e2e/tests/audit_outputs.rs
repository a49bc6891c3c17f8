//! Outputs in the audit: kept sealed, checked against the signed digests, bounded, and off if a setting says so.

use crate::attacks::with_token;
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

for_both_callers!(
    outputs_are_kept_sealed_and_fit_their_digests,
    outputs_survive_a_kill_and_the_end_of_their_sandbox,
    both_ends_of_a_long_output_are_kept,
    a_changed_output_is_found,
    outputs_are_off_by_request_and_by_the_template,
    outputs_are_off_by_the_server,
    the_oldest_outputs_make_room,
    outputs_are_for_an_admin,
);

/// Stands in no request: the sandbox puts it together.
const WORDS: &str = "swordfish-and-other-words";
const PRINTS: &str = "printf 'sword%s' fish-and-other-words; echo; printf 'from %s\\n' stderr >&2";

fn outputs(server: &Server, id: &str) -> Result<Vec<Value>> {
    let answer = server.ask("GET", &format!("/v1/sandboxes/{id}/audit/outputs"), None)?.ok()?.text();
    answer.lines().map(|line| serde_json::from_str(line).context("a line")).collect()
}

fn text(part: &Value) -> Result<String> {
    filtered(Command::new("base64").arg("-d"), part.as_str().context("base64")?)
}

/// The output of a program of the host for this input.
fn filtered(program: &mut Command, input: &str) -> Result<String> {
    let mut running = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    running.stdin.take().context("its input")?.write_all(input.as_bytes())?;
    Ok(String::from_utf8(running.wait_with_output()?.stdout)?)
}

/// Files that hold the words, but for the journal of commands, which goes a day after the sandbox.
fn holding(directory: &Path, words: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != "execs" {
            found.extend(holding(&entry.path(), words)?);
        } else if kind.is_file() && entry.metadata()?.len() < 1 << 26 {
            let bytes = std::fs::read(entry.path())?;
            if bytes.windows(words.len()).any(|window| window == words.as_bytes()) {
                found.push(entry.path().display().to_string());
            }
        }
    }
    Ok(found)
}

fn outputs_are_kept_sealed_and_fit_their_digests(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, PRINTS)?.success()?;
    let code = "print('sword' + 'fish-and-other-words'); 'sword' + 'fish-and-other-words'";
    server.ask("POST", &format!("/v1/sandboxes/{id}/code"), Some(&json!({ "code": code })))?.ok()?;
    let failing = json!({ "code": "raise ValueError('sword' + 'fish-and-other-words')" });
    server.ask("POST", &format!("/v1/sandboxes/{id}/code"), Some(&failing))?.ok()?;
    server.script(&id, "true")?.success()?;
    let kept = outputs(&server, &id)?;
    ensure!(kept.iter().all(|output| output["verified"] == true), "{kept:?}");
    let [command, ran, failed, nothing] = &kept[..] else { anyhow::bail!("{kept:?}") };
    let stdout = format!("{WORDS}\n");
    assert_eq!(
        (text(&command["stdout"]["first"])?, text(&command["stderr"]["first"])?),
        (stdout.clone(), "from stderr\n".into())
    );
    // The digest of the output is that of the signed entry.
    let digest = filtered(&mut Command::new("sha256sum"), &stdout)?;
    let digest = digest.split(' ').next().context("a digest")?.to_string();
    assert_eq!(command["stdout"]["sha256"], digest);
    let timeline = server.ask("GET", &format!("/v1/sandboxes/{id}/audit"), None)?.ok()?.text();
    ensure!(timeline.contains(&digest), "{timeline}");
    assert_eq!(text(&ran["stdout"]["first"])?, stdout);
    assert_eq!(ran["results"][0]["text"], format!("'{WORDS}'"));
    assert_eq!((&failed["error"]["name"], &failed["error"]["value"]), (&json!("ValueError"), &json!(WORDS)));
    assert_eq!(nothing["state"], "nothing");
    let of_one = format!("/v1/sandboxes/{id}/audit/outputs?exec={}", ran["exec"]);
    assert_eq!(server.ask("GET", &of_one, None)?.ok()?.text().lines().count(), 1);
    let shown = server.run(["audit", "show", "--outputs", &id])?.success()?;
    ensure!(
        shown.contains(&format!("stdout   {WORDS}")) && shown.contains(&format!("result   '{WORDS}'")),
        "{shown}"
    );
    ensure!(!server.run(["audit", "show", &id])?.success()?.contains(WORDS), "it was not asked for");
    // No output lies in the state directory in the clear; the control is an id that does.
    let clear = holding(&caller.state(), WORDS)?;
    ensure!(clear.is_empty(), "{clear:?}");
    ensure!(!holding(&caller.state(), &id)?.is_empty(), "the search finds nothing at all");
    // The timeline is whole with it.
    let file = caller.home().join("whole.audit").display().to_string();
    server.run(["audit", "export", &id, "-o", &file])?.success()?;
    server.run(["audit", "verify", &file])?.success().map(drop)
}

fn outputs_survive_a_kill_and_the_end_of_their_sandbox(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, PRINTS)?.success()?;
    server.kill()?;
    server.start_again()?;
    server.script(&id, "echo after")?.success()?;
    server.run(["kill", &id])?.success()?;
    let kept = outputs(&server, &id)?;
    ensure!(kept.len() == 2 && kept.iter().all(|output| output["verified"] == true), "{kept:?}");
    assert_eq!(text(&kept[0]["stdout"]["first"])?, format!("{WORDS}\n"));
    assert_eq!(text(&kept[1]["stdout"]["first"])?, "after\n");
    Ok(())
}

fn both_ends_of_a_long_output_are_kept(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "seq 1 200000")?.success()?;
    let kept = outputs(&server, &id)?;
    let stdout = &kept[0]["stdout"];
    let (first, last) = (text(&stdout["first"])?, text(&stdout["last"])?);
    assert_eq!((first.len(), last.len()), (32 << 10, 32 << 10));
    ensure!(first.starts_with("1\n2\n") && last.ends_with("\n200000\n"), "{first} {last}");
    let all = (first.len() + last.len()) as u64 + stdout["left_out"].as_u64().context("left_out")?;
    assert_eq!((stdout["bytes"].as_u64(), &kept[0]["verified"]), (Some(all), &json!(true)));
    Ok(())
}

fn a_changed_output_is_found(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, PRINTS)?.success()?;
    let exec = outputs(&server, &id)?[0]["exec"].clone();
    let path = caller.state().join(format!("audit/outputs/{id}/{exec}"));
    let mut bytes = std::fs::read(&path)?;
    bytes[40] ^= 1;
    std::fs::write(&path, &bytes)?;
    let changed = outputs(&server, &id)?.remove(0);
    ensure!(changed["verified"] == false && changed["problem"].to_string().contains("signed"), "{changed}");
    ensure!(changed["stdout"].is_null(), "{changed}");
    std::fs::remove_file(&path)?;
    assert_eq!(outputs(&server, &id)?[0]["state"], "removed");
    Ok(())
}

fn outputs_are_off_by_request_and_by_the_template(caller: &Caller) -> Result<()> {
    let policy = caller.file("quiet.toml", "audit_outputs = false\n")?.display().to_string();
    let strict = caller.file("strict.toml", "audit_outputs = true\n")?.display().to_string();
    caller.paddock(["template", "add", "quiet", "--policy", &policy])?.finish()?.success()?;
    caller.paddock(["template", "add", "strict", "--policy", &strict])?.finish()?.success()?;
    let server = Server::start(caller)?;
    let state = |create: Value| state_of_output(caller, &server, &create);
    assert_eq!(state(json!({}))?, "kept");
    assert_eq!(state(json!({ "audit_outputs": false }))?, "off");
    assert_eq!(state(json!({ "template": "quiet" }))?, "off");
    // The template is the owner's word, and counts before that of the creator.
    assert_eq!(state(json!({ "template": "quiet", "audit_outputs": true }))?, "off");
    assert_eq!(state(json!({ "template": "strict", "audit_outputs": false }))?, "kept");
    Ok(())
}

fn outputs_are_off_by_the_server(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--audit-outputs", "off"])?;
    assert_eq!(state_of_output(caller, &server, &json!({ "audit_outputs": true }))?, "off");
    Ok(())
}

/// The state of the output of a command in a new sandbox.
fn state_of_output(caller: &Caller, server: &Server, create: &Value) -> Result<Value> {
    let made = server.ask("POST", "/v1/sandboxes", Some(create))?.json()?;
    let id = made["id"].as_str().context("id")?.to_string();
    server.script(&id, PRINTS)?.success()?;
    let state = outputs(server, &id)?[0]["state"].clone();
    let there = caller.state().join("audit/outputs").join(&id).exists();
    ensure!(there == (state == "kept"), "{state}");
    Ok(state)
}

fn the_oldest_outputs_make_room(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--audit-outputs", "200KiB"])?;
    let ids = [server.create(&[])?, server.create(&[])?, server.create(&[])?, server.create(&[])?];
    for id in &ids {
        server.script(id, "head -c 60000 /dev/urandom")?;
    }
    // Room is made after an output was written, and before the next one is.
    server.script(&ids[3], "true")?.success()?;
    server.script(&ids[3], "true")?.success()?;
    assert_eq!(outputs(&server, &ids[0])?[0]["state"], "removed");
    assert_eq!(outputs(&server, &ids[3])?[0]["state"], "kept");
    Ok(())
}

fn outputs_are_for_an_admin(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let url = server.url()?;
    let token = |role: &str| -> Result<String> {
        let made = server.run(["token", "create", "--tenant", "team", "--role", role])?.success()?;
        Ok(made.trim().to_string())
    };
    let (admin, user) = (token("admin")?, token("user")?);
    let made = with_token(&url, &user, "POST", "/v1/sandboxes", Some(&json!({})))?.json()?;
    let of = format!("/v1/sandboxes/{}", made["id"].as_str().context("id")?);
    let run = json!({ "command": PRINTS });
    with_token(&url, &user, "POST", &format!("{of}/execs"), Some(&run))?.ok()?;
    with_token(&url, &user, "GET", &format!("{of}/audit/outputs"), None)?.refused(403, "forbidden")?;
    let seen = with_token(&url, &admin, "GET", &format!("{of}/audit/outputs"), None)?.ok()?.text();
    ensure!(seen.contains("\"verified\":true"), "{seen}");
    Ok(())
}
