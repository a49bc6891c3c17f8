use super::*;
use std::os::unix::fs::PermissionsExt;
use tar::{Builder, Header};

struct Made(Builder<Vec<u8>>);

impl Made {
    fn new() -> Made {
        Made(Builder::new(Vec::new()))
    }

    fn add(mut self, kind: EntryType, name: &str, link: &str, content: &str) -> Made {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        // Past the checks of the builder, which refuses an attacker's names.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_mode(0o6755);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content.as_bytes()).unwrap();
        self
    }

    fn file(self, name: &str, content: &str) -> Made {
        self.add(EntryType::Regular, name, "", content)
    }

    fn link(self, name: &str, target: &str) -> Made {
        self.add(EntryType::Symlink, name, target, "")
    }

    fn unpack(self, to: &Path) -> Result<Vec<LeftOut>, CopyError> {
        unpack(&self.0.into_inner().unwrap()[..], to)
    }
}

#[test]
fn plain_things_arrive_without_dangerous_modes() {
    let place = tempfile::tempdir().unwrap();
    let made = Made::new()
        .add(EntryType::Directory, "./", "", "")
        .add(EntryType::Directory, "a/", "", "")
        .file("./a/x", "text")
        .file("deep/er/y", "made")
        .link("a/l", "../deep/er/y")
        .add(EntryType::Link, "hard", "a/x", "");
    assert_eq!(made.unpack(place.path()).unwrap(), []);
    assert_eq!(std::fs::read_to_string(place.path().join("a/l")).unwrap(), "made");
    assert_eq!(std::fs::read_to_string(place.path().join("hard")).unwrap(), "text");
    let mode = std::fs::metadata(place.path().join("a/x")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[test]
fn names_that_leave_the_directory_are_refused() {
    for name in ["../x", "a/../../x", "/etc/x"] {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let error = Made::new().file(name, "evil").unpack(&inner).unwrap_err();
        assert!(matches!(error, CopyError::Hostile { .. }), "{name}: {error}");
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }
}

#[test]
fn links_that_lead_out_are_left_out_and_never_followed() {
    let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = outside.path().display().to_string();
    let left_out = Made::new()
        .link("absolute", &target)
        .link("up", "../..")
        .link("sub/up", "../../x")
        .link("fine", "sub/none")
        .unpack(place.path())
        .unwrap();
    let names: Vec<&str> = left_out.iter().map(|left| left.name.as_str()).collect();
    assert_eq!(names, ["absolute", "up", "sub/up"]);
    assert!(place.path().join("fine").is_symlink());

    // A link that is here already, as if an earlier copy or another user had planted it.
    std::os::unix::fs::symlink(outside.path(), place.path().join("planted")).unwrap();
    assert!(Made::new().file("planted/x", "evil").unpack(place.path()).is_err());
    std::os::unix::fs::symlink(outside.path().join("y"), place.path().join("z")).unwrap();
    Made::new().file("z", "mine").unpack(place.path()).unwrap();
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert_eq!(std::fs::read_to_string(place.path().join("z")).unwrap(), "mine");
}

#[test]
fn hard_links_reach_only_plain_files_below() {
    let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    std::os::unix::fs::symlink(outside.path(), place.path().join("l")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret"), place.path().join("m")).unwrap();
    for target in ["l/secret", "m", "../secret", "/etc/passwd"] {
        let made = Made::new().add(EntryType::Link, "stolen", target, "");
        assert!(made.unpack(place.path()).is_err(), "{target}");
        assert!(!place.path().join("stolen").exists());
    }
}

#[test]
fn special_files_are_left_out_and_damage_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let made = Made::new().add(EntryType::Fifo, "pipe", "", "").add(EntryType::Char, "device", "", "");
    assert_eq!(made.unpack(place.path()).unwrap().len(), 2);
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    let whole = Made::new().file("x", &"y".repeat(2000)).0.into_inner().unwrap();
    assert!(unpack(&whole[..1000], place.path()).is_err());
}

const DEEPER: &str = "deeper-down/";

/// Names that the old header cannot hold go into one of their own.
fn deep_archive(levels: usize) -> Vec<u8> {
    let mut made = Builder::new(Vec::new());
    let mut name = String::new();
    for _ in 0..levels {
        name.push_str(DEEPER);
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(0o755);
        header.set_size(0);
        made.append_data(&mut header, &name, std::io::empty()).unwrap();
    }
    // On the way back up, one in each directory.
    while name.len() > DEEPER.len() {
        let mut header = Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(1);
        made.append_data(&mut header, format!("{name}file"), &b"x"[..]).unwrap();
        name.truncate(name.len() - DEEPER.len());
    }
    made.into_inner().unwrap()
}

/// Deeper than the kernel takes a path, and each level costs the same.
#[test]
fn a_deep_tree_arrives_step_by_step() {
    let place = tempfile::tempdir().unwrap();
    let before = rustix::fs::open(place.path(), DIRECTORY, Mode::empty()).unwrap();
    assert_eq!(unpack(&deep_archive(400)[..], place.path()).unwrap(), []);
    let (mut current, mut levels, mut files) = (before, 0, 0);
    while let Ok(below) = trail::open_child(&current, OsStr::new("deeper-down")) {
        levels += 1;
        files += usize::from(statat(&below, "file", AtFlags::SYMLINK_NOFOLLOW).is_ok());
        current = below;
    }
    assert_eq!((levels, files), (400, 399));
    // The standard library goes down by recursion.
    assert!(
        std::process::Command::new("rm")
            .arg("-rf")
            .arg(place.path().join("deeper-down"))
            .status()
            .unwrap()
            .success()
    );
}

/// The way up is the way that was gone down: a directory that was moved is gone to anew, from the root.
#[test]
fn a_directory_that_was_moved_meanwhile_is_not_followed_out() {
    let place = tempfile::tempdir().unwrap();
    let root = rustix::fs::open(place.path(), DIRECTORY, Mode::empty()).unwrap();
    let mut trail = Trail::new(root);
    trail.directory(Path::new("a/b/c")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::rename(place.path().join("a/b"), outside.path().join("b")).unwrap();
    let found = trail.directory(Path::new("a/x")).unwrap().try_clone().unwrap();
    mkdirat(&found, "made", Mode::RWXU).unwrap();
    assert!(place.path().join("a/x/made").is_dir());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}
