//! The calls that are measured, on one connection.

use super::client::Client;
use anyhow::{Context, Result, bail};
use hyper::Method;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Should the bench be killed, its sandboxes end by themselves after this time.
const TIME_TO_LIVE: u64 = 900;

pub struct Caller {
    pub client: Client,
}

impl Caller {
    pub fn new(client: Client) -> Caller {
        Caller { client }
    }

    pub async fn is_ready(&mut self) -> bool {
        self.client.call(Method::GET, "/readyz", "").await.is_ok()
    }

    /// Returns the id.
    pub async fn create(&mut self) -> Result<String> {
        let body = json!({ "ttl_seconds": TIME_TO_LIVE });
        text(&self.post("/v1/sandboxes", &body).await?, "id")
    }

    /// Creates from a template, of which a pool may have some ready.
    pub async fn create_from(&mut self, template: &str) -> Result<String> {
        let body = json!({ "template": template, "ttl_seconds": TIME_TO_LIVE });
        text(&self.post("/v1/sandboxes", &body).await?, "id")
    }

    /// Python in the default context. A wrong answer is an error: other code must not be measured.
    pub async fn run_code(&mut self, sandbox: &str, code: &str, printed: &str) -> Result<Value> {
        let answer = self.post(&format!("/v1/sandboxes/{sandbox}/code"), &json!({ "code": code })).await?;
        if answer["exit_code"] != 0 || answer["stdout"] != printed {
            bail!("run_code({code:?}) gave {}, printed {}", answer["error"], answer["stdout"]);
        }
        Ok(answer)
    }

    /// Waits for the end; anything but success is an error.
    pub async fn exec(&mut self, sandbox: &str, command: &[&str]) -> Result<()> {
        let path = format!("/v1/sandboxes/{sandbox}/execs");
        let exec = self.post(&path, &json!({ "argv": command })).await?;
        if exec["exit_code"] != 0 {
            bail!("{command:?} ended with {}: {}", exec["exit_code"], exec["stderr"]);
        }
        Ok(())
    }

    pub async fn kill(&mut self, sandbox: &str) -> Result<()> {
        self.client.call(Method::DELETE, &format!("/v1/sandboxes/{sandbox}"), "").await?;
        Ok(())
    }

    pub async fn get(&mut self, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.client.call(Method::GET, path, "").await?)?)
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.client.call(Method::POST, path, serde_json::to_vec(body)?).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    /// A token that sees the whole server, as the dashboard of its owner has it.
    pub async fn admin_token(&mut self) -> Result<String> {
        text(&self.post("/v1/tokens", &json!({ "role": "admin" })).await?, "secret")
    }

    /// A token of the owner's tenant, as an SDK on the same host has it.
    pub async fn token(&mut self) -> Result<String> {
        text(&self.post("/v1/tokens", &json!({ "role": "user" })).await?, "secret")
    }

    /// The sandboxes that have not ended.
    pub async fn live(&mut self) -> Result<Vec<String>> {
        self.list("").await
    }

    /// A server keeps their records for a day.
    pub async fn ended(&mut self) -> Result<Vec<String>> {
        self.list("&state=ended").await
    }

    /// The ids, page by page.
    async fn list(&mut self, filter: &str) -> Result<Vec<String>> {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/v1/sandboxes?limit=1000{filter}{cursor}")).await?;
            for sandbox in page["sandboxes"].as_array().context("the list has no sandboxes")? {
                found.push(text(sandbox, "id")?);
            }
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(found),
            }
        }
    }
}

/// How long a call took, of which only success counts.
pub async fn timed<T>(call: impl Future<Output = Result<T>>) -> Result<(Duration, T)> {
    let started = Instant::now();
    let value = call.await?;
    Ok((started.elapsed(), value))
}

pub fn text(value: &Value, field: &str) -> Result<String> {
    let found = value[field].as_str().with_context(|| format!("the answer has no `{field}`"))?;
    Ok(found.to_owned())
}
