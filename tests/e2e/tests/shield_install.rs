//! `paddock shield --install`: how far it is, and why it failed. The registry is the server outside, whose authority only the host
//! knows.

use crate::certificates::inspected;
use crate::shield::shield;
use crate::workspace::repository;
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Finished, Outside, Terminal, for_both_callers};
use std::path::Path;

for_both_callers!(
    an_agent_is_installed_behind_inspected_tls,
    why_it_failed_is_told,
    a_terminal_shows_how_far_it_is,
);

/// An agent that npm gets from the registry outside.
fn agent(caller: &Caller, outside: &Outside) -> Result<()> {
    let tls = outside.tls;
    let text = format!(
        "description = \"a package of the tests\"\n\
         install = [\"npm\", \"install\", \"--global\", \"--no-audit\", \"--no-fund\", \"--fetch-retries=0\", \
         \"--registry\", \"https://npm.test:{tls}/\", \"paddocktest\"]\n\
         install_hosts = [\"npm.test:{tls}\", \"127.0.0.1:{tls}\"]\n"
    );
    add(caller, "tested", &text)
}

fn add(caller: &Caller, name: &str, text: &str) -> Result<()> {
    let directory = caller.state().join("agents");
    std::fs::create_dir_all(&directory)?;
    std::fs::write(directory.join(format!("{name}.toml")), text)?;
    caller.own_all(&caller.state())
}

fn install(caller: &Caller, directory: &Path, file: &str, options: &[&str]) -> Result<Finished> {
    shield(caller, directory, options)?.environment("NODE_EXTRA_CA_CERTS", file).finish()
}

fn an_agent_is_installed_behind_inspected_tls(caller: &Caller) -> Result<()> {
    let (outside, file) = inspected(caller)?;
    let (directory, _) = repository(caller)?;
    agent(caller, &outside)?;
    let refused = install(caller, &directory, &file, &["--install", "tested"])?;
    let said = refused.err();
    ensure!(refused.code != 0 && said.contains("paddock: installing tested"), "{said}");
    for words in [
        "UNABLE_TO_",
        "error: tested could not be installed: `npm` ended with exit code",
        "hint: ",
        "--host-certs",
    ] {
        ensure!(said.contains(words), "{words}: {said}");
    }
    let told = install(caller, &directory, &file, &["--json", "--install", "tested"])?;
    let told: serde_json::Value = serde_json::from_str(&told.out())?;
    ensure!(told["installed"] == false && told["hint"].to_string().contains("--host-certs"), "{told}");
    let done = install(caller, &directory, &file, &["--host-certs", "--install", "tested"])?;
    ensure!(done.success()?.starts_with("tested is installed in the home of this repository"), "{done:?}");
    let look = "cat ~/.local/lib/node_modules/paddocktest/index.js";
    let seen = shield(caller, &directory, &["--", "sh", "-c", look])?.finish()?;
    assert_eq!(seen.success()?, "module.exports = 42\n");
    Ok(())
}

fn why_it_failed_is_told(caller: &Caller) -> Result<()> {
    let (outside, file) = inspected(caller)?;
    let (directory, _) = repository(caller)?;
    agent(caller, &outside)?;
    let failed = |options: &[&str], words: &[&str]| -> Result<()> {
        let failed = install(caller, &directory, &file, options)?;
        let said = failed.err();
        ensure!(failed.code != 0 && words.iter().all(|words| said.contains(words)), "{words:?}: {said}");
        Ok(())
    };
    failed(&["--net", "none", "--install", "tested"], &["hint: --net none keeps it from the network"])?;
    let elsewhere = "description = \"x\"\ninstall = [\"curl\", \"-sSf\", \"https://elsewhere.test/\"]\n";
    add(caller, "elsewhere", elsewhere)?;
    let words = ["elsewhere.test", "was refused", "hint: ", "--allow-net elsewhere.test"];
    failed(&["--install", "elsewhere"], &words)?;
    add(caller, "absent", "description = \"x\"\ninstall = [\"no-such-installer\"]\n")?;
    failed(
        &["--install", "absent"],
        &["`no-such-installer` could not be run", "hint: it needs `no-such-installer` inside"],
    )?;
    let wordy =
        "description = \"x\"\ninstall = [\"sh\", \"-c\", \"seq 1 100; echo the reason >&2; exit 7\"]\n";
    add(caller, "wordy", wordy)?;
    let said = install(caller, &directory, &file, &["--install", "wordy"])?;
    let text = said.exited(7)?.err();
    ensure!(text.contains("the reason\n") && text.contains("\n100\n") && !text.contains("\n50\n"), "{text}");
    // With -i the streams are passed through whole.
    let streamed = install(caller, &directory, &file, &["-i", "--install", "wordy"])?;
    ensure!(streamed.exited(7)?.out().contains("\n50\n"), "{streamed:?}");
    Ok(())
}

fn a_terminal_shows_how_far_it_is(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let slow = "description = \"x\"\ninstall = [\"sh\", \"-c\", \"echo first thing; sleep 1; echo second thing; sleep 1\"]\n";
    add(caller, "slow", slow)?;
    let mut invocation = shield(caller, &directory, &["--install", "slow"])?;
    let mut terminal = Terminal::open(24, 120)?;
    terminal.start(invocation.command())?;
    terminal.wait_for("installing slow, 0 s  first thing")?;
    terminal.wait_for("installing slow, 1 s  second thing")?;
    terminal.wait_for("slow is installed in the home of this repository")?;
    assert_eq!(terminal.exit_code()?, 0);
    Ok(())
}
