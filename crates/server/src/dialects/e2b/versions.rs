//! The header `Warning`. An SDK of another version than those that are tested gets its answers, and this header says so.

use crate::app::App;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// The versions that the tests run with (docs/guides/e2b.md), by the language that the SDK names.
const TESTED: [(&str, &str); 2] = [("python", "2.63.0"), ("js", "2.51.0")];
const LONGEST_VERSION: usize = 32;
/// Characters.
const LONGEST_WARNING: usize = 500;
/// Versions that are named in the log, each once.
const MOST_LOGGED: usize = 64;

#[derive(Default)]
pub struct Seen(Mutex<HashSet<(&'static str, String)>>);

/// For a whole router.
pub async fn warn(State(app): State<App>, request: Request, next: Next) -> Response {
    let warning = warning(&app, request.headers());
    told(next.run(request).await, warning)
}

pub fn told(mut response: Response, warning: Option<HeaderValue>) -> Response {
    if let Some(warning) = warning {
        response.headers_mut().append(header::WARNING, warning);
    }
    response
}

/// The header with these words: it takes printable ASCII, and ends at a quotation mark.
pub fn header(words: &str) -> Option<HeaderValue> {
    let plain = |letter| match letter {
        '"' | '\\' => '\'',
        ' '..='~' => letter,
        _ => ' ',
    };
    let words: String = words.chars().take(LONGEST_WARNING).map(plain).collect();
    HeaderValue::from_str(&format!("299 paddock \"{words}\"")).ok()
}

/// The header, if the client is an SDK of E2B's whose version is not tested.
pub fn warning(app: &App, headers: &HeaderMap) -> Option<HeaderValue> {
    let (language, version) = untested(headers)?;
    app.e2b().versions.log(language, version);
    let tested = TESTED.iter().find(|(known, _)| *known == language).map_or("", |(_, tested)| tested);
    header(&format!(
        "the E2B SDK for {language} {version} is not tested with this server, {tested} is; docs/guides/e2b.md"
    ))
}

/// The language and version that a client names, unless it is a tested one. Text that is no version is left alone.
fn untested(headers: &HeaderMap) -> Option<(&'static str, &str)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let agent = text("user-agent").unwrap_or_default();
    TESTED.iter().find_map(|(language, tested)| {
        let own = text("package_version").filter(|_| text("lang") == Some(language));
        let version = own.or_else(|| {
            let (_, rest) = agent.split_once(&format!("e2b-{language}-sdk/"))?;
            rest.split(' ').next()
        })?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
        let is_version = (1..=LONGEST_VERSION).contains(&version.len()) && version.bytes().all(plain);
        (is_version && version != *tested).then_some((*language, version))
    })
}

impl Seen {
    fn log(&self, language: &'static str, version: &str) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < MOST_LOGGED && seen.insert((language, version.to_string())) {
            tracing::warn!(language, version, "an E2B SDK of a version that is not tested calls this server");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn other_versions_are_found_and_tested_ones_are_not() {
        let found = |pairs: &[(&'static str, &str)]| {
            untested(&headers(pairs)).map(|(language, version)| format!("{language} {version}"))
        };
        assert_eq!(found(&[("lang", "python"), ("package_version", "2.63.0")]), None);
        assert_eq!(found(&[("lang", "js"), ("package_version", "2.63.0")]), Some("js 2.63.0".into()));
        assert_eq!(found(&[("user-agent", "e2b-js-sdk/2.51.0 x")]), None);
        assert_eq!(found(&[("user-agent", "x e2b-python-sdk/9.0.1 y")]), Some("python 9.0.1".into()));
        for stranger in ["curl/8", "e2b-python-sdk/", "e2b-python-sdk/\"quoted\""] {
            assert_eq!(found(&[("user-agent", stranger)]), None, "{stranger}");
        }
    }

    #[test]
    fn a_warning_is_one_header_whatever_it_says() {
        let said = header("a \"b\"\r\nX: y \\ ü").expect("a header");
        assert_eq!(said, "299 paddock \"a 'b'  X: y '  \"");
        assert!(header(&"x".repeat(10_000)).expect("a header").len() < 600);
    }

    #[test]
    fn the_log_is_bounded() {
        let seen = Seen::default();
        for number in 0..1000 {
            seen.log("js", &number.to_string());
        }
        assert_eq!(seen.0.lock().expect("not poisoned").len(), MOST_LOGGED);
    }
}
