//! `verify`.

use clap::Args;

pub const VERIFY_HELP: &str = "\
Examples:
  paddock verify
  paddock verify --backend process --group A --group C
  sudo paddock verify --json > verified.json

Attacks are carried out inside sandboxes, and outside in throw-away namespaces to show that they can succeed.
As root, the engine is verified as root and as an ordinary user; takes a minute or two, and leaves nothing.

Exit codes: 0 every attack was held; 1 some were not; 2 the suite could not be run";

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Only this backend; repeatable [default: all that this machine has]
    #[arg(long, value_name = "NAME")]
    pub backend: Vec<String>,
    /// Only a group, a line of it or one attack, as in A, C13 or E2-memory; repeatable
    #[arg(long, value_name = "ID")]
    pub group: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
