//! This command as the server, if there is none: the job runs in this process, and other clients are answered
//! meanwhile. The queue is the state directory's own: the next server goes on with a job that is cut off here.

use crate::caller::Environment;
use crate::client::{ClientError, address};
use crate::commands::CommandError;
use crate::commands::serve::ServeError;
use crate::state;
use paddock_engine::FindBackends;
use paddock_fleet::{Fleet, FleetOptions, STATE_IN_USE};
use paddock_jobs::{Jobs, JobsOptions};
use paddock_server::{Listener, Options};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct LocalServer {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// If no server is named and none answers: the state directory and the socket of the server to be.
pub fn is_needed(environment: &Environment) -> Result<Option<(PathBuf, PathBuf)>, CommandError> {
    if address::configured(environment)?.is_some() {
        return Ok(None);
    }
    let state_dir = state::prepare(environment)?;
    let socket = address::own_socket(environment, &state_dir);
    Ok(UnixStream::connect(&socket).is_err().then_some((state_dir, socket)))
}

impl LocalServer {
    /// `None` if another process became the server a moment ago.
    pub async fn start(
        state_dir: PathBuf,
        socket: PathBuf,
        backends: FindBackends,
    ) -> Result<Option<LocalServer>, CommandError> {
        let options = FleetOptions { backends, ..FleetOptions::new(state_dir) };
        let fleet = match Fleet::open(options).await {
            Ok(fleet) => fleet,
            Err(error) if error.code == STATE_IN_USE => return Ok(None),
            Err(error) => return Err(ServeError::Fleet(error).into()),
        };
        let jobs = match Jobs::open(fleet.clone(), JobsOptions::default()).await {
            Ok(jobs) => jobs,
            Err(error) => {
                fleet.close().await;
                return Err(ServeError::Fleet(error).into());
            }
        };
        let listener = match Listener::unix(&socket).await {
            Ok(listener) => listener,
            Err(error) => {
                jobs.close().await;
                drop(jobs);
                fleet.close().await;
                return Err(ServeError::Listen(error).into());
            }
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let shutdown = async {
                let _ = stopped.await;
            };
            paddock_server::run(vec![listener], fleet, jobs, Options::default(), shutdown).await;
        });
        Ok(Some(LocalServer { stop, task }))
    }

    /// Other sandboxes that were made meanwhile keep running.
    pub async fn end(self) -> Result<(), CommandError> {
        let _ = self.stop.send(());
        self.task.await.map_err(|error| ClientError::Lost(error.into()).into())
    }
}
