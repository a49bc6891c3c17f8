//! The labels that the dialect keeps among the metadata of a sandbox, and the description of its network, which is one of them.

use paddock_model::api::Sandbox;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Labels of the server's own among the metadata begin so; E2B's clients do not see them.
pub const OWN_LABELS: &str = "paddock.";
/// The template as its creator named it.
pub const TEMPLATE_LABEL: &str = "paddock.e2b.template";
/// Set where a request resumes the paused sandbox.
pub const AUTO_RESUME_LABEL: &str = "paddock.e2b.auto-resume";
/// What leaves its network as its creator described it, without values of headers.
pub const NETWORK_LABEL: &str = "paddock.e2b.network";
/// The user that commands of the sandbox run as, where its template names one.
pub const USER_LABEL: &str = "paddock.e2b.user";

/// The description of a sandbox's network, as a look at the sandbox tells it.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownNetwork {
    /// Null: it was not said.
    pub internet: Option<bool>,
    pub network: Value,
}

/// `None` where nothing was said of the network, or too much for a label.
pub fn shown_network(sandbox: &Sandbox) -> Option<ShownNetwork> {
    serde_json::from_str(sandbox.metadata.get(NETWORK_LABEL)?).ok()
}
