//! The fleet as a model's tools see it, on behalf of one caller. Work is killed when its caller gives up, and no result
//! is told before the timeline has it.

use paddock_fleet::{Actor, Fleet, FleetError, ListFilter, WriteOptions};
use paddock_model::api::{
    CreateSandbox, CreateSnapshot, Exec, Extend, FileEntry, FilePage, Fork, Hibernate, MakeDirectory,
    RunCode, Sandbox, Snapshot, StartExec,
};
use paddock_model::net::NetRules;
use paddock_tools::{FileOperations, Host, OperationError, Operations};
use std::time::Duration;

const PAGE: usize = 100;

type Result<T> = std::result::Result<T, OperationError>;

#[derive(Clone)]
pub struct FleetHost {
    fleet: Fleet,
    actor: Actor,
}

impl FleetHost {
    pub fn new(fleet: Fleet, actor: Actor) -> FleetHost {
        FleetHost { fleet, actor }
    }

    async fn told<T>(&self, done: std::result::Result<T, FleetError>) -> Result<T> {
        self.fleet.written().await;
        done.map_err(|error| self.shown(error))
    }

    /// How the server itself failed names places of the host, which are only its owner's to see.
    fn shown(&self, error: FleetError) -> OperationError {
        let failure = crate::errors::Failure::from(error);
        let failure = if self.actor.owner { failure } else { failure.without_host() };
        OperationError { code: failure.code.into(), message: failure.message, hint: failure.hint }
    }
}

pub struct FleetSandbox {
    host: FleetHost,
    id: String,
}

impl FleetSandbox {
    /// Starts it and waits for its end. If the wait is given up, at any moment, the work is killed.
    async fn run(&self, starting: impl Future<Output = Result<Exec>> + Send + 'static) -> Result<Exec> {
        let host = self.host.clone();
        let started = tokio::spawn(async move {
            let started = starting.await?;
            let (sandbox, exec) = (started.sandbox, Some(started.exec));
            Ok((started.exec, Guard { host, sandbox, exec }))
        });
        let started = started.await;
        let (exec, mut guard) =
            started.unwrap_or_else(|error| Err(OperationError::new("internal", error.to_string())))?;
        let FleetHost { fleet, actor } = &self.host;
        let ended = fleet.wait_exec(actor, &guard.sandbox, exec, None).await;
        guard.exec = None;
        self.host.told(ended).await
    }

    async fn put(&self, path: &str, content: Vec<u8>, mode: Option<u32>, parents: bool) -> Result<FileEntry> {
        let FleetHost { fleet, actor } = &self.host;
        let options = WriteOptions { mode, parents, user: None, ..WriteOptions::default() };
        let written = async {
            let mut upload = fleet.write_file(actor, &self.id, path, options).await?;
            upload.write(&content).await?;
            upload.finish().await
        };
        self.host.told(written.await).await
    }
}

/// When dropped, kills the work that still runs.
struct Guard {
    host: FleetHost,
    sandbox: String,
    exec: Option<u32>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (Some(exec), Ok(runtime)) = (self.exec, tokio::runtime::Handle::try_current()) else { return };
        let (host, sandbox) = (self.host.clone(), self.sandbox.clone());
        runtime.spawn(async move {
            let _ = host.fleet.kill_exec(&host.actor, &sandbox, exec).await;
        });
    }
}

impl Operations for FleetSandbox {
    async fn run_code(&self, request: RunCode) -> Result<Exec> {
        let (host, id) = (self.host.clone(), self.id.clone());
        self.run(async move {
            let started = host.fleet.run_code(&host.actor, &id, request, None).await;
            started.map_err(|error| host.shown(error))
        })
        .await
    }

    async fn run_command(&self, request: StartExec) -> Result<Exec> {
        let (host, id) = (self.host.clone(), self.id.clone());
        self.run(async move {
            let started = host.fleet.start_exec(&host.actor, &id, request, None).await;
            started.map_err(|error| host.shown(error))
        })
        .await
    }

    async fn stat(&self, path: &str) -> Result<FileEntry> {
        let FleetHost { fleet, actor } = &self.host;
        fleet.stat(actor, &self.id, path, None).await.map_err(|error| self.host.shown(error))
    }

    async fn read_file(&self, path: &str, length: u64) -> Result<Vec<u8>> {
        let FleetHost { fleet, actor } = &self.host;
        let read = async {
            let mut file = fleet.read_file(actor, &self.id, path, 0, Some(length), None).await?;
            let mut content = Vec::new();
            while let Some(piece) = file.next().await {
                content.extend_from_slice(&piece?);
            }
            Ok(content)
        };
        read.await.map_err(|error| self.host.shown(error))
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
        let FleetHost { fleet, actor } = &self.host;
        let listed = fleet.list_files(actor, &self.id, path, recursive, limit, cursor, None).await;
        listed.map_err(|error| self.host.shown(error))
    }
}

impl FileOperations for FleetSandbox {
    async fn make_directory(&self, path: &str, parents: bool) -> Result<()> {
        let FleetHost { fleet, actor } = &self.host;
        let request = MakeDirectory { path: path.into(), mode: None, parents };
        self.host.told(fleet.make_directory(actor, &self.id, request, None).await).await.map(drop)
    }

    async fn remove_file(&self, path: &str, recursive: bool) -> Result<()> {
        let FleetHost { fleet, actor } = &self.host;
        self.host.told(fleet.remove_file(actor, &self.id, path, recursive, None).await).await
    }

    async fn put_file(&self, path: &str, content: Vec<u8>) -> Result<()> {
        self.put(path, content, None, false).await.map(drop)
    }
}

impl Host for FleetHost {
    type Sandbox = FleetSandbox;

    fn sandbox(&self, id: &str) -> FleetSandbox {
        FleetSandbox { host: self.clone(), id: id.to_string() }
    }

    async fn create(&self, request: CreateSandbox) -> Result<Sandbox> {
        self.told(self.fleet.create(&self.actor, request, None).await).await
    }

    async fn get(&self, id: &str) -> Result<Sandbox> {
        self.fleet.get(&self.actor, id).await.map_err(|error| self.shown(error))
    }

    async fn find(&self, key: &str, value: &str) -> Result<Vec<Sandbox>> {
        let metadata = [(key.to_string(), value.to_string())].into_iter().collect();
        let filter = ListFilter { metadata, limit: PAGE, ..ListFilter::default() };
        let page = self.fleet.list(&self.actor, &filter).await.map_err(|error| self.shown(error))?;
        Ok(page.sandboxes)
    }

    async fn kill(&self, id: &str) -> Result<()> {
        self.told(self.fleet.kill(&self.actor, id).await).await.map(drop)
    }

    async fn extend(&self, id: &str, seconds: f64) -> Result<()> {
        let request = Extend { ttl_seconds: seconds };
        self.told(self.fleet.extend(&self.actor, id, request).await).await.map(drop)
    }

    async fn hibernate(&self, id: &str) -> Result<()> {
        self.told(self.fleet.hibernate(&self.actor, id, Hibernate::default()).await).await.map(drop)
    }

    async fn fork(&self, id: &str, ttl_seconds: f64) -> Result<Sandbox> {
        let request = Fork { ttl_seconds: Some(ttl_seconds), ..Fork::default() };
        let forked = self.told(self.fleet.fork(&self.actor, id, request, None).await).await?;
        let child = forked.sandboxes.into_iter().next();
        child.ok_or_else(|| OperationError::new("internal", "the server made no copy"))
    }

    async fn snapshot(&self, id: &str, name: Option<String>) -> Result<Snapshot> {
        let request = CreateSnapshot { name, ..CreateSnapshot::default() };
        self.told(self.fleet.create_snapshot(&self.actor, id, request).await).await
    }

    async fn delete_snapshot(&self, id: &str) -> Result<()> {
        self.told(self.fleet.delete_snapshot(&self.actor, id).await).await.map(drop)
    }

    async fn network_rules(&self, id: &str) -> Result<Option<NetRules>> {
        let view = self.fleet.network(&self.actor, id, 0, Duration::ZERO).await;
        Ok(view.map_err(|error| self.shown(error))?.rules)
    }
}
