//! `paddock serve`: the HTTP API, until a signal or until nobody needs it. Sandboxes outlive it.

use super::CommandError;
use crate::args::machine::ServeArgs;
use crate::caller::Caller;
use crate::client::address;
use crate::{render, state};
use paddock_engine::fleet::{Fleet, FleetError, FleetOptions};
use paddock_engine::volumes::VolumesOptions;
use paddock_jobs::{Jobs, JobsOptions};
use paddock_server::{Ended, ListenError, Listener, Options, Tls, TlsError};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the sandboxes of this state directory cannot be served")]
    Fleet(#[source] FleetError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("the runtime could not be started")]
    Runtime(#[source] io::Error),
}

impl ServeError {
    pub fn hint(&self) -> Option<String> {
        match self {
            ServeError::Fleet(error) => error.hint.clone(),
            _ => None,
        }
    }
}

pub fn execute(args: ServeArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let state_dir = state::prepare(&caller.environment)?;
    let own_socket = address::own_socket(&caller.environment, &state_dir);
    paddock_server::start_log(args.json_logs);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(serve(args, &state_dir, &own_socket, caller))?;
    // What still waits, such as a read of a file, must not hold up the end.
    runtime.shutdown_background();
    Ok(0)
}

async fn serve(
    args: ServeArgs,
    state_dir: &Path,
    own_socket: &Path,
    caller: &mut Caller<'_>,
) -> Result<(), ServeError> {
    // Before anything is made: a signal during the start must not pass unheard.
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Runtime)?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::load(certificate, key)?),
        _ => None,
    };
    // The fleet first: it refuses when another server has this state directory, whose socket then stays its own.
    let options = FleetOptions {
        registries: args.registries,
        secrets_key: args.secrets_key,
        volumes: VolumesOptions {
            url: args.volumes,
            settings: args.volumes_set.into_iter().collect(),
            key: args.volumes_key,
            cache_bytes: args.volumes_cache,
        },
        ..FleetOptions::new(state_dir.to_path_buf())
    };
    paddock_engine::descriptors::take_all();
    let fleet = Fleet::open(options).await.map_err(ServeError::Fleet)?;
    let options = JobsOptions {
        running: args.jobs.map_or(JobsOptions::default().running, |jobs| jobs as usize),
        ..JobsOptions::default()
    };
    let jobs = match Jobs::open(fleet.clone(), options).await {
        Ok(jobs) => jobs,
        Err(error) => {
            fleet.close().await;
            return Err(ServeError::Fleet(error));
        }
    };
    let socket = args.socket.as_deref().unwrap_or(own_socket);
    let (listeners, places) = match listen(socket, args.listen, tls).await {
        Ok(listening) => listening,
        Err(error) => {
            jobs.close().await;
            drop(jobs);
            fleet.close().await;
            return Err(error.into());
        }
    };
    for place in &places {
        let _ = writeln!(caller.stderr, "paddock: listening on {}", render::escape::line(place));
    }
    let options = Options {
        domain: args.domain,
        allow_hosts: args.allow_host,
        open_metrics: args.open_metrics,
        idle_exit: args.idle_exit.map(Duration::from_secs_f64),
        ..Options::default()
    };
    let asked = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    if paddock_server::run(listeners, fleet, jobs, options, asked).await == Ended::Idle {
        let _ = writeln!(caller.stderr, "paddock: nobody needed the server; it ends");
    }
    Ok(())
}

/// The listeners, and where they are, for people.
async fn listen(
    socket: &Path,
    address: Option<SocketAddr>,
    tls: Option<Tls>,
) -> Result<(Vec<Listener>, Vec<String>), ListenError> {
    let mut listeners = vec![Listener::unix(socket).await?];
    let mut places = vec![format!("unix:{}", socket.display())];
    if let Some(address) = address {
        let listener = Listener::tcp(address).await?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        places.extend(listener.tcp_address().map(|address| format!("{scheme}://{address}")));
        listeners.push(match tls {
            Some(tls) => listener.with_tls(tls),
            None => listener,
        });
    }
    Ok((listeners, places))
}
