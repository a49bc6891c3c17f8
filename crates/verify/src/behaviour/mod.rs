//! How every operation of `/v1` behaves on a backend, against a real server. One check may try several operations that
//! only make sense together; each of them is a line of the report.
//!
//! - [`place`]: the server, and a sandbox in it; [`http`]: requests by hand
//! - [`sandboxes`], [`execs`], [`files`], [`copies`], [`code`], [`ports`], [`access`], [`volumes`], [`resources`], [`secrets`], [`templates`], [`jobs`]:
//!   the checks, by resource

mod access;
mod code;
mod copies;
mod execs;
mod files;
mod http;
mod jobs;
mod place;
mod ports;
mod resources;
mod sandboxes;
mod secrets;
mod templates;
mod volumes;

use crate::fence::{Engine, Identity};
use crate::host::Host;
use crate::interrupt;
use crate::report::{Judgement, Row};
use anyhow::Result;
use http::Unsupported;
use place::Place;

pub struct Check {
    /// Their names in the API's description.
    pub operations: &'static [&'static str],
    pub title: &'static str,
    pub run: fn(&Place) -> Result<()>,
}

/// Something that the sandbox's system lacks, so that there is nothing to try; measured inside.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Lacking(String);

pub fn checks() -> impl Iterator<Item = &'static Check> {
    [
        sandboxes::CHECKS,
        execs::CHECKS,
        files::CHECKS,
        copies::CHECKS,
        code::CHECKS,
        ports::CHECKS,
        access::CHECKS,
        volumes::CHECKS,
        resources::CHECKS,
        secrets::CHECKS,
        templates::CHECKS,
        jobs::CHECKS,
        sandboxes::LAST_CHECKS,
    ]
    .into_iter()
    .flatten()
}

/// Ids in the report, one per operation.
pub fn ids() -> impl Iterator<Item = String> {
    checks().flat_map(|check| check.operations).map(|operation| id(operation))
}

fn id(operation: &str) -> String {
    format!("V-{operation}")
}

/// The server's engine is tried once; the user inside makes no difference to its operations.
pub fn applies(identity: Identity) -> bool {
    identity.user == "agent"
}

pub fn run(
    host: &Host,
    backend: &str,
    engine: Engine,
    chosen: &dyn Fn(&str) -> bool,
    row: &mut Row,
    told: &mut dyn FnMut(&str),
) -> Result<()> {
    let wanted: Vec<&Check> =
        checks().filter(|check| check.operations.iter().any(|operation| chosen(&id(operation)))).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let place = Place::start(host, backend, engine)?;
    for check in wanted {
        interrupt::check()?;
        let ids: Vec<String> = check.operations.iter().map(|operation| id(operation)).collect();
        let judgement = match (check.run)(&place) {
            Ok(()) => Judgement::Held,
            Err(error) if error.is::<Unsupported>() || error.is::<Lacking>() => {
                Judgement::NotApplicable(format!("{error:#}"))
            }
            Err(error) => Judgement::Failed(format!("{error:#}")),
        };
        for id in ids {
            told(&id);
            row.put(&id, check.title, judgement.clone());
        }
    }
    Ok(())
}
