//! The options of runsc, and the bundle's `config.json`. Every path is one of the stage on which the guest runs runsc.

use super::runtime::Runtime;
use paddock_fences::shared::identity::{self, Method};
use paddock_model::{Network, Spec};
use paddock_protocol::{Ids, SENTRY_PLACE};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Mounts that runsc's kernel makes unasked, and that are taken away. /tmp would be a second disk without a limit, and
/// /sys tells the work about the kernel, which it need not know.
pub const UNCOVERED: [&str; 2] = ["/tmp", "/sys"];

/// The capabilities that the guest begins with, in runsc's kernel. The guest keeps fewer, and gives the work none.
const CAPABILITIES: [&str; 10] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_SETGID",
    "CAP_SETUID",
    "CAP_SETPCAP",
    "CAP_SYS_ADMIN",
    "CAP_SYS_PTRACE",
];

pub fn arguments(runtime: &Runtime, network: &Network) -> Vec<String> {
    let network = match network {
        Network::None => "none",
        // Sockets of the fence's own network namespace, in which there is nothing but the gate.
        Network::Gate(_) | Network::Host => "host",
    };
    let mut arguments = vec![
        "--root=/state".to_string(),
        format!("--platform={}", runtime.platform),
        format!("--network={network}"),
        // The disk can be looked at from outside, and be copied at any moment.
        "--file-access=shared".into(),
    ];
    if identity::method() == Method::Helpers {
        // Its processes are to have the id of the fence's root: the few ids of the fence include no `nobody`.
        arguments.push("--rootless=true".into());
    }
    let wanted = [
        // The cgroups are made already, and joined.
        ("ignore-cgroups", "true"),
        // Written files belong on the disk, whose limit the host's kernel holds.
        ("overlay2", "none"),
        ("host-uds", "none"),
        // No process of the sandbox reaches files but through the gofer.
        ("directfs", "false"),
        ("host-settings", "ignore"),
    ];
    arguments.extend(
        wanted
            .iter()
            .filter(|(flag, _)| runtime.knows(flag))
            .map(|(flag, value)| format!("--{flag}={value}")),
    );
    arguments
}

pub fn config(spec: &Spec, ids: Ids) -> Vec<u8> {
    let guest = format!("{SENTRY_PLACE}/guest");
    let shm = format!("size={}", (spec.limits.memory / 2).max(1 << 20));
    let config = json!({
        "ociVersion": "1.0.2",
        "hostname": spec.hostname,
        "root": { "path": "/root", "readonly": false },
        "process": {
            "user": { "uid": 0, "gid": 0 },
            "args": [guest, "stand", SENTRY_PLACE],
            "env": [],
            "cwd": "/",
            "capabilities": {
                "bounding": CAPABILITIES,
                "effective": CAPABILITIES,
                "permitted": CAPABILITIES,
            },
        },
        "mounts": [
            { "destination": "/proc", "type": "proc", "source": "proc" },
            { "destination": "/dev/shm", "type": "tmpfs", "source": "shm",
              "options": ["nosuid", "nodev", "noexec", "mode=1777", shm] },
            { "destination": SENTRY_PLACE, "type": "bind", "source": "/inner", "options": ["rbind", "nosuid", "nodev"] },
        ],
        "linux": namespaces(&spec.network, ids),
    });
    config.to_string().into_bytes()
}

/// By default runsc gives its processes a user namespace of their own only if they have no network. With one they would
/// keep the id of their parent: root of the fence, which may configure that network.
fn namespaces(network: &Network, ids: Ids) -> Value {
    let kinds: &[&str] = match network {
        Network::None => &["pid", "mount", "ipc", "uts"],
        Network::Gate(_) | Network::Host => &["pid", "mount", "ipc", "uts", "user"],
    };
    let kinds: Vec<Value> = kinds.iter().map(|kind| json!({ "type": kind })).collect();
    if *network == Network::None {
        return json!({ "namespaces": kinds });
    }
    let same = |inside: [u32; 3]| match identity::method() {
        Method::Range => json!([{ "containerID": 0, "hostID": 0, "size": identity::RANGE }]),
        // All that there are.
        Method::Helpers | Method::Single => {
            let each = BTreeSet::from(inside).into_iter();
            each.map(|id| json!({ "containerID": id, "hostID": id, "size": 1 })).collect()
        }
    };
    json!({
        "namespaces": kinds,
        "uidMappings": same([ids.guest, ids.root, ids.work]),
        "gidMappings": same([ids.guest, ids.root_group, ids.work_group]),
    })
}
