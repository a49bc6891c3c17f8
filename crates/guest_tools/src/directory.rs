//! New directories.

use super::{node, shown, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::NodeType;
use rustix::fs::{AtFlags, CWD, Mode, chmodat, mkdirat, statat};
use rustix::io::Errno;

const DEFAULT_MODE: u32 = 0o755;

/// With `parents`, an existing directory is no error.
pub fn make(path: &[u8], mode: Option<u32>, parents: bool) -> Outcome<()> {
    let step = || format!("make {}", shown(path));
    let bare = trim(path);
    if parents && let Some(at) = bare.iter().rposition(|b| *b == b'/') {
        make_all(&bare[..at])?;
    }
    match mkdirat(CWD, bare, Mode::from_raw_mode(DEFAULT_MODE)) {
        Ok(()) => {
            // The process's mask would take bits from it.
            if let Some(mode) = mode {
                chmodat(CWD, bare, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty()).during(step)?;
            }
        }
        Err(Errno::EXIST) if parents => {
            let found = statat(CWD, bare, AtFlags::empty()).during(step)?;
            if node::kind(&found) != NodeType::Directory {
                return Err(Failure { step: step(), errno: Errno::EXIST });
            }
        }
        Err(errno) => return Err(errno).during(step),
    }
    streams::answer(&node::look(path)?)
}

/// Every directory on the way to `path`, and `path` itself.
pub fn make_all(path: &[u8]) -> Outcome<()> {
    let ends = (1..=path.len()).filter(|end| *end == path.len() || path[*end] == b'/');
    for end in ends {
        match mkdirat(CWD, &path[..end], Mode::from_raw_mode(DEFAULT_MODE)) {
            Ok(()) | Err(Errno::EXIST | Errno::ISDIR) => {}
            // An existing directory need not be writable, or may be on a read-only mount.
            Err(errno) => match statat(CWD, &path[..end], AtFlags::empty()) {
                Ok(found) if node::kind(&found) == NodeType::Directory => {}
                _ => return Err(errno).during(|| format!("make {}", shown(&path[..end]))),
            },
        }
    }
    Ok(())
}

fn trim(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').map_or(path.len().min(1), |at| at + 1);
    &path[..end]
}
