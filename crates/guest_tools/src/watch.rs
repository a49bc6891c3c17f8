//! Events of a file, a directory or a tree, as they happen, until the host stops reading.

use super::walk::{Visit, walk};
use super::{node, shown, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::{NodeType, WATCH_LIMIT, WatchKind, WatchRecord};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{CWD, Mode, OFlags, Stat, openat};
use rustix::io::Errno;
use serde_bytes::ByteBuf;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

pub fn watch(path: &[u8], recursive: bool) -> Outcome<()> {
    let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
        .during(|| "watch: the limit of watches may be reached".into())?;
    let mut watcher = Watcher {
        base: path.to_vec(),
        events,
        recursive,
        places: HashMap::new(),
        answers: streams::Answers::open()?,
    };
    watcher.add(b"").during(|| format!("watch {}", shown(path)))?;
    if recursive {
        watcher.cover(b"", false)?;
    }
    watcher.tell(WatchKind::Watching, b"")?;
    watcher.serve()
}

struct Watcher {
    base: Vec<u8>,
    events: OwnedFd,
    recursive: bool,
    /// The path of each watch, relative to the base.
    places: HashMap<i32, Vec<u8>>,
    answers: streams::Answers,
}

impl Watcher {
    fn serve(&mut self) -> Outcome<()> {
        let input = streams::input().during(|| "open the input".into())?;
        let output = streams::output().during(|| "open the output".into())?;
        let mut space = vec![MaybeUninit::uninit(); 16 * 1024];
        loop {
            self.answers.flush()?;
            let mut polled = [
                PollFd::new(&self.events, PollFlags::IN),
                PollFd::new(&input, PollFlags::IN),
                PollFd::new(&output, PollFlags::empty()),
            ];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno).during(|| "wait for events".into()),
            }
            // The host closes the input when it has seen enough.
            if !polled[1].revents().is_empty() || !polled[2].revents().is_empty() {
                return Ok(());
            }
            self.read_events(&mut space)?;
        }
    }

    fn read_events(&mut self, space: &mut [MaybeUninit<u8>]) -> Outcome<()> {
        let Ok(events) = self.events.try_clone() else { return Ok(()) };
        let mut reader = Reader::new(events, space);
        loop {
            let (wd, flags, name) = match reader.next() {
                Ok(event) => (event.wd(), event.events(), event.file_name().map(|n| n.to_bytes().to_vec())),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno).during(|| "read events".into()),
            };
            self.handle(wd, flags, name)?;
            if reader.is_buffer_empty() {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, wd: i32, flags: ReadFlags, name: Option<Vec<u8>>) -> Outcome<()> {
        if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.tell(WatchKind::Overflow, b"");
        }
        if flags.contains(ReadFlags::IGNORED) {
            self.places.remove(&wd);
            return Ok(());
        }
        let Some(place) = self.places.get(&wd) else { return Ok(()) };
        let path = match name {
            Some(name) if place.is_empty() => name,
            Some(name) => [place.as_slice(), b"/", &name].concat(),
            // A directory reports about itself an event that its parent's watch has reported already.
            None if !place.is_empty() => return Ok(()),
            None => Vec::new(),
        };
        let kinds = [
            (ReadFlags::CREATE, WatchKind::Created),
            (ReadFlags::MOVED_FROM, WatchKind::MovedFrom),
            (ReadFlags::MOVED_TO, WatchKind::MovedTo),
            (ReadFlags::MODIFY, WatchKind::Modified),
            (ReadFlags::ATTRIB, WatchKind::Attributes),
            (ReadFlags::DELETE, WatchKind::Deleted),
            (ReadFlags::DELETE_SELF, WatchKind::Deleted),
            (ReadFlags::MOVE_SELF, WatchKind::MovedFrom),
        ];
        for (flag, kind) in kinds {
            if flags.contains(flag) {
                self.tell(kind, &path)?;
            }
        }
        if self.recursive && flags.contains(ReadFlags::ISDIR) {
            if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) && self.add(&path).is_ok() {
                self.cover(&path, flags.contains(ReadFlags::CREATE))?;
            }
            if flags.contains(ReadFlags::MOVED_FROM) {
                self.uncover(&path);
            }
        }
        Ok(())
    }

    fn tell(&mut self, kind: WatchKind, path: &[u8]) -> Outcome<()> {
        self.answers.put(&WatchRecord { kind, path: ByteBuf::from(path) })
    }

    fn add(&mut self, path: &[u8]) -> rustix::io::Result<()> {
        let wanted = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB;
        let follow = if path.is_empty() { WatchFlags::empty() } else { WatchFlags::DONT_FOLLOW };
        let wd = inotify::add_watch(&self.events, self.full(path).as_slice(), wanted | follow)?;
        self.places.insert(wd, path.to_vec());
        Ok(())
    }

    fn full(&self, path: &[u8]) -> Vec<u8> {
        if path.is_empty() { self.base.clone() } else { [self.base.as_slice(), b"/", path].concat() }
    }

    /// Watches everything below `path`. Entries found in a new directory were created before its watch.
    fn cover(&mut self, path: &[u8], new: bool) -> Outcome<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(root) = openat(CWD, self.full(path).as_slice(), flags, Mode::empty()) else { return Ok(()) };
        let mut cover = Cover { watcher: self, above: path.to_vec(), new };
        match walk(root, false, &mut cover) {
            // The tree changes while it is looked at: a vanished directory needs no watch, and the host is told of a
            // gap.
            Err(Failure { errno: Errno::STALE | Errno::NOENT, .. }) => self.tell(WatchKind::Overflow, path),
            done => done,
        }
    }

    fn uncover(&mut self, path: &[u8]) {
        let below = [path, b"/"].concat();
        let gone: Vec<i32> = self
            .places
            .iter()
            .filter(|(_, p)| *p == path || p.starts_with(&below))
            .map(|(wd, _)| *wd)
            .collect();
        for wd in gone {
            let _ = inotify::remove_watch(&self.events, wd);
            self.places.remove(&wd);
        }
    }
}

struct Cover<'a> {
    watcher: &'a mut Watcher,
    above: Vec<u8>,
    new: bool,
}

impl Visit for Cover<'_> {
    fn entry(&mut self, _: &OwnedFd, _: &[u8], path: &[u8], found: &Stat) -> Outcome<bool> {
        let path =
            if self.above.is_empty() { path.to_vec() } else { [self.above.as_slice(), b"/", path].concat() };
        if self.new {
            self.watcher.tell(WatchKind::Created, &path)?;
        }
        if node::kind(found) != NodeType::Directory {
            return Ok(false);
        }
        if self.watcher.places.len() >= WATCH_LIMIT || self.watcher.add(&path) == Err(Errno::NOSPC) {
            self.watcher.tell(WatchKind::Overflow, &path)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// A directory that may not be read is not watched.
    fn closed(&mut self, _: &[u8], _: Errno) -> Outcome<()> {
        Ok(())
    }
}
