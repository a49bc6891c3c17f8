//! A sandbox whose root may install packages and manage users, or whose ordinary user may become root.
//!
//! Its root keeps capabilities in the sandbox's own user namespace. They reach files whose owner has an id in there, and every id of
//! there, so the sandbox needs a range of ids that nothing else has.

use super::identity::{self, Identity, Method};
use crate::error::CreateError;
use paddock_model::Spec;
use paddock_protocol::INSTALLER_CAPABILITIES;

/// The capabilities that root of such a sandbox has.
pub fn capabilities(spec: &Spec) -> Vec<String> {
    let has = spec.root_may_install && identity::method() == Method::Range;
    INSTALLER_CAPABILITIES.iter().filter(|_| has).map(|(name, _)| name.to_string()).collect()
}

/// True if the ordinary user of such a sandbox may become root.
pub fn becomes_root(spec: &Spec) -> bool {
    spec.become_root && identity::method() == Method::Range
}

/// True if the sandbox wants something of its root that takes a range of ids.
pub fn wants_a_range(spec: &Spec) -> bool {
    spec.root_may_install || spec.become_root
}

/// Refuses a sandbox in which the capabilities would reach too far. `shares`: others nest in it, or it has the ids of the one that it
/// nests in. A process with capabilities in a user namespace has them in those below it too.
pub fn check(identity: &Identity, shares: bool) -> Result<(), CreateError> {
    if shares {
        return Err(CreateError::unavailable(
            "a root that may install packages, or that the user becomes, in a sandbox that shares its ids with another",
        ));
    }
    match identity.whole_range() {
        Some(_) => Ok(()),
        None => Err(CreateError::Unavailable {
            missing: "ids for a root that may install packages, or that the user becomes: an ordinary user has too few of them".into(),
            remedy: Some("run paddock as root, or leave `root_may_install` and `become_root` out".into()),
        }),
    }
}

/// The guest behind a kernel in user space knows its host by the id of the process that brings the connection, and its files by
/// their owner. A root that may become every id would be taken for it.
pub fn refuse_behind_a_sentry(spec: &Spec) -> Result<(), CreateError> {
    refuse(spec, "behind gVisor: the guest there is told from the work by its id alone")
}

/// The ids of a sandbox in a VM are those of the VM's own kernel, so its root is the one that files of that kernel belong to.
pub fn refuse_in_a_vm(spec: &Spec) -> Result<(), CreateError> {
    refuse(spec, "in a VM: its root has the id of the root of the VM's own kernel")
}

fn refuse(spec: &Spec, place: &str) -> Result<(), CreateError> {
    match wants_a_range(spec) {
        false => Ok(()),
        true => Err(CreateError::Unavailable {
            missing: format!("a root that may install packages, or that the user becomes, {place}"),
            remedy: Some("use `--backend process`, or leave `root_may_install` and `become_root` out".into()),
        }),
    }
}
