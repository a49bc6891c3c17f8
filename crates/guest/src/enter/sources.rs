//! Opens the host's directories and files as detached mounts, while this process still has the caller's rights.

use crate::failure::{During, Failure, Outcome};
use paddock_protocol::{DiskPlan, Plan, RootPlan, Source, Step};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Detached mounts by the place they come from; each is used once.
pub struct Sources {
    passed: Vec<Option<OwnedFd>>,
    by_path: BTreeMap<String, OwnedFd>,
}

impl Sources {
    pub fn take(&mut self, source: &Source) -> Outcome<OwnedFd> {
        let (found, name) = match source {
            Source::Descriptor(index) => {
                (self.passed.get_mut(*index).and_then(Option::take), format!("descriptor {index}"))
            }
            Source::Path { path, .. } | Source::System(path) => (self.by_path.remove(path), path.clone()),
        };
        found.ok_or_else(|| Failure { step: format!("use {name} twice"), errno: Errno::INVAL })
    }
}

pub fn open(plan: &Plan, passed: Vec<OwnedFd>) -> Outcome<Sources> {
    let passed = passed.into_iter().map(Some).collect();
    let mut sources = Sources { passed, by_path: BTreeMap::new() };
    if let RootPlan::Overlay { lower: source } | RootPlan::Mounted { root: source } = &plan.root {
        sources.add(source)?;
    }
    if let DiskPlan::Mounted(source) = &plan.disk {
        sources.add(source)?;
    }
    sources.add_all(plan.start.iter())?;
    for step in &plan.steps {
        match step {
            Step::Bind { source, .. } => sources.add(source)?,
            Step::System { source, over, .. } => {
                sources.add(source)?;
                sources.add_all(over.iter().map(|over| &over.source))?;
            }
            Step::Kernel(kernel) => {
                for (_, source) in &kernel.devices {
                    sources.add(source)?;
                }
            }
            _ => {}
        }
    }
    Ok(sources)
}

impl Sources {
    pub fn add_all<'a>(&mut self, sources: impl Iterator<Item = &'a Source>) -> Outcome<()> {
        sources.into_iter().try_for_each(|source| self.add(source))
    }

    fn add(&mut self, source: &Source) -> Outcome<()> {
        let (path, identity) = match source {
            Source::Descriptor(_) => return Ok(()),
            Source::System(path) => (path, None),
            Source::Path { path, device, inode } => (path, Some((*device, *inode))),
        };
        let flags = OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
        let tree = open_tree(CWD, path.as_str(), flags).during(|| format!("open {path}"))?;
        if let Some(identity) = identity {
            let found = rustix::fs::fstat(&tree).during(|| format!("look at {path}"))?;
            // The host checked this file; a swap between its look and ours must not pass.
            if (found.st_dev, found.st_ino) != identity {
                let step = format!("mount {path}: it was replaced meanwhile");
                return Err(Failure { step, errno: Errno::STALE });
            }
        }
        self.by_path.insert(path.clone(), tree);
        Ok(())
    }
}
