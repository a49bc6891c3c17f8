//! Where the server is: `PADDOCK_URL`, else the user's own socket.

use super::ClientError;
use crate::caller::Environment;
use crate::{env_vars, state};
use hyper::http::Uri;
use rustix::process::geteuid;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp { host: String, port: u16, tls: bool },
}

impl Address {
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

/// The address that the caller's environment names.
pub fn configured(environment: &Environment) -> Result<Option<Address>, ClientError> {
    let Some(text) = environment.get(env_vars::PADDOCK_URL) else { return Ok(None) };
    let refused = |reason| ClientError::Address { value: text.to_string_lossy().into_owned(), reason };
    let text = text.to_str().ok_or_else(|| refused("it is not UTF-8 text"))?;
    parse(text).map(Some).map_err(refused)
}

fn parse(text: &str) -> Result<Address, &'static str> {
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

/// The socket of the server of this state directory. No two state directories share one: another state directory has
/// another server.
pub fn own_socket(environment: &Environment, state_dir: &Path) -> PathBuf {
    let inside = || state_dir.join("run/api.sock");
    if !state::is_usual(environment, state_dir) {
        return inside();
    }
    if geteuid().is_root() {
        return PathBuf::from("/run/paddock/api.sock");
    }
    let runtime = environment.get(env_vars::XDG_RUNTIME_DIR).map(Path::new).filter(|path| path.is_absolute());
    runtime.map_or_else(inside, |runtime| runtime.join("paddock/api.sock"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_in_the_same_form() {
        for text in
            ["unix:/run/x.sock", "http://127.0.0.1:7070", "https://box.example.org:443", "http://[::1]:80"]
        {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("https://box").unwrap().to_string(), "https://box:443");
        assert_eq!(parse("http://box/").unwrap().to_string(), "http://box:80");
        assert_eq!(parse("unix:///run/x.sock"), Ok(Address::Unix("/run/x.sock".into())));
    }

    #[test]
    fn every_state_directory_has_a_socket_of_its_own() {
        let runtime = || ("XDG_RUNTIME_DIR".into(), "/run/user/7".into());
        let home = || ("HOME".into(), "/nonexistent/home".into());
        let environment = |more: &[(&str, &str)]| -> Environment {
            more.iter().map(|(name, value)| (name.into(), value.into())).chain([runtime(), home()]).collect()
        };
        let socket = |more: &[(&str, &str)]| {
            let environment = environment(more);
            own_socket(&environment, &state::locate(&environment).unwrap())
        };
        let usual = socket(&[]);
        let expected = match geteuid().is_root() {
            true => "/run/paddock/api.sock",
            false => "/run/user/7/paddock/api.sock",
        };
        assert_eq!(usual, Path::new(expected));
        assert_eq!(
            socket(&[("PADDOCK_STATE_DIR", "/nonexistent/a")]),
            Path::new("/nonexistent/a/run/api.sock")
        );
        if !geteuid().is_root() {
            let elsewhere = socket(&[("XDG_STATE_HOME", "/nonexistent/b")]);
            assert_eq!(elsewhere, Path::new("/nonexistent/b/paddock/run/api.sock"));
        }
        // A variable with the usual path means the usual server.
        let usual_state = state::locate(&environment(&[])).unwrap();
        assert_eq!(socket(&[("PADDOCK_STATE_DIR", usual_state.to_str().unwrap())]), usual);
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        for text in ["box:7070", "ftp://box", "unix:x.sock", "http://box/v1", "http://u:p@box", "", "http://"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
