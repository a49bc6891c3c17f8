//! A client inside and the host that it was connected to, until one of them ends or the connection is cut.

use crate::ended;
use crate::forward;
use crate::shared::{Shared, Upstream};
use crate::sniff::{self, Spoken, Watched};
use crate::wire::host::Host;
use paddock_model::net::Denial;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};

/// While few are open; many have less each.
const LARGE: usize = 64 << 10;
const SMALL: usize = 8 << 10;
const FLOWS_WITH_LARGE_BUFFERS: usize = 64;

/// `first`: the bytes that the client sent already.
pub async fn run<C>(shared: Arc<Shared>, mut client: C, mut first: Vec<u8>, mut upstream: Upstream)
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if let Host::Name(name) = &upstream.flow.target().host
        && shared.secrets().ended_for(name, upstream.flow.target().port).is_some()
    {
        let name = name.clone();
        let target = upstream.flow.target().clone();
        // The same patience as for a handshake that never comes.
        if ended::speaks_in_clear(&mut client, &mut first).await
            && let Some(secret) = shared.secrets().bound_to(&target.host).map(ToString::to_string)
        {
            let denial = Denial::ClearSecret(secret);
            drop(upstream);
            return forward::serve_refusals(shared, client, first, target, denial).await;
        }
        return ended::run(shared, client, first, upstream, name).await;
    }
    // If methods are judged, only HTTP that can be read passes.
    if shared.rules().methods.is_some() {
        return forward::serve_fixed(shared, client, first, upstream).await;
    }
    let flow = upstream.flow.clone();
    let mut spoken = Spoken::Other;
    if sniff::is_judged(&shared, &flow) {
        let begun = tokio::select! {
            begun = sniff::begin(&shared, &flow, &mut client, &mut upstream.stream, &mut first) => begun,
            () = flow.cut() => return,
        };
        spoken = match begun {
            Ok(Ok(spoken)) => spoken,
            Ok(Err(denial)) => return sniff::cut(&shared, &flow, denial),
            // How it ended is told by the flow.
            Err(_) => return,
        };
    }
    // Each request names a host, and not the first one alone.
    if spoken == Spoken::Http {
        drop(flow);
        return forward::serve_fixed(shared, client, first, upstream).await;
    }
    let Upstream { mut stream, .. } = upstream;
    let size = if shared.flows.count() <= FLOWS_WITH_LARGE_BUFFERS { LARGE } else { SMALL };
    let mut client = Watched::new(client, first, spoken, shared, flow.clone());
    tokio::select! {
        // How it ended is told by the flow.
        _ = copy_bidirectional_with_sizes(&mut client, &mut stream, size, size) => {}
        () = flow.cut() => {}
    }
}
