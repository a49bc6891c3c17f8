//! `run_code` through `paddock mcp`, and the same by HTTP.

use crate::measure::Timing;
use crate::server::calls::timed;
use crate::server::part::Findings;
use crate::server::process::Server;
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 500;
const WARM_UP: usize = 20;
const CODE: &str = "print(1)";

pub async fn measure(server: &Server) -> Result<Findings> {
    let mut caller = server.caller().await?;
    let sandbox = caller.create().await?;
    let mut session = Session::start(server)?;
    let (mut by_mcp, mut by_http) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let started = Instant::now();
        session.run_code()?;
        let mcp = started.elapsed();
        let (http, _) = timed(caller.run_code(&sandbox, CODE, "1\n")).await?;
        if round >= WARM_UP {
            by_mcp.push(mcp);
            by_http.push(http);
        }
    }
    session.end()?;
    Ok(Findings {
        timings: vec![
            Timing::new("MCP over stdio", String::new(), by_mcp),
            Timing::new("HTTP, unix socket", String::new(), by_http),
        ],
        ..Findings::default()
    })
}

/// One client of `paddock mcp`.
struct Session {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    number: u64,
}

impl Session {
    fn start(server: &Server) -> Result<Session> {
        let mut process = Command::new(&server.paddock.program)
            .arg("mcp")
            .env("PADDOCK_URL", server.url())
            .env("PADDOCK_STATE_DIR", &server.paddock.state)
            .env_remove("PADDOCK_TOKEN")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("paddock mcp")?;
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().context("no output of paddock mcp")?);
        let mut session = Session { process, input, output, number: 0 };
        let client = json!({"name": "bench", "version": "0"});
        session.ask(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}),
        )?;
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(session)
    }

    fn run_code(&mut self) -> Result<()> {
        let answer = self.ask("tools/call", json!({"name": "run_code", "arguments": {"code": CODE}}))?;
        match answer["result"]["content"][0]["text"].as_str() {
            Some("1") => Ok(()),
            _ => bail!("run_code over MCP gave {answer}"),
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        self.number += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                bail!("paddock mcp ended");
            }
            let answer: Value = serde_json::from_str(&line)?;
            if answer["id"] == self.number {
                return Ok(answer);
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let input = self.input.as_mut().context("the input is closed")?;
        input.write_all(format!("{message}\n").as_bytes())?;
        Ok(input.flush()?)
    }

    fn end(mut self) -> Result<()> {
        drop(self.input.take());
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { bail!("paddock mcp: {status}") }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // No effect on a process that has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
