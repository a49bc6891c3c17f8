//! Every operation of the dialect, in tables. The routers are made from them, and a door of a sandbox answers no call that is in none:
//! so a new operation is in the list that the tests of tenants and of schemas hold against theirs (`tests/schema/e2b_routes.txt`).

/// Makes the router of some operations, and the list of them that tests look at, from one table.
macro_rules! table {
    ($list:ident, $routes:ident { $($path:expr => { $($method:ident $handler:path),+ })+ }) => {
        #[cfg(test)]
        pub const $list: &[(&str, &str)] = &[$($((stringify!($method), $path)),+),+];

        fn $routes() -> axum::Router<crate::app::App> {
            axum::Router::new()$(.route($path, axum::routing::MethodRouter::new()$(.$method($handler))+))+
        }
    };
}
pub(super) use table;

/// The calls about processes: `POST /process.Process/NAME`.
const PROCESS: &[&str] =
    &["CloseStdin", "Connect", "List", "SendInput", "SendSignal", "Start", "StreamInput", "Update"];
/// The calls about files: `POST /filesystem.Filesystem/NAME`.
const FILESYSTEM: &[&str] = &[
    "CreateWatcher",
    "GetWatcherEvents",
    "ListDir",
    "MakeDir",
    "Move",
    "Remove",
    "RemoveWatcher",
    "Stat",
    "WatchDir",
];
/// What E2B's agent in a sandbox answers besides.
const AGENT: &[(&str, &str)] = &[("get", "/health"), ("get", "/files"), ("post", "/files")];
const CODE_INTERPRETER: &[(&str, &str)] = &[
    ("get", "/health"),
    ("post", "/execute"),
    ("post", "/contexts"),
    ("get", "/contexts"),
    ("delete", "/contexts/{id}"),
    ("post", "/contexts/{id}/restart"),
];

/// The name of this call about processes, empty if there is none of this name.
pub fn process_call(name: &str) -> &str {
    listed(PROCESS, name)
}

pub fn filesystem_call(name: &str) -> &str {
    listed(FILESYSTEM, name)
}

/// True for an operation of E2B's agent.
pub fn is_of_agent(method: &str, path: &str) -> bool {
    AGENT.iter().any(|route| answers(*route, method, path))
}

pub fn is_of_code_interpreter(method: &str, path: &str) -> bool {
    CODE_INTERPRETER.iter().any(|route| answers(*route, method, path))
}

fn listed<'a>(all: &[&str], name: &'a str) -> &'a str {
    if all.contains(&name) { name } else { "" }
}

/// A part of the route in braces stands for any part of a path.
fn answers((of, route): (&str, &str), method: &str, path: &str) -> bool {
    let (route, path): (Vec<&str>, Vec<&str>) = (route.split('/').collect(), path.split('/').collect());
    let alike = |(part, given): (&&str, &&str)| part.starts_with('{') || part == given;
    method.eq_ignore_ascii_case(of) && route.len() == path.len() && route.iter().zip(&path).all(alike)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::e2b::{KEYED, OPEN, volume_content};
    use std::collections::BTreeSet;

    /// `METHOD PATH` in each line, in the order of the alphabet. Operations that share both are one line.
    fn all() -> String {
        let of_control = KEYED.iter().chain(OPEN).chain(volume_content::FILES);
        let routes = of_control.chain(AGENT).chain(CODE_INTERPRETER);
        let routes = routes.map(|(method, path)| format!("{} {path}", method.to_ascii_uppercase()));
        let processes = PROCESS.iter().map(|name| format!("POST /process.Process/{name}"));
        let files = FILESYSTEM.iter().map(|name| format!("POST /filesystem.Filesystem/{name}"));
        let lines: BTreeSet<String> = routes.chain(processes).chain(files).collect();
        lines.into_iter().map(|line| line + "\n").collect()
    }

    #[test]
    fn the_committed_list_is_the_one_of_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/schema/e2b_routes.txt");
        if std::env::var_os("PADDOCK_WRITE_SPEC").is_some() {
            std::fs::write(path, all()).expect("writes");
        }
        assert_eq!(
            std::fs::read_to_string(path).unwrap_or_default(),
            all(),
            "tests/schema/e2b_routes.txt is not what the code says: PADDOCK_WRITE_SPEC=1 cargo test -p paddock-server committed_list"
        );
    }

    #[test]
    fn what_is_in_no_table_is_not_answered() {
        for (method, path) in
            [("GET", "/contexts"), ("DELETE", "/contexts/a"), ("POST", "/contexts/a/restart")]
        {
            assert!(is_of_code_interpreter(method, path), "{method} {path}");
        }
        for (method, path) in [
            ("PUT", "/contexts"),
            ("DELETE", "/contexts"),
            ("POST", "/contexts/a/b/restart"),
            ("GET", "/files"),
        ] {
            assert!(!is_of_code_interpreter(method, path), "{method} {path}");
        }
        assert!(is_of_agent("GET", "/files") && !is_of_agent("PUT", "/files"));
        assert_eq!(
            (process_call("Start"), process_call("start"), filesystem_call("Start")),
            ("Start", "", "")
        );
    }
}
