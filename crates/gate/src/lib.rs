//! The gate: the only way out of a sandbox that has network rules. It knows packets, names and verdicts, and nothing of
//! sandboxes.
//!
//! ```text
//! program inside ── connect() ──► veth ══ packet socket ── stack ──┐
//!                ── DNS ────────────────────────────────── stack ──┤ shared (verdict, lookup, dial) ──► outside
//!                ── HTTP_PROXY ─► loopback ── proxy ── forward ────┘
//! ```
//!
//! - [`Gate`]: one sandbox's gate; `shared`: the rules, and the one door that all ways lead through
//! - `link`, `stack`: packets from inside, and the TCP that answers them
//! - `proxy`, `forward`: HTTP, CONNECT and SOCKS; requests that are seen
//! - `requests`, `bodies`: the host and the method that a request means; bodies that are searched and masked
//! - `refused`: a refusal, and the words for it that the program inside gets
//! - `session`, `sniff`, `rewound`: a client, and the host that it was connected to
//! - `flows`, `meter`, `metered`: the open connections, their bytes, their speed
//! - `names`, [`Resolver`], `own`: an address for each name inside, and the real one outside
//! - `secrets`, `ended`: values that never enter, and TLS that is ended for them
//! - `events`: decisions on their way to the audit
//! - [`wire`]: parsers for bytes from a sandbox; [`fuzz`]: entries for the fuzz targets

mod bodies;
mod ended;
mod events;
mod flows;
mod forward;
#[doc(hidden)]
pub mod fuzz;
mod gate;
mod link;
mod meter;
mod metered;
mod names;
mod own;
mod proxy;
mod refused;
mod requests;
mod resolver;
mod rewound;
mod secrets;
mod session;
mod shared;
mod sniff;
mod stack;
#[doc(hidden)]
pub mod wire;

pub use flows::MOST_FLOWS;
pub use gate::{Ends, Gate, GateError, Settings};
pub use hyper::header::HeaderName;
pub use link::{close as close_link, open as open_link};
pub use meter::{Meter, Moved};
pub use own::is_own;
pub use paddock_model::net::place;
pub use resolver::{Resolver, System};
pub use rustls::pki_types::CertificateDer;
pub use secrets::{
    Authority, AuthorityError, Carriers, Found, Mask, Masked, PLACEHOLDER, Secret, SecretError, Secrets,
    USUAL_HEADERS, certificates_below, certificates_in, host_certificates, host_store,
};
