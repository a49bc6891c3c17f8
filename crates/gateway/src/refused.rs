//! Requests about one node's own things, which cannot be answered for a cluster yet. Each is refused by its name: nothing is done by half.

/// The first parts of paths below `/v1`.
const OF_API: [(&str, &str); 10] = [
    ("volumes", "volumes"),
    ("jobs", "jobs"),
    ("pools", "pools"),
    ("templates", "templates"),
    ("template-builds", "builds of templates"),
    ("template-files", "files for builds of templates"),
    ("resources", "typed values for scripts"),
    ("secrets", "secrets that are kept under a name"),
    ("verify", "the result of `paddock verify`"),
    ("node", "the report of a single node (GET /v1/nodes has all)"),
];

/// The first parts of other paths, and whether E2B's clients ask them.
const OTHERS: [(&str, &str, bool); 11] = [
    ("mcp", "MCP", false),
    ("loopstack", "the tools of Loopstack", false),
    ("run_code", "SandboxFusion's protocol", false),
    ("run_jupyter", "SandboxFusion's protocol", false),
    ("templates", "templates", true),
    ("default-templates", "templates", true),
    ("volumes", "volumes", true),
    ("volumecontent", "files of volumes", true),
    ("secrets", "secrets that are kept under a name", true),
    ("files", "addresses of files that name no sandbox", true),
    ("nodes", "E2B's view of nodes", true),
];

/// The operation for which these parts of a path stand, and true where E2B's clients ask for it. `None`: the home answers.
pub fn of(parts: &[&str]) -> Option<(&'static str, bool)> {
    let (operation, e2b) = match parts {
        ["v1", "server", "load"] => ("the load of one host", false),
        ["v1", first, ..] => (OF_API.iter().find(|(name, _)| name == first)?.1, false),
        ["v2" | "v3", first, ..] | [first, ..] => {
            let (_, operation, e2b) = OTHERS.iter().find(|(name, ..)| name == first)?;
            (*operation, *e2b)
        }
        [] => return None,
    };
    Some((operation, e2b))
}
