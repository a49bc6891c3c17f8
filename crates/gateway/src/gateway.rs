//! The gateway itself: the nodes that it knows, and a server behind it.

use crate::keys::KeysUnderWay;
use crate::nodes::Nodes;
use crate::poll;
use crate::sources::{SourceError, Sources};
use paddock_fleet::Fleet;
use paddock_jobs::Jobs;
use paddock_server::front::LargeBodies;
use paddock_server::{Ended, Listener, Options};
use std::sync::Arc;

pub struct Gateway {
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) keys: KeysUnderWay,
    /// The room for bodies of creates that are under way, apart from that for bodies that are being read.
    pub(crate) creates: LargeBodies,
    sources: Sources,
}

impl Gateway {
    /// Reads where the nodes are. None has to be there.
    pub fn new(sources: Sources) -> Result<Arc<Gateway>, SourceError> {
        let nodes = Arc::new(Nodes::new(sources.read()?, sources.dns.is_some()));
        Ok(Arc::new(Gateway {
            nodes,
            keys: KeysUnderWay::default(),
            creates: LargeBodies::default(),
            sources,
        }))
    }

    /// Serves until `shutdown` is ready, in front of the server whose fleet is the home of tokens and tenants.
    pub async fn run(
        self: Arc<Self>,
        listeners: Vec<Listener>,
        fleet: Fleet,
        jobs: Jobs,
        options: Options,
        shutdown: impl Future<Output = ()>,
    ) -> Ended {
        let polling = tokio::spawn(poll::poll(self.nodes.clone()));
        let following = tokio::spawn(poll::follow_name(self.nodes.clone(), self.sources.clone()));
        let ended = paddock_server::run_behind(Some(self), listeners, fleet, jobs, options, shutdown).await;
        polling.abort();
        following.abort();
        ended
    }

    /// Reads the keys and the file of nodes again. Where they cannot be read, everything stays as it was. Blocks for a moment.
    pub fn reload(&self) -> Result<usize, SourceError> {
        let sources = self.sources.read()?;
        let count = sources.len();
        self.nodes.list(sources);
        Ok(count)
    }

    /// The same, with the result in the log.
    pub fn reload_and_tell(&self) {
        match self.reload() {
            Ok(count) => tracing::warn!(count, "reloaded the nodes"),
            Err(error) => {
                let reason = std::error::Error::source(&error)
                    .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
                tracing::error!(reason, "could not reload the nodes; they stay as they were");
            }
        }
    }

    /// True if a node said that it has this template.
    pub(crate) fn knows_template(&self, template: &str) -> bool {
        self.nodes.all().iter().any(|node| {
            node.seen().fresh().is_some_and(|report| report.templates.iter().any(|known| known == template))
        })
    }
}
