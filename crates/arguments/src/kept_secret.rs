//! Secrets that are kept under a name.

use super::values;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct SecretArgs {
    #[command(subcommand)]
    pub action: SecretAction,
}

#[derive(Debug, Subcommand)]
pub enum SecretAction {
    /// Keep a secret, or give it a new value as its next version; the value comes from standard input
    #[command(
        after_help = "Example:\n  paddock secret set openai --host api.openai.com < key.txt\n\nA sandbox has it with from = \"secret:openai\" in [secrets] of its settings."
    )]
    Set {
        name: String,
        /// A host that it may be sent to; repeatable [default: as before, or none]
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// Words about it, which are shown; repeatable [default: as before, or none]
        #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
        metadata: Vec<(String, String)>,
    },
    /// List what is kept, without the values
    #[command(after_help = "Example:\n  paddock secret ls")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// One secret as JSON, without its value
    #[command(after_help = "Example:\n  paddock secret show openai | jq .version")]
    Show { name: String },
    /// Forget a secret
    #[command(after_help = "Example:\n  paddock secret rm openai")]
    Rm { name: String },
}
