//! An interpreter that waits for its next call is forked into another sandbox, as it stands.
//!
//! The engine stops it, has it make one copy of itself by system calls that are put into its registers, and lets it go on
//! waiting. The copy has not run an instruction of its own since: it is moved into its sandbox, given other files
//! and streams, and stripped of everything, before it goes on. The kernel's copy on write does the rest.
//!
//! Three processes are needed, because a pid namespace is entered by children only, and because the one that stays has to
//! be an orphan in there, which is the guest's child then:
//!
//! - the first shares the interpreter's memory; it is given the descriptors, and enters the user and pid namespaces
//! - the second, its child, is in the pid namespace, and exists only to end
//! - the third is the copy
//!
//! - [`availability`]: where it can be done
//! - [`tracee`]: a stopped process, and calls that it makes for us, each checked when it begins and when it ends
//! - [`idle`]: which process it is, and a check that it waits
//! - [`open_files`]: the open files that go along; [`work_ids`]: the rights that open them
//! - [`helper_processes`]: the three processes; [`fd_transfer`]: how they are handed descriptors
//! - [`enter_sandbox`]: the steps of the copy before it goes on; the first half of them needs no root yet
//! - [`memory`]: its shared memory becomes its own
//! - [`vm`]: the same for QEMU with its VM: with all [`threads`], and [`vm_open_files`] for its open files
//! - [`one_processor`]: all of that on one processor
//! - [`timer`]: a limit to the time that it is waited for
//! - [`process_facts`]: facts about a process, as the kernel tells them

pub mod availability;
mod enter_sandbox;
mod fd_transfer;
mod helper_processes;
mod idle;
mod memory;
mod one_processor;
mod open_files;
mod process_facts;
mod threads;
mod timer;
mod tracee;
mod vm;
mod vm_open_files;
mod work_ids;

pub use vm::{VmCopy, VmFiles, let_be_copied};

use crate::error::LiveForkError;
use crate::fence::{CopiedInterpreter, Interpreter};
use crate::shared::way_in::{Streams, WayIn};
use helper_processes::{Arrival, Copy};
use one_processor::OneProcessor;
use open_files::Listed;
use paddock_protocol::Ids;
use std::fs::File;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use timer::Timer;
use work_ids::HostIds;

/// How long one process may take for its steps: all of them are done in milliseconds.
const STEPS_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is checked if the copies have ended with their sandbox.
const TIME_BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Where an interpreter is copied from, and where to.
pub struct Transfer<'a> {
    /// The guests, by the host's numbers.
    pub from: u32,
    pub to: u32,
    /// The ids of the work, in the destination.
    pub ids: Ids,
    /// The files by which a process joins the destination's cgroups.
    pub entrances: &'a [File],
    pub streams: &'a Streams,
    pub interpreter: Interpreter,
}

/// The facts that are looked up before the interpreter is stopped.
struct Ahead {
    /// The interpreter's pid on the host.
    pid: i32,
    arrival: Arrival,
    timer: Timer,
}

/// A copy that stands in its sandbox.
struct Departed {
    copy: Copy,
    work: HostIds,
    stood_still: Duration,
    _timer: Timer,
}

/// As [`crate::fence::Landing::copy_interpreters`].
pub fn copy_interpreters(
    from: u32,
    way: &WayIn,
    interpreters: &[Interpreter],
    (until, alone): (Instant, &Mutex<()>),
    ready: &Receiver<()>,
) -> Vec<Result<CopiedInterpreter, LiveForkError>> {
    let bound = OneProcessor::bind_this();
    let ahead = interpreters.iter().enumerate().map(|(place, interpreter)| {
        let streams =
            way.streams.get(place).ok_or_else(|| LiveForkError::Unable("nobody awaits it".into()))?;
        let (to, ids, entrances) = (way.guest, way.ids, way.entrances.as_slice());
        let transfer = Transfer { from, to, ids, entrances, streams, interpreter: *interpreter };
        let ahead = transfer.look_ahead()?;
        Ok((transfer, ahead))
    });
    let ahead: Vec<Result<_, LiveForkError>> = ahead.collect();
    // All of them in one turn: while some stand in the fork, no other process that may never come is waited for.
    let turn = alone.lock().unwrap_or_else(PoisonError::into_inner);
    let departed = ahead.into_iter().map(|ahead| {
        let (transfer, ahead) = ahead?;
        let departed = transfer.depart(ahead, until)?;
        Ok((transfer, departed))
    });
    let departed: Vec<Result<_, LiveForkError>> = departed.collect();
    drop(turn);
    let prepared = departed.into_iter().map(|departed| {
        let (transfer, mut departed) = departed?;
        let _together = OneProcessor::bind(departed.copy.tracee.pid);
        let listed = transfer.prepare(&mut departed.copy)?;
        Ok((transfer, departed, listed))
    });
    let mut prepared: Vec<Result<_, LiveForkError>> = prepared.collect();
    drop(bound);
    let copies = prepared.iter_mut().flatten().map(|(_, departed, _)| &mut departed.copy);
    let is_there = becomes_ready(ready, copies.collect());
    let _bound = OneProcessor::bind_this();
    let arrived = prepared.into_iter().map(|prepared| {
        let (transfer, departed, listed) = prepared?;
        match is_there {
            true => transfer.arrive(departed, listed),
            false => Err(LiveForkError::Unable("its fork did not come to be".into())),
        }
    });
    arrived.collect()
}

/// Only the tracer can collect a tracee: a sandbox that ends before it is ready waits until we see that.
fn becomes_ready(ready: &Receiver<()>, mut copies: Vec<&mut Copy>) -> bool {
    loop {
        match ready.recv_timeout(TIME_BETWEEN_LOOKS) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if copies.iter_mut().any(|copy| copy.tracee.has_ended()) {
            return false;
        }
    }
}

impl Transfer<'_> {
    fn look_ahead(&self) -> Result<Ahead, LiveForkError> {
        let pid = idle::find(self.from, self.interpreter.pid)?;
        let arrival = self.arrival()?;
        let timer = Timer::of_this().map_err(|source| tracee::host("set a timer", source))?;
        Ok(Ahead { pid, arrival, timer })
    }

    /// `until`: how long it may take to be idle.
    ///
    /// Precondition: this thread is bound to one processor, and no other thread stops the interpreter.
    fn depart(&self, ahead: Ahead, until: Instant) -> Result<Departed, LiveForkError> {
        let Ahead { pid, arrival, timer } = ahead;
        let mut source = idle::stop_when_idle(pid, self.from, until, &timer)?;
        let stopped = Instant::now();
        let together = OneProcessor::bind(pid);
        let born = self.bear(&mut source, &arrival);
        // The interpreter goes on in any case, as if nothing had been.
        if let (Some(together), Ok(copy)) = (&together, &born) {
            together.release(copy.tracee.pid);
        }
        drop(together);
        let left = source.let_go();
        let stood_still = stopped.elapsed();
        let copy = born?;
        left?;
        Ok(Departed { copy, work: arrival.work, stood_still, _timer: timer })
    }

    /// Precondition: the guest there is ready, and this thread is bound.
    fn arrive(&self, departed: Departed, listed: Listed) -> Result<CopiedInterpreter, LiveForkError> {
        let Departed { mut copy, work, stood_still, _timer } = departed;
        let together = OneProcessor::bind(copy.tracee.pid);
        let (pid, closed) = self.enter_sandbox(&mut copy, listed, work)?;
        drop(together);
        copy.go_on()?;
        Ok(CopiedInterpreter { pid, closed, stood_still })
    }
}
