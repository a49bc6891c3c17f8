//! `paddock server`: the server that the commands talk to.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
#[command(after_help = SERVER_HELP)]
pub struct ServerArgs {
    #[command(subcommand)]
    pub action: ServerAction,
}

const SERVER_HELP: &str = "\
Examples:
  paddock server status
  PADDOCK_STATE_DIR=/srv/paddock paddock server stop

It is the server that the other commands talk to: that of PADDOCK_URL, else that of the state directory.";

#[derive(Debug, Subcommand)]
pub enum ServerAction {
    /// Say whether it runs, where, and whether it can create sandboxes; none is started
    #[command(after_help = "\
Examples:
  paddock server status
  paddock server status --json

Exits with 0 when a server answers and can create sandboxes, else with 1.")]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End it in order, and wait for its end; sandboxes keep running
    #[command(after_help = "\
Examples:
  paddock server stop
  paddock server stop --json

Only its owner may, over its unix socket. Where none runs there is nothing to do, and it exits with 0.")]
    Stop {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
