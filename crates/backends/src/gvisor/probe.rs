//! The parts of gVisor that this host has, and how to get the rest.

use super::GvisorBackend;
use super::runtime::{self, REMEDY, Runtime};
use crate::process::probe as fence;
use crate::process::probe::check;
use paddock_fences::shared::identity;
use paddock_model::{
    Access, Availability, Boundary, Check, CheckState, Disk, ForkKind, Guarantees, Isolation, LandlockLevel,
    LimitKind, Mount, Network, PauseKind, SnapshotKind, Spec, Survivor,
};
use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A platform that works runs something long before that; one that does not may hang.
const PLATFORM_TIMEOUT: Duration = Duration::from_secs(5);
const PAUSE_BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// The guarantees of the process fence around it, with the differences behind the sentry.
pub fn guarantees(state: &Path, spec: &Spec) -> Guarantees {
    let around = fence::guarantees(spec);
    let keeps_memory = keeps_memory(state, spec);
    let mut guarantees = Guarantees {
        backend: GvisorBackend::NAME.into(),
        boundary: Boundary::UserSpaceKernel,
        // The sentry counts no processes itself: by a cgroup, or by the id of its processes.
        pids_limit: LimitKind::Kernel,
        pause: PauseKind::StopSignals,
        // The sentry takes the work's filter, and filters its own calls to the host.
        seccomp: Isolation::On,
        landlock_abi: LandlockLevel(0),
        // The sentry's clocks begin with it.
        time_namespace: Isolation::On,
        system_inodes: Isolation::On,
        device_inodes: Isolation::On,
        capabilities: Vec::new(),
        root_capabilities: Vec::new(),
        become_root: false,
        snapshot: if keeps_memory { SnapshotKind::Memory } else { around.snapshot },
        fork: if keeps_memory { ForkKind::Memory } else { ForkKind::Filesystem },
        survives_hibernate: match keeps_memory {
            true => vec![Survivor::Files, Survivor::Memory, Survivor::Processes],
            false => around.survives_hibernate.clone(),
        },
        ..around
    };
    guarantees.weaknesses = fence::weaknesses(&guarantees);
    guarantees
}

/// The guest behind the sentry, its root and the work are told apart by their ids, on the disk too.
pub fn too_few_ids() -> Option<&'static str> {
    let few = identity::method() == identity::Method::Single;
    few.then_some(
        "an ordinary user without subordinate ids has one host id to give, and gVisor's gofer needs three",
    )
}

/// Memory is kept together with a disk as it was at the same instant: one in storage, and none that is in memory itself.
/// A sentry whose sockets are the fence's cannot be kept: they are not in its memory.
fn keeps_memory(state: &Path, spec: &Spec) -> bool {
    let in_memory = |mount: &Mount| mount.access == Access::Tmpfs;
    matches!(spec.disk, Disk::Directory { .. })
        && spec.network == Network::None
        && !spec.mounts.iter().any(in_memory)
        && identity::method() == identity::Method::Range
        && runtime::find(state).is_ok_and(|runtime| runtime.brings_memory_back())
}

pub fn availability(state: &Path) -> Availability {
    let mut checks = Vec::new();
    match runtime::find(state) {
        Ok(found) => {
            let detail = format!("{} {}", found.path.display(), found.version);
            checks.push(check("runsc", CheckState::Good, detail, None));
            checks.extend(platforms(&found));
        }
        Err(error) => checks.push(check("runsc", CheckState::Missing, error.to_string(), Some(REMEDY))),
    }
    if let Some(missing) = too_few_ids() {
        checks.push(check("identities", CheckState::Missing, missing, Some(fence::LEND_IDS)));
    }
    checks.push(fence::around(state));
    let usable = checks.iter().all(|check| check.state != CheckState::Missing);
    Availability { backend: GvisorBackend::NAME.into(), usable, checks }
}

/// Tried, each on a sandbox of runsc's own that does nothing.
fn platforms(runtime: &Runtime) -> Vec<Check> {
    let used = runtime.platform.as_str();
    let names = ["systrap", "ptrace", "kvm"].into_iter().filter(|name| runtime.offers(name));
    let tried: Vec<(&str, Result<(), String>)> = names.map(|name| (name, attempt(runtime, name))).collect();
    let works = |(name, tried): &(&str, Result<(), String>)| match tried {
        Ok(()) => format!("{name} works{}", if *name == used { " and is used" } else { "" }),
        Err(why) => format!("{name} does not: {why}"),
    };
    let detail = tried.iter().map(works).collect::<Vec<_>>().join("; ");
    let state = match tried.iter().any(|(name, tried)| *name == used && tried.is_ok()) {
        true => CheckState::Good,
        false => CheckState::Missing,
    };
    let remedy = (state == CheckState::Missing)
        .then_some("another release of gVisor may know another platform; or run paddock as root");
    vec![check("platform", state, detail, remedy)]
}

fn attempt(runtime: &Runtime, platform: &str) -> Result<(), String> {
    let place = std::env::temp_dir().join(format!("paddock-doctor-{}-{platform}", std::process::id()));
    let tried = try_in(&place, runtime, platform).map_err(|error| error.to_string());
    let _ = std::fs::remove_dir_all(&place);
    tried.and_then(|said| said)
}

fn try_in(place: &Path, runtime: &Runtime, platform: &str) -> std::io::Result<Result<(), String>> {
    std::fs::DirBuilder::new().mode(0o700).create(place)?;
    let said = place.join("said");
    let mut command = Command::new(&runtime.path);
    command.arg(format!("--root={}", place.join("state").display())).arg(format!("--platform={platform}"));
    command.args(["--network=none", "--ignore-cgroups"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--rootless");
    }
    let (stdin, stdout, stderr) = (Stdio::null(), Stdio::null(), File::create(&said)?);
    let mut tried = command.args(["do", "true"]).stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
    let deadline = Instant::now() + PLATFORM_TIMEOUT;
    let ended = loop {
        match tried.try_wait()? {
            None if Instant::now() < deadline => std::thread::sleep(PAUSE_BETWEEN_LOOKS),
            ended => break ended,
        }
    };
    let Some(ended) = ended else {
        tried.kill()?;
        tried.wait()?;
        return Ok(Err(format!("nothing ran within {} seconds", PLATFORM_TIMEOUT.as_secs())));
    };
    if ended.success() {
        return Ok(Ok(()));
    }
    let said = std::fs::read(said)?;
    let said = String::from_utf8_lossy(&said);
    let last: String = said.trim().lines().last().unwrap_or("it says nothing").chars().take(160).collect();
    Ok(Err(last.escape_debug().to_string()))
}
