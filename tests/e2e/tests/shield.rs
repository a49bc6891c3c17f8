//! `paddock shield`: an agent on a real repository. Here the agent is a shell, which does an agent's work and forbidden
//! things.

use crate::workspace::{listing, repository};
use crate::workspace_repository::{MAKE_SUBMODULE, the_submodule_runs_nothing};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Finished, Invocation, Outside, Terminal, for_both_callers};
use rustix::process::Signal;
use std::path::Path;

for_both_callers!(
    the_repository_is_writable_and_nothing_else,
    what_a_later_tool_would_run_stays_as_it_was,
    only_explicit_paths_are_writable_when_named,
    what_changed_is_told,
    what_can_run_code_is_told_first,
    an_agent_may_commit_and_plant_nothing,
    a_submodule_of_the_agents_runs_nothing,
    a_repository_that_was_made_is_told,
    the_patch_is_one_that_git_applies,
    keys_of_the_agent_stay_outside,
    where_it_went_is_told,
    offline_means_offline,
    the_home_stays_with_its_repository,
    exit_codes_are_the_agents,
    signals_reach_the_agent,
    a_terminal_is_the_agents,
    the_fence_is_explained_and_nothing_is_made,
    agents_are_listed,
);

pub fn shield(caller: &Caller, directory: &Path, options: &[&str]) -> Result<Invocation> {
    let mut invocation = caller.paddock(["shield"].iter().chain(options))?;
    invocation.command().current_dir(directory);
    Ok(invocation)
}

fn script(caller: &Caller, directory: &Path, options: &[&str], script: &str) -> Result<Finished> {
    let all: Vec<&str> = options.iter().copied().chain(["--", "sh", "-c", script]).collect();
    shield(caller, directory, &all)?.finish()
}

fn the_repository_is_writable_and_nothing_else(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    caller.file("home/private", "mine")?;
    let attempts = format!(
        "echo new > made && echo more >> tracked; pwd; id -u
         for place in /usr/x /etc/x /x {home}/x /opt/x; do (echo x > $place) 2>/dev/null && echo wrote $place; done
         cat {home}/private /etc/shadow 2>/dev/null; ls {home} 2>/dev/null; echo $HOME",
        home = caller.home().display()
    );
    let finished = script(caller, &directory, &[], &attempts)?;
    assert_eq!(finished.success()?, "/workspace\n1000\n/home/agent\n");
    assert_eq!(std::fs::read_to_string(directory.join("tracked"))?, "one\nmore\n");
    use std::os::unix::fs::MetadataExt;
    assert_eq!(std::fs::metadata(directory.join("made"))?.uid(), owner);
    ensure!(!caller.home().join("x").exists(), "it wrote into the home");
    Ok(())
}

fn what_a_later_tool_would_run_stays_as_it_was(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    std::fs::write(directory.join("Jenkinsfile"), "pipeline {}\n")?;
    caller.own(&directory.join("Jenkinsfile"))?;
    let before = listing(&directory)?;
    let attempts = [
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/config",
        "mkdir -p .github/workflows && echo x > .github/workflows/push.yml",
        "echo x > .gitlab-ci.yml",
        "echo x > .circleci/config.yml",
        "echo x > .claude/settings.json",
        "echo x > .mcp.json",
        "echo x > .paddock/policy.toml",
        "echo x >> Jenkinsfile",
        "mv .git away",
        "rm -rf .git/hooks",
    ];
    let lines: String =
        attempts.iter().map(|line| format!("({line}) 2>/dev/null && echo '{line}'\n")).collect();
    let finished = script(caller, &directory, &[], &format!("{lines}true"))?;
    assert_eq!(finished.success()?, "", "these were possible");
    assert_eq!(listing(&directory)?, before);
    assert_eq!(std::fs::read_to_string(directory.join("Jenkinsfile"))?, "pipeline {}\n");
    ensure!(finished.err().contains("nothing was changed"), "{}", finished.err());
    // Given up by name, and by that alone.
    let line = "mkdir -p .github/workflows && echo x > .github/workflows/push.yml";
    script(
        caller,
        &directory,
        &["--unprotect", ".github/workflows", "--unprotect", ".github/actions"],
        line,
    )?
    .success()?;
    ensure!(directory.join(".github/workflows/push.yml").exists(), "it was unprotected");
    Ok(())
}

fn only_explicit_paths_are_writable_when_named(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let other = caller.directory("other")?;
    let other = other.display().to_string();
    let attempts = format!(
        "echo x > sub/new && echo x >> sub/file && echo x > {other}/made || exit 9
         for line in 'echo x > top' 'echo x >> tracked' 'rm tracked' 'mv sub away' 'mkdir d' 'rm -rf .git'; do
             (eval \"$line\") 2>/dev/null && echo \"$line\"
         done; true"
    );
    let options = ["--write", "sub", "--write", &other, "--json"];
    let report = script(caller, &directory, &options, &attempts)?.json()?;
    assert_eq!((&report["exit_code"], &report["stdout"]), (&0.into(), &"".into()), "{report}");
    let changes = report["changes"].as_array().context("changes")?;
    let paths: Vec<&str> = changes.iter().filter_map(|change| change["path"].as_str()).collect();
    assert_eq!(paths, ["sub/file", "sub/new", &format!("{other}/made")]);
    // A repository below stays protected in writable directories.
    caller.shell(&directory, "git init -q sub/inner")?.success()?;
    let line = "echo x > sub/inner/.git/hooks/pre-commit";
    ensure!(script(caller, &directory, &["--write", "sub"], line)?.code != 0, "a hook was planted");
    let refused = script(caller, &directory, &["--write", ".git/hooks"], "true")?;
    refused.refused(&["`.git/hooks` is to be writable", "--unprotect .git"])
}

fn what_changed_is_told(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let line = "echo two >> tracked; rm sub/file; mkdir -p deep/er && echo 12345 > deep/er/file; ln -s /etc/passwd link; \
                touch \"$(printf 'odd\\033[2J')\"";
    let finished = script(caller, &directory, &[], line)?;
    finished.success()?;
    let told: Vec<String> =
        finished.err().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "paddock: 7 paths were changed",
        "~ tracked 4 B -> 8 B",
        "- sub/file 4 B",
        "+ deep/ 1 file, 6 B",
        "+ link link",
        "+ odd\\u{1b}[2J 0 B",
        "paddock: nothing went out",
    ] {
        ensure!(told.iter().any(|line| line == expected), "{expected:?} is not in {told:#?}");
    }
    ensure!(!finished.err().contains('\u{1b}'), "a name spoke to the terminal");
    Ok(())
}

/// The paths of a report that are marked, each with its place in the list.
fn marked(report: &serde_json::Value) -> Vec<(usize, String)> {
    let changes = report["changes"].as_array().cloned().unwrap_or_default();
    let marked = changes.iter().enumerate().filter(|(_, change)| change["runs_code"].is_string());
    marked.map(|(place, change)| (place, change["path"].as_str().unwrap_or_default().to_string())).collect()
}

fn what_can_run_code_is_told_first(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let line = "echo x > a-file; echo x > .git/hooks/pre-commit; git config core.pager evil; mkdir -p sub/.windsurf && \
                echo x > sub/.windsurf/mcp.json; git init -q new && git -C new config core.fsmonitor evil";
    let finished = script(caller, &directory, &["--unprotect", ".git"], line)?;
    finished.success()?;
    let told: Vec<String> =
        finished.err().lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let place = |start: &str| {
        let found = told.iter().position(|line| line.starts_with(start));
        found.with_context(|| format!("{start:?} is not in {told:#?}"))
    };
    let plain = place("+ a-file")?;
    for start in [
        "!+ .git/hooks/pre-commit 2 B programs that git runs",
        "!~ .git/config",
        "!+ new/.git/",
        "!+ sub/.windsurf/",
    ] {
        ensure!(place(start)? < plain, "{start:?} comes after the rest: {told:#?}");
    }
    caller.shell(&directory, "rm -rf new sub/.windsurf .git/hooks/pre-commit a-file")?.success()?;
    let report = script(caller, &directory, &["--unprotect", ".git", "--json", "--diff"], line)?.json()?;
    let marked = marked(&report);
    for path in
        [".git/hooks/pre-commit", ".git/config", "new/.git", "new/.git/config", "sub/.windsurf/mcp.json"]
    {
        ensure!(marked.iter().any(|(_, found)| found == path), "{path} is not among {marked:?}");
    }
    ensure!(marked.iter().enumerate().all(|(number, (place, _))| number == *place), "{marked:?}");
    ensure!(report["patch"].as_str().is_some_and(|patch| !patch.contains("+++ b/.git/")), "{report}");
    Ok(())
}

fn an_agent_may_commit_and_plant_nothing(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    let settings = std::fs::read_to_string(directory.join(".git/config"))?;
    let attempts = [
        "echo x > .git/hooks/pre-commit",
        "git config core.pager evil",
        "echo x > .git/config.new && mv -f .git/config.new .git/config",
        "rm -f .git/config",
        "mv .git/hooks .git/away",
        "mv .git away",
        "echo /tmp > .git/commondir",
        "mkdir -p .git/modules/x && echo x > .git/modules/x/config",
        "mkdir -p .git/worktrees/x && echo x > .git/worktrees/x/commondir",
        "echo '* filter=x' > .git/info/attributes",
        "echo x > .git/config.worktree",
        "echo /etc > .git/objects/info/alternates",
    ];
    let lines: String =
        attempts.iter().map(|line| format!("({line}) 2>/dev/null && echo 'possible: {line}'\n")).collect();
    let commit = "export GIT_AUTHOR_NAME=T GIT_AUTHOR_EMAIL=t@example.org GIT_COMMITTER_NAME=T GIT_COMMITTER_EMAIL=t@example.org
                  git checkout -q -b work && echo more >> tracked && git commit -q -am second && git tag mark && git status --porcelain";
    let finished = script(caller, &directory, &["--allow-commit"], &format!("{lines}{commit}"))?;
    assert_eq!(finished.success()?, "", "{}", finished.err());
    let log = caller
        .shell(&directory, "git -c safe.directory='*' log --format=%s && git -c safe.directory='*' fsck")?;
    ensure!(log.success()?.starts_with("second\nfirst\n"), "{log:?}");
    assert_eq!(std::fs::read_to_string(directory.join(".git/config"))?, settings);
    for name in ["hooks/pre-commit", "commondir", "modules", "worktrees", "config.worktree", "away"] {
        ensure!(!directory.join(".git").join(name).exists(), ".git/{name} is there");
    }
    use std::os::unix::fs::MetadataExt;
    assert_eq!(directory.join(".git/refs/heads/work").metadata()?.uid(), owner);
    ensure!(finished.err().contains("+  .git/objects/"), "{}", finished.err());
    ensure!(!finished.err().contains("can make a tool run code"), "{}", finished.err());
    // With paths that are named, too.
    let both = ["--allow-commit", "--write", "sub"];
    let line = "echo y >> sub/file && git -c user.name=T -c user.email=t@example.org commit -q -am third";
    script(caller, &directory, &both, line)?.success()?;
    let linked = caller.directory("linked")?;
    std::fs::write(linked.join(".git"), "gitdir: ../repository/.git/worktrees/x\n")?;
    caller.own_all(&linked)?;
    script(caller, &linked, &["--allow-commit"], "true")?.refused(&["lies elsewhere", "--allow-commit"])
}

fn a_submodule_of_the_agents_runs_nothing(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let finished = script(caller, &directory, &["--allow-commit"], MAKE_SUBMODULE)?;
    finished.success()?;
    ensure!(finished.err().contains("!+  nested/.git"), "{}", finished.err());
    the_submodule_runs_nothing(caller, &directory)?;
    let plain = caller.directory("plain")?;
    script(caller, &plain, &[], &format!("git init -q . && {MAKE_SUBMODULE}"))?.success()?;
    the_submodule_runs_nothing(caller, &plain)
}

fn a_repository_that_was_made_is_told(caller: &Caller) -> Result<()> {
    let directory = caller.directory("plain")?;
    let line = "git init -q . && echo x > f && git add f && git -c user.name=T -c user.email=t@example.org commit -qm one";
    let finished = script(caller, &directory, &[], line)?;
    finished.success()?;
    for part in ["a repository was made inside", "+  .git/objects/", "+  f "] {
        ensure!(finished.err().contains(part), "{part:?} is not in {}", finished.err());
    }
    ensure!(!finished.err().contains("can make a tool run code"), "{}", finished.err());
    Ok(())
}

fn the_patch_is_one_that_git_applies(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let before = caller.directory("before")?;
    caller.shell(&directory, "echo bye > sub/gone")?.success()?;
    caller.shell(&before, "cp -r ../repository/. .")?.success()?;
    let line = "sed -i s/one/1/ tracked; rm sub/gone; mkdir new; printf 'a\\nb' > new/file; chmod +x new/file; ln -s tracked link";
    let report = script(caller, &directory, &["--diff", "--json"], line)?.json()?;
    let patch = report["patch"].as_str().context("a patch")?;
    caller.file("patch", patch)?;
    caller.shell(&before, "git apply ../patch")?.success().context(patch.to_string())?;
    let same = caller.shell(
        caller.place(),
        "diff -r --no-dereference -x .git repository before && test -x before/new/file",
    )?;
    assert_eq!(same.success()?, "");
    let shown = script(caller, &directory, &["--diff"], "echo 2 >> tracked")?;
    shown.success()?;
    ensure!(shown.err().contains("--- a/tracked\n+++ b/tracked\n"), "{}", shown.err());
    Ok(())
}

fn keys_of_the_agent_stay_outside(caller: &Caller) -> Result<()> {
    const VALUE: &str = "sk-paddock-e2e-shield";
    let (directory, _) = repository(caller)?;
    let outside = Outside::start(caller)?;
    let tls = outside.tls;
    let agents = caller.state().join("agents");
    std::fs::create_dir_all(&agents)?;
    let profile = format!(
        "description = \"an agent of the test's own\"\nprotect = [\"agent.toml\"]\n[env]\nAGENT_HELLO = \"hi\"\n\
         [secrets.AGENT_KEY]\nhosts = [\"web.test:{tls}\"]\n[secrets.OTHER_KEY]\nhosts = [\"web.test:{tls}\"]"
    );
    std::fs::write(agents.join("sh.toml"), profile)?;
    caller.own_all(&caller.state())?;
    let address = format!("127.0.0.1:{tls}");
    let line = format!(
        "echo $AGENT_HELLO $AGENT_KEY ${{OTHER_KEY-unset}}; curl -sS -H \"Authorization: $AGENT_KEY\" https://web.test:{tls}/spelled
         echo x > agent.toml"
    );
    let run = |options: &[&str]| -> Result<Finished> {
        let all: Vec<&str> = options.iter().copied().chain(["--", "sh", "-c", &line]).collect();
        shield(caller, &directory, &all)?.environment("AGENT_KEY", VALUE).finish()
    };
    let finished = run(&["--net", &address])?;
    let said = finished.out();
    let spelled = VALUE.chars().map(String::from).collect::<Vec<_>>().join(".");
    ensure!(said.starts_with("hi paddock-secret-") && said.contains(" unset\n"), "{finished:?}");
    ensure!(said.contains(&spelled) && !said.contains(VALUE), "{finished:?}");
    ensure!(!directory.join("agent.toml").exists(), "what the agent's file protects was written");
    let log = finished.err();
    ensure!(log.contains("allowed") && log.contains(&format!("web.test:{tls}")), "{log}");
    // Without the agent's file none of it happens.
    let finished = run(&["--agent", "none", "--net", &address])?;
    ensure!(finished.out().starts_with(" unset\n") || finished.out().starts_with("unset\n"), "{finished:?}");
    Ok(())
}

fn where_it_went_is_told(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let outside = Outside::start(caller)?;
    let clear = outside.clear;
    let line = format!(
        "curl -sS -f http://web.test:{clear}/hello; curl -sS -f http://other.test:{clear}/; curl -sS -f http://other.test:{clear}/; true"
    );
    let allowed = [format!("web.test:{clear}"), format!("127.0.0.1:{clear}")];
    let finished = script(caller, &directory, &["--net", &allowed[0], "--allow-net", &allowed[1]], &line)?;
    assert_eq!(finished.success()?, "hello\n");
    let log = finished.err();
    ensure!(log.contains("allowed  web.test:"), "{log}");
    ensure!(
        log.contains("refused  other.test:")
            && log.contains(&format!("to allow it: --allow-net other.test:{clear}")),
        "{log}"
    );
    Ok(())
}

fn offline_means_offline(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let line = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
    assert_eq!(script(caller, &directory, &["--net", "none"], line)?.success()?, "lo\n");
    script(caller, &directory, &["--net", "host"], "true")?.refused(&["unfenced", "--allow-net"])?;
    let policy = caller.file("policy.toml", "net = \"host\"")?;
    script(caller, &directory, &["--policy", &policy.display().to_string()], "true")?.refused(&["unfenced"])
}

fn the_home_stays_with_its_repository(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let other = caller.directory("second")?;
    script(
        caller,
        &directory,
        &[],
        "mkdir -p ~/.local/bin && printf '#!/bin/sh\\necho installed' > ~/.local/bin/tool && \
                                     chmod 755 ~/.local/bin/tool && echo login > ~/.token",
    )?
    .success()?;
    let look = "cat ~/.token 2>/dev/null; tool 2>/dev/null; true";
    assert_eq!(script(caller, &directory, &[], look)?.success()?, "login\ninstalled\n");
    assert_eq!(script(caller, &other, &[], look)?.success()?, "");
    assert_eq!(script(caller, &directory, &["--fresh"], look)?.success()?, "");
    let finished = script(caller, &directory, &[], look)?;
    ensure!(finished.err().contains("nothing was changed"), "the home is no part of the account");
    shield(caller, &directory, &["--forget"])?.finish()?.success()?;
    assert_eq!(script(caller, &directory, &[], look)?.success()?, "");
    Ok(())
}

fn exit_codes_are_the_agents(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    script(caller, &directory, &[], "exit 7")?.exited(7)?;
    script(caller, &directory, &["--timeout", "1s"], "sleep 60")?.exited(124)?;
    let missing = shield(caller, &directory, &["--", "codex"])?.finish()?;
    missing.exited(127)?;
    ensure!(missing.err().contains("paddock shield --install codex"), "{}", missing.err());
    Ok(())
}

fn signals_reach_the_agent(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let line = "trap 'echo got it; echo x > after; exit 5' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = shield(caller, &directory, &["--", "sh", "-c", line])?.start()?;
    running.wait_for("ready")?;
    running.signal(Signal::TERM)?;
    let finished = running.finish()?;
    finished.exited(5)?;
    ensure!(finished.err().contains("+  after"), "{}", finished.err());
    Ok(())
}

fn a_terminal_is_the_agents(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let mut terminal = Terminal::open(41, 123)?;
    let line = "stty size; trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done";
    terminal.start(shield(caller, &directory, &["--", "sh", "-c", line])?.command())?;
    terminal.wait_for("41 123")?;
    terminal.wait_for("ready")?;
    terminal.type_keys(b"\x03")?;
    terminal.wait_for("interrupted")?;
    terminal.wait_for("nothing was changed")?;
    assert_eq!(terminal.exit_code()?, 3);
    Ok(())
}

fn the_fence_is_explained_and_nothing_is_made(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let invocation = shield(caller, &directory, &["--dry-run", "--", "claude"])?;
    let said = invocation.environment("ANTHROPIC_API_KEY", "sk-e2e-never-shown").finish()?.success()?;
    for part in [
        "Claude Code",
        "/home/agent",
        ".github/workflows",
        "api.anthropic.com:443",
        "ANTHROPIC_API_KEY, only in requests to api.anthropic.com:443",
        "platform.claude.com:443",
    ] {
        ensure!(said.contains(part), "{part} is not in {said}");
    }
    ensure!(!said.contains("sk-e2e"), "{said}");
    ensure!(!caller.state().join("shield").exists(), "an explanation made a home");
    Ok(())
}

fn agents_are_listed(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let said =
        shield(caller, &directory, &["--list"])?.environment("OPENAI_API_KEY", "x").finish()?.success()?;
    for part in ["claude", "codex", "opencode", "OPENAI_API_KEY (set)"] {
        ensure!(said.contains(part), "{part} is not in {said}");
    }
    let listed = shield(caller, &directory, &["--list", "--json"])?.finish()?.json()?;
    assert_eq!(listed[0]["name"], "claude");
    Ok(())
}
