//! A guest whose root stands already: a kernel in user space made it from the root that another guest built. This guest
//! only opens the trees of the disk, and gives up the rights that no supervisor needs.

use crate::agent::Entrance;
use crate::door::Door;
use crate::enter::{Inside, ready_at, rights};
use crate::failure::{During, Failure, Outcome};
use crate::trees::Trees;
use crate::usage::Counters;
use crate::work::Confinement;
use paddock_protocol::{DiskPlan, Plan, RootPlan, SENTRY_PLACE};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::os::fd::OwnedFd;

/// `built`: the files that were written while the root was built, in the form of [`Trees::write_built`].
pub fn enter_built_root(plan: &Plan, built: &[u8]) -> Outcome<Inside> {
    let RootPlan::Built { uncover } = &plan.root else {
        return Err(Failure { step: "a root that does not stand".into(), errno: Errno::INVAL });
    };
    rustix::system::sethostname(plan.hostname.as_bytes()).during(|| "set the host name".into())?;
    for path in uncover {
        match rustix::mount::unmount(path.as_str(), UnmountFlags::DETACH) {
            // Not every version mounts there.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(errno) => return Err(errno).during(|| format!("uncover {path}")),
        }
    }
    let mut trees =
        Trees { layer: tree("layer")?, start: tree("start")?, image: tree("image")?, ..Trees::default() };
    trees.read_built(built);
    let counters = Counters::open(matches!(plan.disk, DiskPlan::Memory { .. }).then_some("/tmp"), &[]);
    let confinement = Confinement::prepare(plan, Vec::new(), &trees, None)?;
    let lasting = plan.listener.is_some();
    let door = lasting.then(|| Door::open(plan.ids.guest)).transpose()?;
    // A kernel without secure bits drops the capabilities of a process that stops being root, unless told to keep them.
    rustix::thread::set_keep_capabilities(true).during(|| "keep capabilities".into())?;
    rights::become_guest(plan.ids, false)?;
    let ready_at = if lasting { ready_at(trees.layer.as_ref())? } else { 0 };
    Ok(Inside {
        confinement,
        counters,
        // Its clocks begin with it.
        time_namespace: true,
        listener: door.map(Entrance::Door),
        trees,
        awaited: Vec::new(),
        zygote: None,
        ready_at,
        // The process that runs the kernel keeps the network link.
        network: None,
        kept: Vec::new(),
        sudo: None,
        memory_events: None,
    })
}

/// Absent if no host will ask for it.
fn tree(name: &str) -> Outcome<Option<OwnedFd>> {
    let path = format!("{SENTRY_PLACE}/{name}");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, path.as_str(), flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        tree => tree.map(Some).during(|| format!("open {path}")),
    }
}
