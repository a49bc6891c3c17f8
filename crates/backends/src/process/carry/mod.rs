//! An interpreter that waits for its next call is forked into another sandbox, as it stands.
//!
//! The engine stops it, has it make one copy of itself by system calls that are put into its registers, and lets it go on
//! waiting. What was copied has not run an instruction of its own since: it is moved into its sandbox, given other files
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
//! - [`idle`]: which process it is, and whether it waits
//! - [`belongings`]: what of its files goes along; [`as_work`]: by whose rights
//! - [`birth`]: the three processes; [`chute`]: how they are handed descriptors
//! - [`settle`]: what the copy is made to do before it goes on, of which the first half takes no root yet
//! - [`memory`]: what it shared becomes its own
//! - [`together`]: all of that on one processor
//! - [`pulse`]: that it is not waited for too long
//! - [`looks`]: what the kernel says of a process

mod as_work;
mod belongings;
mod birth;
mod chute;
mod idle;
mod looks;
mod memory;
mod pulse;
mod settle;
mod together;
mod tracee;

use super::create::{Streams, WayIn};
use crate::backend::{Carried, CarryError, Interpreter};
use as_work::HostIds;
use belongings::Listed;
use birth::Copy;
use paddock_protocol::Ids;
use pulse::Pulse;
use std::fs::File;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use together::Together;

/// How long one process may take for what it is told: all of it is done in milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked whether copies that stand in a sandbox have ended with it.
const LOOK: Duration = Duration::from_millis(20);

/// Where an interpreter is carried from, and where to.
pub struct Journey<'a> {
    /// The guests, by the host's numbers.
    pub from: u32,
    pub to: u32,
    /// Of the work, in the sandbox that it comes to.
    pub ids: Ids,
    /// By which a process joins that sandbox's cgroups.
    pub entrances: &'a [File],
    pub streams: &'a Streams,
    pub interpreter: Interpreter,
}

/// A copy that stands in its sandbox, and waits for the rest of that.
struct Departed {
    copy: Copy,
    listed: Listed,
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
    let depart = |(place, interpreter): (usize, &Interpreter)| {
        let streams = way.streams.get(place).ok_or_else(|| CarryError::Unable("nobody awaits it".into()))?;
        let (to, ids, entrances) = (way.guest, way.ids, way.entrances.as_slice());
        let journey = Journey { from, to, ids, entrances, streams, interpreter: *interpreter };
        let departed = journey.depart(until, alone)?;
        Ok((journey, departed))
    };
    let mut departed: Vec<Result<_, CarryError>> = interpreters.iter().enumerate().map(depart).collect();
    let is_there =
        becomes_ready(ready, departed.iter_mut().flatten().map(|(_, departed)| departed).collect());
    let arrive = |(journey, departed): (Journey<'_>, Departed)| match is_there {
        true => journey.arrive(departed),
        false => Err(CarryError::Unable("its fork did not come to be".into())),
    };
    departed.into_iter().map(|departed| departed.and_then(arrive)).collect()
}

/// Nobody else can collect what we trace: a sandbox that ends before it is ready waits for us to see that.
fn becomes_ready(ready: &Receiver<()>, mut departed: Vec<&mut Departed>) -> bool {
    loop {
        match ready.recv_timeout(LOOK) {
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if departed.iter_mut().any(|departed| departed.copy.tracee.has_ended()) {
            return false;
        }
    }
}

impl Journey<'_> {
    /// `until`: how long it may take to be idle. `alone`: held while the interpreter stands still.
    fn depart(&self, until: Instant, alone: &Mutex<()>) -> Result<Departed, CarryError> {
        let pid = idle::find(self.from, self.interpreter.pid)?;
        let arrival = self.look_ahead()?;
        let _bound = Together::bind_this();
        let pulse = Pulse::of_this().map_err(|source| tracee::host("set a timer", source))?;
        let turn = alone.lock().unwrap_or_else(PoisonError::into_inner);
        let mut source = idle::stop_when_idle(pid, self.from, until, &pulse)?;
        let stopped = Instant::now();
        let together = Together::bind(pid);
        let born = self.bear(&mut source, &arrival);
        // It goes on whatever came of it, as if nothing had been.
        if let Some(together) = &together {
            together.release(pid);
        }
        let left = source.let_go();
        let stood_still = stopped.elapsed();
        drop(turn);
        let mut copy = born?;
        left?;
        let listed = self.prepare(&mut copy)?;
        if let Some(together) = &together {
            together.release(copy.tracee.pid);
        }
        Ok(Departed { copy, listed, work: arrival.work, stood_still, _pulse: pulse })
    }

    /// Precondition: the guest there is ready.
    fn arrive(&self, departed: Departed) -> Result<Carried, CarryError> {
        let Departed { mut copy, listed, work, stood_still, _pulse } = departed;
        let _bound = Together::bind_this();
        let together = Together::bind(copy.tracee.pid);
        let (pid, closed) = self.settle(&mut copy, listed, work)?;
        drop(together);
        copy.go_on()?;
        Ok(Carried { pid, closed, stood_still })
    }
}
