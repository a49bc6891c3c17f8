//! `--image HOST:PORT/NAME:TAG`, from a registry on loopback.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Registry, for_both_callers, images, skip};

for_both_callers!(an_image_is_pulled_once, what_the_registry_lacks_is_named, no_registry_at_all);

fn an_image_is_pulled_once(caller: &Caller) -> Result<()> {
    let busybox = match images::busybox() {
        Ok(busybox) => busybox,
        Err(reason) => {
            skip("registry", &reason);
            return Ok(());
        }
    };
    let registry = Registry::start(images::blobs(&busybox)?)?;
    let image = format!("{}/e2e/busybox:1", registry.address);
    let finished = caller.run(["--image", &image])?;
    assert_eq!(finished.success()?, "image command in /srv, FROM_IMAGE=yes\n");
    let blobs = |asked: Vec<String>| asked.iter().filter(|path| path.contains("/blobs/")).count();
    assert_eq!(blobs(registry.asked()), 2, "{:?}", registry.asked());
    let finished = caller.run(["--image", &image, "--", "cat", "/etc/greeting"])?;
    assert_eq!(finished.success()?, images::GREETING);
    assert_eq!(blobs(registry.asked()), 2, "asked again for what it had: {:?}", registry.asked());
    Ok(())
}

fn what_the_registry_lacks_is_named(caller: &Caller) -> Result<()> {
    let empty = images::Blobs { manifest: b"{}".to_vec(), config: Vec::new(), layer: b"x".to_vec() };
    let registry = Registry::start(empty)?;
    let image = format!("{}/e2e/absent:9", registry.address);
    caller.run(["--image", &image, "--", "true"])?.refused(&[&registry.address, "e2e/absent:9"])?;
    ensure!(!registry.asked().is_empty(), "the registry was never asked");
    let image = format!("{}/e2e/busybox:1", registry.address);
    caller.run(["--image", &image, "--", "true"])?.refused(&["manifest"])
}

fn no_registry_at_all(caller: &Caller) -> Result<()> {
    // Bound for a moment, so that it is free now.
    let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let image = format!("{address}/e2e/busybox:1");
    caller.run(["--image", &image, "--", "true"])?.refused(&[&address])
}
