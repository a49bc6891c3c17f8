//! The layers that every process of the work wears. Prepared once; put on between fork and exec.

use crate::failure::{During, Failure, Outcome};
use crate::trees::Trees;
use crate::weaken::without;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use paddock_protocol::{INSTALLER_CAPABILITIES, Ids, LandlockPlan, Plan, RootPlan};
use rustix::io::Errno;
use rustix::process::{Gid, Resource, Rlimit, Uid, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::{BpfProgram, sock_filter};
use std::os::fd::OwnedFd;

pub struct Confinement {
    pub ids: Ids,
    pub landlock_abi: u32,
    /// `None` while they have not come. Without them nothing starts.
    cgroups: Option<Vec<OwnedFd>>,
    pids: u64,
    has_nested_forks: bool,
    files: u64,
    landlock: Option<RulesetCreated>,
    /// True if this process itself is in the domain, and with it all its children.
    shared: bool,
    /// The capabilities that root of the work keeps in its own user namespace: none, except for an installer.
    kept: CapabilitySet,
    seccomp: BpfProgram,
    /// The filter of commands, where it is another than that of tools.
    work_seccomp: Option<BpfProgram>,
    /// The filter of tools that work on the disk itself, as it came.
    disk_seccomp: Vec<u8>,
    /// True if a kernel of the sandbox's own counts the resources of the user that made the sandbox, so that its limits
    /// are enough.
    own_kernel: bool,
}

/// Queued signals, timers among them. The kernel counts them for the user that made the sandbox, with all its other
/// processes.
const SIGNALS: u64 = 4096;
/// Bytes of message queues, counted the same way.
const MESSAGES: u64 = 256 << 10;
/// Bytes that one process may keep from being swapped out: the kernel's own default, which many hosts raise.
const LOCKED: u64 = 8 << 20;
/// Processes of a user of a sandbox that others were forked from: the kernel counts those in its forks for the same user. Its cgroup
/// holds its own number.
const WITH_NESTED_FORKS: u64 = 1 << 16;
/// A tool's own bound: it is outside of the work's.
const TOOL_MEMORY: u64 = 512 << 20;
/// The capabilities of tools that work on the disk itself, for every owner there.
const OF_THE_DISK: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// The capabilities of a package manager.
fn of_an_installer() -> CapabilitySet {
    let bits = INSTALLER_CAPABILITIES.iter().map(|(_, number)| CapabilitySet::from_bits_retain(1 << number));
    bits.fold(CapabilitySet::empty(), CapabilitySet::union)
}

impl Confinement {
    /// Precondition: the root is already the sandbox's own, so that Landlock's paths are too.
    ///
    /// The trees of the disk stay readable: only the guest has a way to them. `anchor`: the directory above the root,
    /// which is above the roots of forks, too. Those are other trees, in which the rules of this one mean nothing. So
    /// every right is granted to all of the anchor, and mounts and owners say where the work may write.
    pub fn prepare(
        plan: &Plan,
        cgroups: Vec<OwnedFd>,
        trees: &Trees,
        anchor: Option<&OwnedFd>,
    ) -> Outcome<Confinement> {
        let landlock_abi = crate::system::landlock_abi();
        let landlock = match &plan.landlock {
            Some(rules) if landlock_abi > 0 && !without("landlock") => {
                Some(prepare_landlock(rules, trees, anchor)?)
            }
            _ => None,
        };
        let seccomp = decode_filter(&plan.seccomp)?;
        Ok(Confinement {
            ids: plan.ids,
            landlock_abi: if landlock.is_some() || without("landlock") { landlock_abi } else { 0 },
            cgroups: (!plan.cgroups_follow).then_some(cgroups),
            pids: plan.limit_pids,
            has_nested_forks: plan.has_nested_forks,
            files: plan.limit_files,
            landlock,
            shared: false,
            kept: if plan.install { of_an_installer() } else { CapabilitySet::empty() },
            seccomp,
            work_seccomp: plan.work_seccomp.as_ref().map(|filter| decode_filter(filter)).transpose()?,
            disk_seccomp: plan.disk_seccomp.to_vec(),
            own_kernel: matches!(plan.root, RootPlan::Built { .. }),
        })
    }

    /// The limits of commands from now on.
    pub fn set_limits(&mut self, pids: u64, files: u64) {
        // The guest's own process counts where it has the work's id.
        self.pids = pids.saturating_add(self.ids.single.into());
        self.files = files;
    }

    /// True if the cgroups come with a later message.
    pub fn awaits_cgroups(&self) -> bool {
        self.cgroups.is_none()
    }

    pub fn set_cgroups(&mut self, entrances: Vec<OwnedFd>) {
        self.cgroups = Some(entrances);
    }

    fn entrances(&self) -> Outcome<&[OwnedFd]> {
        let missing = || Failure { step: "wait for its cgroups".into(), errno: Errno::PERM };
        self.cgroups.as_deref().ok_or_else(missing)
    }

    /// Joins the cgroups that hold the limits. First of all, so that nothing escapes the count.
    pub fn join_cgroups(&self) -> Outcome<()> {
        if without("cgroups") {
            return Ok(());
        }
        for entrance in self.entrances()? {
            rustix::io::write(entrance, b"0").during(|| "join the cgroup".into())?;
        }
        Ok(())
    }

    /// One Landlock domain for everything from here on, this process included: a domain of its own for each command
    /// would hide the commands from each other. The work is kept away from this process by its other id, and because
    /// it cannot be traced.
    pub fn share_domain(&mut self) -> Outcome<()> {
        if !self.shared {
            self.restrict()?;
            self.shared = true;
        }
        Ok(())
    }

    /// Gives up everything. Precondition: called in the child, right before exec.
    pub fn put_on(&self, uid: u32, gid: u32) -> Outcome<()> {
        self.limit_resources()?;
        self.give_up(uid, gid, self.of_work())
    }

    /// The same, but for the one capability that joining other namespaces takes: those that nest in this sandbox's,
    /// and no others. Precondition: called in the child, right before exec, in a zygote's sandbox.
    pub fn put_on_for_a_zygote(&self, uid: u32, gid: u32) -> Outcome<()> {
        self.limit_resources()?;
        self.become_user(uid, gid)?;
        bound_capabilities(CapabilitySet::SYS_ADMIN)?;
        lock_and_keep(CapabilitySet::SYS_ADMIN)?;
        set_no_new_privs(true).during(|| "set no_new_privs".into())?;
        load(self.of_work())
    }

    /// Puts another process under the limits. Precondition: it is a child of this one.
    pub fn take_into_cgroups(&self, pid: u32) -> Outcome<()> {
        for entrance in self.entrances()? {
            rustix::io::write(entrance, pid.to_string().as_bytes())
                .during(|| "put it into the cgroup".into())?;
        }
        Ok(())
    }

    /// The same without the work's limits. Precondition: called in a child.
    pub fn put_on_for_a_tool(&self, uid: u32, gid: u32) -> Outcome<()> {
        limit_tool()?;
        self.give_up(uid, gid, &self.seccomp)
    }

    /// Keeps the guest's id and its rights over files, nothing else. Precondition: called in a child.
    pub fn put_on_for_the_disk(&self) -> Outcome<()> {
        limit_tool()?;
        let sets = CapabilitySets {
            effective: OF_THE_DISK,
            permitted: OF_THE_DISK,
            inheritable: CapabilitySet::empty(),
        };
        set_capabilities(None, sets).during(|| "drop capabilities".into())?;
        load(&decode_filter(&self.disk_seccomp)?)
    }

    fn of_work(&self) -> &BpfProgram {
        self.work_seccomp.as_ref().unwrap_or(&self.seccomp)
    }

    fn give_up(&self, uid: u32, gid: u32, filter: &BpfProgram) -> Outcome<()> {
        self.become_user(uid, gid)?;
        // Only for root inside: a process that becomes another user gives everything up.
        if uid == 0 && !self.kept.is_empty() {
            keep_capabilities(self.kept)?;
        } else {
            #[cfg(feature = "weaken")]
            if without("capabilities") {
                lock_and_keep(CapabilitySet::SYS_PTRACE)?;
            }
            if !without("capabilities") {
                drop_capabilities()?;
            }
        }
        if !without("no-new-privileges") {
            set_no_new_privs(true).during(|| "set no_new_privs".into())?;
        }
        if !self.shared {
            self.restrict()?;
        }
        load(filter)
    }

    fn restrict(&self) -> Outcome<()> {
        let Some(rules) = &self.landlock else { return Ok(()) };
        let rules = rules.try_clone().during(|| "copy the Landlock rules".into())?;
        let refused = |_| Failure { step: "restrict by Landlock".into(), errno: Errno::PERM };
        rules.restrict_self().map(drop).map_err(refused)
    }

    fn limit_resources(&self) -> Outcome<()> {
        limit(Resource::Nofile, self.files).during(|| "limit open files".into())?;
        let processes = if self.has_nested_forks { WITH_NESTED_FORKS } else { self.pids };
        limit(Resource::Nproc, processes).during(|| "limit processes".into())?;
        if without("resource-limits") {
            return Ok(());
        }
        limit(Resource::Memlock, LOCKED).during(|| "limit locked memory".into())?;
        if !self.own_kernel {
            limit(Resource::Sigpending, SIGNALS).during(|| "limit signals".into())?;
            limit(Resource::Msgqueue, MESSAGES).during(|| "limit message queues".into())?;
        }
        limit(Resource::Core, 0).during(|| "forbid core files".into())
    }

    fn become_user(&self, uid: u32, gid: u32) -> Outcome<()> {
        if self.ids.single {
            return if uid == self.ids.work {
                Ok(())
            } else {
                Err(Failure {
                    step: format!("become user {uid}: this sandbox has one id only"),
                    errno: Errno::PERM,
                })
            };
        }
        if uid == self.ids.guest || gid == self.ids.guest {
            return Err(Failure { step: "become the guest's own user".into(), errno: Errno::PERM });
        }
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_thread_groups(&[gid]).during(|| "set groups".into())?;
        set_thread_res_gid(gid, gid, gid).during(|| format!("become group {}", gid.as_raw()))?;
        set_thread_res_uid(uid, uid, uid).during(|| format!("become user {}", uid.as_raw()))
    }
}

fn limit_tool() -> Outcome<()> {
    limit(Resource::As, TOOL_MEMORY).during(|| "limit memory".into())?;
    limit(Resource::Core, 0).during(|| "forbid core files".into())
}

/// If the host allows less than was asked for, the limit is that.
fn limit(resource: Resource, wanted: u64) -> rustix::io::Result<()> {
    let most = getrlimit(resource).maximum.map_or(wanted, |maximum| maximum.min(wanted));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
}

/// The bounding set is emptied of all others, so that an exec as root brings back no more than these.
fn keep_capabilities(kept: CapabilitySet) -> Outcome<()> {
    bound_capabilities(kept)?;
    // As the kernel has it for root: an exec keeps the bounding set, and a process that becomes another user loses it.
    let bits =
        CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    crate::system::set_secure_bits(bits).during(|| "set the secure bits".into())?;
    crate::system::clear_ambient_capabilities().during(|| "clear the ambient capabilities".into())?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).during(|| "drop capabilities".into())
}

fn drop_capabilities() -> Outcome<()> {
    bound_capabilities(CapabilitySet::empty())?;
    lock_and_keep(CapabilitySet::empty())
}

fn bound_capabilities(kept: CapabilitySet) -> Outcome<()> {
    for number in 0..64 {
        let one = CapabilitySet::from_bits_retain(1 << number);
        if kept.contains(one) {
            continue;
        }
        match remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            // Past the last capability that this kernel knows.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(Failure { step: "empty the bounding set".into(), errno }),
        }
    }
    Ok(())
}

/// The kept capabilities outlive an exec, and no others come back.
fn lock_and_keep(kept: CapabilitySet) -> Outcome<()> {
    crate::system::clear_ambient_capabilities().during(|| "clear the ambient capabilities".into())?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    // The capability to set the secure bits goes last.
    let setting = CapabilitySet::SETPCAP.union(kept);
    let before = CapabilitySets { effective: setting, permitted: setting, inheritable: kept };
    if !kept.is_empty() {
        set_capabilities(None, before).during(|| "keep capabilities".into())?;
        configure_capability_in_ambient_set(kept, true).during(|| "keep a capability over exec".into())?;
    }
    // An id of 0 must bring nothing back on exec, and no later program may change that.
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    crate::system::set_secure_bits(bits).during(|| "lock the secure bits".into())?;
    set_capabilities(None, sets).during(|| "drop all capabilities".into())
}

/// Reads and executes everywhere, writes only where the plan says. The crate leaves out rights that this kernel's
/// Landlock does not know, and the ABI in the guarantees says how much that is.
fn prepare_landlock(plan: &LandlockPlan, trees: &Trees, anchor: Option<&OwnedFd>) -> Outcome<RulesetCreated> {
    let abi = ABI::V7;
    // The only device that the kernel lets every user make is an overlay's mark for a removed file.
    let written = AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let build = || -> Result<RulesetCreated, RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))?;
        if plan.scope_abstract_sockets {
            ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
        }
        ruleset
            .create()?
            .add_rules(path_beneath_rules(["/"], AccessFs::from_read(abi)))?
            .add_rules(path_beneath_rules(&plan.writable, written))?
            .add_rules(trees.descriptors().map(|tree| (tree, AccessFs::from_read(abi))).map(beneath))?
            .add_rules(anchor.map(|anchor| (anchor, written)).map(beneath))
    };
    build().map_err(|_| Failure { step: "prepare Landlock".into(), errno: Errno::INVAL })
}

fn beneath((place, rights): (&OwnedFd, BitFlags<AccessFs>)) -> Result<PathBeneath<&OwnedFd>, RulesetError> {
    Ok(PathBeneath::new(place, rights))
}

fn load(filter: &BpfProgram) -> Outcome<()> {
    // A filter needs the one or the other.
    if without("no-new-privileges") {
        return Ok(());
    }
    seccompiler::apply_filter(filter)
        .map_err(|_| Failure { step: "load the seccomp filter".into(), errno: Errno::PERM })
}

/// Eight bytes an instruction, as the kernel lays them out.
fn decode_filter(bytes: &[u8]) -> Outcome<BpfProgram> {
    if bytes.is_empty() || !bytes.len().is_multiple_of(8) {
        return Err(Failure { step: "read the seccomp filter".into(), errno: Errno::INVAL });
    }
    let instruction = |b: &[u8]| sock_filter {
        code: u16::from_ne_bytes([b[0], b[1]]),
        jt: b[2],
        jf: b[3],
        k: u32::from_ne_bytes([b[4], b[5], b[6], b[7]]),
    };
    Ok(bytes.chunks_exact(8).map(instruction).collect())
}
