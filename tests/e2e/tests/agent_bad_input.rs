//! The refusals of `paddock agent` before anything is made, and their messages.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};

for_both_callers!(models_that_cannot_be_asked, tasks_and_sessions_that_are_none,);

/// The exit code and the words.
fn refused(caller: &Caller, options: &[&str], code: i32, words: &[&str]) -> Result<()> {
    let finished = caller.paddock(["agent"].iter().chain(options))?.finish()?;
    finished.exited(code)?;
    let said = finished.err();
    ensure!(words.iter().all(|word| said.contains(word)), "{words:?} are not in {said}");
    ensure!(!caller.state().join("server.lock").exists(), "a server was started for {options:?}");
    Ok(())
}

fn models_that_cannot_be_asked(caller: &Caller) -> Result<()> {
    refused(caller, &["x"], 1, &["no model is named", "ANTHROPIC_API_KEY"])?;
    refused(caller, &["--model", "claude", "x"], 1, &["`claude` is not one", "https://"])?;
    refused(caller, &["--model", "https://h.example", "x"], 1, &["`OPENAI_API_KEY`", "--key-env none"])?;
    refused(
        caller,
        &["--model", "https://h.example", "--key-env", "none", "x"],
        1,
        &["has to be named", "--name"],
    )?;
    refused(
        caller,
        &["--model", "https://u:p@h.example", "--key-env", "none", "x"],
        1,
        &["a user or a password"],
    )?;
    let clear = caller.paddock(["agent", "--model", "http://h.example", "--name", "m", "x"])?;
    let clear = clear.environment("OPENAI_API_KEY", "sk-never-shown").finish()?;
    clear.exited(1)?;
    ensure!(clear.err().contains("in the clear") && !clear.err().contains("sk-never"), "{}", clear.err());
    refused(caller, &["--dialect", "klingon", "x"], 2, &["klingon", "anthropic"])?;
    refused(caller, &["--steps", "0", "x"], 2, &["--steps"])?;
    refused(caller, &["--time", "soon", "x"], 2, &["--time"])
}

fn tasks_and_sessions_that_are_none(caller: &Caller) -> Result<()> {
    let model = ["--model", "http://127.0.0.1:9", "--name", "m", "--key-env", "none"];
    let with = |more: &[&'static str]| model.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    refused(caller, &with(&["  "]), 1, &["there is no task"])?;
    refused(caller, &with(&[]), 1, &["there is no task"])?;
    for session in ["as-0123456789abcdef", "../../etc/passwd", "nope"] {
        refused(caller, &with(&["--continue", session, "x"]), 1, &["there is no session"])?;
    }
    let both = ["--continue", "as-0123456789abcdef", "--sandbox", "per-task", "x"];
    refused(caller, &with(&both), 1, &["keeps its sandbox"])?;
    let taken = caller.file("taken.jsonl", "mine")?.display().to_string();
    let mut options = with(&[]);
    options.extend(["--transcript", &taken, "x"]);
    refused(caller, &options, 1, &["cannot be used", "not written over"])?;
    assert_eq!(std::fs::read_to_string(&taken)?, "mine");
    Ok(())
}
