//! Names that are held because of a workspace's content, and repositories that are made where there is none.

use crate::workspace::{hand_over, in_workspace, listing, repository};
use crate::workspace_protection::all_fail;
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, for_both_callers};
use std::path::Path;

for_both_callers!(
    every_name_of_the_table_is_held,
    hooks_are_held_wherever_the_settings_put_them,
    names_in_directories_below_are_held,
    names_that_settings_hold_can_be_given_up,
    a_repository_can_be_made_where_there_is_none,
    a_killed_run_leaves_no_hooks,
    git_is_not_confused_by_stand_ins,
);

/// Name and how it is held, of one section of docs/reference/protected-names.md.
fn table(section: &str) -> Result<Vec<(String, String)>> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/protected-names.md");
    let page = std::fs::read_to_string(page)?;
    let (_, rest) = page.split_once(section).context("the section")?;
    let rows =
        rest.lines().take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with("| `"));
    let cells = |line: &str| {
        let mut cells = line.split('|').map(|cell| cell.trim().trim_matches('`').to_string());
        Some((cells.nth(1)?, cells.next()?))
    };
    Ok(rows.filter_map(cells).collect())
}

fn every_name_of_the_table_is_held(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    let names = table("## In every workspace")?;
    ensure!(names.len() > 80, "{} names", names.len());
    let write = |name: &str| match name.strip_suffix('/') {
        Some(name) => format!("mkdir -p {name} && echo x > {name}/planted"),
        None => format!("mkdir -p $(dirname {name}) && echo x >> {name}"),
    };
    let absent: Vec<String> =
        names.iter().filter(|(_, held)| held == "always").map(|(name, _)| write(name)).collect();
    ensure!(absent.len() > 15, "{absent:?}");
    let before = listing(&directory)?;
    all_fail(caller, &directory, &[], &absent.iter().map(String::as_str).collect::<Vec<_>>())?;
    assert_eq!(listing(&directory)?, before);

    // Where they exist: at the top, and those of one part below too.
    let mut attempts = Vec::new();
    for (name, held) in names.iter().filter(|(name, _)| name != ".git/") {
        if held == "told" {
            continue;
        }
        let is_below = !name.trim_end_matches('/').contains('/');
        for name in [name.clone(), format!("packages/one/{name}")].iter().take(1 + usize::from(is_below)) {
            caller.shell(&directory, &write(name))?.success()?;
            attempts.push(write(name));
        }
    }
    prepare(caller, &directory, owner, "true")?;
    all_fail(caller, &directory, &[], &attempts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Outside, in a repository whose owner may differ from the caller; new files are the owner's.
fn prepare(caller: &Caller, directory: &Path, owner: u32, script: &str) -> Result<()> {
    let all = format!("git() {{ command git -c safe.directory='*' \"$@\"; }}; {script}");
    caller.shell(directory, &all)?.success()?;
    if caller.is_root { hand_over(directory, owner) } else { Ok(()) }
}

fn hooks_are_held_wherever_the_settings_put_them(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    let script = "git config core.hooksPath tools/hooks && git config include.path ../.gitsettings && \
                  git config includeIf.onbranch:other.path ../conditional && git config filter.x.clean 'sh clean.sh' && \
                  mkdir tools scripts libs && echo : > clean.sh && echo : > scripts/check && \
                  ln -s ../../scripts/check .git/hooks/post-merge && \
                  printf '[submodule \"a\"]\\n\\tpath = libs/a\\n' > .gitmodules && mkdir libs/b && \
                  git update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,libs/b";
    prepare(caller, &directory, owner, script)?;
    let before = listing(&directory)?;
    let attempts = [
        "mkdir -p tools/hooks && echo x > tools/hooks/pre-commit",
        "mv tools elsewhere",
        "echo '[core] fsmonitor = evil' > .gitsettings",
        "echo x > conditional",
        "echo evil >> clean.sh",
        "mv clean.sh away",
        "echo evil >> scripts/check",
        "mkdir -p libs/a/.git && echo x > libs/a/.git/config",
        "git init -q libs/b",
        "mkdir libs/b/.git",
        "mv libs/b libs/away",
    ];
    all_fail(caller, &directory, &[], &attempts)?;
    assert_eq!(listing(&directory)?, before);
    let explained = in_workspace(caller, &directory, &["--explain"], "true")?.success()?;
    for name in ["tools/hooks", ".gitsettings", "conditional", "clean.sh", "libs/b"] {
        ensure!(explained.contains(name), "{name} is not in {explained}");
    }
    // The rest of these directories is the agent's.
    in_workspace(caller, &directory, &[], "echo x > tools/free && echo x > libs/free && git status")?
        .success()?;
    Ok(())
}

fn names_in_directories_below_are_held(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    let script = "mkdir -p pkg/deep/.vscode node_modules/x && echo {} > pkg/deep/.vscode/tasks.json && echo : > pkg/.envrc && \
                  echo {} > pkg/.mcp.json && echo x > node_modules/x/.npmrc && git init -q --bare fixtures/bare.git";
    prepare(caller, &directory, owner, script)?;
    let attempts = [
        "echo x > pkg/deep/.vscode/tasks.json",
        "echo x > pkg/.envrc",
        "rm pkg/.mcp.json",
        "mv pkg/deep pkg/away",
        "echo x >> fixtures/bare.git/config",
        "echo x > fixtures/bare.git/hooks/post-update",
    ];
    all_fail(caller, &directory, &[], &attempts)?;
    in_workspace(caller, &directory, &[], "echo x > pkg/free && rm -r node_modules")?.success()?;
    Ok(())
}

fn names_that_settings_hold_can_be_given_up(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    let script = "git config core.hooksPath tools/hooks; mkdir -p tools/hooks pkg/.vscode";
    prepare(caller, &directory, owner, script)?;
    let line = "echo x > tools/hooks/pre-commit && echo x > pkg/.vscode/settings.json";
    let options = ["--unprotect", "tools/hooks", "--unprotect", ".vscode"];
    in_workspace(caller, &directory, &options, line)?.success()?;
    in_workspace(caller, &directory, &["--unprotect", "tools/other"], "true")?.refused(&["tools/other"])
}

const MAKE: &str = "git init -q -b trunk . && git config user.name T && git config user.email t@example.org && echo x > file && \
                    git add file && git commit -q -m inside && git config core.fsmonitor 'touch /tmp/planted; false' && \
                    printf '#!/bin/sh\\ntouch planted\\n' > .git/hooks/post-checkout && chmod +x .git/hooks/post-checkout && \
                    git log --format=%s";

fn a_repository_can_be_made_where_there_is_none(caller: &Caller) -> Result<()> {
    let directory = caller.directory("plain")?;
    let mut running = caller
        .start_run([
            "--workspace",
            &directory.display().to_string(),
            "--",
            "sh",
            "-c",
            &format!("{MAKE}; read line"),
        ])?
        .start()?;
    running.wait_for("inside")?;
    ensure!(
        caller.shell(&directory, "git rev-parse --git-dir")?.code != 0,
        "the host's git took it for a repository"
    );
    running.write(b"now\n")?;
    running.finish()?.success()?;
    let script = "git log --format=%s && git status --porcelain && git checkout -q -b other && git branch --show-current";
    assert_eq!(caller.shell(&directory, script)?.success()?, "inside\nother\n");
    ensure!(
        !directory.join("planted").exists() && !directory.join(".git/hooks").exists(),
        "a hook was planted"
    );
    let settings = std::fs::read_to_string(directory.join(".git/config"))?;
    ensure!(!settings.contains("fsmonitor"), "{settings}");
    let left: Vec<String> = listing(&directory)?.into_iter().collect();
    assert_eq!(left, [".git", "file"]);
    // From now on it is the host's, and read-only.
    all_fail(caller, &directory, &[], &["echo x >> .git/config", "mkdir -p .git/hooks"])
}

/// A repository in a repository, in which git would run a program. The program is started in `nested`.
pub const MAKE_SUBMODULE: &str = "git init -q -b trunk nested && git -C nested -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m below && \
                                  git -C nested config core.fsmonitor 'touch ../planted; false' && git add nested && \
                                  git -c user.name=T -c user.email=t@example.org commit -q -m submodule";

/// Precondition: `nested` was made by [`MAKE_SUBMODULE`], and the sandbox has ended.
pub fn the_submodule_runs_nothing(caller: &Caller, directory: &Path) -> Result<()> {
    let git = "git() { command git -c safe.directory='*' \"$@\"; }";
    let look = format!(
        "{git}; git status && git diff && git checkout -q -f HEAD && git status && git ls-files --stage nested"
    );
    let seen = caller.shell(directory, &look)?.success()?;
    ensure!(seen.contains("160000"), "it is no submodule: {seen}");
    ensure!(!directory.join("planted").exists(), "git on the host ran the work's program");
    ensure!(
        caller.shell(directory, &format!("{git}; git -C nested log --format=%s"))?.success()? == "below\n"
    );
    let again = format!("{git}; git -C nested config core.fsmonitor 'touch ../planted; false'; git status");
    caller.shell(directory, &again)?.success()?;
    ensure!(directory.join("planted").exists(), "the control: git does not run it at all");
    Ok(())
}

fn a_killed_run_leaves_no_hooks(caller: &Caller) -> Result<()> {
    let directory = caller.directory("plain")?;
    let script = format!(
        "{{ {MAKE}; }} && rm -f .git/hooks/* && git config --unset core.fsmonitor && {MAKE_SUBMODULE} && echo all; sleep 600"
    );
    let mut running = caller
        .start_run(["--workspace", &directory.display().to_string(), "--", "sh", "-c", &script])?
        .start()?;
    running.wait_for("all")?;
    running.signal(rustix::process::Signal::KILL)?;
    running.finish()?.exited(128 + libc::SIGKILL)?;
    // The next run waits for the remains of the first one, and cleans up.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while directory.join(".git/paddock-new-repository").exists() && std::time::Instant::now() < deadline {
        caller.run(["--", "true"])?.success()?;
    }
    ensure!(!directory.join(".git/paddock-new-repository").exists(), "it is still there");
    ensure!(!directory.join(".git/hooks").exists(), "a hook was planted");
    assert_eq!(caller.shell(&directory, "git log --format=%s")?.success()?, "submodule\ninside\n");
    the_submodule_runs_nothing(caller, &directory)
}

fn git_is_not_confused_by_stand_ins(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let line = "echo more >> tracked; git diff HEAD --stat | wc -l; git log -1 --format=%s HEAD; git status --porcelain; ls";
    let finished = in_workspace(caller, &directory, &[], line)?;
    let said = finished.success()?;
    ensure!(said.starts_with("2\nfirst\n M tracked\n"), "{said}{}", finished.err());
    for phantom in ["HEAD", "refs", "objects"] {
        ensure!(!said.lines().any(|line| line == phantom), "{phantom} is in {said}");
    }
    Ok(())
}
