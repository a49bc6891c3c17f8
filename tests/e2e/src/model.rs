//! A language model of the tests' own: `models/server.py`, which says the words of a script.

use crate::Caller;
use anyhow::{Context, Result};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub struct Model {
    pub port: u16,
    log: PathBuf,
    server: Child,
}

impl Model {
    /// One entry of `script` for each request; the last one repeats.
    pub fn start(caller: &Caller, name: &str, script: &Value) -> Result<Model> {
        let (file, log) = (
            caller.file(&format!("{name}.json"), script.to_string())?,
            caller.file(&format!("{name}.log"), "")?,
        );
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/server.py");
        let mut server =
            Command::new("python3").arg(program).arg(file).arg(&log).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(server.stdout.take().context("its output")?).read_line(&mut line)?;
        let port = line.trim().parse().with_context(|| format!("the model does not start: {line}"))?;
        Ok(Model { port, log, server })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Everything that it was asked.
    pub fn asked(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(&self.log)?;
        text.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
