//! The hosts and sandboxes on which interpreters can be forked live.

use crate::shared::identity::{self, Method};
use paddock_protocol::ANCHORED;
use std::path::Path;

/// Namespaces nest at most 32 deep, and the host itself may be nested.
const DEEPEST: usize = 16;

/// The reason why no interpreter can be forked live on this host.
pub fn missing() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("interpreters are carried on x86-64 only".into());
    }
    let own_ids = identity::method() == Method::Range;
    (!own_ids).then(|| {
        "this host lets only root suspend the seccomp filter of a process that it traces; run paddock as root".into()
    })
}

/// Why nothing nests in the sandbox of this guest, where others nest it already.
pub fn too_deep(guest: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{guest}/status")).unwrap_or_default();
    let depth = status.lines().find_map(|line| line.strip_prefix("NSpid:")).map_or(0, |numbers| {
        // The host's own is none of ours.
        numbers.split_whitespace().count().saturating_sub(1)
    });
    (depth >= DEEPEST).then(|| format!("it is a fork of a fork, {DEEPEST} deep: namespaces nest no deeper"))
}

/// As `missing`, for the sandbox of this guest.
pub fn missing_in(guest: u32) -> Option<String> {
    let anchored = std::fs::read_link(format!("/proc/{guest}/root"));
    let anchored = anchored.is_ok_and(|root| root == Path::new("/").join(ANCHORED));
    let missing = missing().or_else(|| {
        (!anchored).then(|| {
            "its root is not below the anchor, as that of a sandbox of a pool is not: its Landlock rules would mean \
             nothing in a fork"
                .into()
        })
    });
    missing.or_else(|| too_deep(guest))
}
