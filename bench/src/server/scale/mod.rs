//! Thousands of sandboxes on one host, and as many calls as it takes. Needs nothing but `paddock` and Python on the
//! host, so that a static executable of this bench can be carried to any host.
//!
//! - [`crowd`]: the time of each call with none, a hundred, thousands of live sandboxes
//! - [`floor`]: the same namespaces without Paddock, with as many live
//! - [`rates`]: calls of many clients, from a pool, without one, and warm
//! - [`forks`]: a context with data in it, forked a thousand times
//! - [`soak`]: half of the best rate for minutes: does anything grow?
//! - [`goals`]: the targets

mod crowd;
mod floor;
mod forks;
mod goals;
mod rates;
mod soak;

pub use goals::PROMISES;

use super::Setting;
use super::part::{Findings, Part};
use super::process::Server;
use anyhow::Result;
use std::time::Duration;

/// Precondition: the part is one of [`Part::SCALE`].
pub async fn measure(setting: Setting<'_>, server: &mut Server, part: Part) -> Result<Findings> {
    match part {
        Part::ScaleRates => rates::measure(setting, server).await,
        Part::ScaleForks => forks::measure(server).await,
        Part::ScaleSoak => soak::measure(setting, server).await,
        _ => crowd::measure(setting, server).await,
    }
}

/// Enough clients to keep every processor busy, and no more of them than the goals name.
fn clients() -> usize {
    (processors() * 2).clamp(4, 16)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
