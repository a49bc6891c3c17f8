//! One line in a context that is there, beside a kernel of Jupyter's that is there.

use super::super::calls::timed;
use super::super::part::Findings;
use super::super::process::Server;
use super::jupyter::Jupyter;
use super::{Setting, pool};
use crate::measure::Timing;
use anyhow::Result;

const WARM_UP: usize = 20;
/// So many of one after the other, then of the next: each finds the processors as it left them itself.
const IN_A_ROW: usize = 20;

pub async fn measure(setting: Setting<'_>, server: &Server) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut jupyter = match Jupyter::start(setting) {
        Ok(jupyter) => Some(jupyter),
        Err(error) => {
            findings.notes.push(format!("jupyter: missing: {error:#}"));
            None
        }
    };
    let mut by_socket = server.caller().await?;
    let token = by_socket.token().await?;
    let mut by_tcp = server.caller_by_tcp(&token).await?;
    let sandbox = by_socket.create_from(pool::TEMPLATE).await?;
    let (mut sockets, mut tcps, mut kernels) = (Vec::new(), Vec::new(), Vec::new());
    let mut round = 0;
    while round < WARM_UP + setting.counts.warm_rounds {
        for _ in 0..IN_A_ROW {
            sockets.push(timed(by_socket.run_code(&sandbox, "1+1", "")).await?.0);
        }
        for _ in 0..IN_A_ROW {
            tcps.push(timed(by_tcp.run_code(&sandbox, "1+1", "")).await?.0);
        }
        for _ in 0..IN_A_ROW {
            kernels.extend(jupyter.as_mut().map(Jupyter::warm).transpose()?);
        }
        round += IN_A_ROW;
        if round <= WARM_UP {
            (sockets, tcps, kernels) = (Vec::new(), Vec::new(), Vec::new());
        }
    }
    findings.timings = vec![
        Timing::new("paddock, unix socket", String::new(), sockets),
        Timing::new("paddock, TCP", String::new(), tcps),
    ];
    if let Some(jupyter) = jupyter {
        findings
            .notes
            .push(format!("jupyter: {}: until the reply and the result were received.", jupyter.version()));
        findings.timings.push(Timing::new("jupyter", jupyter.version().to_owned(), kernels));
    }
    Ok(findings)
}
