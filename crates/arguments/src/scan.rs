//! Scan before run: the flags that ask for it, and `scan` itself.

use clap::Args;
use paddock_model::Policy;
use std::ffi::OsString;

/// For whatever runs code; a command is not looked at.
#[derive(Debug, Default, Args)]
pub struct ScanFlags {
    /// Look at code before it runs: `warn` tells what was found, `deny` does not run it; never weaker than the template
    /// [default: off]
    #[arg(long, value_name = "off|warn|deny", help_heading = "Code")]
    pub scan: Option<String>,
    /// A module that code may import, with what is below it; repeatable; without any, all may be imported
    #[arg(long, value_name = "MODULE", help_heading = "Code")]
    pub allow_import: Vec<String>,
}

impl ScanFlags {
    /// As a layer of its own.
    pub fn layer(self) -> Policy {
        let allowed_imports = (!self.allow_import.is_empty()).then_some(self.allow_import);
        Policy { scan: self.scan, allowed_imports, ..Policy::default() }
    }
}

pub const SCAN_HELP: &str = "\
Examples:
  paddock scan tool.py
  paddock scan --allow-import numpy --allow-import pandas analysis.py
  generate | paddock scan -l javascript --json -

Nothing runs, and no sandbox is needed. Python, JavaScript and TypeScript are parsed; of
another language the only finding is that it was not scanned.

Exit codes:
  0  nothing was found
  1  something was found
  2  it could not be scanned: no such file, wrong arguments";

#[derive(Debug, Args)]
pub struct ScanArgs {
    /// Language of the source [default: by the file's extension, else python]
    #[arg(short, long)]
    pub language: Option<String>,
    /// A module that may be imported, with what is below it; repeatable; without any, all may be imported
    #[arg(long, value_name = "MODULE")]
    pub allow_import: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// A file, the source text itself, or `-` for standard input
    #[arg(value_name = "FILE|-|SOURCE")]
    pub source: Option<OsString>,
}
