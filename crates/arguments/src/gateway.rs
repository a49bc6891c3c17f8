//! One API in front of many servers.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

pub const GATEWAY_HELP: &str = "\
Examples:
  paddock gateway --node 7=http://10.0.0.7:7070=node7.key --node 8=http://10.0.0.8:7070=node8.key
  paddock gateway --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem --nodes nodes.toml
  paddock gateway --nodes-dns nodes.example.org:7070 --node-key nodes.key

Each node is a `paddock serve --node NUMBER --gateway-key FILE`. The gateway has tokens and tenants of its own, in its own state directory
(PADDOCK_STATE_DIR), and makes no sandbox itself. SIGHUP has --nodes, --tls-cert, --tls-key and --log-filter read again.";

#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// A node and the file with its key, as in 7=http://10.0.0.7:7070=node7.key or unix:/run/n7.sock=node7.key; with a number it may have no
    /// other; repeatable
    #[arg(long = "node", value_name = "[NUMBER=]URL=KEYFILE")]
    pub nodes: Vec<String>,
    /// A TOML file of nodes: [[node]] with url, key_file, number and labels
    #[arg(long = "nodes", value_name = "FILE")]
    pub nodes_file: Option<PathBuf>,
    /// A name whose every address is a node, looked up each 5 seconds
    #[arg(long, value_name = "NAME:PORT", requires = "node_key")]
    pub nodes_dns: Option<String>,
    /// The key of the nodes that --nodes-dns finds
    #[arg(long, value_name = "FILE", requires = "nodes_dns")]
    pub node_key: Option<PathBuf>,
    /// Listen on this TCP address too; every call there needs a token
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// The unix socket, which needs no token [default: PADDOCK_URL, else the state directory's own]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Certificate chain in PEM: the address then speaks TLS
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "listen"])]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Ports of sandboxes are reached at PORT-ID.DOMAIN; the nodes need the same
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// A name by which callers may reach it, besides its addresses; repeatable
    #[arg(long, value_name = "NAME[:PORT]")]
    pub allow_host: Vec<String>,
    /// Let everybody who reaches it read /metrics
    #[arg(long)]
    pub open_metrics: bool,
    /// Log as JSON, one object per line
    #[arg(long)]
    pub json_logs: bool,
    /// Levels of the log, as PADDOCK_LOG says them, from a file that SIGHUP has read again
    #[arg(long, value_name = "FILE")]
    pub log_filter: Option<PathBuf>,
}
