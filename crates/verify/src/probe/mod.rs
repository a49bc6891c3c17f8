//! The half that runs inside: `paddock` itself, mounted read-only and started with [`PROBE`] as its first argument.
//! `ID` carries out one attack in this very process; `--batch ID,ID` each in a child of its own, so that one that is
//! killed does not take the others along.
//!
//! Each attack answers with one line of JSON on stdout.

mod arch;
mod calls;
mod filesystem;
mod gate;
mod gate_fronts;
mod kernel;
mod leaks;
mod memory;
mod network;
mod own;
mod process;
mod protected;
mod resources;
mod system;
mod system_files;
mod throw_away;

pub use gate_fronts::REACHED;

use crate::attack::{Attack, Deed, Finding, Line, Outcome};
pub use memory::AT_ONCE;
use std::io::Write;

/// Longest that one attack of a batch may take.
const PATIENCE_SECONDS: u32 = 10;

pub fn attacks() -> impl Iterator<Item = &'static Attack> {
    [
        filesystem::ATTACKS,
        protected::ATTACKS,
        process::ATTACKS,
        kernel::ATTACKS,
        calls::ATTACKS,
        arch::ATTACKS,
        network::ATTACKS,
        system_files::ATTACKS,
        resources::ATTACKS,
        leaks::ATTACKS,
    ]
    .into_iter()
    .flatten()
    .chain(own::attacks())
}

/// The first argument of an executable that is to be the probe.
pub const PROBE: &str = "--verify-probe";

/// Is the probe, and never comes back, if the command line says so; costs one comparison if not.
pub fn serve_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|word| word != PROBE) {
        return;
    }
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    std::process::exit(probe(&words))
}

fn probe(words: &[&str]) -> i32 {
    match words {
        ["--throw-away", scratch, rest @ ..] => throw_away::run(scratch, || with_descriptor(rest)),
        ["--with-descriptor", rest @ ..] => with_descriptor(rest),
        ["--batch", ids] => {
            // Read now: an attack may take away the way to read them.
            system::fact("place");
            for id in ids.split(',') {
                in_child(id);
            }
            0
        }
        ["--privileges"] => {
            println!("{}", filesystem::privileges());
            0
        }
        ["--do", part, rest @ ..] => resources::part(part, rest),
        [id] => {
            say(id, &carry_out(id));
            0
        }
        _ => {
            eprintln!(
                "{PROBE} is what `paddock verify` starts in a sandbox: ID | --batch ID,ID | --do PART [ARGUMENT]"
            );
            2
        }
    }
}

/// Outside, a descriptor of a directory is open, as it is around the sandbox: there it can be found.
fn with_descriptor(words: &[&str]) -> i32 {
    let root = system::text("/");
    let (at, flags) = (i64::from(libc::AT_FDCWD), i64::from(libc::O_PATH | libc::O_DIRECTORY));
    // It stays open until the end; where it cannot be opened the attacks on it say so.
    let _ = system::call(libc::SYS_openat, [at, root.as_ptr() as i64, flags, 0, 0, 0]);
    probe(words)
}

fn carry_out(id: &str) -> Finding {
    let Some(attack) = attacks().find(|a| a.id == id) else {
        return Finding::new(Outcome::Error, "no such attack");
    };
    match attack.deed {
        Deed::Plain(run) => run(),
        Deed::Text(run, argument) => run(argument),
        Deed::Number(run, argument) => run(argument),
        Deed::Call(number, arguments) => Finding::reached(system::call(number, arguments), "the call"),
    }
}

fn in_child(id: &str) {
    let child = system::fork(|| {
        system::alarm(PATIENCE_SECONDS);
        say(id, &carry_out(id));
        0
    });
    let finding = match child.and_then(system::wait) {
        Ok(system::End::Exited(0)) => return,
        Ok(system::End::Exited(code)) => {
            Finding::new(Outcome::Error, format!("the probe exited with {code}"))
        }
        Ok(system::End::Killed(libc::SIGSYS)) => Finding::new(Outcome::Denied, "killed by SIGSYS"),
        Ok(system::End::Killed(libc::SIGKILL)) => Finding::new(Outcome::Bounded, "killed by SIGKILL"),
        Ok(system::End::Killed(signal)) => Finding::new(Outcome::Error, format!("killed by signal {signal}")),
        Err(error) => Finding::new(Outcome::Error, format!("fork: {error}")),
    };
    say(id, &finding);
}

/// One write, so that lines of several processes never mix.
fn say(id: &str, finding: &Finding) {
    let line = Line { attack: id.to_string(), finding: finding.clone() };
    let mut text = serde_json::to_string(&line).unwrap_or_default();
    text.push('\n');
    let mut out = std::io::stdout().lock();
    // If stdout is gone the line is lost; the harness misses it and says so.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
