//! A real `paddock serve` of one engine, and a sandbox of one backend in it.

use super::http::{self, Answer};
use crate::fence::{Engine, as_caller};
use crate::host::Host;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The template that the server has, for pools.
pub const TEMPLATE: &str = "verify-pool";

/// Ends all sandboxes and the server when it is dropped.
pub struct Place {
    pub backend: String,
    /// A sandbox that the checks share.
    pub id: String,
    socket: PathBuf,
    server: Child,
}

impl Place {
    pub fn start(host: &Host, backend: &str, engine: Engine) -> Result<Place> {
        let home = host.home(&format!("server-{backend}-{engine}"), engine)?;
        let state = home.join("of-the-server");
        let socket = home.join("api.sock");
        let paddock = |words: &[&str]| {
            let mut command = Command::new(host.executable());
            as_caller(&mut command, engine, host.as_root, &home);
            command.env("PADDOCK_STATE_DIR", &state).args(words);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let added = paddock(&["template", "add", TEMPLATE, "--backend", backend]).status()?;
        ensure!(added.success(), "the template was not added");
        let named = socket.display().to_string();
        let server = paddock(&["serve", "--socket", &named]).spawn().context("the server did not start")?;
        let mut place = Place { backend: backend.to_string(), id: String::new(), socket, server };
        place.until("the server listens", |place| Ok(UnixStream::connect(&place.socket).is_ok()))?;
        place.id = place.create(json!({"name": "verify", "metadata": {"of": "verify"}}))?;
        host.remember(&place.id);
        Ok(place)
    }

    pub fn ask(&self, method: &str, target: &str, body: Option<Value>) -> Result<Answer> {
        let text = body.as_ref().map(Value::to_string).unwrap_or_default();
        let kind = if body.is_some() { "application/json" } else { "" };
        http::receive(http::send(&self.socket, method, target, kind, text.as_bytes())?)
    }

    pub fn get(&self, target: &str) -> Result<Value> {
        self.ask("GET", target, None)?.expect(200)?.json()
    }

    pub fn post(&self, target: &str, status: u16, body: Value) -> Result<Value> {
        let answer = self.ask("POST", target, Some(body))?.expect(status)?;
        if answer.body.is_empty() { Ok(Value::Null) } else { answer.json() }
    }

    /// A call without a body.
    pub fn call(&self, method: &str, target: &str, status: u16) -> Result<Answer> {
        self.ask(method, target, None)?.expect(status)
    }

    pub fn send(&self, method: &str, target: &str, body: &[u8]) -> Result<Answer> {
        http::receive(http::send(&self.socket, method, target, "application/octet-stream", body)?)
    }

    /// An answer that goes on for as long as one likes.
    pub fn stream(&self, target: &str) -> Result<UnixStream> {
        http::send(&self.socket, "GET", target, "", b"")
    }

    /// The path of something of the shared sandbox.
    pub fn of(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}{rest}", self.id)
    }

    /// A new sandbox of this backend; its id.
    pub fn create(&self, mut request: Value) -> Result<String> {
        request["backend"] = json!(self.backend);
        request["ttl_seconds"] = json!(900);
        let made = self.post("/v1/sandboxes", 201, request)?;
        ensure!(made["guarantees"]["backend"] == json!(self.backend), "another backend: {made}");
        text(&made["id"])
    }

    /// The output of a command in a sandbox; it has to end with 0.
    pub fn run(&self, id: &str, script: &str) -> Result<String> {
        let request = json!({"argv": ["sh", "-c", script]});
        let done = self.post(&format!("/v1/sandboxes/{id}/execs"), 200, request)?;
        ensure!(done["exit_code"] == 0, "`{script}`: {done}");
        text(&done["stdout"])
    }

    pub fn until(&self, what: &str, mut holds: impl FnMut(&Place) -> Result<bool>) -> Result<()> {
        let end = Instant::now() + http::ANSWER_TIMEOUT;
        while !holds(self)? {
            crate::interrupt::check()?;
            ensure!(Instant::now() < end, "waited too long until {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

pub fn text(value: &Value) -> Result<String> {
    value.as_str().map(str::to_string).with_context(|| format!("no text: {value}"))
}

impl Drop for Place {
    fn drop(&mut self) {
        // The time to live ends the remaining sandboxes at the latest.
        if let Ok(page) = self.get("/v1/sandboxes?limit=1000") {
            for sandbox in page["sandboxes"].as_array().into_iter().flatten() {
                let _ = text(&sandbox["id"])
                    .and_then(|id| self.call("DELETE", &format!("/v1/sandboxes/{id}"), 200));
            }
        }
        // SAFETY: takes no memory; the server is our own child, not collected yet.
        unsafe { libc::kill(self.server.id() as i32, libc::SIGTERM) };
        let _ = self.server.wait();
        // Records of ended sandboxes stay for a day by design; here they go with the rest.
        if let Some(home) = self.socket.parent() {
            let _ = std::fs::remove_dir_all(home);
        }
    }
}
