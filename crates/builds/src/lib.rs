//! Templates that are built: from a file that says what to install, to an image and a template that names it.
//!
//! - [`file`]: the build file, read and checked, each mistake with its line; [`shipped`]: those that come with Paddock
//! - [`builder`]: the order of a build: base, steps, the template; what is there already is taken from the cache
//! - [`base`]: what the first step stands on: an image, a directory, or [`debian`] from its packages
//! - [`step`]: one step: what it runs, and what decides whether an earlier result is as good
//! - [`fetch`]: what a step that fetches is lent of the host: package sources ([`apt`]), indexes, proxies, certificates
//! - [`copied`]: files of the build's own directory on their way in
//! - [`run`]: a step in a sandbox of its own, and what it wrote as a root
//! - [`records`]: what was built of what, and what can be removed
//!
//! Whatever a step does, it does in a sandbox (decision 22); the host reads what it left as it reads any hostile archive.

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
