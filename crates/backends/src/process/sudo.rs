//! `sudo` in a sandbox whose ordinary user may become root: the guest's executable under another name, and the part of the guest's plan
//! that says whom it lets in.

use super::passed::Passed;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::shared::guest_executable;
use paddock_model::{Root, Spec, User};
use paddock_protocol::{NodeKind, Overlaid, Step, SudoPlan};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::path::Path;

/// Its name below the directory that is laid over /usr.
const BELOW_USR: &str = "bin/sudo";
/// In an image it stands before the image's own, which a package manager inside may replace.
const BELOW_LOCAL: &str = "bin/sudo";

/// Adds the steps that put it inside, read-only and with an inode of the sandbox's own. Precondition: they come before the kernel's
/// file systems.
pub fn add(
    state: &Path,
    spec: &Spec,
    steps: &mut Vec<Step>,
    passed: &mut Passed,
) -> Result<SudoPlan, CreateError> {
    let place = guest_executable::place_of_sudo(state).host(|| "unpack sudo".into())?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(rustix::fs::CWD, &place, flags).host(|| format!("open {}", place.display()))?;
    let source = passed.add(tree)?;
    let program = match &spec.root {
        Root::HostUsr => {
            let usr = steps.iter_mut().find_map(|step| match step {
                Step::System { path, over, .. } if path == "/usr" => Some(over),
                _ => None,
            });
            let Some(over) = usr else {
                return Err(CreateError::unavailable("`sudo` in a root without a /usr of the host"));
            };
            *over = Some(Overlaid { source, names: vec![BELOW_USR.into()] });
            format!("/usr/{BELOW_USR}")
        }
        Root::Directory { .. } => {
            let path = "/usr/local".to_string();
            let program = format!("{path}/{BELOW_LOCAL}");
            let names = vec![(BELOW_LOCAL.into(), NodeKind::File)];
            steps.push(Step::System { source, path, names, shared: false, over: None });
            program
        }
    };
    let (uid, name) = match &spec.user {
        User::Agent | User::Root | User::Installer => (1000, None),
        User::Ids { uid, .. } => (*uid, None),
        User::Name(name) => (1000, Some(name.clone())),
    };
    Ok(SudoPlan { uid, name, program })
}
