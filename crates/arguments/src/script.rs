//! Scripts with annotations, and the values that are kept for them.

use super::certificates::CertificateFlags;
use super::values;
use super::volume::OnFailureName;
use clap::{Args, Subcommand};
use std::ffi::OsString;

#[derive(Debug, Args)]
pub struct ScriptArgs {
    #[command(subcommand)]
    pub action: ScriptAction,
}

#[derive(Debug, Subcommand)]
pub enum ScriptAction {
    /// Call main of a script in the sandbox that its header asks for, and print its result
    #[command(after_help = RUN_HELP)]
    Run(Box<ScriptRunArgs>),
    /// Write a script to begin with: an agent, or a function in one of the languages
    #[command(after_help = NEW_HELP)]
    New(ScriptNewArgs),
    /// Read a script's header and say what it asks for; nothing is run
    #[command(after_help = CHECK_HELP)]
    Check(ScriptCheckArgs),
}

const RUN_HELP: &str = "\
Examples:
  paddock script run report.py --arg user=ada --arg days=7
  paddock script run agent.ts --args '{\"anthropic\": \"$res:anthropic\"}'
  cat args.json | paddock script run job.sh --args -
  paddock script run --allow-net 10.0.0.5:5432 report.py

The result goes to standard output as JSON; what the script prints goes to standard error.

A value is JSON where it is some, else text. $res:NAME and $res:NAME.FIELD stand for what
`paddock resource set` keeps, $var:NAME for a text of it.

Exit codes:
  0      there is a result
  1      main raised, or does not take these arguments, or its result is no JSON
  124    the time limit was reached
  125    Paddock itself failed: the script did not run, or a volume could not be stored
  126    its interpreter cannot be executed
  127    its interpreter is not there
  137    signal 9, or out of memory: stderr says which
  other  the script's own";

const NEW_HELP: &str = "\
Examples:
  paddock script new
  paddock script new claude
  paddock script new python reports/agent.py

Without a name it lists those there are: claude, codex, opencode, python, typescript, javascript, bash, bun, deno, go, ruby.
A file that is there already is left alone. The packages of agents and the interpreters that the host lacks are in templates
that come with Paddock; `paddock script run` builds the one it needs when it needs it first.";

const CHECK_HELP: &str = "\
Examples:
  paddock script check agent.ts
  paddock script check --json agent.ts | jq .volumes

Exits with 0 when the header is sound, else with 1.";

#[derive(Debug, Args)]
pub struct ScriptRunArgs {
    /// An argument of main, JSON or text; repeatable
    #[arg(long = "arg", value_name = "NAME=VALUE", value_parser = values::pair)]
    pub arg: Vec<(String, String)>,
    /// Arguments of main as one JSON object, or `-` for standard input; --arg adds to them
    #[arg(long, value_name = "JSON|-")]
    pub args: Option<String>,
    #[command(flatten)]
    pub source: SourceFlags,
    /// Text for $workspace in names of volumes
    #[arg(long, value_name = "ID", default_value = "default", value_parser = values::word)]
    pub workspace_id: String,
    /// Let this out besides what the header names: a name, *.NAME, an address, a block or preset:NAME. A header alone opens
    /// no loopback, link-local, private or metadata address, and no registry there; repeatable
    #[arg(long, value_name = "HOST[:PORTS]")]
    pub allow_net: Vec<String>,
    #[command(flatten)]
    pub certificates: CertificateFlags,
    /// The template where the header names no image; one that comes with Paddock is built where it is missing [default: that of
    /// the agent which the script asks for, else code-interpreter]
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Fate of the changes in volumes when the script fails [default: keep]
    #[arg(long, value_enum)]
    pub on_failure: Option<OnFailureName>,
    /// How long to wait for a volume that another sandbox writes to
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = values::duration)]
    pub wait: f64,
    /// Print one JSON object at the end: result or error, output, exit code, volumes
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ScriptNewArgs {
    /// Language of the new file; without it, a list
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Where it is written, or `-` for standard output [default: a name of its own, here]
    #[arg(value_name = "FILE")]
    pub file: Option<OsString>,
}

#[derive(Debug, Args)]
pub struct ScriptCheckArgs {
    #[command(flatten)]
    pub source: SourceFlags,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct SourceFlags {
    /// Language of the script [default: by the file's name]
    #[arg(short, long, value_name = "LANGUAGE")]
    pub language: Option<String>,
    /// The script
    #[arg(value_name = "FILE")]
    pub file: OsString,
}

#[derive(Debug, Args)]
pub struct ResourceArgs {
    #[command(subcommand)]
    pub action: ResourceAction,
}

#[derive(Debug, Subcommand)]
pub enum ResourceAction {
    /// Keep a value for scripts, encrypted, or another in its place
    #[command(after_help = SET_HELP)]
    Set {
        /// Its type, a word of your own [default: `variable` for text, else `object`]
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// This text of it never enters a sandbox: only requests to these hosts carry it; repeatable
        #[arg(long = "secret", value_name = "[FIELD]@HOST[,HOST...]", value_parser = binding)]
        secrets: Vec<(String, Vec<String>)>,
        /// Letters, digits, `_` and `-`, with `/` between parts
        #[arg(value_parser = values::word)]
        name: String,
        /// JSON, or text; `-` or nothing for standard input, so that no secret stands in a command line
        #[arg(value_name = "VALUE|-")]
        value: Option<String>,
    },
    /// Print a value; what is bound to hosts is not shown
    #[command(
        after_help = "Examples:\n  paddock resource get anthropic\n  paddock resource get --json anthropic | jq .type"
    )]
    Get {
        /// Print all that is known of it as JSON
        #[arg(long)]
        json: bool,
        #[arg(value_parser = values::word)]
        name: String,
    },
    /// List what is kept, without the values
    #[command(after_help = "Example:\n  paddock resource ls")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a value
    #[command(after_help = "Example:\n  paddock resource rm anthropic")]
    Rm {
        #[arg(value_parser = values::word)]
        name: String,
    },
}

const SET_HELP: &str = "\
Examples:
  paddock resource set --type anthropic --secret apiKey@api.anthropic.com anthropic < key.json
  paddock resource set team/limits '{\"days\": 7}'
  paddock resource set --secret @api.example.com TOKEN < token.txt

Scripts name it in their arguments: --arg anthropic='$res:anthropic', --arg token='$var:TOKEN'.";

/// `apiKey@api.example.com,b.example.com`; nothing before the `@` is the value itself.
fn binding(text: &str) -> Result<(String, Vec<String>), String> {
    let wrong = || "write FIELD@HOST[,HOST...], or @HOST where the value is one text".to_string();
    let (field, hosts) = text.split_once('@').ok_or_else(wrong)?;
    let hosts: Vec<String> = hosts.split(',').map(str::to_string).collect();
    if hosts.iter().any(String::is_empty) { Err(wrong()) } else { Ok((field.to_string(), hosts)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_and_its_hosts() {
        let hosts = vec!["a.example".to_string(), "b.example:8443".to_string()];
        assert_eq!(binding("auth.key@a.example,b.example:8443"), Ok(("auth.key".into(), hosts)));
        assert_eq!(binding("@a.example"), Ok((String::new(), vec!["a.example".into()])));
        for bad in ["apiKey", "apiKey@", "@", "a@b,"] {
            binding(bad).unwrap_err();
        }
    }
}
