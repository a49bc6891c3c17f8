//! One fresh sandbox for one request. It is ended when the request is over, whatever became of it.

use super::errors::{Refusal, Result};
use crate::app::App;
use crate::dialects::clean;
use crate::errors::{Failure, shorten};
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paddock_fleet::{Actor, Fleet, FleetError, Program, WriteOptions};
use paddock_model::api::{CreateSandbox, Exec, LimitsRequest, RunCode, StartExec, UpdateSandbox};
use paddock_model::net::NetSetting;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where the code and its files are, and where it runs.
pub const DIRECTORY: &str = "/workspace";
/// The time that making the sandbox, writing files and reading them may take beside the program.
const MARGIN_SECONDS: f64 = 120.0;
/// verl gives up ten seconds after the limits of its program.
const WAIT_FOR_ROOM: Duration = Duration::from_secs(8);
/// Of all fetched files of one request together.
const MOST_FETCHED_BYTES: u64 = 32 << 20;

pub struct Fresh {
    fleet: Fleet,
    actor: Actor,
    id: String,
    pub template: String,
}

/// The bounds of a request.
pub struct Wanted {
    pub template: Option<String>,
    pub seconds: f64,
    pub memory: Option<u64>,
}

impl Fresh {
    /// Of a pool, where one has such sandboxes. With no network, whatever the template says.
    pub async fn take(app: &App, actor: &Actor, wanted: Wanted) -> Result<Fresh> {
        let Wanted { template, seconds, memory } = wanted;
        let request = CreateSandbox {
            template: template.clone(),
            ttl_seconds: Some(seconds + MARGIN_SECONDS),
            network: Some(NetSetting::Word("none".into())),
            cwd: Some(DIRECTORY.into()),
            ..CreateSandbox::default()
        };
        let template = template.unwrap_or_else(|| "code-interpreter".into());
        let (sandbox, limits) = Fresh::create(app, actor, &template, request.clone()).await?;
        let Some(bytes) = memory.filter(|bytes| *bytes != limits) else { return Ok(sandbox) };
        match sandbox.limit_memory(bytes).await {
            Ok(()) => Ok(sandbox),
            // A sandbox whose backend cannot change it later is made with it, by no pool.
            Err(error) if error.code == "not_changeable" => {
                drop(sandbox);
                let limits = LimitsRequest { memory_bytes: Some(bytes), ..LimitsRequest::default() };
                let (sandbox, _) =
                    Fresh::create(app, actor, &template, CreateSandbox { limits, ..request }).await?;
                Ok(sandbox)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Goes on when the caller goes away, so that nothing is made which no guard ends; it only waits for no room then.
    async fn create(
        app: &App,
        actor: &Actor,
        template: &str,
        request: CreateSandbox,
    ) -> Result<(Fresh, u64)> {
        let (fleet, actor, template) = (app.fleet().clone(), actor.clone(), template.to_string());
        let (_caller, caller_gone) = tokio::sync::oneshot::channel();
        let creating = tokio::spawn(async move {
            let made = fleet.create_until(&actor, request, caller_gone).await?;
            Ok::<_, FleetError>((Fresh { fleet, actor, id: made.id, template }, made.limits.memory))
        });
        let made = tokio::select! {
            () = app.ending().cancelled() => return Err(Failure::shutting_down().into()),
            () = tokio::time::sleep(WAIT_FOR_ROOM) => return Err(no_room()),
            made = creating => made.map_err(|_| Failure::internal())?,
        };
        Ok(made?)
    }

    async fn limit_memory(&self, bytes: u64) -> std::result::Result<(), FleetError> {
        let limits = LimitsRequest { memory_bytes: Some(bytes), ..LimitsRequest::default() };
        let request = UpdateSandbox { limits: Some(limits), ..UpdateSandbox::default() };
        self.fleet.update(&self.actor, &self.id, request).await.map(drop)
    }

    pub async fn write_all(&self, files: &BTreeMap<String, Vec<u8>>) -> Result<()> {
        for (name, content) in files {
            self.write(&place(name), content).await?;
        }
        Ok(())
    }

    pub async fn write(&self, path: &str, content: &[u8]) -> Result<()> {
        let options = WriteOptions { parents: true, ..WriteOptions::default() };
        let mut upload = self.fleet.write_file(&self.actor, &self.id, path, options).await?;
        upload.write(content).await?;
        upload.finish().await?;
        Ok(())
    }

    /// Runs it to its end.
    pub async fn run(&self, app: &App, program: Program) -> Result<Exec> {
        let started = self.fleet.run_program(&self.actor, &self.id, program).await?;
        self.end_of(app, started).await
    }

    /// Runs what was made of the program, to its end.
    pub async fn execute(&self, app: &App, request: StartExec) -> Result<Exec> {
        let started = self.fleet.start_exec(&self.actor, &self.id, request, None).await?;
        self.end_of(app, started).await
    }

    /// Runs a cell to its end, in the interpreter that remembers the cells before.
    pub async fn run_cell(&self, app: &App, cell: RunCode) -> Result<Exec> {
        let started = self.fleet.run_code(&self.actor, &self.id, cell, None).await?;
        self.end_of(app, started).await
    }

    async fn end_of(&self, app: &App, started: Exec) -> Result<Exec> {
        tokio::select! {
            () = app.ending().cancelled() => Err(Failure::shutting_down().into()),
            ended = self.fleet.wait_exec(&self.actor, &self.id, started.exec, None) => Ok(ended?),
        }
    }

    /// The files that are there, as base64 under the names that were asked for.
    pub async fn fetch(&self, names: &[String]) -> Result<BTreeMap<String, String>> {
        let (mut found, mut room) = (BTreeMap::new(), MOST_FETCHED_BYTES);
        for name in names {
            let Some(content) = self.read(&place(name), room + 1).await? else { continue };
            let length = content.len() as u64;
            room = room.checked_sub(length).ok_or_else(|| {
                let (name, most) = (shorten(name), MOST_FETCHED_BYTES >> 20);
                let message =
                    format!("fetch_files: with {name:?} the files are more than {most} MiB together");
                Refusal::sandbox("too_large", message)
            })?;
            found.insert(name.clone(), STANDARD.encode(content));
        }
        Ok(found)
    }

    /// `None` where there is no file, as SandboxFusion leaves out what is not there.
    async fn read(&self, path: &str, most: u64) -> Result<Option<Vec<u8>>> {
        let mut file = match self.fleet.read_file(&self.actor, &self.id, path, 0, Some(most), None).await {
            Ok(file) => file,
            Err(error) if matches!(error.code, "file_not_found" | "not_a_file" | "not_a_directory") => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let mut content = Vec::new();
        while let Some(piece) = file.next().await {
            content.extend_from_slice(&piece?);
        }
        Ok(Some(content))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (fleet, actor, id) = (self.fleet.clone(), self.actor.clone(), self.id.clone());
        runtime.spawn(async move {
            if let Err(error) = fleet.kill(&actor, &id).await
                && !matches!(error.code, "sandbox_ended" | "sandbox_not_found")
            {
                tracing::warn!(sandbox = %id, %error, "a sandbox of a request could not be ended; its time to live ends it");
            }
        });
    }
}

fn no_room() -> Refusal {
    let message = "no sandbox could be had in time: the tenant's quota or the server is full";
    Refusal::status(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
}

/// As a command in the directory of the code would find it.
fn place(name: &str) -> String {
    if name.starts_with('/') { clean(name) } else { clean(&format!("{DIRECTORY}/{name}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_meant_from_the_directory_of_the_code() {
        for (name, path) in [
            ("a", "/workspace/a"),
            ("./a//b", "/workspace/a/b"),
            ("/tmp/x", "/tmp/x"),
            ("../x", "/x"),
            ("../../../x", "/x"),
            ("a/../b", "/workspace/b"),
        ] {
            assert_eq!(place(name), path);
        }
    }
}
