//! Builds the inside of the fence, in the order that makes each step safe:
//!
//! 1. [`sources`]: open the host's directories and files, with the caller's rights
//! 2. become root of the namespace, cut the mounts off from the host's
//! 3. [`root`]: a new root in memory, or an overlay; [`steps`] fill it, each at its [`place`]; [`system_files`]:
//!    programs of the host, in a root without an image; [`kernel`] adds /proc and /dev
//! 4. move in, drop the old root
//! 5. [`network`]: the link to the gate, of a sandbox that has one
//! 6. [`rights`]: become an id that no work has, keep only the rights that a supervisor needs
//!
//! Or, with a kernel in user space between: [`stage`] instead of 4, for that kernel's runtime; and [`built_root`] for the
//! guest behind it, whose inside is built already.

mod built_root;
mod clock;
mod kernel;
pub mod network;
mod place;
mod rights;
mod root;
mod sources;
mod stage;
mod steps;
mod system_files;
mod users;

use crate::agent::Entrance;
use crate::failure::{During, Outcome};
use crate::system::{MountLimits, limit_mount};
use crate::trees::Trees;
use crate::usage::Counters;
use crate::weaken::without;
use crate::work::Confinement;
use paddock_protocol::{ANCHORED, DiskPlan, GRANTED, Plan, Source, Step};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

pub use built_root::enter_built_root;
pub use stage::{Stage, enter as enter_stage};
pub use users::{KnownUser, find_by_id as find_user_by_id, find_by_name as find_user_by_name};

/// Any directory of the host that is sure to exist, other than the one that the new root is put together on.
const ANCHORING: &str = "/dev";

/// The agent's own view of the fence once it stands.
pub struct Inside {
    pub confinement: Confinement,
    pub counters: Counters,
    pub time_namespace: bool,
    /// The socket on which the next host comes.
    pub listener: Option<Entrance>,
    pub trees: Trees,
    /// Our ends of the streams of the processes that come in from outside; each is taken once.
    pub awaited: Vec<Option<Awaited>>,
    /// The socket of the zygote to its host.
    pub zygote: Option<OwnedFd>,
    /// When the inside was built, by the clock that stamps files.
    pub ready_at: u64,
    /// The sandbox's ends of the link to the gate, for the next host.
    pub network: Option<network::Ends>,
    /// Files that stay open for as long as the guest lives.
    pub kept: Vec<OwnedFd>,
    /// Where the ordinary user becomes root.
    pub sudo: Option<Door>,
    /// The file in which the VM's kernel counts the processes that it killed for want of memory.
    pub memory_events: Option<OwnedFd>,
}

impl Inside {
    /// True if it is in a VM, whose kernel serves no other sandbox.
    pub fn is_in_a_vm(&self) -> bool {
        self.memory_events.is_some()
    }
}

/// The socket by which the ordinary user becomes root.
pub struct Door {
    pub socket: OwnedFd,
    /// Its id; root's, which is let in anyway, if no user has the name.
    pub user: u32,
    /// The executable that is started for it.
    pub program: String,
}

/// The streams of a process that is to come.
pub struct Awaited {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub control: OwnedFd,
}

/// `passed` are the descriptors that came with the plan.
pub fn enter(plan: Plan, mut passed: Vec<OwnedFd>, control: i32) -> Outcome<Inside> {
    let mounts = passed.split_off(plan.cgroup_descriptors.min(passed.len()));
    let cgroups = passed;
    let mut sources = sources::open(&plan, mounts)?;
    let listener = plan.listener.map(|place| sources.take(&Source::Descriptor(place))).transpose()?;
    let kept = plan
        .keep
        .iter()
        .map(|place| sources.take(&Source::Descriptor(*place)))
        .collect::<Outcome<Vec<_>>>()?;
    let mut take = |place: usize| sources.take(&Source::Descriptor(place));
    let mut awaited = Vec::new();
    for places in &plan.awaited {
        awaited.push(Some(Awaited {
            stdout: take(places.stdout)?,
            stderr: take(places.stderr)?,
            control: take(places.control)?,
        }));
    }
    let anchor = plan.anchor.map(&mut take).transpose()?;
    let zygote = plan.zygote.map(&mut take).transpose()?;
    let memory_events = plan.memory_events.map(&mut take).transpose()?;
    let handover = plan.link.as_ref().map(|link| take(link.handover)).transpose()?;
    let (new_root, mut trees) = build(&plan, &mut sources, None)?;
    let anchor = match anchor {
        Some(anchor) => Some(move_in_below(&anchor, &new_root)?),
        None => {
            move_in(&new_root)?;
            None
        }
    };
    drop((new_root, sources));
    let streams =
        awaited.iter().flatten().flat_map(|streams| [&streams.stdout, &streams.stderr, &streams.control]);
    let lasting = cgroups.iter().chain(&kept).chain(&listener).chain(&zygote).chain(&handover);
    let lasting = lasting.chain(&memory_events).chain(streams).chain(&anchor).chain(&trees.sudo_door);
    close_all_but(control, lasting.chain(trees.descriptors()))?;

    if !without("uts-namespace") {
        rustix::system::sethostname(plan.hostname.as_bytes()).during(|| "set the host name".into())?;
    }
    if plan.own_network {
        crate::system::raise_loopback().during(|| "bring loopback up".into())?;
    }
    let network = match (&plan.link, &handover) {
        (Some(link), Some(handover)) => {
            let ends = network::raise(link)?;
            ends.hand_over(handover).during(|| "hand the link over".into())?;
            (listener.is_some() || ends.near.is_some()).then_some(ends)
        }
        _ => None,
    };
    drop(handover);
    let time_namespace = plan.time_namespace && (without("time-namespace") || clock::start_at_zero().is_ok());
    // In a VM no time is compared with a clock of the host.
    if time_namespace && memory_events.is_some() {
        clock::share_with_the_work();
    }
    let counters = counters(&plan);
    let sudo = trees.sudo_door.take().zip(plan.become_root.as_ref()).map(|(socket, sudo)| Door {
        socket,
        user: match &sudo.name {
            Some(name) => find_user_by_name(name).map_or(0, |user| user.uid),
            None => sudo.uid,
        },
        program: sudo.program.clone(),
    });
    let confinement = Confinement::prepare(&plan, cgroups, &trees, anchor.as_ref())?;
    drop(anchor);
    rights::become_guest(plan.ids, zygote.is_some())?;
    let ready_at = if plan.has_lasting_disk() { ready_at(trees.layer.as_ref())? } else { 0 };
    Ok(Inside {
        confinement,
        counters,
        time_namespace,
        listener: listener.map(Entrance::Listener),
        trees,
        awaited,
        zygote,
        ready_at,
        network,
        kept,
        sudo,
        memory_events,
    })
}

/// The root is the disk, or an overlay, which answers for its upper layer: the disk. No link of an image leads away from it.
fn counters(plan: &Plan) -> Counters {
    let watched = plan.watch_memory.is_some();
    let of_the_caller = plan.steps.iter().filter_map(|step| match step {
        Step::Tmpfs { target, .. } => Some(target.as_str()),
        _ => None,
    });
    let in_memory: Vec<&str> = of_the_caller.chain(["/dev/shm"]).filter(|_| watched).collect();
    Counters::open(matches!(plan.disk, DiskPlan::Memory { .. }).then_some("/"), &in_memory)
}

/// The new root, filled, and the trees that it consists of; `place` as in [`root::mount`].
fn build(plan: &Plan, sources: &mut sources::Sources, place: Option<&str>) -> Outcome<(OwnedFd, Trees)> {
    rights::become_root(plan.ids)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private).during(|| "cut the mounts off from the host's".into())?;
    let (new_root, mut trees) = root::mount(plan, sources, place)?;
    for step in &plan.steps {
        steps::perform(step, &new_root, plan.ids, sources, &mut trees)?;
    }
    Ok((new_root, trees))
}

fn ready_at(layer: Option<&OwnedFd>) -> Outcome<u64> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let tree = match layer {
        Some(layer) => openat(layer, ".", flags, Mode::empty()),
        None => openat(CWD, "/", flags, Mode::empty()),
    };
    tree.and_then(|tree| paddock_guest_system::clock::file_time(&tree)).during(|| "note the time".into())
}

/// pivot_root onto itself, then the old root is on top and can be let go.
fn move_in(new_root: &OwnedFd) -> Outcome<()> {
    rustix::process::fchdir(new_root).during(|| "go to the new root".into())?;
    rustix::process::pivot_root(".", ".").during(|| "pivot_root".into())?;
    if !without("own-root") {
        rustix::mount::unmount(".", UnmountFlags::DETACH).during(|| "let the old root go".into())?;
    }
    rustix::process::chdir("/").during(|| "go to /".into())
}

/// The same with the anchor above the root: an empty, read-only directory that no process inside can reach. The work's
/// rights are granted below the directory that is returned.
fn move_in_below(anchor: &OwnedFd, new_root: &OwnedFd) -> Outcome<OwnedFd> {
    limit_mount(anchor.as_fd(), MountLimits::host(true, false)).during(|| "restrict the anchor".into())?;
    root::attach(anchor.as_fd(), CWD, ANCHORING).during(|| "mount the anchor".into())?;
    root::attach(new_root.as_fd(), anchor.as_fd(), ANCHORED).during(|| "put the root below it".into())?;
    move_in(anchor)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let granted = openat(CWD, GRANTED, flags, Mode::empty()).during(|| "open the anchor".into())?;
    rustix::process::chroot(ANCHORED).during(|| "go to the root below the anchor".into())?;
    rustix::process::chdir("/").during(|| "go to /".into())?;
    Ok(granted)
}

/// No file of the host may stay open: a directory descriptor left behind is a way out.
fn close_all_but<'a>(control: i32, others: impl Iterator<Item = &'a OwnedFd>) -> Outcome<()> {
    if without("descriptors") {
        return Ok(());
    }
    let mut keep: Vec<i32> = vec![0, 1, 2, control];
    keep.extend(others.map(AsRawFd::as_raw_fd));
    keep.sort_unstable();
    let mut next = 0;
    for number in keep {
        if number > next {
            crate::system::close_range(next, number - 1).during(|| "close what was inherited".into())?;
        }
        next = number + 1;
    }
    crate::system::close_range(next, i32::MAX).during(|| "close what was inherited".into())
}
