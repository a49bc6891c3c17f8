//! `paddock verify`: attacks on this host's own sandboxes, and their results.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::verify::VerifyArgs;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::{render, state};
use paddock_model::api::VerifyResults;
use paddock_records::verified;
use paddock_verify::{Options, Report, Step};
use std::io;

pub fn execute(args: VerifyArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    if args.last {
        return show_last(args.json, caller);
    }
    let executable = std::env::current_exe().map_err(CommandError::OwnFile)?;
    let options =
        Options { executable, backends: args.backend, only: args.group.clone(), ..Options::default() };
    let terminal = caller.terminals.stderr;
    let mut progress = Progress { row: String::new(), terminal };
    let report = paddock_verify::verify(&options, &mut |step| progress.show(&step, caller));
    progress.clear(caller);
    let report = report?;
    if let Err(error) = keep(&report, &args.group, caller) {
        let _ = writeln!(
            caller.stderr,
            "paddock: this result is not kept for `--last` and the dashboard: {error}"
        );
    }
    if args.json {
        print_json(&report, caller)?;
    } else {
        print(&report.text(caller.colour_on_stdout()), caller)?;
    }
    Ok(if report.held { 0 } else { 1 })
}

/// For the server of the same state directory. A result that cannot be kept is shown all the same.
fn keep(report: &Report, only: &[String], caller: &Caller) -> io::Result<()> {
    let state_dir = state::prepare(&caller.environment).map_err(io::Error::other)?;
    let results = report.results(env!("CARGO_PKG_VERSION"), only);
    results.iter().try_for_each(|result| verified::keep(&state_dir, result))
}

/// Exit code 1 where something was not held, as in the run itself.
fn show_last(json: bool, caller: &mut Caller) -> Result<i32, CommandError> {
    let kept: VerifyResults =
        with_client(caller, async |client, _| Ok(client.json(Call::get(Target::new("/v1/verify"))).await?))?;
    match json {
        true => print_json(&kept, caller)?,
        false => print(&render::verify::text(&kept, caller.colour_on_stdout()), caller)?,
    }
    let bad = kept.results.iter().any(|result| !result.held && !result.rows.is_empty());
    Ok(if bad { 1 } else { 0 })
}

/// One line that is written over on a terminal; a line per row of the table elsewhere.
struct Progress {
    row: String,
    terminal: bool,
}

impl Progress {
    fn show(&mut self, step: &Step, caller: &mut Caller) {
        let text = match step {
            Step::Controls => "paddock: what the attacks can do without a fence".to_string(),
            Step::Row { name, number, of } => {
                self.row = format!("paddock: {name} ({number} of {of})");
                self.row.clone()
            }
            Step::Attack { id, done, of } if self.terminal => format!("{} {id} {done}/{of}", self.row),
            Step::Attack { .. } => return,
        };
        let text = if self.terminal { format!("\r\u{1b}[K{text}") } else { format!("{text}\n") };
        // A progress line that cannot be written is not an error of the verification.
        let _ = caller.stderr.write_all(text.as_bytes()).and_then(|()| caller.stderr.flush());
    }

    fn clear(&self, caller: &mut Caller) {
        if self.terminal {
            let _ = caller.stderr.write_all(b"\r\x1b[K").and_then(|()| caller.stderr.flush());
        }
    }
}
