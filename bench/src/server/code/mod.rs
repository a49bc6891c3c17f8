//! run_code: an interpreter in a sandbox that may have been ready before the request.
//!
//! - [`pool`]: sandboxes that are kept ready, if the server knows pools
//! - [`once`]: create, run_code, kill
//! - [`first`], [`preloaded`], [`warm`], [`burst`], [`sustained`], [`crowd`]: one part each
//! - [`floor`]: the least possible time
//! - [`rivals`], [`jupyter`]: other products that run Python, and have to be asked in another way than `paddock run`'s
//!   peers
//! - [`promises`]: the targets

mod burst;
mod crowd;
mod first;
mod floor;
mod jupyter;
mod once;
pub(super) mod pool;
mod preloaded;
mod promises;
mod rivals;
mod sustained;
mod warm;

pub use once::{Steps, once};
pub use pool::{remove_all as remove_pools, set as set_pool};
pub use promises::PROMISES;

use super::part::{Findings, Part};
use super::process::Server;
use crate::contestants::Field;
use crate::scratch::Scratch;
use anyhow::Result;
use std::time::Duration;

/// The settings of all parts.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    pub scratch: &'a Scratch,
    pub counts: Counts,
    /// So many sandboxes live at once, at the last point of `scale-crowd`.
    pub live: usize,
    /// How long `scale-soak` takes.
    pub soak: Duration,
    /// True if a missing peer may be fetched.
    pub install: bool,
}

/// How much of each.
#[derive(Clone, Copy)]
pub struct Counts {
    pub rounds: usize,
    pub warm_rounds: usize,
    pub at_once: usize,
    pub sustained: Duration,
    pub crowd: usize,
}

impl Counts {
    pub fn new(quick: bool) -> Counts {
        let whole = Counts {
            rounds: 300,
            warm_rounds: 1_000,
            at_once: 100,
            sustained: Duration::from_secs(60),
            crowd: 1_000,
        };
        let few =
            Counts { rounds: 12, warm_rounds: 30, at_once: 10, sustained: Duration::from_secs(3), crowd: 20 };
        if quick { few } else { whole }
    }
}

/// Precondition: the part is one of [`Part::CODE`].
pub async fn measure(
    setting: Setting<'_>,
    server: &Server,
    beside: Option<&Field>,
    part: Part,
) -> Result<Findings> {
    match part {
        Part::CodePreloaded => preloaded::measure(setting, server, beside).await,
        Part::CodeWarm => warm::measure(setting, server).await,
        Part::CodeBurst => burst::measure(setting, server).await,
        Part::CodeSustained => sustained::measure(setting, server).await,
        Part::CodeCrowd => crowd::measure(setting, server).await,
        Part::CodeFloor => floor::measure(setting, server).await,
        _ => first::measure(setting, server, beside).await,
    }
}
