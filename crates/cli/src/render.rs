//! What a person reads: data on stdout, the rest on stderr. Text that is not Paddock's own is made harmless.

pub mod access;
pub mod build;
pub mod changes;
pub mod contexts;
pub mod doctor;
pub mod error;
pub mod escape;
pub mod events;
pub mod execs;
pub mod explain;
pub mod findings;
pub mod jobs;
pub mod json;
pub mod network;
pub mod outputs;
pub mod pools;
pub mod resources;
pub mod sandboxes;
pub mod shield;
pub mod snapshots;
pub mod style;
pub mod table;
pub mod templates;
pub mod time;
pub mod usage;
pub mod volumes;
