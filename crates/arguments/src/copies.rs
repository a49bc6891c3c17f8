//! States of a sandbox's files: kept, multiplied, compared, brought back.

use super::values;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum CopyCommand {
    /// Keep, list and remove states of a sandbox's files
    #[command(
        after_help = "Examples:\n  paddock snapshot create build --name clean\n  paddock create --snapshot clean\n  paddock snapshot ls"
    )]
    Snapshot(SnapshotArgs),
    /// Make more sandboxes from the present state of one
    #[command(after_help = "Examples:\n  paddock fork -n 8 build\n  paddock fork --live build")]
    Fork(ForkArgs),
    /// Show what a sandbox changed
    #[command(after_help = DIFF_HELP)]
    Diff(DiffArgs),
    /// Bring changes of a fork back into the sandbox that it was made from
    #[command(after_help = MERGE_HELP)]
    Merge(MergeArgs),
}

const DIFF_HELP: &str = "\
Examples:
  paddock diff build
  paddock diff --patch build > changes.patch
  paddock diff --tar changes.tar --since snapshot build";

const MERGE_HELP: &str = "\
Examples:
  paddock merge build sb-0123456789abcdef
  paddock merge build attempt-2 /workspace/src

Where the sandbox itself changed a path since the fork, nothing at all is merged, the
conflicts are listed, and the exit code is 1.";

#[derive(Debug, Args)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    pub action: SnapshotAction,
}

#[derive(Debug, Subcommand)]
pub enum SnapshotAction {
    /// Keep the present files of a sandbox, and print the snapshot's id
    #[command(
        after_help = "Example:\n  paddock snapshot create build --name before-upgrade\n  paddock create --snapshot before-upgrade"
    )]
    Create {
        /// Id or name of the sandbox
        #[arg(value_parser = values::word)]
        id: String,
        /// A name of your own for the snapshot
        #[arg(long)]
        name: Option<String>,
        /// Keep the code contexts too, with all that they know, in memory; an error if one cannot be
        #[arg(long, conflicts_with = "files_only")]
        live: bool,
        /// Only the files, also where the backend keeps memory
        #[arg(long)]
        files_only: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List snapshots
    #[command(after_help = "Examples:\n  paddock snapshot ls\n  paddock snapshot ls --sandbox build")]
    Ls {
        /// Only those of this sandbox: its id, or the name of one that lives
        #[arg(long, value_name = "ID", value_parser = values::word)]
        sandbox: Option<String>,
        /// Only the one of this name
        #[arg(long)]
        name: Option<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove snapshots
    #[command(after_help = "Example:\n  paddock snapshot rm before-upgrade")]
    Rm {
        /// Ids or names
        #[arg(required = true, value_name = "SNAPSHOT", value_parser = values::word)]
        snapshots: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct ForkArgs {
    /// How many, 1 to 100
    #[arg(short = 'n', long, value_name = "NUMBER", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub count: u32,
    /// Their time to live, such as 30m [default: as a new sandbox]
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub ttl: Option<f64>,
    /// A note on each of them, besides those of the source; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub metadata: Vec<(String, String)>,
    /// Give them the secrets of the source too [default: they have none]
    #[arg(long)]
    pub secrets: bool,
    /// Fail unless every code context goes along with what it knows [default: those that can]
    #[arg(long, conflicts_with = "files_only")]
    pub live: bool,
    /// Only the files; code contexts begin anew
    #[arg(long)]
    pub files_only: bool,
    /// Make as many as can be made, and say why the others were not; the exit code is then 1 [default: all or none]
    #[arg(long)]
    pub partial: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Id or name
    #[arg(value_parser = values::word)]
    pub id: String,
}

#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Changes since its start, the snapshot that it began with, or its parent at the fork
    #[arg(long, value_enum, default_value = "start")]
    pub since: SinceName,
    /// Print a unified diff of the text files
    #[arg(long, conflicts_with_all = ["tar", "json"])]
    pub patch: bool,
    /// Write a tar of what was added or modified; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub tar: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Id or name
    #[arg(value_parser = values::word)]
    pub id: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SinceName {
    Start,
    Snapshot,
    Parent,
}

#[derive(Debug, Args)]
pub struct MergeArgs {
    /// The sandbox that is to get the changes
    #[arg(value_name = "INTO", value_parser = values::word)]
    pub into: String,
    /// The fork that made them
    #[arg(value_name = "FROM", value_parser = values::word)]
    pub from: String,
    /// Only these absolute paths and what is below them [default: all that the fork changed]
    #[arg(value_name = "PATH")]
    pub paths: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
