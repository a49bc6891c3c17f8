//! Sandboxes that are ready before a request comes.

use super::values;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct PoolArgs {
    #[command(subcommand)]
    pub action: PoolAction,
}

const SET_HELP: &str = "\
Examples:
  paddock pool set code-interpreter --min 4 --max 32
  paddock pool set analysis --min 0 --max 8      none while nobody asks

At least MIN are always ready; after a burst as many as it took, up to MAX, for the next one.
A template with `preload = [\"pandas\"]` has the module imported in each of them.";

#[derive(Debug, Subcommand)]
pub enum PoolAction {
    /// List the pools, and what is in them
    #[command(after_help = "Example:\n  paddock pool ls")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Keep sandboxes of a template ready
    #[command(after_help = SET_HELP)]
    Set {
        /// Name of the template
        #[arg(value_parser = values::word)]
        template: String,
        /// At least so many, whatever the demand
        #[arg(long)]
        min: u32,
        /// At most so many
        #[arg(long)]
        max: u32,
    },
    /// Keep none of them ready any more; those that were given away live on
    #[command(after_help = "Example:\n  paddock pool rm code-interpreter")]
    Rm {
        /// Name of the template
        #[arg(value_parser = values::word)]
        template: String,
    },
}
