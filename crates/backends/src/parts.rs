//! The parts that every backend needs, for one that lies outside of this crate: tests/minimal is one, in one file.

pub use crate::error::HostStep;
pub use crate::process::create::send;
pub use crate::process::mounts::{steps as mounts, user_source};
pub use crate::process::passed::Passed;
pub use crate::process::root::{inside, kernel};
pub use crate::shared::child::Child;
pub use crate::shared::guest_executable::open as open_guest;
pub use crate::shared::identity::Identity;
pub use crate::shared::launch::{Gate, Launched, launch};
