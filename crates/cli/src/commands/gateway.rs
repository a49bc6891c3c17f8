//! `paddock gateway`: one API in front of many servers, until a signal.
//!
//! It starts as `serve` does, over a state directory of its own: the home of tokens, tenants and quotas. It keeps no sandbox there.

use super::CommandError;
use super::serve::hangup::Terminal;
use super::serve::places::Places;
use super::serve::{Heard, ServeError, Signals, listen, waiting};
use crate::args::gateway::GatewayArgs;
use crate::caller::Caller;
use crate::{render, state};
use paddock_fleet::{Fleet, FleetError, FleetOptions, ReadyOptions};
use paddock_gateway::{Gateway, SourceError, Sources};
use paddock_jobs::{Jobs, JobsOptions};
use paddock_records::store::{ServerLock, ServerPhase};
use paddock_server::{Options, Reload, Tls};
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error(transparent)]
    Nodes(#[from] SourceError),
}

impl GatewayError {
    pub fn hint(&self) -> Option<String> {
        let GatewayError::Nodes(error) = self;
        error.hint()
    }
}

pub fn execute(args: GatewayArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let state_dir = state::prepare(&caller.environment)?;
    let places = Places::choose(args.socket.as_deref(), args.listen, &caller.environment, &state_dir)?;
    paddock_server::start_log(args.json_logs, args.log_filter.as_deref()).map_err(ServeError::Log)?;
    let sources = Sources {
        listed: args.nodes.clone(),
        file: args.nodes_file.clone(),
        dns: args.nodes_dns.clone(),
        dns_key: args.node_key.clone(),
    };
    let gateway = Gateway::new(sources).map_err(GatewayError::Nodes)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(serve(args, gateway, &state_dir, places, caller))?;
    runtime.shutdown_background();
    Ok(0)
}

async fn serve(
    args: GatewayArgs,
    gateway: Arc<Gateway>,
    state_dir: &Path,
    places: Places,
    caller: &mut Caller<'_>,
) -> Result<(), ServeError> {
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
        ..Options::default()
    };
    let lock = tokio::select! {
        lock = waiting::take_lock(state_dir, caller) => lock.map_err(ServeError::Fleet)?,
        () = end(&mut signals, &terminal, &gateway, &reload) => return Ok(()),
    };
    let (listeners, addresses) = listen(&places, tls).await?;
    let (fleet, jobs) = open(state_dir, lock).await.map_err(ServeError::Fleet)?;
    fleet.note_phase(ServerPhase::Serving, &addresses);
    for address in &addresses {
        let _ = writeln!(caller.stderr, "paddock: listening on {}", render::escape::line(address));
    }
    let asked = end(&mut signals, &terminal, &gateway, &reload);
    gateway.clone().run(listeners, fleet, jobs, options, asked).await;
    Ok(())
}

/// Ready when the gateway is to end. A hang-up reads files again, those of the nodes among them.
async fn end(signals: &mut Signals, terminal: &Terminal, gateway: &Arc<Gateway>, reload: &Reload) {
    while signals.heard(terminal).await == Heard::ReadAgain {
        let (gateway, reload) = (gateway.clone(), reload.clone());
        let _ = tokio::task::spawn_blocking(move || {
            gateway.reload_and_tell();
            if reload.tls.is_some() || reload.log_filter.is_some() {
                reload.now();
            }
        })
        .await;
    }
}

/// The home. It keeps no sandboxes ready and builds nothing: no sandbox is ever made in it.
async fn open(state_dir: &Path, lock: ServerLock) -> Result<(Fleet, Jobs), FleetError> {
    let usual = FleetOptions::new(state_dir.to_path_buf());
    let options = FleetOptions { ready: ReadyOptions::OFF, ..usual };
    paddock_engine::descriptors::take_all();
    let fleet = Fleet::open_locked(options, lock).await?;
    match Jobs::open(fleet.clone(), JobsOptions::default()).await {
        Ok(jobs) => Ok((fleet, jobs)),
        Err(error) => {
            fleet.close().await;
            Err(error)
        }
    }
}
