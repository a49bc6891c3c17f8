//! What of an interpreter's files goes along: its streams become the new sandbox's, files and directories are opened anew in
//! that sandbox's own root, and what leads elsewhere is closed. What cannot be told apart from a way out holds all of it back.

use super::as_work::HostIds;
use super::idle::copy_of;
use super::tracee::host;
use crate::backend::CarryError;
use crate::process::create::Streams;
use paddock_protocol::ANCHORED;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Error;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// More would not fit into one message.
const MOST: usize = 200;
/// A file without a name is copied if it is no larger.
const LARGEST_COPY: u64 = 64 << 20;
/// null, zero, full, random, urandom: the same in every sandbox.
const DEVICES: [(u32, u32); 5] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9)];

pub struct Belongings {
    /// By the number that it has in the interpreter, and whether a program that is executed loses it.
    pub kept: Vec<(i32, bool, OwnedFd)>,
    /// Where it stands.
    pub directory: OwnedFd,
    /// What was not kept, in words.
    pub closed: Vec<String>,
}

/// An open file of the interpreter's.
struct Open {
    number: i32,
    link: String,
    found: Stat,
    /// As it was opened, and where it stands in it.
    flags: OFlags,
    position: u64,
}

/// Where the interpreter comes from and goes to.
pub struct Between<'a> {
    pub pid: i32,
    /// The guest of the sandbox that it goes to, by the host's number.
    pub to: u32,
    pub streams: &'a Streams,
    /// The pipes of its streams, by their inodes, and the number of its control stream.
    pub pipes: (u64, u64),
    pub control: i32,
    /// Of the work there, by whose rights files are opened.
    pub work: HostIds,
}

impl Between<'_> {
    pub fn collect(&self) -> Result<Belongings, CarryError> {
        let root = File::open(format!("/proc/{}/root", self.to))
            .map_err(|source| host("open the root of the copy's sandbox", source))?;
        let opened = self.opened()?;
        let mut kept: Vec<(i32, bool, OwnedFd)> = Vec::new();
        let mut closed = Vec::new();
        for (place, open) in opened.iter().enumerate() {
            let twin = opened[..place].iter().find(|other| self.is_same(other, open));
            let twin = twin.and_then(|twin| kept.iter().find(|(number, ..)| *number == twin.number));
            let copy = match twin {
                Some((_, _, twin)) => Some(clone(twin.as_fd())?),
                None => self.another(open, &opened, &root)?,
            };
            match copy {
                Some(copy) => kept.push((open.number, open.flags.contains(OFlags::CLOEXEC), copy)),
                None => closed.push(format!("descriptor {} ({})", open.number, shown(&open.link))),
            }
        }
        let link = std::fs::read_link(format!("/proc/{}/cwd", self.pid));
        let link = link.map_err(|source| host("ask where the interpreter stands", source))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = self.open_below(&root, &link.display().to_string(), flags).map_err(|error| {
            CarryError::Unable(format!("it stands in a directory that the fork lacks: {error}"))
        })?;
        Ok(Belongings { kept, directory, closed })
    }

    fn opened(&self) -> Result<Vec<Open>, CarryError> {
        let failed = |source| host("list the files of the interpreter", source);
        let mut opened = Vec::new();
        for entry in std::fs::read_dir(format!("/proc/{}/fd", self.pid)).map_err(failed)? {
            let Some(number) = entry.map_err(failed)?.file_name().to_str().and_then(|name| name.parse().ok())
            else {
                continue;
            };
            opened.push(Open::of(self.pid, number).map_err(failed)?);
            if opened.len() > MOST {
                return Err(CarryError::Unable(format!("it has more than {MOST} files open")));
            }
        }
        opened.sort_by_key(|open| open.number);
        Ok(opened)
    }

    /// Whether two numbers stand for one opened file.
    fn is_same(&self, one: &Open, other: &Open) -> bool {
        const FILE: i32 = 0;
        if one.link != other.link {
            return false;
        }
        // SAFETY: numbers only.
        unsafe { libc::syscall(libc::SYS_kcmp, self.pid, self.pid, FILE, one.number, other.number) == 0 }
    }

    /// What stands for it in the new sandbox; `None` where it leads out of the old one.
    fn another(&self, open: &Open, all: &[Open], root: &File) -> Result<Option<OwnedFd>, CarryError> {
        let unable = |why: &str| {
            let what = format!("descriptor {} ({})", open.number, shown(&open.link));
            Err(CarryError::Unable(format!("it has {what} open: {why}")))
        };
        match FileType::from_raw_mode(open.found.st_mode) {
            FileType::Socket if open.number == self.control => clone(self.streams.control.as_fd()).map(Some),
            FileType::Socket => Ok(None),
            FileType::Fifo if open.found.st_ino == self.pipes.0 => {
                clone(self.streams.stdout.as_fd()).map(Some)
            }
            FileType::Fifo if open.found.st_ino == self.pipes.1 => {
                clone(self.streams.stderr.as_fd()).map(Some)
            }
            FileType::Fifo => {
                let ends = all.iter().filter(|other| other.found.st_ino == open.found.st_ino);
                let mut modes: Vec<u32> = ends.map(|end| (end.flags & OFlags::ACCMODE).bits()).collect();
                modes.dedup();
                match modes.len() {
                    1 => Ok(None),
                    _ => unable("both ends of a pipe are its own"),
                }
            }
            FileType::CharacterDevice => {
                let device = (rustix::fs::major(open.found.st_rdev), rustix::fs::minor(open.found.st_rdev));
                if !DEVICES.contains(&device) {
                    return unable("a device that the fork has no other of");
                }
                self.reopen(open, root).map(Some)
            }
            FileType::RegularFile if open.found.st_nlink == 0 && open.link.starts_with("/memfd:") => {
                copy_unnamed(self.pid, open).map(Some)
            }
            FileType::RegularFile | FileType::Directory if open.found.st_nlink == 0 => {
                unable("it has no name any more")
            }
            FileType::RegularFile | FileType::Directory
                if open.link.starts_with(&format!("/{ANCHORED}/proc/")) =>
            {
                unable("it is of another process")
            }
            FileType::RegularFile | FileType::Directory => self.reopen(open, root).map(Some),
            _ => unable("nobody knows what that would be elsewhere"),
        }
    }

    fn reopen(&self, open: &Open, root: &File) -> Result<OwnedFd, CarryError> {
        let kept = OFlags::ACCMODE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::DIRECTORY | OFlags::PATH;
        let again = self.open_below(root, &open.link, (open.flags & kept) | OFlags::CLOEXEC);
        let again = again.map_err(|error| {
            CarryError::Unable(format!("it has {} open, which the fork lacks: {error}", shown(&open.link)))
        })?;
        let found = rustix::fs::fstat(&again).map_err(|errno| host("look at a file", errno.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::from_raw_mode(open.found.st_mode) {
            return Err(CarryError::Unable(format!("{} is something else in the fork", shown(&open.link))));
        }
        if open.position > 0 {
            rustix::fs::seek(&again, SeekFrom::Start(open.position))
                .map_err(|errno| host("go to where it stood in a file", errno.into()))?;
        }
        Ok(again)
    }

    /// Exactly what the kernel says that the path is: no link is followed on the way.
    fn open_below(&self, root: &File, link: &str, flags: OFlags) -> std::io::Result<OwnedFd> {
        // The sandbox's root is itself mounted below the anchor.
        let inside = link.strip_prefix('/').and_then(|rest| rest.strip_prefix(ANCHORED));
        let inside = match inside {
            Some("") => ".",
            Some(rest) if rest.starts_with('/') => &rest[1..],
            _ => return Err(Error::other("it is outside of the sandbox")),
        };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // Not what waits for somebody at the other end.
        let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK };
        self.work.open(|| Ok(rustix::fs::openat2(root, inside, flags, Mode::empty(), resolve)?))
    }
}

impl Open {
    fn of(pid: i32, number: i32) -> std::io::Result<Open> {
        let path = format!("/proc/{pid}/fd/{number}");
        let link = std::fs::read_link(&path)?.into_os_string();
        let link = link.into_string().map_err(|_| super::looks::unreadable())?;
        let info = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}"))?;
        let fields: BTreeMap<&str, &str> = info
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name, value.trim()))
            .collect();
        let flags = fields.get("flags").and_then(|flags| u32::from_str_radix(flags, 8).ok());
        let position = fields.get("pos").and_then(|position| position.parse().ok());
        let found = rustix::fs::stat(path.as_str())?;
        Ok(Open {
            number,
            link,
            found,
            flags: OFlags::from_bits_retain(flags.ok_or_else(super::looks::unreadable)?),
            position: position.ok_or_else(super::looks::unreadable)?,
        })
    }
}

fn copy_unnamed(pid: i32, open: &Open) -> Result<OwnedFd, CarryError> {
    if open.found.st_size as u64 > LARGEST_COPY {
        return Err(CarryError::Unable("it has a large file without a name open".into()));
    }
    let failed = |source: Error| host("copy a file without a name", source);
    let original = File::from(copy_of(pid, open.number).map_err(failed)?);
    let mut content = vec![0; open.found.st_size as usize];
    original.read_exact_at(&mut content, 0).map_err(failed)?;
    let copy =
        rustix::fs::memfd_create("copy", rustix::fs::MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let copy = File::from(copy);
    copy.write_all_at(&content, 0).map_err(failed)?;
    rustix::fs::seek(&copy, SeekFrom::Start(open.position)).map_err(|errno| failed(errno.into()))?;
    Ok(copy.into())
}

fn clone(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, CarryError> {
    debug_assert!(descriptor.as_raw_fd() >= 0);
    descriptor.try_clone_to_owned().map_err(|source| host("copy a descriptor", source))
}

/// Names are the work's: they are told as what they are.
fn shown(link: &str) -> String {
    let link =
        link.strip_prefix(&format!("/{ANCHORED}/")).map_or(link.to_string(), |rest| format!("/{rest}"));
    link.chars().take(80).collect::<String>().escape_debug().to_string()
}
