//! A server that cannot be talked to: each error is told by its cause, with its remedy.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Outside, for_both_callers};
use std::os::unix::fs::PermissionsExt;

for_both_callers!(what_is_wrong_with_the_way_to_a_server, a_socket_of_somebody_else);

fn said(caller: &Caller, url: &str, certificates: Option<&str>, words: &[&str]) -> Result<()> {
    let mut command = caller.paddock(["ps"])?.environment("PADDOCK_URL", url);
    if let Some(file) = certificates {
        command = command.environment("SSL_CERT_FILE", file);
    }
    let finished = command.finish()?;
    let text = finished.exited(1)?.err();
    ensure!(!text.contains("no server answers") && text.contains("hint: "), "{url}: {text}");
    ensure!(words.iter().all(|words| text.contains(words)), "{url}: {words:?} in {text}");
    Ok(())
}

fn what_is_wrong_with_the_way_to_a_server(caller: &Caller) -> Result<()> {
    let outside = Outside::start(caller)?;
    let (tls, clear) = (outside.tls, outside.clear);
    let file = caller.file("network.pem", &outside.certificate)?.display().to_string();
    // It is known by its name, and only by its own authority.
    let localhost = format!("https://localhost:{tls}");
    said(caller, &localhost, None, &["an authority that this host does not trust", "SSL_CERT_FILE"])?;
    said(caller, &localhost, Some(&file), &["not a Paddock server"])?;
    let other = format!("https://127.0.0.1:{tls}");
    said(caller, &other, Some(&file), &["the certificate of", "is for another name", "PADDOCK_URL"])?;
    // TLS and none.
    let words = ["does not speak TLS", "write http://"];
    said(caller, &format!("https://localhost:{clear}"), Some(&file), &words)?;
    said(caller, &format!("http://localhost:{tls}"), None, &["write https://"])?;
    // No way there at all.
    said(caller, "http://no-such-host.invalid:80", None, &["the name `no-such-host.invalid`", "not known"])?;
    said(caller, "http://127.0.0.1:1", None, &["no server listens at", "refused", "paddock serve"])?;
    let nowhere = caller.file("certificates", "none")?.display().to_string();
    said(caller, &localhost, Some(&nowhere), &["has no certificates", "SSL_CERT_FILE"])?;
    // A server listens and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0")?;
    let silent = format!("https://{}", silent.local_addr()?);
    said(caller, &silent, Some(&file), &["did not answer within 15 seconds", "firewall"])
}

fn a_socket_of_somebody_else(caller: &Caller) -> Result<()> {
    let place = tempfile::tempdir()?;
    std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755))?;
    let socket = place.path().join("api.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600))?;
    if caller.is_root {
        // Root has every permission; a missing socket of another user is told.
        let missing = format!("unix:{}/other.sock", place.path().display());
        return said(caller, &missing, None, &["no server listens at", "No such file"]);
    }
    let url = format!("unix:{}", socket.display());
    said(caller, &url, None, &["this user may not use the socket", "Permission denied", "token"])
}
