//! `paddock tools` and `paddock mcp`: the tools that a model may call, and a client that calls them.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers};
use serde_json::{Value, json};

for_both_callers!(
    definitions_come_in_every_shape,
    descriptions_say_what_the_policy_allows,
    descriptions_say_what_a_sandbox_allows,
    what_is_not_there_is_named,
    a_client_gets_a_sandbox_and_leaves_none,
);

fn tools(caller: &Caller, arguments: &[&str]) -> Result<Value> {
    caller.paddock(["tools"])?.arguments(arguments).finish()?.json()
}

fn description(tools: &Value) -> String {
    tools[0]["description"].as_str().unwrap_or_default().to_string()
}

fn definitions_come_in_every_shape(caller: &Caller) -> Result<()> {
    for (format, name, schema) in [
        ("anthropic", "/0/name", "/0/input_schema/type"),
        ("openai", "/0/function/name", "/0/function/parameters/type"),
        ("openai-responses", "/0/name", "/0/parameters/type"),
        ("mcp", "/0/name", "/0/inputSchema/type"),
        ("json-schema", "/0/name", "/0/parameters/type"),
    ] {
        let printed = tools(caller, &["--format", format])?;
        assert_eq!(printed.pointer(name), Some(&json!("run_code")), "{format}");
        assert_eq!(printed.pointer(schema), Some(&json!("object")), "{format}");
        assert_eq!(printed.as_array().map(Vec::len), Some(7), "{format}");
    }
    let some = tools(caller, &["--only", "read_file", "--only", "run_shell"])?;
    assert_eq!((&some[0]["name"], &some[1]["name"]), (&json!("run_shell"), &json!("read_file")));
    Ok(())
}

fn descriptions_say_what_the_policy_allows(caller: &Caller) -> Result<()> {
    let plain = description(&tools(caller, &[])?);
    ensure!(plain.contains("There is no network") && plain.contains("2 GiB of memory"), "{plain}");
    let file =
        caller.file("agent.toml", "net = { allow = ['example.org'] }\nlimits = { memory = '64MiB' }\n")?;
    let told = description(&tools(caller, &["--policy", &file.display().to_string(), "--cpus", "1.5"])?);
    ensure!(told.contains("Only these hosts can be reached: example.org;"), "{told}");
    ensure!(told.contains("64 MiB of memory, 1.5 processors"), "{told}");
    Ok(())
}

fn descriptions_say_what_a_sandbox_allows(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    server.create(&["--name", "box", "--memory", "96MiB", "--disk", "32MiB"])?;
    let told = description(&server.run(["tools", "--sandbox", "box"])?.json()?);
    ensure!(told.contains("96 MiB of memory, 2 processors, 32 MiB of disk"), "{told}");
    let absent = server.run(["tools", "--sandbox", "absent"])?;
    ensure!(absent.exited(1)?.err().contains("there is no sandbox `absent`"), "{}", absent.err());
    Ok(())
}

fn what_is_not_there_is_named(caller: &Caller) -> Result<()> {
    let refused = |arguments: &[&str], code: i32, said: &str| -> Result<()> {
        let finished = caller.paddock(["tools"])?.arguments(arguments).finish()?;
        ensure!(finished.exited(code)?.err().contains(said), "{}", finished.err());
        Ok(())
    };
    refused(&["--only", "fly"], 1, "there is no tool 'fly'; the tools are run_code")?;
    refused(&["--format", "xml"], 2, "invalid value 'xml'")?;
    refused(&["--template", "absent"], 1, "absent")?;
    refused(&["--memory", "much"], 1, "much")
}

fn a_client_gets_a_sandbox_and_leaves_none(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let mut client = server.paddock(["mcp", "--memory", "128MiB"])?.start()?;
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "e2e", "version": "0"}});
    let call = json!({"name": "run_code", "arguments": {"code": "print('from', 6 * 7)"}});
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ] {
        client.write(format!("{message}\n").as_bytes())?;
    }
    client.wait_for("from 42")?;
    assert_eq!(server.run(["ps", "-q"])?.success()?.lines().count(), 1);
    client.close_input();
    client.finish()?.success()?;
    assert_eq!(server.run(["ps", "-q"])?.success()?, "");
    Ok(())
}
