//! One throw-away use, beside the rivals that run `print(1)`, in turns.

use super::super::part::Findings;
use super::super::process::Server;
use super::once::{Steps, once};
use super::rivals::Rivals;
use super::{Setting, pool};
use crate::contestants::{Field, Workload};
use crate::measure::Timing;
use anyhow::Result;
use std::time::Duration;

const WARM_UP: usize = 10;
const POOL: (usize, usize) = (16, 64);

/// Time for the pool to refill: the next contestant does not pay for that.
const SETTLE: Duration = Duration::from_millis(25);

pub async fn measure(setting: Setting<'_>, server: &Server, beside: Option<&Field>) -> Result<Findings> {
    let mut findings = Findings::default();
    // Before any connection: a download takes longer than a server waits for the next call.
    let mut rivals = Rivals::prepare(setting, beside, Workload::Python);
    let mut by_socket = server.caller().await?;
    let token = by_socket.token().await?;
    let mut by_tcp = server.caller_by_tcp(&token).await?;
    pool::set(&mut by_socket, &mut findings, pool::TEMPLATE, POOL.0, POOL.1).await?;
    let (mut sockets, mut tcps) = (Vec::new(), Vec::new());
    let (mut steps, mut unused) = (Steps::default(), Steps::default());
    for round in 0..WARM_UP + setting.counts.rounds {
        if round == WARM_UP {
            (sockets, tcps, steps) = (Vec::new(), Vec::new(), Steps::default());
            rivals.forget();
        }
        sockets.push(once(&mut by_socket, pool::TEMPLATE, "print(1)", &mut steps).await?);
        tcps.push(once(&mut by_tcp, pool::TEMPLATE, "print(1)", &mut unused).await?);
        tokio::time::sleep(SETTLE).await;
        rivals.round(round).await?;
    }
    pool::count(&mut by_socket, &mut findings, pool::TEMPLATE).await;
    findings.timings = vec![
        Timing::new("paddock, unix socket", String::new(), sockets),
        Timing::new("paddock, TCP", String::new(), tcps),
        Timing::new("of which create", String::new(), steps.create),
        Timing::new("of which run_code", String::new(), steps.run),
        Timing::new("of which kill", String::new(), steps.kill),
    ];
    rivals.finish(&mut findings);
    findings.notes.push("Connections are kept; the steps are those on the unix socket. The slower a peer, the fewer its rounds.".into());
    Ok(findings)
}
