//! The `Host` of requests to ports inside, where `network.maskRequestHost` says another one than `localhost:PORT`.

use super::errors::{Refusal, Result};
use super::labels::REQUEST_HOST_LABEL;
use crate::app::App;
use crate::errors::shorten;
use axum::http::uri::Authority;
use paddock_fleet::Actor;

/// E2B's word for the number of the port.
const PORT: &str = "${PORT}";
/// A name in the DNS has no more, and a number follows it.
const LONGEST: usize = 253 + ":${PORT}".len();

/// The label of a new sandbox.
pub fn label(wanted: Option<&str>) -> Result<Option<(String, String)>> {
    let Some(wanted) = wanted else { return Ok(None) };
    if wanted.len() > LONGEST || !is_host(&wanted.replace(PORT, "65535")) {
        return Err(Refusal::invalid(format!(
            "network.maskRequestHost: {:?} is not NAME, NAME:NUMBER or NAME:{PORT}",
            shorten(wanted)
        )));
    }
    Ok(Some((REQUEST_HOST_LABEL.to_string(), wanted.to_string())))
}

fn is_host(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else { return false };
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let port = text.len() == authority.host().len() || authority.port_u16().is_some_and(|port| port != 0);
    !authority.host().is_empty() && text.bytes().all(known) && port
}

/// The host under which a program inside was asked, if its sandbox names another than the usual one.
pub async fn request_host(app: &App, actor: &Actor, sandbox: &str, port: u16) -> Option<String> {
    let found = app.fleet().get(actor, sandbox).await.ok()?;
    found.metadata.get(REQUEST_HOST_LABEL).map(|host| host.replace(PORT, &port.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_with_or_without_a_port() {
        for good in [
            "localhost:${PORT}",
            "app.example",
            "app.example:8080",
            "10.0.0.1",
            "[::1]:${PORT}",
            "${PORT}.example",
        ] {
            let (_, kept) = label(Some(good)).expect("valid").expect("a label");
            assert_eq!(kept, good);
        }
        let long = "x".repeat(300);
        for bad in [
            "",
            ":80",
            "a b",
            "a/b",
            "user@app.example",
            "a:0",
            "a:99999",
            "a:${PORT",
            "a\r\nb: c",
            "ü.example",
            "a,b",
            &long,
        ] {
            let refusal = label(Some(bad)).expect_err(bad);
            assert!(refusal.message().contains("maskRequestHost"), "{}", refusal.message());
        }
        assert!(label(None).expect("valid").is_none());
    }
}
