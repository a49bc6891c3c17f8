//! `verify`.

use clap::Args;

pub const VERIFY_HELP: &str = "\
Examples:
  paddock verify
  paddock verify --backend process --group A --group C
  sudo paddock verify --json > verified.json
  paddock verify --last

Attacks are carried out inside sandboxes, and outside in throw-away namespaces to show that they can succeed.
As root, the engine is verified as root and as an ordinary user; takes a minute or two, and leaves nothing but its result
in the state directory, for `--last` and for the dashboard: of each backend the last complete one, and a later one of some groups.

Exit codes: 0 every attack was held; 1 some were not; 2 the suite could not be run";

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Only this backend; repeatable [default: all that this host has]
    #[arg(long, value_name = "NAME")]
    pub backend: Vec<String>,
    /// Only a group, a line of it or one attack, as in A, C13 or E2-memory; repeatable
    #[arg(long, value_name = "ID")]
    pub group: Vec<String>,
    /// Show the last result of this host, and carry out nothing
    #[arg(long, conflicts_with_all = ["backend", "group"])]
    pub last: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
