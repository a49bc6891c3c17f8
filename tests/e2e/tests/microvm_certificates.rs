//! The host's certificates in sandboxes with a kernel of their own: also in one that goes on from the memory of a sandbox that had
//! none of them.

use crate::certificates::inspected;
use crate::microvm::{SIZE, boot, busybox_image, with_machines};
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Server, skip};

#[test]
fn certificates_come_with_memory_and_without() -> Result<()> {
    with_machines("microvm_certificates::certificates_come_with_memory_and_without", |caller| {
        let Some(image) = busybox_image(caller)? else { return Ok(()) };
        let (_outside, authority) = inspected(caller)?;
        let certificate = std::fs::read_to_string(&authority)?;
        let line = certificate.lines().nth(1).context("a certificate")?;
        boot(caller)?;
        let server = Server::start_in(caller, &[("NODE_EXTRA_CA_CERTS", authority.leak())])?;
        let create = |more: &[&str]| {
            let options: Vec<&str> = SIZE.iter().chain(&["--image", &image]).chain(more).copied().collect();
            server.create(&options)
        };
        let look = format!("test -n \"$SSL_CERT_FILE\" && grep -c -F '{line}' \"$SSL_CERT_FILE\"");
        let trusts = |id: &str| -> Result<()> {
            assert_eq!(server.script(id, &look)?.success()?, "1\n", "{id}");
            Ok(())
        };
        let plain = create(&[])?;
        ensure!(server.script(&plain, &look)?.code != 0, "it trusts what nobody told it to");
        let certified = create(&["--host-certs"])?;
        trusts(&certified)?;
        server.script(&certified, "rm -f $SSL_CERT_FILE")?.success()?;
        server.run(["hibernate", &certified])?.success()?;
        trusts(&certified)?;
        trusts(server.run(["fork", &certified])?.success()?.trim())?;
        let snapshot = server.run(["snapshot", "create", &plain])?.success()?.trim().to_string();
        let kept = server.run(["inspect", &plain])?.json()?["guarantees"]["snapshot"].clone();
        if kept != "memory" {
            skip("microvm_certificates", "disks of this machine are in memory");
        }
        trusts(&create(&["--snapshot", &snapshot, "--host-certs"])?)
    })
}
