//! Pools of sandboxes that are ready before a request comes.

use serde::{Deserialize, Serialize};

/// How many sandboxes of a template are kept ready.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PoolSize {
    /// At least so many, whatever the demand.
    pub min: u32,
    /// At most so many, however many were asked for in the last seconds.
    pub max: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Pool {
    pub template: String,
    pub min: u32,
    pub max: u32,
    /// Sandboxes that wait for somebody.
    pub ready: u32,
    /// Sandboxes that are just being made.
    pub making: u32,
    /// Sandboxes that creates got from it, ready or made at once, and that have not ended.
    #[serde(default)]
    pub in_use: u32,
    /// How many there should be, by what was asked for in the last seconds.
    pub wanted: u32,
    /// Creates that found one ready, and those that did not.
    pub hits: u64,
    pub misses: u64,
    pub zygote: ZygoteState,
    /// Modules that the interpreter has imported before it is forked.
    pub preload: Vec<String>,
    #[serde(default)]
    pub made_by: PoolMaker,
    /// The last error, while it lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Why there is a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PoolMaker {
    /// It was set.
    #[default]
    Owner,
    /// A job runs that needs many.
    Job,
    /// The same sandbox was asked for twice. It goes when nobody asks any more, and cannot be set or removed.
    Demand,
}

/// The interpreter that is forked into the sandboxes of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ZygoteState {
    Starting,
    Ready,
    /// Each sandbox starts its own; `error` says why.
    Unavailable,
}
