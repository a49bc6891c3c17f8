//! The capacity of one host for a number of sandboxes at one time: each of its limits beside their needs.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// The number that is to live at one time, and the number that lives now.
    pub sandboxes: u64,
    pub live: u64,
    /// Every limit suffices. False also where one could not be read.
    pub enough: bool,
    pub limits: Vec<LimitCheck>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitCheck {
    pub name: String,
    /// The setting's name, as the kernel or the service manager calls it, if it can be set.
    pub setting: Option<String>,
    pub state: LimitState,
    pub unit: LimitUnit,
    /// Absent if there is no limit, or if `state` is `unknown`.
    pub limit: Option<u64>,
    /// Includes the present use by all processes, as far as the kernel tells.
    pub needed: u64,
    /// The same with a command in each, whose output is followed and which watches files and talks to the network.
    pub needed_at_work: u64,
    /// Parts of `needed` and `needed_at_work` that each further sandbox takes.
    pub per_sandbox: u64,
    pub per_sandbox_at_work: u64,
    pub detail: String,
    /// The exact command or setting.
    pub remedy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitState {
    Enough,
    /// All of them can live, but not work at one time.
    TooLowForWork,
    /// The last ones cannot be made.
    TooLow,
    /// The limit could not be read.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitUnit {
    Count,
    Bytes,
}
