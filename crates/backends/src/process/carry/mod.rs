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
//! - [`tracee`]: a stopped process, and calls that it makes for us, each checked when it begins and when it ends
//! - [`idle`]: which process it is, and a check that it waits
//! - [`belongings`]: the open files that go along; [`as_work`]: the rights that open them
//! - [`birth`]: the three processes; [`chute`]: how they are handed descriptors
//! - [`settle`]: the steps of the copy before it goes on; the first half of them needs no root yet
//! - [`memory`]: its shared memory becomes its own
//! - [`machine`]: the same for QEMU with its VM: with all [`threads`], and [`equipment`] for its open files
//! - [`together`]: all of that on one processor
//! - [`pulse`]: a limit to the time that it is waited for
//! - [`looks`]: facts about a process, as the kernel tells them

mod as_work;
mod belongings;
mod birth;
mod chute;
mod equipment;
mod idle;
mod looks;
mod machine;
mod memory;
mod pulse;
mod settle;
mod threads;
mod together;
mod tracee;

pub use machine::{MachineCopy, Outfit, let_be_copied};

use super::create::{Streams, WayIn};
use crate::backend::{Carried, CarryError, Interpreter};
use as_work::HostIds;
use belongings::Listed;
use birth::{Arrival, Copy};
use paddock_protocol::Ids;
use pulse::Pulse;
use std::fs::File;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use together::Together;

/// How long one process may take for its steps: all of them are done in milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is checked if the copies have ended with their sandbox.
const LOOK: Duration = Duration::from_millis(20);

/// Where an interpreter is carried from, and where to.
pub struct Journey<'a> {
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
    pulse: Pulse,
}

/// A copy that stands in its sandbox.
struct Departed {
    copy: Copy,
    work: HostIds,
    stood_still: Duration,
    _pulse: Pulse,
}

/// As [`crate::backend::Landing::carry`].
pub fn carry(
    from: u32,
    way: &WayIn,
    interpreters: &[Interpreter],
    (until, alone): (Instant, &Mutex<()>),
    ready: &Receiver<()>,
) -> Vec<Result<Carried, CarryError>> {
    let bound = Together::bind_this();
    let ahead = interpreters.iter().enumerate().map(|(place, interpreter)| {
        let streams = way.streams.get(place).ok_or_else(|| CarryError::Unable("nobody awaits it".into()))?;
        let (to, ids, entrances) = (way.guest, way.ids, way.entrances.as_slice());
        let journey = Journey { from, to, ids, entrances, streams, interpreter: *interpreter };
        let ahead = journey.look_ahead()?;
        Ok((journey, ahead))
    });
    let ahead: Vec<Result<_, CarryError>> = ahead.collect();
    // All of them in one turn: while some stand in the fork, no other process that may never come is waited for.
    let turn = alone.lock().unwrap_or_else(PoisonError::into_inner);
    let departed = ahead.into_iter().map(|ahead| {
        let (journey, ahead) = ahead?;
        let departed = journey.depart(ahead, until)?;
        Ok((journey, departed))
    });
    let departed: Vec<Result<_, CarryError>> = departed.collect();
    drop(turn);
    let prepared = departed.into_iter().map(|departed| {
        let (journey, mut departed) = departed?;
        let _together = Together::bind(departed.copy.tracee.pid);
        let listed = journey.prepare(&mut departed.copy)?;
        Ok((journey, departed, listed))
    });
    let mut prepared: Vec<Result<_, CarryError>> = prepared.collect();
    drop(bound);
    let copies = prepared.iter_mut().flatten().map(|(_, departed, _)| &mut departed.copy);
    let is_there = becomes_ready(ready, copies.collect());
    let _bound = Together::bind_this();
    let arrived = prepared.into_iter().map(|prepared| {
        let (journey, departed, listed) = prepared?;
        match is_there {
            true => journey.arrive(departed, listed),
            false => Err(CarryError::Unable("its fork did not come to be".into())),
        }
    });
    arrived.collect()
}

/// Only the tracer can collect a tracee: a sandbox that ends before it is ready waits until we see that.
fn becomes_ready(ready: &Receiver<()>, mut copies: Vec<&mut Copy>) -> bool {
    loop {
        match ready.recv_timeout(LOOK) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if copies.iter_mut().any(|copy| copy.tracee.has_ended()) {
            return false;
        }
    }
}

impl Journey<'_> {
    fn look_ahead(&self) -> Result<Ahead, CarryError> {
        let pid = idle::find(self.from, self.interpreter.pid)?;
        let arrival = self.arrival()?;
        let pulse = Pulse::of_this().map_err(|source| tracee::host("set a timer", source))?;
        Ok(Ahead { pid, arrival, pulse })
    }

    /// `until`: how long it may take to be idle.
    ///
    /// Precondition: this thread is bound to one processor, and no other thread stops the interpreter.
    fn depart(&self, ahead: Ahead, until: Instant) -> Result<Departed, CarryError> {
        let Ahead { pid, arrival, pulse } = ahead;
        let mut source = idle::stop_when_idle(pid, self.from, until, &pulse)?;
        let stopped = Instant::now();
        let together = Together::bind(pid);
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
        Ok(Departed { copy, work: arrival.work, stood_still, _pulse: pulse })
    }

    /// Precondition: the guest there is ready, and this thread is bound.
    fn arrive(&self, departed: Departed, listed: Listed) -> Result<Carried, CarryError> {
        let Departed { mut copy, work, stood_still, _pulse } = departed;
        let together = Together::bind(copy.tracee.pid);
        let (pid, closed) = self.settle(&mut copy, listed, work)?;
        drop(together);
        copy.go_on()?;
        Ok(Carried { pid, closed, stood_still })
    }
}
