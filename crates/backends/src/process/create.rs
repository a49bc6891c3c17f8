//! The order in which a fence goes up. While the guest is being executed, the plan is composed. If a step fails, the
//! half-made fence is taken down.

use super::mounts::inodes;
use super::passed::Passed;
use super::{anchor, devices, disk, link, mounts, root, seccomp, sudo, workspace};
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::fence::Raised;
use paddock_fences::handover::Handover;
use paddock_fences::held;
use paddock_fences::host_limit::HostLimit;
use paddock_fences::live_fork::availability;
use paddock_fences::purpose::Purpose;
use paddock_fences::shared::cgroups::{self, Hierarchies, WorkGroup};
use paddock_fences::shared::fence::HostFence;
use paddock_fences::shared::head_start::Waiting;
use paddock_fences::shared::identity::Identity;
use paddock_fences::shared::launch::{Gate, Launched, launch};
use paddock_fences::shared::nested_launch::{self, Within};
use paddock_fences::shared::root_rights;
use paddock_fences::shared::slot::{self, Lasting, Record, Slot, lock_placeholders};
use paddock_fences::shared::way_in::{Streams, WayIn};
use paddock_fences::shared::{guest_executable, head_start, kernel, lasting, run_directory};
use paddock_model::{Access, Disk, Limits, Network, Root, SandboxId, Spec, User};
use paddock_protocol::{
    AwaitedPlan, DiskPlan, LandlockPlan, MemoryWatch, Plan, Step, ToGuest, encode_message,
};
use serde_bytes::ByteBuf;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// How often the guest looks at memory where the kernel holds no limit.
pub const WATCH_INTERVAL_MS: u64 = 50;

/// The place of a sandbox among the others.
#[derive(Clone, Copy)]
pub enum Nesting<'a> {
    /// It nests in no other sandbox.
    Alone(Purpose),
    /// It nests in the sandbox of a zygote, and its first exec comes from there.
    InZygote(&'a Within),
    /// It nests in a sandbox from which this number of interpreters is forked into it.
    InSource(&'a Within, usize),
    /// It nests in another one, whose VM is copied into it. In a parent VM it has ids of its own.
    InVm(&'a Within, IdsOfCopy),
}

/// The host ids of a sandbox whose VM is a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum IdsOfCopy {
    Own,
    /// The ids of the sandbox around it, which has no others.
    Source,
}

impl<'a> Nesting<'a> {
    fn within(self) -> Option<&'a Within> {
        match self {
            Nesting::InZygote(within) | Nesting::InSource(within, _) | Nesting::InVm(within, _) => {
                Some(within)
            }
            Nesting::Alone(_) => None,
        }
    }

    /// True for a sandbox that others with ids of their own nest in.
    fn shelters(self) -> bool {
        matches!(self, Nesting::Alone(Purpose::Zygote | Purpose::ParentVm))
    }

    /// True if it ends with its engine.
    fn is_passing(self) -> bool {
        matches!(self, Nesting::Alone(Purpose::Passing))
    }

    /// True if its interpreters may be forked as they stand, with all that this takes. Not for a sandbox whose first
    /// exec comes from a zygote: the zygote's filter lets it enter no root below another.
    fn is_forked(self, spec: &Spec) -> bool {
        spec.live_forks
            && !root_rights::wants_a_range(spec)
            && matches!(
                self,
                Nesting::Alone(Purpose::Lasting | Purpose::TemplateMemory) | Nesting::InSource(..)
            )
            && availability::missing().is_none()
    }

    /// The number of processes that come into it from outside.
    fn comers(self) -> usize {
        match self {
            Nesting::Alone(_) => 0,
            Nesting::InZygote(_) | Nesting::InVm(..) => 1,
            Nesting::InSource(_, interpreters) => interpreters,
        }
    }
}

/// A fence, and the parts that only some have.
pub struct Made {
    pub raised: Raised<HostFence>,
    /// PID 1 of the inside, by the host's numbers.
    pub guest: u32,
    /// The other end of the interpreter's socket, in the sandbox of a zygote.
    pub zygote: Option<OwnedFd>,
}

/// The other ends, which the guest has.
type Awaited = Streams;

/// The kernel that another backend puts between this fence and the guest.
pub trait Between: Send {
    /// The name of that backend.
    fn name(&self) -> &'static str;

    /// True if files are made for the work by a process with the id of the sandbox's root.
    fn makes_files_as_root(&self) -> bool;

    /// The limits of the work's cgroups: the work and that kernel together.
    fn limits(&self, work: &Limits) -> Limits;

    /// Turns the plan of a guest that does the work into that of one that runs the kernel.
    ///
    /// It is given away: the files that it brings are in one plan and no other.
    fn take_over(
        self: Box<Self>,
        plan: &mut Plan,
        spec: &Spec,
        passed: &mut Passed,
    ) -> Result<(), CreateError>;
}

/// The kernel between a fence and its guest, if it has one.
type Kernel<'a> = Option<Box<dyn Between + 'a>>;

/// The parts that a fence has from its beginning to its end.
struct Parts<'a> {
    between: Kernel<'a>,
    fence: HostFence,
    stream: UnixStream,
    gate: Gate,
    /// PID 1 of the inside, by the host's numbers.
    guest: u32,
    identity: Identity,
    entrances: Vec<File>,
    spec: Spec,
    is_passing: bool,
}

/// The beginning of a fence: a guest that waits for its plan, in its place and with its cgroups. Dropped, it is taken down.
pub struct Begun<'a> {
    parts: Parts<'a>,
    state: PathBuf,
    hierarchies: Hierarchies,
    record: Record,
    awaited: Vec<Awaited>,
    /// True for a sandbox that others with ids of their own nest in.
    shelters: bool,
    /// True if its interpreters may be forked as they stand.
    is_forked: bool,
}

/// The same with the guest's plan, except the disk.
pub struct Composed<'a> {
    parts: Parts<'a>,
    plan: Plan,
    passed: Passed,
    /// The user namespace by which a disk in storage gets the sandbox's ids.
    translation: Option<OwnedFd>,
    network: Option<Handover>,
    zygote: Option<OwnedFd>,
    notes: Vec<String>,
}

/// A whole fence. The way into it is for a sandbox that nests.
pub fn create(
    state: &Path,
    id: &SandboxId,
    spec: &Spec,
    nesting: Nesting<'_>,
    between: Kernel<'_>,
) -> Result<(Made, WayIn), CreateError> {
    let (begun, way) = begin(state, id, spec, nesting, between)?;
    Ok((begun.compose()?.finish(&spec.disk)?, way))
}

/// The beginning of a fence, and the way of processes from outside into it.
pub fn begin<'a>(
    state: &Path,
    id: &SandboxId,
    spec: &Spec,
    nesting: Nesting<'_>,
    between: Kernel<'a>,
) -> Result<(Begun<'a>, WayIn), CreateError> {
    let own_network = spec.network != Network::Host;
    let lasting = !nesting.is_passing();
    let mut launch = Launch::choose(state, own_network, nesting)?;
    let early = launch.slot();
    let has_ids = early.is_some();
    let slot = match early {
        Some(slot) => slot,
        None => Slot::take(state).map_err(no_place)?,
    };
    let mut identity = Identity::choose(slot.number, spec)?;
    if root_rights::wants_a_range(spec) {
        root_rights::check(&identity, nesting.shelters() || matches!(nesting, Nesting::InSource(..)))?;
    }
    if let Nesting::InSource(source, _) | Nesting::InVm(source, IdsOfCopy::Source) = nesting {
        identity = identity.of_a_source(source.guest.0)?;
    }
    let mut fence = HostFence::new(state, id, slot, lasting);
    // Before the guest: on v2 this process may have to leave its cgroup, which a child in it would keep busy.
    let hierarchies = cgroups::detect().for_life(lasting);
    let Launched { pid, process, stream, mut gate } = launch.launched(own_network, nesting, &identity)?;
    fence.watch_over(process);
    if !has_ids {
        let written = match nesting {
            Nesting::Alone(_) if nesting.shelters() => {
                identity.write_maps_of_a_shelter(pid, fence.slot().number)
            }
            Nesting::Alone(_) => identity.write_maps(pid),
            // Written by the process that made it.
            Nesting::InZygote(_) | Nesting::InSource(..) | Nesting::InVm(..) => Ok(()),
        };
        let released = written.and_then(|()| gate.open().host(|| "release the guest".into()));
        // A child that could not make its namespaces has gone by now, and knows better why.
        released.map_err(|error| {
            let why = paddock_fences::fence::Fence::why_not_started(&mut fence);
            why.unwrap_or(error)
        })?;
    }

    let limits = between.as_ref().map_or_else(|| spec.limits.clone(), |between| between.limits(&spec.limits));
    // Nothing runs in such a sandbox before its first command.
    let cgroups_follow = matches!(nesting, Nesting::Alone(Purpose::Lasting))
        && between.is_none()
        && !hierarchies.parents().is_empty();
    let record = Record {
        guest: slot::start_time(pid).map(|started| (pid, started)),
        cgroups: WorkGroup::directories(&hierarchies, fence.name()),
        placeholders: Vec::new(),
        lasting: lasting.then(|| Lasting {
            id: id.clone(),
            state: run_directory::owner(state),
            slot: fence.slot().number,
            hierarchies: hierarchies.clone(),
            notes: Vec::new(),
            between: between.as_ref().map(|between| between.name().into()),
            network: matches!(spec.network, Network::Gate(_)),
            cgroups_follow: cgroups_follow.then(|| limits.clone()),
        }),
        nursery: nesting.within().map(|within| within.guest),
    };
    fence.nest(record.nursery);
    fence.remember(&record)?;
    if cgroups_follow {
        fence.limit_later(&hierarchies, &limits);
    }
    let entrances = match cgroups_follow {
        true => Vec::new(),
        false => fence.limit(&hierarchies, &limits)?,
    };

    let made: Result<Vec<_>, _> = (0..nesting.comers()).map(|_| streams(&identity)).collect();
    let (streams, awaited) = made?.into_iter().unzip();
    let way = way_in(pid, &identity, &entrances, streams)?;
    let parts = Parts {
        between,
        fence,
        stream,
        gate,
        guest: pid,
        identity,
        entrances,
        spec: spec.clone(),
        is_passing: nesting.is_passing(),
    };
    let (shelters, is_forked) = (nesting.shelters(), nesting.is_forked(spec));
    let state = state.to_path_buf();
    Ok((Begun { parts, state, hierarchies, record, awaited, shelters, is_forked }, way))
}

fn way_in(
    guest: u32,
    identity: &Identity,
    entrances: &[File],
    streams: Vec<Streams>,
) -> Result<WayIn, CreateError> {
    let entrances: std::io::Result<Vec<File>> = match streams.is_empty() {
        true => Ok(Vec::new()),
        false => entrances.iter().map(File::try_clone).collect(),
    };
    let entrances = entrances.host(|| "copy the way into the cgroups".into())?;
    Ok(WayIn { guest, ids: identity.ids, entrances, streams })
}

fn no_place(source: std::io::Error) -> CreateError {
    match source.get_ref().is_some_and(|inner| inner.is::<slot::AllTaken>()) {
        true => HostLimit::Places.refused(source),
        false => CreateError::Host { step: "take a place for a sandbox".into(), source },
    }
}

impl<'a> Begun<'a> {
    /// Makes everything that the guest's plan names.
    pub fn compose(self) -> Result<Composed<'a>, CreateError> {
        let Begun { mut parts, state, hierarchies, mut record, awaited, shelters, is_forked } = self;
        let state = state.as_path();
        let Parts { between, fence, identity, entrances, spec, .. } = &mut parts;
        let spec: &Spec = spec;
        let mut passed = Passed::default();
        passed.made_by_root = between.as_ref().is_some_and(|between| between.makes_files_as_root());
        let (root, mut steps) = root::plan(spec, identity, &mut passed)?;
        if between.is_none() {
            steps = root::with_own_inodes(steps);
        }
        let become_root =
            if spec.become_root { Some(sudo::add(state, spec, &mut steps, &mut passed)?) } else { None };
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
            steps.extend(survey.steps(identity, &mut passed)?);
            steps.extend(survey.hide_from_git(&spec.root));
            notes = survey.notes;
        }
        steps.extend(mounts::steps(&spec.mounts, spec.limits.memory, identity, &mut passed)?);
        // The work of a zygote's sandbox cannot make any all the same: its filter and its ids forbid it.
        let namespaces = if shelters { 2 * slot::SLOTS } else { 0 };
        if between.is_none() {
            let mut kernel = root::kernel(spec, namespaces);
            if let Step::Kernel(plan) = &mut kernel {
                devices::make_own(plan, &mut passed)?;
            }
            steps.push(kernel);
        }
        let mut plan = plan(spec, identity, &hierarchies, entrances.len(), root, steps);
        plan.become_root = become_root;
        plan.cgroups_follow = record.lasting.as_ref().is_some_and(|kept| kept.cgroups_follow.is_some());
        let network = match spec.network {
            Network::Gate(_) => {
                let (link, handover) = link::plan(&mut passed)?;
                plan.link = Some(link);
                Some(handover)
            }
            Network::None | Network::Host => None,
        };
        let zygote = match shelters && between.is_none() {
            true => Some(add_zygote(&mut plan, &mut passed)?),
            // A VM is copied from outside, so it needs no zygote.
            false => None,
        };
        for Awaited { stdout, stderr, control } in awaited {
            let (stdout, stderr) = (passed.place(stdout)?, passed.place(stderr)?);
            plan.awaited.push(AwaitedPlan { stdout, stderr, control: passed.place(control)? });
        }
        if is_forked && between.is_none() {
            plan.anchor = Some(passed.place(anchor::detached(state)?)?);
            plan.has_nested_forks = hierarchies.limits_pids();
        }
        if let Some(lasting) = &mut record.lasting {
            lasting.notes.clone_from(&notes);
            outlive(state, &record, fence.slot(), &mut plan, &mut passed)?;
        }
        let translation = disk::translation(spec, identity)?;
        Ok(Composed { parts, plan, passed, translation, network, zygote, notes })
    }
}

impl Composed<'_> {
    /// The guest gets its plan, and enters.
    pub fn finish(self, disk: &Disk) -> Result<Made, CreateError> {
        let Composed { parts, mut plan, mut passed, translation, network, zygote, notes } = self;
        let Parts { between, mut fence, stream, gate, guest, identity, entrances, spec, is_passing } = parts;
        let spec = &Spec { disk: disk.clone(), ..spec };
        (plan.disk, plan.start) = disk::plan(spec, &identity, translation, &mut passed)?;
        #[cfg(feature = "weaken")]
        paddock_fences::shared::weaken::plan(&mut plan);
        if let Some(between) = between {
            between.take_over(&mut plan, spec, &mut passed)?;
        }
        send(&stream, plan, entrances, passed)?;
        if !is_passing {
            fence.stand_alone(gate.was_passed());
        }
        let raised = Raised { fence, stream, network, notes };
        Ok(Made { raised, guest, zygote })
    }
}

/// The interpreter of a zygote's sandbox is fenced in as all work is, with two exceptions that let it be forked into others:
/// one system call, and no Landlock domain, which would follow its children into a root where its rules mean nothing.
fn add_zygote(plan: &mut Plan, passed: &mut Passed) -> Result<OwnedFd, CreateError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.host(|| "make a socket pair".into())?;
    plan.zygote = Some(passed.place(theirs)?);
    plan.work_seccomp = Some(ByteBuf::from(seccomp::filter_of_a_zygote(plan.work_seccomp.is_some())));
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
    let directory = run_directory::of_sandbox(state, &kept.id);
    let listener = lasting::listen(&directory).host(|| format!("listen in {}", directory.display()))?;
    lasting::write(&directory, record).host(|| "write what the next engine has to know".into())?;
    plan.listener = Some(passed.place(listener.into())?);
    let share = slot.share().host(|| "share the sandbox's place".into())?;
    plan.keep = vec![passed.place(share)?];
    Ok(())
}

/// The child that had a head start, if it fits; else the guest, for a child that is made when its turn comes.
enum Launch {
    Waiting(Waiting),
    Guest(File),
}

impl Launch {
    fn choose(state: &Path, own_network: bool, nesting: Nesting<'_>) -> Result<Launch, CreateError> {
        let fits = own_network && matches!(nesting, Nesting::Alone(_)) && !nesting.shelters();
        match head_start::take().filter(|_| fits) {
            Some(waiting) => Ok(Launch::Waiting(waiting)),
            None => guest_executable::open(state).map(Launch::Guest).host(|| "unpack the guest".into()),
        }
    }

    /// The place that the waiting child has its ids of.
    fn slot(&mut self) -> Option<Slot> {
        match self {
            Launch::Waiting(waiting) => waiting.slot.take(),
            Launch::Guest(_) => None,
        }
    }

    fn launched(
        self,
        own_network: bool,
        nesting: Nesting<'_>,
        identity: &Identity,
    ) -> Result<Launched, CreateError> {
        match (self, nesting) {
            (Launch::Waiting(waiting), _) => Ok(waiting.launched),
            (Launch::Guest(guest), Nesting::InZygote(around) | Nesting::InVm(around, IdsOfCopy::Own)) => {
                let (users, groups) = identity.maps();
                nested_launch::launch(&guest, own_network, around, users, groups)
            }
            (
                Launch::Guest(guest),
                Nesting::InSource(source, _) | Nesting::InVm(source, IdsOfCopy::Source),
            ) => {
                let same = Identity::same_ids();
                nested_launch::launch(&guest, own_network, source, &same, &same)
            }
            (Launch::Guest(guest), Nesting::Alone(_)) => launch(&guest, own_network),
        }
    }
}

/// The filter of commands in a sandbox that writes directories of the host.
pub fn work_seccomp(spec: &Spec) -> Option<ByteBuf> {
    let writes = spec.workspace.is_some() || spec.mounts.iter().any(|mount| mount.access == Access::Write);
    writes.then(|| ByteBuf::from(seccomp::filter_without_set_ids().to_vec()))
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
        install: spec.user == User::Installer || spec.root_may_install,
        become_root: None,
        own_network: spec.network != Network::Host,
        link: None,
        cgroup_descriptors,
        cgroups_follow: false,
        seccomp: ByteBuf::from(seccomp::filter().to_vec()),
        work_seccomp: work_seccomp(spec),
        disk_seccomp: ByteBuf::from(seccomp::filter_for_the_disk().to_vec()),
        landlock: Some(landlock(spec)),
        // The guest's own process counts where it has the work's id.
        limit_pids: u64::from(spec.limits.pids) + u64::from(identity.ids.single),
        has_nested_forks: false,
        limit_files: spec.limits.files.into(),
        watch_memory: (!hierarchies.limits_memory()).then_some(watch),
        time_namespace: kernel::has_time_namespace(),
        listener: None,
        keep: Vec::new(),
        awaited: Vec::new(),
        anchor: None,
        zygote: None,
        sentry: None,
        vm: None,
        memory_events: None,
    }
}

/// Where the work may write at all. Above an image everything is private, so there it is the whole root. So it is for a root that
/// manages users, whose tables are in /etc: the host's files are read-only mounts.
pub fn landlock(spec: &Spec) -> LandlockPlan {
    let mut writable: Vec<String> = match spec.root {
        _ if spec.root_may_install => vec!["/".into()],
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
pub fn send(
    stream: &UnixStream,
    plan: Plan,
    entrances: Vec<File>,
    passed: Passed,
) -> Result<(), CreateError> {
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
