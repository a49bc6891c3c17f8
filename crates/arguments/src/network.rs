//! The network rules of a sandbox, as flags.

use clap::Args;
use paddock_model::net::NetLayer;

#[derive(Debug, Clone, Default, Args)]
pub struct NetworkFlags {
    /// Let this out through the gate: a name, *.NAME, an address, a block or preset:NAME; without ports 80 and 443; repeatable
    #[arg(long, value_name = "HOST[:PORTS]", help_heading = "Network")]
    pub allow_net: Vec<String>,
    /// Let this never out, whatever allows it; without ports all; repeatable
    #[arg(long, value_name = "HOST[:PORTS]", help_heading = "Network")]
    pub deny_net: Vec<String>,
    /// Only requests with this method; what cannot be seen is refused then; repeatable
    #[arg(long, value_name = "METHOD", help_heading = "Network")]
    pub net_method: Vec<String>,
    /// Bytes per second through the gate, such as 10MiB
    #[arg(long, value_name = "SIZE", help_heading = "Network")]
    pub net_rate: Option<String>,
    /// Bytes through the gate in its whole life, such as 1GiB
    #[arg(long, value_name = "SIZE", help_heading = "Network")]
    pub net_bytes: Option<String>,
    /// `enforce`; `learn-deny` and `learn-allow` note what a run needs, for `paddock net ID --policy` [default: enforce]
    #[arg(long, value_name = "MODE", help_heading = "Network")]
    pub net_mode: Option<String>,
}

impl NetworkFlags {
    /// `None`: not one was given.
    pub fn layer(self) -> Option<NetLayer> {
        let layer = NetLayer {
            allow: self.allow_net,
            allow_public: Vec::new(),
            deny: self.deny_net,
            methods: self.net_method,
            rate: self.net_rate,
            bytes: self.net_bytes,
            mode: self.net_mode,
        };
        (layer != NetLayer::default()).then_some(layer)
    }
}
