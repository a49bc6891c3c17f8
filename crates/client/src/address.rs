//! Where a server is.

use hyper::http::Uri;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp { host: String, port: u16, tls: bool },
}

impl Address {
    /// Of the forms `unix:/PATH`, `http://HOST:PORT` and `https://HOST`; else the reason why it is none of them.
    pub fn parse(text: &str) -> Result<Address, &'static str> {
        if let Some(path) = text.strip_prefix("unix:") {
            // Some other tools write `unix:///path`.
            let path = Path::new(path.strip_prefix("//").unwrap_or(path));
            return match path.is_absolute() {
                true => Ok(Address::Unix(path.to_path_buf())),
                false => Err("the path of a socket has to be absolute, as in unix:/run/paddock/api.sock"),
            };
        }
        let forms = "write http://HOST:PORT, https://HOST or unix:/PATH";
        let uri: Uri = text.parse().map_err(|_| forms)?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(forms),
        };
        if uri.query().is_some() || !matches!(uri.path(), "" | "/") {
            return Err("only a host and a port belong there, no path");
        }
        let authority = uri.authority().ok_or(forms)?;
        if authority.as_str().contains('@') {
            return Err("a secret belongs in PADDOCK_TOKEN, not in the address");
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Address::Tcp { host: authority.host().to_string(), port, tls })
    }

    /// The value of the `Host` header.
    pub fn host(&self) -> String {
        match self {
            Address::Unix(_) => "localhost".to_string(),
            Address::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp { host, port, tls: false } => write!(f, "http://{host}:{port}"),
            Address::Tcp { host, port, tls: true } => write!(f, "https://{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_in_the_same_form() {
        for text in
            ["unix:/run/x.sock", "http://127.0.0.1:7070", "https://box.example.org:443", "http://[::1]:80"]
        {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse("https://box").unwrap().to_string(), "https://box:443");
        assert_eq!(Address::parse("http://box/").unwrap().to_string(), "http://box:80");
        assert_eq!(Address::parse("unix:///run/x.sock"), Ok(Address::Unix("/run/x.sock".into())));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for text in ["box:7070", "ftp://box", "unix:x.sock", "http://box/v1", "http://u:p@box", "", "http://"]
        {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
