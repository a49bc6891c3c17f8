//! Typed calls, in the words of the API.

use crate::{Call, Client, ClientError, Target, random_key};
use hyper::Method;
use paddock_model::api::{
    Exec, FileEntry, Hibernate, Pause, Resume, Sandbox, SandboxPage, Snapshot, SnapshotPage, StartExec,
    Tenant, TerminalSize, Token,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// So many of a list are asked for at once.
const PAGE: &str = "200";

/// Which sandboxes are wanted; empty is all.
#[derive(Debug, Default)]
pub struct Filter {
    /// Empty: those that have not ended.
    pub states: Vec<&'static str>,
    pub name: Option<String>,
    pub template: Option<String>,
    pub metadata: Vec<(String, String)>,
    pub created_after_ms: Option<u64>,
}

#[derive(Deserialize)]
struct Execs {
    execs: Vec<Exec>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Listed<T> {
    Tokens { tokens: Vec<T> },
    Tenants { tenants: Vec<T> },
    Plain(Vec<T>),
}

impl<T> Listed<T> {
    fn items(self) -> Vec<T> {
        match self {
            Listed::Tokens { tokens: items } | Listed::Tenants { tenants: items } | Listed::Plain(items) => {
                items
            }
        }
    }
}

impl Client {
    pub async fn sandbox(&self, id: &str) -> Result<Sandbox, ClientError> {
        self.json(Call::get(Target::sandbox(id))).await
    }

    /// All pages.
    pub async fn sandboxes(&self, filter: &Filter) -> Result<Vec<Sandbox>, ClientError> {
        let mut target = Target::new("/v1/sandboxes")
            .query("limit", PAGE)
            .query_if("name", filter.name.as_deref())
            .query_if("template", filter.template.as_deref());
        for state in &filter.states {
            target = target.query("state", state);
        }
        for (key, value) in &filter.metadata {
            target = target.query("metadata", &format!("{key}={value}"));
        }
        if let Some(after) = filter.created_after_ms {
            target = target.query("created_after_ms", &after.to_string());
        }
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page: SandboxPage =
                self.json(Call::get(target.clone().query_if("cursor", cursor.as_deref()))).await?;
            all.extend(page.sandboxes);
            match page.next_cursor {
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => return Ok(all),
            }
        }
    }

    /// All pages; of one name or one sandbox, where that is given.
    pub async fn snapshots(
        &self,
        name: Option<&str>,
        sandbox: Option<&str>,
    ) -> Result<Vec<Snapshot>, ClientError> {
        let target = Target::new("/v1/snapshots").query("limit", PAGE);
        let target = target.query_if("name", name).query_if("sandbox", sandbox);
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page: SnapshotPage =
                self.json(Call::get(target.clone().query_if("cursor", cursor.as_deref()))).await?;
            all.extend(page.snapshots);
            match page.next_cursor {
                Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                _ => return Ok(all),
            }
        }
    }

    pub async fn pause(&self, id: &str, request: &Pause) -> Result<Sandbox, ClientError> {
        self.change_state(id, "pause", request).await
    }

    pub async fn resume(&self, id: &str, request: &Resume) -> Result<Sandbox, ClientError> {
        self.change_state(id, "resume", request).await
    }

    pub async fn hibernate(&self, id: &str, request: &Hibernate) -> Result<Sandbox, ClientError> {
        self.change_state(id, "hibernate", request).await
    }

    pub async fn wake(&self, id: &str, request: &Resume) -> Result<Sandbox, ClientError> {
        self.change_state(id, "wake", request).await
    }

    async fn change_state(
        &self,
        id: &str,
        verb: &'static str,
        request: &impl Serialize,
    ) -> Result<Sandbox, ClientError> {
        self.json(Call::new(Method::POST, Target::sandbox(id).part(verb)).json(request)?).await
    }

    pub async fn kill(&self, id: &str) -> Result<Sandbox, ClientError> {
        self.end(id, false).await
    }

    /// `failed`: the work in it failed, which decides about its volumes.
    pub async fn end(&self, id: &str, failed: bool) -> Result<Sandbox, ClientError> {
        let target = Target::sandbox(id).query_if("failed", failed.then_some("true"));
        self.json(Call::new(Method::DELETE, target)).await
    }

    /// A POST that is sent again when the connection is lost: its key makes both one.
    pub async fn post_once<T: DeserializeOwned>(
        &self,
        target: Target,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let key = random_key();
        let call = |target: Target| Call::new(Method::POST, target).idempotent(&key).json(body);
        match self.json(call(target.clone())?).await {
            Err(error) if error.is_passing() => {
                self.revive().await?;
                self.json(call(target)?).await
            }
            other => other,
        }
    }

    pub async fn start_exec(&self, id: &str, request: &StartExec) -> Result<Exec, ClientError> {
        self.post_once(Target::sandbox(id).part("execs"), request).await
    }

    pub async fn execs(&self, id: &str) -> Result<Vec<Exec>, ClientError> {
        let answer: Execs = self.json(Call::get(Target::sandbox(id).part("execs"))).await?;
        Ok(answer.execs)
    }

    pub async fn exec(&self, id: &str, exec: u32) -> Result<Exec, ClientError> {
        self.json(Call::get(Target::exec(id, exec))).await
    }

    pub async fn kill_exec(&self, id: &str, exec: u32) -> Result<(), ClientError> {
        self.done(Call::new(Method::DELETE, Target::exec(id, exec))).await
    }

    pub async fn signal_exec(&self, id: &str, exec: u32, signal: i32) -> Result<(), ClientError> {
        let body = paddock_model::api::SignalExec { signal: signal.to_string() };
        self.done(Call::new(Method::POST, Target::exec(id, exec).part("signal")).json(&body)?).await
    }

    pub async fn resize_exec(&self, id: &str, exec: u32, size: TerminalSize) -> Result<(), ClientError> {
        self.done(Call::new(Method::POST, Target::exec(id, exec).part("resize")).json(&size)?).await
    }

    /// `None` where there is nothing at this path.
    pub async fn stat(
        &self,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<Option<FileEntry>, ClientError> {
        let target =
            Target::sandbox(id).part("files").part("stat").query("path", path).query_if("user", user);
        match self.json(Call::get(target)).await {
            Ok(entry) => Ok(Some(entry)),
            Err(error) if error.code() == Some("file_not_found") => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn tokens(&self) -> Result<Vec<Token>, ClientError> {
        Ok(self.json::<Listed<Token>>(Call::get(Target::new("/v1/tokens"))).await?.items())
    }

    pub async fn tenants(&self) -> Result<Vec<Tenant>, ClientError> {
        Ok(self.json::<Listed<Tenant>>(Call::get(Target::new("/v1/tenants"))).await?.items())
    }
}
