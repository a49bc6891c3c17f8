//! A room in front of the server: it may take a request before the server's own routes do. Everything around it is the server's: listeners,
//! TLS, the guard, ids of requests, the log, the form of errors, and the end. A gateway is such a room.
//!
//! What else is public here are the parts that a front needs in order to treat its callers as the server treats them.

pub use crate::app::App;
pub use crate::auth::{Known, bearer, identify, is_known, reads_only};
pub use crate::bodies::{LargeBodies, WholeBody};
pub use crate::dialects::e2b::{
    BUILT_IN as E2B_BUILT_IN, ENVD_TOKEN as E2B_ENVD_TOKEN, KEY_HEADER as E2B_KEY, PORT as E2B_PORT,
    SANDBOX as E2B_SANDBOX, TRAFFIC_TOKEN as E2B_TRAFFIC_TOKEN, parse_time as parse_e2b_time,
};
pub use crate::errors::{Failure, shorten};
pub use crate::extract::{idempotency_key, whole_body};
pub use crate::guard::PortName;
pub use crate::own_token::{
    clean_headers, clean_query, holds, parameter as token_parameter, shown as tokens_shown,
};
pub use crate::peer::Peer;
pub use crate::ports::{parse_cookie, set_cookie_and_lead_on, take_cookie};
pub use crate::proxy::{join, strip_hop_by_hop, wanted_upgrade};
pub use crate::request::{REQUEST_ID, RequestId};
pub use crate::revoked::{Leash, bounded};
pub use crate::stream::NDJSON;

use crate::dialects::e2b::{self, Refusal};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use std::pin::Pin;
use std::sync::Arc;

pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

pub trait Front: Send + Sync + 'static {
    /// The name of the request's route for the log and the numbers, if the front answers it. `None`: the server does.
    fn takes(&self, app: &App, request: &Request) -> Option<&'static str>;

    fn answer(self: Arc<Self>, app: App, request: Request) -> Answering;
}

/// The holder of the key that a client of E2B's shows to the control plane.
pub async fn e2b_identify(app: &App, headers: &HeaderMap) -> Result<Known, Failure> {
    e2b::identify(app, headers).await.map_err(|refusal| refusal.failure)
}

/// A sandbox that is not there, as E2B's clients are told of it where they ask the sandbox itself.
pub fn e2b_gone(id: &str) -> Response {
    Refusal::gone(id).into_response()
}

/// A failure in the words of E2B's clients.
pub fn e2b_refusal(failure: Failure) -> Response {
    e2b::refusal(failure).into_response()
}
