//! What the host wants done inside, each in a process of its own that wears the layers of the work.
//!
//! - one file for each tool: [`read`], [`write`], [`list`], [`directory`], [`relocate`], [`remove`], [`mode`],
//!   [`watch`], [`pack`], [`unpack`], [`connect`], [`manifest`], [`export`], [`import`]
//! - [`node`]: a file as it is described to the host
//! - [`walk`]: trees of any depth with one descriptor and little memory
//! - [`archive`], [`beneath`]: writing an archive; paths that cannot lead out of a tree
//! - [`streams`]: the tool's standard streams

mod archive;
mod beneath;
mod connect;
mod directory;
mod export;
mod import;
mod list;
mod manifest;
mod mode;
mod node;
mod pack;
mod read;
mod relocate;
mod remove;
mod streams;
mod unpack;
mod walk;
mod watch;
mod write;

use crate::failure::{Failure, Outcome};
use paddock_protocol::{Tool, ToolFailure, encode_record};
use rustix::io::Errno;
use std::io::Write;
use std::os::fd::BorrowedFd;

/// Performs the tool and returns its exit code. `layer` is the number of the descriptor of the disk's own tree.
pub fn run(tool: &Tool, layer: Option<i32>) -> i32 {
    // SAFETY: whoever forked this process put the tree at this number, and nothing here closes it.
    let layer = layer.map(|number| unsafe { BorrowedFd::borrow_raw(number) });
    match perform(tool, layer) {
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

fn perform(tool: &Tool, layer: Option<BorrowedFd<'_>>) -> Outcome<()> {
    let of_the_disk = || {
        layer.ok_or_else(|| Failure {
            step: "the disk of this sandbox cannot be reached on its own".into(),
            errno: Errno::OPNOTSUPP,
        })
    };
    match tool {
        Tool::Read { path, offset, length } => read::read(path, *offset, *length),
        Tool::Write { path, mode, parents } => write::write(path, *mode, *parents),
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
        Tool::PackLayer => pack::pack_layer(of_the_disk()?),
        Tool::Export => export::export(of_the_disk()?),
        Tool::Import => import::import(of_the_disk()?),
    }
}

/// A path as it is named in a failure.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).chars().take(300).collect()
}
