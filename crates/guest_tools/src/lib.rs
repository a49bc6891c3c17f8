//! The host's file operations inside, each in a process of its own behind the layers of the work.
//!
//! - one file for each tool: [`read`], [`write`], [`resolve`], [`list`], [`directory`], [`relocate`], [`remove`],
//!   [`mode`], [`watch`], [`pack`], [`unpack`], [`connect`], [`manifest`], [`contents`], [`merge`], [`export`],
//!   [`import`]
//! - [`node`]: a file as it is described to the host
//! - [`user_attributes`]: extended attributes that are set and told with a file
//! - [`walk`]: trees of any depth with one descriptor and little memory
//! - [`trail`]: from one entry of an archive to the next, however deep
//! - [`archive`], [`beneath`]: writing an archive; paths that cannot lead out of a tree
//! - [`attributes`]: extended attributes of a file that is not opened
//! - [`start`]: the files that were there when the sandbox began
//! - [`streams`]: the tool's standard streams

mod archive;
mod attributes;
mod beneath;
mod connect;
mod contents;
mod directory;
mod export;
mod import;
mod list;
mod manifest;
mod merge;
mod mode;
mod node;
mod pack;
mod read;
mod relocate;
mod remove;
mod resolve;
mod start;
mod streams;
mod trail;
mod unpack;
mod user_attributes;
mod walk;
mod watch;
mod write;

use paddock_guest_system::failure::{Failure, Outcome};
use paddock_guest_system::trees::Built;
use paddock_protocol::{Tool, ToolFailure, encode_record};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::fd::BorrowedFd;

/// The trees of the disk that a tool may use, by the numbers of their descriptors.
pub struct Reach<'a> {
    layer: Option<BorrowedFd<'a>>,
    start: Option<BorrowedFd<'a>>,
    image: Option<BorrowedFd<'a>>,
    built: &'a BTreeMap<Vec<u8>, Built>,
}

impl<'a> Reach<'a> {
    /// # Safety
    ///
    /// The numbers are those of open descriptors that stay open.
    pub unsafe fn new(
        layer: Option<i32>,
        start: Option<i32>,
        image: Option<i32>,
        built: &'a BTreeMap<Vec<u8>, Built>,
    ) -> Reach<'a> {
        // SAFETY: the caller promises that they are open for long enough.
        let borrow = |number: Option<i32>| number.map(|number| unsafe { BorrowedFd::borrow_raw(number) });
        Reach { layer: borrow(layer), start: borrow(start), image: borrow(image), built }
    }
}

/// Performs the tool and returns its exit code.
pub fn run(tool: &Tool, reach: &Reach<'_>) -> i32 {
    match perform(tool, reach) {
        Ok(()) => 0,
        Err(failure) => {
            let detail: String = failure.step.chars().take(2000).collect();
            let mut record = Vec::new();
            let told = ToolFailure { errno: failure.errno.raw_os_error(), detail };
            let _ = encode_record(&told, &mut record);
            let _ = streams::error().and_then(|mut stderr| stderr.write_all(&record));
            1
        }
    }
}

fn perform(tool: &Tool, reach: &Reach<'_>) -> Outcome<()> {
    let of_the_disk = || {
        reach.layer.ok_or_else(|| Failure {
            step: "the disk of this sandbox cannot be reached on its own".into(),
            errno: Errno::OPNOTSUPP,
        })
    };
    match tool {
        Tool::Read { path, offset, length } => read::read(path, *offset, *length),
        Tool::Write { path, mode, parents, attributes, follow } => {
            write::write(path, *mode, *parents, attributes, *follow)
        }
        Tool::Resolve { path } => resolve::resolve(path),
        Tool::Stat { path } => node::stat(path),
        Tool::List { path, recursive, after, limit } => {
            list::list(path, *recursive, after.as_ref().map(|a| a.as_slice()), *limit as usize)
        }
        Tool::MakeDirectory { path, mode, parents } => directory::make(path, *mode, *parents),
        Tool::Move { from, to, overwrite } => relocate::relocate(from, to, *overwrite),
        Tool::Remove { path, recursive } => remove::remove(path, *recursive),
        Tool::ChangeMode { path, mode } => mode::change(path, *mode),
        Tool::Watch { path, recursive } => watch::watch(path, *recursive),
        Tool::Pack { path } => pack::pack(path),
        Tool::Unpack { path } => unpack::unpack(path),
        Tool::Connect { port } => connect::connect(*port),
        Tool::Manifest => manifest::manifest(of_the_disk()?),
        Tool::PackLayer { exact } => pack::pack_layer(of_the_disk()?, *exact),
        Tool::Contents { when, largest, archive } => {
            contents::contents(of_the_disk()?, reach, *when, *largest, *archive)
        }
        Tool::Merge => merge::merge(),
        Tool::Export => export::export(of_the_disk()?),
        Tool::Import => import::import(of_the_disk()?),
        Tool::ManifestOfStart => {
            let start = reach.start.ok_or_else(|| Failure {
                step: "what the disk was cloned from cannot be reached".into(),
                errno: Errno::OPNOTSUPP,
            })?;
            manifest::manifest_of_start(of_the_disk()?, start)
        }
    }
}

/// A path as it is named in a failure.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().take(300).collect()
}
