//! The order in which a fence goes up. While the guest is being executed, the plan is composed. If a step fails, the
//! half-made fence is taken down.

use super::cgroups::{self, Hierarchies, WorkGroup};
use super::fence::ProcessFence;
use super::head_start::Waiting;
use super::identity::Identity;
use super::lasting::{self, Lasting};
use super::launch::{Gate, Launched, launch};
use super::mounts::Passed;
use super::slot::{self, Record, Slot, lock_placeholders};
use super::within::{self, Within};
use super::{
    anchor, disk, guest_executable, head_start, landing, link, mounts, probe, root, seccomp, workspace,
};
use crate::backend::{CreateError, HostStep, Raised};
use crate::handover::Handover;
use crate::held;
use crate::host_limit::HostLimit;
use paddock_model::{Access, Limits, Network, Root, SandboxId, Spec, User};
use paddock_protocol::{
    AwaitedPlan, DiskPlan, Ids, LandlockPlan, MemoryWatch, Plan, Step, ToGuest, encode_message,
};
use serde_bytes::ByteBuf;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// How often the guest looks at memory where the kernel holds no limit.
pub const WATCH_INTERVAL_MS: u64 = 50;
/// One inode for so many bytes of disk, as mkfs would.
const BYTES_PER_INODE: u64 = 8192;

/// The purpose of a sandbox.
#[derive(Clone, Copy)]
pub enum Role<'a> {
    /// It ends with its engine.
    Passing,
    /// It outlives its engine.
    Lasting,
    /// Others nest in it; it outlives its engine for their sake.
    Nursery,
    /// It nests in a nursery, and its first exec comes from there.
    Nested(&'a Within),
    /// It nests in a sandbox from which this number of interpreters is forked into it.
    Forked(&'a Within, usize),
    /// It nests in another one, whose VM is copied into it. In a nursery it has ids of its own.
    Copied(&'a Within, Whose),
}

/// The host ids of a sandbox that nests in another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Own,
    /// The ids of the sandbox around it, which has no others.
    Source,
}

impl<'a> Role<'a> {
    fn within(self) -> Option<&'a Within> {
        match self {
            Role::Nested(within) | Role::Forked(within, _) | Role::Copied(within, _) => Some(within),
            Role::Passing | Role::Lasting | Role::Nursery => None,
        }
    }

    /// True if its interpreters may be forked as they stand, with all that this takes. Not for a sandbox whose first
    /// exec comes from a nursery: the nursery's filter lets it enter no root below another.
    fn is_forked(self, spec: &Spec) -> bool {
        spec.live_forks && matches!(self, Role::Lasting | Role::Forked(..)) && landing::missing().is_none()
    }
}

/// A fence, and the parts that its role adds.
pub struct Made {
    pub raised: Raised,
    /// PID 1 of the inside, by the host's numbers.
    pub guest: u32,
    pub ids: Ids,
    /// The other end of the interpreter's socket, of a nursery.
    pub zygote: Option<OwnedFd>,
    /// The streams of the processes that come in, for a sandbox that nests.
    pub streams: Vec<Streams>,
}

/// The facts about a sandbox that a live fork into it needs.
pub struct WayIn {
    /// PID 1 of the inside, by the host's numbers.
    pub guest: u32,
    pub ids: Ids,
    /// The files by which a process joins its cgroups.
    pub entrances: Vec<File>,
    pub streams: Vec<Streams>,
}

/// The ends that a process from outside brings along.
pub struct Streams {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub control: OwnedFd,
}

/// The other ends, which the guest has.
type Awaited = Streams;

/// The kernel that another backend puts between this fence and the guest.
pub trait Between {
    /// The name of that backend.
    fn name(&self) -> &'static str;

    /// True if files are made for the work by a process with the id of the sandbox's root.
    fn makes_files_as_root(&self) -> bool;

    /// The limits of the work's cgroups: the work and that kernel together.
    fn limits(&self, work: &Limits) -> Limits;

    /// Turns the plan of a guest that does the work into that of one that runs the kernel.
    fn take_over(&self, plan: &mut Plan, spec: &Spec, passed: &mut Passed) -> Result<(), CreateError>;
}

/// The beginning of a fence: a guest that waits for its plan, in its place and with its cgroups. Dropped, it is taken down.
pub struct Begun {
    fence: ProcessFence,
    stream: UnixStream,
    gate: Gate,
    /// PID 1 of the inside, by the host's numbers.
    guest: u32,
    identity: Identity,
    hierarchies: Hierarchies,
    entrances: Vec<File>,
    record: Record,
    streams: Vec<Streams>,
    awaited: Vec<Awaited>,
}

/// The same with the guest's plan, except the disk.
pub struct Composed {
    fence: ProcessFence,
    stream: UnixStream,
    gate: Gate,
    guest: u32,
    identity: Identity,
    entrances: Vec<File>,
    plan: Plan,
    passed: Passed,
    /// The user namespace by which a disk in storage gets the sandbox's ids.
    translation: Option<OwnedFd>,
    network: Option<Handover>,
    zygote: Option<OwnedFd>,
    streams: Vec<Streams>,
    notes: Vec<String>,
}

pub fn create(
    state: &Path,
    id: &SandboxId,
    spec: &Spec,
    role: Role<'_>,
    between: Option<&dyn Between>,
) -> Result<Made, CreateError> {
    begin(state, id, spec, role, between)?.compose(state, spec, role, between)?.finish(spec, role, between)
}

pub fn begin(
    state: &Path,
    id: &SandboxId,
    spec: &Spec,
    role: Role<'_>,
    between: Option<&dyn Between>,
) -> Result<Begun, CreateError> {
    let own_network = spec.network != Network::Host;
    let lasting = !matches!(role, Role::Passing);
    let mut beginning = Beginning::choose(state, own_network, role)?;
    let early = beginning.slot();
    let has_ids = early.is_some();
    let slot = match early {
        Some(slot) => slot,
        None => Slot::take(state).map_err(no_place)?,
    };
    let mut identity = Identity::choose(slot.number, spec)?;
    if let Role::Forked(source, _) | Role::Copied(source, Whose::Source) = role {
        identity = identity.of_a_source(source.guest.0)?;
    }
    let mut fence = ProcessFence::new(state, id, slot, lasting);
    // Before the guest: on v2 this process may have to leave its cgroup, which a child in it would keep busy.
    let hierarchies = cgroups::detect().for_life(lasting);
    let Launched { pid, process, stream, mut gate } = beginning.launched(own_network, role, &identity)?;
    fence.watch_over(process);
    if !has_ids {
        let written = match role {
            Role::Passing | Role::Lasting => identity.write_maps(pid),
            Role::Nursery => identity.write_maps_of_a_nursery(pid, fence.slot().number),
            // Written by the process that made it.
            Role::Nested(_) | Role::Forked(..) | Role::Copied(..) => Ok(()),
        };
        let released = written.and_then(|()| gate.open().host(|| "release the guest".into()));
        // A child that could not make its namespaces has gone by now, and knows better why.
        released.map_err(|error| {
            let why = crate::backend::Fence::why_not_started(&mut fence);
            why.unwrap_or(error)
        })?;
    }

    let record = Record {
        guest: slot::start_time(pid).map(|started| (pid, started)),
        cgroups: WorkGroup::directories(&hierarchies, fence.name()),
        placeholders: Vec::new(),
        lasting: lasting.then(|| Lasting {
            id: id.clone(),
            state: lasting::owner(state),
            slot: fence.slot().number,
            hierarchies: hierarchies.clone(),
            notes: Vec::new(),
            between: between.map(|between| between.name().into()),
            network: matches!(spec.network, Network::Gate(_)),
        }),
        nursery: role.within().map(|within| within.guest),
    };
    fence.nest(record.nursery);
    fence.remember(&record)?;
    let limits = between.map_or_else(|| spec.limits.clone(), |between| between.limits(&spec.limits));
    let entrances = fence.limit(&hierarchies, &limits)?;

    let comers = match role {
        Role::Passing | Role::Lasting | Role::Nursery => 0,
        Role::Nested(_) | Role::Copied(..) => 1,
        Role::Forked(_, interpreters) => interpreters,
    };
    let made: Result<Vec<_>, _> = (0..comers).map(|_| streams(&identity)).collect();
    let (streams, awaited) = made?.into_iter().unzip();
    Ok(Begun { fence, stream, gate, guest: pid, identity, hierarchies, entrances, record, streams, awaited })
}

fn no_place(source: std::io::Error) -> CreateError {
    match source.get_ref().is_some_and(|inner| inner.is::<slot::AllTaken>()) {
        true => HostLimit::Places.refused(source),
        false => CreateError::Host { step: "take a place for a sandbox".into(), source },
    }
}

impl Begun {
    /// For the interpreters that are forked into it. Once only.
    pub fn way_in(&mut self) -> Result<WayIn, CreateError> {
        let entrances: std::io::Result<Vec<File>> = self.entrances.iter().map(File::try_clone).collect();
        Ok(WayIn {
            guest: self.guest,
            ids: self.identity.ids,
            entrances: entrances.host(|| "copy the way into the cgroups".into())?,
            streams: std::mem::take(&mut self.streams),
        })
    }

    /// Makes everything that the guest's plan names.
    ///
    /// Precondition: the arguments are those that it was begun with.
    pub fn compose(
        self,
        state: &Path,
        spec: &Spec,
        role: Role<'_>,
        between: Option<&dyn Between>,
    ) -> Result<Composed, CreateError> {
        let Begun {
            mut fence,
            stream,
            gate,
            guest,
            identity,
            hierarchies,
            entrances,
            mut record,
            streams,
            awaited,
        } = self;
        let mut passed = Passed::default();
        passed.made_by_root = between.is_some_and(|between| between.makes_files_as_root());
        let (root, mut steps) = root::plan(spec, &identity, &mut passed)?;
        if between.is_none() {
            steps = root::with_own_inodes(steps);
        }
        let mut notes = Vec::new();
        if let Some(place) = &spec.workspace {
            // Found before the lock, which all sandboxes of this host share: the search may take a while.
            let found = held::find(place);
            let _guard = lock_placeholders(state).host(|| "lock the stand-ins".into())?;
            let survey = workspace::survey(place, found, fence.slot())?;
            record.placeholders = survey.intended();
            if !record.placeholders.is_empty() {
                fence.start_janitor()?;
            }
            fence.remember(&record)?;
            let made = survey.make(&mut record.placeholders);
            fence.hold(record.placeholders.clone());
            made?;
            fence.remember(&record)?;
            steps.extend(survey.steps(&identity, &mut passed)?);
            steps.extend(survey.hide_from_git(&spec.root));
            notes = survey.notes;
        }
        steps.extend(mounts::steps(&spec.mounts, spec.limits.memory, &identity, &mut passed)?);
        // A nursery's work cannot make any all the same: its filter and its ids forbid it.
        let namespaces = if matches!(role, Role::Nursery) { 2 * slot::SLOTS } else { 0 };
        if between.is_none() {
            steps.push(root::kernel(spec, namespaces));
        }
        let mut plan = plan(spec, &identity, &hierarchies, entrances.len(), root, steps);
        let network = match spec.network {
            Network::Gate(_) => {
                let (link, handover) = link::plan(&mut passed)?;
                plan.link = Some(link);
                Some(handover)
            }
            Network::None | Network::Host => None,
        };
        let zygote = match role {
            // A VM is copied from outside, so it needs no zygote.
            Role::Nursery if between.is_none() => Some(add_zygote(&mut plan, &mut passed)?),
            _ => None,
        };
        for Awaited { stdout, stderr, control } in awaited {
            let (stdout, stderr) = (passed.place(stdout)?, passed.place(stderr)?);
            plan.awaited.push(AwaitedPlan { stdout, stderr, control: passed.place(control)? });
        }
        if role.is_forked(spec) && between.is_none() {
            plan.anchor = Some(passed.place(anchor::detached(state)?)?);
            plan.has_nested_forks = hierarchies.limits_pids();
        }
        if let Some(lasting) = &mut record.lasting {
            lasting.notes.clone_from(&notes);
            outlive(state, &record, fence.slot(), &mut plan, &mut passed)?;
        }
        let translation = disk::translation(spec, &identity)?;
        Ok(Composed {
            fence,
            stream,
            gate,
            guest,
            identity,
            entrances,
            plan,
            passed,
            translation,
            network,
            zygote,
            streams,
            notes,
        })
    }
}

impl Composed {
    /// The guest gets its plan, and enters.
    ///
    /// Precondition: all is as it was begun with, but for the disk.
    pub fn finish(
        self,
        spec: &Spec,
        role: Role<'_>,
        between: Option<&dyn Between>,
    ) -> Result<Made, CreateError> {
        let Composed {
            mut fence,
            stream,
            gate,
            guest,
            identity,
            entrances,
            mut plan,
            mut passed,
            translation,
            network,
            zygote,
            streams,
            notes,
        } = self;
        (plan.disk, plan.start) = disk::plan(spec, &identity, translation, &mut passed)?;
        #[cfg(feature = "weaken")]
        super::weaken::plan(&mut plan);
        if let Some(between) = between {
            between.take_over(&mut plan, spec, &mut passed)?;
        }
        send(&stream, plan, entrances, passed)?;
        if !matches!(role, Role::Passing) {
            fence.stand_alone(gate.was_passed());
        }
        let raised = Raised { fence: Box::new(fence), stream, network, notes };
        Ok(Made { raised, guest, ids: identity.ids, zygote, streams })
    }
}

/// The interpreter of a nursery is fenced in as all work is, with two exceptions that let it be forked into others: one
/// system call, and no Landlock domain, which would follow its children into a root where its rules mean nothing.
fn add_zygote(plan: &mut Plan, passed: &mut Passed) -> Result<OwnedFd, CreateError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.host(|| "make a socket pair".into())?;
    plan.nursery = Some(passed.place(theirs)?);
    plan.seccomp = ByteBuf::from(seccomp::filter_of_a_nursery());
    plan.landlock = None;
    Ok(ours)
}

/// The streams of a process that comes in from outside.
fn streams(identity: &Identity) -> Result<(Streams, Awaited), CreateError> {
    let (stdout, their_stdout) = std::io::pipe().host(|| "make a pipe".into())?;
    let (stderr, their_stderr) = std::io::pipe().host(|| "make a pipe".into())?;
    let (control, their_control) = UnixStream::pair().host(|| "make a socket pair".into())?;
    for end in [&their_stdout, &their_stderr] {
        // A program may open /dev/stdout anew.
        let (uid, gid) = identity.work_host;
        let owner = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        rustix::fs::fchown(end, Some(owner.0), Some(owner.1)).host(|| "give a pipe away".into())?;
    }
    let theirs =
        Streams { stdout: their_stdout.into(), stderr: their_stderr.into(), control: their_control.into() };
    let awaited = Awaited { stdout: stdout.into(), stderr: stderr.into(), control: control.into() };
    Ok((theirs, awaited))
}

/// Gives the guest everything to go on without this engine, and the next engine a record to find it.
fn outlive(
    state: &Path,
    record: &Record,
    slot: &Slot,
    plan: &mut Plan,
    passed: &mut Passed,
) -> Result<(), CreateError> {
    let Some(kept) = &record.lasting else { return Ok(()) };
    let directory = lasting::directory(state, &kept.id);
    let listener = lasting::listen(&directory).host(|| format!("listen in {}", directory.display()))?;
    lasting::write(&directory, record).host(|| "write what the next engine has to know".into())?;
    plan.listener = Some(passed.place(listener.into())?);
    let share = slot.share().host(|| "share the sandbox's place".into())?;
    plan.keep = vec![passed.place(share)?];
    Ok(())
}

/// The child that had a head start, if it fits; else the guest, for a child that is made when its turn comes.
enum Beginning {
    Waiting(Waiting),
    Guest(File),
}

impl Beginning {
    fn choose(state: &Path, own_network: bool, role: Role<'_>) -> Result<Beginning, CreateError> {
        let fits = own_network && matches!(role, Role::Passing | Role::Lasting);
        match head_start::take().filter(|_| fits) {
            Some(waiting) => Ok(Beginning::Waiting(waiting)),
            None => guest_executable::open(state).map(Beginning::Guest).host(|| "unpack the guest".into()),
        }
    }

    /// The place that the waiting child has its ids of.
    fn slot(&mut self) -> Option<Slot> {
        match self {
            Beginning::Waiting(waiting) => waiting.slot.take(),
            Beginning::Guest(_) => None,
        }
    }

    fn launched(
        self,
        own_network: bool,
        role: Role<'_>,
        identity: &Identity,
    ) -> Result<Launched, CreateError> {
        match (self, role) {
            (Beginning::Waiting(waiting), _) => Ok(waiting.launched),
            (Beginning::Guest(guest), Role::Nested(nursery) | Role::Copied(nursery, Whose::Own)) => {
                let (users, groups) = identity.maps();
                within::launch(&guest, own_network, nursery, users, groups)
            }
            (Beginning::Guest(guest), Role::Forked(source, _) | Role::Copied(source, Whose::Source)) => {
                let same = Identity::same_ids();
                within::launch(&guest, own_network, source, &same, &same)
            }
            (Beginning::Guest(guest), Role::Passing | Role::Lasting | Role::Nursery) => {
                launch(&guest, own_network)
            }
        }
    }
}

fn plan(
    spec: &Spec,
    identity: &Identity,
    hierarchies: &Hierarchies,
    cgroup_descriptors: usize,
    root: paddock_protocol::RootPlan,
    steps: Vec<Step>,
) -> Plan {
    let watch =
        MemoryWatch { limit_bytes: spec.limits.memory, interval_ms: WATCH_INTERVAL_MS, own_kernel: false };
    Plan {
        hostname: spec.hostname.clone(),
        root,
        // A placeholder until the disk is known.
        disk: DiskPlan::Memory { bytes: spec.limits.disk, inodes: inodes(spec) },
        start: None,
        steps,
        ids: identity.ids,
        install: spec.user == User::Installer,
        own_network: spec.network != Network::Host,
        link: None,
        cgroup_descriptors,
        seccomp: ByteBuf::from(seccomp::filter().to_vec()),
        disk_seccomp: ByteBuf::from(seccomp::filter_for_the_disk().to_vec()),
        landlock: Some(landlock(spec)),
        // The guest's own process counts where it has the work's id.
        limit_pids: u64::from(spec.limits.pids) + u64::from(identity.ids.single),
        has_nested_forks: false,
        limit_files: spec.limits.files.into(),
        watch_memory: (!hierarchies.limits_memory()).then_some(watch),
        time_namespace: probe::has_time_namespace(),
        listener: None,
        keep: Vec::new(),
        awaited: Vec::new(),
        anchor: None,
        nursery: None,
        sentry: None,
        machine: None,
        memory_events: None,
    }
}

pub fn inodes(spec: &Spec) -> u64 {
    (spec.limits.disk / BYTES_PER_INODE).max(4096)
}

/// Where the work may write at all. Above an image everything is private, so there it is the whole root.
pub fn landlock(spec: &Spec) -> LandlockPlan {
    let mut writable: Vec<String> = match spec.root {
        Root::HostUsr => {
            ["/tmp", "/var/tmp", root::WORKSPACE, "/home", "/root", "/dev", "/proc"].map(String::from).into()
        }
        Root::Directory { .. } => vec!["/".into()],
    };
    let more =
        spec.mounts.iter().filter(|m| m.access != Access::Read).map(|m| m.target.display().to_string());
    writable.extend(more);
    LandlockPlan { writable, scope_abstract_sockets: spec.network == Network::Host }
}

/// The plan, and with its first byte the descriptors that it names. A guest that has ended already has told the reason.
/// The reader of its first message finds it, and it says more than a plan that could not be delivered.
fn send(stream: &UnixStream, plan: Plan, entrances: Vec<File>, passed: Passed) -> Result<(), CreateError> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut bytes = Vec::new();
    encode_message(&ToGuest::Enter(Box::new(plan)), &mut bytes)
        .map_err(|error| CreateError::Guest { reason: error.to_string() })?;
    let descriptors: Vec<OwnedFd> =
        entrances.into_iter().map(OwnedFd::from).chain(passed.into_descriptors()).collect();
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(borrowed.len()))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(CreateError::Guest { reason: "too many descriptors for one message".into() });
    }
    let piece = std::io::IoSlice::new(&bytes);
    let sent = sendmsg(stream, &[piece], &mut ancillary, SendFlags::NOSIGNAL).map_err(std::io::Error::from);
    let mut rest = stream;
    let sent = sent.and_then(|sent| std::io::Write::write_all(&mut rest, &bytes[sent..]));
    match sent {
        Err(error) if is_closed(&error) => Ok(()),
        sent => sent.host(|| "send the plan".into()),
    }
}

fn is_closed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}
