//! Interpreters in a sandbox that remember, and code in them.

use super::values;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct ContextArgs {
    #[command(subcommand)]
    pub action: ContextAction,
}

const RUN_HELP: &str = "\
Examples:
  paddock context run build 'x = 41'
  paddock context run build 'x + 1'             prints 42: the context remembers
  paddock context run -l bash build 'cd /tmp'
  paddock context run build - < analysis.py

Ctrl-C interrupts the code; what the context remembers stays.

Exit codes:
  0 or what the code itself says; 1 after an exception; 124 after the time limit;
  125 when Paddock itself failed; 128+n when the interpreter was ended by signal n";

#[derive(Debug, Subcommand)]
pub enum ContextAction {
    /// Run code in a context, and print what it prints and its last value
    #[command(after_help = RUN_HELP)]
    Run(Box<ContextRunArgs>),
    /// List the contexts of a sandbox
    #[command(after_help = "Example:\n  paddock context ls build")]
    Ls {
        /// Id or name of the sandbox
        #[arg(value_parser = values::word)]
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a context, and print its id
    #[command(after_help = "Example:\n  paddock context create build --language bash --name shell")]
    Create {
        /// Id or name of the sandbox
        #[arg(value_parser = values::word)]
        id: String,
        /// A name of your own for the context
        #[arg(long)]
        name: Option<String>,
        /// python (default), javascript, typescript, bash, or what the template has a runner for
        #[arg(short, long)]
        language: Option<String>,
        /// Where it begins
        #[arg(short = 'w', long, value_name = "DIR")]
        cwd: Option<String>,
    },
    /// Begin a context anew: what runs in it ends, and what it remembered is gone
    #[command(after_help = "Example:\n  paddock context restart build python")]
    Restart(OneContext),
    /// Interrupt what runs in a context, as Ctrl-C would
    #[command(after_help = "Example:\n  paddock context interrupt build python")]
    Interrupt(OneContext),
    /// End a context
    #[command(after_help = "Example:\n  paddock context rm build python")]
    Rm(OneContext),
}

#[derive(Debug, Args)]
pub struct OneContext {
    /// Id or name of the sandbox
    #[arg(value_parser = values::word)]
    pub id: String,
    /// Id of the context
    #[arg(value_parser = values::word)]
    pub context: String,
}

#[derive(Debug, Args)]
pub struct ContextRunArgs {
    /// The context [default: the language's own]
    #[arg(short, long, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// python (default), javascript, typescript, bash, sh, or what the template has a runner for
    #[arg(short, long)]
    pub language: Option<String>,
    /// Set a variable for this call; NAME alone takes the value of this shell; repeatable
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Directory for this call
    #[arg(short = 'w', long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// Interrupt the code after so long, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub timeout: Option<f64>,
    /// Wait for its end and print one JSON object: output, results, error
    #[arg(long)]
    pub json: bool,
    /// Id or name of the sandbox
    #[arg(value_parser = values::word)]
    pub id: String,
    /// Source text; `-` is standard input
    pub source: String,
}
