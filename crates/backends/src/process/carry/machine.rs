//! The QEMU process that runs a VM, copied into another fence as it is: its memory, with all translated code, and its
//! threads.
//!
//! The VM is paused before, so that nothing is under way in it; each of QEMU's threads then waits in a system call that
//! can be made again. The copy's own monitor tells the copy to go on.

use super::birth::Copy;
pub use super::equipment::Outfit;
use super::equipment::{equip, is_unasked};
use super::looks::Mapping;
use super::pulse::Pulse;
use super::settle::give_up_bounds;
use super::threads::{Halted, Thread, make};
use super::together::Together;
use super::tracee::{Tracee, host};
use super::{Journey, memory};
use crate::backend::{CarryError, Interpreter};
use crate::process::create::{Streams, WayIn};
use crate::process::slot::start_time;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long it may take until each of its threads waits.
const SETTLES: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(1);

/// A copy that stands in its new fence, of whose inside it has nothing yet. Taken down when dropped.
pub struct MachineCopy<'a> {
    copy: Copy,
    threads: Vec<Thread>,
    journey: Journey<'a>,
    _pulse: Pulse,
}

impl<'a> MachineCopy<'a> {
    /// `from`: the guest of the fence around the VM, by the host's number; it has one child.
    ///
    /// Precondition: the VM is paused, and no other thread copies it at the same time.
    pub fn depart(from: u32, way: &'a WayIn, streams: &'a Streams) -> Result<MachineCopy<'a>, CarryError> {
        let bound = Together::bind_this();
        let (to, ids, entrances) = (way.guest, way.ids, way.entrances.as_slice());
        // Neither the interpreter's number nor its pipes are used for a VM.
        let interpreter = Interpreter { pid: 0, stdout: 0, stderr: 0 };
        let journey = Journey { from, to, ids, entrances, streams, interpreter };
        let arrival = journey.arrival()?;
        let pulse = Pulse::of_this().map_err(|source| host("set a timer", source))?;
        let pid = only_child(from)?;
        let until = Instant::now() + SETTLES;
        while !is_unasked(pid)? {
            if Instant::now() > until {
                return Err(CarryError::Busy("somebody asks its monitor".into()));
            }
            std::thread::sleep(LOOK);
        }
        let mut halted = Halted::stop(pid, until, &pulse)?;
        let together = Together::bind(pid);
        let born = journey.bear(&mut halted.main, &arrival);
        if let (Some(together), Ok(copy)) = (&together, &born) {
            together.release(copy.tracee.pid);
        }
        drop(together);
        let threads = born.as_ref().ok().map(|copy| halted.threads(copy.tid));
        let left = halted.let_go();
        drop(bound);
        let (copy, threads) = (born?, threads.transpose()?.unwrap_or_default());
        left?;
        Ok(MachineCopy { copy, threads, journey, _pulse: pulse })
    }

    /// The copy takes its place there, and waits for its monitor's command.
    ///
    /// Precondition: the guest there is ready; this is the thread that made it.
    pub fn arrive(self, outfit: &Outfit) -> Result<(), CarryError> {
        let MachineCopy { mut copy, threads, journey, _pulse } = self;
        let _bound = Together::bind_this();
        let together = Together::bind(copy.tracee.pid);
        memory::separate(&mut copy.tracee)?;
        give_up_bounds(&mut copy.tracee)?;
        let equipped = equip(copy.tracee.pid, &copy.ours, outfit)?;
        let root = File::open(format!("/proc/{}/root", journey.to)).map(OwnedFd::from);
        let root = root.map_err(|source| host("open the root of the copy's fence", source))?;
        journey.move_in(&mut copy, &equipped, &root, None)?;
        journey.give_up(&mut copy)?;
        let made = make(&mut copy, &threads)?;
        // If a step fails, taken apart in this order: see `Halted`.
        let mut all = Whole { made, copy };
        all.copy.forget_ours()?;
        journey.check(&all.copy, 1 + threads.len() as u32)?;
        if let Some(together) = &together {
            all.made.iter().for_each(|thread| together.release(thread.pid));
        }
        drop(together);
        all.made.drain(..).try_for_each(Tracee::let_go)?;
        all.copy.go_on()
    }
}

/// QEMU keeps its memory from being copied to children, because it expects to start some. In a fence it starts none.
///
/// Precondition: as for [`MachineCopy::depart`].
pub fn let_be_copied(from: u32) -> Result<(), CarryError> {
    let pulse = Pulse::of_this().map_err(|source| host("set a timer", source))?;
    let pid = only_child(from)?;
    let mut halted = Halted::stop(pid, Instant::now() + SETTLES, &pulse)?;
    let held_back = held_back(pid).map_err(|source| host("look at the memory of a machine", source));
    let told = held_back.and_then(|all| {
        all.into_iter().try_for_each(|(start, length)| {
            let arguments = [start, length, libc::MADV_DOFORK as u64];
            halted.main.must("let its memory be copied", libc::SYS_madvise, &arguments).map(drop)
        })
    });
    halted.let_go().and(told)
}

/// Mappings that a copy would not have, by where they begin and how long they are.
fn held_back(pid: i32) -> std::io::Result<Vec<(u64, u64)>> {
    let text = std::fs::read(format!("/proc/{pid}/smaps"))?;
    let (mut at, mut found) = (None, Vec::new());
    for line in String::from_utf8_lossy(&text).lines() {
        match line.strip_prefix("VmFlags:") {
            // Devices are never copied; it has none.
            Some(flags) if flags.split_whitespace().any(|flag| flag == "dc") => found.extend(at.take()),
            Some(_) => {}
            None => {
                at = Mapping::parse(line).map(|mapping| (mapping.start, mapping.end - mapping.start)).or(at)
            }
        }
    }
    Ok(found)
}

struct Whole {
    made: Vec<Tracee>,
    copy: Copy,
}

/// The guest around a VM starts no other process. The helper processes of the last copy may not be collected yet.
fn only_child(guest: u32) -> Result<i32, CarryError> {
    let children = std::fs::read_to_string(format!("/proc/{guest}/task/{guest}/children"))
        .map_err(|source| host("list the guest's children", source))?;
    let numbers = children.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
    let mut numbers = numbers.filter(|number| start_time(*number).is_some()).map(|number| number as i32);
    match (numbers.next(), numbers.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(CarryError::Unable("it ended meanwhile".into())),
    }
}
