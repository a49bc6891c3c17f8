//! How ports inside are reached, as flags.

use clap::Args;
use paddock_model::{PortError, PortSettings, PublicPorts};

#[derive(Debug, Clone, Default, Args)]
pub struct PortFlags {
    /// Let everybody who knows the sandbox's id use this port at PORT-ID.DOMAIN, without a token: a number, `all`, or `none`. Only
    /// where the server has --public-ports; repeatable
    #[arg(long, value_name = "PORT|all|none", help_heading = "Ports")]
    pub public_port: Vec<String>,
    /// The Host that programs at its ports are asked as, such as app.example or ${PORT}.app.example:${PORT}
    /// [default: localhost:${PORT}]
    #[arg(long, value_name = "NAME[:PORT]", help_heading = "Ports")]
    pub request_host: Option<String>,
}

impl PortFlags {
    pub fn settings(self) -> Result<PortSettings, PortError> {
        let words = Some(self.public_port).filter(|words| !words.is_empty());
        let public = words.map(|words| PublicPorts::of_words(&words)).transpose()?;
        let settings = PortSettings { public, request_host: self.request_host };
        settings.check()?;
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(ports: &[&str], host: Option<&str>) -> Result<PortSettings, PortError> {
        let public_port = ports.iter().map(|port| port.to_string()).collect();
        PortFlags { public_port, request_host: host.map(String::from) }.settings()
    }

    #[test]
    fn flags_that_are_not_there_leave_everything_as_it_is() {
        assert_eq!(settings(&[], None), Ok(PortSettings::default()));
        let closed = settings(&["none"], None).expect("valid");
        assert!(!closed.opens_any() && !closed.is_default());
        let open = settings(&["80", "3000"], Some("app.example")).expect("valid");
        assert!(open.is_public(3000) && open.host_of(80) == "app.example");
        for (ports, host) in
            [(&["0"][..], None), (&["70000"], None), (&["all", "80"], None), (&[], Some("a b"))]
        {
            assert!(settings(ports, host).is_err(), "{ports:?} {host:?}");
        }
    }
}
