//! Volumes: directories that outlive sandboxes, kept as versions in an object store.
//!
//! - [`store`]: the volumes of one place: make, list, look into, restore, remove
//! - [`writer`]: the one writer of a volume, by a fenced lease; [`commit`]: from a directory to a version;
//!   [`edit`]: one entry
//! - [`checkout`]: from a version to a directory; [`reader`]: the content of chunks, verified
//! - [`scan`]: a directory that hostile code wrote; [`index`]: its state at the last sync
//! - [`head`]: the one object of a volume that changes; [`manifest`]: one version, which never does
//! - [`pack`]: chunks travel many at a time; [`cache`]: packs that were fetched before;
//!   `remembered`: manifests that writers had last
//! - [`collect`]: frees objects that no version names any more
//! - [`objects`], [`location`]: the store below; [`key`]: encryption at rest
//!
//! Everything in the store is treated as damaged until its hash was right, and everything in a directory as hostile.

mod cache;
mod checkout;
mod collect;
mod commit;
mod edit;
mod error;
mod head;
mod index;
mod key;
mod location;
mod manifest;
mod names;
mod objects;
mod pack;
mod reader;
mod remembered;
mod scan;
mod store;
mod writer;

pub use cache::Cache;
pub use collect::Collected;
pub use commit::Committed;
pub use error::VolumeError;
pub use head::{Head, Kind, Lease, Share, Version};
pub use index::Index;
pub use key::Key;
pub use location::{Location, Options};
pub use manifest::{Entry, Manifest, Node, plain_path};
pub use names::{check_name, check_target};
pub use objects::Objects;
pub use scan::{Limits, Skipped};
pub use store::{Checkout, FileReader, Volumes};
pub use writer::{Token, Writer};
