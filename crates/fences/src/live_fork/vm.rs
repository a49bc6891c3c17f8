//! The QEMU process that runs a VM, copied into another fence as it is: its memory, with all translated code, and its
//! threads.
//!
//! The VM is paused before, so that nothing is under way in it; each of QEMU's threads then waits in a system call that
//! can be made again. The copy's own monitor tells the copy to go on.

use super::enter_sandbox::give_up_bounds;
use super::helper_processes::Copy;
use super::one_processor::OneProcessor;
use super::process_facts::Mapping;
use super::threads::{Halted, Thread, make};
use super::timer::Timer;
use super::tracee::{Tracee, host};
pub use super::vm_open_files::VmFiles;
use super::vm_open_files::{is_unasked, open_vm_files};
use super::{Transfer, memory};
use crate::error::LiveForkError;
use crate::fence::Interpreter;
use crate::shared::slot::start_time;
use crate::shared::way_in::{Streams, WayIn};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long it may take until each of its threads waits.
const PATIENCE_FOR_THREADS: Duration = Duration::from_secs(2);
const TIME_BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// A copy that stands in its new fence, of whose inside it has nothing yet. Taken down when dropped.
pub struct VmCopy<'a> {
    copy: Copy,
    threads: Vec<Thread>,
    transfer: Transfer<'a>,
    _timer: Timer,
}

impl<'a> VmCopy<'a> {
    /// `from`: the guest of the fence around the VM, by the host's number; it has one child.
    ///
    /// Precondition: the VM is paused, and no other thread copies it at the same time.
    pub fn depart(from: u32, way: &'a WayIn, streams: &'a Streams) -> Result<VmCopy<'a>, LiveForkError> {
        let bound = OneProcessor::bind_this();
        let (to, ids, entrances) = (way.guest, way.ids, way.entrances.as_slice());
        // Neither the interpreter's number nor its pipes are used for a VM.
        let interpreter = Interpreter { pid: 0, stdout: 0, stderr: 0 };
        let transfer = Transfer { from, to, ids, entrances, streams, interpreter };
        let arrival = transfer.arrival()?;
        let timer = Timer::of_this().map_err(|source| host("set a timer", source))?;
        let pid = only_child(from)?;
        let until = Instant::now() + PATIENCE_FOR_THREADS;
        while !is_unasked(pid)? {
            if Instant::now() > until {
                return Err(LiveForkError::Busy("somebody asks its monitor".into()));
            }
            std::thread::sleep(TIME_BETWEEN_LOOKS);
        }
        let mut halted = Halted::stop(pid, until, &timer)?;
        let together = OneProcessor::bind(pid);
        let born = transfer.bear(&mut halted.main, &arrival);
        if let (Some(together), Ok(copy)) = (&together, &born) {
            together.release(copy.tracee.pid);
        }
        drop(together);
        let threads = born.as_ref().ok().map(|copy| halted.threads(copy.tid));
        let left = halted.let_go();
        drop(bound);
        let (copy, threads) = (born?, threads.transpose()?.unwrap_or_default());
        left?;
        Ok(VmCopy { copy, threads, transfer, _timer: timer })
    }

    /// The copy takes its place there, and waits for its monitor's command.
    ///
    /// Precondition: the guest there is ready; this is the thread that made it.
    pub fn arrive(self, vm_files: &VmFiles) -> Result<(), LiveForkError> {
        let VmCopy { mut copy, threads, transfer, _timer } = self;
        let _bound = OneProcessor::bind_this();
        let together = OneProcessor::bind(copy.tracee.pid);
        memory::separate(&mut copy.tracee)?;
        give_up_bounds(&mut copy.tracee)?;
        let opened = open_vm_files(copy.tracee.pid, &copy.ours, vm_files)?;
        let root = File::open(format!("/proc/{}/root", transfer.to)).map(OwnedFd::from);
        let root = root.map_err(|source| host("open the root of the copy's fence", source))?;
        transfer.move_in(&mut copy, &opened, &root, None)?;
        transfer.give_up(&mut copy)?;
        let made = make(&mut copy, &threads)?;
        // If a step fails, taken apart in this order: see `Halted`.
        let mut all = Whole { made, copy };
        all.copy.forget_ours()?;
        transfer.check(&all.copy, 1 + threads.len() as u32)?;
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
/// Precondition: as for [`VmCopy::depart`].
pub fn let_be_copied(from: u32) -> Result<(), LiveForkError> {
    let timer = Timer::of_this().map_err(|source| host("set a timer", source))?;
    let pid = only_child(from)?;
    let mut halted = Halted::stop(pid, Instant::now() + PATIENCE_FOR_THREADS, &timer)?;
    let held_back = held_back(pid).map_err(|source| host("look at the memory of a VM", source));
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
fn only_child(guest: u32) -> Result<i32, LiveForkError> {
    let children = std::fs::read_to_string(format!("/proc/{guest}/task/{guest}/children"))
        .map_err(|source| host("list the guest's children", source))?;
    let numbers = children.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
    let mut numbers = numbers.filter(|number| start_time(*number).is_some()).map(|number| number as i32);
    match (numbers.next(), numbers.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(LiveForkError::Unable("it ended meanwhile".into())),
    }
}
