//! The traffic that may leave a sandbox: rules, and the verdict on every connection.
//!
//! - [`NetSetting`], [`NetLayer`]: the rules that a person wrote in one layer of policy
//! - [`NetRules`]: all layers together, checked, with the presets written out
//! - `domain`, `rule`: names and rules in the one form that is compared
//! - `registry`: the registry in the name of an image, if a stranger chose that name
//! - `special`: addresses that names do not lead to
//! - `verdict`: the decision
//! - `event`: a decision of the gate, for the audit and for people
//! - [`place`]: the addresses at both ends of a sandbox's link
//! - `learn`: the rules that a run would have needed

mod domain;
mod event;
mod layer;
mod learn;
pub mod place;
mod registry;
mod rule;
mod special;
mod verdict;

pub use domain::{DomainError, DomainName};
pub use event::{NetEvent, NetOutcome, Way};
pub use layer::{NetError, NetLayer, NetSetting};
pub use learn::Learned;
pub use registry::{is_registry_inside, vouches_for_registry};
pub use rule::{Ports, Rule, RuleError, Target};
pub use special::{SpecialKind, is_special, is_special_block, plain};
pub use verdict::{Denial, Grant, Verdict};

use serde::{Deserialize, Serialize};

/// Everything decided. Nothing in it: nothing is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetRules {
    pub allow: Vec<Rule>,
    /// As `allow`, but these open public addresses only.
    pub allow_public: Vec<Rule>,
    /// Wins over `allow`.
    pub deny: Vec<Rule>,
    /// The allowed methods of HTTP that can be read; if set, traffic that cannot be read is refused.
    pub methods: Option<Vec<String>>,
    /// Bytes per second, both directions together.
    pub rate: Option<u64>,
    /// Bytes in the whole life of the sandbox, both directions together.
    pub bytes: Option<u64>,
    pub mode: Mode,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    #[default]
    Enforce,
    /// Connections without an allowing rule are denied, and names are answered so that the port is learnt too.
    LearnDeny,
    /// Connections without a denying rule are allowed, except to special addresses.
    LearnAllow,
}

impl Mode {
    pub const NAMES: [(&'static str, Mode); 3] =
        [("enforce", Mode::Enforce), ("learn-deny", Mode::LearnDeny), ("learn-allow", Mode::LearnAllow)];
}
