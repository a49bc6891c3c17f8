//! Sandboxes of the server as a model's tools need them. Work is killed when its caller gives up.

use super::{Call, Client, ClientError, Target};
use paddock_client::Method;
use paddock_model::api::{
    CreateSandbox, CreateSnapshot, Exec, Extend, FileEntry, FilePage, Fork, Forked, Hibernate, MakeDirectory,
    NetworkView, RunCode, Sandbox, SandboxPage, Snapshot, StartExec,
};
use paddock_model::net::NetRules;
use paddock_tools::{FileOperations, Host, OperationError, Operations};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// How often a lost server is asked again for the end of the running work.
const ATTEMPTS: u32 = 20;
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_millis(500);

type Result<T> = std::result::Result<T, OperationError>;

/// Acts as the caller of this command.
#[derive(Clone)]
pub struct RemoteHost {
    pub client: Arc<Client>,
}

/// One sandbox of the server.
pub struct RemoteSandbox {
    client: Arc<Client>,
    id: String,
}

impl RemoteSandbox {
    pub fn new(client: Arc<Client>, id: &str) -> RemoteSandbox {
        RemoteSandbox { client, id: id.to_string() }
    }

    fn target(&self, part: &'static str) -> Target {
        Target::sandbox(&self.id).part(part)
    }

    /// Starts it and waits for its end. If the wait is given up, at any moment, the work is killed.
    async fn run(&self, starting: impl Future<Output = Result<Exec>> + Send + 'static) -> Result<Exec> {
        let (client, sandbox) = (self.client.clone(), self.id.clone());
        let started = tokio::spawn(async move {
            let started = starting.await?;
            let exec = Some(started.exec);
            Ok((started.exec, Guard { client, sandbox, exec }))
        });
        let (exec, mut guard) = started.await.unwrap_or_else(|error| Err(broken(&error)))?;
        let mut attempts = 0;
        // Also if it has ended already: only this answer has the output.
        loop {
            let target = Target::exec(&self.id, exec).part("wait");
            match self.client.json::<Exec>(Call::get(target)).await {
                Ok(exec) => {
                    guard.exec = None;
                    return Ok(exec);
                }
                Err(error) if error.is_passing() && attempts < ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(PAUSE_BETWEEN_ATTEMPTS).await;
                    self.client.revive().await.map_err(told)?;
                }
                Err(error) => return Err(told(error)),
            }
        }
    }

    async fn put(&self, path: &str, content: Vec<u8>, mode: Option<u32>, parents: bool) -> Result<FileEntry> {
        let mode = mode.map(|mode| format!("{mode:o}"));
        let target =
            self.target("files").part("content").query("path", path).query_if("mode", mode.as_deref());
        let target = if parents { target.query("parents", "true") } else { target };
        self.client.json(Call::new(Method::PUT, target).bytes(content.into())).await.map_err(told)
    }
}

/// When dropped, kills the work that still runs.
struct Guard {
    client: Arc<Client>,
    sandbox: String,
    exec: Option<u32>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (Some(exec), Ok(runtime)) = (self.exec, tokio::runtime::Handle::try_current()) else { return };
        let (client, sandbox) = (self.client.clone(), self.sandbox.clone());
        runtime.spawn(async move {
            let _ = client.kill_exec(&sandbox, exec).await;
        });
    }
}

impl Operations for RemoteSandbox {
    async fn run_code(&self, mut request: RunCode) -> Result<Exec> {
        request.background = true;
        let (client, target) = (self.client.clone(), self.target("code"));
        self.run(async move { client.post_once(target, &request).await.map_err(told) }).await
    }

    async fn run_command(&self, mut request: StartExec) -> Result<Exec> {
        request.background = true;
        let (client, id) = (self.client.clone(), self.id.clone());
        self.run(async move { client.start_exec(&id, &request).await.map_err(told) }).await
    }

    async fn stat(&self, path: &str) -> Result<FileEntry> {
        let target = self.target("files").part("stat").query("path", path);
        self.client.json(Call::get(target)).await.map_err(told)
    }

    async fn read_file(&self, path: &str, length: u64) -> Result<Vec<u8>> {
        let target = self.target("files").part("content").query("path", path);
        let target = target.query("length", &length.to_string());
        let answer = self.client.send(Call::get(target)).await.map_err(told)?;
        Ok(answer.whole().await.map_err(told)?.to_vec())
    }

    async fn write_file(&self, path: &str, content: Vec<u8>, mode: Option<u32>) -> Result<FileEntry> {
        self.put(path, content, mode, true).await
    }

    async fn list_files(
        &self,
        path: &str,
        recursive: bool,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<FilePage> {
        let target = self
            .target("files")
            .query("path", path)
            .query("recursive", if recursive { "true" } else { "false" })
            .query("limit", &limit.to_string())
            .query_if("cursor", cursor);
        self.client.json(Call::get(target)).await.map_err(told)
    }
}

impl FileOperations for RemoteSandbox {
    async fn make_directory(&self, path: &str, parents: bool) -> Result<()> {
        let body = MakeDirectory { path: path.into(), mode: None, parents };
        let call =
            Call::new(Method::POST, self.target("files").part("directory")).json(&body).map_err(told)?;
        self.client.done(call).await.map_err(told)
    }

    async fn remove_file(&self, path: &str, recursive: bool) -> Result<()> {
        let target = self.target("files").query("path", path);
        let target = if recursive { target.query("recursive", "true") } else { target };
        self.client.done(Call::new(Method::DELETE, target)).await.map_err(told)
    }

    async fn put_file(&self, path: &str, content: Vec<u8>) -> Result<()> {
        self.put(path, content, None, false).await.map(drop)
    }
}

impl Host for RemoteHost {
    type Sandbox = RemoteSandbox;

    fn sandbox(&self, id: &str) -> RemoteSandbox {
        RemoteSandbox::new(self.client.clone(), id)
    }

    async fn create(&self, request: CreateSandbox) -> Result<Sandbox> {
        self.client.post_once(Target::new("/v1/sandboxes"), &request).await.map_err(told)
    }

    async fn get(&self, id: &str) -> Result<Sandbox> {
        self.client.sandbox(id).await.map_err(told)
    }

    async fn find(&self, key: &str, value: &str) -> Result<Vec<Sandbox>> {
        let target = Target::new("/v1/sandboxes").query("metadata", &format!("{key}={value}"));
        let page: SandboxPage = self.client.json(Call::get(target)).await.map_err(told)?;
        Ok(page.sandboxes)
    }

    async fn kill(&self, id: &str) -> Result<()> {
        self.client.kill(id).await.map(drop).map_err(told)
    }

    async fn extend(&self, id: &str, seconds: f64) -> Result<()> {
        let body = Extend { ttl_seconds: seconds };
        let call = Call::new(Method::POST, Target::sandbox(id).part("extend")).json(&body).map_err(told)?;
        self.client.done(call).await.map_err(told)
    }

    async fn hibernate(&self, id: &str) -> Result<()> {
        self.client.hibernate(id, &Hibernate::default()).await.map(drop).map_err(told)
    }

    async fn fork(&self, id: &str, ttl_seconds: f64) -> Result<Sandbox> {
        let body = Fork { ttl_seconds: Some(ttl_seconds), ..Fork::default() };
        let forked: Forked =
            self.client.post_once(Target::sandbox(id).part("fork"), &body).await.map_err(told)?;
        let child = forked.sandboxes.into_iter().next();
        child.ok_or_else(|| OperationError::new("internal", "the server made no copy"))
    }

    async fn snapshot(&self, id: &str, name: Option<String>) -> Result<Snapshot> {
        let target = Target::sandbox(id).part("snapshots");
        self.client
            .post_once(target, &CreateSnapshot { name, ..CreateSnapshot::default() })
            .await
            .map_err(told)
    }

    async fn delete_snapshot(&self, id: &str) -> Result<()> {
        let target = Target::new("/v1/snapshots").part(id);
        self.client.done(Call::new(Method::DELETE, target)).await.map_err(told)
    }

    async fn network_rules(&self, id: &str) -> Result<Option<NetRules>> {
        let view: NetworkView =
            self.client.json(Call::get(Target::sandbox(id).part("network"))).await.map_err(told)?;
        Ok(view.rules)
    }
}

fn broken(error: &tokio::task::JoinError) -> OperationError {
    OperationError::new("internal", error.to_string())
}

fn told(error: ClientError) -> OperationError {
    match error {
        ClientError::Refused { error, .. } => {
            OperationError { code: error.code, message: error.message, hint: error.hint }
        }
        other => {
            let cause = other.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            let hint = other.hint();
            OperationError { code: "unavailable".into(), message: format!("{other}{cause}"), hint }
        }
    }
}
