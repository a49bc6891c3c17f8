//! Which backend a spec gets: the one that is named, or the first that is there and meets every demand.

use crate::gvisor::GvisorBackend;
use crate::microvm::MicrovmBackend;
use crate::process::ProcessBackend;
use paddock_fences::backend::Backend;
use paddock_model::{Requirement, Spec};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    #[error("there is no backend `{name}`; known are {known}")]
    Unknown { name: String, known: String },
    #[error("no backend of this host gives `{requirement}`: {reasons}")]
    Requirement { requirement: &'static str, reasons: String },
}

/// The backends for a state directory, the preferred first. The maker of an engine chooses them; Paddock itself takes [`all`].
pub type FindBackends = fn(&Path) -> Vec<Box<dyn Backend>>;

/// Every backend of this build, the preferred first.
pub fn all(state: &Path) -> Vec<Box<dyn Backend>> {
    vec![
        Box::new(ProcessBackend::new(state)),
        Box::new(GvisorBackend::new(state)),
        Box::new(MicrovmBackend::new(state)),
    ]
}

pub fn select(
    backends: Vec<Box<dyn Backend>>,
    name: Option<&str>,
    spec: &Spec,
) -> Result<Box<dyn Backend>, SelectError> {
    let known = backends.iter().map(|b| b.name()).collect::<Vec<_>>().join(", ");
    let candidates: Vec<_> = backends.into_iter().filter(|b| name.is_none_or(|n| n == b.name())).collect();
    if candidates.is_empty() {
        return Err(SelectError::Unknown { name: name.unwrap_or_default().to_string(), known });
    }
    let mut refusals = Vec::new();
    for backend in candidates {
        // Looking at the host takes time; a spec without requirements need not wait for it.
        let unmet = if spec.require.is_empty() { None } else { first_unmet(spec, backend.as_ref()) };
        match unmet {
            None => return Ok(backend),
            Some((requirement, reason)) => {
                refusals.push((requirement, format!("{}: {reason}", backend.name())))
            }
        }
    }
    let requirement = refusals.first().map_or("", |(r, _)| r.name());
    let reasons = refusals.into_iter().map(|(_, reason)| reason).collect::<Vec<_>>().join("; ");
    Err(SelectError::Requirement { requirement, reasons })
}

fn first_unmet(spec: &Spec, backend: &dyn Backend) -> Option<(Requirement, String)> {
    let guarantees = backend.guarantees(spec);
    let unmet = spec.require.iter().find_map(|r| r.met_by(&guarantees).err().map(|reason| (*r, reason)));
    // The guarantees of a backend are of no use where it cannot run at all.
    unmet.or_else(|| Some((*spec.require.first()?, backend.missing()?)))
}

#[cfg(test)]
mod tests {
    use super::{GvisorBackend, MicrovmBackend, ProcessBackend};

    #[test]
    fn a_caller_may_ask_for_every_backend_of_this_build() {
        let state = tempfile::tempdir().unwrap();
        let names: Vec<_> = super::all(state.path()).iter().map(|backend| backend.name()).collect();
        assert_eq!(names, [ProcessBackend::NAME, GvisorBackend::NAME, MicrovmBackend::NAME]);
        assert!(names.iter().all(|name| paddock_model::BACKEND_NAMES.contains(name)));
    }
}
