//! One server per state directory.

use super::StoreError;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Goes with the process, however it ends.
pub struct ServerLock {
    _file: File,
}

impl ServerLock {
    pub fn take(state: &Path) -> Result<ServerLock, StoreError> {
        let path = state.join("server.lock");
        let failed = |source| StoreError::from_io(&path, source);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { state: state.to_path_buf(), pid: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        // Only a help for people: on a full disk the lock holds all the same, and the database says what is wrong.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(ServerLock { _file: file })
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
