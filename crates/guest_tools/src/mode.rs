//! The permission bits of a file.

use super::{node, shown, streams};
use paddock_guest_system::failure::{During, Outcome};
use rustix::fs::{AtFlags, CWD, Mode, chmodat};

pub fn change(path: &[u8], mode: u32) -> Outcome<()> {
    chmodat(CWD, path, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())
        .during(|| format!("set the mode of {}", shown(path)))?;
    streams::answer(&node::look(path)?)
}
