//! One suite for every fence: attacks carried out from inside by a probe, each with a control outside that
//! shows that the attack can succeed. `paddock verify` runs it for a user, `tests/conformance` for CI.
//!
//! - [`suite`]: the whole of it, from options to a report; [`judge`]: the verdict on one attack
//! - [`report`]: the result as data; [`table`]: the same for people; [`kept`]: the same for the state directory
//! - [`attack`]: an attack, and its outcome
//! - [`probe`]: the half that runs inside, one file per group of attacks; the executable under test is its own probe
//! - [`fence`]: runs a command behind a backend of `paddock`, as root and rootless
//! - [`host`]: canaries, listeners and a victim process on the host, for the attacks to miss
//! - [`control`]: runs the same probe outside, in throw-away namespaces
//! - [`scenarios`]: attacks that need limits, two sandboxes or a look from outside
//! - [`behaviour`]: every operation of the API against a real server
//! - [`expectations`]: the expected outcome of each attack, from one file
//! - [`sweep`]: the remains of a run
//! - [`interrupt`]: a suite that is broken off cleans up too
//!
//! Inside, errors are words of anyhow: they end in the report, and no code tells them apart. Errors that a caller can
//! tell apart are [`VerifyError`].

mod attack;
mod behaviour;
mod control;
mod error;
pub mod expectations;
mod fence;
mod host;
mod interrupt;
mod judge;
mod kept;
mod probe;
mod report;
mod scenarios;
mod suite;
mod sweep;
mod table;

pub use attack::group;
pub use error::VerifyError;
pub use fence::Engine;
pub use probe::serve_if_asked;
pub use report::{Judged, Judgement, NotRun, Report, Row};
pub use suite::{Options, Step, ids, operations, verify};

/// The letters of the groups, and the subject of each.
pub const GROUPS: [(char, &str); 8] = [
    ('A', "files of the host"),
    ('B', "processes and the guest"),
    ('C', "the kernel's surface"),
    ('D', "network"),
    ('E', "exhaustion"),
    ('F', "what could be read"),
    ('H', "beyond the catalogue"),
    ('V', "behaviour of the API"),
];
