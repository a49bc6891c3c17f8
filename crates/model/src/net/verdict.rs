//! The one question that every way out of a sandbox asks, and its answer. Pure: no time, no lookup, no I/O.

use super::domain::DomainName;
use super::rule::{Rule, Target};
use super::special::{SpecialKind, plain, special};
use super::{Mode, NetRules};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

pub type Verdict = Result<Grant, Denial>;

/// Why something is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grant {
    Rule(String),
    /// Allowed only because this mode allows everything and writes it down.
    Learning,
}

/// Why something is not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denial {
    /// No rule allows it.
    NotAllowed,
    /// This rule denies it.
    Rule(String),
    /// Names do not lead there; only a rule with addresses does.
    Special(SpecialKind),
    /// Not a host name.
    NotAName,
    /// The name has no address.
    NoAddress,
    /// The host did not answer, or not with the expected answer.
    Unreachable,
    /// The certificate is not that of the host, or has an unknown issuer.
    Certificate(String),
    /// Only TCP, and names through the gate's own resolver, leave a sandbox.
    Protocol,
    /// The TLS client asked for another name than the one it connected to, and that one is not allowed.
    ServerName(String),
    /// Another host stands in the request than the one that was connected to.
    HostHeader(String),
    /// The method is not one of those allowed, or it cannot be seen.
    Method(String),
    /// Neither HTTP nor any other known protocol, where one is required.
    Malformed,
    TooManyFlows,
    /// The bytes that this sandbox may move are used up.
    Bytes,
    /// A placeholder of this secret was sent to a host that the secret is not bound to.
    Placeholder(String),
    /// A placeholder of this secret was sent in the clear to a host that the secret is bound to.
    ClearSecret(String),
    /// A placeholder stands in a header that the secret is not put into.
    SecretHeader {
        secret: String,
        header: String,
    },
    /// HTTP/2 without TLS: the hosts in its requests cannot be read.
    ClearHttp2,
    /// The rules changed while it was open.
    Changed,
}

impl NetRules {
    /// All that let something out, those for public addresses too.
    pub fn allowed(&self) -> impl Iterator<Item = &Rule> {
        self.allow.iter().chain(&self.allow_public)
    }

    /// The rule that denies a name, on a connection to any host.
    pub fn denied_name(&self, name: &DomainName, port: u16) -> Option<Denial> {
        let denied = self.deny.iter().find(|rule| rule.matches_name(name) && rule.ports.deny(port));
        denied.map(|rule| Denial::Rule(rule.to_string()))
    }

    /// True if a rule denies any name at all.
    pub fn denies_names(&self) -> bool {
        self.deny.iter().any(|rule| !matches!(rule.target, Target::Block(_)))
    }

    /// The verdict on answering for a name at all.
    pub fn resolves(&self, name: &DomainName) -> Verdict {
        let denied = self.deny.iter().find(|rule| rule.matches_name(name) && rule.ports.deny_all());
        if let Some(rule) = denied {
            return Err(Denial::Rule(rule.to_string()));
        }
        match self.allowed().find(|rule| rule.matches_name(name)) {
            Some(rule) => Ok(Grant::Rule(rule.to_string())),
            // So that the port it is wanted for is learnt too.
            None if self.mode != Mode::Enforce => Ok(Grant::Learning),
            None => Err(Denial::NotAllowed),
        }
    }

    /// A connection that was asked for by name.
    pub fn name(&self, name: &DomainName, port: u16) -> Verdict {
        self.decide(port, |rule| rule.matches_name(name))
    }

    /// A connection that was asked for by address.
    pub fn address(&self, address: IpAddr, port: u16, own: bool) -> Verdict {
        let address = plain(address);
        let verdict = self.decide(port, |rule| rule.matches_address(address))?;
        self.reachable(address, port, own)?;
        Ok(verdict)
    }

    /// An address that an allowed name turned out to have. `own`: it is one of this host's.
    pub fn resolved(&self, address: IpAddr, port: u16, own: bool) -> Result<(), Denial> {
        let address = plain(address);
        if let Some(rule) = self.deny.iter().find(|r| r.matches_address(address) && r.ports.deny(port)) {
            return Err(Denial::Rule(rule.to_string()));
        }
        self.reachable(address, port, own)
    }

    pub fn method(&self, method: &str) -> Result<(), Denial> {
        match &self.methods {
            Some(methods) if !methods.iter().any(|known| known == method) => {
                Err(Denial::Method(method.chars().take(40).collect()))
            }
            _ => Ok(()),
        }
    }

    fn decide(&self, port: u16, matches: impl Fn(&Rule) -> bool) -> Verdict {
        if let Some(rule) = self.deny.iter().find(|rule| matches(rule) && rule.ports.deny(port)) {
            return Err(Denial::Rule(rule.to_string()));
        }
        match self.allowed().find(|rule| matches(rule) && rule.ports.allow(port)) {
            Some(rule) => Ok(Grant::Rule(rule.to_string())),
            None if self.mode == Mode::LearnAllow => Ok(Grant::Learning),
            None => Err(Denial::NotAllowed),
        }
    }

    /// A special address needs a rule that means it: one whose whole block is special in the same way. `0.0.0.0/0`
    /// opens neither 10.0.0.1 nor a metadata service. An address of this host needs a rule for it alone. A rule for
    /// public addresses only means none of them.
    fn reachable(&self, address: IpAddr, port: u16, own: bool) -> Result<(), Denial> {
        let (kind, block) = match (special(address), own) {
            (_, true) => (SpecialKind::Host, address.into()),
            (Some(found), false) => found,
            (None, false) => return Ok(()),
        };
        let means_it = |rule: &Rule| {
            matches!(&rule.target, Target::Block(own) if own.contains(&address) && block.contains(own))
                && rule.ports.allow(port)
        };
        if self.allow.iter().any(means_it) { Ok(()) } else { Err(Denial::Special(kind)) }
    }
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Grant::Rule(rule) => write!(f, "by rule {rule}"),
            Grant::Learning => f.write_str("while learning"),
        }
    }
}

impl std::fmt::Display for Denial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Denial::NotAllowed => f.write_str("no rule allows it"),
            Denial::Rule(rule) => write!(f, "denied by rule {rule}"),
            Denial::Special(kind) => write!(f, "the address is {kind}"),
            Denial::NotAName => f.write_str("not a host name"),
            Denial::NoAddress => f.write_str("the name has no address"),
            Denial::Unreachable => f.write_str("not reachable"),
            Denial::Certificate(why) => write!(f, "its certificate is not accepted: {}", why.escape_debug()),
            Denial::Protocol => f.write_str("only TCP leaves a sandbox"),
            Denial::ServerName(name) => write!(f, "TLS asks for {}", name.escape_debug()),
            Denial::HostHeader(name) => write!(f, "the request is for {}", name.escape_debug()),
            Denial::Method(method) => write!(f, "method {} is not allowed", method.escape_debug()),
            Denial::Malformed => f.write_str("not understood"),
            Denial::TooManyFlows => f.write_str("too many connections"),
            Denial::Bytes => f.write_str("the limit of bytes is reached"),
            Denial::Placeholder(name) => write!(f, "secret {} is not for this host", name.escape_debug()),
            Denial::ClearSecret(name) => {
                write!(f, "secret {} is put into requests over TLS only", name.escape_debug())
            }
            Denial::SecretHeader { secret, header } => {
                write!(f, "secret {} is not put into header {}", secret.escape_debug(), header.escape_debug())
            }
            Denial::ClearHttp2 => f.write_str(
                "HTTP/2 without TLS cannot be looked into; only an address that a rule names takes it",
            ),
            Denial::Changed => f.write_str("the rules changed"),
        }
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
