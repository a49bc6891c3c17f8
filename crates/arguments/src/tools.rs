//! A sandbox for a model: its tools as text, and as an MCP server.

use super::policy::PolicyFlags;
use super::scan::ScanFlags;
use super::values;
use super::volume::VolumeFlags;
use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub enum ToolCommand {
    /// Print the definitions of the tools that a model may call
    #[command(after_help = TOOLS_HELP)]
    Tools(Box<ToolsArgs>),
    /// Give an MCP client a sandbox, over standard input and output
    #[command(after_help = MCP_HELP)]
    Mcp(Box<McpArgs>),
}

const TOOLS_HELP: &str = "\
Examples:
  paddock tools
  paddock tools --format openai --sandbox build
  paddock tools --format mcp --policy agent.toml --only run_code --only read_file

The descriptions say what the sandbox really allows: of --sandbox, or of one that --template, --policy and the
flags would make.";

const MCP_HELP: &str = "\
Examples:
  claude mcp add sandbox -- paddock mcp --workspace .
  paddock mcp --template py --allow-net pypi.org --memory 4GiB
  paddock mcp --sandbox build
  paddock mcp --dialect loopstack

The sandbox is made at the first call and ends with the client. With --sandbox the client gets one that is there
already, and that stays.";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum FormatName {
    #[default]
    Anthropic,
    /// Of chat completions
    Openai,
    OpenaiResponses,
    Mcp,
    JsonSchema,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DialectName {
    #[default]
    Paddock,
    /// The ten tools of Loopstack
    Loopstack,
}

#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// In whose shape
    #[arg(long, value_enum, default_value = "anthropic")]
    pub format: FormatName,
    /// Of this sandbox (id or name)
    #[arg(long, value_name = "ID", value_parser = values::word, conflicts_with = "template")]
    pub sandbox: Option<String>,
    /// Begin with the settings of this template
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Only this tool; repeatable
    #[arg(long, value_name = "TOOL")]
    pub only: Vec<String>,
    #[command(flatten)]
    pub policy: PolicyFlags,
}

#[derive(Debug, Args)]
pub struct McpArgs {
    /// Which tools the client sees
    #[arg(long, value_enum, default_value = "paddock")]
    pub dialect: DialectName,
    /// Use this sandbox (id or name), which stays, instead of a new one
    #[arg(long, value_name = "ID", value_parser = values::word, conflicts_with_all = ["template", "snapshot", "dialect"])]
    pub sandbox: Option<String>,
    /// Begin with the settings of this template
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Begin with the files of this snapshot
    #[arg(long, value_name = "SNAPSHOT")]
    pub snapshot: Option<String>,
    /// No sandbox lives longer than so long after the first was made, such as 8h [default: as long as the client]
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub ttl: Option<f64>,
    /// A note on the sandboxes, for `ps --metadata`; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub metadata: Vec<(String, String)>,
    /// Characters of one answer; what is longer can be read on [default: 16000]
    #[arg(long, value_name = "CHARACTERS", value_parser = clap::value_parser!(u32).range(200..=10_000_000))]
    pub output_budget: Option<u32>,
    #[command(flatten)]
    pub volumes: VolumeFlags,
    #[command(flatten)]
    pub policy: PolicyFlags,
    #[command(flatten)]
    pub scan: ScanFlags,
}
