//! One request to a sandbox that was let in: on whose behalf, as which user inside, and from where its paths begin.

use super::errors::{Refusal, Result};
use super::labels::USER_LABEL;
use crate::app::App;
use crate::dialects::clean;
use crate::errors::shorten;
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paddock_fleet::{Actor, Fleet};
use paddock_model::api::Sandbox;

/// Where E2B's user is at home. In the built-in environment it is a link to the home directory of `agent`.
pub const HOME: &str = "/home/user";
const HOME_OF_ROOT: &str = "/root";
/// E2B's name of the user that commands run as.
const USER: &str = "user";

pub struct Inside {
    pub app: App,
    pub actor: Actor,
    pub sandbox: Sandbox,
}

/// A user of E2B's, as this server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// For the fleet; absent: the sandbox's own.
    pub name: Option<String>,
    /// As E2B shows it.
    pub shown: Option<String>,
    /// Where it is known.
    pub home: Option<&'static str>,
}

impl Inside {
    pub fn fleet(&self) -> &Fleet {
        self.app.fleet()
    }

    pub fn id(&self) -> &str {
        &self.sandbox.id
    }

    pub fn user(&self, named: Option<&str>) -> User {
        match (named.filter(|name| !name.is_empty()), self.template_user()) {
            (None, Some(default)) => User { name: None, ..User::of_template(default) },
            (Some(named), Some(_)) => User::of_template(named),
            (named, None) => User::of(named, self.is_built_in()),
        }
    }

    /// The user of its template, where that names one; it has E2B's user then.
    pub fn template_user(&self) -> Option<&str> {
        self.sandbox.metadata.get(USER_LABEL).map(String::as_str)
    }

    /// Made around the host's own programs, and not from an image with users of its own.
    pub fn is_built_in(&self) -> bool {
        self.sandbox.image.is_none()
    }
}

impl User {
    /// A user of a template that has E2B's user.
    fn of_template(name: &str) -> User {
        let home = match name {
            USER => Some(HOME),
            "root" => Some(HOME_OF_ROOT),
            _ => None,
        };
        User { name: Some(name.to_string()), shown: Some(name.to_string()), home }
    }

    pub fn of(named: Option<&str>, built_in: bool) -> User {
        let user = |name: Option<&str>, shown: Option<&str>, home| User {
            name: name.map(str::to_string),
            shown: shown.map(str::to_string),
            home,
        };
        match named.filter(|name| !name.is_empty()) {
            Some("root") => user(Some("root"), Some("root"), Some(HOME_OF_ROOT)),
            None | Some(USER | "agent") if built_in => user(None, Some(USER), Some(HOME)),
            other => user(other, other, None),
        }
    }

    /// An absolute path without `.` and `..`, as E2B resolves it. Where no home is known, the guest resolves what is relative.
    pub fn path(&self, path: &str) -> Result<String> {
        let below_home = match path {
            "" => return Err(Refusal::invalid("the path is empty")),
            "~" => Some(""),
            _ if path.starts_with('/') => None,
            _ => Some(path.strip_prefix("~/").unwrap_or(path)),
        };
        match (below_home, self.home) {
            (None, _) => Ok(clean(path)),
            (Some(rest), Some(home)) => Ok(clean(&format!("{home}/{rest}"))),
            (Some(_), None) if path.starts_with('~') => Err(Refusal::invalid(format!(
                "{:?}: the home directory is not known here; write an absolute path",
                shorten(path)
            ))),
            (Some(_), None) => Ok(path.to_string()),
        }
    }
}

/// The user of the header `Authorization: Basic`, where there is one.
pub fn basic_user(headers: &HeaderMap) -> Result<Option<String>> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let refuse =
        || Refusal::unauthorized("the Authorization header is not of the form Basic base64(\"user:\")");
    let encoded = value.to_str().ok().and_then(|text| {
        let (scheme, rest) = text.split_once(' ')?;
        scheme.eq_ignore_ascii_case("basic").then_some(rest.trim())
    });
    let decoded = STANDARD.decode(encoded.ok_or_else(refuse)?).map_err(|_| refuse())?;
    let text = String::from_utf8(decoded).map_err(|_| refuse())?;
    let (user, _password) = text.split_once(':').ok_or_else(refuse)?;
    Ok(Some(user.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_users_home() {
        let user = User::of(None, true);
        for (path, found) in [
            ("a.txt", "/home/user/a.txt"),
            ("~", "/home/user"),
            ("~/b/../c", "/home/user/c"),
            ("./x//y/", "/home/user/x/y"),
            ("/tmp/./z", "/tmp/z"),
            ("/../../etc", "/etc"),
            ("~other", "/home/user/~other"),
        ] {
            assert_eq!(user.path(path).expect(path), found);
        }
        assert!(user.path("").is_err());
        assert_eq!(User::of(Some("root"), true).path("a").expect("a path"), "/root/a");
        assert_eq!(User::of(None, false).path("a").expect("a path"), "a");
        assert!(User::of(Some("www-data"), false).path("~/a").is_err());
    }

    #[test]
    fn users_of_e2b_are_users_of_the_sandbox() {
        assert_eq!(User::of(Some("user"), true).name, None);
        assert_eq!(User::of(Some("root"), true).name.as_deref(), Some("root"));
        assert_eq!(User::of(Some("user"), false).name.as_deref(), Some("user"));
        assert_eq!(User::of(Some("www-data"), true).name.as_deref(), Some("www-data"));
    }

    #[test]
    fn a_user_comes_by_basic_authentication() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
            basic_user(&headers).map_err(|refusal| refusal.status().as_u16())
        };
        assert_eq!(of("Basic cm9vdDo="), Ok(Some("root".into())));
        assert_eq!(basic_user(&HeaderMap::new()).map_err(|_| ()), Ok(None));
        for bad in ["Bearer x", "Basic", "Basic !!", "Basic cm9vdA=="] {
            assert_eq!(of(bad), Err(401), "{bad}");
        }
    }
}
