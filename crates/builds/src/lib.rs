//! Templates that are built: from a file that lists packages and commands, to an image and a template that names it.
//!
//! - [`file`]: the build file, read and checked, each mistake with its line; [`shipped`]: the build files that come
//!   with Paddock
//! - [`builder`]: the order of a build: base, steps, the template; finished layers come from the cache
//! - [`base`]: the root below the first step: an image, a directory, or [`debian`] from its packages
//! - [`step`]: one step: its programs, and the key that tells if an earlier result is as good
//! - [`fetch`]: the host's loans to a step that fetches: package sources ([`apt`]), indexes, proxies, certificates
//! - [`copied`]: files of the build's own directory on their way in
//! - [`run`]: a step in a sandbox of its own, and its changes as a root
//! - [`records`]: the layers of each template, and the removal of unused ones
//!
//! Every step runs in a sandbox (decision 22), and the host reads its result as it reads any hostile archive.

mod apt;
mod base;
mod builder;
mod copied;
mod debian;
mod error;
mod fetch;
mod file;
mod records;
mod run;
mod step;

pub use builder::{Build, Built, BuiltLayer, build};
pub use error::BuildError;
pub use file::{BuildFile, BuildFileError, parse};
pub use paddock_settings::shipped_builds::{NAMES as SHIPPED, text as shipped};
pub use records::{Pruned, TemplateRecord, free, prune, record_of};
pub use run::{Event, Watcher};

#[cfg(test)]
mod tests {
    #[test]
    fn every_shipped_file_is_a_build_file() {
        for name in super::SHIPPED {
            let file = super::parse(super::shipped(name).unwrap());
            assert!(file.is_ok(), "{name}: {:?}", file.err());
        }
        assert!(super::shipped("other").is_none());
    }
}
