//! The steps of a copy before it goes on: it enters the rest of its sandbox, takes its files, and gives up all rights.

use super::helper_processes::{Copy, FREE, SCRATCH};
use super::open_files::{Between, Listed, OpenFiles};
use super::process_facts::{Status, namespace};
use super::tracee::{Tracee, host};
use super::work_ids::HostIds;
use super::{Transfer, memory};
use crate::error::LiveForkError;
use paddock_protocol::{ANCHORED, NAMESPACES};
use std::os::fd::{AsFd, OwnedFd};

/// No root, no change of capabilities with the id, no raising of ambient ones; each locked.
const SECURE_BITS: u64 = 1 | 2 | 4 | 8 | 64 | 128;
/// Past the last capability of any kernel.
const CAPABILITIES: u64 = 64;
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// A file of the copy: its number, the number that it is to have, and true if an exec closes it.
type Kept = (i32, i32, bool);

impl Transfer<'_> {
    /// The steps that need nothing of the fork's sandbox. They are done while that sandbox comes up.
    pub fn prepare(&self, copy: &mut Copy) -> Result<Listed, LiveForkError> {
        let pipes = (self.interpreter.stdout, self.interpreter.stderr);
        let (pid, control, ours) = (copy.tracee.pid, copy.control, copy.ours.as_slice());
        let listed = Between { pid, streams: self.streams, pipes, control, ours }.list()?;
        memory::separate(&mut copy.tracee)?;
        give_up_bounds(&mut copy.tracee)?;
        Ok(listed)
    }

    /// Returns its pid inside, and the files that it has no more. When it goes on it has no capability and its own
    /// filter again.
    pub fn enter_sandbox(
        &self,
        copy: &mut Copy,
        listed: Listed,
        work: HostIds,
    ) -> Result<(u32, Vec<String>), LiveForkError> {
        let OpenFiles { kept, directory, closed } = listed.open_in(self.to, work)?;
        self.move_in(copy, &kept, &directory, Some(ANCHORED))?;
        self.give_up(copy)?;
        copy.forget_ours()?;
        Ok((self.check(copy, 1)?, closed))
    }

    /// The copy enters the rest of its sandbox, with these files and this directory. `below`: the root that it goes to.
    pub fn move_in(
        &self,
        copy: &mut Copy,
        kept: &[(i32, bool, OwnedFd)],
        directory: &OwnedFd,
        below: Option<&str>,
    ) -> Result<(), LiveForkError> {
        let free = copy.scratch + FREE;
        let namespaces = self.other_namespaces()?;
        let mut passed: Vec<_> = namespaces.iter().map(AsFd::as_fd).collect();
        passed.push(directory.as_fd());
        passed.extend(kept.iter().map(|(_, _, descriptor)| descriptor.as_fd()));
        let tracee = &mut copy.tracee;
        let received = copy.fd_transfer.pass(tracee, &passed)?;
        let (entered, rest) = received.split_at(namespaces.len());
        for number in entered {
            tracee.must("enter the fork's namespaces", libc::SYS_setns, &[*number as u64, 0])?;
        }
        if let Some(below) = below {
            let mut below = below.as_bytes().to_vec();
            below.push(0);
            tracee.write(free, &below)?;
            tracee.must("go below the anchor", libc::SYS_chroot, &[free])?;
        }
        tracee.must("go to its directory", libc::SYS_fchdir, &[rest[0] as u64])?;
        tracee.must("begin a session", libc::SYS_setsid, &[])?;
        let kept = kept.iter().zip(&rest[1..]);
        let kept: Vec<Kept> = kept.map(|((wanted, closes, _), number)| (*number, *wanted, *closes)).collect();
        take_files(tracee, &kept)
    }

    pub fn give_up(&self, copy: &mut Copy) -> Result<(), LiveForkError> {
        let free = copy.scratch + FREE;
        let tracee = &mut copy.tracee;
        let secure = [libc::PR_SET_SECUREBITS as u64, SECURE_BITS, 0, 0, 0];
        tracee.must("lock its secure bits", libc::SYS_prctl, &secure)?;
        let (uid, gid) = (u64::from(self.ids.work), u64::from(self.ids.work_group));
        tracee.write(free, &self.ids.work_group.to_ne_bytes())?;
        tracee.must("take the work's groups", libc::SYS_setgroups, &[1, free])?;
        tracee.must("take the work's group", libc::SYS_setresgid, &[gid, gid, gid])?;
        tracee.must("take the work's id", libc::SYS_setresuid, &[uid, uid, uid])?;
        let mut nothing = [0; 32];
        nothing[..4].copy_from_slice(&CAPABILITY_VERSION.to_ne_bytes());
        tracee.write(free, &nothing)?;
        tracee.must("give up its capabilities", libc::SYS_capset, &[free, free + 8])?;
        let (head, length) = copy.robust_list;
        if head != 0 {
            tracee.must("name its locks", libc::SYS_set_robust_list, &[head, length])?;
        }
        if let Some(rseq) = copy.rseq {
            tracee.must("name its processor's place", libc::SYS_rseq, &rseq.arguments())?;
        }
        let seen = [libc::PR_SET_DUMPABLE as u64, 1, 0, 0, 0];
        tracee.must("let its guest look at it", libc::SYS_prctl, &seen)?;
        Ok(())
    }

    /// Checks the copy by the kernel's facts, before it goes on; the guest checks once more.
    pub fn check(&self, copy: &Copy, threads: u32) -> Result<u32, LiveForkError> {
        let pid = copy.tracee.pid;
        let status = Status::of(pid).map_err(|source| host("look at the copy", source))?;
        let wrong = |what: &str| LiveForkError::Unable(format!("its copy is not as it should be: {what}"));
        let nothing = "0".repeat(16);
        for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            if status.field(name) != nothing {
                return Err(wrong(name));
            }
        }
        if status.field("NoNewPrivs") != "1" || status.field("Seccomp") != "2" {
            return Err(wrong("its filter"));
        }
        if status.number("PPid") != Some(self.to) || status.number("Threads") != Some(threads) {
            return Err(wrong("its parent"));
        }
        for (own, guest) in NAMESPACES {
            if namespace(pid, own).ok() != namespace(self.to as i32, guest).ok() {
                return Err(wrong(own));
            }
        }
        status.numbers().last().copied().ok_or_else(|| wrong("it has no number"))
    }
}

impl Copy {
    /// The last call: it unmaps the instruction that it is made with.
    pub fn forget_ours(&mut self) -> Result<(), LiveForkError> {
        let arguments = [self.scratch, SCRATCH];
        self.tracee.must("unmap what was ours", libc::SYS_munmap, &arguments).map(drop)
    }
}

/// Empties the bounding set. The process keeps its present capabilities until the end.
pub fn give_up_bounds(tracee: &mut Tracee) -> Result<(), LiveForkError> {
    for capability in 0..CAPABILITIES {
        let arguments = [libc::PR_CAPBSET_DROP as u64, capability, 0, 0, 0];
        if tracee.call(libc::SYS_prctl, &arguments)? != 0 {
            break;
        }
    }
    Ok(())
}

fn take_files(tracee: &mut Tracee, kept: &[Kept]) -> Result<(), LiveForkError> {
    for (number, wanted, closes) in kept {
        let flags = if *closes { libc::O_CLOEXEC } else { 0 };
        let arguments = [*number as u64, *wanted as u64, flags as u64];
        tracee.must("take a file", libc::SYS_dup3, &arguments)?;
    }
    let mut next = 0;
    let mut wanted: Vec<u64> = kept.iter().map(|(_, wanted, _)| *wanted as u64).collect();
    wanted.sort_unstable();
    for number in wanted.into_iter().chain([u64::from(u32::MAX)]) {
        if next < number {
            tracee.must("close what leads elsewhere", libc::SYS_close_range, &[next, number - 1, 0])?;
        }
        next = number + 1;
    }
    Ok(())
}
