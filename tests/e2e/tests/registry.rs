//! `--image HOST:PORT/NAME:TAG`, from a registry on loopback.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Finished, Registry, Server, for_both_callers, images, skip};
use serde_json::{Value, json};

for_both_callers!(
    an_image_is_pulled_once,
    what_the_registry_lacks_is_named,
    no_registry_at_all,
    tenants_reach_no_registry_of_this_machine,
    tenants_reach_the_registries_that_are_named,
    a_model_names_no_registry_of_this_machine,
);

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

/// A create by a caller that is not the owner.
fn create(server: &Server, image: &str) -> Result<Finished> {
    let secret = server.run(["token", "create", "--tenant", "team", "--role", "admin"])?.success()?;
    let asked = server.paddock(["create", "--image", image])?;
    asked.environment("PADDOCK_URL", &server.url()?).environment("PADDOCK_TOKEN", secret.trim()).finish()
}

fn tenants_reach_no_registry_of_this_machine(caller: &Caller) -> Result<()> {
    let empty = images::Blobs { manifest: b"{}".to_vec(), config: Vec::new(), layer: b"x".to_vec() };
    let registry = Registry::start(empty)?;
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let port = registry.address.rsplit(':').next().unwrap_or_default();
    for name in
        [registry.address.clone(), format!("localhost:{port}"), format!("[::1]:{port}"), "10.0.0.1".into()]
    {
        let finished = create(&server, &format!("{name}/e2e/busybox:1"))?;
        let words = format!("the registry {name} is not for tenants of this server");
        ensure!(finished.exited(1)?.err().contains(&words), "{}", finished.err());
        ensure!(finished.err().contains("--registries"), "{}", finished.err());
    }
    assert_eq!(registry.asked(), Vec::<String>::new(), "nobody was asked");
    // The owner goes where the owner wants.
    server.run(["create", "--image", &format!("{}/e2e/busybox:1", registry.address)])?.exited(1)?;
    ensure!(!registry.asked().is_empty(), "the owner's registry was not asked");
    Ok(())
}

fn tenants_reach_the_registries_that_are_named(caller: &Caller) -> Result<()> {
    let busybox = match images::busybox() {
        Ok(busybox) => busybox,
        Err(reason) => {
            skip("registry", &reason);
            return Ok(());
        }
    };
    let registry = Registry::start(images::blobs(&busybox)?)?;
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0", "--registries", &registry.address])?;
    create(&server, &format!("{}/e2e/busybox:1", registry.address))?.success()?;
    let finished = create(&server, "registry.example/x:1")?;
    let words = "it is not one of those that the server names";
    ensure!(finished.exited(1)?.err().contains(words), "{}", finished.err());
    Ok(())
}

/// By the tools of Loopstack, over HTTP and by MCP, and wherever a caller passes on a stranger's choice.
fn a_model_names_no_registry_of_this_machine(caller: &Caller) -> Result<()> {
    let empty = images::Blobs { manifest: b"{}".to_vec(), config: Vec::new(), layer: b"x".to_vec() };
    let registry = Registry::start(empty)?;
    let image = format!("{}/e2e/busybox:1", registry.address);
    let server = Server::start(caller)?;
    let chosen = json!({ "image": image, "public_image": true });
    let refused = server.ask("POST", "/v1/sandboxes", Some(&chosen))?;
    ensure!(refused.status == 403 && refused.text().contains("registry_refused"), "{}", refused.text());
    let call = json!({ "containerId": "c", "containerName": "c", "imageName": image, "projectOutPath": "" });
    let refused = server.ask("POST", "/loopstack/tools/sandbox_init", Some(&call))?;
    ensure!(refused.status == 422 && refused.text().contains("--registries"), "{}", refused.text());
    let told = by_mcp(&server, &[], &call)?;
    ensure!(told.contains(&format!("--allow-net {}", registry.address)), "{told}");
    assert_eq!(registry.asked(), Vec::<String>::new(), "nobody was asked");
    // The controls: the person vouches for it, and it is asked. It has no such image.
    let flag = format!("--allow-net={}", registry.address);
    by_mcp(&server, &[&flag], &call)?;
    ensure!(!registry.asked().is_empty(), "it was not asked");
    Ok(())
}

/// The answer to a client of `paddock mcp` that calls `sandbox_init`.
fn by_mcp(server: &Server, flags: &[&str], arguments: &Value) -> Result<String> {
    let words = ["mcp", "--dialect", "loopstack"];
    let mut client = server.paddock(words.iter().chain(flags))?.start()?;
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "e2e", "version": "0"}});
    let call = json!({"name": "sandbox_init", "arguments": arguments});
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ] {
        client.write(format!("{message}\n").as_bytes())?;
    }
    client.wait_for("\"id\":2")?;
    client.close_input();
    client.finish()?.success()
}
