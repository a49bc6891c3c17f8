//! The parts that every backend needs, for one that lies outside of this crate: tests/minimal is one, in one file.

pub use crate::process::create::send;
pub use crate::process::mounts::{steps as mounts, user_source};
pub use crate::process::passed::Passed;
pub use crate::process::root::{inside, kernel};
pub use paddock_fences::error::HostStep;
pub use paddock_fences::shared::child::Child;
pub use paddock_fences::shared::guest_executable::open as open_guest;
pub use paddock_fences::shared::identity::Identity;
pub use paddock_fences::shared::launch::{Gate, Launched, launch};
