//! The description of a sandbox, in plain data: no I/O.
//!
//! - [`spec`]: the resolved description that a backend turns into a fence
//! - [`limits`]: memory, cpu, processes, disk, files, output, time
//! - [`quantity`]: the text forms of sizes and durations
//! - [`availability`]: the abilities of a host for a backend, and a remedy for each lack
//! - [`capacity`]: the limits of a host beside the needs of a number of sandboxes
//! - [`guarantees`]: the guarantees that a sandbox really has, and those that a caller may demand
//! - [`outcome`]: how a run ended, why, and its resource use
//! - [`policy`]: one layer of settings (template, policy file, flags), and how layers merge
//! - [`net`]: the network rules of a sandbox, and the verdict on every connection
//! - [`ports`]: ports inside that answer everybody, and the host that programs are asked as
//! - [`secrets`]: values that never enter a sandbox, in the form of a policy
//! - [`protected`]: the names in a workspace that stay read-only, with reasons
//! - [`scan`]: the rules of the scan of code before it runs, and its findings
//! - [`api`]: the bodies of the HTTP API
//! - [`node`]: the number of a server among many, and the node that an id names
//! - [`names`]: names and ids that are safe to print, to use as file names and to log

pub mod api;
mod availability;
mod capacity;
mod guarantees;
mod limits;
mod names;
pub mod net;
mod node;
mod outcome;
mod policy;
mod ports;
pub mod protected;
mod quantity;
mod scan;
mod secrets;
mod spec;

pub use availability::{Availability, Check, CheckState};
pub use capacity::{Capacity, LimitCheck, LimitState, LimitUnit};
pub use guarantees::{
    BACKEND_NAMES, Boundary, Capability, DiskLimit, ForkKind, Guarantees, Identity, Isolation, LandlockLevel,
    LimitKind, NetworkEnforcement, PauseKind, Requirement, SnapshotKind, Survivor, UnknownRequirement,
};
pub use limits::{LimitError, Limits};
pub use names::{NameError, SandboxId, check_environment_name, check_hostname, check_template_name};
pub use node::{NodeNumber, NodeNumberError};
pub use outcome::{Captured, Cause, ExitStatus, RunReport, Usage};
pub use policy::{LimitsLayer, Policy};
pub use ports::{PortError, PortSettings, PublicPorts};
pub use quantity::{QuantityError, format_bytes, format_duration, parse_bytes, parse_duration};
pub use scan::{
    Finding, FindingKind, ScanMode, ScanReport, ScanRules, UnknownScanMode, common_imports, import_covers,
};
pub use secrets::{SecretLayer, SecretValue};
pub use spec::{
    Access, Disk, HIGHEST_ID, Mount, Network, Root, Spec, User, UserError, WORKSPACE_TARGET, Workspace,
};
