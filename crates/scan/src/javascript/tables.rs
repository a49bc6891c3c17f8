//! The rules for JavaScript and TypeScript. Modules are written without `node:`, with `.` for `/`.

use crate::rules::{Rule, Rules};
use paddock_model::FindingKind;

/// Other names of the object that has everything global.
pub const GLOBAL_OBJECTS: [&str; 4] = ["globalThis", "global", "window", "self"];
/// Globals that fetch the module that they are called with; the second is the runner's own.
pub const FETCHERS: [&str; 2] = ["globalThis.require", "globalThis.importModule"];
/// Global names that rules are about.
pub const GLOBALS: [&str; 13] = [
    "importModule",
    "eval",
    "Function",
    "fetch",
    "WebSocket",
    "XMLHttpRequest",
    "EventSource",
    "process",
    "require",
    "module",
    "setTimeout",
    "setInterval",
    "setImmediate",
];

/// Functions of `fs` that take two paths. In the others the first argument is the path, and content or options follow.
pub const TAKES_TWO: [&str; 10] = [
    "copyFile",
    "copyFileSync",
    "rename",
    "renameSync",
    "link",
    "linkSync",
    "symlink",
    "symlinkSync",
    "cp",
    "cpSync",
];

pub fn rules() -> Rules {
    Rules::new(&[
        (Rule::Mention(FindingKind::Subprocess), SUBPROCESS),
        (Rule::Mention(FindingKind::Socket), SOCKET),
        (Rule::Mention(FindingKind::EvalExec), EVAL_EXEC),
        (Rule::Call(FindingKind::EvalExec), &["globalThis.Function"]),
        (
            Rule::CallWithText(FindingKind::EvalExec),
            &[
                "globalThis.setTimeout",
                "globalThis.setInterval",
                "globalThis.setImmediate",
                "timers.setTimeout",
            ],
        ),
        (Rule::Mention(FindingKind::DynamicImport), DYNAMIC_IMPORT),
        (Rule::TakesPaths, &["fs", "fs-extra", "graceful-fs", "globalThis.process.chdir"]),
    ])
}

const SUBPROCESS: &[&str] =
    &["child_process", "cluster", "worker_threads", "execa", "cross-spawn", "shelljs", "node-pty", "zx"];

const SOCKET: &[&str] = &[
    "net",
    "tls",
    "dgram",
    "http",
    "https",
    "http2",
    "dns",
    "undici",
    "axios",
    "node-fetch",
    "ws",
    "got",
    "superagent",
    "request",
    "needle",
    "ssh2",
    "socket.io",
    "socket.io-client",
    "nodemailer",
    "globalThis.fetch",
    "globalThis.WebSocket",
    "globalThis.XMLHttpRequest",
    "globalThis.EventSource",
];

const EVAL_EXEC: &[&str] = &[
    "vm",
    "repl",
    "inspector",
    "vm2",
    "isolated-vm",
    "globalThis.eval",
    "globalThis.process.binding",
    "globalThis.process._linkedBinding",
    "globalThis.process.dlopen",
];

const DYNAMIC_IMPORT: &[&str] = &[
    "module.createRequire",
    "module.register",
    "module.registerHooks",
    "module._load",
    "globalThis.module.require",
    "globalThis.process.mainModule",
    "globalThis.process.getBuiltinModule",
    "globalThis.require.cache",
    "globalThis.require.extensions",
];
