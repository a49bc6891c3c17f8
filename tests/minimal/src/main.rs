//! The command of `crates/cli` with one more backend, which no other executable has.

mod backend;

use paddock_backends::Backend;
use std::path::Path;

fn main() {
    std::process::exit(paddock_cli::main_with(backends));
}

fn backends(state: &Path) -> Vec<Box<dyn Backend>> {
    let mut all = paddock_backends::all(state);
    all.push(Box::new(backend::Minimal::new(state)));
    all
}
