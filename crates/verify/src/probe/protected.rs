//! A5 to A9: names in the workspace that nothing inside may change or make.

use super::system::{fact, workspace};
use crate::attack::{Attack, Finding, Outcome};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};

pub const ATTACKS: &[Attack] = &[
    Attack::plain("A5-rename-ancestor", "mv of a protected path's ancestor", rename_ancestor),
    Attack::text("A5-rename-protected", "mv of the protected path itself", rename_away, ".git"),
    Attack::text("A5-remove-protected", "removal of a protected file", remove, ".git/config"),
    Attack::text("A6-write-protected", "writing .git/config", append, ".git/config"),
    Attack::text("A6-create-hook", "a new .git/hooks/pre-commit", create_deep, ".git/hooks/pre-commit"),
    Attack::text("A6-create-asked", "a --protect path not there yet", create_deep, "later/missing/file"),
    Attack::text("A6-create-envrc", "a new .envrc", create_deep, ".envrc"),
    Attack::text("A6-create-tasks", "a new .vscode/tasks.json", create_deep, ".vscode/tasks.json"),
    Attack::text("A6-create-codex", "a new .codex/config.toml", create_deep, ".codex/config.toml"),
    Attack::text("A6-create-bare", "the refs of a bare repository", create_deep, "refs"),
    Attack::text(
        "A6-create-hooks-path",
        "a hook where core.hooksPath says",
        create_deep,
        "tools/hooks/pre-commit",
    ),
    Attack::text(
        "A6-create-included",
        "settings that .git/config includes",
        create_deep,
        "included-settings",
    ),
    Attack::text("A6-create-opencode", "a new opencode.json", create_deep, "opencode.json"),
    Attack::text("A6-write-below", "writing a .mcp.json in a directory below", append, "below/.mcp.json"),
    Attack::text("A6-symlink-to-name", "a symlink in a protected name's place", symlink_as, ".mcp.json"),
    Attack::text("A6-rename-to-name", "a file renamed to a protected name", rename_to, ".npmrc"),
    Attack::text(
        "A6-directory-as-name",
        "a directory renamed to a protected name",
        rename_directory_to,
        ".cursor",
    ),
    Attack::text("A6-write-asked", "writing a --protect path", append, "deep/area/keys"),
    Attack::plain("A8-case-variant", ".GIT for .git where names fold case", case_variant),
    Attack::plain("A9-hardlink-protected", "a second name for .git/config", hardlink_protected),
    Attack::plain("A9-hardlink-host", "a second name for a --read file", hardlink_host),
];

fn rename_ancestor() -> Finding {
    let (from, to) = (workspace("deep"), workspace("moved"));
    let renamed = fs::rename(&from, &to);
    if renamed.is_ok() {
        let again = fs::create_dir_all(workspace("deep/area"))
            .and_then(|()| fs::write(workspace("deep/area/keys"), "forged"));
        let _ = fs::remove_dir_all(&from);
        let _ = fs::rename(&to, &from);
        return Finding::of(again, "renamed, and a new path in its place");
    }
    Finding::of(renamed, "rename of the ancestor")
}

fn rename_away(name: &'static str) -> Finding {
    let (from, to) = (workspace(name), workspace("away"));
    let finding = Finding::of(fs::rename(&from, &to), name);
    let _ = fs::rename(to, from);
    finding
}

fn remove(name: &'static str) -> Finding {
    let kept = fs::read(workspace(name)).unwrap_or_default();
    let finding = Finding::of(fs::remove_file(workspace(name)), name);
    if finding.outcome == Outcome::Done {
        let _ = fs::write(workspace(name), kept);
    }
    finding
}

fn append(name: &'static str) -> Finding {
    let written =
        OpenOptions::new().append(true).open(workspace(name)).and_then(|mut f| f.write_all(b"#forged\n"));
    Finding::of(written, name)
}

fn create_deep(name: &'static str) -> Finding {
    let path = workspace(name);
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent).to_string();
    Finding::of(fs::create_dir_all(parent).and_then(|()| fs::write(&path, "forged")), name)
}

fn symlink_as(name: &'static str) -> Finding {
    let _ = fs::write(workspace("forged"), "forged");
    match symlink("forged", workspace(name)) {
        // The fence's own stand-in holds the name, which A6-create tries to write.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Finding::new(Outcome::Denied, format!("{name}: {error}"))
        }
        result => Finding::of(result, name),
    }
}

fn rename_to(name: &'static str) -> Finding {
    let _ = fs::write(workspace("forged-file"), "forged");
    Finding::of(fs::rename(workspace("forged-file"), workspace(name)), name)
}

fn rename_directory_to(name: &'static str) -> Finding {
    let _ = fs::create_dir(workspace("forged-directory"));
    Finding::of(fs::rename(workspace("forged-directory"), workspace(name)), name)
}

fn case_variant() -> Finding {
    let _ = fs::create_dir(workspace(".GIT"));
    match (fs::metadata(workspace(".git")), fs::metadata(workspace(".GIT"))) {
        (Ok(real), Ok(variant)) if real.ino() == variant.ino() => {
            Finding::of(fs::write(workspace(".GIT/config"), "forged"), ".GIT is .git")
        }
        _ => Finding::new(Outcome::Hidden, ".GIT is not .git on this file system"),
    }
}

fn hardlink_protected() -> Finding {
    let second = workspace("second-name");
    let linked = fs::hard_link(workspace(".git/config"), &second)
        .and_then(|()| OpenOptions::new().append(true).open(&second));
    let _ = fs::remove_file(second);
    Finding::of(linked, "link and open for writing")
}

fn hardlink_host() -> Finding {
    let second = workspace("second-host-name");
    let linked =
        fs::hard_link(fact("readonly"), &second).and_then(|()| OpenOptions::new().append(true).open(&second));
    let _ = fs::remove_file(second);
    Finding::of(linked, "link and open for writing")
}
