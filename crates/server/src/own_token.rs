//! A token of this server in a request to a port inside. It may stand in the query, in `Referer`, or in a header that a
//! proxy before us wrote. The program inside must not see it.

use crate::app::App;
use crate::dialects::e2b;
use crate::ports::TOKEN;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::percent_decode;

/// A text that was encoded more often than this is refused: no honest client sends it.
const MOST_ROUNDS: usize = 8;

/// Tokens of this server in the headers where clients send keys, whether or not the request is admitted by them.
pub async fn shown(app: &App, headers: &HeaderMap) -> Vec<String> {
    let text = |value: &HeaderValue| value.to_str().ok().map(str::to_string);
    let keys = headers.get_all(e2b::KEY_HEADER).iter().filter_map(text);
    let bearers = headers.get_all(header::AUTHORIZATION).iter().filter_map(text);
    let bearers = bearers.filter_map(|text| Some(text.split_once(' ')?.1.trim().to_string()));
    let mut shown = Vec::new();
    for key in keys.chain(bearers) {
        let own_form = e2b::own_form(&key).into_owned();
        if is_own(app, &own_form).await {
            shown.extend([own_form, key]);
        }
    }
    shown
}

/// True for a token that is valid, and for a right to a port that this server signed. A server behind a gateway does not know the
/// gateway's tokens, and takes every text for one that is written like one.
pub async fn is_own(app: &App, secret: &str) -> bool {
    if app.options().gateway_key.is_some() && e2b::own_form(secret).starts_with(e2b::TOKEN_PREFIX) {
        return true;
    }
    app.fleet().has_signed_port(secret) || app.fleet().authenticate(secret).await.is_some()
}

/// The first token among the parameters.
pub fn parameter(query: Option<&str>) -> Option<String> {
    let mut pairs = pairs(query?);
    pairs.find_map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = percent_decode(value.as_bytes()).decode_utf8_lossy().into_owned();
        (decoded(name.as_bytes()) == TOKEN.as_bytes()).then_some(value)
    })
}

/// The query without every part that names the token, however it is written; with its `?`, or empty.
pub fn clean_query(query: Option<&str>, secrets: &[String]) -> String {
    let Some(query) = query else { return String::new() };
    if !holds(query.as_bytes(), secrets) {
        return format!("?{query}");
    }
    let kept: Vec<&str> = pairs(query).filter(|pair| !holds(pair.as_bytes(), secrets)).collect();
    if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) }
}

/// Takes the token out of all headers. `Referer` and cookies keep their other parts.
pub fn clean_headers(headers: &mut HeaderMap, secrets: &[String]) {
    let found: Vec<HeaderName> = headers
        .iter()
        .filter(|(_, value)| holds(value.as_bytes(), secrets))
        .map(|(name, _)| name.clone())
        .collect();
    for name in found {
        let values: Vec<HeaderValue> = headers.get_all(&name).iter().cloned().collect();
        headers.remove(&name);
        for value in values {
            if let Some(value) = clean_header(&name, value, secrets) {
                headers.append(&name, value);
            }
        }
    }
}

fn clean_header(name: &HeaderName, value: HeaderValue, secrets: &[String]) -> Option<HeaderValue> {
    if !holds(value.as_bytes(), secrets) {
        return Some(value);
    }
    let text = value.to_str().ok()?;
    let rest = match *name {
        header::REFERER => {
            let address = text.split_once('#').map_or(text, |(address, _)| address);
            let (path, query) = address.split_once('?')?;
            format!("{path}{}", clean_query(Some(query), secrets))
        }
        header::COOKIE => {
            let pairs = text.split(';').map(str::trim);
            pairs.filter(|pair| !holds(pair.as_bytes(), secrets)).collect::<Vec<_>>().join("; ")
        }
        _ => return None,
    };
    let clean = !rest.is_empty() && !holds(rest.as_bytes(), secrets);
    clean.then(|| HeaderValue::from_str(&rest).ok())?
}

/// True if the name of our parameter, or one of these secrets, is in a text, encoded or not.
pub fn holds(text: &[u8], secrets: &[String]) -> bool {
    let contains = |text: &[u8], wanted: &[u8]| text.windows(wanted.len().max(1)).any(|part| part == wanted);
    let found = |text: &[u8]| {
        contains(text, TOKEN.as_bytes())
            || secrets.iter().any(|secret| !secret.is_empty() && contains(text, secret.as_bytes()))
    };
    let mut text = text.to_vec();
    for _ in 0..MOST_ROUNDS {
        if found(&text) {
            return true;
        }
        let next: Vec<u8> = percent_decode(&text).collect();
        if next == text {
            return false;
        }
        text = next;
    }
    true
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..MOST_ROUNDS {
        let next: Vec<u8> = percent_decode(&text).collect();
        if next == text {
            break;
        }
        text = next;
    }
    text
}

/// Some programs take `;` for `&`.
fn pairs(query: &str) -> impl Iterator<Item = &str> {
    query.split(['&', ';'])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "s3cret-token";

    fn query(text: &str) -> String {
        clean_query(Some(text), &[SECRET.to_string()])
    }

    #[test]
    fn no_form_of_the_parameter_stays() {
        for (given, left) in [
            ("a=1&b=2", "?a=1&b=2"),
            ("paddock_token=s3cret-token", ""),
            ("a=1&paddock_token=x&b=2&paddock_token=y", "?a=1&b=2"),
            ("paddock%5Ftoken=x&a=1", "?a=1"),
            ("p%2561ddock_token=x", ""),
            ("a=1;paddock_token=x;b=2", "?a=1&b=2"),
            ("next=%2F%3Fpaddock_token%3Dx&a=1", "?a=1"),
            ("other=s3cret-token&a", "?a"),
            ("other=s3cret%2Dtoken", ""),
            ("", "?"),
        ] {
            assert_eq!(query(given), left, "{given}");
        }
        assert_eq!(clean_query(None, &[]), "");
        // Encoded again and again it is refused, whatever its content.
        let mut deep = "%61".to_string();
        for _ in 0..MOST_ROUNDS {
            deep = deep.replace('%', "%25");
        }
        assert_eq!(query(&deep), "");
    }

    #[test]
    fn the_parameter_is_found_however_it_is_written() {
        assert_eq!(parameter(Some("a=1&paddock_token=s%2D1")).as_deref(), Some("s-1"));
        assert_eq!(parameter(Some("paddock%5ftoken=s")).as_deref(), Some("s"));
        assert_eq!(parameter(Some("xpaddock_token=s&b")), None);
        assert_eq!(parameter(None), None);
    }

    #[test]
    fn headers_lose_the_token_and_nothing_else() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("referer", "https://h/v1/sandboxes/a/ports/80/x?paddock_token=t&y=1#z"),
            ("x-original-url", "/x?paddock_token=t"),
            ("x-forwarded-uri", "/x?paddock%5Ftoken=t"),
            ("x-copy", "s3cret-token"),
            ("cookie", "a=1; last=/?paddock_token=t; b=2"),
            ("x-kept", "1"),
        ] {
            headers.append(name.parse::<HeaderName>().expect("a name"), HeaderValue::from_static(value));
        }
        clean_headers(&mut headers, &[SECRET.to_string()]);
        assert_eq!(headers["referer"], "https://h/v1/sandboxes/a/ports/80/x?y=1");
        assert_eq!(headers["cookie"], "a=1; b=2");
        assert_eq!(headers["x-kept"], "1");
        assert_eq!(headers.len(), 3, "{headers:?}");
        let mut headers = HeaderMap::new();
        headers.append(header::REFERER, HeaderValue::from_static("https://h/s3cret-token/x"));
        clean_headers(&mut headers, &[SECRET.to_string()]);
        assert!(headers.is_empty());
    }
}
