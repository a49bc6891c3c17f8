use std::path::{Path, PathBuf};

use super::ImageError;
use super::digest::Digest;
use super::error::printable;

/// The meaning of the caller's text.
#[derive(Debug, PartialEq, Eq)]
pub enum Source {
    Path(PathBuf),
    Registry(RegistryReference),
    /// A root that `paddock template build` made here.
    Built(Digest),
}

/// The prefix of such a root; no registry has a name of this form.
pub const BUILT: &str = "built://";

impl Source {
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        if let Some(key) = text.strip_prefix(BUILT) {
            let reason = "after built:// stand 64 hex digits";
            return Digest::parse(&format!("sha256:{key}"))
                .map(Self::Built)
                .map_err(|_| ImageError::BadReference { reference: printable(text.as_bytes()), reason });
        }
        if let Some(rest) = text.strip_prefix('~') {
            let bad = |reason| ImageError::BadReference { reference: printable(text.as_bytes()), reason };
            if !rest.is_empty() && !rest.starts_with('/') {
                return Err(bad("of home directories only one's own is known"));
            }
            let home = std::env::home_dir().ok_or_else(|| bad("there is no home directory"))?;
            return Ok(Self::Path(home.join(rest.trim_start_matches('/'))));
        }
        let is_path =
            ["/", "./", "../"].iter().any(|start| text.starts_with(start)) || [".", ".."].contains(&text);
        if is_path || (!text.is_empty() && Path::new(text).exists()) {
            return Ok(Self::Path(text.into()));
        }
        Self::registry(text)
    }

    /// Never a path, whatever exists under that name: for callers that must not reach the host's files.
    pub fn registry(text: &str) -> Result<Self, ImageError> {
        RegistryReference::parse(text)
            .map(Self::Registry)
            .map_err(|reason| ImageError::BadReference { reference: printable(text.as_bytes()), reason })
    }
}

/// `[registry/]repository[:tag][@digest]`, with Docker's defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryReference {
    /// Host and perhaps port, as the caller wrote them.
    pub registry: String,
    pub repository: String,
    pub tag: String,
    /// The digest wins over the tag.
    pub digest: Option<Digest>,
}

impl RegistryReference {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => {
                (name, Some(Digest::parse(digest).map_err(|_| "the digest is not sha256 and 64 hex digits")?))
            }
            None => (text, None),
        };
        // Docker's rule: the first part is a host if it looks like one.
        let (registry, rest) = match name.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (host, rest),
            _ => ("docker.io", name),
        };
        let (repository, tag) = rest.rsplit_once(':').unwrap_or((rest, "latest"));
        let repository = match registry {
            "docker.io" if !repository.contains('/') => format!("library/{repository}"),
            _ => repository.to_owned(),
        };
        if !is_host(registry) {
            return Err("the registry is not a host name with an optional port");
        }
        if repository.len() > 255 || !repository.split('/').all(is_repository_part) {
            return Err("the name may have lower case letters, digits and single separators only");
        }
        if !is_tag(tag) {
            return Err("the tag may have letters, digits, '_', '.' and '-' only, and at most 128 of them");
        }
        Ok(Self { registry: registry.to_owned(), repository, tag: tag.to_owned(), digest })
    }

    /// The part of the URL before `/v2/`. Only a registry on this host itself is spoken to without encryption.
    pub fn base_url(&self) -> String {
        let host = match self.registry.as_str() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let name =
            if host.starts_with('[') { host.split_inclusive(']').next() } else { host.split(':').next() };
        let scheme = if name.is_some_and(is_this_machine) { "http" } else { "https" };
        format!("{scheme}://{host}")
    }
}

pub fn is_this_machine(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].contains(&host)
}

fn is_host(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            ("ipv6", port)
        }
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let valid_port =
        port.is_empty() || port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    let valid_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    valid_port && host.len() <= 253 && host.split('.').all(valid_label)
}

fn is_repository_part(part: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    bytes.first().is_some_and(|byte| is_plain(*byte))
        && bytes.last().is_some_and(|byte| is_plain(*byte))
        && bytes.iter().all(|byte| is_plain(*byte) || b"._-".contains(byte))
        && !part.contains("..")
}

fn is_tag(tag: &str) -> bool {
    !tag.is_empty()
        && tag.len() <= 128
        && !tag.starts_with(['.', '-'])
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(text: &str) -> (String, String, String) {
        let reference = RegistryReference::parse(text).unwrap();
        let selector = reference.digest.as_ref().map_or(reference.tag.clone(), Digest::to_string);
        (reference.base_url(), reference.repository, selector)
    }

    #[test]
    fn names_get_the_defaults_of_docker() {
        let hub = "https://registry-1.docker.io".to_owned();
        assert_eq!(registry("python"), (hub.clone(), "library/python".into(), "latest".into()));
        assert_eq!(registry("a/b:3.12-slim"), (hub, "a/b".into(), "3.12-slim".into()));
        let digest = format!("sha256:{}", "ab".repeat(32));
        let expected = ("https://example.org:5000".into(), "x/y".into(), digest.clone());
        assert_eq!(registry(&format!("example.org:5000/x/y:tag@{digest}")), expected);
    }

    #[test]
    fn only_this_machine_is_spoken_to_in_the_clear() {
        for (text, base) in [
            ("localhost/a", "http://localhost"),
            ("localhost:5000/a", "http://localhost:5000"),
            ("127.0.0.1:5000/a", "http://127.0.0.1:5000"),
            ("[::1]:5000/a", "http://[::1]:5000"),
            ("127.0.0.1.example.org/a", "https://127.0.0.1.example.org"),
            ("10.0.0.1:5000/a", "https://10.0.0.1:5000"),
        ] {
            assert_eq!(registry(text).0, base);
        }
    }

    #[test]
    fn what_could_change_the_url_is_refused() {
        for text in [
            "",
            "A",
            "a b",
            "a//b",
            "a/../b",
            "a?b",
            "a#b",
            "a%2e",
            "a:",
            "a:b/c",
            "a@b",
            "user@host.x/a",
            "host.x:99999/a",
            "host.x:80:80/a",
            "-x.y/a",
            "[::1/a",
            "a\n",
            "a\0",
            ".a",
            "a/",
        ] {
            assert!(RegistryReference::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn paths_are_told_by_their_start_or_by_being_there() {
        for text in ["/", "./x", "../x", ".", "Cargo.toml", "src"] {
            assert_eq!(Source::parse(text).unwrap(), Source::Path(text.into()));
        }
        assert!(matches!(Source::parse("~/x").unwrap(), Source::Path(path) if path.is_absolute()));
        assert!(Source::parse("~other/x").is_err());
        assert!(matches!(Source::parse("no-such-file").unwrap(), Source::Registry(_)));
        for text in ["src", "Cargo.toml", "/etc", "./x", "../x", ".", "~", "~/x"] {
            assert!(!matches!(Source::registry(text), Ok(Source::Path(_))), "{text}");
        }
    }
}
