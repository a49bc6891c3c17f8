//! `paddock port`: an address of a port inside, with a right to that port alone.

use super::e2b;
use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::sandboxes::PortArgs;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use paddock_client::Method;
use paddock_model::api::{SignPort, SignedPort};

pub fn execute(args: &PortArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        // Before the right is made: without an address it would be of no use.
        let server = e2b::url(&client).await.map_err(|error| match error {
            CommandError::NoServerAddress => CommandError::NoAddressForPort,
            other => other,
        })?;
        let request = SignPort { port: args.port, expires_seconds: args.lasts };
        let call = Call::new(Method::POST, Target::sandbox(&args.id).part("ports").part("sign"));
        let mut signed: SignedPort = client.json(call.json(&request)?).await?;
        signed.url = address(&signed, &server);
        match args.json {
            true => print_json(&signed, caller)?,
            false => print(&format!("{}\n", render::escape::line(&signed.url)), caller)?,
        }
        Ok(0)
    })
}

/// At the name of the port, where it has one: there a page works as anywhere.
fn address(signed: &SignedPort, server: &str) -> String {
    let server = server.trim_end_matches('/');
    let (Some(host), Some((scheme, rest))) = (&signed.host, server.split_once("://")) else {
        return format!("{server}{}", signed.url);
    };
    let port = rest.rsplit_once(':').map(|(_, port)| port).filter(|port| is_number(port));
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}://{host}{port}/?paddock_token={}", signed.token)
}

/// The end of an IPv6 address without a port is none.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_at_its_own_name_where_it_has_one() {
        let mut signed = SignedPort {
            url: "/v1/sandboxes/sb-1/ports/80/?paddock_token=r".into(),
            host: None,
            token: "r".into(),
            expires_at_ms: 0,
        };
        let by_path = address(&signed, "http://localhost:8080");
        assert_eq!(by_path, "http://localhost:8080/v1/sandboxes/sb-1/ports/80/?paddock_token=r");
        signed.host = Some("80-sb-1.boxes.example".into());
        for (server, address_of_port) in [
            ("http://localhost:8080", "http://80-sb-1.boxes.example:8080/?paddock_token=r"),
            ("https://boxes.example/", "https://80-sb-1.boxes.example/?paddock_token=r"),
            ("http://[::1]:8080", "http://80-sb-1.boxes.example:8080/?paddock_token=r"),
            ("http://[::1]", "http://80-sb-1.boxes.example/?paddock_token=r"),
        ] {
            assert_eq!(address(&signed, server), address_of_port, "{server}");
        }
    }
}
