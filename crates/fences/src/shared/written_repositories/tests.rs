use super::*;
use std::process::{Command, Output};

/// A workspace with a repository, and a file that a planted program makes.
struct Place {
    _directory: tempfile::TempDir,
    top: PathBuf,
    ran: PathBuf,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().canonicalize().unwrap();
        let place = Place { _directory: directory, top: at.join("top"), ran: at.join("ran") };
        place.repository("../top");
        place
    }

    fn run(&self, at: &str, arguments: &[&str]) -> Output {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false", "-C"]);
        git.arg(self.top.join(at)).args(arguments).output().unwrap()
    }

    fn git(&self, at: &str, arguments: &[&str]) -> String {
        let output = self.run(at, arguments);
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// With one commit.
    fn repository(&self, at: &str) {
        std::fs::create_dir_all(self.top.join(at)).unwrap();
        self.git(at, &["init", "-q", "."]);
        std::fs::write(self.top.join(at).join("file"), "x\n").unwrap();
        self.git(at, &["add", "file"]);
        self.git(at, &["commit", "-qm", "first"]);
    }

    /// One in which git runs a program of the work's.
    fn planted(&self, at: &str) {
        self.repository(at);
        let program = format!("touch {}; false", self.ran.display());
        self.git(at, &["config", "core.fsmonitor", &program]);
    }

    /// True if any of the commands that a person would type ran the program.
    fn runs(&self) -> bool {
        for line in [&["status"][..], &["diff"], &["diff", "HEAD"]] {
            self.run(".", line);
        }
        std::fs::remove_file(&self.ran).is_ok()
    }

    fn before(&self, held: &[&str]) -> Before {
        Before::of(&self.top, &[], &held.iter().map(|name| name.to_string()).collect())
    }
}

/// An index with one entry.
fn index_of(mode: u32, path: &str, extensions: &[u8]) -> Vec<u8> {
    let mut entry = vec![0; 40];
    entry[24..28].copy_from_slice(&mode.to_be_bytes());
    entry.extend([7; 20]);
    entry.extend((path.len().min(0xfff) as u16).to_be_bytes());
    entry.extend(path.as_bytes());
    entry.resize((entry.len() / 8 + 1) * 8, 0);
    [b"DIRC\0\0\0\x02\0\0\0\x01", &entry[..], extensions, &[0; 20]].concat()
}

#[test]
fn a_submodule_that_was_made_inside_runs_nothing() {
    let place = Place::new();
    let before = place.before(&[".git/config"]);
    place.planted("sub");
    place.planted("deep/er/still");
    place.git(".", &["add", "-f", "sub", "deep"]);
    assert!(place.runs(), "the control");
    place.git(".", &["commit", "-qm", "with submodules"]);
    before.disarm().unwrap();
    assert!(!place.runs());
    // As long as the commit is there, every checkout brings the entries back.
    place.git(".", &["checkout", "-q", "HEAD~1"]);
    place.git(".", &["checkout", "-q", "-"]);
    assert!(!place.runs());
    assert_eq!(place.git("sub", &["log", "--format=%s"]), "first\n", "its commits stay");
    assert_eq!(place.git("sub", &["status", "--porcelain"]), "");
    let aside = std::fs::read_to_string(place.top.join("sub/.git/config.made-inside")).unwrap();
    assert!(aside.contains("fsmonitor"));
    assert_eq!(place.git(".", &["log", "--format=%s"]), "with submodules\nfirst\n");
}

#[test]
fn repositories_by_other_ways_run_nothing_either() {
    let place = Place::new();
    let before = place.before(&[".git/config"]);
    place.planted("by-file");
    std::fs::rename(place.top.join("by-file/.git"), place.top.join("elsewhere")).unwrap();
    std::fs::write(place.top.join("by-file/.git"), "gitdir: ../elsewhere\n").unwrap();
    place.planted("by-link");
    std::fs::rename(place.top.join("by-link/.git"), place.top.join("linked")).unwrap();
    std::os::unix::fs::symlink("../linked", place.top.join("by-link/.git")).unwrap();
    place.repository("by-commondir");
    place.planted("common");
    std::fs::write(place.top.join("by-commondir/.git/commondir"), "../../common/.git\n").unwrap();
    place.repository("by-worktree-settings");
    place.git("by-worktree-settings", &["config", "extensions.worktreeConfig", "true"]);
    let program = format!("touch {}; false", place.ran.display());
    place.git("by-worktree-settings", &["config", "--worktree", "core.fsmonitor", &program]);
    for name in ["by-file", "by-link", "by-commondir", "by-worktree-settings"] {
        place.git(".", &["add", name]);
        assert!(place.runs(), "the control for {name}");
        place.git(".", &["rm", "-q", "-f", "--cached", name]);
    }
    place.git(".", &["add", "by-file", "by-link", "by-commondir", "by-worktree-settings"]);
    before.disarm().unwrap();
    assert!(!place.runs());
}

#[test]
fn an_index_that_leads_out_of_the_workspace_is_set_aside() {
    for path in ["../outside", "/absolute", "x/../../outside"] {
        let place = Place::new();
        place.planted("../outside");
        let before = place.before(&[".git/config"]);
        let path = path.replace("/absolute", &place.top.with_file_name("outside").display().to_string());
        std::fs::create_dir(place.top.join("x")).unwrap();
        std::fs::write(place.top.join(".git/index"), index_of(0o160_000, &path, b"")).unwrap();
        let control = place.runs();
        std::fs::write(place.top.join(".git/index"), index_of(0o160_000, &path, b"")).unwrap();
        before.disarm().unwrap();
        assert!(!place.runs() && control, "{path}");
        assert!(place.top.join(".git/index.made-inside").exists());
    }
}

#[test]
fn only_an_index_that_git_would_write_is_left() {
    let plain = |index: &[u8]| is_plain_index(index, 20, &|_| None);
    assert!(plain(&index_of(0o100_644, "a/b", b"")) && plain(&index_of(0o120_000, ".gitx/..y", b"")));
    for bad in ["", "..", "a/../b", "/a", "a//b", "a/", ".git/hooks/post-checkout", "a/.GIT/config", "./a"] {
        assert!(!plain(&index_of(0o100_644, bad, b"")), "{bad:?}");
    }
    // Tables by which git would find other entries than these.
    assert!(!plain(&index_of(0o100_644, "a", b"IEOT\0\0\0\x04\0\0\0\x01")));
    assert!(plain(&index_of(0o100_644, "a", b"TREE\0\0\0\x04\0\0\0\x01")));
    assert!(!plain(&index_of(0o100_644, "a", b"TREE\0\0\0\x05\0\0\0\x01")), "it ends behind the file");
    // Git goes by the length in the flags, and would begin the next entry elsewhere.
    let mut shorter = index_of(0o100_644, "abcdefghijkl", b"");
    shorter[12 + 61] = 2;
    assert!(!plain(&shorter));
    let link = [&b"link\0\0\0\x14"[..], &[1; 20]].concat();
    let split = index_of(0o100_644, "a", &link);
    assert!(!plain(&split), "the other file is not there");
    let other =
        |path: &'static str| is_plain_index(&split, 20, &move |_| Some(index_of(0o160_000, path, b"")));
    assert!(other("sub") && !other("../sub"));
}

#[test]
fn what_git_writes_stays_as_it_is() {
    for settings in [
        &["index.version", "2"],
        &["index.version", "4"],
        &["core.splitIndex", "true"],
        &["core.untrackedCache", "true"],
    ] {
        let place = Place::new();
        place.git(".", &["config", settings[0], settings[1]]);
        let before = place.before(&[".git/config", "known/.git"]);
        place.planted("known");
        for number in 0..40 {
            std::fs::write(place.top.join(format!("file {number}")), "x").unwrap();
        }
        place.git(".", &["add", "."]);
        place.git(".", &["update-index", "--refresh"]);
        let staged = place.git(".", &["ls-files", "--stage"]);
        before.disarm().unwrap();
        assert_eq!(place.git(".", &["ls-files", "--stage"]), staged, "{settings:?}");
        assert!(!place.top.join(".git/index.made-inside").exists(), "{settings:?}");
        assert!(place.runs(), "a repository that was read-only inside is the caller's");
    }
}

#[test]
fn git_writes_through_no_link_of_the_works() {
    let place = Place::new();
    let victim = place.top.with_file_name("victim");
    std::fs::write(&victim, "").unwrap();
    std::os::unix::fs::symlink("file", place.top.join(".git/of-the-caller")).unwrap();
    let before = place.before(&[".git/config"]);
    let log = place.top.join(".git/logs/HEAD");
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink(&victim, &log).unwrap();
    place.git(".", &["commit", "-q", "--allow-empty", "-m", "control"]);
    assert!(std::fs::read_to_string(&victim).unwrap().contains("control"), "the control");
    before.disarm().unwrap();
    std::fs::write(&victim, "").unwrap();
    place.git(".", &["commit", "-q", "--allow-empty", "-m", "second"]);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "");
    assert!(place.top.join(".git/of-the-caller").symlink_metadata().is_ok());
}
