//! The memory watch for hosts where no kernel holds the limit: how much memory all work has now. Each page counts once,
//! however many processes map it.
//!
//! - [`processes`]: the kernel's numbers for each process
//! - [`files`]: memory that belongs to files: file systems in memory, memfd, System V segments
//!
//! A look has two steps. The first adds up the mapped memory of every process. It counts a page once for each process
//! that maps it, so it never counts too little, and it is cheap. Only when that sum comes near the limit does the
//! second step ask the kernel to walk the page tables and to divide each page by the number of processes that map it.

mod files;
mod processes;

use crate::usage::Counters;
use files::{Descriptors, segments};
use processes::{Mapped, Process};
use std::time::{Duration, Instant};

/// The kernel keeps counts of each process that lag behind by up to 32 pages on each processor.
const LAG_OF_A_PROCESS: u64 = 256 << 10;
/// Walking page tables may take this part of one processor's time: a fifth.
const REST_AFTER_A_WALK: u32 = 4;
/// However long a walk took, the next comes after this time.
const LONGEST_REST: Duration = Duration::from_millis(500);

/// State that is kept from one look to the next.
#[derive(Default)]
pub struct Census {
    descriptors: Descriptors,
    /// The device number of the kernel's own file system in memory, asked once.
    anonymous: Option<u64>,
    /// When the page tables may be walked again, and the result of the last walk.
    walked: Option<(Instant, u64)>,
}

impl Census {
    /// Bytes of all work now. Exact where they are near `limit`; else perhaps too much, and then less than `limit`.
    pub fn count(&mut self, counters: &Counters, limit: u64) -> u64 {
        let found = processes::all();
        let held = counters.bytes_in_memory() + segments() + self.descriptors.count(&found);
        let mapped = found.iter().map(|process| process.mapped).sum::<Mapped>();
        let most = mapped.own + mapped.shared + held;
        let slack = limit / 8 + found.len() as u64 * LAG_OF_A_PROCESS;
        if most.saturating_add(slack) <= limit {
            return most;
        }
        let now = Instant::now();
        if let Some((again, before)) = self.walked
            && now < again
        {
            return before.min(limit);
        }
        let bytes = self.walk(&found, held, limit);
        let rest = (now.elapsed() * REST_AFTER_A_WALK).min(LONGEST_REST);
        self.walked = Some((Instant::now() + rest, bytes));
        bytes
    }

    fn walk(&mut self, found: &[Process], held: u64, limit: u64) -> u64 {
        let exact: Vec<(&Process, Mapped)> = found.iter().map(|process| (process, process.walk())).collect();
        let all = exact.iter().map(|(_, mapped)| *mapped).sum::<Mapped>();
        // A mapping may belong to a file that is counted anyway: all of it, or nothing.
        let least = all.own + all.shared.max(held);
        let most = all.own + all.shared + held;
        if least > limit || most <= limit {
            return if least > limit { least } else { most };
        }
        let Some(anonymous) = self.anonymous.or_else(files::anonymous_device) else { return most };
        self.anonymous = Some(anonymous);
        let is_counted = |inode: u64| self.descriptors.has(inode);
        let sharers = exact.iter().filter(|(_, mapped)| mapped.shared > 0);
        let of_no_file: u64 =
            sharers.map(|(process, mapped)| process.shared_of_no_file(anonymous, is_counted, *mapped)).sum();
        all.own + held + of_no_file
    }
}
