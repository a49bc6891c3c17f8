//! Opens files with the rights of a sandbox's work, and not with the engine's own.
//!
//! Processes of the source may change the target of a path while it is opened: the work can give a name in its own
//! directory to another file, whoever owns that file.

use std::io::{Error, ErrorKind, Result};

/// The ids of a sandbox's work as the host has them.
#[derive(Debug, Clone, Copy)]
pub struct HostIds {
    uid: u32,
    gid: u32,
}

impl HostIds {
    /// `guest`: of the sandbox, by the host's number; `uid` and `gid`: as they are inside.
    pub fn of(guest: u32, uid: u32, gid: u32) -> Result<HostIds> {
        let outside = |file: &str, id: u32| {
            let map = std::fs::read_to_string(format!("/proc/{guest}/{file}"))?;
            mapped(&map, id)
                .ok_or_else(|| Error::new(ErrorKind::InvalidData, format!("{id} is not in its {file}")))
        };
        let ids = HostIds { uid: outside("uid_map", uid)?, gid: outside("gid_map", gid)? };
        match ids.uid == 0 || ids.gid == 0 {
            true => Err(Error::new(ErrorKind::InvalidData, "the work has an id of the host's root")),
            false => Ok(ids),
        }
    }

    /// Opens on a thread of its own. The thread ends afterwards, so the rights it gave up need not be restored.
    pub fn open<T: Send>(self, open: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let opened = std::thread::scope(|scope| {
            let thread =
                std::thread::Builder::new().spawn_scoped(scope, || self.take().and_then(|()| open()));
            thread.map(|thread| thread.join().unwrap_or_else(|_| Err(Error::other("it could not be opened"))))
        });
        opened?
    }

    /// Changes this thread alone: the calls of the C library would change all threads. With the id the kernel takes
    /// away the capabilities about files.
    fn take(self) -> Result<()> {
        // SAFETY: numbers only; no group is read from the pointer.
        unsafe {
            if libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()) != 0 {
                return Err(Error::last_os_error());
            }
            libc::syscall(libc::SYS_setfsgid, self.gid);
            libc::syscall(libc::SYS_setfsuid, self.uid);
            // The two calls do not report failures; asked for an invalid id, they return the current one.
            let gid = libc::syscall(libc::SYS_setfsgid, u32::MAX);
            let uid = libc::syscall(libc::SYS_setfsuid, u32::MAX);
            match (uid, gid) == (self.uid.into(), self.gid.into()) {
                true => Ok(()),
                false => Err(Error::other("the rights of the work could not be taken")),
            }
        }
    }
}

/// The host's number of an id inside, by the lines `inside outside count`.
fn mapped(map: &str, id: u32) -> Option<u32> {
    map.lines().find_map(|line| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
        let (inside, outside, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let offset = id.checked_sub(inside).filter(|offset| *offset < count)?;
        outside.checked_add(offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_id_is_looked_up() {
        let map = "         0    2000000          1\n      1000    2000005         10\n";
        assert_eq!(
            [mapped(map, 0), mapped(map, 1009), mapped(map, 1010), mapped(map, 1)],
            [Some(2_000_000), Some(2_000_014), None, None]
        );
    }

    #[test]
    fn what_the_work_may_not_open_is_not_opened_for_it() {
        if !rustix::process::geteuid().is_root() {
            return println!("skip: only root has rights to give up");
        }
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let secret = place.path().join("secret");
        std::fs::write(&secret, "x").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        let work = HostIds { uid: 2_000_000, gid: 2_000_000 };
        let refused = work.open(|| std::fs::File::open(&secret));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::PermissionDenied);
        // This thread has its rights as before.
        assert!(std::fs::File::open(&secret).is_ok());
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(work.open(|| std::fs::File::open(&secret)).is_ok());
        assert!(HostIds::of(std::process::id(), 0, 0).is_err());
    }
}
