//! Device nodes of the sandbox's own.
//!
//! A bind of the host's /dev/null has the host's inode: a lock on it is seen by all, and inotify tells when anybody opens it. A user namespace
//! cannot make nodes that work, so the engine does, as root of the host: on one small file system in memory that nothing else can see. Each
//! sandbox gets mounts of six new nodes. The kernel mounts nothing that has no name any more, so the names are removed when the sandbox stands. The
//! nodes go with the mounts.

use super::passed::Passed;
use super::root::DEVICES;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::shared::identity::{self, Method};
use paddock_fences::shared::weaken::without;
use paddock_protocol::{KernelPlan, Source};
use rustix::fs::{AtFlags, CWD, FileType, Mode, chmodat, makedev, mknodat, unlinkat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount_change, move_mount, open_tree,
    unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::collections::VecDeque;
use std::io::{Error, Result};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A directory that is sure to exist: only one thread sees the mount there, and only for a moment.
const STAGING: &str = "/usr";
/// Those of `DEVICES` by Linux's list, in the same order.
const NUMBERS: [(u32, u32); DEVICES.len()] = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0)];

/// A guest has mounted its nodes long before.
const LONGEST_CREATE: Duration = Duration::from_secs(60);

type Nodes = Result<Vec<OwnedFd>>;

/// True if sandboxes get devices of their own on this host.
pub fn can_be_own() -> bool {
    maker().is_some()
}

/// Puts nodes of the sandbox's own in the place of the host's, where that can be. An error is none to go on with: the guarantees say that they
/// are the sandbox's own.
pub fn make_own(plan: &mut KernelPlan, passed: &mut Passed) -> std::result::Result<(), CreateError> {
    let Some(maker) = maker().filter(|_| !without("own-inodes")) else { return Ok(()) };
    let nodes = maker.nodes().host(|| "make devices of the sandbox's own".into())?;
    for ((_, source), node) in plan.devices.iter_mut().zip(nodes) {
        *source = Source::Descriptor(passed.add_device(node));
    }
    Ok(())
}

/// One caller is served at a time; the first nodes are kept for the first sandbox, because to let go of an unused mount takes longer than
/// to make it.
struct Maker(Mutex<Inner>);

struct Inner {
    way: Way,
    first: Option<Vec<OwnedFd>>,
}

enum Way {
    /// The file system is mounted nowhere.
    Detached(Names),
    /// Before Linux 6.15 the kernel copies mounts of the caller's namespace only, and a namespace belongs to a thread.
    Thread(SyncSender<Sender<Nodes>>),
}

impl Maker {
    fn of(way: Result<Way>) -> Result<Maker> {
        let mut way = way?;
        let first = Some(way.nodes()?);
        Ok(Maker(Mutex::new(Inner { way, first })))
    }

    fn nodes(&self) -> Nodes {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match inner.first.take() {
            Some(nodes) => Ok(nodes),
            None => inner.way.nodes(),
        }
    }
}

impl Way {
    fn nodes(&mut self) -> Nodes {
        let ask = match self {
            Way::Detached(names) => return names.nodes(),
            Way::Thread(ask) => ask,
        };
        let (answer, wait) = channel();
        let gone = || Error::other("the thread that makes devices has ended");
        ask.send(answer).map_err(|_| gone())?;
        wait.recv().map_err(|_| gone())?
    }
}

fn maker() -> Option<&'static Maker> {
    static MAKER: OnceLock<Option<Maker>> = OnceLock::new();
    let made = MAKER.get_or_init(|| {
        if !rustix::process::geteuid().is_root() || identity::method() != Method::Range {
            return None;
        }
        let detached = file_system().map(|place| Way::Detached(Names::new(place)));
        let made = Maker::of(detached).or_else(|_| Maker::of(start_thread()));
        made.inspect_err(|error| tracing::debug!("no devices of a sandbox's own: {error}")).ok()
    });
    made.as_ref()
}

fn start_thread() -> Result<Way> {
    let (ask, asked) = sync_channel(0);
    std::thread::Builder::new().name("devices".into()).spawn(move || serve(&asked))?;
    Ok(Way::Thread(ask))
}

fn serve(asked: &Receiver<Sender<Nodes>>) {
    let mut names = enter_own_namespace().map(Names::new);
    for answer in asked {
        let nodes = match &mut names {
            Ok(names) => names.nodes(),
            Err(error) => Err(Error::new(error.kind(), error.to_string())),
        };
        let _ = answer.send(nodes);
    }
}

fn file_system() -> Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [("size", "64k"), ("nr_inodes", "0"), ("mode", "700")] {
        fsconfig_set_string(&context, key, value)?;
    }
    fsconfig_create(&context)?;
    let limits = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, limits)?)
}

/// A namespace with nothing in it but the file system: with the host's mounts it would keep those from being unmounted.
fn enter_own_namespace() -> Result<OwnedFd> {
    // SAFETY: this thread is new, and nobody else relies on its namespaces or its directory.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    let place = file_system()?;
    move_mount(&place, "", CWD, STAGING, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    rustix::process::fchdir(&place)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    Ok(place)
}

struct Names {
    place: OwnedFd,
    next: u64,
    /// The sandboxes whose nodes have names yet, and when they got them.
    made: VecDeque<(u64, Instant)>,
}

impl Names {
    fn new(place: OwnedFd) -> Names {
        Names { place, next: 0, made: VecDeque::new() }
    }

    fn nodes(&mut self) -> Nodes {
        while let Some(&(number, made)) = self.made.front()
            && made.elapsed() > LONGEST_CREATE
        {
            self.made.pop_front();
            DEVICES.iter().for_each(|device| {
                let _ = unlinkat(&self.place, name(number, device), AtFlags::empty());
            });
        }
        let number = self.next;
        self.next += 1;
        self.made.push_back((number, Instant::now()));
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let node = |(device, (major, minor)): (&str, (u32, u32))| {
            let (name, mode) = (name(number, device), Mode::from_raw_mode(0o666));
            mknodat(&self.place, &name, FileType::CharacterDevice, mode, makedev(major, minor))?;
            chmodat(&self.place, &name, mode, AtFlags::empty())?;
            Ok(open_tree(&self.place, &name, flags)?)
        };
        DEVICES.into_iter().zip(NUMBERS).map(node).collect()
    }
}

fn name(number: u64, device: &str) -> String {
    format!("{number}-{device}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::fstat;

    #[test]
    fn every_sandbox_has_inodes_of_its_own_that_work() {
        if maker().is_none() {
            eprintln!("skipped: only root of the host makes devices");
            return;
        }
        are_own(&mut start_thread().unwrap());
        // Linux 6.15 and later.
        let mut detached = Way::Detached(Names::new(file_system().unwrap()));
        if detached.nodes().is_ok() {
            are_own(&mut detached);
        }
        // Nothing of it is seen here.
        let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let is_staged = |line: &str| line.split(' ').nth(4) == Some(STAGING) && line.contains(" - tmpfs ");
        assert!(!table.lines().any(is_staged));
    }

    fn are_own(way: &mut Way) {
        use std::os::unix::fs::MetadataExt;
        let (one, other) = (way.nodes().unwrap(), way.nodes().unwrap());
        let host = std::fs::metadata("/dev/null").unwrap();
        for (number, name) in DEVICES.iter().enumerate() {
            let found = fstat(&one[number]).unwrap();
            let same = fstat(&other[number]).unwrap();
            assert_eq!(found.st_rdev, std::fs::metadata(format!("/dev/{name}")).unwrap().rdev(), "{name}");
            assert_eq!(found.st_mode & 0o7777, 0o666);
            assert_ne!((found.st_dev, found.st_ino), (same.st_dev, same.st_ino));
            assert_ne!(found.st_dev, host.dev());
        }
    }

    /// A look at the cost of one create: `cargo test ... -- --ignored --nocapture devices`.
    #[test]
    #[ignore = "a measurement"]
    fn cost() {
        let start = std::time::Instant::now();
        let maker = maker().unwrap();
        println!("{:?} for the first", start.elapsed());
        let start = std::time::Instant::now();
        let made: Vec<_> = (0..100).map(|_| maker.nodes().unwrap()).collect();
        println!("{:?} for each sandbox", start.elapsed() / 100);
        drop(made);
    }
}
