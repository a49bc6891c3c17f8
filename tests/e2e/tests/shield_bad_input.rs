//! The refusals of `paddock shield`, before anything runs, and their messages.

use crate::shield::shield;
use crate::workspace::repository;
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};

for_both_callers!(
    no_agent,
    directories_that_are_no_project,
    agents_that_are_not_known,
    files_of_agents_that_are_damaged,
    names_that_are_not_protected,
);

fn no_agent(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    shield(caller, &directory, &[])?
        .finish()?
        .refused(&["no agent was given", "paddock shield -- claude"])?;
    shield(caller, &directory, &["--frob", "--", "true"])?.finish()?.refused(&["--frob"])
}

fn directories_that_are_no_project(caller: &Caller) -> Result<()> {
    let home = caller.home();
    let refused = shield(caller, &home, &["--", "true"])?.finish()?;
    refused.refused(&["is your home directory", "--workspace"])?;
    let root = std::path::Path::new("/");
    shield(caller, root, &["--", "true"])?
        .finish()?
        .refused(&["it is the whole host", "the project's own directory"])?;
    let file = caller.file("a-file", "x")?.display().to_string();
    shield(caller, &home, &["--workspace", &file, "--", "true"])?
        .finish()?
        .refused(&["is not a directory"])?;
    let missing = format!("{file}-missing");
    shield(caller, &home, &["--workspace", &missing, "--", "true"])?
        .finish()?
        .refused(&["does not exist"])?;
    // Asked for by name it is taken, where nothing of Paddock's own is in it.
    let plain = caller.directory("plain-home")?;
    let mut asked = shield(caller, &plain, &["--workspace", ".", "--", "true"])?;
    asked.command().env("HOME", &plain).env("PADDOCK_STATE_DIR", caller.state());
    asked.finish()?.success()?;
    Ok(())
}

fn agents_that_are_not_known(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let refused =
        |options: &[&str], words: &[&str]| shield(caller, &directory, options)?.finish()?.refused(words);
    refused(
        &["--agent", "nobody", "--", "true"],
        &["there is no agent `nobody`", "claude, codex, opencode"],
    )?;
    refused(&["--install", "nobody"], &["there is no agent `nobody`"])?;
    refused(&["--install", "../../etc/passwd"], &["../../etc/passwd"])?;
    refused(&["--install", "claude", "--diff"], &["--diff"])
}

fn files_of_agents_that_are_damaged(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let agents = caller.state().join("agents");
    std::fs::create_dir_all(&agents)?;
    std::fs::write(agents.join("true.toml"), "description = \"x\"\nhostz = []")?;
    std::fs::write(agents.join("bare.toml"), "description = \"x\"")?;
    caller.own_all(&caller.state())?;
    shield(caller, &directory, &["--", "true"])?.finish()?.refused(&["true.toml", "hostz"])?;
    shield(caller, &directory, &["--install", "bare"])?.finish()?.refused(&["how `bare` is installed"])
}

fn names_that_are_not_protected(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    shield(caller, &directory, &["--unprotect", "src", "--", "true"])?
        .finish()?
        .refused(&["`src` is not protected"])?;
    let refused = shield(caller, &directory, &["--secret", "KEY@api.example.com", "--", "true"])?.finish()?;
    refused.refused(&["there is no variable `KEY`"])?;
    let refused = shield(caller, &directory, &["--net", "preset:nope", "--", "true"])?.finish()?;
    ensure!(refused.code == 125, "{refused:?}");
    refused.refused(&["there is no preset `nope`"])
}
