//! `paddock serve`: the HTTP API, until a signal or until it is idle. Sandboxes outlive it.
//!
//! The order of a start: the state directory's lock, then the listeners, then the sandboxes. Clients that come while
//! sandboxes are taken over wait at the listeners instead of being refused.

pub(super) mod hangup;
mod node;
pub(super) mod places;
pub(super) mod waiting;

use super::CommandError;
use crate::args::host::ServeArgs;
use crate::caller::Caller;
use crate::{render, state};
use hangup::Terminal;
use node::{Node, NodeError};
use paddock_engine::FindBackends;
use paddock_fleet::{FirstUseOptions, Fleet, FleetError, FleetOptions, ReadyOptions};
use paddock_jobs::{Jobs, JobsOptions};
use paddock_model::NodeNumber;
use paddock_records::store::{ServerLock, ServerPhase};
use paddock_server::{Ended, ListenError, Listener, LogError, Options, Reload, Tls, TlsError};
use paddock_storage::volumes::VolumesOptions;
use places::Places;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the sandboxes of this state directory cannot be served")]
    Fleet(#[source] FleetError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("PADDOCK_URL `{value}` is no place where this server can listen: {reason}")]
    Place { value: String, reason: &'static str },
    #[error(transparent)]
    Node(#[from] NodeError),
    #[error("the server could not begin anew")]
    BeginAnew(#[source] io::Error),
    #[error("the runtime could not be started")]
    Runtime(#[source] io::Error),
}

impl ServeError {
    pub fn hint(&self) -> Option<String> {
        match self {
            ServeError::Fleet(error) => error.hint.clone(),
            ServeError::Log(error) => error.hint(),
            ServeError::Node(error) => error.hint(),
            ServeError::Place { .. } => Some(
                "say where with --socket or --listen, which count more, or unset PADDOCK_URL".to_string(),
            ),
            _ => None,
        }
    }
}

pub fn execute(args: ServeArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let state_dir = state::prepare(&caller.environment)?;
    let places = Places::choose(args.socket.as_deref(), args.listen, &caller.environment, &state_dir)?;
    let node = Node::choose(&args, &caller.environment).map_err(ServeError::Node)?;
    paddock_server::start_log(args.json_logs, args.log_filter.as_deref()).map_err(ServeError::Log)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let next = runtime.block_on(serve(args, &state_dir, places, node, caller))?;
    // Remaining tasks, such as a read of a file, must not hold up the end.
    runtime.shutdown_background();
    match next {
        Next::End => Ok(0),
        Next::BeginAnew => Err(ServeError::BeginAnew(begin_anew()).into()),
    }
}

enum Next {
    End,
    /// The storage has to be mounted anew, which only a server can do that has nothing of it open.
    BeginAnew,
}

/// The same program with the same arguments, in the same process: a supervisor notices nothing. Returns only if it
/// failed.
fn begin_anew() -> io::Error {
    use std::os::unix::process::CommandExt;
    let mut own = std::env::args_os();
    let name = own.next().unwrap_or_else(|| "paddock".into());
    std::process::Command::new("/proc/self/exe").arg0(name).args(own).exec()
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heard {
    End,
    ReadAgain,
}

/// Heard from before anything is made: a signal during the start must not pass unheard.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn listen() -> Result<Signals, ServeError> {
        let heard = |kind| signal(kind).map_err(ServeError::Runtime);
        Ok(Signals {
            terminate: heard(SignalKind::terminate())?,
            interrupt: heard(SignalKind::interrupt())?,
            hangup: heard(SignalKind::hangup())?,
        })
    }

    /// Ready when the server is to end. A hang-up reads files again, unless the server's own terminal went away.
    async fn end(&mut self, terminal: &Terminal, reload: &Reload) {
        while self.heard(terminal).await == Heard::ReadAgain {
            let reload = reload.clone();
            let _ = tokio::task::spawn_blocking(move || reload.now()).await;
        }
    }

    pub(super) async fn heard(&mut self, terminal: &Terminal) -> Heard {
        tokio::select! {
            _ = self.terminate.recv() => return Heard::End,
            _ = self.interrupt.recv() => return Heard::End,
            _ = self.hangup.recv() => {}
        }
        if terminal.has_gone() { Heard::End } else { Heard::ReadAgain }
    }
}

async fn serve(
    args: ServeArgs,
    state_dir: &Path,
    places: Places,
    node: Node,
    caller: &mut Caller<'_>,
) -> Result<Next, ServeError> {
    let terminal = Terminal::look();
    let mut signals = Signals::listen()?;
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::load(certificate, key)?),
        _ => None,
    };
    let reload = Reload { tls: tls.clone(), log_filter: args.log_filter.clone() };
    let options = Options {
        domain: args.domain.clone(),
        allow_hosts: args.allow_host.clone(),
        open_metrics: args.open_metrics,
        idle_exit: args.idle_exit.map(Duration::from_secs_f64),
        gateway_key: node.gateway_key,
        node_name: args.node_name.clone(),
        labels: node.labels,
        ..Options::default()
    };
    let lock = tokio::select! {
        lock = waiting::take_lock(state_dir, caller) => lock.map_err(ServeError::Fleet)?,
        () = signals.end(&terminal, &reload) => return Ok(Next::End),
    };
    // Only the holder of the lock may touch the socket: it is another server's otherwise.
    let (listeners, addresses) = listen(&places, tls).await?;
    let variables = caller.environment.texts();
    let (fleet, jobs) = open(args, node.number, state_dir, lock, variables, caller.backends)
        .await
        .map_err(ServeError::Fleet)?;
    fleet.note_phase(ServerPhase::Serving, &addresses);
    for address in &addresses {
        let _ = writeln!(caller.stderr, "paddock: listening on {}", render::escape::line(address));
    }
    let mut next = Next::End;
    let storage = fleet.clone();
    let asked = async {
        tokio::select! {
            () = signals.end(&terminal, &reload) => {}
            () = storage.storage_needs_a_restart() => next = Next::BeginAnew,
        }
        // The fleet closes only when no other part holds it.
        drop(storage);
    };
    if paddock_server::run(listeners, fleet, jobs, options, asked).await == Ended::Idle {
        let _ = writeln!(caller.stderr, "paddock: nobody needed the server; it ends");
    }
    Ok(next)
}

/// The sandboxes and jobs that are there already.
async fn open(
    args: ServeArgs,
    node: Option<NodeNumber>,
    state_dir: &Path,
    lock: ServerLock,
    variables: BTreeMap<String, String>,
    backends: FindBackends,
) -> Result<(Fleet, Jobs), FleetError> {
    let usual = FleetOptions::new(state_dir.to_path_buf());
    let options = FleetOptions {
        registries: args.registries,
        audit_outputs: args.audit_outputs.unwrap_or(usual.audit_outputs),
        ready: ReadyOptions { memory: args.ready_memory, keep: Duration::from_secs_f64(args.ready_seconds) },
        keep_free: args.keep_free,
        keep_ended: args.keep_ended.unwrap_or(usual.keep_ended),
        secrets_key: args.secrets_key,
        volumes: VolumesOptions {
            url: args.volumes,
            settings: args.volumes_set.into_iter().collect(),
            key: args.volumes_key,
            cache_bytes: args.volumes_cache,
        },
        first_use: FirstUseOptions {
            names: args.build_on_first_use.into_iter().filter(|name| name != "none").collect(),
            files: args.build_files,
            wait: Duration::from_secs_f64(args.build_wait.unwrap_or_default()),
            variables,
        },
        root_may_install: args.root_may_install.into(),
        public_ports: args.public_ports,
        backends,
        node,
        ..usual
    };
    paddock_engine::descriptors::take_all();
    let fleet = Fleet::open_locked(options, lock).await?;
    let options = JobsOptions {
        running: args.jobs.map_or(JobsOptions::default().running, |jobs| jobs as usize),
        ..JobsOptions::default()
    };
    match Jobs::open(fleet.clone(), options).await {
        Ok(jobs) => Ok((fleet, jobs)),
        Err(error) => {
            fleet.close().await;
            Err(error)
        }
    }
}

/// The listeners, and where they are, for people.
pub(super) async fn listen(
    places: &Places,
    tls: Option<Tls>,
) -> Result<(Vec<Listener>, Vec<String>), ListenError> {
    let mut listeners = vec![Listener::unix(&places.socket).await?];
    let mut addresses = vec![format!("unix:{}", places.socket.display())];
    if let Some(address) = places.address {
        let listener = Listener::tcp(address).await?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        addresses.extend(listener.tcp_address().map(|address| format!("{scheme}://{address}")));
        listeners.push(match tls {
            Some(tls) => listener.with_tls(tls),
            None => listener,
        });
    }
    Ok((listeners, addresses))
}
