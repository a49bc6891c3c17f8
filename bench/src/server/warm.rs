//! Execs of `true`, one after the other, in a sandbox that is there.

use super::calls::timed;
use super::part::Findings;
use super::process::Server;
use crate::contestants::Workload;
use crate::measure::Timing;
use anyhow::Result;

const ROUNDS: usize = 1_000;
const WARM_UP: usize = 50;

pub async fn measure(server: &Server) -> Result<Findings> {
    let mut by_socket = server.caller().await?;
    let token = by_socket.token().await?;
    let mut by_tcp = server.caller_by_tcp(&token).await?;
    let sandbox = by_socket.create().await?;
    let command = Workload::True.command();
    let (mut sockets, mut tcps) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let (socket, ()) = timed(by_socket.exec(&sandbox, command)).await?;
        let (tcp, ()) = timed(by_tcp.exec(&sandbox, command)).await?;
        if round >= WARM_UP {
            sockets.push(socket);
            tcps.push(tcp);
        }
    }
    Ok(Findings {
        timings: vec![
            Timing::new("unix socket", String::new(), sockets),
            Timing::new("TCP", String::new(), tcps),
        ],
        ..Findings::default()
    })
}
