//! The open files that an interpreter takes along: its streams become the new sandbox's, files and directories are
//! opened anew in that sandbox's own root, and ways to other places are closed. If a file may be a way out of the
//! sandbox, nothing is forked.

use super::idle::copy_of;
use super::tracee::host;
use super::work_ids::HostIds;
use crate::error::LiveForkError;
use crate::shared::way_in::Streams;
use paddock_protocol::ANCHORED;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Error;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// More would not fit into one message.
const MOST_OPEN_FILES: usize = 200;
/// A file without a name is copied if it is no larger.
const LARGEST_COPY: u64 = 64 << 20;
/// null, zero, full, random, urandom: the same in every sandbox.
const DEVICES: [(u32, u32); 5] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9)];

/// The files that the interpreter had open when it was copied, and its current directory.
pub struct Listed {
    opened: Vec<(Open, Substitute)>,
    directory: String,
}

/// The replacement of an open file in the new sandbox.
enum Substitute {
    This(OwnedFd),
    /// The same path, opened there.
    Again,
    /// Another number of one opened file; its place among them.
    Twin(usize),
    /// The file leads out of the old sandbox, and is closed.
    Nothing,
}

pub struct OpenFiles {
    /// The number in the interpreter, true if an exec closes it, and the file.
    pub kept: Vec<(i32, bool, OwnedFd)>,
    /// Its current directory.
    pub directory: OwnedFd,
    /// The files that were not kept, in words.
    pub closed: Vec<String>,
}

/// An open file of a process.
pub struct Open {
    pub number: i32,
    pub link: String,
    pub found: Stat,
    /// The flags that it was opened with, and the position in it.
    pub flags: OFlags,
    pub position: u64,
}

/// A copy that is still in the sandbox that it comes from, and the facts that decide about its files.
pub struct Between<'a> {
    pub pid: i32,
    pub streams: &'a Streams,
    /// The pipes of its streams, by their inodes, and the number of its control stream.
    pub pipes: (u64, u64),
    pub control: i32,
    /// Numbers that it has by us.
    pub ours: &'a [i32],
}

impl Between<'_> {
    pub fn list(&self) -> Result<Listed, LiveForkError> {
        let all = Open::all(self.pid, self.ours, MOST_OPEN_FILES)?;
        let mut substitutes: Vec<Substitute> = Vec::new();
        for (place, open) in all.iter().enumerate() {
            let twin = all[..place].iter().position(|other| other.is_same(open, self.pid));
            substitutes.push(match twin {
                Some(twin) if matches!(substitutes[twin], Substitute::Nothing) => Substitute::Nothing,
                Some(twin) => Substitute::Twin(twin),
                None => self.substitute(open, &all)?,
            });
        }
        let directory = std::fs::read_link(format!("/proc/{}/cwd", self.pid))
            .map_err(|source| host("ask where the interpreter stands", source))?;
        let opened = all.into_iter().zip(substitutes).collect();
        Ok(Listed { opened, directory: directory.display().to_string() })
    }

    fn substitute(&self, open: &Open, all: &[Open]) -> Result<Substitute, LiveForkError> {
        let unable = |why: &str| {
            let what = format!("descriptor {} ({})", open.number, shown(&open.link));
            Err(LiveForkError::Unable(format!("it has {what} open: {why}")))
        };
        let this = |descriptor: &OwnedFd| clone(descriptor.as_fd()).map(Substitute::This);
        match FileType::from_raw_mode(open.found.st_mode) {
            FileType::Socket if open.number == self.control => this(&self.streams.control),
            FileType::Socket => Ok(Substitute::Nothing),
            FileType::Fifo if open.found.st_ino == self.pipes.0 => this(&self.streams.stdout),
            FileType::Fifo if open.found.st_ino == self.pipes.1 => this(&self.streams.stderr),
            FileType::Fifo => {
                let ends = all.iter().filter(|other| other.found.st_ino == open.found.st_ino);
                let mut modes: Vec<u32> = ends.map(|end| (end.flags & OFlags::ACCMODE).bits()).collect();
                modes.dedup();
                match modes.len() {
                    1 => Ok(Substitute::Nothing),
                    _ => unable("both ends of a pipe are its own"),
                }
            }
            FileType::CharacterDevice => {
                let device = (rustix::fs::major(open.found.st_rdev), rustix::fs::minor(open.found.st_rdev));
                match DEVICES.contains(&device) {
                    true => Ok(Substitute::Again),
                    false => unable("a device that the fork has no other of"),
                }
            }
            FileType::RegularFile if open.found.st_nlink == 0 && open.link.starts_with("/memfd:") => {
                copy_unnamed(self.pid, open).map(Substitute::This)
            }
            FileType::RegularFile | FileType::Directory if open.found.st_nlink == 0 => {
                unable("it has no name any more")
            }
            FileType::RegularFile | FileType::Directory
                if open.link.starts_with(&format!("/{ANCHORED}/proc/")) =>
            {
                unable("it is of another process")
            }
            FileType::RegularFile | FileType::Directory => Ok(Substitute::Again),
            _ => unable("nobody knows what that would be elsewhere"),
        }
    }
}

impl Listed {
    /// `to`: the guest of the sandbox that it goes to, by the host's number. `work`: by whose rights files are opened there.
    ///
    /// Precondition: that guest is ready.
    pub fn open_in(self, to: u32, work: HostIds) -> Result<OpenFiles, LiveForkError> {
        let root = File::open(format!("/proc/{to}/root"))
            .map_err(|source| host("open the root of the copy's sandbox", source))?;
        let opened = work.open(|| Ok(self.open_below(&root)));
        opened.map_err(|source| host("take the rights of the work", source))?
    }

    fn open_below(self, root: &File) -> Result<OpenFiles, LiveForkError> {
        let mut places: Vec<Option<usize>> = Vec::new();
        let mut kept: Vec<(i32, bool, OwnedFd)> = Vec::new();
        let mut closed = Vec::new();
        for (open, substitute) in self.opened {
            let opened = match substitute {
                Substitute::This(descriptor) => Some(descriptor),
                Substitute::Again => Some(open.again(root)?),
                Substitute::Twin(twin) => {
                    places[twin].map(|place| clone(kept[place].2.as_fd())).transpose()?
                }
                Substitute::Nothing => None,
            };
            places.push(opened.is_some().then_some(kept.len()));
            match opened {
                Some(opened) => kept.push((open.number, open.flags.contains(OFlags::CLOEXEC), opened)),
                None => closed.push(format!("descriptor {} ({})", open.number, shown(&open.link))),
            }
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open_below(root, &self.directory, flags).map_err(|error| {
            LiveForkError::Unable(format!("it stands in a directory that the fork lacks: {error}"))
        })?;
        Ok(OpenFiles { kept, directory, closed })
    }
}

/// Opens exactly the kernel's path: no link is followed on the way.
fn open_below(root: &File, link: &str, flags: OFlags) -> std::io::Result<OwnedFd> {
    // The sandbox's root is itself mounted below the anchor.
    let inside = link.strip_prefix('/').and_then(|rest| rest.strip_prefix(ANCHORED));
    let inside = match inside {
        Some("") => ".",
        Some(rest) if rest.starts_with('/') => &rest[1..],
        _ => return Err(Error::other("it is outside of the sandbox")),
    };
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // A pipe without a peer must not block the open.
    let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NONBLOCK };
    Ok(rustix::fs::openat2(root, inside, flags, Mode::empty(), resolve)?)
}

impl Open {
    /// All but those that the process has by us.
    pub fn all(pid: i32, ours: &[i32], most: usize) -> Result<Vec<Open>, LiveForkError> {
        let failed = |source| host("list the files of the copy", source);
        let mut opened = Vec::new();
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            let Some(number) = number.filter(|number| !ours.contains(number)) else { continue };
            opened.push(Open::of(pid, number).map_err(failed)?);
            if opened.len() > most {
                return Err(LiveForkError::Unable(format!("it has more than {most} files open")));
            }
        }
        opened.sort_by_key(|open| open.number);
        Ok(opened)
    }

    /// True if two numbers of a process stand for one opened file.
    pub fn is_same(&self, other: &Open, pid: i32) -> bool {
        const FILE: i32 = 0;
        if self.link != other.link {
            return false;
        }
        // SAFETY: numbers only.
        unsafe { libc::syscall(libc::SYS_kcmp, pid, pid, FILE, self.number, other.number) == 0 }
    }

    fn of(pid: i32, number: i32) -> std::io::Result<Open> {
        let path = format!("/proc/{pid}/fd/{number}");
        let link = std::fs::read_link(&path)?.into_os_string();
        let link = link.into_string().map_err(|_| super::process_facts::unreadable())?;
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
            flags: OFlags::from_bits_retain(flags.ok_or_else(super::process_facts::unreadable)?),
            position: position.ok_or_else(super::process_facts::unreadable)?,
        })
    }

    /// In the root of the new sandbox.
    fn again(&self, root: &File) -> Result<OwnedFd, LiveForkError> {
        let kept = OFlags::ACCMODE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::DIRECTORY | OFlags::PATH;
        let again = open_below(root, &self.link, (self.flags & kept) | OFlags::CLOEXEC);
        let again = again.map_err(|error| {
            LiveForkError::Unable(format!("it has {} open, which the fork lacks: {error}", shown(&self.link)))
        })?;
        let found = rustix::fs::fstat(&again).map_err(|errno| host("look at a file", errno.into()))?;
        if FileType::from_raw_mode(found.st_mode) != FileType::from_raw_mode(self.found.st_mode) {
            return Err(LiveForkError::Unable(format!(
                "{} is something else in the fork",
                shown(&self.link)
            )));
        }
        if self.position > 0 {
            rustix::fs::seek(&again, SeekFrom::Start(self.position))
                .map_err(|errno| host("go to where it stood in a file", errno.into()))?;
        }
        Ok(again)
    }
}

fn copy_unnamed(pid: i32, open: &Open) -> Result<OwnedFd, LiveForkError> {
    if open.found.st_size as u64 > LARGEST_COPY {
        return Err(LiveForkError::Unable("it has a large file without a name open".into()));
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

fn clone(descriptor: BorrowedFd<'_>) -> Result<OwnedFd, LiveForkError> {
    debug_assert!(descriptor.as_raw_fd() >= 0);
    descriptor.try_clone_to_owned().map_err(|source| host("copy a descriptor", source))
}

/// The work chose these names, so they are escaped.
fn shown(link: &str) -> String {
    let link =
        link.strip_prefix(&format!("/{ANCHORED}/")).map_or(link.to_string(), |rest| format!("/{rest}"));
    link.chars().take(80).collect::<String>().escape_debug().to_string()
}
