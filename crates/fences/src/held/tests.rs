use super::*;
use std::process::Command;

/// A workspace with a real repository; its path has no links.
struct Place {
    path: PathBuf,
    _directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let place = Place { path, _directory: directory };
        place.git(&["init", "-q", "."]);
        place
    }

    fn git(&self, arguments: &[&str]) {
        let output = Command::new("git").arg("-C").arg(&self.path).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn held(&self) -> Vec<String> {
        let found = find_in(&self.path, &[]);
        assert!(found.notes.is_empty(), "{:?}", found.notes);
        found.names.iter().map(|name| name.path.display().to_string()).collect()
    }

    fn holds(&self, name: &str) {
        assert!(self.held().iter().any(|held| held == name), "{name} is not in {:?}", self.held());
    }
}

/// Some thousand inputs that look like settings or an index, the same ones every time.
#[test]
fn no_input_makes_the_parsers_panic() {
    let mut seed = 7u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    const PIECES: [&[u8]; 14] = [
        b"[core]\n",
        b"hooksPath",
        b" = ",
        b"\\",
        b"\"",
        b"\n",
        b"#",
        b"[",
        b"]",
        b"!sh ",
        b"DIRC",
        b"\0\0\0\x04",
        b"\xff\xfe",
        b"\0\0\0\x02",
    ];
    for _ in 0..5000 {
        let count = random(40);
        let input: Vec<u8> = (0..count).flat_map(|_| PIECES[random(PIECES.len())].to_vec()).collect();
        fuzz_git_settings(&input);
        let index: Vec<u8> = b"DIRC\0\0\0\x04\0\0\0\x05"
            .iter()
            .copied()
            .chain((0..random(300)).map(|_| random(256) as u8))
            .collect();
        fuzz_git_settings(&index);
    }
}

#[test]
fn a_plain_repository_needs_nothing_more() {
    assert!(Place::new().held().is_empty());
}

#[test]
fn hooks_are_held_wherever_the_settings_put_them() {
    let place = Place::new();
    place.git(&["config", "core.hooksPath", "tools/hooks"]);
    place.holds("tools/hooks");
    place.git(&["config", "core.hooksPath", &place.path.join("absolute").display().to_string()]);
    place.holds("absolute");
    place.git(&["config", "core.hooksPath", "."]);
    place.holds("pre-commit");
    place.holds("post-checkout");
}

#[test]
fn includes_are_followed_whatever_their_condition() {
    let place = Place::new();
    place.git(&["config", "include.path", "../.gitsettings"]);
    place.git(&["config", "includeIf.onbranch:never.path", "../more/settings"]);
    place.write("more/settings", "[include]\n\tpath = third\n[core]\n\tfsmonitor = ./tools/watch --quick\n");
    for name in [".gitsettings", "more/settings", "more/third", "tools/watch"] {
        place.holds(name);
    }
    // Settings of one working tree, even if they are not enabled.
    place.write(".git/config.worktree", "[core]\n\thooksPath = of-this-tree\n");
    place.holds("of-this-tree");
}

#[test]
fn programs_and_the_files_of_their_arguments_are_held() {
    let place = Place::new();
    place.write("scripts/smudge.py", "");
    place.write("src/main", "");
    place.git(&["config", "filter.x.smudge", "python3 scripts/smudge.py %f"]);
    place.git(&["config", "core.pager", "less -R"]);
    place.git(&["config", "alias.lint", "!bin/lint --all"]);
    place.git(&["config", "alias.other", "log src/main"]);
    place.git(&["config", "remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"]);
    assert_eq!(place.held(), ["bin/lint", "scripts/smudge.py"]);
}

#[test]
fn links_among_hooks_and_tools_that_hooks_name() {
    let place = Place::new();
    place.write("scripts/check.sh", "");
    std::os::unix::fs::symlink("../../scripts/check.sh", place.path.join(".git/hooks/pre-commit")).unwrap();
    place.write(".git/hooks/pre-push", "#!/bin/sh\nexec lefthook run pre-push\n");
    place.holds("scripts/check.sh");
    place.holds("lefthook-local.yml");
    assert!(!place.held().contains(&".overcommit.yml".to_string()));
}

#[test]
fn a_submodule_that_was_never_fetched_cannot_become_a_repository() {
    let place = Place::new();
    place.write(".gitmodules", "[submodule \"a\"]\n\tpath = libs/a\n\turl = x\n");
    place.git(&[
        "update-index",
        "--add",
        "--cacheinfo",
        "160000,1234567890123456789012345678901234567890,libs/b",
    ]);
    place.write("file", "x");
    place.git(&["add", "file"]);
    place.holds("libs/a");
    place.holds("libs/b");
    place.git(&["update-index", "--index-version", "4"]);
    place.holds("libs/b");
    place.git(&["init", "-q", "libs/b"]);
    place.holds("libs/b/.git");
}

#[test]
fn names_below_are_held_where_they_exist() {
    let place = Place::new();
    for name in [
        "pkg/.vscode/tasks.json",
        "pkg/deep/.envrc",
        "pkg/.mcp.json",
        "node_modules/x/.npmrc",
        "pkg/.github/x",
    ] {
        place.write(name, "");
    }
    place.git(&["init", "-q", "vendor/lib"]);
    place.git(&["-C", "vendor/lib", "config", "core.hooksPath", "hooks"]);
    place.git(&["init", "-q", "--bare", "fixtures/bare.git"]);
    let expected = [
        "fixtures/bare.git/config",
        "fixtures/bare.git/hooks",
        "pkg/.mcp.json",
        "pkg/.vscode",
        "pkg/deep/.envrc",
        "vendor/lib/.git",
        "vendor/lib/hooks",
    ];
    assert_eq!(place.held(), expected);
    let given_up = find_in(&place.path, &[".vscode".into(), "pkg/.mcp.json".into()]).names;
    assert!(!given_up.iter().any(|name| name.path.ends_with(".vscode") || name.path.ends_with(".mcp.json")));
    assert!(names_found(&place.path, Path::new("vendor/lib/hooks")));
}

#[test]
fn a_directory_without_a_repository_does_not_become_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let names = |path: &Path| find_in(path, &[]).names.into_iter().map(|name| name.path).collect::<Vec<_>>();
    assert_eq!(names(&path), [PathBuf::from("refs")]);
    std::fs::write(path.join("refs"), "").unwrap();
    assert_eq!(names(&path), [PathBuf::from("refs")], "the stand-in of another sandbox");
    std::fs::remove_file(path.join("refs")).unwrap();
    std::fs::create_dir(path.join("refs")).unwrap();
    assert_eq!(names(&path), [PathBuf::from("objects")]);
    assert!(find_in(&path, &[".git".into()]).names.is_empty());
}

#[test]
fn a_repository_that_a_file_leads_to_is_held() {
    let place = Place::new();
    std::fs::create_dir(place.path.join("store")).unwrap();
    place.git(&["init", "-q", "--separate-git-dir", "store/sub.git", "sub"]);
    place.holds("store/sub.git");
    place.holds("sub/.git");
}

#[test]
fn submodules_of_a_split_index_are_held() {
    let place = Place::new();
    let entry = "160000,1234567890123456789012345678901234567890,libs/absent";
    place.git(&["update-index", "--add", "--cacheinfo", entry]);
    place.git(&["update-index", "--split-index"]);
    place.holds("libs/absent");
}
