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
//! - [`birth`]: the three processes
//! - [`settle`]: what the copy is made to do before it goes on
//! - [`memory`]: what it shared becomes its own
//! - [`together`]: all of that on one processor
//! - [`pulse`]: that it is not waited for too long
//! - [`looks`]: what the kernel says of a process

mod as_work;
mod belongings;
mod birth;
mod idle;
mod looks;
mod memory;
mod pulse;
mod settle;
mod together;
mod tracee;

use super::create::Streams;
use crate::backend::{Carried, CarryError, Interpreter};
use paddock_protocol::Ids;
use pulse::Pulse;
use std::fs::File;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use together::Together;

/// How long one process may take for what it is told: all of it is done in milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

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

impl Journey<'_> {
    /// `until`: how long it may take to be idle. `alone`: held while the interpreter stands still.
    pub fn carry(&self, until: Instant, alone: &Mutex<()>) -> Result<Carried, CarryError> {
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
        let (mut child, belongings) = born?;
        left?;
        let inside = self.settle(&mut child)?;
        if let Some(together) = &together {
            together.release(child.tracee.pid);
        }
        child.go_on()?;
        Ok(Carried { pid: inside, closed: belongings.closed, stood_still })
    }
}
