//! The files that code in a workspace may not touch: everything by which a later tool of the host would run code.

use crate::workspace::{in_workspace, listing, repository};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers, images};

for_both_callers!(
    the_repository_cannot_be_changed,
    hooks_cannot_be_planted,
    it_cannot_be_moved_away,
    it_cannot_be_made_where_there_is_none,
    a_repository_below_is_protected_too,
    more_names_can_be_protected,
    names_can_be_unprotected,
    protection_outlasts_another_run,
    a_protected_name_may_be_a_link,
    no_more_names_stand_in_than_these,
);

/// The names that a listing shows although nobody made them. Each is a nuisance to whoever lists a workspace: this list may only
/// become shorter.
const STAND_INS: [&str; 18] = [
    ".cargo",
    ".claude",
    ".codex",
    ".cursor",
    ".envrc",
    ".gemini",
    ".hg",
    ".idea",
    ".jj",
    ".mcp.json",
    ".mise.toml",
    ".npmrc",
    ".opencode",
    ".vscode",
    "lefthook.yml",
    "mise.toml",
    "opencode.json",
    // Where there is no repository.
    "refs",
];

/// Each must fail, for the agent and for root inside.
pub fn all_fail(
    caller: &Caller,
    directory: &std::path::Path,
    options: &[&str],
    attempts: &[&str],
) -> Result<()> {
    for user in ["agent", "root"] {
        let attempt = |(number, attempt)| format!("if ({attempt}) >/dev/null 2>&1; then echo {number}; fi\n");
        let script: String = attempts.iter().enumerate().map(attempt).collect();
        let options: Vec<&str> = options.iter().chain(&["--user", user]).copied().collect();
        let output = in_workspace(caller, directory, &options, &script)?.success()?;
        let worked: Vec<&&str> =
            output.lines().filter_map(|line| attempts.get(line.parse::<usize>().ok()?)).collect();
        ensure!(output.is_empty(), "as {user} it was possible to {worked:?}");
    }
    Ok(())
}

fn the_repository_cannot_be_changed(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let before = images::fingerprint(&directory.join(".git"))?;
    let attempts = [
        "echo x >> .git/config",
        "git config core.pager evil",
        "git config core.fsmonitor evil",
        "touch .git/x",
        "rm .git/HEAD",
        "rm -rf .git",
        "chmod 777 .git/config",
        "ln .git/config hard && echo x >> hard",
        "mount -o remount,rw /workspace/.git",
        "umount /workspace/.git",
        "umount -l /workspace/.git",
        "git -c user.name=T -c user.email=t@example.org commit -qam x",
    ];
    all_fail(caller, &directory, &[], &attempts)?;
    assert_eq!(images::fingerprint(&directory.join(".git"))?, before);
    Ok(())
}

fn hooks_cannot_be_planted(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let attempts = [
        "echo x > .git/hooks/post-checkout",
        "mkdir .git/hooks/x",
        "cp /bin/true .git/hooks/pre-commit",
        "git config core.hooksPath hooks",
        "echo x > .githooks/pre-commit",
        "echo x > .husky/pre-commit",
        "echo x > .envrc",
        "echo x > .vscode/tasks.json",
        "mkdir .vscode/x",
        "echo x > .npmrc",
        "echo x > .mcp.json",
        "echo x > .claude/settings.json",
        "echo x > opencode.json",
        "echo x > mise.toml",
        "echo x > lefthook.yml",
        "mkdir -p .cargo && echo x > .cargo/config.toml",
    ];
    let before = listing(&directory)?;
    all_fail(caller, &directory, &[], &attempts)?;
    assert_eq!(listing(&directory)?, before);
    let hooks = directory.join(".git/hooks");
    ensure!(
        !hooks.join("post-checkout").exists() && !hooks.join("pre-commit").exists(),
        "a hook was planted"
    );
    Ok(())
}

fn it_cannot_be_moved_away(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let attempts = [
        "mv .git elsewhere",
        "mkdir other && mv -T other .git",
        "ln -sfn sub .git",
        "mv /workspace /tmp/w",
        "python3 -c 'import os; os.rename(\".git\", \"moved\")'",
        "python3 -c 'import ctypes; raise SystemExit(ctypes.CDLL(None).renameat2(-100, b\".git\", -100, b\"sub\", 2) != 0)'",
    ];
    all_fail(caller, &directory, &[], &attempts)?;
    ensure!(directory.join(".git/HEAD").exists() && !directory.join("elsewhere").exists(), "it was moved");
    Ok(())
}

fn it_cannot_be_made_where_there_is_none(caller: &Caller) -> Result<()> {
    let directory = caller.directory("plain")?;
    let attempts = [
        "mkdir .git",
        "echo 'gitdir: /tmp/x' > .git",
        "ln -sfnT /tmp .git",
        "rmdir .git",
        "rm -rf .git; test ! -e .git",
        "mkdir new && mv -T new .git",
        "mkdir refs",
        "echo x > refs",
        "git init --bare .",
    ];
    all_fail(caller, &directory, &[], &attempts)?;
    // A bare repository was begun, and its parts are none without `refs`.
    let bare = ["new", "HEAD", "objects", "hooks", "info", "description", "config", "branches"];
    let left =
        listing(&directory)?.into_iter().filter(|name| !bare.iter().any(|part| name.starts_with(part)));
    let left: Vec<String> = left.collect();
    ensure!(left.is_empty(), "left: {left:?}");
    ensure!(caller.shell(&directory, "git rev-parse --git-dir")?.code != 0, "it is a repository");
    Ok(())
}

fn a_repository_below_is_protected_too(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let script = "git init -q sub/nested && git init -q sub/deep/er && mkdir sub/module && \
                  echo 'gitdir: ../../.git/modules/module' > sub/module/.git";
    caller.shell(&directory, script)?.success()?;
    caller.shell(&directory, "chmod -R a+rwX sub")?.success()?;
    let before = images::fingerprint(&directory.join("sub/nested/.git"))?;
    let attempts = [
        "echo x >> sub/nested/.git/config",
        "echo x > sub/nested/.git/hooks/pre-commit",
        "mv sub/nested/.git sub/nested/moved",
        "rm -rf sub/nested/.git/hooks && test ! -e sub/nested/.git/hooks",
        "echo x >> sub/deep/er/.git/config",
        "echo 'gitdir: /tmp' > sub/module/.git",
    ];
    all_fail(caller, &directory, &[], &attempts)?;
    assert_eq!(images::fingerprint(&directory.join("sub/nested/.git"))?, before);
    Ok(())
}

fn more_names_can_be_protected(caller: &Caller) -> Result<()> {
    let (directory, _) = repository(caller)?;
    let options = ["--protect", "tracked", "--protect", "sub", "--protect", "absent"];
    let attempts = [
        "echo x > tracked",
        "rm tracked",
        "mv tracked t",
        "echo x > sub/file",
        "mv sub s",
        "echo x > absent/y",
    ];
    let before = listing(&directory)?;
    all_fail(caller, &directory, &options, &attempts)?;
    in_workspace(caller, &directory, &options, "echo x > free")?.success()?;
    let after: Vec<String> = listing(&directory)?.difference(&before).cloned().collect();
    assert_eq!(after, ["free"]);
    for name in ["../outside", "/etc/passwd", ".."] {
        in_workspace(caller, &directory, &["--protect", name], "true")?.refused(&[name])?;
    }
    Ok(())
}

fn names_can_be_unprotected(caller: &Caller) -> Result<()> {
    let (directory, owner) = repository(caller)?;
    let script =
        "git -c user.name=T -c user.email=t@example.org commit -q --allow-empty -m second && echo x > .envrc";
    in_workspace(caller, &directory, &["--unprotect", ".git", "--unprotect", ".envrc"], script)?.success()?;
    assert_eq!(std::fs::read_to_string(directory.join(".envrc"))?, "x\n");
    let log = caller.shell(&directory, "git -c safe.directory='*' log --oneline | wc -l")?;
    assert_eq!(log.success()?, "2\n");
    let found = std::os::unix::fs::MetadataExt::uid(&directory.join(".git/refs/heads/main").metadata()?);
    assert_eq!(found, owner);
    // A name that is not protected is a slip of the pen.
    let finished = in_workspace(caller, &directory, &["--unprotect", ".gti"], "true")?;
    finished.refused(&[".gti"])
}

/// A placeholder that two runs cover must stay until the last of them ends.
fn protection_outlasts_another_run(caller: &Caller) -> Result<()> {
    let directory = caller.directory("shared")?;
    let path = directory.display().to_string();
    let script = "echo ready; read line; mkdir .hg/hooks 2>/dev/null || mkdir .claude/x 2>/dev/null || \
                  echo x > .envrc 2>/dev/null || echo held";
    let mut longer = caller.start_run(["--workspace", &path, "--", "sh", "-c", script])?.start()?;
    longer.wait_for("ready")?;
    for _ in 0..3 {
        in_workspace(caller, &directory, &[], "true")?.success()?;
    }
    longer.write(b"now\n")?;
    assert_eq!(longer.finish()?.success()?, "ready\nheld\n");
    assert_eq!(listing(&directory)?.len(), 0, "{:?}", listing(&directory)?);

    // The second makes its own in that of the first, which goes when the second does.
    let nested =
        ["--workspace", &path, "--protect", "later/missing", "--", "sh", "-c", "echo ready; read line"];
    let mut both = [caller.start_run(nested)?.start()?, caller.start_run(nested)?.start()?];
    for run in &mut both {
        run.wait_for("ready")?;
    }
    for mut run in both {
        run.write(b"now\n")?;
        run.finish()?.success()?;
    }
    assert_eq!(listing(&directory)?.len(), 0, "{:?}", listing(&directory)?);
    Ok(())
}

/// The code of an earlier run may have put a link there, to be followed out of the workspace.
fn a_protected_name_may_be_a_link(caller: &Caller) -> Result<()> {
    let directory = caller.directory("linked")?;
    let outside = caller.directory("outside")?;
    std::os::unix::fs::symlink(&outside, directory.join(".vscode"))?;
    std::os::unix::fs::symlink("/etc/passwd", directory.join(".envrc"))?;
    let finished =
        in_workspace(caller, &directory, &[], "echo x > .vscode/x; rm .envrc; ln -sfn /tmp .vscode; true")?;
    ensure!(finished.code == 0 || finished.code == 125, "exit code {}: {}", finished.code, finished.err());
    assert_eq!(std::fs::read_link(directory.join(".vscode"))?, outside);
    assert_eq!(std::fs::read_link(directory.join(".envrc"))?, std::path::Path::new("/etc/passwd"));
    assert_eq!(std::fs::read_dir(&outside)?.count(), 0);
    Ok(())
}

fn no_more_names_stand_in_than_these(caller: &Caller) -> Result<()> {
    let (repository, _) = repository(caller)?;
    let empty = caller.directory("empty")?;
    let table = include_str!("../../../docs/reference/protected-names.md");
    for (directory, own) in [(repository, None), (empty, Some(".git"))] {
        let before = listing(&directory)?;
        let shown = in_workspace(caller, &directory, &[], "ls -A1")?.success()?;
        let stand_ins: Vec<&str> = shown.lines().filter(|name| !before.contains(*name)).collect();
        for name in &stand_ins {
            let bound = STAND_INS.contains(name) && (own.is_some() || *name != "refs");
            ensure!(
                bound || own == Some(name),
                "{name} stands in for nothing that has to be held: {stand_ins:?}"
            );
            let held = |kind: &str| table.contains(&format!("| `{name}{kind}` | always |"));
            ensure!(*name == "refs" || held("") || held("/"), "{name} is not in the table");
        }
        ensure!(!stand_ins.is_empty(), "nothing is held");
        assert_eq!(listing(&directory)?, before);
    }
    Ok(())
}
