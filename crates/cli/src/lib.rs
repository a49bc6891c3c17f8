//! The `paddock` command: raw arguments -> resolved settings -> one action.
//!
//! - [`layers`]: template, policy file and flags, each turned into one layer of settings
//! - [`commands`]: one file per command
//! - [`session`]: one sandbox from start to end
//! - [`agent`]: a model that works in a sandbox, from its settings to its end
//! - [`script`]: a file with annotations, in a sandbox of the server
//! - [`job`]: a job, from its file to its end
//! - [`shield`]: a fence around a coding agent, and the account of its actions
//! - [`env_file`]: variables from a file
//! - [`head_start`]: the part of a sandbox that can begin before the arguments are understood
//! - [`explain`]: the settings of a run, and what its sandbox would guarantee
//!
//! The arguments are a crate of their own, and so are the caller (`paddock_terminal`) and the way to a server (`paddock_remote`). Their modules
//! are named at the root here, as those of this crate are.

mod agent;
mod commands;
mod env_file;
mod explain;
mod head_start;
mod job;
mod layers;
mod script;
mod session;
mod shield;

pub use caller::{Caller, Environment, Terminals};

use paddock_arguments as args;
use paddock_engine::FindBackends;
use paddock_remote::{client, copy, live, once};
use paddock_terminal::{caller, env_vars, render, state};
use std::ffi::OsString;

/// The whole program: real arguments, real streams. Returns the exit code.
pub fn main() -> i32 {
    main_with(paddock_engine::backends_of_this_build)
}

/// The same program with other backends.
pub fn main_with(backends: FindBackends) -> i32 {
    prepare_process();
    paddock_engine::serve_as_janitor_if_asked();
    paddock_scan::serve_if_asked();
    paddock_verify::serve_if_asked();
    let mut stdin = std::io::stdin();
    let mut stdout = std::io::stdout();
    let mut stderr = std::io::stderr();
    let mut caller = Caller {
        environment: std::env::vars_os().collect(),
        terminals: Terminals::of_this_process(),
        backends,
        stdin: &mut stdin,
        stdout: &mut stdout,
        stderr: &mut stderr,
    };
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let _head_start = head_start::begin(&arguments, &caller.environment);
    run(arguments, &mut caller)
}

/// Does the work of the Rust runtime: a closed standard stream must not become the number of another file, and a reader
/// that went away is an error of a write, not our end.
fn prepare_process() {
    for number in 0..3 {
        // SAFETY: plain system calls on numbers. The lowest free number is taken, which is the closed one.
        unsafe {
            if libc::fcntl(number, libc::F_GETFD) == -1 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
        }
    }
    // SAFETY: SIG_IGN is always a valid disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// One call of `paddock`. The first of `arguments` is the program's own name. Returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>, caller: &mut Caller) -> i32 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = match args::parse(&arguments) {
        Ok(command) => command,
        Err(stop) => return stop.print(caller),
    };
    let failure_code = command.failure_code();
    let code = commands::execute(command, caller).unwrap_or_else(|error| {
        render::error::print(&error, error.hint().as_deref(), caller);
        failure_code
    });
    // An error of a full pipe or disk at this point cannot be told anywhere.
    let _ = caller.stdout.flush();
    code
}
