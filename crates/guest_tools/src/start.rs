//! The files that were there when the sandbox began: those that the guest itself wrote, above the tree that the disk
//! was cloned from, above the image. It follows the overlay's own rules, on trees that do not change any more.

use super::contents::{self, Found, judge};
use super::manifest::{OPAQUE, is_opaque, is_whiteout};
use super::walk::for_each_name;
use super::{Reach, beneath, node};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::{Content, Node, NodeType};
use rustix::io::Errno;
use serde_bytes::ByteBuf;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use tar::{Entry, EntryType};

pub struct Start<'a> {
    reach: &'a Reach<'a>,
    clone: Clone<'a>,
    largest: u64,
    /// The directories on the way to the path that was last looked for.
    above: RefCell<Vec<(Vec<u8>, Parted)>>,
}

/// Which of the layers have a part of a directory.
#[derive(Clone, Copy)]
struct Parted {
    clone: bool,
    image: bool,
}

enum Step {
    Nothing,
    Directory(Parted),
    Leaf(Box<Found>),
}

/// The tree that the disk was cloned from.
enum Clone<'a> {
    Nothing,
    Tree(BorrowedFd<'a>),
    /// The part of it that was asked for, by path.
    Archive(BTreeMap<Vec<u8>, Layered>),
}

/// The entry of one layer at a path.
enum Layered {
    Hidden,
    Directory { opaque: bool },
    Leaf(Box<Found>),
}

/// The entry of all layers together at a path.
enum Seen {
    Nothing,
    /// Which of the layers have a part of it.
    Directory {
        clone: bool,
        image: bool,
    },
    Leaf(Box<Found>),
}

impl<'a> Start<'a> {
    /// `archived`: the tree that the disk was cloned from comes as an archive; only entries at or around these paths
    /// are kept.
    pub fn open(
        reach: &'a Reach<'a>,
        archived: Option<(&mut File, &BTreeSet<Vec<u8>>)>,
        largest: u64,
    ) -> Outcome<Start<'a>> {
        let clone = match (archived, reach.start) {
            (Some((input, paths)), _) => Clone::Archive(read_archive(input, paths, largest)?),
            (None, Some(tree)) => Clone::Tree(tree),
            (None, None) => Clone::Nothing,
        };
        Ok(Start { reach, clone, largest, above: RefCell::default() })
    }

    /// Every file and link at these paths, and below those that are directories, at most `most` of these.
    pub fn each(
        &self,
        paths: &BTreeSet<Vec<u8>>,
        most: usize,
        tell: &mut impl FnMut(Found) -> Outcome<()>,
    ) -> Outcome<()> {
        let mut waiting: Vec<Vec<u8>> = paths.iter().rev().cloned().collect();
        let mut told = BTreeSet::new();
        let mut below = 0;
        while let Some(path) = waiting.pop() {
            match self.see(&path)? {
                Seen::Nothing => {}
                Seen::Leaf(found) => {
                    if told.insert(path) {
                        tell(*found)?;
                    }
                }
                Seen::Directory { clone, image } => {
                    for name in self.names(&path, clone, image)?.into_iter().rev() {
                        if below >= most {
                            break;
                        }
                        below += 1;
                        waiting.push([path.as_slice(), b"/", &name].concat());
                    }
                }
            }
        }
        Ok(())
    }

    fn see(&self, path: &[u8]) -> Outcome<Seen> {
        if let Some(built) = self.reach.built.get(path) {
            return Ok(Seen::Leaf(Box::new(self.built(path, built.mode, &built.content))));
        }
        let parts = beneath::parts(path)?;
        let mut above = self.above.borrow_mut();
        // Paths come in order: most have the directories of the one before.
        let same = above.iter().zip(&parts).take_while(|((name, _), part)| name == *part).count();
        above.truncate(same.min(parts.len().saturating_sub(1)));
        let mut parted = above
            .last()
            .map_or(Parted { clone: true, image: self.reach.image.is_some() }, |(_, parted)| *parted);
        for depth in above.len() + 1..=parts.len() {
            let here = parts[..depth].join(&b'/');
            match self.within(&here, parted)? {
                Step::Directory(next) => parted = next,
                Step::Leaf(found) if depth == parts.len() => return Ok(Seen::Leaf(found)),
                _ => return Ok(Seen::Nothing),
            }
            above.push((parts[depth - 1].to_vec(), parted));
        }
        let Parted { clone, image } = parted;
        Ok(Seen::Directory { clone: clone && !matches!(self.clone, Clone::Nothing), image })
    }

    /// Looks one level down, in the layers that have a part of the parent.
    fn within(&self, here: &[u8], Parted { clone, image }: Parted) -> Outcome<Step> {
        let in_clone = if clone { self.in_clone(here)? } else { None };
        let (clone, found) = match in_clone {
            Some(Layered::Directory { opaque }) => {
                let image =
                    image && !opaque && matches!(self.in_image(here)?, Some(Layered::Directory { .. }));
                return Ok(Step::Directory(Parted { clone, image }));
            }
            Some(found) => (clone, Some(found)),
            None if image => (false, self.in_image(here)?),
            None => (false, None),
        };
        Ok(match found {
            Some(Layered::Directory { .. }) => Step::Directory(Parted { clone, image }),
            Some(Layered::Leaf(found)) => Step::Leaf(found),
            _ => Step::Nothing,
        })
    }

    fn built(&self, path: &[u8], mode: u32, content: &[u8]) -> Found {
        let node = Node {
            path: ByteBuf::from(path),
            kind: NodeType::File,
            size: content.len() as u64,
            mode,
            uid: 0,
            gid: 0,
            modified_ns: 0,
            target: None,
            attributes: Vec::new(),
            end: None,
        };
        let (content, bytes) = match content.len() as u64 > self.largest {
            true => (Content::TooLarge, Vec::new()),
            false => judge(content.to_vec()),
        };
        Found { node, content, bytes }
    }

    fn in_image(&self, path: &[u8]) -> Outcome<Option<Layered>> {
        self.reach.image.map_or(Ok(None), |tree| self.in_tree(tree, path))
    }

    fn in_clone(&self, path: &[u8]) -> Outcome<Option<Layered>> {
        match &self.clone {
            Clone::Nothing => Ok(None),
            Clone::Tree(tree) => self.in_tree(*tree, path),
            Clone::Archive(entries) => Ok(entries.get(path).map(|entry| match entry {
                Layered::Hidden => Layered::Hidden,
                Layered::Directory { opaque } => Layered::Directory { opaque: *opaque },
                Layered::Leaf(found) => Layered::Leaf(Box::new(Found {
                    node: found.node.clone(),
                    content: found.content,
                    bytes: found.bytes.clone(),
                })),
            })),
        }
    }

    fn in_tree(&self, tree: BorrowedFd<'_>, path: &[u8]) -> Outcome<Option<Layered>> {
        let Some((directory, name, found)) = contents::look(tree, path)? else { return Ok(None) };
        if is_whiteout(&found) {
            return Ok(Some(Layered::Hidden));
        }
        if node::kind(&found) == NodeType::Directory {
            return Ok(Some(Layered::Directory { opaque: is_opaque(&directory, &name) }));
        }
        let leaf = contents::at(tree, path, self.largest, None)?;
        Ok(leaf.map(|found| Layered::Leaf(Box::new(found))))
    }

    fn names(&self, path: &[u8], clone: bool, image: bool) -> Outcome<BTreeSet<Vec<u8>>> {
        let mut names = BTreeSet::new();
        match &self.clone {
            Clone::Tree(tree) if clone => names_in(*tree, path, &mut names)?,
            Clone::Archive(entries) if clone => {
                let prefix = [path, b"/"].concat();
                let below = entries.range(prefix.clone()..).take_while(|(name, _)| name.starts_with(&prefix));
                let direct = below.filter_map(|(name, _)| name.get(prefix.len()..));
                names.extend(direct.filter(|name| !name.contains(&b'/')).map(<[u8]>::to_vec));
            }
            _ => {}
        }
        if let Some(tree) = self.reach.image.filter(|_| image) {
            names_in(tree, path, &mut names)?;
        }
        Ok(names)
    }
}

fn names_in(tree: BorrowedFd<'_>, path: &[u8], names: &mut BTreeSet<Vec<u8>>) -> Outcome<()> {
    let step = || format!("list {}", super::shown(path));
    let directory = beneath::open_directory(tree, &beneath::parts(path)?, false).during(step)?;
    for_each_name(&directory, |name| {
        names.insert(name.to_vec());
    })
    .during(step)
}

/// Reads the entries at these paths, above and below them, and skips the rest.
fn read_archive(
    input: &mut File,
    paths: &BTreeSet<Vec<u8>>,
    largest: u64,
) -> Outcome<BTreeMap<Vec<u8>, Layered>> {
    let below = |path: &[u8], above: &[u8]| {
        path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    let damaged = |error: std::io::Error| Failure {
        step: format!("the archive is damaged: {error}"),
        errno: Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
    };
    let mut kept = BTreeMap::new();
    // Several names of a file have its content at the first.
    let mut links = Vec::new();
    let mut archive = tar::Archive::new(&*input);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = beneath::parts(&entry.path_bytes())?.join(&b'/');
        if entry.header().entry_type() == EntryType::Link {
            if paths.iter().any(|wanted| below(&path, wanted)) {
                links.push((path, entry.link_name_bytes().map(|name| name.into_owned()).unwrap_or_default()));
            }
            continue;
        }
        if !paths.iter().any(|wanted| below(&path, wanted) || below(wanted, &path)) {
            continue;
        }
        if let Some(layered) = archived(&path, &mut entry, largest).map_err(damaged)? {
            kept.insert(path, layered);
        }
    }
    for (path, target) in links {
        let target = beneath::parts(&target)?.join(&b'/');
        let found = match kept.get(&target) {
            Some(Layered::Leaf(first)) => Found {
                node: Node { path: ByteBuf::from(path.clone()), ..first.node.clone() },
                content: first.content,
                bytes: first.bytes.clone(),
            },
            // Its first name was not asked for, and was skipped.
            _ => Found {
                node: plain(&path, NodeType::File, 0, 0o644),
                content: Content::None,
                bytes: Vec::new(),
            },
        };
        kept.insert(path, Layered::Leaf(Box::new(found)));
    }
    let _ = std::io::copy(&mut &*input, &mut std::io::sink());
    Ok(kept)
}

fn archived(path: &[u8], entry: &mut Entry<'_, impl Read>, largest: u64) -> std::io::Result<Option<Layered>> {
    let mode = entry.header().mode()? & 0o7777;
    let leaf = |node: Node, content, bytes| Some(Layered::Leaf(Box::new(Found { node, content, bytes })));
    let (mut opaque, mut holes) = (false, false);
    for extension in entry.pax_extensions()?.into_iter().flatten() {
        let extension = extension?;
        let key = extension.key().unwrap_or_default();
        opaque |= key.strip_prefix("SCHILY.xattr.") == Some(OPAQUE);
        holes |= key == paddock_protocol::EXTENTS;
    }
    Ok(match entry.header().entry_type() {
        EntryType::Directory => Some(Layered::Directory { opaque }),
        EntryType::Char => Some(Layered::Hidden),
        EntryType::Symlink => {
            let target = entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
            let node = Node {
                target: Some(ByteBuf::from(target.clone())),
                ..plain(path, NodeType::Link, target.len() as u64, mode)
            };
            leaf(node, Content::Given, target)
        }
        EntryType::Regular | EntryType::Continuous => {
            let size = entry.size();
            let node = plain(path, NodeType::File, size, mode);
            if holes || size > largest {
                // Holes read as zeroes: it is no text anyway.
                return Ok(leaf(node, if holes { Content::Binary } else { Content::TooLarge }, Vec::new()));
            }
            let mut bytes = Vec::new();
            entry.take(largest).read_to_end(&mut bytes)?;
            let (content, bytes) = judge(bytes);
            leaf(node, content, bytes)
        }
        _ => leaf(plain(path, NodeType::Other, 0, mode), Content::None, Vec::new()),
    })
}

fn plain(path: &[u8], kind: NodeType, size: u64, mode: u32) -> Node {
    Node {
        path: ByteBuf::from(path),
        kind,
        size,
        mode,
        uid: 0,
        gid: 0,
        modified_ns: 0,
        target: None,
        attributes: Vec::new(),
        end: None,
    }
}
