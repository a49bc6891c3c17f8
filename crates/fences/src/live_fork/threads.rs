//! The other threads of a process. The kernel copies none of them: each is made again in the copy, where it waited.

use super::helper_processes::{Copy, Rseq, robust_list, rseq};
use super::process_facts::Status;
use super::timer::Timer;
use super::tracee::{Tracee, ask, host};
use crate::error::LiveForkError;
use std::time::{Duration, Instant};

/// The pause between two looks at a process that never waits.
const TIME_BETWEEN_LOOKS: Duration = Duration::from_micros(500);
/// The most threads that are copied, because the caller waits meanwhile.
const MOST_THREADS: usize = 64;
/// `PTRACE_GETSIGMASK` and `PTRACE_SETSIGMASK`, of a mask of this size.
const GET_MASK: libc::c_uint = 0x420a;
const SET_MASK: libc::c_uint = 0x420b;
const SIGNAL_MASK_BYTES: u64 = 8;
/// `NT_X86_XSTATE`: the registers that are not the general ones, in at most so many bytes.
const VECTORS: u64 = 0x202;
const MOST_VECTORS: usize = 16 * 1024;

/// A process of which every thread stands still. Let go, each goes on as if nothing had been.
pub struct Halted {
    /// Before the first one: the end of that is told only when all others were collected.
    others: Vec<Tracee>,
    pub main: Tracee,
}

/// One of the others, as it stood.
pub struct Thread {
    registers: libc::user_regs_struct,
    vectors: Vec<u8>,
    mask: u64,
    robust_list: (u64, u64),
    rseq: Option<Rseq>,
    /// The address at which its C library notes its thread id.
    tid: u64,
}

impl Halted {
    /// Stops the process where all threads wait for something. Until then none is disturbed for long.
    pub fn stop(pid: i32, until: Instant, timer: &Timer) -> Result<Halted, LiveForkError> {
        loop {
            match Halted::try_stop(pid, timer) {
                Err(LiveForkError::Busy(_)) if Instant::now() < until => {
                    std::thread::sleep(TIME_BETWEEN_LOOKS)
                }
                other => return other,
            }
        }
    }

    fn try_stop(pid: i32, timer: &Timer) -> Result<Halted, LiveForkError> {
        let found = tasks(pid)?;
        // The kernel itself would go on with the remaining time by another call, which does not tell what the first one
        // was. A later stop could then not make it again. So each call is made again from its beginning.
        let stop = |task: i32| {
            let mut stopped = Tracee::stop(task, Instant::now() + super::STEPS_TIMEOUT, timer)?;
            if stopped.stands_in().is_some_and(can_be_made_again) {
                stopped.stand_at(*stopped.stood_at());
            }
            Ok(stopped)
        };
        let others = found.iter().filter(|task| **task != pid).map(|task| stop(*task));
        let others = others.collect::<Result<Vec<_>, _>>()?;
        let halted = Halted { others, main: stop(pid)? };
        // One may have begun another in between; now none can.
        if tasks(pid)? != found {
            return Err(LiveForkError::Busy("it begins threads".into()));
        }
        let waits = |tracee: &Tracee| tracee.stands_in().is_some_and(can_be_made_again);
        match waits(&halted.main) && halted.others.iter().all(waits) {
            true => Ok(halted),
            false => Err(LiveForkError::Busy("it has something to do".into())),
        }
    }

    /// `tid`: the address of the first thread's id. The others have theirs at the same distance from their thread
    /// pointers.
    pub fn threads(&self, tid: Option<u64>) -> Result<Vec<Thread>, LiveForkError> {
        let unknown =
            || LiveForkError::Unable("its threads are not those of a C library that is known".into());
        let offset = tid.ok_or_else(unknown)?.wrapping_sub(self.main.stood_at().fs_base);
        let threads = self.others.iter().map(|tracee| {
            let registers = *tracee.stood_at();
            let tid = registers.fs_base.wrapping_add(offset);
            let mut noted = [0; 4];
            tracee.read(tid, &mut noted).map_err(|_| unknown())?;
            let number = Status::of(tracee.pid).ok().and_then(|status| status.numbers().last().copied());
            if number != Some(u32::from_ne_bytes(noted)) {
                return Err(unknown());
            }
            Ok(Thread {
                registers,
                vectors: vectors(tracee.pid)?,
                mask: mask(tracee.pid)?,
                robust_list: robust_list(tracee.pid),
                rseq: rseq(tracee.pid),
                tid,
            })
        });
        threads.collect()
    }

    pub fn let_go(self) -> Result<(), LiveForkError> {
        let Halted { others, main } = self;
        // All of them, even if one fails.
        let all = others.into_iter().chain([main]).map(Tracee::let_go);
        let failed: Vec<LiveForkError> = all.filter_map(Result::err).collect();
        failed.into_iter().next().map_or(Ok(()), Err)
    }
}

/// The calls that a thread may wait in. Made again from its beginning, each waits for the same event. If its time is
/// over, it returns at once.
fn can_be_made_again(call: i64) -> bool {
    [libc::SYS_futex, libc::SYS_ppoll, libc::SYS_poll].contains(&call)
}

fn tasks(pid: i32) -> Result<Vec<i32>, LiveForkError> {
    let gone = |_| LiveForkError::Unable("it ended meanwhile".into());
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).map_err(gone)?;
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut tasks: Vec<i32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    tasks.sort_unstable();
    if tasks.len() > MOST_THREADS {
        return Err(LiveForkError::Unable(format!("it has more than {MOST_THREADS} threads")));
    }
    Ok(tasks)
}

/// Makes the threads in the copy. None runs until it is let go.
///
/// Precondition: the copy has given up its excess rights, and still has its instruction.
pub fn make(copy: &mut Copy, threads: &[Thread]) -> Result<Vec<Tracee>, LiveForkError> {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_CHILD_SETTID
        | libc::CLONE_CHILD_CLEARTID;
    let made = threads.iter().map(|thread| {
        let mut made = copy.tracee.bear("make a thread of the copy", &[flags as u64, 0, 0, thread.tid, 0])?;
        made.site = copy.scratch;
        let (head, length) = thread.robust_list;
        if head != 0 {
            made.must("name its locks", libc::SYS_set_robust_list, &[head, length])?;
        }
        if let Some(rseq) = thread.rseq {
            made.must("name its processor's place", libc::SYS_rseq, &rseq.arguments())?;
        }
        set_vectors(made.pid, &thread.vectors)?;
        set_mask(made.pid, thread.mask)?;
        made.stand_at(thread.registers);
        Ok(made)
    });
    made.collect()
}

fn mask(task: i32) -> Result<u64, LiveForkError> {
    let mut mask = 0_u64;
    ask(GET_MASK, task, SIGNAL_MASK_BYTES, (&raw mut mask).addr() as u64)
        .map_err(|source| host("read a mask of signals", source))?;
    Ok(mask)
}

fn set_mask(task: i32, mask: u64) -> Result<(), LiveForkError> {
    ask(SET_MASK, task, SIGNAL_MASK_BYTES, (&raw const mask).addr() as u64)
        .map(drop)
        .map_err(|source| host("set a mask of signals", source))
}

fn vectors(task: i32) -> Result<Vec<u8>, LiveForkError> {
    let mut bytes = vec![0_u8; MOST_VECTORS];
    let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    ask(libc::PTRACE_GETREGSET, task, VECTORS, (&raw mut piece).addr() as u64)
        .map_err(|source| host("read vector registers", source))?;
    bytes.truncate(piece.iov_len);
    Ok(bytes)
}

fn set_vectors(task: i32, bytes: &[u8]) -> Result<(), LiveForkError> {
    let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    ask(libc::PTRACE_SETREGSET, task, VECTORS, (&raw mut piece).addr() as u64)
        .map(drop)
        .map_err(|source| host("set vector registers", source))
}
