//! A token as E2B's SDKs take it: four variables of their own.

use super::CommandError;
use crate::client::Address;
use crate::client::{Call, Client, Target};
use crate::render;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use paddock_model::api::ServerStatus;

/// Where the SDKs reach the server: as this command does, or else where the server says that it listens.
pub async fn url(client: &Client) -> Result<String, CommandError> {
    if let address @ Address::Tcp { .. } = client.address() {
        return Ok(address.to_string());
    }
    let status: ServerStatus = client.json(Call::get(Target::new("/v1/server"))).await?;
    let first = status.addresses.first().ok_or(CommandError::NoServerAddress)?;
    // An address that stands for all of the machine's is no name that a client can call.
    Ok(first.replacen("//0.0.0.0:", "//localhost:", 1).replacen("//[::]:", "//localhost:", 1))
}

/// Lines for a shell.
pub fn variables(secret: &str, url: &str) -> String {
    let (key, url) = (key(secret), render::escape::line(url));
    let urls = ["E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"];
    let lines: String = urls.iter().map(|name| format!("export {name}={url}\n")).collect();
    format!("export E2B_API_KEY={key}\n{lines}")
}

/// Older SDKs refuse a key that is not `e2b_` and hexadecimal digits: the bytes of the secret are written so.
fn key(secret: &str) -> String {
    let bytes = secret.strip_prefix("pdk_").and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    match bytes {
        Some(bytes) => format!("e2b_{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        None => render::escape::line(secret),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_are_ready_for_a_shell() {
        let secret = format!("pdk_{}", URL_SAFE_NO_PAD.encode([0xab; 32]));
        let digits = "ab".repeat(32);
        assert_eq!(
            variables(&secret, "http://localhost:8080"),
            format!(
                "export E2B_API_KEY=e2b_{digits}\nexport E2B_API_URL=http://localhost:8080\n\
                 export E2B_SANDBOX_URL=http://localhost:8080\nexport E2B_VOLUME_API_URL=http://localhost:8080\n"
            )
        );
        assert_eq!(key("other"), "other");
    }
}
