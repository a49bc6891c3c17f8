//! `paddock ui`: a link to the dashboard.

use super::role::RoleName;
use super::values;
use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = UI_HELP)]
pub struct UiArgs {
    /// Tenant whose sandboxes the page shows [default: one's own tenant]
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Role: the rights of the page
    #[arg(long, value_enum, default_value = "admin")]
    pub role: RoleName,
    /// How long the page may be used before another link is needed
    #[arg(long, value_name = "DURATION", default_value = "8h", value_parser = values::duration)]
    pub lasts: f64,
    /// Only print the link, also where a browser could be opened
    #[arg(long)]
    pub print: bool,
}

const UI_HELP: &str = "\
Examples:
  paddock ui
  paddock ui --tenant team-a --role read-only
  paddock ui --print

The link works once, within two minutes. It gives the browser's tab a token that `paddock token ls` shows with the
label `dashboard`, and that `paddock token revoke` ends. The server has to listen on an address:
`paddock serve --listen 127.0.0.1:8080`.";
