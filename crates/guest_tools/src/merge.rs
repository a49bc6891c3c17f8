//! Brings chosen files of a fork into this sandbox, with owners, modes and links: all of them, or none.
//!
//! Everything is made ready in a directory of its own first, where a full disk or a bad entry costs nothing. Then it
//! is moved to its place, name by name, and the old file is moved out of the way, so that a failure can be undone.
//! The work sees the result through its own root: the layer below an overlay is not to be written to.

mod ready;
mod undo;

use self::ready::Ready;
use self::undo::{Journal, Staging};
use super::{beneath, node, shown, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::{MergeStep, NodeType, decode_record};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

/// In one merge.
const MOST_STEPS: usize = 1_000_000;

pub fn merge() -> Outcome<()> {
    let mut input = streams::input().during(|| "open the input".into())?;
    let steps = steps(&mut input)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, "/", flags, Mode::empty()).during(|| "open /".into())?;
    let staging = Staging::make(&root)?;
    let done = perform(&root, &mut input, &steps, &staging);
    // Removed in any case; a merge that was done is not undone because the cleanup failed.
    let removed = staging.remove();
    done?;
    removed
}

fn perform(
    root: &OwnedFd,
    input: &mut File,
    steps: &BTreeMap<Vec<u8>, bool>,
    staging: &Staging,
) -> Outcome<()> {
    let ready = ready::unpack(input, steps, staging)?;
    let mut journal = Journal::new(root, staging);
    let placed = place(root, &ready, steps, &mut journal);
    if let Err(failure) = placed {
        return Err(match journal.undo() {
            Ok(()) => failure,
            Err(second) => Failure {
                step: format!("{}; and it could not all be undone: {second}", failure.step),
                errno: failure.errno,
            },
        });
    }
    Ok(())
}

/// Paths below the root, and true if the path is to be removed.
fn steps(input: &mut File) -> Outcome<BTreeMap<Vec<u8>, bool>> {
    let mut steps = BTreeMap::new();
    loop {
        let cut = || Failure { step: "the list was not sent to its end".into(), errno: Errno::CANCELED };
        let length = streams::read_length(input)?.ok_or_else(cut)?;
        let mut body = vec![0; length];
        input.read_exact(&mut body).during(|| "read the input".into())?;
        let step: MergeStep =
            decode_record(&body).map_err(|e| Failure { step: e.to_string(), errno: Errno::PROTO })?;
        let (path, goes) = match step {
            MergeStep::Put(path) => (path, false),
            MergeStep::Remove(path) => (path, true),
            MergeStep::End => return Ok(steps),
        };
        let parts = beneath::parts(&path)?;
        if parts.is_empty() || steps.len() >= MOST_STEPS {
            return Err(Failure { step: format!("merge {}", shown(&path)), errno: Errno::INVAL });
        }
        steps.insert(parts.join(&b'/'), goes);
    }
}

fn place(
    root: &OwnedFd,
    ready: &BTreeMap<Vec<u8>, Ready>,
    steps: &BTreeMap<Vec<u8>, bool>,
    journal: &mut Journal<'_>,
) -> Outcome<()> {
    // From below: a directory is removed after its entries.
    for (path, _) in steps.iter().rev().filter(|(_, goes)| **goes) {
        journal.take_away(path)?;
    }
    // From above: a directory is made before its entries.
    for (path, _) in steps.iter().filter(|(_, goes)| !**goes) {
        let step = || format!("merge {}", shown(path));
        // Gone from the fork between the list and the archive.
        let Some(what) = ready.get(path) else {
            return Err(Failure {
                step: format!("{}: it is not in the archive", step()),
                errno: Errno::NOENT,
            });
        };
        let parts = beneath::parts(path)?;
        let Some((name, above)) = parts.split_last() else { continue };
        let folder = beneath::open_directory(root, above, false).during(step)?;
        let there = match statat(&folder, *name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            found => Some(found.during(step)?),
        };
        match what {
            Ready::Directory(made) => match there.map(|found| node::kind(&found)) {
                Some(NodeType::Directory) => {}
                there => {
                    if there.is_some() {
                        journal.take_away(path)?;
                    }
                    journal.make_directory(&folder, name, path, made)?;
                }
            },
            Ready::Staged(number) => {
                if there.is_some_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory) {
                    let step = format!("{}: a directory with something in it is there", step());
                    return Err(Failure { step, errno: Errno::NOTEMPTY });
                }
                if there.is_some() {
                    journal.take_away(path)?;
                }
                journal.put(&folder, name, path, *number)?;
            }
        }
    }
    Ok(())
}
