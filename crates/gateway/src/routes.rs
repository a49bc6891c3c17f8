//! Which requests are the gateway's, and what each is about. All others are answered by the server behind it.

use crate::refused;
use axum::http::{Method, Uri};
use paddock_server::front::PortName;
use percent_encoding::percent_decode_str;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    Create,
    Sandboxes,
    /// All that is below one sandbox, by id or name.
    Sandbox(String),
    Snapshots,
    Snapshot(String),
    Events,
    /// The outside's path before the path inside, and the latter.
    PortByPath {
        sandbox: String,
        prefix: String,
        rest: String,
    },
    PortByHost {
        sandbox: String,
        port: u16,
    },
    Signed(String),
    Nodes,
    Cordon {
        node: String,
        take_new: bool,
    },
    Ready,
    Server,
    E2bCreate,
    E2bSandboxes,
    E2bSandbox(String),
    E2bSnapshots,
    /// Of E2B's data plane: a header names the sandbox.
    E2bData(String),
    /// An operation that a gateway does not have.
    Refused {
        operation: &'static str,
        e2b: bool,
    },
}

impl Route {
    /// For the log and the numbers; never text of a caller.
    pub fn name(&self) -> &'static str {
        match self {
            Route::Create | Route::Sandboxes => "/v1/sandboxes",
            Route::Sandbox(_) => "/v1/sandboxes/{id}",
            Route::Snapshots => "/v1/snapshots",
            Route::Snapshot(_) => "/v1/snapshots/{snapshot}",
            Route::Events => "/v1/events",
            Route::PortByPath { .. } | Route::PortByHost { .. } => "/v1/sandboxes/{id}/ports/{port}",
            Route::Signed(_) => "/v1/signed/{token}",
            Route::Nodes => "/v1/nodes",
            Route::Cordon { .. } => "/v1/nodes/{node}",
            Route::Ready => "/readyz",
            Route::Server => "/v1/server",
            Route::E2bCreate | Route::E2bSandboxes => "/sandboxes",
            Route::E2bSandbox(_) => "/sandboxes/{id}",
            Route::E2bSnapshots => "/snapshots",
            Route::E2bData(_) => "e2b sandbox",
            Route::Refused { .. } => "not in cluster",
        }
    }
}

/// `None`: the server behind the gateway answers. `sandbox_header`: the sandbox that a header of E2B's names.
pub fn route(
    method: &Method,
    uri: &Uri,
    host: Option<&PortName>,
    sandbox_header: Option<&str>,
) -> Option<Route> {
    if let Some(name) = host {
        return Some(Route::PortByHost { sandbox: name.sandbox.clone(), port: name.port });
    }
    if let Some(id) = sandbox_header {
        return Some(Route::E2bData(id.to_string()));
    }
    let path = uri.path();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let found = match parts.as_slice() {
        ["readyz"] => Some(Route::Ready),
        ["v1", rest @ ..] => of_api(method, reads, path, rest),
        ["v2", rest @ ..] => of_e2b(method, reads, rest),
        rest => of_e2b(method, reads, rest),
    };
    found.or_else(|| refused::of(&parts).map(|(operation, e2b)| Route::Refused { operation, e2b }))
}

fn of_api(method: &Method, reads: bool, path: &str, parts: &[&str]) -> Option<Route> {
    match parts {
        ["sandboxes"] if *method == Method::POST => Some(Route::Create),
        ["sandboxes"] if reads => Some(Route::Sandboxes),
        ["sandboxes", id, "ports", port, ..] if !(parts.len() == 4 && *port == "sign") => {
            Some(by_path(path, id))
        }
        ["sandboxes", id, ..] => Some(Route::Sandbox(decoded(id))),
        ["snapshots"] if reads => Some(Route::Snapshots),
        ["snapshots", id, ..] => Some(Route::Snapshot(decoded(id))),
        ["signed", right] => Some(Route::Signed(decoded(right))),
        ["events"] if reads => Some(Route::Events),
        ["nodes"] if reads => Some(Route::Nodes),
        ["nodes", node, "cordon"] if *method == Method::POST => {
            Some(Route::Cordon { node: decoded(node), take_new: false })
        }
        ["nodes", node, "uncordon"] if *method == Method::POST => {
            Some(Route::Cordon { node: decoded(node), take_new: true })
        }
        ["server"] if reads => Some(Route::Server),
        _ => None,
    }
}

fn of_e2b(method: &Method, reads: bool, parts: &[&str]) -> Option<Route> {
    match parts {
        ["sandboxes"] if *method == Method::POST => Some(Route::E2bCreate),
        ["sandboxes"] if reads => Some(Route::E2bSandboxes),
        // Of all sandboxes together, which the dialect refuses by its name.
        ["sandboxes", "metrics"] => None,
        ["sandboxes", id, ..] => Some(Route::E2bSandbox(decoded(id))),
        ["snapshots"] if reads => Some(Route::E2bSnapshots),
        _ => None,
    }
}

/// `/v1/sandboxes/{id}/ports/{port}/{rest}`
fn by_path(path: &str, id: &str) -> Route {
    let rest = path.splitn(7, '/').nth(6);
    let prefix = path[..path.len() - rest.map_or(0, |rest| rest.len() + 1)].to_string();
    Route::PortByPath { sandbox: decoded(id), prefix, rest: format!("/{}", rest.unwrap_or_default()) }
}

/// A part that is not UTF-8 is nobody's id; the node says so.
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &str, target: &str) -> Option<Route> {
        route(&method.parse().expect("a method"), &target.parse().expect("a target"), None, None)
    }

    #[test]
    fn sandboxes_are_the_gateways() {
        let sandbox = |id: &str| Some(Route::Sandbox(id.into()));
        assert_eq!(of("POST", "/v1/sandboxes"), Some(Route::Create));
        assert_eq!(of("GET", "/v1/sandboxes?limit=3"), Some(Route::Sandboxes));
        assert_eq!(of("DELETE", "/v1/sandboxes/my%20box"), sandbox("my box"));
        assert_eq!(of("POST", "/v1/sandboxes/a/execs/3/stdin"), sandbox("a"));
        assert_eq!(of("POST", "/v1/sandboxes/a/ports/sign"), sandbox("a"));
        assert_eq!(of("GET", "/v1/snapshots"), Some(Route::Snapshots));
        assert_eq!(of("DELETE", "/v1/snapshots/sn-1"), Some(Route::Snapshot("sn-1".into())));
        assert_eq!(
            of("POST", "/v1/nodes/7/cordon"),
            Some(Route::Cordon { node: "7".into(), take_new: false })
        );
        assert_eq!(of("POST", "/v2/sandboxes"), Some(Route::E2bCreate));
        assert_eq!(of("POST", "/v2/sandboxes/a/connect"), Some(Route::E2bSandbox("a".into())));
        assert_eq!(of("GET", "/sandboxes/a"), Some(Route::E2bSandbox("a".into())));
        assert_eq!(of("GET", "/snapshots?limit=1"), Some(Route::E2bSnapshots));
    }

    #[test]
    fn a_port_keeps_its_path() {
        let port = |rest: &str| {
            let (prefix, sandbox) = ("/v1/sandboxes/a/ports/80".to_string(), "a".to_string());
            Some(Route::PortByPath { sandbox, prefix, rest: rest.into() })
        };
        assert_eq!(of("GET", "/v1/sandboxes/a/ports/80"), port("/"));
        assert_eq!(of("PUT", "/v1/sandboxes/a/ports/80/x/%2e//y?z"), port("/x/%2e//y"));
        let name = PortName { port: 80, sandbox: "sb-1".into() };
        let found = route(&Method::GET, &Uri::from_static("/v1/tokens"), Some(&name), Some("sb-2"));
        assert_eq!(found, Some(Route::PortByHost { sandbox: "sb-1".into(), port: 80 }));
        let found = route(&Method::POST, &Uri::from_static("/process.Process/Start"), None, Some("sb-2"));
        assert_eq!(found, Some(Route::E2bData("sb-2".into())));
    }

    #[test]
    fn the_home_answers_for_itself() {
        for target in [
            "/healthz",
            "/metrics",
            "/docs",
            "/openapi.json",
            "/",
            "/ui/",
            "/ui/assets/app.js",
            "/v1/tokens",
            "/v1/tokens/tk-1",
            "/v1/tenants",
            "/v1/tenants/a/quota",
            "/v1/whoami",
            "/v1/sign-in",
            "/v1/sign-in-codes",
            "/v1/server/stop",
            "/v1/nowhere",
            "/sandboxes/metrics",
        ] {
            assert_eq!(of("GET", target), None, "{target}");
        }
        assert_eq!(of("PUT", "/v1/sandboxes"), None);
    }

    #[test]
    fn what_belongs_to_one_node_is_refused_by_name() {
        for target in [
            "/v1/volumes",
            "/v1/volumes/a/files",
            "/v1/jobs",
            "/v1/pools/x",
            "/v1/templates",
            "/v1/template-builds/b",
            "/v1/template-files/h",
            "/v1/resources",
            "/v1/secrets/s",
            "/v1/verify",
            "/v1/server/load",
            "/v1/node",
            "/v1/node/cordon",
            "/mcp",
            "/mcp/loopstack",
            "/loopstack/tools",
            "/run_code",
            "/run_jupyter",
        ] {
            assert!(matches!(of("POST", target), Some(Route::Refused { e2b: false, .. })), "{target}");
        }
        for target in [
            "/templates",
            "/v2/templates/a",
            "/v3/templates",
            "/volumes/v",
            "/secrets/a/b",
            "/volumecontent/x",
            "/files",
        ] {
            assert!(matches!(of("GET", target), Some(Route::Refused { e2b: true, .. })), "{target}");
        }
    }
}
