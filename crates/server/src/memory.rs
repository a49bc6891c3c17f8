//! Memory that large requests leave behind.
//!
//! A body of JSON becomes many small pieces, and the allocator keeps freed pieces for the thread that asked for them: a
//! hundred thousand variables, sent once to each thread, would stay as a hundred megabytes for good.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// From this size on, freed memory is given back after a body was read.
const LARGE: usize = 256 << 10;
/// By then its answer is out; and many at once are one look.
const LATER: Duration = Duration::from_secs(1);

static AWAITED: AtomicBool = AtomicBool::new(false);

/// To be told of every body that was read whole.
pub fn was_read(bytes: usize) {
    if bytes < LARGE || AWAITED.swap(true, Ordering::AcqRel) {
        return;
    }
    tokio::spawn(async {
        tokio::time::sleep(LATER).await;
        // Reset before the memory is given back: a body that comes meanwhile starts the next round.
        AWAITED.store(false, Ordering::Release);
        let _ = tokio::task::spawn_blocking(give_back).await;
    });
}

fn give_back() {
    // SAFETY: takes no pointer; it only returns to the kernel what is free, under the allocator's own locks.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
