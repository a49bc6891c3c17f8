//! Images: from the caller's reference to a directory that holds a root file system.
//!
//! A directory is used where it is. Everything else is unpacked once into a state directory and found there by digest
//! afterwards. An archive is hostile input, and this code may run as root, so nothing here trusts a name, a size, a
//! link or a digest that it has not checked.
//!
//! - [`store`]: the public face: open the state directory, resolve a reference
//! - [`reference`]: the caller's text: a path or an image in a registry
//! - [`directories`]: the state directory: locks, temporary directories and their sweep, atomic publishing
//! - [`archive`]: images on this host's disk; [`layout`] and [`docker_archive`]: the two forms of an image on disk;
//!   [`folder`]: reading such a form without being led elsewhere
//! - [`registry`]: pulling: HTTP, tokens, credentials
//! - [`manifest`] and [`config`]: the JSON documents of an image, and the choice of a platform
//! - [`flatten`]: layers, in order, into one root
//! - [`built`]: a root made of another and of a sandbox's changes over it; [`share`]: trees that share their files
//! - [`unpack`]: one tar stream into a directory, without ever leaving it
//! - [`limits`], [`digest`], [`progress`], [`job`], [`error`]: parts that the others share

mod archive;
pub mod built;
mod config;
pub mod digest;
pub mod directories;
mod docker_archive;
mod error;
mod flatten;
mod folder;
pub mod job;
mod layout;
mod limits;
mod manifest;
mod progress;
mod reference;
mod registry;
pub mod share;
pub mod store;
mod unpack;

#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzz;

pub use error::{ImageError, Refusal};
pub use limits::UnpackLimits;
pub use progress::{NoProgress, Progress};
pub use reference::BUILT;
pub use registry::{Credentials, RegistryReach};
pub use store::{ImageStore, ResolvedImage};
pub use unpack::{Style, decoder};
