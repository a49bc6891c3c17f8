//! The open files of a copied QEMU process: each file of its original has a replacement, or nothing is copied.
//!
//! Its disk and its sockets are its own. Files that it only reads are opened once more, so that no two VMs share a
//! position in a file. Files that the kernel made for one process alone (events, signals) are made anew.

use super::idle::copy_of;
use super::open_files::Open;
use super::tracee::host;
use crate::error::LiveForkError;
use rustix::fs::{FileType, Mode, OFlags, SealFlags, SeekFrom, Stat};
use rustix::net::sockopt::{socket_acceptconn, socket_peercred};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The most descriptors that fit in a message, beside the namespaces.
const MOST_OPEN_FILES: usize = 200;

/// The files that differ between a VM and its copy.
pub struct VmFiles {
    /// The disk of the original, by its kernel facts, and the disk of the copy.
    pub disk: (Stat, OwnedFd),
    /// The socket on which the copy's monitor listens.
    pub monitor: OwnedFd,
    /// One end of its port, and its error output.
    pub port: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// The number, true if an exec closes it, and the file.
pub type Opened = Vec<(i32, bool, OwnedFd)>;

/// `ours`: the descriptors that we gave the copy.
pub fn open_vm_files(pid: i32, ours: &[i32], vm_files: &VmFiles) -> Result<Opened, LiveForkError> {
    let all = Open::all(pid, ours, MOST_OPEN_FILES)?;
    let mut opened = Opened::new();
    for (place, open) in all.iter().enumerate() {
        let twin = all[..place].iter().position(|other| other.is_same(open, pid));
        let descriptor = match twin.and_then(|twin| opened.get(twin)) {
            Some((_, _, twin)) => clone(twin)?,
            None => instead(pid, open, vm_files)?,
        };
        opened.push((open.number, open.flags.contains(OFlags::CLOEXEC), descriptor));
    }
    Ok(opened)
}

/// True if no client is connected to its monitor. A connection ends a moment after the client has closed it.
pub fn is_unasked(pid: i32) -> Result<bool, LiveForkError> {
    for open in Open::all(pid, &[], MOST_OPEN_FILES)? {
        if FileType::from_raw_mode(open.found.st_mode) != FileType::Socket {
            continue;
        }
        let own = original(pid, &open)?;
        if !listens(&own)? && has_name(&own)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn instead(pid: i32, open: &Open, vm_files: &VmFiles) -> Result<OwnedFd, LiveForkError> {
    match FileType::from_raw_mode(open.found.st_mode) {
        FileType::Socket => socket(pid, open, vm_files),
        // QEMU was started with these pipes; it makes no others.
        FileType::Fifo if open.number == libc::STDOUT_FILENO => clone(&vm_files.stdout),
        FileType::Fifo if open.number == libc::STDERR_FILENO => clone(&vm_files.stderr),
        FileType::RegularFile => file(pid, open, vm_files),
        FileType::Directory => again(pid, open),
        FileType::CharacterDevice if open.found.st_rdev == rustix::fs::makedev(1, 3) => again(pid, open),
        _ => match open.link.strip_prefix("anon_inode:") {
            Some(kind) => made_anew(pid, open, kind),
            None => Err(unable(open, "nobody knows what that would be elsewhere")),
        },
    }
}

fn socket(pid: i32, open: &Open, vm_files: &VmFiles) -> Result<OwnedFd, LiveForkError> {
    let own = original(pid, open)?;
    let given = match listens(&own)? {
        true => &vm_files.monitor,
        false if has_name(&own)? => return Err(LiveForkError::Busy("somebody asks its monitor".into())),
        false if socket_peercred(&own).is_ok() => &vm_files.port,
        false => return Err(unable(open, "it is not a socket that it was given")),
    };
    let blocks = !open.flags.contains(OFlags::NONBLOCK);
    rustix::io::ioctl_fionbio(given, !blocks).map_err(|errno| host("set up a socket", errno.into()))?;
    clone(given)
}

fn listens(socket: &OwnedFd) -> Result<bool, LiveForkError> {
    socket_acceptconn(socket).map_err(|errno| host("look at a socket", errno.into()))
}

/// True for a connection to the monitor, and false for the port.
fn has_name(socket: &OwnedFd) -> Result<bool, LiveForkError> {
    let name = rustix::net::getsockname(socket).map_err(|errno| host("look at a socket", errno.into()))?;
    let name = rustix::net::SocketAddrUnix::try_from(name);
    // One without a name is told as one whose abstract name is empty.
    Ok(name
        .is_ok_and(|name| name.path().is_some() || name.abstract_name().is_some_and(|name| !name.is_empty())))
}

fn file(pid: i32, open: &Open, vm_files: &VmFiles) -> Result<OwnedFd, LiveForkError> {
    let writes = !matches!(open.flags & OFlags::ACCMODE, OFlags::RDONLY);
    let (disk, own) = &vm_files.disk;
    if (open.found.st_dev, open.found.st_ino) == (disk.st_dev, disk.st_ino) {
        return clone(own);
    }
    if !writes {
        return again(pid, open);
    }
    // The memory that the VM was copied from. It is sealed against writes, so it need not be opened again.
    let own = original(pid, open)?;
    let sealed = rustix::fs::fcntl_get_seals(&own).is_ok_and(|seals| seals.contains(SealFlags::WRITE));
    if sealed { Ok(own) } else { Err(unable(open, "others write to it")) }
}

/// The same file, from the mount that it was opened in. It is opened only for reading: the callers refuse all other
/// modes.
fn again(pid: i32, open: &Open) -> Result<OwnedFd, LiveForkError> {
    let own = original(pid, open)?;
    if open.flags.contains(OFlags::PATH) {
        return Ok(own);
    }
    let kept = OFlags::NONBLOCK | OFlags::DIRECTORY;
    let flags = (open.flags & kept) | OFlags::RDONLY | OFlags::CLOEXEC;
    let path = format!("/proc/self/fd/{}", own.as_raw_fd());
    let opened = rustix::fs::open(path.as_str(), flags, Mode::empty())
        .map_err(|errno| host("open a file of the VM once more", errno.into()))?;
    if open.position > 0 && FileType::from_raw_mode(open.found.st_mode) == FileType::RegularFile {
        rustix::fs::seek(&opened, SeekFrom::Start(open.position))
            .map_err(|errno| host("go to where it stood in a file", errno.into()))?;
    }
    Ok(opened)
}

fn made_anew(pid: i32, open: &Open, kind: &str) -> Result<OwnedFd, LiveForkError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", open.number))
        .map_err(|source| host("look at a file of the VM", source))?;
    let fields: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim()))
        .collect();
    let hexadecimal = |name: &str| {
        fields
            .get(name)
            .and_then(|value| u64::from_str_radix(value, 16).ok())
            .ok_or_else(|| host("look at a file of the VM", super::process_facts::unreadable()))
    };
    let flags = (open.flags & (OFlags::NONBLOCK | OFlags::CLOEXEC)).bits() as i32;
    // SAFETY: numbers, and a mask that lives across the call and has the size that is named; the kernel gives a descriptor
    // that nobody else owns.
    let made = unsafe {
        match kind {
            "[eventfd]" if fields.get("eventfd-semaphore").is_none_or(|value| *value == "0") => {
                let count = u32::try_from(hexadecimal("eventfd-count")?);
                libc::eventfd(count.map_err(|_| unable(open, "it counts too far"))?, flags)
            }
            "[eventpoll]" if !fields.contains_key("tfd") => libc::epoll_create1(flags & libc::EPOLL_CLOEXEC),
            "[signalfd]" => {
                let mask = hexadecimal("sigmask")?;
                let made = libc::syscall(libc::SYS_signalfd4, -1, &raw const mask, 8, flags);
                i32::try_from(made).unwrap_or(-1)
            }
            _ => return Err(unable(open, "nobody knows what that would be elsewhere")),
        }
    };
    if made < 0 {
        return Err(host("make a file of the VM anew", std::io::Error::last_os_error()));
    }
    // SAFETY: it was just made, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

fn original(pid: i32, open: &Open) -> Result<OwnedFd, LiveForkError> {
    copy_of(pid, open.number).map_err(|source| host("look at a file of the VM", source))
}

fn clone(descriptor: &OwnedFd) -> Result<OwnedFd, LiveForkError> {
    descriptor.as_fd().try_clone_to_owned().map_err(|source| host("copy a descriptor", source))
}

fn unable(open: &Open, why: &str) -> LiveForkError {
    let link: String = open.link.chars().take(80).collect();
    LiveForkError::Unable(format!("it has descriptor {} ({}) open: {why}", open.number, link.escape_debug()))
}
