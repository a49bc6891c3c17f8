//! A real `paddock serve` or `paddock gateway` of one caller, with its socket in the caller's own place.

use crate::http::{self, Answer};
use crate::wait::{PATIENCE, until};
use crate::{Caller, Finished, Invocation, Running};
use anyhow::{Context, Result};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Ends all sandboxes and itself when it is dropped.
pub struct Server<'a> {
    caller: &'a Caller,
    /// `serve`, or `gateway`.
    command: &'static str,
    socket: PathBuf,
    options: Vec<String>,
    environment: Vec<(&'static str, &'static str)>,
    running: Option<Running>,
}

impl<'a> Server<'a> {
    pub fn start(caller: &'a Caller) -> Result<Server<'a>> {
        Server::start_with(caller, &[])
    }

    /// With more options of `paddock serve`.
    pub fn start_with(caller: &'a Caller, options: &[&str]) -> Result<Server<'a>> {
        Server::begun(caller, "serve", options, &[])
    }

    /// `paddock gateway`, which is a server too.
    pub fn start_gateway(caller: &'a Caller, options: &[&str]) -> Result<Server<'a>> {
        Server::begun(caller, "gateway", options, &[])
    }

    /// The user that started it.
    pub fn caller(&self) -> &'a Caller {
        self.caller
    }

    /// With more in its environment.
    pub fn start_in(caller: &'a Caller, environment: &[(&'static str, &'static str)]) -> Result<Server<'a>> {
        Server::begun(caller, "serve", &[], environment)
    }

    fn begun(
        caller: &'a Caller,
        command: &'static str,
        options: &[&str],
        environment: &[(&'static str, &'static str)],
    ) -> Result<Server<'a>> {
        let socket = caller.directory("run")?.join("api.sock");
        let options = options.iter().map(ToString::to_string).collect();
        let mut server =
            Server { caller, command, socket, options, environment: environment.to_vec(), running: None };
        server.start_again()?;
        Ok(server)
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Its process.
    pub fn process(&self) -> Result<u32> {
        Ok(self.running.as_ref().context("no server runs")?.id())
    }

    /// Its log so far.
    pub fn said(&self) -> String {
        self.running.as_ref().map(Running::said).unwrap_or_default()
    }

    /// All of its stderr so far.
    pub fn errors(&self) -> String {
        self.running.as_ref().map(Running::errors).unwrap_or_default()
    }

    /// A request over the owner's socket, with a JSON body where there is one.
    pub fn ask(&self, method: &str, target: &str, body: Option<&Value>) -> Result<Answer> {
        let text = body.map(Value::to_string).unwrap_or_default();
        let headers = if body.is_some() { "Content-Type: application/json\r\n" } else { "" };
        http::over_socket(&self.socket, method, target, headers, text.as_bytes())
    }

    /// Bytes as they are.
    pub fn send(&self, method: &str, target: &str, headers: &str, body: &[u8]) -> Result<Answer> {
        http::over_socket(&self.socket, method, target, headers, body)
    }

    /// A start that must fail: its output.
    pub fn fails_to_start(&self) -> Result<Finished> {
        let socket = self.socket.display().to_string();
        self.caller.paddock([self.command, "--socket", &socket])?.arguments(&self.options).finish()
    }

    /// After [`Server::kill`].
    pub fn start_again(&mut self) -> Result<()> {
        let socket = self.socket.display().to_string();
        let serve = self.caller.paddock([self.command, "--socket", &socket])?.arguments(&self.options);
        let with = self.environment.iter();
        let serve = with.fold(serve, |command, (name, value)| command.environment(name, value));
        let mut running = serve.start()?;
        until(PATIENCE, "a server that listens", || {
            let listens = UnixStream::connect(&self.socket).is_ok();
            (listens || running.has_ended()).then_some(listens)
        })?
        .then_some(())
        .with_context(|| format!("the server ended: {}", running.said()))?;
        self.running = Some(running);
        // It listens before it has taken over its sandboxes, and answers after that.
        self.ask("GET", "/healthz", None).map(drop)
    }

    /// The same with other options.
    pub fn start_again_with(&mut self, options: &[&str]) -> Result<()> {
        self.options = options.iter().map(ToString::to_string).collect();
        self.start_again()
    }

    /// The same with nothing more in its environment.
    pub fn start_again_plainly(&mut self) -> Result<()> {
        self.environment.clear();
        self.start_again()
    }

    /// Where it listens besides its socket, with `--listen`.
    pub fn url(&self) -> Result<String> {
        let running = self.running.as_ref().context("no server runs")?;
        until(PATIENCE, "an address", || {
            let said = running.said();
            let begin = said.find("http://127.0.0.1:")?;
            let address = &said[begin..];
            // Only a whole line holds the whole port.
            Some(address[..address.find("\\n")?].to_string())
        })
    }

    /// As a crash would: no warning.
    pub fn kill(&mut self) -> Result<()> {
        let running = self.running.take().context("no server runs")?;
        running.signal(Signal::KILL)?;
        running.finish().map(drop)
    }

    /// Its process stops where it is, and keeps its connections. [`Server::goes_on`] ends that.
    pub fn stands_still(&self) -> Result<()> {
        self.running.as_ref().context("no server runs")?.signal(Signal::STOP)
    }

    pub fn goes_on(&self) -> Result<()> {
        self.running.as_ref().context("no server runs")?.signal(Signal::CONT)
    }

    /// As its owner would: it ends in order, and its sandboxes go on.
    pub fn stop(&mut self) -> Result<()> {
        let running = self.running.take().context("no server runs")?;
        running.signal(Signal::TERM)?;
        running.finish().map(drop)
    }

    /// For a server that was ended from outside.
    pub fn has_stopped(&mut self) -> Result<()> {
        self.running.take().context("no server runs")?.finish().map(drop)
    }

    /// A command that talks to this server.
    pub fn paddock<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Invocation> {
        let url = format!("unix:{}", self.socket.display());
        Ok(self.caller.paddock(arguments)?.environment("PADDOCK_URL", &url))
    }

    /// To its end.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Finished> {
        self.paddock(arguments)?.finish()
    }

    /// `paddock create`, and the new sandbox's id.
    pub fn create(&self, options: &[&str]) -> Result<String> {
        Ok(self.run(["create"].iter().chain(options))?.success()?.trim().to_string())
    }

    /// `paddock exec ID -- sh -c SCRIPT`, to its end.
    pub fn script(&self, id: &str, script: &str) -> Result<Finished> {
        self.run(["exec", id, "--", "sh", "-c", script])
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // A test may have failed while it stood still.
        let _ = self.goes_on();
        // A test that failed after it had killed the server leaves sandboxes that only a server ends.
        if self.running.is_some() || self.start_again().is_ok() {
            let _ = self.run(["kill", "--all"]);
        }
        if let Some(running) = self.running.take() {
            let _ = running.signal(Signal::TERM);
            let _ = running.finish();
        }
    }
}
