//! Where the nodes are read from: the command line, a file that SIGHUP has read again, and names that DNS resolves.

use axum::http::HeaderValue;
use paddock_client::Address;
use paddock_model::{NodeNumber, NodeNumberError};
use paddock_server::{GatewayKey, GatewayKeyError};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// More than any cluster whose numbers fit.
const MOST_NODES: usize = 4096;
const LARGEST_FILE: u64 = 4 << 20;

/// One node, as its owner names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSource {
    pub address: Address,
    pub key: HeaderValue,
    /// Besides those that the node reports, and before them.
    pub labels: BTreeMap<String, String>,
    /// The only one that it may have. A node with another key cannot take it then.
    pub number: Option<NodeNumber>,
}

/// Everything that was asked for on the command line.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// `URL=KEYFILE`, or `NUMBER=URL=KEYFILE`
    pub listed: Vec<String>,
    pub file: Option<PathBuf>,
    /// `NAME:PORT`
    pub dns: Option<String>,
    pub dns_key: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("the node `{text}` is not of the form URL=KEYFILE or NUMBER=URL=KEYFILE")]
    Form { text: String },
    #[error("the address `{text}` of a node is not valid: {reason}")]
    Address { text: String, reason: &'static str },
    #[error(transparent)]
    Key(#[from] GatewayKeyError),
    #[error("the file of nodes {path:?} cannot be read")]
    File { path: PathBuf, source: io::Error },
    #[error("the file of nodes {path:?} makes no sense: {reason}")]
    Content { path: PathBuf, reason: String },
    #[error("the node {0} is named twice")]
    Twice(String),
    #[error("the number {0} is given to two nodes")]
    NumberTwice(NodeNumber),
    #[error("the node `{text}` has no number: {source}")]
    Number { text: String, source: NodeNumberError },
    #[error("{0} nodes are more than the 4096 that have numbers")]
    TooMany(usize),
    #[error("no node is named")]
    None,
    #[error("`{0}` is not of the form NAME:PORT")]
    Dns(String),
}

impl SourceError {
    pub fn hint(&self) -> Option<String> {
        match self {
            SourceError::Key(error) => error.hint(),
            SourceError::Form { .. } => {
                Some("as in --node 7=http://10.0.0.7:7070=/etc/paddock/node.key".into())
            }
            SourceError::None => Some("name them with --node, --nodes or --nodes-dns".into()),
            SourceError::Content { .. } => {
                Some("[[node]] with url and key_file, and number and labels if it has any".into())
            }
            SourceError::Dns(_) => Some("as in --nodes-dns nodes.example.org:7070".into()),
            _ => None,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    node: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    url: String,
    key_file: PathBuf,
    #[serde(default)]
    number: Option<NodeNumber>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

impl Sources {
    /// Reads keys and the file. Blocks for a moment.
    pub fn read(&self) -> Result<Vec<NodeSource>, SourceError> {
        let mut found = Vec::new();
        for text in &self.listed {
            let (rest, key) =
                text.rsplit_once('=').ok_or_else(|| SourceError::Form { text: text.clone() })?;
            let (number, url) = numbered(rest)?;
            found.push(source(url, Path::new(key), BTreeMap::new(), number)?);
        }
        for entry in self.file.as_deref().map(entries).transpose()?.unwrap_or_default() {
            found.push(source(&entry.url, &entry.key_file, entry.labels, entry.number)?);
        }
        if let Some(name) = &self.dns {
            name_and_port(name)?;
            key(self.dns_key.as_deref().unwrap_or(Path::new("")))?;
        }
        let mut seen = BTreeSet::new();
        for source in &found {
            let address = source.address.to_string();
            if !seen.insert(address.clone()) {
                return Err(SourceError::Twice(address));
            }
        }
        let mut numbers = BTreeSet::new();
        if let Some(twice) = found.iter().filter_map(|source| source.number).find(|one| !numbers.insert(*one))
        {
            return Err(SourceError::NumberTwice(twice));
        }
        match found.len() {
            0 if self.dns.is_none() && self.file.is_none() => Err(SourceError::None),
            count if count > MOST_NODES => Err(SourceError::TooMany(count)),
            _ => Ok(found),
        }
    }

    /// The nodes that the name stands for now. `None`: there is no name, or it is not known at this moment.
    pub async fn resolve(&self) -> Option<Vec<NodeSource>> {
        let (host, port) = name_and_port(self.dns.as_deref()?).ok()?;
        let key = key(self.dns_key.as_deref()?).ok()?;
        let found = tokio::net::lookup_host((host, port)).await;
        let found = found
            .inspect_err(|error| tracing::warn!(%error, name = host, "the nodes' name is not known"))
            .ok()?;
        let addresses: BTreeSet<_> = found.take(MOST_NODES).collect();
        let source = |address: std::net::SocketAddr| {
            let host = match address.ip() {
                std::net::IpAddr::V6(ip) => format!("[{ip}]"),
                std::net::IpAddr::V4(ip) => ip.to_string(),
            };
            let address = Address::Tcp { host, port: address.port(), tls: false };
            NodeSource { address, key: key.clone(), labels: BTreeMap::new(), number: None }
        };
        Some(addresses.into_iter().map(source).collect())
    }
}

fn entries(path: &Path) -> Result<Vec<Entry>, SourceError> {
    let failed = |source| SourceError::File { path: path.into(), source };
    let content = |reason: String| SourceError::Content { path: path.into(), reason };
    if std::fs::metadata(path).map_err(failed)?.len() > LARGEST_FILE {
        return Err(content(format!("it is larger than {LARGEST_FILE} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let file: File = toml::from_str(&text).map_err(|error| content(error.message().to_string()))?;
    Ok(file.node)
}

fn source(
    url: &str,
    key: &Path,
    labels: BTreeMap<String, String>,
    number: Option<NodeNumber>,
) -> Result<NodeSource, SourceError> {
    let address = Address::parse(url).map_err(|reason| SourceError::Address { text: url.into(), reason })?;
    Ok(NodeSource { address, key: self::key(key)?, labels, number })
}

/// A number before the address, which begins with a word and `:`.
fn numbered(text: &str) -> Result<(Option<NodeNumber>, &str), SourceError> {
    match text.split_once('=') {
        Some((number, url)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number =
                number.parse().map_err(|source| SourceError::Number { text: text.into(), source })?;
            Ok((Some(number), url))
        }
        _ => Ok((None, text)),
    }
}

fn key(path: &Path) -> Result<HeaderValue, SourceError> {
    let key = GatewayKey::read(path)?;
    key.header().ok_or_else(|| GatewayKeyError::NotAKey(path.into()).into())
}

fn name_and_port(text: &str) -> Result<(&str, u16), SourceError> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let parts = parts.filter(|(host, port)| !host.is_empty() && *port != 0);
    parts.ok_or_else(|| SourceError::Dns(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn with_key(test: impl FnOnce(&Path, &str)) {
        let directory = tempfile::tempdir().expect("a directory");
        let key = directory.path().join("key");
        std::fs::write(&key, "k".repeat(40)).expect("written");
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("set");
        test(directory.path(), &key.display().to_string());
    }

    #[test]
    fn nodes_come_from_the_command_line_and_from_a_file() {
        with_key(|directory, key| {
            let file = directory.join("nodes.toml");
            std::fs::write(
                &file,
                format!("[[node]]\nurl = \"unix:/run/n2.sock\"\nkey_file = \"{key}\"\nnumber = 2\nlabels = {{ zone = \"b\" }}\n"),
            )
            .expect("written");
            let listed = vec![format!("http://10.0.0.7:7070={key}")];
            let sources = Sources { listed, file: Some(file.clone()), ..Sources::default() };
            let found = sources.read().expect("two nodes");
            assert_eq!(found[0].address.to_string(), "http://10.0.0.7:7070");
            assert_eq!(found[1].labels["zone"], "b");
            assert_eq!(found[1].number.map(NodeNumber::get), Some(2));
            std::fs::write(&file, "[[node]]\nurl = 1\n").expect("written");
            assert!(matches!(sources.read(), Err(SourceError::Content { .. })));
        });
    }

    #[test]
    fn mistakes_are_named() {
        with_key(|_, key| {
            let read = |listed: &[String]| Sources { listed: listed.to_vec(), ..Sources::default() }.read();
            assert!(matches!(read(&[]), Err(SourceError::None)));
            assert!(matches!(read(&["http://a:1".into()]), Err(SourceError::Form { .. })));
            assert!(matches!(read(&[format!("a:1={key}")]), Err(SourceError::Address { .. })));
            assert!(matches!(read(&["http://a:1=/nowhere".into()]), Err(SourceError::Key(_))));
            let numbered = |number: &str, host: &str| format!("{number}=http://{host}:1={key}");
            assert_eq!(read(&[numbered("7", "a")]).expect("one")[0].number.map(NodeNumber::get), Some(7));
            assert!(matches!(read(&[numbered("4096", "a")]), Err(SourceError::Number { .. })));
            assert!(matches!(read(&[numbered("", "a")]), Err(SourceError::Number { .. })));
            assert!(matches!(
                read(&[numbered("7", "a"), numbered("07", "b")]),
                Err(SourceError::NumberTwice(_))
            ));
            let one = format!("http://a:1={key}");
            assert!(matches!(read(&[one.clone(), one]), Err(SourceError::Twice(_))));
        });
        for bad in ["a", "a:", ":1", "a:0", "a:x"] {
            assert!(name_and_port(bad).is_err(), "{bad}");
        }
    }
}
