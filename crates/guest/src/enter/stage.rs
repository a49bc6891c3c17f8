//! The stage on which the runtime of a kernel in user space runs: a small root that holds only the root that was built,
//! the bundle that describes it, and the files for the guest behind that kernel. Nothing of the host can be seen from
//! there.

use crate::enter::kernel::check_device;
use crate::enter::root::{alone, attach, new_filesystem, new_tmpfs};
use crate::enter::steps::write;
use crate::enter::{build, close_all_but, move_in, sources};
use crate::failure::{During, Outcome};
use crate::system::{MountLimits, limit_mount};
use crate::trees::Trees;
use paddock_protocol::{Ids, Plan, SentryPlan, Source};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, chownat, mkdirat};
use std::os::fd::{AsFd, OwnedFd};

/// Any directory of the host that is sure to exist, other than the one that the new root is put together on.
const STAGING: &str = "/dev";
/// Room for the bundle, the runtime's notes and the plan. The root that was built is a mount and needs none of it.
const BYTES: u64 = 32 << 20;
const INODES: u64 = 1024;

/// The files that stay open for the process that runs the kernel.
pub struct Stage {
    pub runtime: OwnedFd,
    pub cgroups: Vec<OwnedFd>,
    /// The socket on which the next host comes.
    pub listener: Option<OwnedFd>,
    pub commands: Option<OwnedFd>,
    /// The socket over which the network link is handed over.
    pub handover: Option<OwnedFd>,
    /// Files that stay open for as long as this process lives.
    pub kept: Vec<OwnedFd>,
}

/// `control` stays open too.
pub fn enter(plan: &Plan, sentry: &SentryPlan, mut passed: Vec<OwnedFd>, control: i32) -> Outcome<Stage> {
    let mounts = passed.split_off(plan.cgroup_descriptors.min(passed.len()));
    let mut sources = sources::open(plan, mounts)?;
    sources.add_all(sentry.devices.iter().map(|(_, source)| source).chain([&sentry.guest]))?;
    let mut take = |place: usize| sources.take(&Source::Descriptor(place));
    let stage = Stage {
        runtime: take(sentry.runtime)?,
        cgroups: passed,
        listener: plan.listener.map(&mut take).transpose()?,
        commands: sentry.commands.map(&mut take).transpose()?,
        handover: plan.link.as_ref().map(|link| take(link.handover)).transpose()?,
        kept: plan.keep.iter().map(|place| take(*place)).collect::<Outcome<Vec<_>>>()?,
    };
    let (new_root, trees) = build(plan, &mut sources, Some(STAGING))?;
    let owner = (plan.ids.root, plan.ids.root_group);
    let place = new_tmpfs(BYTES, INODES, 0o755, owner, true)?;
    attach(place.as_fd(), CWD, STAGING).during(|| "mount the stage".into())?;
    for name in ["root", "proc", "dev", "tmp", "state", "bundle", "inner", "memory"] {
        make_directory(&place, name)?;
    }
    attach(new_root.as_fd(), place.as_fd(), "root").during(|| "put the root on the stage".into())?;
    let proc = new_filesystem("proc", &[], false)?;
    attach(proc.as_fd(), place.as_fd(), "proc").during(|| "mount /proc".into())?;
    for (name, source) in &sentry.devices {
        let device = sources.take(source)?;
        check_device(name, &device)?;
        let path = format!("dev/{name}");
        write(&place, &path, 0o666, b"").during(|| format!("make /{path}"))?;
        attach(device.as_fd(), place.as_fd(), &path).during(|| format!("mount /{path}"))?;
    }
    write(&place, "bundle/config.json", 0o600, &sentry.bundle).during(|| "write the bundle".into())?;
    if let Some(memory) = &sentry.memory {
        let memory = sources.take(memory)?;
        attach(memory.as_fd(), place.as_fd(), "memory").during(|| "mount the kept memory".into())?;
    }
    furnish(&place, sentry, &trees, plan.ids, &mut sources)?;
    move_in(&place)?;
    drop((new_root, place, sources, trees));
    let lasting = stage.cgroups.iter().chain(&stage.kept).chain(&stage.listener).chain(&stage.commands);
    close_all_but(control, lasting.chain(&stage.handover).chain([&stage.runtime]))?;
    Ok(stage)
}

/// Puts the files for the guest behind the kernel into a directory that only its own id can enter.
fn furnish(
    place: &OwnedFd,
    sentry: &SentryPlan,
    trees: &Trees,
    ids: Ids,
    sources: &mut sources::Sources,
) -> Outcome<()> {
    let guest = sources.take(&sentry.guest)?;
    limit_mount(guest.as_fd(), MountLimits::host(true, true)).during(|| "restrict the guest".into())?;
    write(place, "inner/guest", 0o555, b"").during(|| "make a place for the guest".into())?;
    attach(guest.as_fd(), place.as_fd(), "inner/guest").during(|| "mount the guest".into())?;
    for (name, tree) in [("layer", &trees.layer), ("start", &trees.start), ("image", &trees.image)] {
        if let Some(tree) = tree {
            make_directory(place, &format!("inner/{name}"))?;
            attach(alone(tree)?.as_fd(), place.as_fd(), &format!("inner/{name}"))
                .during(|| format!("mount the disk's {name}"))?;
        }
    }
    write(place, "inner/plan", 0o400, &sentry.inner).during(|| "write the guest's plan".into())?;
    write(place, "inner/built", 0o400, &trees.write_built()).during(|| "write what was built".into())?;
    let owner = (Uid::from_raw(ids.guest), Gid::from_raw(ids.guest));
    for (path, mode) in [("inner/plan", 0o400), ("inner/built", 0o400), ("inner", 0o700)] {
        chownat(place, path, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW)
            .and_then(|()| rustix::fs::chmodat(place, path, Mode::from_raw_mode(mode), AtFlags::empty()))
            .during(|| format!("give /{path} to the guest"))?;
    }
    Ok(())
}

fn make_directory(place: &OwnedFd, name: &str) -> Outcome<()> {
    let mode = if name == "tmp" { 0o1777 } else { 0o755 };
    mkdirat(place, name, Mode::from_raw_mode(mode)).during(|| format!("make /{name} of the stage"))
}
