//! The servers behind a gateway.

use clap::{Args, Subcommand};
use paddock_model::NodeNumber;

#[derive(Debug, Args)]
pub struct NodeArgs {
    #[command(subcommand)]
    pub action: NodeAction,
}

#[derive(Debug, Subcommand)]
pub enum NodeAction {
    /// List the nodes with their state and what lives on them
    #[command(after_help = "Example:\n  paddock node ls")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a node no new sandboxes; those that it has go on
    #[command(after_help = "Example:\n  paddock node cordon 7")]
    Cordon {
        /// Number of the node
        node: NodeNumber,
    },
    /// Give it new sandboxes again
    #[command(after_help = "Example:\n  paddock node uncordon 7")]
    Uncordon {
        /// Number of the node
        node: NodeNumber,
    },
}
