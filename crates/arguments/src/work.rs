//! Commands for the inside of a sandbox: programs, their output, files.

use super::values;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum WorkCommand {
    /// Run a command in a sandbox that is there
    #[command(override_usage = "paddock exec [OPTIONS] ID [--] CMD [ARGS]...", after_help = EXEC_HELP)]
    Exec(Box<ExecArgs>),
    /// Watch a running command again, and type to it
    #[command(after_help = "Example:\n  paddock attach build 3\n\nExit codes are those of `paddock exec`.")]
    Attach(AttachArgs),
    /// Print what a command has printed
    #[command(
        after_help = "Examples:\n  paddock logs build        the latest command\n  paddock logs -f build 3   command 3, and on until it ends"
    )]
    Logs(LogsArgs),
    /// Copy files and directories into a sandbox, or out of it
    #[command(after_help = CP_HELP)]
    Cp(CpArgs),
    /// Run code in interpreters that remember
    #[command(
        after_help = "Examples:\n  paddock context run build 'x = 41'\n  paddock context run build 'print(x + 1)'\n  paddock context ls build"
    )]
    Context(super::context::ContextArgs),
}

const EXEC_HELP: &str = "\
Examples:
  paddock exec build -- make test
  paddock exec -it build bash
  generate | paddock exec -i build -- sh -c 'cat > data'
  paddock exec -d build -- python3 -m http.server

With -t, Ctrl-C goes to the command; Ctrl-P Ctrl-Q leaves it running and returns here
(`paddock attach` comes back to it).

Exit codes:
  the command's own, and
  124    the time limit was reached
  125    Paddock itself failed; the command may not have run
  126    the command cannot be executed
  127    the command was not found
  128+n  the command was ended by signal n";

const CP_HELP: &str = "\
Examples:
  paddock cp report.csv build:/workspace/
  paddock cp build:/workspace/out ./out
  paddock cp build:/etc/hostname -
  tar c src | paddock cp - build:/workspace/
  paddock cp --attribute source=crawl report.csv build:/workspace/

As cp does: into DESTINATION where that is a directory, else to that name. `-` is
standard output or input: the bytes of a file, or a tar where the other side is a
directory. Of what comes out of a sandbox, links that lead out of the copied directory
and special files are left out and named, and the exit code is then 1.";

#[derive(Debug, Args)]
pub struct ExecArgs {
    /// Pass standard input on
    #[arg(short, long)]
    pub interactive: bool,
    /// Give the command a terminal
    #[arg(short, long)]
    pub tty: bool,
    /// Print the command's number, and leave it running
    #[arg(short, long, conflicts_with_all = ["interactive", "tty"])]
    pub detach: bool,
    /// Set a variable; NAME alone takes the value of this shell; repeatable
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    pub env: Vec<String>,
    /// Working directory inside
    #[arg(short = 'w', long, value_name = "DIR")]
    pub cwd: Option<String>,
    /// User of the command [default: the sandbox's user]
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
    /// Kill the command after so long, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub timeout: Option<f64>,
    /// Wait for its end and print one JSON object: output, exit code, cause
    #[arg(long, conflicts_with_all = ["interactive", "tty"])]
    pub json: bool,
    /// Id or name
    #[arg(value_parser = values::word)]
    pub id: String,
    /// The command and its arguments; options of paddock stop here
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Id or name
    #[arg(value_parser = values::word)]
    pub id: String,
    /// The command's number [default: the latest that runs]
    pub exec: Option<u32>,
    /// Only watch
    #[arg(long)]
    pub no_stdin: bool,
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Id or name
    #[arg(value_parser = values::word)]
    pub id: String,
    /// The command's number [default: the latest]
    pub exec: Option<u32>,
    /// Go on until the command ends
    #[arg(short, long)]
    pub follow: bool,
    /// List the sandbox's commands instead
    #[arg(long, conflicts_with_all = ["exec", "follow"])]
    pub list: bool,
    /// Print JSON: the list, or one object per piece of output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct CpArgs {
    /// User that reads or writes inside [default: the sandbox's user]
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
    /// Give the file that goes in this extended attribute of the user's namespace: `user.NAME` inside; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = values::pair)]
    pub attribute: Vec<(String, String)>,
    /// Write the file that a link at the destination leads to, as an editor does [default: the link is replaced]
    #[arg(long)]
    pub follow_links: bool,
    /// Print what was copied as JSON; not with `-` as the destination
    #[arg(long)]
    pub json: bool,
    /// ID:PATH, a path here, or `-`
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,
    /// ID:PATH, a path here, or `-`
    #[arg(value_name = "DESTINATION")]
    pub destination: PathBuf,
}
