//! The changes of one place as a patch: the old contents, from the old_contents, beside the new ones.

use super::changes::Change;
use super::listing::{Place, Seen, is_in_git, open_below};
use super::old_contents::{OldContents, read};
use paddock_engine::Held;
use paddock_engine::patch::{LARGEST_FILE, LARGEST_PATCH, cut, file, quoted};
use paddock_model::api::{ChangeKind, FileKind};
use rustix::fs::{Mode, OFlags};
use std::fmt::Write;
use std::os::fd::OwnedFd;

/// A change that cannot be shown is named, with the reason.
pub fn of(changes: &[Change], place: &Place, old_contents: &OldContents) -> String {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::open(&place.directory, flags, Mode::empty()) else { return String::new() };
    let mut patch = String::new();
    for change in changes {
        let path = format!("/{}", change.path.trim_start_matches('/'));
        // Its entries are told by themselves.
        if change.is == FileKind::Directory && change.before.as_ref().is_none_or(|was| was.kind == change.is)
        {
            continue;
        }
        match sides(change, &root, old_contents)
            .and_then(|(old, new)| file(&path, old.as_ref(), new.as_ref()))
        {
            Ok(text) => patch.push_str(&text),
            Err(why) => {
                let verb = match change.kind {
                    ChangeKind::Added => "added",
                    ChangeKind::Modified => "modified",
                    ChangeKind::Deleted => "deleted",
                };
                // Writing to a String cannot fail.
                let _ = writeln!(patch, "# {verb} {}: {why}", quoted("", &path));
            }
        }
        if patch.len() > LARGEST_PATCH {
            cut(&mut patch);
            break;
        }
    }
    patch
}

type Sides = (Option<Held>, Option<Held>);

fn sides(change: &Change, root: &OwnedFd, old_contents: &OldContents) -> Result<Sides, &'static str> {
    if is_in_git(&change.raw) {
        return Err("it is git's own, which no patch reaches");
    }
    let old = match &change.before {
        None if change.kind == ChangeKind::Added => None,
        None => return Err("what it was is not kept"),
        Some(was) if was.kind == FileKind::Directory => None,
        Some(was) => Some(before(was, old_contents)?),
    };
    let new = change.after.as_ref().map(|now| after(change, now, root)).transpose()?;
    Ok((old, new.flatten()))
}

fn before(was: &Seen, old_contents: &OldContents) -> Result<Held, &'static str> {
    match was.kept {
        Some(kept) => {
            let bytes = old_contents.get(kept).map_err(|_| "what it was cannot be read back")?;
            Ok(Held::of(was.kind, was.mode, bytes))
        }
        None if was.kind == FileKind::File && was.size > LARGEST_FILE => Ok(Held::too_large(was.mode)),
        None => Err("what it was is not kept"),
    }
}

fn after(change: &Change, now: &Seen, root: &OwnedFd) -> Result<Option<Held>, &'static str> {
    if now.kind == FileKind::Directory {
        return Ok(None);
    }
    if now.kind == FileKind::File && now.size > LARGEST_FILE {
        return Ok(Some(Held::too_large(now.mode)));
    }
    let at = change.raw.iter().rposition(|byte| *byte == b'/');
    let (parent, name) = match at {
        Some(at) => (&change.raw[..at], &change.raw[at + 1..]),
        None => (&b""[..], &change.raw[..]),
    };
    let directory = open_below(root, parent).ok_or("it has gone meanwhile")?;
    let bytes = match now.kind {
        FileKind::Other => Vec::new(),
        kind => read(&directory, name, kind).ok_or("it cannot be read")?,
    };
    Ok(Some(Held::of(now.kind, now.mode, bytes)))
}
