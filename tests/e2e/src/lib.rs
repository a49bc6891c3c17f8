//! The `paddock` executable as a person meets it, from outside, on this host. Nothing of Paddock's own crates is linked
//! here; the executable is the one that `PADDOCK_BIN` names, else the one beside the tests.
//!
//! - [`Caller`]: the user that starts Paddock, root or an ordinary user, with a home and a state directory of its own
//! - [`Invocation`], [`Running`], [`Finished`]: one start of it, with deadlines so that a hang is a failure
//! - [`Server`]: a `paddock serve` of such a caller, and commands that talk to it
//! - [`Cluster`]: several of them behind a `paddock gateway`
//! - [`Terminal`]: a pseudo-terminal to run it under
//! - [`images`], [`Registry`], [`Tar`]: root file systems around a static busybox, in every form
//! - [`Outside`]: the servers that stand for the world behind a gate
//! - [`http`], [`Answer`]: the server's API, for answers that no command shows and requests that no client of ours
//!   would send
//! - [`Model`]: a language model that says the test's words, in two wire formats
//! - [`FileSystem`]: a small disk of its own for a state directory, to be filled and made read-only
//! - [`UserNamespace`]: one of the test's own, with limits of its own
//! - [`leftovers`]: the things that a run must not leave behind; looked for after every test
//!
//! Nothing is judged by the clock: a deadline only tells a hang from an answer.

mod caller;
mod cgroups;
mod cluster;
mod executable;
mod file_system;
pub mod http;
pub mod images;
mod invocation;
pub mod leftovers;
mod model;
mod outside;
mod registry;
mod server;
mod tar;
mod terminal;
mod user_namespace;
mod wait;

pub use caller::{Caller, ORDINARY};
pub use cluster::{Cluster, Members, key as gateway_key};
pub use file_system::FileSystem;
pub use http::Answer;
pub use images::sha256;
pub use invocation::{Finished, Invocation, Running, code as exit_code};
pub use model::Model;
pub use outside::Outside;
pub use registry::Registry;
pub use server::Server;
pub use tar::Tar;
pub use terminal::Terminal;
pub use user_namespace::UserNamespace;
pub use wait::{PATIENCE, until};

use anyhow::{Context, Result};

/// A test: it gets a caller, and fails also if that caller's runs leave anything behind.
pub type Test = fn(&Caller) -> Result<()>;

pub fn as_root(name: &str, test: Test) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        skip(name, "the tests do not run as root");
        return Ok(());
    }
    run(&Caller::root()?, test)
}

/// As root, with one backend for all sandboxes of the test.
pub fn as_root_behind(backend: &'static str, name: &str, test: Test) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        skip(name, "the tests do not run as root");
        return Ok(());
    }
    run(&Caller::root()?.behind(backend), test)
}

pub fn as_ordinary_user(_name: &str, test: Test) -> Result<()> {
    run(&Caller::ordinary()?, test)
}

/// Tells why a case does not apply to this host, in a form that a person can search the log for. Written past the
/// capture of the test harness, which hides the output of passing tests.
pub fn skip(name: &str, reason: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "\nSKIP {name}: {reason}");
}

/// The same within a test that goes no further, whose thread has its name.
pub fn skip_rest(reason: &str) {
    skip(std::thread::current().name().unwrap_or("a test"), reason);
}

fn run(caller: &Caller, test: Test) -> Result<()> {
    test(caller)?;
    caller.let_go_of_the_disk();
    leftovers::none_of(caller).context("after the test")
}

/// One test for each kind of caller.
#[macro_export]
macro_rules! for_both_callers {
    ($($name:ident),+ $(,)?) => {
        mod as_root {
            $(#[test]
            fn $name() -> anyhow::Result<()> {
                $crate::as_root(concat!(module_path!(), "::", stringify!($name)), super::$name)
            })+
        }
        mod as_ordinary_user {
            $(#[test]
            fn $name() -> anyhow::Result<()> {
                $crate::as_ordinary_user(concat!(module_path!(), "::", stringify!($name)), super::$name)
            })+
        }
    };
}
