//! A decision of the gate, which the audit keeps and `paddock net` shows.

use super::domain::DomainName;
use super::verdict::{Denial, Grant};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Which way out was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// A name was asked for.
    Dns,
    /// A plain connection, of a program that knows of no proxy.
    Connect,
    /// A request to the proxy with a whole URL.
    Http,
    /// CONNECT at the proxy.
    Tunnel,
    Socks,
    Udp,
    Icmp,
    /// Any other protocol.
    Other,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Dns => "dns",
            Way::Connect => "connect",
            Way::Http => "http",
            Way::Tunnel => "tunnel",
            Way::Socks => "socks",
            Way::Udp => "udp",
            Way::Icmp => "icmp",
            Way::Other => "other",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetEvent {
    /// Milliseconds since 1970.
    pub time: u64,
    pub way: Way,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<DomainName>,
    /// The one that was asked for, or the one that was connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    pub outcome: NetOutcome,
    /// How often it happened since it was last told; a loop does not fill the audit.
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetOutcome {
    Allowed(Grant),
    Denied(Denial),
    /// It was allowed before; `why` names the reason if it was cut.
    Closed {
        sent: u64,
        received: u64,
        why: Option<Denial>,
    },
}

impl NetEvent {
    /// `name:port`, `address:port`, or the known part of it.
    pub fn target(&self) -> String {
        let host = match (&self.name, self.address) {
            (Some(name), _) => name.to_string(),
            (None, Some(IpAddr::V6(address))) => format!("[{address}]"),
            (None, Some(address)) => address.to_string(),
            (None, None) => "?".to_string(),
        };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// In one line, how to allow the denied connection, or an alternative to it; `None` if nothing would help.
    pub fn advice(&self) -> Option<String> {
        let NetOutcome::Denied(why) = &self.outcome else { return None };
        match why {
            Denial::NotAllowed => Some(format!("to allow it: --allow-net {}", self.target())),
            Denial::Rule(rule) => Some(format!("to allow it, take `{rule}` out of `deny`")),
            Denial::Special(_) => {
                let address = NetEvent { name: None, ..self.clone() };
                self.address.map(|_| format!("to allow it: --allow-net {}", address.target()))
            }
            Denial::ServerName(name) => {
                let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
                DomainName::parse(name).ok().map(|name| format!("to allow it: --allow-net {name}{port}"))
            }
            Denial::ClearSecret(_) => Some("use https:// in place of http://".to_string()),
            Denial::SecretHeader { secret, header } => {
                Some(format!("to allow it: --secret-header {secret}:{header}"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(name: Option<&str>, address: Option<&str>, why: Denial) -> NetEvent {
        NetEvent {
            time: 1,
            way: Way::Connect,
            name: name.map(|name| DomainName::parse(name).unwrap()),
            address: address.map(|address| address.parse().unwrap()),
            port: Some(443),
            outcome: NetOutcome::Denied(why),
            count: 1,
        }
    }

    #[test]
    fn a_denial_says_how_to_allow_it() {
        let advice = |event: NetEvent| event.advice().unwrap();
        assert_eq!(
            advice(denied(Some("a.example"), None, Denial::NotAllowed)),
            "to allow it: --allow-net a.example:443"
        );
        assert_eq!(
            advice(denied(None, Some("fd00::1"), Denial::NotAllowed)),
            "to allow it: --allow-net [fd00::1]:443"
        );
        let private = Denial::Special(crate::net::SpecialKind::Private);
        assert_eq!(
            advice(denied(Some("a.example"), Some("10.0.0.1"), private)),
            "to allow it: --allow-net 10.0.0.1:443"
        );
        let clear = denied(Some("a.example"), None, Denial::ClearSecret("KEY".into()));
        assert_eq!(advice(clear), "use https:// in place of http://");
        assert_eq!(denied(Some("a.example"), None, Denial::Bytes).advice(), None);
    }

    #[test]
    fn an_event_survives_the_audit() {
        let event = denied(Some("a.example"), Some("10.0.0.1"), Denial::ServerName("b.example".into()));
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(serde_json::from_str::<NetEvent>(&json).unwrap(), event);
        let closed = NetOutcome::Closed { sent: 1, received: 2, why: Some(Denial::Changed) };
        let json = serde_json::to_string(&closed).unwrap();
        assert_eq!(serde_json::from_str::<NetOutcome>(&json).unwrap(), closed);
    }
}
