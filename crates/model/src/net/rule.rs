//! One rule: a name, all names below one, or a block of addresses, with ports.

use super::domain::{DomainError, DomainName};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv6Addr};

/// Written as text, in policies, in records and on screens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    pub target: Target,
    pub ports: Ports,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Name(DomainName),
    /// `*.example.org`: every name below it, at any depth, and not the name itself.
    Below(DomainName),
    /// `*`: every name. No address.
    AnyName,
    Block(IpNet),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ports {
    /// No ports were written: 80 and 443 for an allowing rule, every port for a denying rule.
    Usual,
    /// Each from the first to the last, both included.
    Ranges(Vec<(u16, u16)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleError {
    Name { rule: String, error: DomainError },
    Url { rule: String },
    Wildcard { rule: String },
    Ports { rule: String, ports: String },
    Block { rule: String },
    HostBits { rule: String, meant: IpNet },
    Bare6 { rule: String },
    Spaces { rule: String },
}

/// A list of ports longer than this is a mistake.
const MOST_RANGES: usize = 64;

impl Rule {
    pub fn parse(text: &str) -> Result<Rule, RuleError> {
        let rule = || text.chars().take(120).collect::<String>();
        if text.is_empty() || text.contains(char::is_whitespace) {
            return Err(RuleError::Spaces { rule: rule() });
        }
        if text.contains("://") {
            return Err(RuleError::Url { rule: rule() });
        }
        if let Some(rest) = text.strip_prefix('[') {
            return bracketed(rest, text);
        }
        if text.matches(':').count() > 1 {
            // An address of version 6 without a port needs no brackets.
            return match text.parse::<Ipv6Addr>() {
                Ok(address) => Ok(Rule::usual(Target::Block(IpAddr::V6(address).into()))),
                Err(_) => match text.parse::<Ipv6Net>() {
                    Ok(block) => Ok(Rule::usual(Target::Block(whole(block.into(), text)?))),
                    Err(_) => Err(RuleError::Bare6 { rule: rule() }),
                },
            };
        }
        let (host, ports) = match text.split_once(':') {
            Some((host, ports)) => (host, parse_ports(ports, text)?),
            None => (text, Ports::Usual),
        };
        Ok(Rule { target: target(host, text)?, ports })
    }

    fn usual(target: Target) -> Rule {
        Rule { target, ports: Ports::Usual }
    }

    pub fn matches_name(&self, name: &DomainName) -> bool {
        match &self.target {
            Target::Name(own) => own == name,
            Target::Below(above) => name.is_below(above),
            Target::AnyName => true,
            Target::Block(_) => false,
        }
    }

    pub fn matches_address(&self, address: IpAddr) -> bool {
        matches!(&self.target, Target::Block(block) if block.contains(&address))
    }
}

impl Ports {
    pub fn allow(&self, port: u16) -> bool {
        match self {
            Ports::Usual => port == 80 || port == 443,
            Ports::Ranges(_) => self.deny(port),
        }
    }

    pub fn deny(&self, port: u16) -> bool {
        match self {
            Ports::Usual => true,
            Ports::Ranges(ranges) => ranges.iter().any(|(first, last)| (*first..=*last).contains(&port)),
        }
    }

    /// True if a rule that denies leaves no port open.
    pub fn deny_all(&self) -> bool {
        match self {
            Ports::Usual => true,
            Ports::Ranges(ranges) => ranges.contains(&(1, u16::MAX)),
        }
    }
}

fn target(host: &str, text: &str) -> Result<Target, RuleError> {
    let rule = || text.chars().take(120).collect::<String>();
    let named = |name: &str| DomainName::parse(name).map_err(|error| RuleError::Name { rule: rule(), error });
    if host == "*" {
        return Ok(Target::AnyName);
    }
    if let Some(above) = host.strip_prefix("*.") {
        if above.contains('*') {
            return Err(RuleError::Wildcard { rule: rule() });
        }
        return Ok(Target::Below(named(above)?));
    }
    if host.contains('*') {
        return Err(RuleError::Wildcard { rule: rule() });
    }
    if let Ok(address) = host.parse::<std::net::Ipv4Addr>() {
        return Ok(Target::Block(IpAddr::V4(address).into()));
    }
    if host.contains('/') {
        let block = host.parse::<Ipv4Net>().map_err(|_| RuleError::Block { rule: rule() })?;
        return Ok(Target::Block(whole(block.into(), text)?));
    }
    Ok(Target::Name(named(host)?))
}

/// `[fd00::]/8:443`, `[fd00::/8]:443`, `[::1]:443`, each with or without ports.
fn bracketed(rest: &str, text: &str) -> Result<Rule, RuleError> {
    let refuse = || RuleError::Block { rule: text.chars().take(120).collect() };
    let (inside, after) = rest.split_once(']').ok_or_else(refuse)?;
    let (length, ports) = match after.split_once(':') {
        Some((length, ports)) => (length, parse_ports(ports, text)?),
        None => (after, Ports::Usual),
    };
    let whole_text = format!("{inside}{length}");
    let block: IpNet = match whole_text.parse::<Ipv6Addr>() {
        Ok(address) => IpAddr::V6(address).into(),
        Err(_) => whole_text.parse::<Ipv6Net>().map_err(|_| refuse())?.into(),
    };
    Ok(Rule { target: Target::Block(whole(block, text)?), ports })
}

/// Bits below the length would be ignored, so their author meant something else.
fn whole(block: IpNet, text: &str) -> Result<IpNet, RuleError> {
    if block.addr() == block.network() {
        return Ok(block);
    }
    Err(RuleError::HostBits { rule: text.chars().take(120).collect(), meant: block.trunc() })
}

fn parse_ports(ports: &str, text: &str) -> Result<Ports, RuleError> {
    let refuse = || RuleError::Ports {
        rule: text.chars().take(120).collect(),
        ports: ports.chars().take(40).collect(),
    };
    if ports == "*" {
        return Ok(Ports::Ranges(vec![(1, u16::MAX)]));
    }
    let number = |text: &str| match text.parse::<u16>() {
        Ok(port) if port > 0 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(port),
        _ => Err(refuse()),
    };
    let mut ranges = Vec::new();
    for part in ports.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last || ranges.len() == MOST_RANGES {
            return Err(refuse());
        }
        ranges.push((first, last));
    }
    Ok(Ports::Ranges(ranges))
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.target {
            Target::Name(name) => write!(f, "{name}"),
            Target::Below(name) => write!(f, "*.{name}"),
            Target::AnyName => f.write_str("*"),
            Target::Block(IpNet::V4(block)) if block.prefix_len() == 32 => write!(f, "{}", block.addr()),
            Target::Block(IpNet::V4(block)) => write!(f, "{block}"),
            Target::Block(IpNet::V6(block)) if block.prefix_len() == 128 => write!(f, "[{}]", block.addr()),
            Target::Block(IpNet::V6(block)) => write!(f, "[{}]/{}", block.addr(), block.prefix_len()),
        }?;
        let Ports::Ranges(ranges) = &self.ports else { return Ok(()) };
        for (index, (first, last)) in ranges.iter().enumerate() {
            f.write_str(if index == 0 { ":" } else { "," })?;
            match (first, last) {
                (1, &u16::MAX) => f.write_str("*")?,
                (first, last) if first == last => write!(f, "{first}")?,
                (first, last) => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for RuleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RuleError::Name { rule, error } => write!(f, "network rule `{}`: {error}", rule.escape_debug()),
            RuleError::Url { rule } => write!(f, "network rule `{}` is a URL", rule.escape_debug()),
            RuleError::Wildcard { rule } => {
                write!(f, "network rule `{}` has a `*` where none can stand", rule.escape_debug())
            }
            RuleError::Ports { rule, ports } => {
                write!(f, "network rule `{}`: `{}` are no ports", rule.escape_debug(), ports.escape_debug())
            }
            RuleError::Block { rule } => {
                write!(f, "network rule `{}` is no block of addresses", rule.escape_debug())
            }
            RuleError::HostBits { rule, .. } => {
                write!(f, "network rule `{}` names an address and a block at once", rule.escape_debug())
            }
            RuleError::Bare6 { rule } => {
                write!(f, "network rule `{}` is neither a name nor an address", rule.escape_debug())
            }
            RuleError::Spaces { rule } => {
                write!(f, "network rule `{}` is empty or has a space in it", rule.escape_debug())
            }
        }
    }
}

impl std::error::Error for RuleError {}

impl RuleError {
    pub fn hint(&self) -> String {
        match self {
            RuleError::Url { .. } => "write the name alone, such as api.example.com or api.example.com:8443",
            RuleError::Wildcard { .. } => {
                "write `*.example.org` for all names below one, or `*` for every name"
            }
            RuleError::Ports { .. } => "write 443, 80,443, 8000-8010, or `*`; ports are 1 to 65535",
            RuleError::HostBits { meant, .. } => return format!("for the block write {meant}"),
            RuleError::Bare6 { .. } => "an address of version 6 with a port is written [fd00::1]:443",
            RuleError::Block { .. } => "write 10.1.2.0/24:5432 or [fd00::]/8:443",
            RuleError::Name { .. } | RuleError::Spaces { .. } => {
                "write a name, *.name, an address or a block, each with or without :ports"
            }
        }
        .to_string()
    }
}

impl TryFrom<String> for Rule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        Rule::parse(&text)
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> String {
        rule.to_string()
    }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
