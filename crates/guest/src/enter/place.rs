//! Finds the place of a mount without following a link that the work has planted.
//!
//! A disk outlives the processes of its sandbox. The work may leave a link where a volume is mounted, or above it, and the next time
//! the volume would appear wherever the link leads. Links of the image and of the plan are followed, as they always were. A link
//! in the disk's own layer is the work's: it is moved aside, and the place is made anew.

use crate::failure::{During, Outcome};
use crate::trees::Trees;
use paddock_protocol::NodeKind;
use rustix::fs::{
    FileType, Mode, OFlags, RenameFlags, ResolveFlags, fstat, mkdirat, openat, openat2, readlinkat,
    renameat_with,
};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The number of links that the kernel follows.
const MOST_LINKS: usize = 40;
const MOST_NAMES: usize = 1000;

/// Made where it is missing, with its parents. `None` if nothing tells the owner of a link: the disk has had no life
/// before.
pub fn found(root: &OwnedFd, path: &str, kind: NodeKind, trees: &Trees) -> Outcome<Option<OwnedFd>> {
    let Some(layer) = &trees.layer else { return Ok(None) };
    Walk { root, layer, trees }.to(path.as_bytes(), kind).map(Some).during(|| format!("make {path}"))
}

struct Walk<'a> {
    root: &'a OwnedFd,
    layer: &'a OwnedFd,
    trees: &'a Trees,
}

impl Walk<'_> {
    fn to(&self, path: &[u8], kind: NodeKind) -> rustix::io::Result<OwnedFd> {
        let mut rest: Vec<Vec<u8>> = backwards(path).collect();
        let mut way: Vec<(Vec<u8>, OwnedFd)> = Vec::new();
        let mut followed = 0;
        while let Some(part) = rest.pop() {
            match part.as_slice() {
                b"" | b"." => continue,
                b".." => {
                    way.pop();
                    continue;
                }
                _ => {}
            }
            let here = way.last().map_or(self.root, |(_, directory)| directory);
            let kind = if rest.is_empty() { kind } else { NodeKind::Directory };
            let mut node = open_or_make(here, &part, kind)?;
            if is_link(&node)? {
                let names = way.iter().map(|(name, _)| name.as_slice()).chain([part.as_slice()]);
                let full = names.collect::<Vec<_>>().join(&b'/');
                if !self.is_of_the_work(&full) {
                    followed += 1;
                    if followed > MOST_LINKS {
                        return Err(Errno::LOOP);
                    }
                    let target = readlinkat(&node, "", Vec::new())?.into_bytes();
                    if target.starts_with(b"/") {
                        way.clear();
                    }
                    rest.extend(backwards(&target));
                    continue;
                }
                move_aside(here, &part)?;
                node = open_or_make(here, &part, kind)?;
            }
            way.push((part, node));
        }
        way.pop().map_or_else(|| open(self.root, b"."), |(_, node)| Ok(node))
    }

    fn is_of_the_work(&self, path: &[u8]) -> bool {
        if self.trees.links.contains(path) {
            return false;
        }
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat2(self.layer, path, flags, Mode::empty(), how).is_ok_and(|node| is_link(&node) == Ok(true))
    }
}

fn backwards(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    path.rsplit(|byte| *byte == b'/').map(<[u8]>::to_vec)
}

fn open(directory: &OwnedFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn open_or_make(directory: &OwnedFd, name: &[u8], kind: NodeKind) -> rustix::io::Result<OwnedFd> {
    match open(directory, name) {
        Err(Errno::NOENT) => {}
        found => return found,
    }
    match kind {
        NodeKind::Directory => mkdirat(directory, name, Mode::from_raw_mode(0o755))?,
        NodeKind::File => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(directory, name, flags, Mode::from_raw_mode(0o644))?;
        }
    }
    open(directory, name)
}

fn is_link(node: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(node)?.st_mode) == FileType::Symlink)
}

/// Renames the work's file, so that it is not lost.
fn move_aside(directory: &OwnedFd, name: &[u8]) -> rustix::io::Result<()> {
    for number in 0..MOST_NAMES {
        let other = paddock_guest_system::names::name_aside(name, number);
        match renameat_with(directory, name, directory, other, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            moved => return moved,
        }
    }
    Err(Errno::EXIST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::{Path, PathBuf};

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("paddock-place-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(path.join("etc")).unwrap();
            Scratch(path)
        }

        fn open(&self) -> OwnedFd {
            std::fs::File::open(&self.0).unwrap().into()
        }

        fn place(&self, trees: &Trees, path: &str) -> u64 {
            let found = found(&self.open(), path, NodeKind::Directory, trees).unwrap().unwrap();
            fstat(&found).unwrap().st_ino
        }

        fn inode(&self, path: &str) -> u64 {
            std::fs::symlink_metadata(self.0.join(path)).unwrap().ino()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn trees(layer: &Scratch, links: &[&str]) -> Trees {
        let links = links.iter().map(|link| link.as_bytes().to_vec()).collect();
        Trees { layer: Some(layer.open()), links, ..Trees::default() }
    }

    #[test]
    fn a_link_of_the_work_is_moved_aside_wherever_it_stands() {
        let root = Scratch::new("work");
        let trees = trees(&root, &[]);
        for (path, link) in [("/data/v", "data"), ("/data2/v", "data2/v")] {
            std::fs::create_dir_all(root.0.join(link).parent().unwrap()).unwrap();
            symlink("/etc", root.0.join(link)).unwrap();
            let place = root.place(&trees, path);
            assert_eq!(place, root.inode(path.trim_start_matches('/')));
            assert!(root.0.join(path.trim_start_matches('/')).symlink_metadata().unwrap().is_dir());
            let aside = root.0.join(format!("{link}.moved-aside-0"));
            assert_eq!(std::fs::read_link(aside).unwrap(), Path::new("/etc"));
        }
        assert_eq!(std::fs::read_dir(root.0.join("etc")).unwrap().count(), 0);
        // An existing directory is used.
        assert_eq!(root.place(&trees, "/data/v"), root.inode("data/v"));
    }

    #[test]
    fn links_of_the_image_and_of_the_plan_are_followed_within_the_root() {
        let (root, empty) = (Scratch::new("image"), Scratch::new("layer"));
        symlink("../../etc", root.0.join("run")).unwrap();
        symlink("/etc/deep", root.0.join("abs")).unwrap();
        let of_image = trees(&empty, &[]);
        assert_eq!(root.place(&of_image, "/run/v"), root.inode("etc/v"));
        assert_eq!(root.place(&of_image, "/abs/w"), root.inode("etc/deep/w"));
        let of_plan = trees(&root, &["run"]);
        assert_eq!(root.place(&of_plan, "/run/x"), root.inode("etc/x"));
        symlink("loop", root.0.join("loop")).unwrap();
        assert!(found(&root.open(), "/loop/x", NodeKind::Directory, &of_image).is_err());
    }
}
