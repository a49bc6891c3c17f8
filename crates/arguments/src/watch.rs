//! Commands that show present and past events.

use super::values;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum WatchCommand {
    /// Show what running sandboxes use, renewed until Ctrl-C
    #[command(
        after_help = "Examples:\n  paddock top\n  paddock top --json | jq\n\nWithout a terminal, or with --json, it is printed once."
    )]
    Top(TopArgs),
    /// Print what happens to sandboxes, from now until Ctrl-C
    #[command(
        after_help = "Examples:\n  paddock events\n  paddock events --sandbox build\n  paddock events --json | jq -r .sandbox\n\nWhat happened before is in `paddock audit show`."
    )]
    Events(EventsArgs),
    /// Show what leaves a sandbox through its gate, and what was kept from leaving
    #[command(
        after_help = "Examples:\n  paddock net build\n  paddock net -f build\n  paddock net --policy build >> policy.toml\n\nA denial says how to allow it. The rules of a sandbox that lives are changed by `paddock update`."
    )]
    Net(NetArgs),
    /// Show, check and keep the signed timeline of a sandbox
    #[command(
        after_help = "Examples:\n  paddock audit show build\n  paddock audit export build -o build.audit\n  paddock audit verify build.audit"
    )]
    Audit(AuditArgs),
}

#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print once, as JSON
    #[arg(long)]
    pub json: bool,
    /// Print the table once
    #[arg(long)]
    pub once: bool,
    /// Print what these used over the last minutes
    #[arg(long, requires = "ids")]
    pub history: bool,
    /// Ids or names [default: all that run]
    #[arg(value_name = "ID", value_parser = values::word)]
    pub ids: Vec<String>,
}

#[derive(Debug, Args)]
pub struct EventsArgs {
    /// As for `logs`; it does so anyway
    #[arg(short, long)]
    pub follow: bool,
    /// Only those of this sandbox: id or name
    #[arg(long, value_name = "ID", value_parser = values::word)]
    pub sandbox: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct NetArgs {
    /// Go on until Ctrl-C
    #[arg(short, long, conflicts_with = "policy")]
    pub follow: bool,
    /// Print the rules that what was tried would have needed, for a policy file
    #[arg(long, conflicts_with = "json")]
    pub policy: bool,
    /// Print JSON; with --follow one object per line
    #[arg(long)]
    pub json: bool,
    /// Id or name
    #[arg(value_name = "ID", value_parser = values::word)]
    pub id: String,
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    pub action: AuditAction,
}

#[derive(Debug, Subcommand)]
pub enum AuditAction {
    /// Print the timeline
    #[command(after_help = "Examples:\n  paddock audit show build\n  paddock audit show --outputs build")]
    Show {
        /// Id or name
        #[arg(value_parser = values::word)]
        id: String,
        /// Print the records as they are, one JSON object per line
        #[arg(long)]
        json: bool,
        /// Print what commands printed and code returned, below their entries; for an admin
        #[arg(long)]
        outputs: bool,
    },
    /// Check every link and signature; nothing but the file is needed
    #[command(
        after_help = "Examples:\n  paddock audit verify build.audit\n  paddock audit verify --key PUBLIC-KEY build.audit\n\nExits with 1 when anything was changed, added or left out."
    )]
    Verify {
        /// A file that `audit export` wrote
        file: PathBuf,
        /// The public key that has to have signed it, or the file that holds it
        /// [default: audit.pub in the state directory]
        #[arg(long, value_name = "KEY|FILE")]
        key: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the timeline to a file that `audit verify` takes
    #[command(after_help = "Example:\n  paddock audit export build -o build.audit")]
    Export {
        /// Id or name
        #[arg(value_parser = values::word)]
        id: String,
        /// The file [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}
