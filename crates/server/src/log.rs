//! The server's log: lines on standard error, for people or as JSON.

use tracing_subscriber::EnvFilter;

/// Chooses what is logged, as in `paddock_server=debug,warn`.
const FILTER_VARIABLE: &str = "PADDOCK_LOG";

/// Of other crates only warnings: they know nothing of what is secret here.
const DEFAULT_FILTER: &str = "paddock=info,paddock_server=info,paddock_engine=info,warn";

/// Once per process; a second call changes nothing.
pub fn start_log(json: bool) {
    let filter = EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    let _ = match json {
        true => builder.json().flatten_event(true).try_init(),
        false => builder.try_init(),
    };
}
